// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/internal/cli"
	"glovebox/internal/guest/confine"
	"glovebox/internal/proof"
	"glovebox/internal/rootless"
)

// The roles of this test binary: the program itself, and what sets a filter and becomes the program.
const (
	asProgram = "GLOVEBOX_TEST_PROGRAM=1"
	filterArg = "filter-calls"
)

func TestMain(m *testing.M) {
	if !slices.Contains(os.Environ(), asProgram) {
		os.Exit(m.Run())
	}
	args := os.Args[1:]
	if len(args) > 1 && args[0] == filterArg {
		if err := filterCalls(args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(99)
		}
		err := unix.Exec("/proc/self/exe", append([]string{os.Args[0]}, args[2:]...), os.Environ())
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	namespace, rest, code, done := rootless.Enter(args)
	if !done {
		code = cli.Main(cli.HostIn(rest, namespace))
	}
	os.Exit(code)
}

// answer is what a kernel says to a call; with a mask, only where one of these bits is in the first argument.
type answer struct {
	Call, Mask uint32
	Errno      unix.Errno
}

// filterCalls has the kernel give these answers to this process, for good.
func filterCalls(description string) error {
	var answers []answer
	if err := json.Unmarshal([]byte(description), &answers); err != nil {
		return err
	}
	const (
		load, equal, anyBit, give = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
			unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		firstArg = 16
	)
	var filter []confine.Instruction
	for _, a := range answers {
		refuse := confine.Instruction{Code: give, K: unix.SECCOMP_RET_ERRNO | uint32(a.Errno)}
		filter = append(filter, confine.Instruction{Code: load})
		if a.Mask == 0 {
			filter = append(filter, confine.Instruction{Code: equal, K: a.Call, JF: 1}, refuse)
			continue
		}
		filter = append(filter, confine.Instruction{Code: equal, K: a.Call, JF: 3}, confine.Instruction{Code: load, K: firstArg},
			confine.Instruction{Code: anyBit, K: a.Mask, JF: 1}, refuse)
	}
	filter = append(filter, confine.Instruction{Code: give, K: unix.SECCOMP_RET_ALLOW})
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil && os.Geteuid() != 0 {
		return err
	}
	return confine.InstallFilter(filter, unix.SECCOMP_FILTER_FLAG_TSYNC)
}

// host is one kind of host.
type host struct {
	// script prepares it, as root in a mount namespace of its own; then "$@" is the program.
	script  string
	answers []answer
	args    []string
}

// run runs the program with these arguments on the host and returns what it printed.
func (h host) run(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := []string{program}
	if len(h.answers) > 0 {
		description, err := json.Marshal(h.answers)
		if err != nil {
			t.Fatal(err)
		}
		command = append(command, filterArg, string(description))
	}
	script := "set -e\nmount --make-rprivate /\n" + h.script
	if !strings.Contains(h.script, `"$@"`) {
		script += "\nexec \"$@\""
	}
	command = append([]string{"-m", "bash", "-c", script, "host"}, append(command, append(h.args, args...)...)...)
	process := exec.CommandContext(t.Context(), "unshare", command...)
	var out, errs strings.Builder
	process.Stdout, process.Stderr = &out, &errs
	process.Env = []string{asProgram, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + t.TempDir(), "GLOVEBOX_DATA=" + dataFolder(t)}
	_ = process.Run() // the exit code follows from what is printed
	t.Logf("%s%s", out.String(), errs.String())
	return out.String(), errs.String()
}

// dataFolder is one that every user may write to, without images.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "glovebox-hosts-*") //nolint:usetesting // other users cannot pass to a folder of the test
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

type diagnosis struct {
	Name      string       `json:"name"`
	Available bool         `json:"available"`
	Why       string       `json:"why"`
	Proof     []proof.Item `json:"proof"`
}

func (d diagnosis) item(t *testing.T, limit string) proof.Item {
	t.Helper()
	for _, item := range d.Proof {
		if item.Limit == limit {
			return item
		}
	}
	t.Fatalf("the doctor says nothing of %s: %+v", limit, d)
	return proof.Item{}
}

// diagnose asks the doctor of the host, who must know the shape of his answer.
func (h host) diagnose(t *testing.T) diagnosis {
	t.Helper()
	stdout, stderr := h.run(t, "doctor", "--quick", "--json")
	var answer struct {
		Backends []diagnosis `json:"backends"`
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answer); err != nil || len(answer.Backends) != 1 {
		t.Fatalf("the doctor's answer: %v\n%s%s", err, stdout, stderr)
	}
	return answer.Backends[0]
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("hosts are made by root")
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("hosts are made with unshare of util-linux")
	}
}
