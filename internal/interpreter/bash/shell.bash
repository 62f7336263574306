# SPDX-License-Identifier: Apache-2.0
# What the shell of a session knows beside the user's own: how to tell the driver what became of a cell.

# An interrupt ends the cell and not the shell. There is no such jump in a shell that reads a script, so from now on the
# step before every command returns from the function or file that it is in, until only the session's own line is left.
__glovebox_interrupt() {
  __glovebox_interrupted=1
  builtin shopt -s extdebug
  builtin set -T
  builtin trap __glovebox_unwind DEBUG
}

__glovebox_unwind() {
  ((${#FUNCNAME[@]} <= 2)) || [[ ${FUNCNAME[1]} == __glovebox_* ]] || return 2
}

__glovebox_interrupted=
builtin trap __glovebox_interrupt INT

# __glovebox_done STATUS WORD NAME... tells the status of the cell, and the values of variables before it. WORD begins
# every line: what has it not is no answer.
__glovebox_done() {
  builtin local __glovebox_status=$1 __glovebox_word=$2 __glovebox_name
  builtin shift 2
  if [[ $__glovebox_interrupted ]]; then
    builtin trap - DEBUG
    builtin shopt -u extdebug
    builtin set +T
    __glovebox_status=interrupted
    __glovebox_interrupted=
  fi
  for __glovebox_name; do
    __glovebox_value "$__glovebox_name"
  done
  builtin printf '%s done %s\n' "$__glovebox_word" "$__glovebox_status"
}

# __glovebox_value NAME tells a value: its kind, the number of its parts, and the parts, each with a NUL behind it.
__glovebox_value() {
  builtin local -n __glovebox_it=$1
  if ! builtin declare -p "$1" &>/dev/null; then
    builtin printf '%s missing %s 0\n' "$__glovebox_word" "$1"
  elif [[ ${__glovebox_it@a} == *A* || $(builtin declare -p "$1" 2>/dev/null) == "declare -A"* ]]; then
    builtin printf '%s map %s %d\n' "$__glovebox_word" "$1" "$((2 * ${#__glovebox_it[@]}))"
    builtin local __glovebox_key
    for __glovebox_key in "${!__glovebox_it[@]}"; do
      builtin printf '%s\0%s\0' "$__glovebox_key" "${__glovebox_it[$__glovebox_key]}"
    done
  elif [[ $(builtin declare -p "$1" 2>/dev/null) == "declare -a"* ]]; then
    builtin printf '%s list %s %d\n' "$__glovebox_word" "$1" "${#__glovebox_it[@]}"
    ((${#__glovebox_it[@]} == 0)) || builtin printf '%s\0' "${__glovebox_it[@]}"
  else
    builtin printf '%s text %s 1\n%s\0' "$__glovebox_word" "$1" "$__glovebox_it"
  fi
}
