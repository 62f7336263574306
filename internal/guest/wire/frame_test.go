// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/internal/guest/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden holds one stream with a message of each form. Other implementations of the protocol are held to the same file.
func golden(t *testing.T) []byte {
	t.Helper()
	var stream bytes.Buffer
	w := wire.NewWriter(&stream)
	steps := []error{
		w.JSON(wire.KindHello, 0, wire.Hello{Limits: &wire.ProcessLimits{OpenFiles: 256, Processes: 64, FileSize: 1 << 28, CPUTime: 10}}),
		w.JSON(wire.KindCell, 7, wire.Cell{Code: "print('é')\n", Name: "main.py", Last: true}),
		w.JSON(wire.KindReady, 0, wire.Ready{Language: "python", Version: "3.13.5"}),
		w.Bytes(wire.KindStdout, 7, []byte("é\n")),
		w.Bytes(wire.KindStderr, 7, nil),
		w.JSON(wire.KindDone, 7, wire.Done{Status: wire.StatusExit, ExitCode: 3}),
		w.JSON(wire.KindEnd, 7, wire.End{Exited: true, Status: 3 << 8, Done: &wire.Done{Status: wire.StatusExit, ExitCode: 3}}),
		w.Bytes(wire.KindDisplay, 8, []byte(`{"data":{"text/plain":"`+strings.Repeat("x", 64)+`"}}`)),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	return stream.Bytes()
}

// TestGoldenStream: the bytes of the protocol do not change by accident.
func TestGoldenStream(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "stream.bin")
	got := golden(t)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the encoder's bytes differ from %s", file)
	}
	reader := wire.NewReader(bytes.NewReader(want))
	kinds := []wire.Kind{
		wire.KindHello, wire.KindCell, wire.KindReady, wire.KindStdout, wire.KindStderr, wire.KindDone, wire.KindEnd,
		wire.KindDisplay,
	}
	for _, kind := range kinds {
		m, err := reader.Next()
		if err != nil || m.Kind != kind {
			t.Fatalf("got %v, %v; want %v", m.Kind, err, kind)
		}
	}
	if _, err := reader.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// TestLongMessage: a message of several frames comes back whole, with other messages between its frames.
func TestLongMessage(t *testing.T) {
	t.Parallel()
	payload := bytes.Repeat([]byte("0123456789abcdef"), (2*wire.MaxPayload+5)/16)
	var long, short, mixed bytes.Buffer
	if err := wire.NewWriter(&long).Bytes(wire.KindDisplay, 3, payload); err != nil {
		t.Fatal(err)
	}
	if err := wire.NewWriter(&short).Bytes(wire.KindStdout, 3, []byte("between")); err != nil {
		t.Fatal(err)
	}
	first := wire.HeaderSize + wire.MaxPayload
	mixed.Write(long.Bytes()[:first])
	mixed.Write(short.Bytes())
	mixed.Write(long.Bytes()[first:])
	reader := wire.NewReader(&mixed)
	if m, err := reader.Next(); err != nil || string(m.Payload) != "between" {
		t.Fatalf("between the frames: %v %v", m, err)
	}
	if m, err := reader.Next(); err != nil || !bytes.Equal(m.Payload, payload) {
		t.Fatalf("long message: %d bytes, %v", len(m.Payload), err)
	}
}

// TestStreamIsCut: raw bytes longer than a frame become several messages, in order.
func TestStreamIsCut(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	payload := bytes.Repeat([]byte("abc"), wire.MaxPayload)
	if err := wire.NewWriter(&stream).Bytes(wire.KindStdout, 1, payload); err != nil {
		t.Fatal(err)
	}
	var got []byte
	reader := wire.NewReader(&stream)
	for {
		m, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Payload...)
	}
	if !bytes.Equal(got, payload) {
		t.Errorf("got %d bytes of %d", len(got), len(payload))
	}
}

func frame(kind wire.Kind, flags byte, id uint32, payload []byte) []byte {
	header := make([]byte, wire.HeaderSize)
	binary.BigEndian.PutUint32(header, uint32(len(payload)))
	header[4], header[5], header[6] = wire.Version, byte(kind), flags
	binary.BigEndian.PutUint32(header[8:], id)
	return append(header, payload...)
}

// TestBrokenStreams: whatever breaks a rule is an ErrProtocol, never a guess and never a panic.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	whole := frame(wire.KindStdout, 0, 1, []byte("x"))
	edit := func(at int, value byte) []byte {
		broken := bytes.Clone(whole)
		broken[at] = value
		return broken
	}
	tooLong := frame(wire.KindStdout, 0, 1, nil)
	binary.BigEndian.PutUint32(tooLong, wire.MaxPayload+1)
	var tooManyOpen, tooMuch []byte
	for id := range uint32(wire.MaxOpen + 1) {
		tooManyOpen = append(tooManyOpen, frame(wire.KindDisplay, wire.FlagMore, id, nil)...)
	}
	piece := make([]byte, wire.MaxPayload)
	for range wire.MaxMessage/wire.MaxPayload + 1 {
		tooMuch = append(tooMuch, frame(wire.KindDisplay, wire.FlagMore, 1, piece)...)
	}
	cases := map[string][]byte{
		"other version":          edit(4, wire.Version+1),
		"unknown kind":           edit(5, 0xff),
		"kind kept for later":    edit(5, 0x46),
		"unknown flag":           edit(6, 0x80),
		"reserved byte":          edit(7, 1),
		"ends in header":         whole[:5],
		"ends in payload":        whole[:len(whole)-1],
		"frame over the limit":   tooLong,
		"stream kind continued":  frame(wire.KindStdout, wire.FlagMore, 1, []byte("x")),
		"too many messages open": tooManyOpen,
		"message over the limit": tooMuch,
	}
	for name, stream := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := wire.NewReader(bytes.NewReader(stream))
			var err error
			for err == nil {
				_, err = reader.Next()
			}
			if !errors.Is(err, wire.ErrProtocol) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestMessageAtLimit: exactly MaxMessage bytes pass, one more is refused by the writer.
func TestMessageAtLimit(t *testing.T) {
	t.Parallel()
	payload := make([]byte, wire.MaxMessage+1)
	if err := wire.NewWriter(io.Discard).Bytes(wire.KindDisplay, 1, payload); err == nil {
		t.Error("the writer took a message over the limit")
	}
	var stream bytes.Buffer
	if err := wire.NewWriter(&stream).Bytes(wire.KindDisplay, 1, payload[:wire.MaxMessage]); err != nil {
		t.Fatal(err)
	}
	if m, err := wire.NewReader(&stream).Next(); err != nil || len(m.Payload) != wire.MaxMessage {
		t.Errorf("got %d bytes, %v", len(m.Payload), err)
	}
}

// FuzzReader: no input makes the reader panic, hang, or return more than the limits allow.
func FuzzReader(f *testing.F) {
	stream, err := os.ReadFile(filepath.Join("testdata", "stream.bin"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(stream)
	f.Add(frame(wire.KindDisplay, wire.FlagMore, 9, []byte("a")))
	f.Fuzz(func(t *testing.T, input []byte) {
		reader := wire.NewReader(bytes.NewReader(input))
		total := 0
		for {
			m, err := reader.Next()
			if err != nil {
				return
			}
			if !m.Kind.Known() || len(m.Payload) > wire.MaxMessage {
				t.Fatalf("impossible message %v of %d bytes", m.Kind, len(m.Payload))
			}
			if total += len(m.Payload); total > len(input) {
				t.Fatalf("more bytes out than in")
			}
		}
	})
}
