// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestCells: what is typed, and where it ends: everything before the last line is not whole yet.
func TestCells(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ language, text string }{
		{"python", "x = 1"},
		{"python", "if x: print(1)"},
		{"python", "for i in range(3):\n    print(i)\n"},
		{"python", "def f():  # says: so\n    return 1\n"},
		{"python", "@cache\ndef f():\n    return 1\n"},
		{"python", "x = [1,\n\n2]"},
		{"python", "x = {'a:':\n1}"},
		{"python", "x = '''a\n\nb'''"},
		{"python", "x = 1 + \\\n2"},
		{"python", "x = '# (['"},
		{"python", `x = "it's \" ("`},
		{"python", "x = 'never closed"},
		{"python", "x = (1,\n\n"}, // two empty lines end all
		{"javascript", "function f() {\n  return 1\n}"},
		{"javascript", "x = `a\nb` // ("},
		{"typescript", "const x: number[] = [\n1\n]"},
		{"bash", "echo a # it's"},
		{"bash", "for i in 1 2; do\necho $i\ndone\n"},
		{"bash", "for i in 1 2; do echo $i; done"},
		{"bash", "echo 'a\nb'"},
		{"bash", "ls \\\n-l"},
	} {
		lines := strings.Split(c.text, "\n")
		for n := 1; n < len(lines); n++ {
			if complete(c.language, lines[:n]) {
				t.Errorf("%s %q ends after line %d", c.language, c.text, n)
			}
		}
		if !complete(c.language, lines) {
			t.Errorf("%s %q does not end", c.language, c.text)
		}
	}
}

func FuzzCells(f *testing.F) {
	f.Add("python", "x = '''\n(")
	f.Add("bash", "a\\")
	f.Fuzz(func(t *testing.T, language, text string) {
		if lines := append(strings.Split(text, "\n"), "", ""); !complete(language, lines) && !strings.HasSuffix(text, "\\") {
			t.Errorf("two empty lines do not end %q", text)
		}
	})
}

func TestCommandsAreNoCode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{":help": "help", "  :quit ": "quit", ": x": "", ":": "", ":1": "", "x[:a]": "", "a:b": ""} {
		if got, _ := commandOf(text); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// TestKeys: Ctrl-C becomes an empty line, and what was typed before it comes first, however the terminal cuts it.
func TestKeys(t *testing.T) {
	t.Parallel()
	const typed, want = "a\rbc\x03d\x03\x03", "a\rbc" + clearLine + "d" + clearLine + clearLine
	for name, source := range map[string]io.Reader{"at once": strings.NewReader(typed), "by bytes": iotest.OneByteReader(strings.NewReader(typed))} {
		k := &keys{source: source}
		var got strings.Builder
		for buffer := make([]byte, 2); ; {
			n, err := k.Read(buffer)
			if err != nil {
				break
			}
			got.Write(buffer[:n])
			if k.interrupted && got.Len() < 4 {
				t.Errorf("%s: interrupted after %q", name, got.String())
			}
		}
		if got.String() != want {
			t.Errorf("%s: %q", name, got.String())
		}
	}
}
