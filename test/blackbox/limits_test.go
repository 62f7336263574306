// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// over is one way to exceed one limit of a run.
type over struct {
	limit, form string
	limits      call
	code        string
	// ends are the statuses it may have, the first one by rule: the others where the kernel may be asked by another
	// process first.
	ends []string
	// hit is the name in the record of the limit that was hit; empty where no counter of the kernel tells.
	hit string
	// reset says that the interpreter, and with it the session's variables, must be gone.
	reset bool
}

// tightMemory is enough for an interpreter and little more.
const tightMemory = "96MiB"

func overs() []over {
	memory := call{"memory": tightMemory, "tmp": "1GiB", "disk": "1GiB", "wall": 60, "processes": 256, "open_files": 4096}
	oom := []string{"out_of_memory"}
	fill := "f=open(%q,'wb',0)\nfor _ in range(600): f.write(b'x'*(1<<20))"
	return []over{
		{"memory", "objects", memory, "b=[]\nwhile True: b.append(bytearray(1<<20))", oom, "memory", true},
		{"memory", "one mapping", memory, "import mmap\nm=mmap.mmap(-1,1<<30)\nfor i in range(0,1<<30,4096): m[i]=1", oom, "memory", true},
		{"memory", "a file in the working folder", memory, fmt.Sprintf(fill, "a"), oom, "memory", true},
		{"memory", "a file in /tmp", memory, fmt.Sprintf(fill, "/tmp/a"), oom, "memory", true},
		{"memory", "a file in /dev/shm", memory, fmt.Sprintf(fill, "/dev/shm/a"), oom, "memory", true},
		{"memory", "a deleted file", memory, "import os\nf=open('/tmp/a','wb',0)\nos.unlink('/tmp/a')\nfor _ in range(600): f.write(b'x'*(1<<20))", oom, "memory", true},
		{"memory", "memfd", memory, "import os\nfd=os.memfd_create('x')\nfor _ in range(600): os.write(fd,b'x'*(1<<20))", oom, "memory", true},
		{"memory", "pipes", call{"memory": "48MiB", "wall": 60, "open_files": 4096}, "import os,fcntl\np=[]\nwhile True:\n r,w=os.pipe()\n p.append((r,w))\n os.set_blocking(w,False)\n" +
			" try:\n  while True: os.write(w,b'x'*65536)\n except BlockingIOError: pass", oom, "memory", true},
		{"memory", "sockets", memory, "import socket\np=[]\nwhile True:\n a,b=socket.socketpair()\n a.setblocking(False)\n p.append((a,b))\n" +
			" try:\n  while True: a.send(b'x'*65536)\n except BlockingIOError: pass", oom, "memory", true},
		{"memory", "threads", memory, "import threading\ndef f():\n b=[]\n while True: b.append(bytearray(1<<20))\n" +
			"t=[threading.Thread(target=f) for _ in range(8)]\n[x.start() for x in t]\n[x.join() for x in t]", oom, "memory", true},
		{"memory", "children", memory, "import os,sys\npids=[]\nfor _ in range(8):\n pid=os.fork()\n if pid==0:\n  b=bytearray(40<<20)\n  import time;time.sleep(2);os._exit(0)\n" +
			" pids.append(pid)\nsys.exit(max(os.waitstatus_to_exitcode(os.waitpid(p,0)[1])!=0 for p in pids))", oom, "memory", false},

		{"cpu_time", "a loop", call{"cpu_time": 1, "wall": 60}, "while True: pass", []string{"cpu_timeout"}, "cpu_time", false},
		{"cpu_time", "deaf", call{"cpu_time": 1, "wall": 60}, "while True:\n try:\n  while True: pass\n except BaseException: pass", []string{"cpu_timeout"}, "cpu_time", true},
		{
			"cpu_time", "children",
			call{"cpu_time": 1, "wall": 60, "cpus": 2},
			"import subprocess\np=[subprocess.Popen(['sh','-c','while :; do :; done']) for _ in range(3)]\n[x.wait() for x in p]",
			[]string{"cpu_timeout"},
			"cpu_time", false,
		},
		{
			"cpu_time", "threads",
			call{"cpu_time": 1, "wall": 60, "cpus": 2},
			"import threading,hashlib\ndef f():\n while True: hashlib.sha256(b'x'*(1<<20)).digest()\nt=[threading.Thread(target=f) for _ in range(3)]\n[x.start() for x in t]\n[x.join() for x in t]",
			[]string{"cpu_timeout"},
			"cpu_time", false,
		},

		{"wall", "sleep", call{"wall": 1}, "import time\ntime.sleep(100)", []string{"wall_timeout"}, "wall", false},
		{"wall", "deaf", call{"wall": 1}, "import time\nwhile True:\n try: time.sleep(100)\n except BaseException: pass", []string{"wall_timeout"}, "wall", true},
		{"wall", "a child", call{"wall": 1}, "import subprocess\nsubprocess.run(['sleep','100'])", []string{"wall_timeout"}, "wall", false},

		{"processes", "threads", call{"processes": 16}, "import threading,time\nt=[threading.Thread(target=time.sleep,args=(1,)) for _ in range(16)]\n[x.start() for x in t]", []string{"pids"}, "processes", false},
		{"processes", "forks", call{"processes": 16}, "import os,signal\np=[]\ntry:\n for _ in range(16):\n  pid=os.fork()\n  if pid==0: signal.pause()\n  p.append(pid)\n" +
			"finally:\n for x in p: os.kill(x,9); os.waitpid(x,0)", []string{"pids"}, "processes", false},
		{
			"processes", "programs",
			call{"processes": 16},
			"import subprocess\np=[]\ntry:\n for _ in range(16): p.append(subprocess.Popen(['sleep','100']))\nfinally:\n for x in p: x.kill(); x.wait()",
			[]string{"pids"},
			"processes", false,
		},

		{"disk", "one file", call{"disk": "1MiB"}, fmt.Sprintf(fill, "a"), []string{"disk"}, "disk", false},
		{"disk", "many files", call{"disk": "1MiB"}, "for i in range(300): open(f'f{i}','wb').write(b'x'*4096)", []string{"disk"}, "disk", false},
		{"disk", "a child's", call{"disk": "1MiB"}, "import subprocess\nsubprocess.run('head -c 2000000 /dev/zero > a',shell=True,check=True)", []string{"disk"}, "disk", false},
		{"inodes", "files", call{"inodes": 32}, "for i in range(32): open(f'f{i}','w')", []string{"disk"}, "inodes", false},
		{"inodes", "folders", call{"inodes": 32}, "import os\nfor i in range(32): os.mkdir(f'd{i}')", []string{"disk"}, "inodes", false},
		{"inodes", "links", call{"inodes": 32}, "import os\nfor i in range(32): os.symlink('x',f'l{i}')", []string{"disk"}, "inodes", false},
		{"tmp", "/tmp", call{"tmp": "1MiB"}, fmt.Sprintf(fill, "/tmp/a"), []string{"disk"}, "tmp", false},
		{"tmp", "/dev/shm", call{"tmp": "1MiB"}, fmt.Sprintf(fill, "/dev/shm/a"), []string{"disk"}, "tmp", false},

		{"open_files", "files", call{"open_files": 64}, "f=[]\nwhile True: f.append(open('/dev/null'))", []string{"error"}, "", false},
		{"open_files", "sockets", call{"open_files": 64}, "import socket\nf=[]\nwhile True: f.append(socket.socket())", []string{"error"}, "", false},

		{"output", "stdout", call{"output": "1KiB"}, "import sys\nsys.stdout.write('x'*1025)", []string{"ok"}, "output", false},
		{"output", "stderr", call{"output": "1KiB"}, "import sys\nsys.stderr.write('x'*1025)", []string{"ok"}, "output", false},
		{"output", "a child's", call{"output": "1KiB"}, "import subprocess\nsubprocess.run('head -c 1025 /dev/zero',shell=True)", []string{"ok"}, "output", false},
	}
}

// TestLimitsBelongToTheRun exceeds every limit in every form: each has its own end and figures, nothing survives, and the
// session and the server go on.
func TestLimitsBelongToTheRun(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	var mu sync.Mutex
	rows := []string{"limit\tform\tend\thit\tmeasured\tvalue\tstate reset"}
	t.Run("each", func(t *testing.T) {
		for _, o := range overs() {
			t.Run(o.limit+"/"+o.form, func(t *testing.T) {
				t.Parallel()
				row := s.exceed(t, o)
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, row)
			})
		}
	})
	t.Log("\n" + table(rows))
}

// table aligns rows of cells that are parted by tabs, the first one the heading.
func table(rows []string) string {
	slices.Sort(rows[1:])
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(rows, "\n"))
	_ = w.Flush() // to memory
	return text.String()
}

// exceed runs the code in a sandbox that is held, and returns what it measured as a row.
func (s *server) exceed(t *testing.T, o over) string {
	t.Helper()
	h := s.open(t, call{"limits": o.limits})
	h.cell(t, "kept = 1").ok(t)
	x := h.cell(t, o.code)
	if !slices.Contains(o.ends, x.Status) {
		t.Errorf("%s: %s, %+v, want %s", x.Status, x.Message, x.Error, o.ends)
	}
	for name, limit := range x.Limits {
		if limit.Hit && name != o.limit {
			t.Errorf("%s is said to be hit too: %v of %v", name, *limit.Measured, limit.Value)
		}
	}
	measured := 0.0
	limit := x.Limits[o.limit]
	if o.hit != "" {
		if !limit.Hit || limit.Measured == nil {
			t.Fatalf("%s: limit %s is not said to be hit: %+v", x.Status, o.limit, x.Limits)
		}
		measured = *limit.Measured
		// The kernel ends what would exceed the limit, so the peak of memory may lie a little below.
		if least := limit.Value; o.limit == "memory" && measured < 0.9*least || o.limit != "memory" && measured < least {
			t.Errorf("measured %v, the limit is %v", measured, limit.Value)
		}
		if x.Status != "ok" && x.Message == "" {
			t.Error("no message says why")
		}
	} else if !strings.Contains(x.raw, "Too many open files") || !strings.Contains(x.raw, "may have 64 files open") {
		t.Errorf("%s: %+v", x.Status, x.Error) // no counter of the kernel tells: it is the program's own error
	}
	if x.Reset != o.reset {
		t.Errorf("state_reset is %v, want %v", x.Reset, o.reset)
	}
	want := "1"
	if x.Reset {
		want = "0"
	}
	if next := h.cell(t, "int('kept' in globals())").ok(t); next.Results[0].plain() != want {
		t.Errorf("state reset is %v, but: %s", x.Reset, next.Results[0].plain())
	}
	s.alive(t)
	s.survivors(t, o)
	return fmt.Sprintf("%s\t%s\t%s\t%v\t%s\t%s\t%v", o.limit, o.form, x.Status, limit.Hit, number(measured), number(limit.Value), x.Reset)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// survivors fails when a run that ends with itself leaves a process behind, or ends in another way than a cell does.
func (s *server) survivors(t *testing.T, o over) {
	t.Helper()
	mark := marked(t)
	begin := fmt.Sprintf("import subprocess\nsubprocess.Popen(['sleep','%s'],start_new_session=True)\n", mark)
	x := s.run(t, begin+o.code, call{"limits": o.limits})
	if !slices.Contains(o.ends, x.Status) || x.Limits[o.limit].Hit != (o.hit != "") {
		t.Errorf("a run of its own: %s, %s, %+v", x.Status, x.Message, x.Limits[o.limit])
	}
	if left := strays(t, mark); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLimitsOfArtifacts: what a run leaves beyond a limit is left out and told, with figures; the run is as it was. That
// of all sizes together is tested where it can be small, in package artifact.
func TestLimitsOfArtifacts(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	const size = 256 << 20
	for _, c := range []struct {
		limit     string
		value     float64
		code      string
		artifacts int
		hit       float64 // what is measured, or 0 when nothing is hit
	}{
		{"artifacts", 256, "for i in range(256): open(f'f{i}','w').write('x')", 256, 0},
		{"artifacts", 256, "for i in range(257): open(f'f{i}','w').write('x')", 256, 257},
		{"artifacts", 256, "for i in range(1000): open(f'f{i}','w').write('x')", 256, 1000},
		{"artifact_size", size, fmt.Sprintf("open('f','wb').truncate(%d)", size+1), 0, size + 1},
		{"artifact_depth", 16, "import os\np='/'.join('d'*16)\nos.makedirs(p)\nopen(p+'/f','w').write('x')", 1, 0},
		{"artifact_depth", 16, "import os\np='/'.join('d'*17)\nos.makedirs(p)\nopen(p+'/f','w').write('x')", 0, 17},
		{"artifact_folders", 2048, "import os\nfor i in range(2047): os.mkdir(f'd{i}')", 0, 0},
		{"artifact_folders", 2048, "import os\nfor i in range(2048): os.mkdir(f'd{i}')", 0, 2049},
	} {
		t.Run(fmt.Sprintf("%s/%v", c.limit, c.hit), func(t *testing.T) {
			t.Parallel()
			x := s.run(t, c.code, call{"limits": call{"wall": 60, "disk": "1GiB", "inodes": 8192}}).ok(t)
			limit := x.Limits[c.limit]
			if limit.Hit != (c.hit > 0) || len(x.Artifacts) != c.artifacts {
				t.Fatalf("%d artifacts, %+v", len(x.Artifacts), x.Limits)
			}
			if c.hit > 0 && (*limit.Measured != c.hit || limit.Value != c.value || x.warned("file_skipped") == "") {
				t.Errorf("measured %v of %v, want %v of %v; %+v", *limit.Measured, limit.Value, c.hit, c.value, x.Warnings)
			}
		})
	}
}

// TestAtTheLimit: what uses exactly what it may have hits nothing.
func TestAtTheLimit(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, c := range map[string]struct {
		limits call
		code   string
	}{
		"processes":  {call{"processes": 16}, "import threading,time\ne=threading.Event()\nt=[threading.Thread(target=e.wait) for _ in range(15)]\n[x.start() for x in t]\ne.set()\n[x.join() for x in t]"},
		"open_files": {call{"open_files": 64}, "import os\nopened=len(os.listdir('/proc/self/fd'))-1\nf=[open('/dev/null') for _ in range(64-opened)]"},
		"output":     {call{"output": "1KiB"}, "import sys\nsys.stdout.write('x'*1024); sys.stderr.write('x'*1024)"},
		"disk":       {call{"disk": "1MiB"}, "open('a','wb').write(b'x'*((1<<20)-4096))"},
		"inodes":     {call{"inodes": 32}, "for i in range(30): open(f'f{i}','w')"},
		"tmp":        {call{"tmp": "1MiB"}, "open('/tmp/a','wb').write(b'x'*((1<<20)-4096))"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, c.code, call{"limits": c.limits}).ok(t)
			for limit, l := range x.Limits {
				if l.Hit {
					t.Errorf("%s is said to be hit: %v of %v", limit, *l.Measured, l.Value)
				}
			}
		})
	}
}
