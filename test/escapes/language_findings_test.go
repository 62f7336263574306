// SPDX-License-Identifier: Apache-2.0

package escapes_test

import (
	"strings"
	"testing"
	"time"

	"glovebox/internal/sandbox"
)

func openShell(t *testing.T) sandbox.Session {
	t.Helper()
	b := newNative(t)
	box, _ := openBox(t, b, sandbox.WarmNone, wallLimit)
	session, err := box.Open(t.Context(), sandbox.OpenSpec{Language: "bash"})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// TestShellUsesDescriptors: a script may use every number. The way by which the shell tells how a cell ended was put aside at
// 10 while the cell ran: a script that locks a file by that number was never heard of again.
func TestShellUsesDescriptors(t *testing.T) {
	session := openShell(t)
	for range 2 {
		r := cell(t, session, `for n in {3..60} {200..250}; do eval "exec $n>/tmp/file$n"; echo own >&$n; [[ $(</tmp/file$n) == own ]] || echo "lost $n"; done
echo here`, wallLimit, false, nil)
		if r.End != sandbox.EndOK || r.stdout.String() != "here\n" {
			t.Fatalf("end %s (%s), %q", r.End, r.Detail, r.stdout.String())
		}
	}
}

// TestShellSaysItsEndItself: what a cell writes into the session's own pipe is no answer, neither for it nor for a later cell. A
// cell that said it was done left its true status to the next one, or waited until its time was over.
func TestShellSaysItsEndItself(t *testing.T) {
	session := openShell(t)
	// Its own script it may spoil: that is a shell with a broken script.
	const forge = `for pipe in /proc/$PPID/fd/*; do
  [[ $(readlink "$pipe") == pipe:* && ! $pipe -ef /proc/$$/fd/255 && ${pipe##*/} -gt 2 ]] && printf 'done 0\nx done 0\ntext a 1\nb\0done 0\nready\n' >"$pipe"
done 2>/dev/null
exit_with() { return "$1"; }; exit_with `
	for _, status := range []string{"7", "0", "3"} {
		r := cell(t, session, forge+status, wallLimit, false, nil)
		want := sandbox.EndExit
		if status == "0" {
			want = sandbox.EndOK
		}
		if r.End != want || strings.TrimSpace(status) != exitCode(r) {
			t.Errorf("status %s: end %s, exit code %d (%s)", status, r.End, r.ExitCode, r.Detail)
		}
	}
	if r := cell(t, session, "echo here", wallLimit, true, nil); r.End != sandbox.EndOK || r.stdout.String() != "here\n" {
		t.Errorf("the next cell: end %s (%s), %q", r.End, r.Detail, r.stdout.String())
	}
}

func exitCode(s *seen) string { return string(rune('0' + s.ExitCode)) }

// TestCallersVariablesHoldNothingUp: variables that an interpreter, its loader or its libraries obey when they start reach it
// when it is ready. With a debugger to wait for, a run of four seconds held its place for 25 and was called a fault of the
// service; a number that is none ended a forked session before its first cell.
func TestCallersVariablesHoldNothingUp(t *testing.T) {
	b := newNative(t)
	hostile := map[string]string{
		"NODE_OPTIONS": "--inspect-brk", "NODE_V8_COVERAGE": "/proc/1/x", "OPENSSL_CONF": "/dev/full", "BASH_ENV": "$(sleep 100)",
		"ENV": "$(sleep 100)", "SHELLOPTS": "noexec", "BASHOPTS": "extdebug", "IFS": "0", "PS4": "$(sleep 100)", "LD_PRELOAD": "/dev/full",
		"LD_BIND_NOW": "1", "LD_DEBUG": "all", "PYTHONHOME": "/nosuch", "PYTHONINSPECT": "1", "PYTHONSTARTUP": "/dev/full",
		"OPENBLAS_NUM_THREADS": "²", "OMP_NUM_THREADS": "-1", "PYTHON_CPU_COUNT": strings.Repeat("9", 5000), "TMPDIR": "/nosuch",
		"TZ": "Asia/Shanghai", "OWN": "it's own",
	}
	for name, c := range map[string]struct {
		warm           sandbox.Warmth
		language, code string
	}{
		"started python": {sandbox.WarmNone, "python", "import os, time\nprint(os.environ['OWN'], os.environ['NODE_OPTIONS'], time.strftime('%Z'))"},
		"forked python":  {sandbox.WarmPlain, "python", "import os, time\nprint(os.environ['OWN'], os.environ['NODE_OPTIONS'], time.strftime('%Z'))"},
		"javascript":     {sandbox.WarmNone, "javascript", "console.log(process.env.OWN, process.env.NODE_OPTIONS, new Date(0).getHours() === 8 ? 'CST' : 'UTC')"},
		"typescript":     {sandbox.WarmNone, "typescript", "console.log(process.env.OWN as string, process.env.NODE_OPTIONS, new Date(0).getHours() === 8 ? 'CST' : 'UTC')"},
		"bash":           {sandbox.WarmNone, "bash", `unset LD_PRELOAD LD_DEBUG; echo "$OWN" $NODE_OPTIONS $(date +%Z)`},
	} {
		box := lease(t, b, sandbox.ProfileStandard, c.warm, wallLimit)
		began := time.Now()
		session, err := box.Open(t.Context(), sandbox.OpenSpec{Language: c.language, Env: hostile})
		if err != nil {
			t.Errorf("%s: %v after %v", name, err, time.Since(began))
			continue
		}
		if r := cell(t, session, c.code, wallLimit, true, nil); r.stdout.String() != "it's own --inspect-brk CST\n" || r.End != sandbox.EndOK {
			t.Errorf("%s: end %s (%s), %q", name, r.End, r.Detail, r.stdout.String())
		}
	}
}
