// SPDX-License-Identifier: Apache-2.0

package escapes_test

import (
	"strings"
	"testing"

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
