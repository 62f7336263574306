// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/internal/guest/wire"
)

var update = flag.Bool("update", false, "rewrite golden files")

// framesScript makes with Python's encoder what goldenFrames makes with Go's, and reads it back with Python's decoder.
const framesScript = `
import os, sys
sys.path.insert(0, sys.argv[1])
from glovebox import channel
out = b""
def put(kind, cell, value):
    global out
    for head, part in channel.frames(kind, cell, channel.encode(value)):
        out += head + bytes(part)
put(channel.READY, 0, {"language": "python", "version": "3"})
out += channel.header(channel.STDOUT, 0, 7, 3) + b"a\xff\n"
put(channel.DONE, 2**32 - 1, {"status": "ok", "exit_code": 0})
put(channel.ERROR, 1, {"name": "é\U0001f642", "value": "\ud800", "traceback": ""})
put(channel.NOTICE, 2, {"code": "c", "text": "x" * (2 * 262144)})
sys.stdout.buffer.write(out)
reader, writer = os.pipe()
if os.fork() == 0:
    # In pieces that end inside headers and payloads.
    for start in range(0, len(out), 60001):
        os.write(writer, out[start:start + 60001])
    os._exit(0)
os.close(writer)
c = channel.Channel(reader)
got = b""
while (message := c.receive()) is not None:
    kind, cell, payload = message
    if kind == channel.STDOUT:
        got += channel.header(kind, 0, cell, len(payload)) + payload
    else:
        got += b"".join(head + bytes(part) for head, part in channel.frames(kind, cell, payload))
sys.exit(0 if got == out else 9)
`

func goldenFrames(t *testing.T) []byte {
	t.Helper()
	var sink bytes.Buffer
	writer := wire.NewWriter(&sink)
	put := func(kind wire.Kind, id uint32, payload string) {
		if err := writer.Bytes(kind, id, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	put(wire.KindReady, 0, `{"language":"python","version":"3"}`)
	put(wire.KindStdout, 7, "a\xff\n")
	put(wire.KindDone, 1<<32-1, `{"status":"ok","exit_code":0}`)
	put(wire.KindError, 1, `{"name":"é🙂","value":"`+"\ufffd"+`","traceback":""}`)
	put(wire.KindNotice, 2, `{"code":"c","text":"`+strings.Repeat("x", 2*wire.MaxPayload)+`"}`)
	return sink.Bytes()
}

func TestPythonFramesMatchGo(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("skipped: no python3 on this host")
	}
	want := goldenFrames(t)
	checkGolden(t, want)
	command := exec.CommandContext(t.Context(), python, "-I", "-B", "-c", framesScript, "python")
	command.Stderr = os.Stderr
	got, err := command.Output()
	if err != nil {
		t.Fatalf("python's decoder does not read its own frames: %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("python's frames differ from Go's at byte %d of %d", differsAt(got, want), len(want))
	}
}

// checkGolden compares the start of each frame with the file that both sides are held to.
func checkGolden(t *testing.T, frames []byte) {
	t.Helper()
	var text strings.Builder
	for rest := frames; len(rest) > 0; {
		size := wire.HeaderSize + int(rest[0])<<24 + int(rest[1])<<16 + int(rest[2])<<8 + int(rest[3])
		text.WriteString(hex.EncodeToString(rest[:min(size, 60)]) + "\n")
		rest = rest[size:]
	}
	path := filepath.Join("testdata", "frames.golden")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(golden) != text.String() {
		t.Errorf("frames differ from %s:\n%s", path, text.String())
	}
}

func differsAt(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
