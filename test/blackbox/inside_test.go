// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// in asks for something in a sandbox and expects a status.
func (n *notebook) in(t *testing.T, method, path string, body io.Reader, want int) answer {
	t.Helper()
	kind := ""
	if body != nil {
		kind = "application/json"
	}
	a := n.do(t, method, "/v1/sandboxes/"+n.id+path, kind, body)
	if a.status != want {
		t.Fatalf("%s %s: status %d, want %d: %.500s", method, path, a.status, want, a.body)
	}
	return a
}

func fileAt(name string) string { return "/files?path=" + url.QueryEscape(name) }

// TestSessionsOfEveryLanguage live in one sandbox, see the same files, and keep their own state; one is interrupted, one
// begun anew, and a session that was closed is gone with its processes.
func TestSessionsOfEveryLanguage(t *testing.T) {
	t.Parallel()
	n := theServer(t).open(t, call{"policy": "standard"})
	for name, language := range map[string]string{"js": "javascript", "ts": "typescript", "sh": "bash", "py": "python"} {
		n.in(t, "POST", "/sessions", strings.NewReader(fmt.Sprintf(`{"name": %q, "language": %q, "env": {"WHO": %q}}`, name, language, name)), http.StatusCreated)
	}
	for session, code := range map[string]string{
		"main": "x = 'main'; open('main.txt','w').write(x)", "py": "import os\nx = os.environ['WHO']", "js": "globalThis.x = process.env.WHO",
		"ts": "const y: string = process.env.WHO!; (globalThis as any).x = y", "sh": "x=$WHO",
	} {
		n.cell(t, code, call{"session": session}).ok(t)
	}
	for session, code := range map[string]string{"main": "print(x)", "py": "print(x)", "js": "console.log(x)", "ts": "console.log((globalThis as any).x)", "sh": "echo $x"} {
		n.cell(t, code, call{"session": session}).says(t, session)
	}
	n.cell(t, "cat main.txt", call{"session": "sh"}).says(t, "main")
	n.in(t, "POST", "/sessions/js/restart", nil, http.StatusOK)
	n.cell(t, "console.log(typeof globalThis.x)", call{"session": "js"}).says(t, "undefined")

	running := make(chan *execution, 1)
	go func() {
		running <- n.cell(t, "import time\nopen('runs','w').close()\ntime.sleep(60)", call{"session": "py"})
	}()
	n.until(t, "runs")
	n.in(t, "POST", "/execute", strings.NewReader(`{"session": "py", "code": "1"}`), http.StatusConflict)
	n.in(t, "POST", "/sessions/py/interrupt", nil, http.StatusNoContent)
	if x := <-running; x.Error == nil || x.Error.Name != "KeyboardInterrupt" {
		t.Errorf("interrupted: %s", x.raw)
	}
	n.cell(t, "print(x)", call{"session": "py"}).says(t, "py")

	mark := marked(t)
	n.cell(t, "sleep "+mark+" &", call{"session": "sh"}).ok(t)
	go func() { running <- n.cell(t, "touch again; sleep 60", call{"session": "sh"}) }()
	n.until(t, "again")
	n.in(t, "DELETE", "/sessions/sh", nil, http.StatusNoContent)
	if x := <-running; x.Status == "ok" {
		t.Errorf("the cell of a closed session: %s", x.raw)
	}
	n.in(t, "POST", "/execute", strings.NewReader(`{"session": "sh", "code": "1"}`), http.StatusNotFound)
	n.cell(t, "print(x)").says(t, "main")
}

// until waits for a file in the sandbox.
func (n *notebook) until(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if n.do(t, "GET", "/v1/sandboxes/"+n.id+"/files/stat?path="+name, "", nil).status == http.StatusOK {
			return
		}
	}
	t.Fatalf("%s never came", name)
}

// TestFilesInside: what is put is seen by code and the other way round; a path or a link leads nowhere that code could not go.
func TestFilesInside(t *testing.T) {
	t.Parallel()
	n := theServer(t).open(t, call{"limits": call{"disk": "8MiB"}}, upload{name: "in.csv", content: []byte("given")})
	n.in(t, "PUT", fileAt("a/数据 b.txt"), strings.NewReader("over http"), http.StatusOK)
	n.cell(t, "print(open('a/数据 b.txt').read())").says(t, "over http")
	n.cell(t, "import os\nopen('made','w').write('x'*10); os.symlink('/etc/shadow','link'); os.mkfifo('pipe'); os.symlink('..','up')").ok(t)
	if a := n.in(t, "GET", fileAt("made"), nil, http.StatusOK); string(a.body) != "xxxxxxxxxx" {
		t.Errorf("made: %q", a.body)
	}
	if a := n.in(t, "GET", fileAt("in.csv"), nil, http.StatusOK); string(a.body) != "given" {
		t.Errorf("an upload: %q", a.body)
	}
	for name, want := range map[string]int{
		"link": http.StatusForbidden, "pipe": http.StatusBadRequest, "/etc/shadow": http.StatusForbidden, "/proc/1/environ": http.StatusNotFound,
		"../../etc/passwd": http.StatusBadRequest, "none": http.StatusNotFound,
	} {
		if a := n.do(t, "GET", "/v1/sandboxes/"+n.id+fileAt(name), "", nil); a.status < 400 || a.status >= 500 {
			t.Errorf("%s: %d %.200s, want %d or the like", name, a.status, a.body, want)
		}
	}
	for _, name := range []string{"/etc/x", "/x", "/usr/bin/x", "up/x", "/data/x", "/proc/x"} {
		if a := n.do(t, "PUT", "/v1/sandboxes/"+n.id+fileAt(name), "", strings.NewReader("x")); a.status < 400 || a.status >= 500 {
			t.Errorf("PUT %s: %d %.200s", name, a.status, a.body)
		}
	}
	// Over the limit: refused before it is sent, and refused while it is.
	big := bytes.Repeat([]byte("x"), 9<<20)
	if a := n.in(t, "PUT", fileAt("big"), bytes.NewReader(big), http.StatusRequestEntityTooLarge); !strings.Contains(string(a.body), "disk") {
		t.Errorf("too large: %s", a.body)
	}
	if a := n.in(t, "PUT", fileAt("big"), struct{ io.Reader }{bytes.NewReader(big)}, http.StatusRequestEntityTooLarge); !strings.Contains(string(a.body), "disk") {
		t.Errorf("too large: %s", a.body)
	}
	list := string(n.in(t, "GET", "/files/list", nil, http.StatusOK).body)
	for deadline := time.Now().Add(time.Minute); strings.Contains(list, ".glovebox") && time.Now().Before(deadline); {
		list = string(n.in(t, "GET", "/files/list", nil, http.StatusOK).body)
	}
	if strings.Contains(list, `"big"`) || strings.Contains(list, ".glovebox") || !strings.Contains(list, `"pipe"`) {
		t.Errorf("afterwards: %s", list)
	}
	n.two(t)
}

// archive makes a tar.
func archive(t *testing.T, members ...tar.Header) []byte {
	t.Helper()
	var made bytes.Buffer
	w := tar.NewWriter(&made)
	for _, m := range members {
		content := strings.Repeat("x", int(m.Size))
		if err := w.WriteHeader(&m); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return made.Bytes()
}

// TestArchivesInside are unpacked inside, and nothing of them leads out or is too much.
func TestArchivesInside(t *testing.T) {
	t.Parallel()
	n := theServer(t).open(t, call{"limits": call{"disk": "16MiB"}})
	long := strings.Repeat("long-folder-name/", 12) + "数据.txt"
	good := archive(t,
		tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "d/run.sh", Size: 5, Mode: 0o755, Typeflag: tar.TypeReg},
		tar.Header{Name: long, Size: 7, Mode: 0o644, Typeflag: tar.TypeReg}, tar.Header{Name: "s", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink},
		tar.Header{Name: "h", Linkname: "d/run.sh", Typeflag: tar.TypeLink},
	)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(good); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for folder, content := range map[string][]byte{"plain": good, "zipped": zipped.Bytes()} {
		a := n.in(t, "POST", "/files/archive?path="+folder, bytes.NewReader(content), http.StatusOK)
		if string(a.body) != `{"entries":3,"bytes":12,"skipped":2}`+"\n" {
			t.Errorf("%s: %s", folder, a.body)
		}
		n.cell(t, fmt.Sprintf("import os\np=%q\nprint(os.stat(p+'/d/run.sh').st_mode & 0o777 == 0o755, os.stat(p+%q).st_size, os.path.lexists(p+'/s'))", folder, "/"+long)).says(t, "True 7 False")
	}
	n.cell(t, "import os\nos.symlink('/tmp','plain/out')\nos.mkfifo('plain/pipe')").ok(t)
	for name, members := range map[string][]tar.Header{
		"upwards":       {{Name: "../x", Size: 1, Typeflag: tar.TypeReg}},
		"absolute":      {{Name: "/tmp/x", Size: 1, Typeflag: tar.TypeReg}},
		"through a way": {{Name: "out/x", Size: 1, Typeflag: tar.TypeReg}},
		"deep":          {{Name: strings.Repeat("a/", 100) + "x", Size: 1, Typeflag: tar.TypeReg}},
		"much":          {{Name: "much", Size: 17 << 20, Typeflag: tar.TypeReg}},
	} {
		a := n.do(t, "POST", "/v1/sandboxes/"+n.id+"/files/archive?path=plain", "", bytes.NewReader(archive(t, members...)))
		if a.status != http.StatusBadRequest && a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %.300s", name, a.status, a.body)
		}
	}
	// A bomb: 200 MiB of nothing in 200 KiB.
	var bomb bytes.Buffer
	w = gzip.NewWriter(&bomb)
	if _, err := io.Copy(w, io.LimitReader(zeros{}, 200<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	n.in(t, "POST", "/files/archive", bytes.NewReader(bomb.Bytes()), http.StatusOK) // an empty block is the end of an archive
	n.cell(t, "print(os.path.exists('/tmp/x'), os.listdir('/tmp'))").says(t, "False []")
	n.in(t, "POST", "/files/archive?path=plain", bytes.NewReader(archive(t, tar.Header{Name: "pipe", Size: 3, Mode: 0o644, Typeflag: tar.TypeReg})), http.StatusOK)

	out := n.in(t, "GET", "/files/archive?path=zipped", nil, http.StatusOK)
	names := map[string]bool{}
	for reader := tar.NewReader(bytes.NewReader(out.body)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names[header.Name] = true
	}
	if !names["d/run.sh"] || !names[long] {
		t.Errorf("out again: %v", names)
	}
	// A file that claims more than there is: refused, not sent for ever.
	n.cell(t, "os.makedirs('sparse')\nf=open('sparse/f','w')\ntry:\n os.truncate('sparse/f', 5<<30)\nexcept OSError: pass").ok(t)
	n.two(t)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestLargeFiles: a file goes in and out with flat memory. It has 64 MiB, or as many MiB as GLOVEBOX_LARGE says.
func TestLargeFiles(t *testing.T) {
	mega := int64(64)
	if text := os.Getenv("GLOVEBOX_LARGE"); text != "" {
		var err error
		if mega, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	limit := fmt.Sprintf("%dMiB", max(512, mega+64)) // the server's own proof needs that much
	own := ownServer(t, fmt.Sprintf("maxima:\n  memory: %dMiB\n  disk: %s\n", mega+1024, limit), nil)
	n := own.open(t, call{"limits": call{"disk": limit, "memory": fmt.Sprintf("%dMiB", mega+512)}})
	before := own.memory(t)
	sum := sha256.New()
	most := int64(0)
	body := io.TeeReader(io.LimitReader(&counter{each: func(at int64) { most = max(most, own.memory(t)) }}, mega<<20), sum)
	n.in(t, "PUT", fileAt("large"), body, http.StatusOK)
	want := hex.EncodeToString(sum.Sum(nil))
	n.cell(t, "import hashlib\nprint(hashlib.file_digest(open('large','rb'),'sha256').hexdigest())", within(120)).says(t, want)
	request, err := own.request(t.Context(), "GET", "/v1/sandboxes/"+n.id+fileAt("large"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	sum.Reset()
	piece := make([]byte, 1<<20)
	for got := int64(0); ; {
		read, err := response.Body.Read(piece)
		sum.Write(piece[:read])
		if got += int64(read); got%(16<<20) < int64(read) {
			most = max(most, own.memory(t))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want || response.ContentLength != mega<<20 {
		t.Errorf("%d bytes, %s, want %s", response.ContentLength, got, want)
	}
	const allowed = 100 << 20
	t.Logf("%d MiB in and out: the server's memory grew by %d KiB at most", mega, (most-before)>>10)
	if most-before > allowed && !raceEnabled {
		t.Errorf("the server's memory grew by %d MiB", (most-before)>>20)
	}
}

// counter makes bytes that differ, and looks up now and then.
type counter struct {
	at   int64
	each func(int64)
}

func (c *counter) Read(p []byte) (int, error) {
	if c.at%(16<<20) < int64(len(p)) {
		c.each(c.at)
	}
	for i := range p {
		p[i] = byte((c.at + int64(i)) * 31 >> 3)
	}
	c.at += int64(len(p))
	return len(p), nil
}

// TestSlowDownloadHoldsUpNothing: who takes a file and does not read it holds up neither cells nor other files.
func TestSlowDownloadHoldsUpNothing(t *testing.T) {
	t.Parallel()
	n := theServer(t).open(t, call{"limits": call{"disk": "64MiB"}})
	n.cell(t, "open('f','wb').write(bytes(60<<20))").ok(t)
	request, err := n.request(t.Context(), "GET", "/v1/sandboxes/"+n.id+fileAt("f"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	took(t, 10, func() {
		n.two(t)
		n.in(t, "PUT", fileAt("g"), strings.NewReader("x"), http.StatusOK)
		n.in(t, "GET", fileAt("g"), nil, http.StatusOK)
	})
}

// started starts a process and returns its path in the sandbox.
func (n *notebook) started(t *testing.T, c call) string {
	t.Helper()
	var made struct{ ID string }
	if err := json.Unmarshal(n.in(t, "POST", "/processes", bytes.NewReader(encode(t, c)), http.StatusCreated).body, &made); err != nil {
		t.Fatal(err)
	}
	return "/processes/" + made.ID
}

// TestProcessesInside: input as fast as it is read, output by offset, signals to the whole group, the end from the kernel.
func TestProcessesInside(t *testing.T) {
	t.Parallel()
	n := theServer(t).open(t, call{})
	p := n.started(t, call{"command": "sh", "args": []string{"-c", "echo $WHO; pwd; wc -c; echo end >&2; exit 7"}, "stdin": true, "env": call{"WHO": "me"}, "dir": "/tmp"})
	n.in(t, "POST", p+"/stdin", bytes.NewReader(make([]byte, 5<<20)), http.StatusOK)
	n.in(t, "POST", p+"/stdin?close", strings.NewReader("x"), http.StatusOK)
	if a := n.in(t, "GET", p+"?wait=30", nil, http.StatusOK); !strings.Contains(string(a.body), `"exit_code":7`) || !strings.Contains(string(a.body), `"end":"exit"`) {
		t.Errorf("ended: %s", a.body)
	}
	if a := n.in(t, "GET", p+"/output", nil, http.StatusOK); string(a.body) != "me\n/tmp\n5242881\nend\n" {
		t.Errorf("output: %q", a.body)
	}
	// A folder of its own, beneath the working folder.
	n.in(t, "POST", "/files/folders", strings.NewReader(`{"path": "sub"}`), http.StatusNoContent)
	p = n.started(t, call{"command": "pwd", "dir": "sub"})
	n.in(t, "GET", p+"?wait=30", nil, http.StatusOK)
	if a := n.in(t, "GET", p+"/output", nil, http.StatusOK); string(a.body) != "/home/user/sub\n" {
		t.Errorf("its folder: %q", a.body)
	}
	mark := marked(t)
	p = n.started(t, call{"command": "sh", "args": []string{"-c", "sleep " + mark + " & echo up; wait"}})
	for deadline := time.Now().Add(time.Minute); len(n.in(t, "GET", p+"/output", nil, http.StatusOK).body) == 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	n.in(t, "POST", p+"/signal", strings.NewReader(`{"signal": "TERM"}`), http.StatusNoContent)
	if a := n.in(t, "GET", p+"?wait=30", nil, http.StatusOK); !strings.Contains(string(a.body), `"signal":15`) {
		t.Errorf("signalled: %s", a.body)
	}
	if left := strays(t, mark); len(left) > 0 {
		t.Errorf("left of the group: %v", left)
	}
	// One that does not read its input: told so in time, still alive, and nothing of the sandbox is held up.
	p = n.started(t, call{"command": "sleep", "args": []string{"600"}, "stdin": true})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errors.New("long enough"))
	defer cancel()
	request, err := n.request(ctx, "POST", "/v1/sandboxes/"+n.id+p+"/stdin", "", bytes.NewReader(make([]byte, 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	if response, err := http.DefaultClient.Do(request); err == nil {
		response.Body.Close()
		t.Errorf("a deaf process took its input: %d", response.StatusCode)
	}
	n.in(t, "POST", p+"/stdin", strings.NewReader("x"), http.StatusConflict)
	n.two(t)
	n.in(t, "DELETE", p, nil, http.StatusNoContent)
	n.in(t, "GET", p, nil, http.StatusNotFound)
	if a := n.in(t, "POST", "/processes", strings.NewReader(`{"command": "no-such-program"}`), http.StatusBadRequest); !strings.Contains(string(a.body), "no-such-program") {
		t.Errorf("no program: %s", a.body)
	}
	// A wall limit of its own.
	p = n.started(t, call{"command": "sleep", "args": []string{"600"}, "wall": 0.2})
	if a := n.in(t, "GET", p+"?wait=30", nil, http.StatusOK); !strings.Contains(string(a.body), "wall_timeout") {
		t.Errorf("over its wall: %s", a.body)
	}
}

// TestTerminalInside: a shell with a real terminal, resized, left and joined again.
func TestTerminalInside(t *testing.T) {
	t.Parallel()
	n := theServer(t).open(t, call{})
	p := n.started(t, call{"command": "bash", "args": []string{"--norc"}, "env": call{"PS1": "$ "}, "terminal": call{"rows": 24, "cols": 80}})
	dial := func(offset int64) *websocket.Conn {
		t.Helper()
		conn, response, err := websocket.Dial(t.Context(), fmt.Sprintf("%s/v1/sandboxes/%s%s/attach?offset=%d", n.url, n.id, p, offset),
			&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + n.token}}})
		if err != nil {
			t.Fatal(err)
		}
		if response.Body != nil {
			response.Body.Close()
		}
		return conn
	}
	var output string
	// until reads output until it holds the text; a text message counts as <its type>.
	until := func(conn *websocket.Conn, text string) {
		t.Helper()
		for !strings.Contains(output, text) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("never came"))
			kind, data, err := conn.Read(ctx)
			cancel()
			if err != nil {
				t.Fatalf("waiting for %q: %v; so far %q", text, err, output)
			}
			if kind == websocket.MessageText {
				var message struct{ Type string }
				if err := json.Unmarshal(data, &message); err != nil {
					t.Fatal(err)
				}
				data = []byte("<" + message.Type + ">")
			}
			output += string(data)
		}
	}
	write := func(conn *websocket.Conn, kind websocket.MessageType, text string) {
		t.Helper()
		if err := conn.Write(t.Context(), kind, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	conn := dial(0)
	write(conn, websocket.MessageBinary, "tty | sed s/^/is:/; stty size; test -t 0 && test -t 1 && echo both-$((40+2))\r")
	until(conn, "both-42")
	if !strings.Contains(output, "is:/dev/pts/") || !strings.Contains(output, "24 80") {
		t.Errorf("the terminal: %q", output)
	}
	write(conn, websocket.MessageText, `{"type": "resize", "rows": 40, "cols": 132}`)
	write(conn, websocket.MessageBinary, "stty size; echo done-$((1+1))\r")
	until(conn, "done-2")
	if !strings.Contains(output, "40 132") {
		t.Errorf("resized: %q", output)
	}
	write(conn, websocket.MessageBinary, "sh -c 'echo begun-$((1+3)); exec sleep 600'\r")
	until(conn, "begun-4")                       // before that the shell itself has the terminal
	write(conn, websocket.MessageBinary, "\x03") // a person's Ctrl-C
	write(conn, websocket.MessageBinary, "echo after-$((1+2)); echo controlled > /dev/tty\r")
	until(conn, "controlled\r\n")
	if err := conn.CloseNow(); err != nil {
		t.Log(err)
	}
	output = ""
	conn = dial(0)
	until(conn, "after-3")
	write(conn, websocket.MessageText, `{"type": "close"}`)
	until(conn, "<ended>")
	n.two(t)
}
