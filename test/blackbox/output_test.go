// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// inlineMost is more than the record may hold of one stream.
const inlineMost = 160 << 10

// TestT01HugeOutput: both ends stay, totals are told, the rest is a file or counted, and the server stays small.
func TestT01HugeOutput(t *testing.T) {
	s := theServer(t)
	for name, c := range map[string]struct {
		code         string
		bytes        int64
		first, last  string
		onStderr     bool
		beyondStored bool
	}{
		"one line":       {code: "print('x'*50_000_000)", bytes: 50_000_001, first: "xxxx", last: "xxx\n"},
		"two-byte":       {code: "print('é'*10_000_000)", bytes: 20_000_001, first: "éé", last: "éé\n"},
		"many writes":    {code: "import sys\nfor i in range(200_000): sys.stdout.write(f'{i:09}\\n'*10)", bytes: 20_000_000, first: "000000000\n", last: "000199999\n"},
		"stderr":         {code: "import sys\nprint('y'*20_000_000, file=sys.stderr)", bytes: 20_000_001, first: "yyy", last: "yy\n", onStderr: true},
		"a child's":      {code: "import subprocess\nsubprocess.run('head -c 20000000 /dev/zero | tr \"\\\\0\" z', shell=True)", bytes: 20_000_000, first: "zzz", last: "zzz"},
		"beyond storing": {code: "import sys\nfor i in range(80): sys.stdout.write('w'*(1<<20))", bytes: 80 << 20, first: "www", last: "www", beyondStored: true},
	} {
		t.Run(name, func(t *testing.T) {
			s.growth(t, func() {
				x := s.run(t, c.code, within(60)).ok(t)
				text, totals, stream := x.Stdout, x.Output.Stdout, "stdout"
				if c.onStderr {
					text, totals, stream = x.Stderr, x.Output.Stderr, "stderr"
				}
				if !x.Truncated || totals.Bytes != c.bytes || totals.Omitted == 0 || len(text) > inlineMost {
					t.Errorf("truncated %v, %+v, %d bytes inline", x.Truncated, totals, len(text))
				}
				if !strings.HasPrefix(text, c.first) || !strings.HasSuffix(text, c.last) || !strings.Contains(text, "left out here") {
					t.Errorf("got %.20q ... %q", text, text[len(text)-20:])
				}
				whole := s.get(t, "/v1/executions/"+x.ID+"/output?stream="+stream)
				if whole.status != 200 || int64(len(whole.body)) != totals.Kept || c.beyondStored == (totals.Kept == totals.Bytes) {
					t.Errorf("status %d, %d bytes of %+v", whole.status, len(whole.body), totals)
				}
				if c.beyondStored && (x.warned("output_limit") == "" || !x.Limits["output"].Hit) {
					t.Errorf("nothing says that output was dropped: %v", x.Warnings)
				}
			})
			s.alive(t)
		})
	}
}

// TestT01EndlessOutput ends at the wall limit, with what was printed.
func TestT01EndlessOutput(t *testing.T) {
	s := theServer(t)
	for name, code := range map[string]string{
		"print":    "while True: print('y'*1000)",
		"child":    "import subprocess\nsubprocess.run(['yes'])",
		"terminal": "import sys\nwhile True: sys.stdout.buffer.write(b'\\x00'*4096)",
	} {
		t.Run(name, func(t *testing.T) {
			s.growth(t, func() {
				x := s.run(t, code, within(1))
				if x.Status != "wall_timeout" || !x.Truncated || x.Output.Stdout.Bytes < inlineMost || !x.Limits["wall"].Hit {
					t.Errorf("%s, truncated %v, %+v, %+v", x.Status, x.Truncated, x.Output.Stdout, x.Limits["wall"])
				}
			})
			s.alive(t)
		})
	}
}

// TestT03ManyLines: printing in many small pieces is no offence.
func TestT03ManyLines(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	var want strings.Builder
	for i := range 3000 {
		fmt.Fprintln(&want, i)
	}
	for name, code := range map[string]string{
		"print":       "for i in range(3000): print(i)",
		"flushed":     "for i in range(3000): print(i, flush=True)",
		"descriptor":  "import os\nfor i in range(3000): os.write(1, b'%d\\n' % i)",
		"a child":     "import subprocess\nsubprocess.run(['seq','0','2999'])",
		"logging":     "import logging,sys\nlogging.basicConfig(stream=sys.stdout,format='%(message)s',level=10)\nfor i in range(3000): logging.info(i)",
		"by threads":  "import threading\nfor i in range(3000):\n t=threading.Thread(target=print,args=(i,)); t.start(); t.join()",
		"a generator": "print(*range(3000), sep='\\n')",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if x := s.run(t, code, within(60)).ok(t); x.Stdout != want.String() || x.Truncated {
				t.Errorf("%d bytes of %d, truncated %v", len(x.Stdout), want.Len(), x.Truncated)
			}
		})
	}
}

// TestT05StderrIsNotEaten: however much is printed, the error is there in full.
func TestT05StderrIsNotEaten(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, c := range map[string]struct{ code, kept string }{
		"raise":          {"import sys\nprint('o'*5_000_000)\nraise ValueError('keep me')", "ValueError: keep me"},
		"written":        {"import sys\nprint('o'*5_000_000)\nsys.stderr.write('keep me')", "keep me"},
		"warning":        {"import warnings\nprint('o'*5_000_000)\nwarnings.warn('keep me')", "UserWarning: keep me"},
		"both in turn":   {"import sys\nfor i in range(500): print('o'*10_000)\nprint('keep me', file=sys.stderr)", "keep me"},
		"a chain":        {"print('o'*5_000_000)\ntry:\n 1/0\nexcept Exception as e:\n raise RuntimeError('keep me') from e", "ZeroDivisionError: division by zero"},
		"a function":     {"def deep(n):\n if n==0: raise KeyError('keep me')\n deep(n-1)\nprint('o'*5_000_000)\ndeep(5)", "KeyError: 'keep me'"},
		"a thread":       {"import threading\nprint('o'*5_000_000)\ndef f(): raise OSError('keep me')\nt=threading.Thread(target=f);t.start();t.join()", "OSError: keep me"},
		"a child's":      {"import subprocess\nprint('o'*5_000_000)\nsubprocess.run('echo keep me >&2', shell=True)", "keep me"},
		"interleaved":    {"import sys\nfor i in range(100):\n print('o'*50_000); print('keep me', i, file=sys.stderr)", "keep me 99"},
		"after an error": {"print('o'*5_000_000)\ndef f():\n return undefined_name\nf()", "undefined_name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, c.code, within(60))
			text := x.Stderr
			if x.Error != nil {
				text += x.Error.Traceback
			}
			if !strings.Contains(text, c.kept) || !x.Truncated || x.Output.Stdout.Bytes < 5_000_000 {
				t.Errorf("%s: %.300q; %+v", x.Status, text, x.Output.Stdout)
			}
			if strings.Contains(c.code, "raise") && x.Error != nil && !strings.Contains(x.Error.Traceback, "line ") {
				t.Errorf("no lines in %q", x.Error.Traceback)
			}
		})
	}
}

// TestT07SplitCharacters: a stream decodes at any cut, and what was sent is what was printed.
func TestT07SplitCharacters(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	text := strings.Repeat("é漢🙂", 20000) + "\n"
	for name, c := range map[string]struct {
		code   string
		stream string
	}{
		"print":         {"print('é漢🙂'*20000)", "stdout"},
		"byte by byte":  {"import os\np=('é漢🙂'*20000+'\\n').encode()\nfor b in p[:1800]: os.write(1, bytes([b]))\nos.write(1, p[1800:])", "stdout"},
		"odd pieces":    {"import sys\np=('é漢🙂'*20000+'\\n').encode()\nfor i in range(0,len(p),1021): sys.stdout.buffer.write(p[i:i+1021]); sys.stdout.flush()", "stdout"},
		"stderr":        {"import sys\nprint('é漢🙂'*20000, file=sys.stderr)", "stderr"},
		"both by turns": {"import sys,os\np=('é漢🙂'*20000+'\\n').encode()\nfor i in range(0,len(p),7001):\n sys.stdout.buffer.write(p[i:i+7001]); sys.stdout.flush(); sys.stderr.buffer.write(p[i:i+7001]); sys.stderr.flush()", "stderr"},
		"a child's":     {"import subprocess\nsubprocess.run(['cat'], input=('é漢🙂'*20000+'\\n').encode())", "stdout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := s.events(t, "/v1/executions", call{"code": c.code, "limits": call{"wall": 60}})
			if got := events.text(t, c.stream); got != text {
				t.Errorf("%d bytes of %d", len(got), len(text))
			}
			if events.last().name != "done" {
				t.Errorf("the last event is %s", events.last().name)
			}
		})
	}
}

// TestT09LoneSurrogates: what is no Unicode text breaks no answer.
func TestT09LoneSurrogates(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"print":          `print('\udc97 x')`,
		"high":           `print('\ud83d and more')`,
		"stderr":         "import sys\nprint('\\udc97', file=sys.stderr)",
		"result":         `'\udc97 x'`,
		"in a list":      `['\udc97', {'\ud800': 1}]`,
		"raise":          `raise ValueError('\udc97')`,
		"a class's name": `type('\udc97', (), {})()`,
		"value":          `v = '\udc97'`,
		"value's key":    `v = {'\udc97': ['\ud800']}`,
		"a table":        "import pandas as pd\npd.DataFrame({'\\udc97': ['\\ud800']})",
		"html":           "class A:\n def _repr_html_(self): return '<b>\\udc97</b>'\nA()",
		"json":           "from IPython.display import JSON\nJSON({'\\udc97': 1})",
		"a file name":    "open(b'\\xff\\xfe.txt'.decode('utf-8','surrogateescape'),'w').write('x')",
		"a chart":        "import matplotlib.pyplot as plt\nplt.title('a \\udc97 b'); plt.plot([1,2])",
		"an exit":        "import sys\nsys.exit('\\udc97')",
		"a warning":      "import warnings\nwarnings.warn('\\udc97')",
		"a thread":       "import threading\nt=threading.Thread(target=lambda: print('\\udc97'), name='\\udc97'); t.start(); t.join()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, code, call{"return": []string{"v"}})
			if x.Status == "infra" || !utf8.ValidString(x.raw) {
				t.Errorf("%s: %.400s", x.Status, x.raw)
			}
			if x.Stdout+x.Stderr+x.Message == "" && len(x.Results)+len(x.Values)+len(x.Artifacts) == 0 && x.Error == nil {
				t.Error("nothing came back")
			}
		})
	}
}

// TestT11Locale: the interpreter and its children speak UTF-8.
func TestT11Locale(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, c := range map[string]struct{ code, want string }{
		"streams":    {"import sys,locale\nprint(sys.stdout.encoding, '☹', open('t','w').encoding)", "utf-8 ☹ UTF-8"},
		"locale":     {"import locale\nprint(locale.getpreferredencoding(), locale.getlocale()[1])", "UTF-8 UTF-8"},
		"stderr":     {"import sys\nprint(sys.stderr.encoding, sys.getfilesystemencoding())", "utf-8 utf-8"},
		"a child":    {"import subprocess,sys\nprint(subprocess.run([sys.executable,'-c','print(\"☹ é 漢\")'],capture_output=True,text=True,encoding='utf-8').stdout)", "☹ é 漢"},
		"a shell":    {"import subprocess\nprint(subprocess.run('printf %s ☹ | wc -m',shell=True,capture_output=True,text=True).stdout)", "1"},
		"file names": {"import os\nopen('数据 ☹.txt','w').close()\nprint(os.listdir())", "['数据 ☹.txt']"},
		"round trip": {"open('t','w').write('☹漢é')\nprint(open('t').read(), open('t','rb').read().decode())", "☹漢é ☹漢é"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, c.code).ok(t)
			if !strings.EqualFold(strings.TrimSpace(x.Stdout), c.want) {
				t.Errorf("printed %q, want %q", x.Stdout, c.want)
			}
		})
	}
}

// TestT13GreatNumbers: Python's limit on digits is the program's affair, never ours.
func TestT13GreatNumbers(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"last":      "10**5000",
		"negative":  "-(10**20000)",
		"in a list": "[10**5000]",
		"print":     "print(10**5000)",
		"value":     "v = 10**5000",
		"raise":     "raise ValueError(10**5000)",
		"a table":   "import pandas as pd\npd.DataFrame({'a': [10**5000]})",
		"exit":      "import sys\nsys.exit(10**5000)",
		"fraction":  "from fractions import Fraction\nFraction(10**5000, 3)",
		"input":     "print(big.bit_length() > 10 if isinstance(big, int) else big)",
		"infinite":  "[float('inf'), float('-inf'), float('nan')]",
		"bytes":     "v = {'a': b'\\xff', 'b': 1j, 'c': {1, 2}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := call{"return": []string{"v"}}
			if name == "input" {
				settings["inputs"] = call{"big": json.RawMessage(strings.Repeat("9", 6000))}
			}
			x := s.run(t, code, settings)
			if x.Status == "infra" {
				t.Errorf("%.400s", x.raw)
			}
			if x.Stdout+x.Stderr+x.Message == "" && len(x.Results)+len(x.Values) == 0 && x.Error == nil {
				t.Error("nothing came back")
			}
			if name == "last" && (len(x.Results) != 1 || !strings.HasPrefix(x.Results[0].plain(), "1000")) {
				t.Errorf("got %.300s", x.raw)
			}
		})
	}
}
