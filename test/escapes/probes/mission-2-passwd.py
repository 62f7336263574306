# expect: contained
# kind: mission; why: the accounts of the host are not those of the sandbox
accounts = open("/etc/passwd").read()
names = {line.split(":")[0] for line in accounts.splitlines() if line}
strange = names - {"root", "user", "nobody", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp",
                   "proxy", "www-data", "backup", "list", "irc", "gnats", "_apt", "systemd-network", "messagebus"}
try:
    open("/etc/shadow").read()
    print("BREACH: /etc/shadow can be read")
except OSError:
    print("BREACH: accounts %s" % sorted(strange) if strange else "CONTAINED")
