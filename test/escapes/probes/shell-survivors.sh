# expect: contained
# kind: persistence; why: nothing that a script detached lives on, or leaves a mark for the next sandbox
[[ -e /tmp/mark || -e /dev/shm/mark || -e /home/user/mark ]] && echo "BREACH: a mark of the last run"
for name in /proc/[0-9]*/cmdline; do
  [[ $(tr '\0' ' ' <$name) == *"sleep 4242"* ]] && echo "BREACH: a process of the last run"
done 2>/dev/null
touch /tmp/mark /dev/shm/mark /home/user/mark
setsid nohup sleep 4242 >/dev/null 2>&1 </dev/null & disown
(trap '' HUP TERM INT QUIT; setsid bash -c 'while :; do sleep 4242; done' &) >/dev/null 2>&1
coproc sleep 4242
(setsid bash -c 'trap "" TERM; exec -a sleepy sleep 4242' & ) </dev/null >/dev/null 2>&1
echo CONTAINED
