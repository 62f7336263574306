// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import "fmt"

// FloodBytes is how much Cells.Flood prints.
const FloodBytes = 10_000_000

// Cells are the texts of the cells that the suite runs, so that a backend of another language can pass it as well.
type Cells struct {
	// Streams prints "out" and a line end to stdout and "err" and a line end to stderr.
	Streams string
	// Text prints the wanted text of TextWanted and a line end, flushing in the middle of a character if it can.
	Text string
	// Raise ends with an uncaught exception ValueError of value boom.
	Raise string
	// Exit leaves with code 3 after it printed "a".
	Exit string
	// Crash ends by SIGSEGV.
	Crash string
	// Spin prints "begun" and never ends.
	Spin string
	// Hog takes memory without end.
	Hog string
	// Fork starts processes without end and fails when it is refused.
	Fork string
	// Set sets a variable v to 41; Show prints it, and fails where it is not set.
	Set  string
	Show string
	// Flood prints FloodBytes times x, no line end.
	Flood string
	// Background leaves something alive that goes on printing "late".
	Background string
	// Write writes "hello" to out.txt in the working folder.
	Write string
	// ReadInput prints the content of in.txt in the working folder.
	ReadInput string
	// SpoilInput tries to change in.txt and must fail to.
	SpoilInput string
	// ReadOther prints the content of out.txt, and fails where there is none.
	ReadOther string
	// Env prints the environment variable SUITE.
	Env string
}

// TextWanted is what Cells.Text prints, without the line end.
const TextWanted = "é漢🙂é漢🙂é漢🙂"

// PythonCells are the suite's cells in Python.
func PythonCells() Cells {
	return Cells{
		Streams:    "import sys\nprint('out')\nprint('err', file=sys.stderr)",
		Text:       "import os\nfor b in '" + TextWanted + "\\n'.encode():\n    os.write(1, bytes([b]))",
		Raise:      "raise ValueError('boom')",
		Exit:       "import sys\nprint('a')\nsys.exit(3)",
		Crash:      "import ctypes\nctypes.string_at(0)",
		Spin:       "print('begun', flush=True)\nwhile True: pass",
		Hog:        "b = []\nwhile True: b.append(bytearray(8 << 20))",
		Fork:       "import subprocess\nps = []\nfor _ in range(5000): ps.append(subprocess.Popen(['sleep', '60']))",
		Set:        "v = 41",
		Show:       "print(v)",
		Flood:      fmt.Sprintf("import sys\nsys.stdout.write('x' * %d)\nsys.stdout.flush()", FloodBytes),
		Background: "import threading, time\ndef late():\n    while True:\n        print('late', flush=True)\n        time.sleep(0.01)\nthreading.Thread(target=late, daemon=True).start()",
		Write:      "open('out.txt', 'w').write('hello')",
		ReadInput:  "print(open('in.txt').read())",
		SpoilInput: "open('in.txt', 'w').write('spoilt')",
		ReadOther:  "print(open('out.txt').read())",
		Env:        "import os\nprint(os.environ['SUITE'])",
	}
}

// JavaScriptCells are the suite's cells in JavaScript.
func JavaScriptCells() Cells {
	return Cells{
		Streams:    "console.log('out'); console.error('err')",
		Text:       "const { writeSync } = require('fs'); for (const b of Buffer.from('" + TextWanted + "\\n')) writeSync(1, Buffer.of(b)); void 0",
		Raise:      "throw Object.assign(new Error('boom'), { name: 'ValueError' })",
		Exit:       "console.log('a'); process.exit(3)",
		Crash:      "process.kill(process.pid, 'SIGSEGV')",
		Spin:       "console.log('begun'); while (true) {}",
		Hog:        "const b = []; while (true) b.push(Buffer.alloc(8 << 20, 1))",
		Fork:       "const { spawn } = require('child_process')\nfor (let i = 0; i < 5000; i++) if (spawn('sleep', ['60']).pid === undefined) throw new Error('refused')",
		Set:        "let v = 41",
		Show:       "console.log(v)",
		Flood:      fmt.Sprintf("void process.stdout.write('x'.repeat(%d))", FloodBytes),
		Background: "void setInterval(() => console.log('late'), 10)",
		Write:      "require('fs').writeFileSync('out.txt', 'hello')",
		ReadInput:  "console.log(require('fs').readFileSync('in.txt', 'utf8'))",
		SpoilInput: "require('fs').writeFileSync('in.txt', 'spoilt')",
		ReadOther:  "console.log(require('fs').readFileSync('out.txt', 'utf8'))",
		Env:        "console.log(process.env.SUITE)",
	}
}

// FakeCells are the suite's cells in the language of the fake backend.
func FakeCells() Cells {
	return Cells{
		Streams:    "print out\neprint err",
		Text:       `bytes \xc3` + "\n" + `bytes \xa9漢🙂é漢\xf0\x9f` + "\n" + `bytes \x99\x82é漢🙂\n`,
		Raise:      "raise ValueError boom",
		Exit:       "print a\nexit 3",
		Crash:      "signal 11",
		Spin:       "print begun\nspin",
		Hog:        "oom",
		Fork:       "pids",
		Set:        "set v 41",
		Show:       "show v",
		Flood:      fmt.Sprintf("flood %d", FloodBytes),
		Background: "# a fake has no threads",
		Write:      "write out.txt hello",
		ReadInput:  "cat in.txt",
		SpoilInput: "raise OSError read-only",
		ReadOther:  "cat out.txt",
		Env:        "env SUITE",
	}
}
