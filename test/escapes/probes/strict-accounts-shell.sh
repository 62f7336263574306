# expect: contained
# kind: boundary; profile: strict; why: the accounts are refused to the shell, its children and its driver's look-ups
found=
note() { [[ $2 == *root:* || $2 == *nobody* || $2 == *nogroup* ]] && found+=" $1"; }
for path in /etc/passwd /etc/group /proc/self/root/etc/passwd /proc/$PPID/root/etc/group; do
  note read "$(<$path)"; mapfile -t lines <$path; note mapfile "${lines[*]}"
  note source "$(. $path 2>&1)"
  for tool in cat tac "head -c 999" "dd if=" "grep ." "sort -m" "awk 1" "sed p" "python3 -c print(open(__import__('sys').argv[1]).read())"; do
    [[ $tool == "dd if=" ]] && note dd "$(dd if=$path status=none)" || note "$tool" "$($tool $path)"
  done
  cp $path /tmp/copy && note cp "$(</tmp/copy)"; ln $path /home/user/link && note ln "$(</home/user/link)"
  chmod 644 $path && found+=" chmod"; mv $path /tmp/ && found+=" mv"; umount $path && found+=" umount"
  : >$path && found+=" write"
done
note getent "$(getent passwd; getent group)"; note compgen "$(compgen -u; compgen -g)"
[[ ~root == "~root" ]] || found+=" tilde"
[[ $(whoami) ]] && found+=" whoami"
[[ $(ls -l /etc/hostname) == *" root "* ]] && found+=" ls"
[[ $found ]] && echo "BREACH:$found" || echo CONTAINED
