// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func summarise(t *testing.T, lines ...string) (string, bool) {
	t.Helper()
	var out strings.Builder
	s := &summary{out: &out, output: make(map[test][]string), failures: make(map[string]bool)}
	if err := s.read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	ok := s.report()
	return out.String(), ok
}

func TestSkipsAreListedWithTheirReasons(t *testing.T) {
	t.Parallel()
	got, ok := summarise(
		t,
		`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.5}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: no image: run make image\n"}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}`,
		`{"Action":"skip","Package":"p","Test":"TestB"}`,
		`{"Action":"output","Package":"p","Output":"ok  \tp\t0.5s\n"}`,
		`{"Action":"pass","Package":"p"}`,
	)
	for _, want := range []string{"p TestB: b_test.go:3: no image: run make image\n", "ok  \tp\t0.5s\n", "\n1 passed, 0 failed, 1 skipped\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if !ok {
		t.Error("a run without failures is not ok")
	}
}

func TestFailuresAreNotLost(t *testing.T) {
	t.Parallel()
	const passed = `{"Action":"pass","Package":"p","Test":"TestA"}`
	for name, lines := range map[string][]string{
		"a test":                    {passed, `{"Action":"fail","Package":"p","Test":"TestB"}`, `{"Action":"fail","Package":"p"}`},
		"a program that died":       {passed, `{"Action":"run","Package":"p","Test":"TestB"}`, `{"Action":"fail","Package":"p"}`},
		"a package without a build": {passed, `{"Action":"build-fail","ImportPath":"p"}`, `{"Action":"fail","Package":"p","FailedBuild":"p"}`},
		"no test at all":            {`{"Action":"skip","Package":"p"}`},
		"nothing":                   {},
	} {
		if got, ok := summarise(t, lines...); ok {
			t.Errorf("%s: reported as passed:\n%s", name, got)
		}
	}
}
