// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"glovebox/client"
)

func TestFilesOfASandbox(t *testing.T) {
	t.Parallel()
	boxes := serve(t).Sandboxes()
	box, err := boxes.Create(t.Context(), client.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if err := boxes.Put(t.Context(), box.ID, "表.txt", text("0123456789")); err != nil {
		t.Fatal(err)
	}
	files, err := boxes.Files(t.Context(), box.ID, "")
	if err != nil || len(files) != 1 || files[0].Name != "表.txt" || files[0].Size != 10 || files[0].Kind != "file" {
		t.Errorf("%+v, %v", files, err)
	}
	content, err := boxes.Open(t.Context(), box.ID, "表.txt", client.Range{Offset: 2, Length: 3})
	if got := read(t, content, err); got != "234" {
		t.Errorf("%q", got)
	}
	broken := errors.New("no such file")
	if err := boxes.Put(t.Context(), box.ID, "x", func() (io.ReadCloser, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if err := boxes.Remove(t.Context(), box.ID, "表.txt"); err != nil {
		t.Error(err)
	}
	if _, err := boxes.Open(t.Context(), box.ID, "表.txt"); err == nil {
		t.Error("it is still there")
	}
}

func TestInterruptKeepsTheStream(t *testing.T) {
	t.Parallel()
	boxes := serve(t).Sandboxes()
	box, err := boxes.Create(t.Context(), client.Request{Limits: client.Limits{Wall: new(10 * time.Minute)}})
	if err != nil {
		t.Fatal(err)
	}
	told := false
	x, err := boxes.Stream(t.Context(), box.ID, client.Cell{Code: "print begun\nspin"}, func(e client.Event) error {
		if e.Kind == client.KindStdout {
			told = true
			return boxes.Interrupt(t.Context(), box.ID, "")
		}
		return nil
	})
	if err != nil || !told || x.Error == nil || x.Error.Name != "KeyboardInterrupt" || x.StateReset {
		t.Errorf("%+v, %v", x, err)
	}
}
