# expect: contained
# kind: limit; why: a limit once set cannot be raised, for oneself or another, nor its priority
import os, resource
raised = []
for name in sorted(n for n in dir(resource) if n.startswith("RLIMIT_")):
    number = getattr(resource, name)
    soft, hard = resource.getrlimit(number)
    if hard == resource.RLIM_INFINITY:
        continue
    try:
        resource.setrlimit(number, (hard + 1, hard + 1))
        raised.append(name)
    except (OSError, ValueError):
        pass
for do in (lambda: os.nice(-1), lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
           lambda: open("/proc/self/oom_score_adj", "w").write("-1000") and open("/proc/self/oom_score_adj").read() == "-1000\n" and raised.append("oom_score_adj")):
    try:
        do()
        if do.__code__.co_names[:1] != ("open",):
            raised.append(str(do.__code__.co_names))
    except OSError:
        pass
print("BREACH: %s" % raised if raised else "CONTAINED")
