# expect: contained
# kind: network; why: the shell's own sockets reach nothing but the sandbox's loopback
found=
for target in tcp/169.254.169.254/80 tcp/1.1.1.1/443 udp/8.8.8.8/53 tcp/10.0.0.1/22 tcp/172.17.0.1/80 tcp/metadata.google.internal/80; do
  (exec 5<>/dev/$target && echo x >&5) 2>/dev/null && found+=" $target"
done
for port in 22 80 443 5432 6379 8080 8787 9000; do
  (exec 5<>/dev/tcp/127.0.0.1/$port) 2>/dev/null && found+=" host's $port"
done
[[ $found ]] && echo "BREACH:$found" || echo CONTAINED
