// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

func TestFloodKeepsBothEndsAndTheFile(t *testing.T) {
	b := newBench(t, nil) // not parallel: it looks at the memory of the process
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const flood = 50_000_000
	x := b.run(t, code("print first", fmt.Sprintf("flood %d", flood), "print last", "raise ValueError keep me"), nil)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	const total = flood + 11
	if x.Usage.StdoutBytes != total || x.Output.Stdout.Kept != total || !x.Truncated {
		t.Errorf("output %+v", x.Output)
	}
	if x.Output.Stdout.Omitted != total-engine.InlineHead-engine.InlineTail {
		t.Errorf("omitted %d", x.Output.Stdout.Omitted)
	}
	if !strings.HasPrefix(x.Stdout, "first\nxxx") || !strings.HasSuffix(x.Stdout, "xxxlast\n") || !strings.Contains(x.Stdout, "bytes left out here") {
		t.Errorf("stdout is %.50q ... %q", x.Stdout, x.Stdout[len(x.Stdout)-50:])
	}
	if x.Error == nil || x.Error.Value != "keep me" || x.Limits["output"].Hit {
		t.Errorf("error %+v, limit %+v", x.Error, x.Limits["output"])
	}
	file, err := b.OpenOutput(mine, x.ID, "stdout")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if n, err := io.Copy(io.Discard, file); n != total || err != nil {
		t.Errorf("the file has %d bytes, %v", n, err)
	}
}

func TestOutputLimitCountsAndDrops(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	request := code("print first", "flood 1000000", "print last")
	request.Limits.Output = ptr(int64(300_000))
	streamed := 0
	x := b.run(t, request, engine.SinkFunc(func(_ context.Context, e sandbox.Event) error {
		streamed += len(e.Text)
		return nil
	}))
	if x.Status != "ok" || x.Output.Stdout.Bytes != 1_000_011 || x.Output.Stdout.Kept != 300_000 || streamed != 300_000 {
		t.Errorf("status %s, output %+v, streamed %d", x.Status, x.Output, streamed)
	}
	if !x.Limits["output"].Hit || !warned(x, "output_limit") || !strings.HasSuffix(x.Stdout, "last\n") {
		t.Errorf("limits %+v, warnings %+v", x.Limits["output"], x.Warnings)
	}
}

func TestInlineAtTheLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	const inline = engine.InlineHead + engine.InlineTail
	for _, size := range []int{inline, inline + 1} {
		x := b.run(t, code(fmt.Sprintf("flood %d", size)), nil)
		if x.Truncated != (size > inline) || x.Output.Stdout.Omitted != int64(size-inline) {
			t.Errorf("%d bytes: truncated %v, %+v", size, x.Truncated, x.Output.Stdout)
		}
	}
}

func TestCharactersAreNeverCut(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var lines []string
	text := strings.Repeat("é漢🙂", 20000)
	for at := 0; at < len(text); at += 1000 { // cuts fall inside characters
		var escaped strings.Builder
		for _, c := range []byte(text[at:min(at+1000, len(text))]) {
			fmt.Fprintf(&escaped, `\x%02x`, c)
		}
		lines = append(lines, "bytes "+escaped.String())
	}
	var streamed strings.Builder
	x := b.run(t, code(lines...), engine.SinkFunc(func(_ context.Context, e sandbox.Event) error {
		streamed.Write(e.Text)
		return nil
	}))
	if streamed.String() != text {
		t.Error("the stream is not the text")
	}
	if !utf8.ValidString(x.Stdout) || strings.Contains(x.Stdout, "\uFFFD") || warned(x, "invalid_utf8") {
		t.Error("characters were cut")
	}
}

func TestInvalidBytesAreReplacedAndSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	x := b.run(t, code(`bytes ok\xff\xfe`, `bytes \xe6\xbc`, `ebytes \xe6`), nil)
	if x.Stdout != "ok\uFFFD" || x.Stderr != "\uFFFD" {
		t.Errorf("stdout %q, stderr %q", x.Stdout, x.Stderr)
	}
	var said []string
	for _, warning := range x.Warnings {
		said = append(said, warning.Text)
	}
	if len(said) != 2 || !strings.HasPrefix(said[0], "4 bytes of stdout") || !strings.HasPrefix(said[1], "1 bytes of stderr") {
		t.Errorf("got %q", said)
	}
}

// TestEventsKeepTheirOrder reads slower than the program prints.
func TestEventsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var lines []string
	for i := range 500 {
		lines = append(lines, fmt.Sprintf("print o%d", i), fmt.Sprintf("eprint e%d", i))
	}
	lines = append(lines, "notice a_code careful", "value 1", "raise E boom")
	var kinds []sandbox.EventKind
	var text strings.Builder
	hold := make(chan struct{})
	done := make(chan *engine.Execution)
	go func() {
		x, err := b.Run(t.Context(), code(lines...), engine.SinkFunc(func(_ context.Context, e sandbox.Event) error {
			<-hold
			kinds = append(kinds, e.Kind)
			text.Write(e.Text)
			return nil
		}))
		if err != nil {
			t.Error(err)
		}
		done <- x
	}()
	for len(b.fake.Log()) < 8 { // the sandbox is destroyed although nothing was read yet
		runtime.Gosched()
	}
	close(hold)
	<-done
	var want strings.Builder
	for i := range 500 {
		fmt.Fprintf(&want, "o%d\ne%d\n", i, i)
	}
	if text.String() != want.String() {
		t.Error("the order is lost")
	}
	tail := kinds[len(kinds)-3:]
	if tail[0] != sandbox.EventNotice || tail[1] != sandbox.EventResult || tail[2] != sandbox.EventError {
		t.Errorf("got %v", tail)
	}
}

func TestFeedBeyondItsLimitLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var lines []string
	for range engine.MaxFeed {
		lines = append(lines, "print o", "eprint e")
	}
	hold := make(chan struct{})
	var out, err int
	done := make(chan error)
	go func() {
		_, runErr := b.Run(t.Context(), code(lines...), engine.SinkFunc(func(_ context.Context, e sandbox.Event) error {
			<-hold
			switch e.Kind {
			case sandbox.EventStdout:
				out += len(e.Text)
			case sandbox.EventStderr:
				err += len(e.Text)
			}
			return nil
		}))
		done <- runErr
	}()
	for len(b.fake.Log()) < 8 {
		runtime.Gosched()
	}
	close(hold)
	if runErr := <-done; runErr != nil || out != 2*engine.MaxFeed || err != out {
		t.Errorf("out %d, err %d, %v", out, err, runErr)
	}
}

func TestASinkThatFailsIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	calls := 0
	x := b.run(t, code("print a", "eprint b", "print c"), engine.SinkFunc(func(context.Context, sandbox.Event) error {
		calls++
		return errors.New("broken pipe")
	}))
	if x.Status != "ok" || calls != 1 || x.Stdout != "a\nc\n" {
		t.Errorf("status %s, %d calls", x.Status, calls)
	}
}
