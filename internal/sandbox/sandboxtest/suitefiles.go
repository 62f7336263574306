// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/internal/sandbox"
)

func filesAndFolders(t *testing.T, k *kit) {
	t.Helper()
	// Inputs are visible in the working folder under the user's own name, and cannot be changed.
	t.Run("inputs", func(t *testing.T) {
		box := k.leased(t, func(l *sandbox.Lease) {
			l.Files = []sandbox.InputFile{input("in.txt", "given"), input("数据 表'b;$(id).csv", "x")}
		})
		session := k.open(t, box)
		result, record := k.exec(t, session, sandbox.Code{Source: k.Cells.ReadInput})
		want(t, result, record, sandbox.EndOK)
		if got := strings.TrimSuffix(record.text(sandbox.EventStdout), "\n"); got != "given" {
			t.Errorf("the input reads %q", got)
		}
		result, record = k.exec(t, session, sandbox.Code{Source: k.Cells.SpoilInput})
		want(t, result, record, sandbox.EndError)
	})
	// What is put is got back, whole and from an offset.
	t.Run("put and get", func(t *testing.T) {
		files := k.leased(t).Files()
		content := strings.Repeat("0123456789", 100_000)
		n, err := files.Put(k.ctx(t), "a/b/数据.bin", strings.NewReader(content))
		if err != nil || n != int64(len(content)) {
			t.Fatalf("Put: %d, %v", n, err)
		}
		for _, offset := range []int64{0, 999_995} {
			if got := k.get(t, files, "a/b/数据.bin", offset); got != content[offset:] {
				t.Errorf("Get from %d: %d bytes", offset, len(got))
			}
		}
		info, err := files.Stat(k.ctx(t), "a/b/数据.bin")
		if err != nil || info.Size != int64(len(content)) || info.Name != "数据.bin" || info.Mode.IsDir() {
			t.Errorf("Stat: %+v, %v", info, err)
		}
	})
	// List, MakeDir, Move and Remove do what they say; what is missing is fs.ErrNotExist.
	t.Run("list, move and remove", func(t *testing.T) { k.listMoveRemove(t) })
	// A path does not lead out of the sandbox.
	t.Run("traversal", func(t *testing.T) {
		files := k.leased(t).Files()
		const name = "glovebox-suite-must-not-exist"
		for _, path := range []string{"../../../../../../etc/" + name, "/etc/" + name, "a/../../../../../etc/" + name} {
			if _, err := files.Put(k.ctx(t), path, strings.NewReader("x")); err == nil {
				t.Errorf("Put took %q", path)
			}
		}
		if _, err := os.Lstat("/etc/" + name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file was written on the host: %v", err)
		}
	})
	// After Stop the working folder can be read host-side.
	t.Run("workspace after stop", func(t *testing.T) {
		box := k.leased(t)
		result, record := k.exec(t, k.open(t, box), sandbox.Code{Source: k.Cells.Write, Last: true})
		want(t, result, record, sandbox.EndOK)
		if err := box.Stop(k.ctx(t)); err != nil {
			t.Fatalf("Stop: %v", err)
		}
		folder, err := box.Workspace(k.ctx(t))
		if err != nil {
			t.Fatalf("Workspace: %v", err)
		}
		defer folder.Close()
		root, err := os.OpenRoot(filepath.Join("/proc/self/fd", fdName(folder)))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if content, err := root.ReadFile("out.txt"); err != nil || string(content) != "hello" {
			t.Errorf("out.txt is %q, %v", content, err)
		}
	})
}

func (k *kit) listMoveRemove(t *testing.T) {
	t.Helper()
	files := k.leased(t).Files()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("MakeDir", files.MakeDir(k.ctx(t), "d"))
	_, err := files.Put(k.ctx(t), "d/one", strings.NewReader("1"))
	must("Put", err)
	must("Move", files.Move(k.ctx(t), "d/one", "d/two"))
	listed, err := files.List(k.ctx(t), "d")
	must("List", err)
	if len(listed) != 1 || listed[0].Name != "two" || listed[0].Size != 1 {
		t.Errorf("List: %+v", listed)
	}
	if _, err := files.Get(k.ctx(t), "d/one", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of a moved file: %v", err)
	}
	must("Remove", files.Remove(k.ctx(t), "d"))
	if _, err := files.Stat(k.ctx(t), "d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of a removed folder: %v", err)
	}
	if err := files.Remove(k.ctx(t), "d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove of what is not there: %v", err)
	}
}

func (k *kit) get(t *testing.T, files sandbox.Files, path string, offset int64) string {
	t.Helper()
	reader, err := files.Get(k.ctx(t), path, offset)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	defer reader.Close()
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return string(content)
}
