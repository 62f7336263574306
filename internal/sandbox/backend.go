// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"net"
	"os"
)

// Backend isolates, limits and kills. A Backend is safe for concurrent use.
type Backend interface {
	// Name is the word users choose it by: native, docker, gvisor ...
	Name() string

	// Probe tries each feature on this host for real and leaves nothing behind. It returns an error only when it
	// could not find out; a feature that is missing is a value in Capabilities.
	Probe(ctx context.Context) (Capabilities, error)

	// Create returns a ready sandbox that has run no user code, or an error and nothing left behind. It is
	// idempotent by id: a second call with the id of a living sandbox returns that sandbox.
	Create(ctx context.Context, id ID, class Class) (Sandbox, error)

	// Leftovers yields what an earlier daemon left on this host and Reclaim destroys one of them.
	Leftovers(ctx context.Context) iter.Seq2[Handle, error]
	Reclaim(ctx context.Context, handle Handle) error

	// Close destroys every sandbox of this backend and releases what it holds.
	Close() error
}

// Sandbox is one isolated place that serves one tenant for its whole life.
type Sandbox interface {
	Handle() Handle

	// Lease fixes what may still be set at hand-out. It is called exactly once, before any Open or Start.
	Lease(ctx context.Context, lease Lease) error

	// Open starts a live interpreter.
	Open(ctx context.Context, spec OpenSpec) (Session, error)

	// Start starts a plain process.
	Start(ctx context.Context, command Command) (Process, error)

	// Files serves the sandbox's files, seen and written as the sandbox's own user, while the sandbox lives.
	Files() Files

	// Dial connects to a port that something inside listens on.
	Dial(ctx context.Context, port uint16) (net.Conn, error)

	// Update changes limits of a living sandbox.
	Update(ctx context.Context, limits Limits) error

	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	Snapshot(ctx context.Context, name string) error

	// Usage reads the kernel's counters; it works until Destroy.
	Usage(ctx context.Context) (Usage, error)

	// Stop ends every process of the sandbox and returns when the kernel says that none is left. Idempotent.
	Stop(ctx context.Context) error

	// Workspace opens the working folder for host-side reading after Stop. The caller closes the handle and uses it
	// only with openat2 beneath it and without links: its contents are hostile.
	Workspace(ctx context.Context) (*os.File, error)

	// Destroy is idempotent and returns when nothing of the sandbox is left on the host.
	Destroy(ctx context.Context) error
}

// Emit receives the events of one execution, in order, on one goroutine. It must not block for long: the engine
// spools, so that a slow reader never stops the program.
type Emit func(Event)

// Session is a live interpreter: state is kept from one Exec to the next.
type Session interface {
	// Exec runs one cell. After it returns nothing more is emitted for it. A cell that fails is a Result; an error
	// means that we failed.
	Exec(ctx context.Context, code Code, emit Emit) (Result, error)

	// Interrupt raises the language's own interrupt in the running cell; state is kept.
	Interrupt(ctx context.Context) error

	Close(ctx context.Context) error
}

// Forker is a Session that can be forked while it is idle: the sibling is a session of the same sandbox that begins with
// all variables of this one. What it uses counts against the sandbox as everything in it does.
type Forker interface {
	Fork(ctx context.Context) (Session, error)
}

// Process is a program without notebook semantics.
type Process interface {
	PID() int
	Write(ctx context.Context, p []byte) error
	CloseStdin(ctx context.Context) error
	Signal(ctx context.Context, signal int) error
	Resize(ctx context.Context, columns, rows uint16) error
	// Wait returns how the process ended. After it returns nothing more is emitted.
	Wait(ctx context.Context) (Result, error)
}

// Files are a sandbox's own files. Paths are slash separated; a relative one is beneath the working folder.
type Files interface {
	// Put writes the file, creating missing folders, and returns the number of bytes written. Until it is whole, what was
	// there before stays.
	Put(ctx context.Context, path string, content io.Reader) (int64, error)
	// Get opens the file for reading from offset. A missing one is fs.ErrNotExist.
	Get(ctx context.Context, path string, offset int64) (io.ReadCloser, error)
	// Stat describes what a link leads to, or the link if that is nothing.
	Stat(ctx context.Context, path string) (FileInfo, error)
	List(ctx context.Context, path string) ([]FileInfo, error)
	MakeDir(ctx context.Context, path string) error
	Move(ctx context.Context, from, to string) error
	Remove(ctx context.Context, path string) error
	// Unpack unpacks the tar archive at a path, plain or gzip, into a folder, inside the sandbox and as its user. Links and
	// devices are left out; a name that leads out of the folder, or too much of anything, ends it.
	Unpack(ctx context.Context, archive, dir string, limits UnpackLimits) (Unpacked, error)
}

// UnpackLimits bound an archive: all of its entries, its bytes when unpacked, and the folders above an entry.
type UnpackLimits struct {
	Entries int
	Bytes   int64
	Depth   int
}

// Unpacked is what came of an archive. It is the sandbox's claim.
type Unpacked struct {
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"`
	// Skipped counts the links and devices that were left out.
	Skipped int `json:"skipped"`
}

// FileInfo describes one file inside a sandbox. All of it is the sandbox's claim.
type FileInfo struct {
	Name string      `json:"name"`
	Path string      `json:"path"`
	Size int64       `json:"size"`
	Mode fs.FileMode `json:"mode"`
	// ModTime is in nanoseconds since 1970 UTC.
	ModTime int64 `json:"mod_time"`
}
