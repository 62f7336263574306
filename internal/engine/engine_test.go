// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"glovebox/internal/artifact"
	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// anyImage takes every image name but "missing".
type anyImage struct{}

func (anyImage) Use(name string) (string, func(), error) {
	if name == "missing" {
		return "", nil, &engine.Problem{Code: engine.CodeImage, Text: "image missing is not built"}
	}
	return name, func() {}, nil
}

type bench struct {
	*engine.Engine
	fake  *sandboxtest.Fake
	dir   string
	store *engine.Store
}

func newBench(t *testing.T, change func(*engine.Config), plan ...sandboxtest.Fault) *bench {
	t.Helper()
	dir := t.TempDir()
	fake := sandboxtest.NewFake(t.TempDir(), plan...)
	store, err := engine.OpenStore(filepath.Join(dir, "executions"), engine.Retention{Count: 100, Age: time.Hour}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	config := engine.Config{
		Backends: []sandbox.Backend{fake}, Images: anyImage{}, Store: store, Image: "python", Maxima: policy.DefaultMaxima(),
		Artifacts: artifact.DefaultLimits(), MaxRunning: 4, MaxQueued: 4, QueueWait: time.Minute,
		Patience: engine.Patience{
			Setup: time.Minute, Grace: time.Minute, Cleanup: time.Minute, Collect: time.Minute, Deliver: time.Minute,
		},
		Log: slog.New(slog.DiscardHandler), Now: time.Now, NewID: engine.NewIDs(),
	}
	if change != nil {
		change(&config)
	}
	e, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("test over"))
		defer cancel()
		e.Close(ctx)
		if err := errors.Join(fake.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return &bench{Engine: e, fake: fake, dir: dir, store: store}
}

func (b *bench) run(t *testing.T, request engine.Request, sink engine.Sink) *engine.Execution {
	t.Helper()
	x, err := b.Run(t.Context(), request, sink)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return x
}

func code(lines ...string) engine.Request { return engine.Request{Code: strings.Join(lines, "\n")} }

func warned(x *engine.Execution, code string) bool {
	return slices.ContainsFunc(x.Warnings, func(n sandbox.Notice) bool { return n.Code == code })
}

func ptr[T any](v T) *T { return &v }

func TestRunHappyPath(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	request := code("print hello", "eprint oh", `display image/png "aGVsbG8="`, "set v 7", "write out.csv a,b\\n1,2\\n3,4\\n", "value 42", "cat in.txt")
	request.Return = []string{"v"}
	request.Files = []sandbox.InputFile{{Name: "in.txt", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("given\n")), nil
	}}}
	released := 0
	request.Release = func() { released++ }
	x := b.run(t, request, nil)
	if x.Status != "ok" || x.ExitCode != 0 || x.Stdout != "hello\ngiven\n" || x.Stderr != "oh\n" || x.Truncated || x.Error != nil {
		t.Errorf("got %+v", x)
	}
	wantResults := []engine.Data{{"image/png": json.RawMessage(`"aGVsbG8="`)}, {"text/plain": json.RawMessage(`"42"`)}}
	if diff := cmp.Diff(wantResults, x.Results); diff != "" {
		t.Error(diff)
	}
	if got := string(x.Values["v"]["text/plain"]); got != `"7"` {
		t.Errorf("v is %s", got)
	}
	if len(x.Artifacts) != 1 || x.Artifacts[0].Name != "out.csv" || x.Artifacts[0].MIME != "text/csv" || len(x.Skipped) != 0 {
		t.Errorf("artifacts %+v, skipped %+v", x.Artifacts, x.Skipped)
	}
	if !x.ID.Valid() || x.Backend != "fake" || x.Policy != "standard" || x.Limits["memory"].Value != 512<<20 || len(x.Warnings) != 0 {
		t.Errorf("got %+v", x)
	}
	if released != 1 {
		t.Errorf("files were released %d times", released)
	}
	want := []sandboxtest.Method{"Create", "Lease", "Open", "Exec", "Stop", "Workspace", "Usage", "Destroy"}
	if diff := cmp.Diff(want, b.fake.Log()); diff != "" {
		t.Error(diff)
	}
}

func TestRecordCanBeFetchedLater(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	x := b.run(t, code("print hello", "write 数据.txt hi", "raise ValueError boom"), nil)
	again, err := b.Get(mine, x.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x, again); diff != "" {
		t.Error(diff)
	}
	file, a, err := b.OpenArtifact(mine, x.ID, "数据.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if content, err := io.ReadAll(file); err != nil || string(content) != "hi" || a.Size != 2 {
		t.Errorf("%q, %+v, %v", content, a, err)
	}
	out, err := b.OpenOutput(mine, x.ID, "stdout")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if content, err := io.ReadAll(out); err != nil || string(content) != "hello\n" {
		t.Errorf("%q, %v", content, err)
	}
	if err := b.Delete(t.Context(), auth.Operator(), x.ID); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"get":      second(b.Get(mine, x.ID)),
		"delete":   b.Delete(t.Context(), auth.Operator(), x.ID),
		"path":     second(b.Get(mine, "../../etc")),
		"artifact": third(b.OpenArtifact(mine, x.ID, "x")),
	} {
		if engine.CodeOf(err) != engine.CodeNotFound {
			t.Errorf("%s after delete: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

func TestEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for text, want := range map[string]struct {
		status engine.Status
		exit   int
	}{
		"print x":          {"ok", 0},
		"raise ValueError": {"error", 1},
		"exit 3":           {"exit", 3},
		"exit 0":           {"ok", 0},
		"signal 11":        {"signal", 139},
		"spin":             {"wall_timeout", 124},
		"oom":              {"out_of_memory", 137},
		"pids":             {"pids", 1},
		"full":             {"disk", 1},
		"deny":             {"policy", 3},
	} {
		request := code("print before", text)
		request.Limits.Wall = ptr(100 * time.Millisecond)
		x := b.run(t, request, nil)
		if x.Status != want.status || x.CommandExitCode() != want.exit || !strings.HasPrefix(x.Stdout, "before\n") {
			t.Errorf("%s: status %s, exit %d, stdout %q", text, x.Status, x.CommandExitCode(), x.Stdout)
		}
		if speaks := x.Message != ""; speaks == (want.status == "ok" || want.status == "error") {
			t.Errorf("%s: message %q", text, x.Message)
		}
	}
	if len(b.fake.Living()) != 0 {
		t.Error("sandboxes are left")
	}
}

func TestLimitsAreReported(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	request := code("spin")
	request.Limits.Wall = ptr(50 * time.Millisecond)
	x := b.run(t, request, nil)
	wall := x.Limits["wall"]
	if !wall.Hit || wall.Value != 0.05 || wall.Measured == nil || *wall.Measured < 0.05 || x.Limits["memory"].Hit {
		t.Errorf("got %+v", x.Limits)
	}
}

func TestInvalidRequestsNameEveryFault(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	file := func(name string) sandbox.InputFile { return sandbox.InputFile{Name: name} }
	released := 0
	_, err := b.Run(t.Context(), engine.Request{
		Code: "a\x00b", Policy: "lax", Backend: "none", Files: []sandbox.InputFile{file("a"), file("a"), file("../b")},
		Env: map[string]string{"A=B": "x"}, Inputs: map[string]json.RawMessage{"v": json.RawMessage("{"), "1": json.RawMessage("1")},
		Return: []string{"a.b"}, Release: func() { released++ },
	}, nil)
	var problem *engine.Problem
	if !errors.As(err, &problem) || problem.Code != engine.CodeInvalid {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"NUL", "lax", "backend", "given twice", "../b", "A=B", "not JSON", `"1"`, `"a.b"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in %v", want, err)
		}
	}
	if released != 1 || len(b.fake.Log()) != 0 {
		t.Errorf("released %d, calls %v", released, b.fake.Log())
	}
	tooMuch := code("print x")
	tooMuch.Limits.Memory = ptr(policy.DefaultMaxima().Memory + 1)
	if _, err := b.Run(t.Context(), tooMuch, nil); engine.CodeOf(err) != engine.CodeLimit {
		t.Errorf("above the maximum: %v", err)
	}
	if _, err := b.Run(t.Context(), engine.Request{Image: "missing"}, nil); engine.CodeOf(err) != engine.CodeImage {
		t.Errorf("missing image: %v", err)
	}
	if _, err := b.Run(t.Context(), engine.Request{Language: "cobol"}, nil); engine.CodeOf(err) != engine.CodeUnsupported {
		t.Errorf("unknown language: %v", err)
	}
	for _, limit := range []engine.Request{
		{Code: strings.Repeat("x", engine.MaxCode+1)},
		{Files: slices.Repeat([]sandbox.InputFile{file("a")}, engine.MaxFiles+1)},
		{Return: slices.Repeat([]string{"a"}, engine.MaxReturn+1)},
		{Inputs: map[string]json.RawMessage{"a": json.RawMessage(`"` + strings.Repeat("x", engine.MaxInputBytes) + `"`)}},
		{Env: map[string]string{"A": strings.Repeat("x", engine.MaxEnvBytes+1)}},
	} {
		if _, err := b.Run(t.Context(), limit, nil); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("limit+1: %v", err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(b.dir, "executions")); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestCallerGoesAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	sink := engine.SinkFunc(func(_ context.Context, event sandbox.Event) error {
		cancel(engine.ErrLeft)
		return nil
	})
	x, err := b.Run(ctx, code("print begun", "spin"), sink)
	if err != nil {
		t.Fatal(err)
	}
	if x.Status != "canceled" || x.Stdout != "begun\n" || !strings.Contains(x.Message, engine.ErrLeft.Error()) || x.CommandExitCode() != engine.ExitCanceled {
		t.Errorf("got %+v", x)
	}
	if len(b.fake.Living()) != 0 {
		t.Error("a sandbox is left")
	}
}

// TestEveryFault lets every call go wrong in every way, once and for good: nothing is left behind, and the record says
// whose fault it was.
func TestEveryFault(t *testing.T) {
	t.Parallel()
	for _, method := range sandboxtest.Methods() {
		for _, kind := range sandboxtest.FaultKinds() {
			for _, calls := range []int{1, 10} {
				t.Run(string(method)+" "+string(kind), func(t *testing.T) {
					t.Parallel()
					var plan []sandboxtest.Fault
					for call := range calls {
						plan = append(plan, sandboxtest.Fault{Method: method, Call: call + 1, Kind: kind})
					}
					checkFault(t, newBench(t, func(c *engine.Config) {
						if kind == sandboxtest.Hang {
							c.Patience.Setup, c.Patience.Grace, c.Patience.Cleanup = short, short, short
						}
					}, plan...), method, kind, calls)
				})
			}
		}
	}
}

// mine is the tenant of the tests' requests.
const mine = auth.DefaultTenant

const short = 50 * time.Millisecond

func checkFault(t *testing.T, b *bench, method sandboxtest.Method, kind sandboxtest.FaultKind, calls int) {
	t.Helper()
	request := code("print one", "write f x", "print two", "print three")
	request.Limits.Wall = ptr(100 * time.Millisecond)
	x := b.run(t, request, engine.SinkFunc(func(_ context.Context, e sandbox.Event) error { return nil }))
	encoded, err := json.Marshal(x)
	if err != nil || !json.Valid(encoded) {
		t.Fatalf("the record is not JSON: %v", err)
	}
	if again, err := b.Get(mine, x.ID); err != nil || again.Status != x.Status {
		t.Errorf("the record was not stored: %v", err)
	}
	setUp := slices.Contains([]sandboxtest.Method{"Create", "Lease", "Open", "Exec"}, method)
	lied := kind == sandboxtest.Lie
	left := method == "Destroy" && !lied && calls > 1 // an answer that tells of an end promises that nothing is alive
	if left || setUp && (!lied || method == "Exec") {
		if x.Status != "infra" || x.CommandExitCode() != engine.ExitInfra || x.Message == "" {
			t.Errorf("status %s, message %q", x.Status, x.Message)
		}
	} else if x.Status != "ok" {
		t.Errorf("the program's status is %s: %s", x.Status, x.Message)
	}
	if living := b.fake.Living(); left != warned(x, "left_behind") || left == (len(living) == 0) {
		t.Errorf("left behind: %v, warnings %v", living, x.Warnings)
	}
	if x.Usage.Wall < 0 || x.Usage.CPU < 0 || x.Usage.MemoryPeak < 0 {
		t.Errorf("usage %+v", x.Usage)
	}
}

func TestLiesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, sandboxtest.Fault{Method: sandboxtest.MethodExec, Call: 1, Kind: sandboxtest.Lie})
	x := b.run(t, code("print x"), nil)
	encoded, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	if len(encoded) > 2<<20 {
		t.Errorf("the record has %d bytes", len(encoded))
	}
	if len(x.Results) != engine.MaxResults || len(x.Warnings) > engine.MaxNotices+8 || len(x.Values) != 0 {
		t.Errorf("%d results, %d warnings, %d values", len(x.Results), len(x.Warnings), len(x.Values))
	}
	for _, code := range []string{"invalid_utf8", "results_limit", "result_dropped", "unknown_event"} {
		if !warned(x, code) {
			t.Errorf("no warning %s", code)
		}
	}
	if len(x.Error.Name) > engine.MaxFaultName || len(x.Error.Value) > engine.MaxFaultValue || len(x.Error.Traceback) > engine.MaxTraceback {
		t.Error("the exception is not bounded")
	}
	if !x.Truncated || x.Output.Stderr.Bytes != 3<<20 {
		t.Errorf("output %+v", x.Output)
	}
}

func TestManyAtOnceGetTheirOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.MaxQueued = 200 })
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			want := strings.Repeat("x", i) + "\n"
			x, err := b.Run(t.Context(), code("print "+strings.TrimSpace(want)), nil)
			if err != nil || x.Stdout != want {
				t.Errorf("%d: %v, %+v", i, err, x)
			}
		})
	}
	group.Wait()
}

// TestLateOutputIsNotTheRunningCells: what an earlier cell prints meanwhile stands apart, in the record and in the stream.
func TestLateOutputIsNotTheRunningCells(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var got []string
	sink := engine.SinkFunc(func(_ context.Context, event sandbox.Event) error {
		got = append(got, fmt.Sprintf("%s %v %s", event.Kind, event.Background, event.Text))
		return nil
	})
	x := b.run(t, code("print B", "late A2", "elate A3", "print B2"), sink)
	if x.Stdout != "B\nB2\n" || x.Stderr != "" || x.Usage.StdoutBytes != 5 || x.Background == nil || x.Background.Text != "A2\nA3\n" || x.Background.Bytes != 6 {
		t.Errorf("%q, %q, %+v", x.Stdout, x.Stderr, x.Background)
	}
	want := []string{"stdout false B\n", "stdout true A2\n", "stderr true A3\n", "stdout false B2\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	file, err := b.OpenOutput(mine, x.ID, "background")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if content, err := io.ReadAll(file); string(content) != "A2\nA3\n" || err != nil {
		t.Errorf("%q, %v", content, err)
	}
	if x := b.run(t, code("print B"), nil); x.Background != nil {
		t.Errorf("%+v", x.Background)
	}
}

// TestNoticeCodesKeepTheirDots: the codes of the interpreters are words with dots, and reach the caller as they are.
func TestNoticeCodesKeepTheirDots(t *testing.T) {
	t.Parallel()
	x := newBench(t, nil).run(t, code("notice chart.missing_glyph text", "notice Bad! text"), nil)
	if !warned(x, "chart.missing_glyph") || !warned(x, "notice") {
		t.Errorf("got %v", x.Warnings)
	}
}
