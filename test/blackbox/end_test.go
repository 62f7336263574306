// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slow is how much longer than stated a case may take on a host that is busy with other things.
const slow = 4

// took fails when work took much longer than the case allows.
func took(t *testing.T, seconds float64, work func()) {
	t.Helper()
	began := time.Now()
	work()
	if most := time.Duration(seconds * slow * float64(time.Second)); time.Since(began) > most {
		t.Errorf("took %v, more than %v", time.Since(began), most)
	}
}

// TestT15RunsShareNothing: what one run sets no other finds.
func TestT15RunsShareNothing(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"variables":   "assert 'v' not in dir(); v = 1",
		"modules":     "import math; assert not hasattr(math, 'v'); math.v = 1",
		"files":       "import os; assert not os.path.exists('v'); open('v','w').close()",
		"temporary":   "import os; assert not os.path.exists('/tmp/v'); open('/tmp/v','w').close()",
		"shm":         "import os; assert not os.path.exists('/dev/shm/v'); open('/dev/shm/v','w').close()",
		"environment": "import os; assert 'V' not in os.environ; os.environ['V'] = '1'",
		"charts":      "import matplotlib.pyplot as plt; assert not plt.get_fignums(); plt.plot([1])",
		"settings":    "import pandas as pd; assert pd.options.display.max_rows == 60; pd.options.display.max_rows = 7",
		"builtins":    "import builtins; assert not hasattr(builtins, 'v'); builtins.v = 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 4 {
				s.run(t, code).ok(t)
			}
		})
	}
	t.Run("random numbers", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for range 6 {
			x := s.run(t, "import random,uuid,numpy,secrets\nprint(random.random(), uuid.uuid4(), numpy.random.rand(), secrets.token_hex())").ok(t)
			for word := range strings.FieldsSeq(x.Stdout) {
				if seen[word] {
					t.Errorf("%s came twice", word)
				}
				seen[word] = true
			}
		}
	})
}

// TestT17Exit: what was printed is kept, and the code is that of the kernel.
func TestT17Exit(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for code, want := range map[string]int{
		"import sys\nprint('a')\nsys.exit(3)":                                           3,
		"print('a')\nexit()":                                                            0,
		"print('a')\nquit(4)":                                                           4,
		"print('a')\nraise SystemExit(5)":                                               5,
		"print('a')\nraise SystemExit":                                                  0,
		"print('a')\nraise SystemExit('a message')":                                     1,
		"import os\nprint('a', flush=True)\nos._exit(6)":                                6,
		"import sys\nprint('a')\nsys.exit(256)":                                         0,
		"import sys\nprint('a')\nsys.exit(-1)":                                          255,
		"import sys\nprint('a')\nsys.exit(None)":                                        0,
		"import sys\nprint('a')\ntry:\n sys.exit(7)\nfinally:\n print('b')":             7,
		"import sys\ndef f(): sys.exit(8)\nprint('a')\nf()":                             8,
		"import atexit,sys\natexit.register(print,'b')\nprint('a')\nsys.exit(9)":        9,
		"import asyncio,sys\nasync def m(): sys.exit(10)\nprint('a')\nasyncio.run(m())": 10,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			took(t, 5, func() {
				x := s.run(t, code)
				if !strings.HasPrefix(x.Stdout, "a\n") || x.ExitCode != want || x.Error != nil {
					t.Errorf("%q, exit code %d, want %d, %v", x.Stdout, x.ExitCode, want, x.Error)
				}
				if ends := []string{"ok", "exit"}; !slices.Contains(ends, x.Status) || want != 0 && x.Status != "exit" {
					t.Errorf("status %s", x.Status)
				}
				if strings.Contains(code, "finally") && x.Stdout != "a\nb\n" || strings.Contains(code, "atexit") && x.Stdout != "a\nb\n" {
					t.Errorf("printed %q", x.Stdout)
				}
				if strings.Contains(code, "message") && !strings.Contains(x.Stderr, "a message") {
					t.Errorf("stderr is %q", x.Stderr)
				}
			})
		})
	}
}

// TestT19Signals: a crash is named, and is the program's and not ours.
func TestT19Signals(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for code, want := range map[string]string{
		"import ctypes\nctypes.string_at(0)":                     "signal 11",
		"import os\nprint('x',flush=True)\nos.abort()":           "signal 6",
		"import os,signal\nos.kill(os.getpid(), signal.SIGKILL)": "signal 9",
		"import os,signal\nos.kill(os.getpid(), signal.SIGTERM)": "signal 15",
		"import ctypes\nctypes.memset(1, 0, 100)":                "signal 11",
		"import faulthandler\nfaulthandler._sigfpe()":            "signal 8",
		"import os,signal\nos.kill(os.getpid(), signal.SIGBUS)":  "signal 7",
		"import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nclass A: __repr__=lambda s: f'{s}'\nimport ctypes\nctypes.string_at(1)": "signal 11",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, code)
			if x.Status != "signal" || !strings.Contains(x.Message, want) {
				t.Errorf("%s: %q, want %s", x.Status, x.Message, want)
			}
		})
	}
	t.Run("recursion", func(t *testing.T) {
		t.Parallel()
		if x := s.run(t, "def f(): f()\nf()"); x.Error == nil || x.Error.Name != "RecursionError" {
			t.Errorf("%s, %v", x.Status, x.Error)
		}
	})
}

// TestT21OutOfMemory: the reason, the limit and the peak are told, and others are unharmed.
func TestT21OutOfMemory(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"bytearray":   "b=[]\nwhile True: b.append(bytearray(64<<20))",
		"list":        "b=[0]\nwhile True: b = b*2",
		"numpy":       "import numpy as np\nb=[]\nwhile True: b.append(np.ones(8<<20))",
		"strings":     "s='x'\nwhile True: s+=s",
		"children":    "import subprocess,sys\np=[subprocess.Popen([sys.executable,'-c','b=bytearray(200<<20);import time;time.sleep(1)']) for _ in range(4)]\n[x.wait() for x in p]",
		"memory file": "import os\nfd=os.memfd_create('x')\nwhile True: os.write(fd,b'1'*(16<<20))",
		"a thread":    "import threading\ndef f():\n b=[]\n while True: b.append(bytearray(32<<20))\nt=threading.Thread(target=f);t.start();t.join()",
		"a table":     "import pandas as pd\ndf=pd.DataFrame({'a':range(10**6)})\nwhile True: df=pd.concat([df,df])",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			took(t, 15, func() {
				x := s.run(t, code, call{"limits": call{"wall": 60, "memory": "512MiB"}})
				if x.Error != nil && (x.Error.Name == "MemoryError" || x.Error.Value == "[Errno 27] File too large") {
					return // the kernel refused in time
				}
				limit := x.Limits["memory"]
				if x.Status != "out_of_memory" && (name != "children" || x.Usage.OOMKills == 0) {
					t.Fatalf("%s: %s %v", x.Status, x.Message, x.Error)
				}
				if !limit.Hit || limit.Value != 512<<20 || x.Usage.MemoryPeak < 300<<20 || x.Usage.MemoryPeak > 600<<20 {
					t.Errorf("%+v, peak %d MiB", limit, x.Usage.MemoryPeak>>20)
				}
				if x.Status == "out_of_memory" && !strings.Contains(x.Message, "512 MiB") {
					t.Errorf("message: %q", x.Message)
				}
			})
			s.alive(t)
		})
	}
}

// TestT23FilesInMemory: what is kept in memory as files is bounded too.
func TestT23FilesInMemory(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for _, path := range []string{"/dev/shm/a", "/tmp/a", "a", "/home/user/b", "/dev/shm/x/y"} {
		for name, code := range map[string]string{
			"whole":     "import os\nos.makedirs(os.path.dirname(%[1]q) or '.', exist_ok=True)\nopen(%[1]q,'wb').write(b'0'*(1<<30))",
			"by pieces": "import os\nos.makedirs(os.path.dirname(%[1]q) or '.', exist_ok=True)\nf=open(%[1]q,'wb',0)\nfor i in range(1024): f.write(b'0'*(1<<20))",
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				t.Parallel()
				x := s.run(t, fmt.Sprintf(code, path), within(60))
				full := x.Error != nil && (x.Error.Name == "MemoryError" || strings.Contains(x.Error.Value, "No space left on device"))
				if !full && x.Status != "out_of_memory" && x.Status != "disk" {
					t.Errorf("%s: %s, %v", x.Status, x.Message, x.Error)
				}
				if x.Usage.MemoryPeak > 600<<20 {
					t.Errorf("peak %d MiB", x.Usage.MemoryPeak>>20)
				}
			})
		}
	}
}

// marked returns a number of seconds that no other process sleeps for.
func marked(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("%d.%d", 60000+os.Getpid(), time.Now().UnixNano())
}

// strays returns the processes of this host whose command line has that word.
func strays(t *testing.T, word string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), word) {
			found = append(found, name)
		}
	}
	return found
}

// TestT29Children: what a program left running neither holds the answer nor survives it.
func TestT29Children(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"a child":          "import subprocess\nsubprocess.Popen(['sleep','%s'])\nprint('done')",
		"its own session":  "import subprocess\nsubprocess.Popen(['sleep','%s'],start_new_session=True)\nprint('done')",
		"a daemon":         "import os\nif os.fork()==0:\n os.setsid()\n if os.fork()==0: os.execvp('sleep',['sleep','%s'])\n os._exit(0)\nprint('done')",
		"a shell's":        "import subprocess\nsubprocess.run('nohup sleep %s >/dev/null 2>&1 &',shell=True)\nprint('done')",
		"deaf to signals":  "import subprocess\nsubprocess.Popen(['sh','-c','trap \"\" TERM INT HUP; sleep %s'])\nprint('done')",
		"with our output":  "import os\nif os.fork()==0: os.execvp('sleep',['sleep','%s'])\nprint('done')",
		"after an error":   "import subprocess\nsubprocess.Popen(['sleep','%s'])\nprint('done')\n1/0",
		"after os._exit":   "import subprocess,os\nsubprocess.Popen(['sleep','%s'])\nprint('done',flush=True)\nos._exit(0)",
		"after a crash":    "import subprocess,ctypes\nsubprocess.Popen(['sleep','%s'])\nprint('done',flush=True)\nctypes.string_at(0)",
		"several":          "import subprocess\nfor _ in range(10): subprocess.Popen(['sleep','%s'])\nprint('done')",
		"by a magic":       "!sleep %s &\nprint('done')",
		"within a magic":   "!(sleep %s &); true\nprint('done')",
		"a grandchild too": "import subprocess\nsubprocess.Popen(['sh','-c','sleep %s & sleep 1000'])\nprint('done')",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := marked(t)
			took(t, 5, func() {
				if x := s.run(t, fmt.Sprintf(code, mark), within(30)); x.Stdout != "done\n" || x.Status == "wall_timeout" {
					t.Errorf("%s: %q, %v", x.Status, x.Stdout, x.Error)
				}
			})
			if left := strays(t, mark); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestT31Timeout: the limit ends everything, at its time.
func TestT31Timeout(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"loop":            "while True: pass",
		"C loop":          "sum(range(10**12))",
		"sleep":           "import time\ntime.sleep(1000)",
		"pattern":         "import re\nre.match('(a+)+$','a'*40+'b')",
		"great power":     "x=7\nwhile True: x=x**3",
		"deaf":            "import signal\nfor n in (2,15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
		"catches all":     "while True:\n try:\n  while True: pass\n except BaseException: pass",
		"threads":         "import threading\ndef f():\n while True: pass\nfor _ in range(8): threading.Thread(target=f).start()",
		"a child":         "import subprocess\nsubprocess.run(['sh','-c','while :; do :; done'])",
		"await":           "import asyncio\nawait asyncio.sleep(1000)",
		"numpy":           "import numpy as np\na=np.ones((2000,2000))\nwhile True: a@a",
		"a lock":          "import threading\nl=threading.Lock()\nl.acquire()\nl.acquire()",
		"a pipe":          "import os\nr,w=os.pipe()\nos.read(r,1)",
		"at the end":      "import atexit,time\natexit.register(time.sleep,1000)\nprint('kept')",
		"in a destructor": "import time\nclass A:\n def __del__(self): time.sleep(1000)\na=A()\nprint('kept')",
		"in a repr":       "import time\nclass A:\n def __repr__(self): time.sleep(1000)\nprint('kept')\nA()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wall := 1
			if name == "loop" {
				wall = 2 // as in the collection
			}
			x := s.run(t, "print('begun', flush=True)\n"+code, call{"limits": call{"wall": wall}})
			if x.Status != "wall_timeout" || !strings.Contains(x.Message, fmt.Sprintf("%ds", wall)) || !x.Limits["wall"].Hit {
				t.Errorf("%s: %s, %v", x.Status, x.Message, x.Error)
			}
			if x.Usage.Wall < float64(wall) || x.Usage.Wall > 3*slow {
				t.Errorf("ended after %.1f s", x.Usage.Wall)
			}
			if !strings.HasPrefix(x.Stdout, "begun\n") || strings.Contains(code, "kept") && !strings.Contains(x.Stdout, "kept") {
				t.Errorf("printed %q", x.Stdout)
			}
		})
	}
	t.Run("processor time", func(t *testing.T) {
		t.Parallel()
		if x := s.run(t, "while True: pass", call{"limits": call{"wall": 60, "cpu_time": 1}}); x.Status != "cpu_timeout" || !x.Limits["cpu_time"].Hit {
			t.Errorf("%s: %s", x.Status, x.Message)
		}
	})
}

// TestT33LateOutput: threads of a one-shot run are waited for, and what they print is in its record.
func TestT33LateOutput(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	s.run(t, "import threading,time\ndef f():\n time.sleep(0.3); print('A2')\nthreading.Thread(target=f).start()\nprint('A')").says(t, "A\nA2")
	s.run(t, "import threading,time\nthreading.Thread(target=lambda: (time.sleep(600), print('A2')), daemon=True).start()\nprint('A')").says(t, "A")
}

// TestT35EventLoops: asyncio works in every way that people write.
func TestT35EventLoops(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	const define = "import asyncio\nasync def m():\n await asyncio.sleep(0)\n return 5\n"
	for name, code := range map[string]string{
		"run":            "print(asyncio.run(m()))",
		"await":          "print(await m())",
		"both":           "await m()\nprint(asyncio.run(m()))",
		"a loop":         "l=asyncio.new_event_loop()\nprint(l.run_until_complete(m()))\nl.close()",
		"a runner":       "with asyncio.Runner() as r: print(r.run(m()))",
		"in a function":  "def f(): return asyncio.run(m())\nprint(f())",
		"a task":         "t=asyncio.create_task(m())\nprint(await t)",
		"a group":        "print((await asyncio.gather(m(), m()))[1])",
		"in a thread":    "import threading\nt=threading.Thread(target=lambda: print(asyncio.run(m())))\nt.start();t.join()",
		"async for":      "async def g():\n yield 5\nasync for v in g(): print(v)",
		"async with":     "print(5 if (await asyncio.wait_for(m(), 5)) else 0)",
		"comprehension":  "async def g():\n yield 5\nprint([v async for v in g()][0])",
		"to_thread":      "print(await asyncio.to_thread(lambda: 5))",
		"a subprocess":   "p=await asyncio.create_subprocess_exec('echo','5',stdout=asyncio.subprocess.PIPE)\nprint((await p.communicate())[0].decode())",
		"get_event_loop": "async def f(): return asyncio.get_running_loop().is_running()\nprint(5 if await f() else 0)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.run(t, define+code).says(t, "5")
		})
	}
}

// TestT37LastExpressionInABlock: it is no crash, and shows nothing, as in Jupyter.
func TestT37LastExpressionInABlock(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for code, want := range map[string]string{
		"try:\n    40+2\nfinally:\n    pass":     "",
		"if True:\n    42":                       "",
		"for i in range(3):\n    i":              "",
		"with open('/dev/null'):\n    42":        "",
		"def f():\n    42\nf()":                  "",
		"42":                                     "42",
		"42;":                                    "",
		"x = 42":                                 "",
		"(x := 42)":                              "42",
		"42 # a comment":                         "42",
		"42\n# a comment":                        "42",
		"lambda: 42\n(lambda: 42)()":             "42",
		"None":                                   "",
		"[\n 42\n]":                              "[42]",
		"class A: pass\nA.__name__":              "'A'",
		"x = 1\nif x:\n    y = 42\ny":            "42",
		"'''a\nb'''":                             `'a\nb'`,
		"print('p')\n42":                         "42",
		"@staticmethod\ndef f(): pass":           "",
		"match 1:\n    case 1:\n        42":      "",
		"    40\n    2":                          "2",
		"import this_is_not_there as x, sys\n42": "",
		"del __builtins__\n42":                   "42",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, code)
			got := ""
			if len(x.Results) > 0 {
				got = x.Results[len(x.Results)-1].plain()
			}
			if got != want || x.Status == "infra" || len(x.Results) > 1 {
				t.Errorf("%s: got %q, want %q", x.Status, got, want)
			}
		})
	}
}

// TestT75NothingOutlivesTheServer: on SIGTERM busy runs are drained or ended, and leave no stray.
func TestT75NothingOutlivesTheServer(t *testing.T) {
	t.Parallel()
	s := ownServer(t, "drain: 1s\nmax_running: 10\npool: {enabled: false, min: 1, max: 1, total: 1, max_age: 1m}\n", nil)
	mark := marked(t)
	var busy []*listener
	for i := range 10 {
		code := fmt.Sprintf("import subprocess,signal\nsignal.signal(15,signal.SIG_IGN)\nsubprocess.Popen(['sleep','%s'])\nprint('begun',flush=True)\nwhile True: pass", mark)
		if i%2 == 1 {
			code = fmt.Sprintf("import subprocess\nprint('begun',flush=True)\nsubprocess.run(['sleep','%s'])", mark)
		}
		l := s.listen(t, "/v1/executions", call{"code": code, "limits": call{"wall": 300, "cpus": 0.5}})
		defer l.body.Close()
		l.await(t, "begun")
		busy = append(busy, l)
	}
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, l := range busy {
		var last event
		for e, ok := l.next(t); ok; e, ok = l.next(t) {
			last = e
		}
		if x := decode(t, last.data); last.name != "done" || x.Status != "canceled" || !strings.Contains(x.Message, "shutting down") {
			t.Errorf("a client saw %s %.300s", last.name, last.data)
		}
	}
	<-s.ended
	if left := strays(t, mark); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestT89BrokenPipes: a reader that leaves hurts nobody.
func TestT89BrokenPipes(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"a shell":    "import subprocess\nprint(subprocess.run('yes | head -1',shell=True,capture_output=True,text=True).stdout.strip())",
		"a magic":    "!yes | head -1",
		"Python":     "import subprocess,sys\nprint(subprocess.run(sys.executable+' -c \"while 1: print(chr(121))\" 2>/dev/null | head -1',shell=True,capture_output=True,text=True).stdout.strip())",
		"our pipe":   "import os\nr,w=os.pipe()\nos.close(r)\ntry: os.write(w,b'x')\nexcept BrokenPipeError: print('y')",
		"a consumer": "import subprocess\np=subprocess.Popen(['head','-1'],stdin=subprocess.PIPE)\ntry:\n for _ in range(10**6): p.stdin.write(b'y\\n')\nexcept BrokenPipeError: pass\np.wait()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			took(t, 5, func() { s.run(t, code, within(30)).says(t, "y") })
		})
	}
}
