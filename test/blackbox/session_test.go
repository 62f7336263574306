// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// notebook is a sandbox that lives between cells.
type notebook struct {
	*server
	id string
}

// open makes a sandbox that ends with the test.
func (s *server) open(t *testing.T, c call, files ...upload) *notebook {
	t.Helper()
	kind, body := form(t, c, files...)
	a := s.do(t, http.MethodPost, "/v1/sandboxes", kind, body)
	var held struct{ ID string }
	if err := json.Unmarshal(a.body, &held); err != nil || a.status != http.StatusCreated || held.ID == "" {
		t.Fatalf("no sandbox: %d %.400s", a.status, a.body)
	}
	n := &notebook{s, held.ID}
	t.Cleanup(func() {
		request, err := s.request(t.Context(), http.MethodDelete, "/v1/sandboxes/"+n.id, "", nil)
		if err != nil {
			t.Error(err)
			return
		}
		// The test's own context has ended.
		response, err := http.DefaultClient.Do(request.WithContext(contextWithout(t)))
		if err != nil {
			t.Error(err)
			return
		}
		response.Body.Close()
	})
	return n
}

// cell runs a cell.
func (n *notebook) cell(t *testing.T, code string, settings ...call) *execution {
	t.Helper()
	c := call{"code": code}
	for _, more := range settings {
		maps.Copy(c, more)
	}
	return n.do(t, http.MethodPost, "/v1/sandboxes/"+n.id+"/execute", "application/json", bytes.NewReader(encode(t, c))).execution(t)
}

// two fails unless 1+1 is 2 in the same session.
func (n *notebook) two(t *testing.T) {
	t.Helper()
	if x := n.cell(t, "1+1").ok(t); len(x.Results) != 1 || x.Results[0].plain() != "2" {
		t.Errorf("1+1 is %v", x.Results)
	}
}

// TestT15Contexts: each has its own state.
func TestT15Contexts(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	var open []*notebook
	for range 20 {
		n := s.open(t, call{})
		n.cell(t, "assert 'v' not in dir(); v = 1").ok(t)
		open = append(open, n)
	}
	for i, n := range open {
		n.cell(t, fmt.Sprintf("assert v == 1; v = %d", i)).ok(t)
	}
	for i, n := range open {
		n.cell(t, "print(v)").says(t, fmt.Sprint(i))
	}
}

// TestSessionsLiveOn: whatever a cell does, the next one runs, and is told when the variables are gone.
func TestSessionsLiveOn(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, c := range map[string]struct {
		code   string
		status string
		reset  bool
	}{
		"T01 output":     {"print('x'*5_000_000)", "ok", false},
		"T09 surrogate":  {"print('\\udc97 x')", "ok", false},
		"T13 number":     {"10**5000", "ok", false},
		"T17 sys.exit":   {"import sys\nprint('a')\nsys.exit(3)", "exit", false},
		"T17 exit()":     {"print('a')\nexit()", "", false},
		"T17 os._exit":   {"import os\nos._exit(4)", "exit", true},
		"T19 segfault":   {"import ctypes\nctypes.string_at(0)", "signal", true},
		"T19 abort":      {"import os\nos.abort()", "signal", true},
		"T19 kill":       {"import os\nos.kill(os.getpid(),9)", "signal", true},
		"T19 recursion":  {"def f(): f()\nf()", "error", false},
		"T21 memory":     {"b=[]\nwhile True: b.append(bytearray(64<<20))", "out_of_memory", true},
		"T31 loop":       {"while True: pass", "wall_timeout", false},
		"T31 sleep":      {"import time\ntime.sleep(100)", "wall_timeout", false},
		"T31 deaf":       {"import signal\nfor n in (2,15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass", "wall_timeout", true},
		"T35 asyncio":    {"import asyncio\nasync def m(): return 5\nprint(asyncio.run(m()))", "ok", false},
		"a syntax error": {"if", "error", false},
		"closed stdout":  {"import os,sys\nsys.stdout.close()\nos.close(1)\nos.close(2)", "ok", false},
		"T89 input()":    {"input()", "error", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := s.open(t, call{})
			n.cell(t, "kept = 7").ok(t)
			x := n.cell(t, c.code, within(2))
			if c.status != "" && x.Status != c.status || x.Reset && !c.reset {
				t.Errorf("%s (%s), reset %v: %v", x.Status, x.Message, x.Reset, x.Error)
			}
			if c.reset && !x.Reset {
				t.Errorf("nothing says that the variables are gone: %s", x.raw)
			}
			n.two(t)
			n.cell(t, "print('kept' in globals())").says(t, map[bool]string{true: "False", false: "True"}[x.Reset])
		})
	}
}

// TestT29ChildrenOfASession live on with it, and end with it.
func TestT29ChildrenOfASession(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	n, mark := s.open(t, call{}), marked(t)
	took(t, 5, func() {
		n.cell(t, "import subprocess\np=subprocess.Popen(['sleep','"+mark+"'],start_new_session=True)\nprint('done')").says(t, "done")
	})
	n.cell(t, "print(p.poll())").says(t, "None")
	if len(strays(t, mark)) == 0 {
		t.Error("the child did not live as long as its session")
	}
	if a := s.do(t, http.MethodDelete, "/v1/sandboxes/"+n.id, "", nil); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
	if left := strays(t, mark); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestT33LateOutputOfACell is not taken for the running cell's.
func TestT33LateOutputOfACell(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"a thread":  "import threading,time\nevent=threading.Event()\ndef f():\n event.wait(); print('A2')\nthreading.Thread(target=f).start()\nprint('A')",
		"a pool":    "import threading\nfrom concurrent.futures import ThreadPoolExecutor\nevent=threading.Event()\npool=ThreadPoolExecutor(1)\nfuture=pool.submit(lambda: (event.wait(), print('A2')))\nprint('A')",
		"a display": "import threading\nevent=threading.Event()\nthreading.Thread(target=lambda: (event.wait(), print('A2'), display('A2'))).start()\nprint('A')",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := s.open(t, call{})
			n.cell(t, code).says(t, "A")
			const second = "print('B', flush=True)\nevent.set()\nimport time\ntime.sleep(1)\nprint('B3')"
			streamed := s.events(t, "/v1/sandboxes/"+n.id+"/execute", call{"code": second})
			late, own := 0, ""
			for _, e := range streamed {
				var piece struct {
					Text       string
					Background bool
				}
				if (e.name == "stdout" || e.name == "display") && json.Unmarshal(e.data, &piece) == nil {
					if piece.Background {
						late++
					} else {
						own += piece.Text
					}
				}
			}
			if own != "B\nB3\n" || late == 0 {
				t.Errorf("the cell's own is %q, %d events of an earlier one: %s", own, late, streamed.names())
			}
			x := decode(t, streamed.last().data)
			if x.Stdout != "B\nB3\n" || len(x.Results) > 0 || x.Background == nil || !strings.Contains(x.Background.Text, "A2\n") {
				t.Errorf("the record has %q, %v and %+v", x.Stdout, x.Results, x.Background)
			}
			if file := s.get(t, "/v1/executions/"+x.ID+"/output?stream=background"); string(file.body) != "A2\n" {
				t.Errorf("the file has %q", file.body)
			}
		})
	}
}

// TestT39ChartsOfCells: a figure is shown in its own cell alone.
func TestT39ChartsOfCells(t *testing.T) {
	t.Parallel()
	n := theServer(t).open(t, call{"limits": call{"memory": "1GiB"}})
	for i, c := range []struct {
		code   string
		charts int
	}{
		{"import matplotlib.pyplot as plt\nplt.plot([1,2]);", 1},
		{"print('no plot')", 0},
		{"fig, ax = plt.subplots()\nax.bar(['a'],[1]);", 1},
		{"ax.set_title('later')", 0},
		{"fig", 1},
		{"plt.plot([3]);plt.show();plt.savefig('result.png')", 1},
		{"1", 0},
		{"plt.figure();plt.plot([1])\n1/0", 1},
		{"plt.get_fignums()", 0},
		{"plt.title('new')", 1},
	} {
		if x := n.cell(t, c.code, within(30)); len(x.charts(t)) != c.charts {
			t.Errorf("cell %d (%s): %d charts, want %d", i, c.code, len(x.charts(t)), c.charts)
		}
	}
}

// TestBrokenBuiltins: code that takes Python itself apart ends as it says, or with an error that says so; the session can be
// restarted, and nothing calls it our failure.
func TestBrokenBuiltins(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"all builtins":  "import builtins\nvars(builtins).clear()",
		"import":        "import builtins\ndel builtins.__import__, builtins.print, builtins.BaseException",
		"one that does": "import builtins\nbuiltins.isinstance = None\n1/0",
		"os":            "import os\nos.write = os.writev = os.read = os._exit = None\nprint(1)",
		"modules":       "import sys\nsys.modules.clear()",
	} {
		for _, fresh := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/fresh %v", name, fresh), func(t *testing.T) {
				t.Parallel()
				n := s.open(t, call{"fresh": fresh})
				for _, x := range []*execution{n.cell(t, code), n.cell(t, "1/0"), n.cell(t, "1/0"), s.run(t, code, call{"fresh": fresh})} {
					broken := x.Error != nil && x.Error.Name == "InterpreterBroken"
					if x.Status != "ok" && x.Error == nil || x.Reset && !broken || x.Status == "infra" {
						t.Errorf("%s, reset %v: %s %+v", x.Status, x.Reset, x.Message, x.Error)
					}
				}
				n.in(t, "POST", "/sessions/main/restart", nil, http.StatusOK)
				n.cell(t, "print('kept' in globals())").says(t, "False")
			})
		}
	}
}
