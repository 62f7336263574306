// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/json"

// Cell is one piece of code for an interpreter.
type Cell struct {
	Code string `json:"code"`
	// Name stands for the file in tracebacks.
	Name string `json:"name"`
	// Last: after this cell the interpreter waits for its threads, runs exit handlers and leaves with the exit code.
	Last   bool                       `json:"last,omitempty"`
	Inputs map[string]json.RawMessage `json:"inputs,omitempty"`
	Return []string                   `json:"return,omitempty"`
}

// Ready is an interpreter's first message.
type Ready struct {
	Language string `json:"language"`
	Version  string `json:"version"`
	// PID is set by a forked interpreter: its own, in the box. No user code has run yet when it is told.
	PID int `json:"pid,omitempty"`
}

// Prepare makes a forked interpreter, which was started before anything of the lease was known, like a new one. A started
// one gets the variables of its caller by it.
type Prepare struct {
	Env map[string]string `json:"env"`
	Dir string            `json:"dir"`
	// Rlimits are pairs of a resource's number and its value.
	Rlimits [][2]uint64 `json:"rlimits"`
}

// Adopt comes over a guest's lane with the guest's ends of a forked interpreter: channel, standard output and error.
// The guest answers with a Reply of this id on the channel when the interpreter is ready.
type Adopt struct {
	ID uint32 `json:"id"`
}

// Exited tells the guest the wait status of a forked interpreter, as the zygote got it from the kernel.
type Exited struct {
	ID     uint32 `json:"target"`
	Status uint32 `json:"status"`
}

// Value is a variable that was asked for.
type Value struct {
	Name string `json:"name"`
	// Data and Metadata are a sandbox.Bundle.
	Data     map[string]json.RawMessage `json:"data"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
}

// The claims a cell can end with.
const (
	StatusOK          = "ok"
	StatusError       = "error"
	StatusExit        = "exit"
	StatusInterrupted = "interrupted"
)

// Done is the interpreter's claim of how a cell ended.
type Done struct {
	Status   string `json:"status"`
	ExitCode int    `json:"exit_code"`
}

// Hello opens the guest channel. The guest sends one when its box stands, without Limits; the daemon answers with one at
// the lease, with them.
type Hello struct {
	Limits *ProcessLimits `json:"limits,omitempty"`
}

// ProcessLimits are what the guest sets on each process it starts, the second wall behind the limits of the whole run.
type ProcessLimits struct {
	OpenFiles int64 `json:"open_files"`
	Processes int64 `json:"processes"`
	FileSize  int64 `json:"file_size"`
	// CPUTime is in seconds.
	CPUTime int64 `json:"cpu_time"`
}

// Open starts an interpreter; its Reply comes when it is ready. The request's id is the session's name afterwards.
type Open struct {
	// Adopted names a forked interpreter that waits: it is prepared in place of a start, and keeps its name.
	Adopted uint32 `json:"adopted,omitempty"`

	Args []string          `json:"args"`
	Dir  string            `json:"dir"`
	Env  map[string]string `json:"env"`
	// Own are the caller's variables, given to the interpreter when it is ready: they may hold what keeps it from starting.
	Own map[string]string `json:"own,omitempty"`
}

// Exec sends a cell to a session. Events and at last a KindEnd carry the request's id.
type Exec struct {
	Session uint32 `json:"session"`
	Cell
}

// Target names a session or a process.
type Target struct {
	ID uint32 `json:"target"`
}

// Start starts a plain process; its Reply carries the pid, and a KindEnd with the same id comes when it is over.
type Start struct {
	Args  []string          `json:"args"`
	Dir   string            `json:"dir"`
	Env   map[string]string `json:"env"`
	Stdin bool              `json:"stdin,omitempty"`
	// Terminal gives the process a terminal; its standard input is then open.
	Terminal *Size `json:"terminal,omitempty"`
}

// Size is that of a terminal, in characters.
type Size struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// Resize changes the size of a process's terminal.
type Resize struct {
	ID uint32 `json:"target"`
	Size
}

// MaxInput bounds the bytes of one Input.
const MaxInput = 64 << 10

// Input is standard input for a process.
type Input struct {
	ID   uint32 `json:"target"`
	Data []byte `json:"data"`
}

// Signal sends a signal to the process group of a process.
type Signal struct {
	ID     uint32 `json:"target"`
	Signal int    `json:"signal"`
}

// The file operations.
const (
	FilePut     = "put"     // one piece: the bytes follow as KindFileData, then KindFileEnd
	FileGet     = "get"     // one piece: the bytes come as KindFileData, then the Reply
	FileStat    = "stat"    // Reply.Files has one
	FileUnpack  = "unpack"  // the archive at Path into the folder To
	FileList    = "list"    // Reply.Files
	FileMakeDir = "makedir" //
	FileMove    = "move"    // to To
	FileRemove  = "remove"  // a folder with all that is in it
)

// File is an operation on the sandbox's files.
type File struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	To   string `json:"to,omitempty"`
	// Offset is where a piece begins; the first one of a put makes the file, which must not be there. Length bounds that of
	// a get.
	Offset int64 `json:"offset,omitempty"`
	Length int64 `json:"length,omitempty"`
	// The limits of an unpack.
	MaxEntries int   `json:"max_entries,omitempty"`
	MaxBytes   int64 `json:"max_bytes,omitempty"`
	MaxDepth   int   `json:"max_depth,omitempty"`
}

// FileInfo is the guest's view of a file.
type FileInfo struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	Mode    uint32 `json:"mode"`
	ModTime int64  `json:"mod_time"`
}

// The codes of a Reply that is a refusal.
const (
	CodeNotFound = "not_found"
	CodeGone     = "gone"
	CodeBusy     = "busy"
	CodeInvalid  = "invalid"
	CodeFailed   = "failed"
	CodeFull     = "full"   // no space, or no more files
	CodeDenied   = "denied" // not allowed to the sandbox's user
	CodeDeaf     = "deaf"   // a process does not read its input
)

// Reply answers a request.
type Reply struct {
	// Code is empty when the request was carried out.
	Code  string     `json:"code,omitempty"`
	Error string     `json:"error,omitempty"`
	PID   int        `json:"pid,omitempty"`
	Size  int64      `json:"size,omitempty"`
	Files []FileInfo `json:"files,omitempty"`
	// Entries is how much an unpack made, and Skipped what it left out.
	Entries int `json:"entries,omitempty"`
	Skipped int `json:"skipped,omitempty"`
	// Ready is set for KindOpen.
	Ready *Ready `json:"ready,omitempty"`
}

// End closes an execution.
type End struct {
	// Exited says that the process is gone; Status is then its wait status as the kernel gave it to the guest.
	Exited bool   `json:"exited"`
	Status uint32 `json:"status,omitempty"`
	// Done is the interpreter's claim, when it made one.
	Done *Done `json:"done,omitempty"`
	// Broken says that the interpreter broke the protocol and was ended for it.
	Broken string `json:"broken,omitempty"`
}
