# expect: timeout
# kind: resource; why: the classic one takes the sandbox's processes, and its time is over as ever
bomb() { bomb | bomb & }
bomb
while :; do :; done
