package escapes_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/sandbox"
)

const frames = `
import os, gc, sys, time
def frame(kind, flags, cell, payload):
    return len(payload).to_bytes(4) + bytes((1, kind, flags, 0)) + cell.to_bytes(4) + payload
def send(data):
    view = memoryview(data)
    while view:
        view = view[os.write(3, view):]
cell = [o for o in gc.get_objects() if type(o).__name__ == "Channel"][0].cell
`

func openBox(t *testing.T, b sandbox.Backend, id string, warm sandbox.Warmth, wall time.Duration) (sandbox.Sandbox, sandbox.Session) {
	t.Helper()
	box, err := b.Create(t.Context(), sandbox.ID(id), sandbox.Class{Image: "python", Profile: sandbox.ProfileStandard, Network: sandbox.NetworkNone, Warm: warm})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	limits := sandbox.Limits{Wall: wall, CPUTime: wall, Memory: 512 << 20, MilliCPU: 1000, Processes: 64, OpenFiles: 256, Disk: 256 << 20, Inodes: 32768, Tmp: 64 << 20, Output: outputLimit}
	if err := box.Lease(t.Context(), sandbox.Lease{Limits: limits}); err != nil {
		t.Fatal(err)
	}
	s, err := box.Open(t.Context(), sandbox.OpenSpec{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	return box, s
}

func peakHeap(stop <-chan struct{}) *atomic.Uint64 {
	var peak atomic.Uint64
	go func() {
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > peak.Load() {
				peak.Store(m.HeapAlloc)
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return &peak
}

func TestScratchFrames(t *testing.T) {
	b := newNative(t)
	for _, c := range []struct {
		name, code string
		last       bool
		slow       time.Duration
	}{
		{"partial", frames + "p = b' ' * (256<<10)\nfor i in range(127):\n  send(frame(0x22, 1, 5, p))\nfor i in range(127):\n  send(frame(0x22, 1, 6, p))\nprint('sent')\ntime.sleep(1)\n", true, 0},
		{"legit15", "from IPython.display import display\n" + "x=1\n", true, 0},
		{"display15", frames + "d = b'{\"data\":{\"text/plain\":\"' + b'x'*(15<<20) + b'\"}}'\nparts=[d[i:i+(256<<10)] for i in range(0,len(d),256<<10)]\nfor n,p in enumerate(parts): send(frame(0x22, n+1<len(parts), cell, p))\nprint('sent')\n", true, 0},
		{"display30", frames + "d = b'{\"data\":{\"text/plain\":\"' + b'x'*(30<<20) + b'\"}}'\nparts=[d[i:i+(256<<10)] for i in range(0,len(d),256<<10)]\nfor n,p in enumerate(parts): send(frame(0x22, n+1<len(parts), cell, p))\nprint('sent')\n", true, 0},
		{"displayflood", frames + "d = b'{\"data\":{\"text/plain\":\"' + b'x'*(12<<20) + b'\"}}'\nparts=[d[i:i+(256<<10)] for i in range(0,len(d),256<<10)]\nwhole=b''.join(frame(0x22, n+1<len(parts), cell, p) for n,p in enumerate(parts))\nwhile True: send(whole)\n", true, 300 * time.Millisecond},
		{"keys", frames + "d = b'{\"data\":{' + b','.join(b'\"%x\":1' % i for i in range(1000000)) + b'}}'\nprint(len(d))\nparts=[d[i:i+(256<<10)] for i in range(0,len(d),256<<10)]\nfor n,p in enumerate(parts): send(frame(0x22, n+1<len(parts), cell, p))\nprint('sent')\n", true, 0},
		{"relative", frames + "import signal\nif os.fork() == 0:\n  fd = 3\n  d = frame(0x20,0,0,b'x'*60000)\n  pass\n", true, 0},
		{"relative2", frames + "fd = os.dup(3)\nimport threading\nif os.fork() == 0:\n  d = frame(0x20,0,0,b'x'*6)*10\n  while True: os.write(fd, d)\nos._exit(0)\n", true, 0},
	} {
		if f := os.Getenv("ONLY"); f != "" && !strings.HasPrefix(c.name, f) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			_, s := openBox(t, b, "x"+c.name, sandbox.WarmPlain, 8*time.Second)
			runtime.GC()
			stop := make(chan struct{})
			peak := peakHeap(stop)
			began := time.Now()
			out := ""
			n := 0
			res, err := s.Exec(t.Context(), sandbox.Code{Source: c.code, Name: "x.py", Wall: 8 * time.Second, Last: c.last}, func(e sandbox.Event) {
				if e.Kind == sandbox.EventStdout && len(out) < 300 && !e.Background {
					out += string(e.Text)
				}
				if e.Kind == sandbox.EventError {
					out += e.Fault.Traceback
				}
				if e.Kind == sandbox.EventDisplay {
					n++
					time.Sleep(c.slow)
				}
			})
			close(stop)
			t.Logf("%s: %v end %s detail %q err %v displays %d heap %d MiB out %.200q", c.name, time.Since(began).Round(time.Millisecond), res.End, res.Detail, err, n, peak.Load()>>20, out)
		})
	}
}

func TestScratchBackground(t *testing.T) {
	b := newNative(t)
	_, s := openBox(t, b, "bg", sandbox.WarmPlain, 8*time.Second)
	_, err := s.Exec(t.Context(), sandbox.Code{Source: frames + `
import threading
def flood():
    d = frame(0x20, 0, 0, b"") * 4096
    time.sleep(0.5)
    while True: send(d)
threading.Thread(target=flood, daemon=True).start()
`, Name: "x.py", Wall: 8 * time.Second}, func(sandbox.Event) {})
	t.Log(err)
	runtime.GC()
	var m1, m2 runtime.MemStats
	runtime.ReadMemStats(&m1)
	time.Sleep(6 * time.Second)
	runtime.GC()
	runtime.ReadMemStats(&m2)
	t.Logf("heap %d -> %d MiB", m1.HeapAlloc>>20, m2.HeapAlloc>>20)
}

func TestScratchInotify(t *testing.T) {
	b := newNative(t)
	_, s := openBox(t, b, "ino", sandbox.WarmPlain, 8*time.Second)
	_, err := s.Exec(t.Context(), sandbox.Code{Source: `
import ctypes
libc = ctypes.CDLL(None)
n=0
while libc.inotify_init1(0) >= 0: n+=1
print(n, flush=True)
import time; time.sleep(2)
`, Name: "x.py", Wall: 8 * time.Second, Last: true}, func(e sandbox.Event) {
		fd, err := unix.InotifyInit1(0)
		t.Logf("%s host root: %d %v", e.Text, fd, err)
		if err == nil {
			unix.Close(fd)
		}
	})
	t.Log(err)
}
