// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/backend/native"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func warmClass() sandbox.Class {
	c := class()
	c.Warm = sandbox.WarmPlain
	return c
}

// TestConformanceWarm holds boxes with a forked interpreter to the same contract.
func TestConformanceWarm(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Suite{
		New:      func(t *testing.T) sandbox.Backend { t.Helper(); return newBackend(t) },
		Class:    warmClass(),
		Features: sandboxtest.Features{Processes: true, Warm: true},
	})
}

// TestForkedLikeStarted: what a program can see of its own confinement is the same in an interpreter that was forked
// into its box and in one that was started there.
func TestForkedLikeStarted(t *testing.T) {
	const look = `import matplotlib, pandas
import os, resource, signal
alone = os.listdir('/proc/self/task') == [str(os.getpid())] # before it prints: a burst of output has a thread for a while
for line in open('/proc/self/status'):
    if line.split(':')[0] in ('Uid','Gid','Groups','NoNewPrivs','Seccomp','CapInh','CapPrm','CapEff','CapBnd','CapAmb','Threads','SigBlk','SigIgn'):
        print(line.strip())
for name in sorted(n for n in dir(resource) if n.startswith('RLIMIT_')): print(name, resource.getrlimit(getattr(resource, name)))
print(os.getcwd(), os.umask(0o22), os.getsid(0) == os.getpid(), os.getppid() <= 1)
print(sorted(os.environ.items()))
print(os.cpu_count(), os.process_cpu_count())
for fd in range(64):
    try: print(fd, os.readlink(f'/proc/self/fd/{fd}').split(':')[0])
    except OSError: pass
print([l.split(' - ')[1].split()[0] + ' ' + l.split()[4] + ' ' + l.split()[5] for l in open('/proc/self/mountinfo')])
print(os.statvfs('.').f_files, os.uname().nodename, os.path.exists('/sys/kernel'), alone)
for path in '/', '/usr', '/data', '/run', '/dev', '/proc':
    try: open(path + '/x', 'w'); print('wrote', path)
    except OSError as e: print(path, e.errno)
def tried(f, *a):
    try: f(*a); return 'done'
    except OSError as e: return e.errno
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in 165,166,155,161,272,308,101,310,311,321,298,425,426,427,323,248,249,250,175,246,300,303,304,278,240,317,444,446,169,103,170,164,227,447,435,322,428,442:
    ctypes.set_errno(0)
    r = libc.syscall(number, -1, -1, -1, -1, -1, -1)
    print(number, r if r < 0 else 'ok', ctypes.get_errno(), end=';')
`
	b := newBackend(t)
	l := sandboxtest.DefaultLimits()
	started := script(t, lease(t, b, class(), l), l, look)
	forked := script(t, lease(t, b, warmClass(), l), l, look)
	for _, r := range []*ran{started, forked} {
		if r.End != sandbox.EndOK {
			t.Fatalf("end %s: %q %+v", r.End, r.stderr.String(), r.fault)
		}
	}
	want, got := strings.Split(started.stdout.String(), "\n"), strings.Split(forked.stdout.String(), "\n")
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want) || i >= len(got):
			t.Fatalf("%d lines started, %d forked", len(want), len(got))
		case want[i] != got[i]:
			t.Errorf("started: %s\nforked:  %s", want[i], got[i])
		}
	}
}

// TestSiblingsDiffer: what must not be shared by forks of one zygote is not, in twenty of them.
func TestSiblingsDiffer(t *testing.T) {
	const draw = `
import random, uuid, secrets, tempfile, ssl, time, os
import numpy as np
print(random.random())
print(np.random.rand())
print(np.random.default_rng().random())
print(uuid.uuid4())
print(uuid.uuid1())
print(secrets.token_hex())
print(next(tempfile._get_candidate_names()))
print(ssl.RAND_bytes(16).hex())
print(time.time_ns())
print(os.urandom(8).hex())`
	b := newBackend(t)
	l := sandboxtest.DefaultLimits()
	const siblings = 20
	seen := make(map[string]int)
	for n := range siblings {
		r := script(t, lease(t, b, warmClass(), l), l, draw)
		if r.End != sandbox.EndOK {
			t.Fatalf("end %s %+v", r.End, r.fault)
		}
		for kind, line := range slices.Collect(strings.Lines(r.stdout.String())) {
			key := fmt.Sprint(kind, " ", line)
			if other, twice := seen[key]; twice {
				t.Errorf("siblings %d and %d drew the same: %s", other, n, key)
			}
			seen[key] = n
		}
	}
}

// TestKilledZygote: sessions that were forked live on, their ends are still told, and the next one comes from a new
// zygote.
func TestKilledZygote(t *testing.T) {
	b := newBackend(t)
	l := sandboxtest.DefaultLimits()
	before := lease(t, b, warmClass(), l)
	if err := native.KillZygotes(b); err != nil {
		t.Fatal(err)
	}
	after := lease(t, b, warmClass(), l)
	for name, box := range map[string]sandbox.Sandbox{"before": before, "after": after} {
		if r := script(t, box, l, "import os, pandas\nprint('alive', flush=True)\nos._exit(7)"); r.End != sandbox.EndExit || r.ExitCode != 7 {
			t.Errorf("%s: end %s, exit code %d, %q", name, r.End, r.ExitCode, r.stderr.String())
		}
	}
}

// TestStuckZygote: one that does not answer is replaced, and the sessions it forked live on.
func TestStuckZygote(t *testing.T) {
	b := newBackend(t, func(c *native.Config) { c.ForkTimeout = sandboxtest.Patient(3 * time.Second) })
	l := sandboxtest.DefaultLimits()
	before := lease(t, b, warmClass(), l)
	if err := native.SignalZygotes(b, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(t.Context(), newID(), warmClass()); err == nil {
		t.Error("a stopped zygote forked")
	}
	after := lease(t, b, warmClass(), l)
	for name, box := range map[string]sandbox.Sandbox{"before": before, "after": after} {
		if r := script(t, box, l, "print('alive')"); r.End != sandbox.EndOK || r.stdout.String() != "alive\n" {
			t.Errorf("%s: end %s, %q", name, r.End, r.stdout.String())
		}
	}
}

// TestBrokenZygote: one that does not start is an error that names it, and no reason for cold sandboxes to fail.
func TestBrokenZygote(t *testing.T) {
	b := newBackend(t, func(c *native.Config) { c.Zygote = []string{"/usr/bin/python3", "-c", "print('no zygote')"} })
	if _, err := b.Create(t.Context(), newID(), warmClass()); err == nil || !strings.Contains(err.Error(), "zygote") {
		t.Errorf("got %v", err)
	}
	// Cold sandboxes need none.
	l := sandboxtest.DefaultLimits()
	if r := script(t, lease(t, b, class(), l), l, "print(1)"); r.End != sandbox.EndOK {
		t.Errorf("end %s", r.End)
	}
}

// TestThreadsFollowTheLease: numpy has as many threads as the lease has processors, also in an interpreter that was forked
// from one with a single thread; and they work.
func TestThreadsFollowTheLease(t *testing.T) {
	const look = `import numpy, os, threadpoolctl
a = numpy.random.rand(600, 600)
assert numpy.allclose(a @ numpy.linalg.inv(a), numpy.eye(600), atol=1e-6)
print(os.cpu_count(), {pool['num_threads'] for pool in threadpoolctl.threadpool_info() if pool['user_api'] == 'blas'})`
	if runtime.NumCPU() < 2 {
		t.Skip("this machine has one processor: libraries start no more threads than that")
	}
	b := newBackend(t)
	for milli, want := range map[int64]string{1000: "1 {1}\n", 2000: "2 {2}\n"} {
		l := limits(func(l *sandbox.Limits) { l.MilliCPU = milli })
		for warmth, class := range map[string]sandbox.Class{"started": class(), "forked": warmClass()} {
			r := script(t, lease(t, b, class, l), l, look)
			if r.End != sandbox.EndOK || r.stdout.String() != want {
				t.Errorf("%s with %d/1000 processors: end %s, %q, want %q: %s", warmth, milli, r.End, r.stdout.String(), want, r.stderr.String())
			}
		}
	}
}
