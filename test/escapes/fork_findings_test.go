// SPDX-License-Identifier: Apache-2.0

package escapes_test

import (
	"io"
	"strings"
	"testing"

	"glovebox/internal/sandbox"
)

// inherited says what a forked session has of the process that it was forked from, and what it should not have.
const inherited = `
import atexit, contextvars, gc, linecache, os, signal, sys, threading, warnings
found = []
main = sorted(name for name in vars(sys.modules["__main__"]) if not name.startswith("__"))
if set(main) - set("atexit contextvars gc linecache os signal sys threading warnings found".split()): found.append(("names", main))
if [name for name in linecache.cache if "rehears" in name]: found.append(("lines", list(linecache.cache)))
if "_" in globals(): found.append("_")
open_files = sorted(d for d in map(int, os.listdir("/proc/self/fd")) if d > 3 and os.path.exists("/proc/self/fd/%d" % d))
if open_files: found.append(("descriptors", [os.readlink("/proc/self/fd/%d" % d) for d in open_files]))
if os.readlink("/proc/self/fd/3").startswith("/dev"): found.append("the channel is still the stand-in")
odd = [n for n in range(1, signal.NSIG) if n not in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGKILL, signal.SIGSTOP, 32, 33)
       and signal.getsignal(n) not in (signal.SIG_DFL, None)]
if odd: found.append(("handlers", odd))
if signal.set_wakeup_fd(-1) != -1: found.append("wake-up")
if signal.pthread_sigmask(signal.SIG_BLOCK, []): found.append("blocked signals")
if threading.active_count() != 1 or threading.current_thread() is not threading.main_thread(): found.append("threads")
values = {v.name: value for v, value in contextvars.copy_context().items()}
if set(values) - {"glovebox_cell", "decimal_context", "current_context"}: found.append(("context", values))
import glovebox.audit
if glovebox.audit._told: found.append("told")
import matplotlib.pyplot
if matplotlib.pyplot.get_fignums(): found.append("figures")
for name in ("os", "sys", "json"):
    if [p for p in sys.path if p.startswith("/usr/lib/glovebox")]: found.append("path")
secrets = [key for key in os.environ if "GLOVEBOX" in key or "TOKEN" in key]
if secrets: found.append(secrets)
print("BREACH:" if found else "CONTAINED", found)
`

// TestForksInheritNothing: the session that a zygote made and rehearsed leaves nothing in those that are forked from it.
func TestForksInheritNothing(t *testing.T) {
	b := newNative(t)
	for range 2 {
		_, session := openBox(t, b, sandbox.WarmPlain, wallLimit)
		if r := cell(t, session, inherited, wallLimit, false, nil); !strings.Contains(r.stdout.String(), "CONTAINED []") {
			t.Errorf("end %s (%s), %q", r.End, r.Detail, r.stdout.String())
		}
	}
}

// vandal changes whatever its siblings were forked with, by every means that a process has.
const vandal = `
import builtins, ctypes, gc, json, os, random, signal, sys
gc.unfreeze(); gc.enable(); gc.set_threshold(1); gc.collect()
import numpy, pandas
for module in (json, numpy, pandas, random):
    for name in list(vars(module)):
        if not name.startswith("__"):
            try: setattr(module, name, "vandal")
            except Exception: pass
for item in gc.get_objects()[:20000]:  # counts of what is shared, back to what can be freed
    if type(item) in (dict, list, set) and len(item) < 4:
        ctypes.c_uint32.from_address(id(item)).value = 1
for value in (1, 7, 255): ctypes.c_int64.from_address(id(value) + 24).value = 13
interned = sys.intern("print"); ctypes.memmove(id(interned) + 40, b"vanda", 5)
sys.modules.clear(); builtins.print = None; sys.audit = None
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except Exception: pass
for target in (0, -1, os.getppid()):
    try: os.kill(target, 9) if target else None
    except OSError: pass
os.write(1, b"wrecked\n")
ctypes.string_at(0)
`

// TestVandalAmongForks: a session that wrecks all it was forked with, immortal objects too, changes nothing for the next one.
func TestVandalAmongForks(t *testing.T) {
	b := newNative(t)
	for n := range 3 {
		_, victim := openBox(t, b, sandbox.WarmPlain, wallLimit)
		_, session := openBox(t, b, sandbox.WarmPlain, wallLimit)
		if r := cell(t, session, vandal, wallLimit, true, nil); r.End == sandbox.EndInfra {
			t.Errorf("round %d: the vandal's end is %s (%s)", n, r.End, r.Detail)
		}
		const check = "import json, random, numpy, pandas\nprint(json.dumps([1, 7, 255]), pandas.DataFrame({'a': [1, 7]}).a.sum(), numpy.ones(3).sum())"
		_, later := openBox(t, b, sandbox.WarmPlain, wallLimit)
		for name, other := range map[string]sandbox.Session{"a session beside it": victim, "a later one": later} {
			if r := cell(t, other, check, wallLimit, false, nil); r.stdout.String() != "[1, 7, 255] 8 3.0\n" {
				t.Errorf("round %d, %s: end %s (%s), %q", n, name, r.End, r.Detail, r.stdout.String())
			}
		}
	}
}

// TestStrictAccountsByTheWay: what is not user code, and yet works for it, reads the accounts of a strict sandbox neither: the
// file server, and plain programs, beside a started session and a forked one.
func TestStrictAccountsByTheWay(t *testing.T) {
	b := newNative(t)
	for _, warm := range []sandbox.Warmth{sandbox.WarmNone, sandbox.WarmPlain} {
		box := lease(t, b, sandbox.ProfileStrict, warm, wallLimit)
		if _, err := openSession(t, box).Exec(t.Context(), sandbox.Code{Source: "import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/', 'root')", Name: "c.py", Wall: wallLimit}, func(sandbox.Event) {}); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/etc/passwd", "/etc/group", "/home/user/link", "/home/user/root/etc/passwd", "/proc/self/root/etc/passwd", "/etc/../etc/passwd"} {
			content := ""
			if reader, err := box.Files().Get(t.Context(), path, 0); err == nil {
				whole, _ := io.ReadAll(reader)
				content = string(whole)
				_ = reader.Close()
			}
			if content != "" {
				t.Errorf("warm %v: the file server gives %s: %q", warm, path, content)
			}
		}
		for _, args := range [][]string{{"/bin/cat", "/etc/passwd"}, {"/usr/bin/getent", "passwd", "root"}, {"/bin/cp", "/etc/group", "/tmp/x"}} {
			process, err := box.Start(t.Context(), sandbox.Command{Args: args, Wall: wallLimit})
			if err != nil {
				t.Fatal(err)
			}
			result, err := process.Wait(t.Context())
			if err != nil || result.End == sandbox.EndOK {
				t.Errorf("warm %v: %v ended with %s, %v", warm, args, result.End, err)
			}
		}
	}
}
