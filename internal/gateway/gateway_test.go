// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"glovebox/internal/artifact"
	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/gateway"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a-token-for-tests-only"

type anyImage struct{}

func (anyImage) Use(name string) (string, func(), error) {
	if name == "missing" {
		return "", nil, &engine.Problem{Code: engine.CodeImage, Text: "image missing is not built"}
	}
	return name, func() {}, nil
}

type bench struct {
	*httptest.Server
	fake    *sandboxtest.Fake
	engine  *engine.Engine
	uploads string
}

type change struct {
	engine  func(*engine.Config)
	gateway func(*gateway.Config)
	faults  []sandboxtest.Fault
}

func newBench(t *testing.T, c change) *bench {
	t.Helper()
	fake := sandboxtest.NewFake(t.TempDir(), c.faults...)
	store := keptStore(t)
	config := engine.Config{
		Backends: []sandbox.Backend{fake}, Images: anyImage{}, Store: store, Image: "python", Maxima: policy.DefaultMaxima(),
		Artifacts: artifact.DefaultLimits(), MaxRunning: 4, MaxQueued: 4, QueueWait: time.Minute, Patience: engine.DefaultPatience(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now, NewID: engine.NewIDs(),
	}
	if c.engine != nil {
		c.engine(&config)
	}
	e, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{fake: fake, engine: e, uploads: filepath.Join(t.TempDir(), "uploads")}
	face := gateway.Config{
		Engine: e, Authenticator: keyring{token: auth.Operator()}, Hosts: []string{"box.example"}, Uploads: b.uploads, MaxJSON: 1 << 20, MaxFile: 1 << 20,
		MaxRequest: 4 << 20, MaxPosts: 100, Log: slog.New(slog.DiscardHandler),
	}
	if c.gateway != nil {
		c.gateway(&face)
	}
	handler, err := gateway.New(face)
	if err != nil {
		t.Fatal(err)
	}
	b.Server = httptest.NewServer(handler)
	t.Cleanup(func() {
		b.Client().CloseIdleConnections()
		b.Close()
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("test over"))
		defer cancel()
		e.Close(ctx)
		if err := fake.Close(); err != nil {
			t.Error(err)
		}
		if entries, err := os.ReadDir(b.uploads); err == nil && len(entries) > 0 {
			t.Errorf("uploads are left: %v", entries)
		}
	})
	return b
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(a.body), &object); err != nil {
		t.Fatalf("%v: %.300s", err, a.body)
	}
	return object
}

func (b *bench) do(t *testing.T, method, path, kind, body string, change ...func(*http.Request)) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	for _, set := range change {
		set(request)
	}
	response, err := b.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(content)}
}

func (b *bench) post(t *testing.T, body map[string]any, change ...func(*http.Request)) answer {
	t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return b.do(t, http.MethodPost, "/v1/executions", "application/json", string(encoded), change...)
}

func code(lines ...string) map[string]any { return map[string]any{"code": strings.Join(lines, "\n")} }

// want fails unless the answer is a problem document of this status and code.
func (a answer) want(t *testing.T, status int, code string, words ...string) {
	t.Helper()
	if a.status != status || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("status %d, %s: %.300s", a.status, a.header.Get("Content-Type"), a.body)
		return
	}
	object := a.object(t)
	if object["code"] != code || object["status"] != float64(status) || object["title"] == "" {
		t.Errorf("got %v, want code %s", object, code)
	}
	for _, word := range words {
		if !strings.Contains(a.body, word) {
			t.Errorf("%q is not in %s", word, a.body)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	body := code("print hello", "cat 数据.csv", "show v", "value 42")
	body["files"] = []map[string]string{{"name": "数据.csv", "content_base64": base64.StdEncoding.EncodeToString([]byte("1,2\n"))}}
	body["inputs"] = map[string]any{"v": []int{1, 2}}
	body["return"] = []string{"v"}
	body["limits"] = map[string]any{"wall": 2.5, "memory": "128MiB", "cpus": 0.5}
	body["policy"] = "tight"
	a := b.post(t, body)
	x := a.object(t)
	if a.status != http.StatusOK || x["status"] != "ok" || x["stdout"] != "hello\n1,2\n[1,2]\n" || x["policy"] != "tight" {
		t.Errorf("%d %s", a.status, a.body)
	}
	limits, ok := x["limits"].(map[string]any)
	if !ok {
		t.Fatal(a.body)
	}
	for name, want := range map[string]float64{"wall": 2.5, "memory": 128 << 20, "milli_cpu": 500, "processes": 50} {
		limit, ok := limits[name].(map[string]any)
		if !ok || limit["value"] != want {
			t.Errorf("limit %s is %v, want %v", name, limits[name], want)
		}
	}
	for _, header := range []string{"X-Content-Type-Options", "Content-Security-Policy", "Cache-Control"} {
		if a.header.Get(header) == "" {
			t.Errorf("no header %s", header)
		}
	}
}

// TestAProgramsFailureIsAnAnswer: 200 with a status, whatever the program does; our own failure is 500.
func TestAProgramsFailureIsAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{faults: []sandboxtest.Fault{{Method: sandboxtest.MethodCreate, Call: 4, Kind: sandboxtest.Fail}}})
	for _, text := range []string{"raise E x", "oom", "exit 3"} {
		if a := b.post(t, code(text)); a.status != http.StatusOK || a.object(t)["status"] == "ok" {
			t.Errorf("%s: %d %s", text, a.status, a.body)
		}
	}
	a := b.post(t, code("print x"))
	a.want(t, http.StatusInternalServerError, "infra")
	if x, ok := a.object(t)["execution"].(map[string]any); !ok || x["status"] != "infra" {
		t.Errorf("no record in %s", a.body)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	post := func(kind, body string) answer { return b.do(t, http.MethodPost, "/v1/executions", kind, body) }
	const j = "application/json"
	post("text/plain", "{}").want(t, 400, "invalid_request", "Content-Type")
	post(j, "{").want(t, 400, "invalid_request")
	post(j, `{"code":"x"} {}`).want(t, 400, "invalid_request", "more than one")
	post(j, `{"kode":"x"}`).want(t, 400, "invalid_request", "kode")
	post(j, `{"limits":{"memory":"lots"}}`).want(t, 400, "invalid_request", "512MiB")
	post(j, `{"code":"x","limits":{"memory":"64GiB"}}`).want(t, 422, "limit_exceeded", "8 GiB")
	post(j, `{"code":"x","limits":{"memory":0}}`).want(t, 400, "invalid_request", "minimum")
	post(j, `{"code":"x","policy":"lax","backend":"none","return":["a.b"]}`).want(t, 400, "invalid_request", "lax", "none", "a.b")
	post(j, `{"code":"x","image":"missing"}`).want(t, 422, "image_not_found")
	post(j, `{"code":"x","language":"cobol"}`).want(t, 422, "unsupported", "cobol")
	post(j, `{"code":"`+strings.Repeat("x", 1<<20)+`"}`).want(t, 413, "too_large", "1048576")
	post(j, `{"files":[{"name":"a","content_base64":""},{"name":"a","content_base64":""},{"name":"../x","content_base64":""}]}`).
		want(t, 400, "invalid_request", "given twice", "../x")
	b.do(t, "GET", "/v1/executions/0000", "", "").want(t, 404, "not_found")
	b.do(t, "GET", "/v1/executions/..%2f..%2fetc", "", "").want(t, 404, "not_found")
	b.do(t, "DELETE", "/v1/executions/0000", "", "").want(t, 404, "not_found")
	b.do(t, "GET", "/nowhere", "", "").want(t, 404, "not_found")
	b.do(t, "PUT", "/v1/executions", "", "").want(t, 405, "method_not_allowed")
	if len(b.fake.Living()) != 0 {
		t.Error("sandboxes are left")
	}
}

func TestOnlyCallersWhoAreMeant(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	ask := func(set func(*http.Request)) answer { return b.do(t, "GET", "/v1/executions/0000", "", "", set) }
	for name, test := range map[string]struct {
		set  func(*http.Request)
		code string
	}{
		"no token":           {func(r *http.Request) { r.Header.Del("Authorization") }, "unauthorized"},
		"wrong token":        {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+"x") }, "unauthorized"},
		"wrong scheme":       {func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token) }, "unauthorized"},
		"rebound host":       {func(r *http.Request) { r.Host = "evil.example" }, "unknown_host"},
		"rebound with port":  {func(r *http.Request) { r.Host = "evil.example:8722" }, "unknown_host"},
		"like a known host":  {func(r *http.Request) { r.Host = "box.example.evil.example" }, "unknown_host"},
		"another site":       {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, "unknown_origin"},
		"another local port": {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, "unknown_origin"},
		"a sandboxed page":   {func(r *http.Request) { r.Header.Set("Origin", "null") }, "unknown_origin"},
		"itself":             {func(r *http.Request) { r.Header.Set("Origin", b.URL) }, "not_found"},
		"localhost":          {func(r *http.Request) { r.Host = "localhost:8722" }, "not_found"},
		"loopback v6":        {func(r *http.Request) { r.Host = "[::1]:8722" }, "not_found"},
		"configured host":    {func(r *http.Request) { r.Host = "BOX.example"; r.Header.Set("Origin", "https://box.example") }, "not_found"},
	} {
		if got := ask(test.set).object(t)["code"]; got != test.code {
			t.Errorf("%s: %v, want %s", name, got, test.code)
		}
	}
	health := func(set func(*http.Request)) int { return b.do(t, "GET", "/healthz", "", "", set).status }
	if got := health(func(r *http.Request) { r.Header.Del("Authorization") }); got != 200 {
		t.Errorf("healthz: %d", got)
	}
	if got := health(func(r *http.Request) { r.Host = "evil.example" }); got != 403 {
		t.Errorf("healthz under another name: %d", got)
	}
}

// upload makes a form; a part whose name begins with @ is a file.
func upload(t *testing.T, parts ...[2]string) (kind, body string) {
	t.Helper()
	var buffer bytes.Buffer
	form := multipart.NewWriter(&buffer)
	for _, part := range parts {
		disposition := fmt.Sprintf(`form-data; name="%s"`, part[0])
		if name, isFile := strings.CutPrefix(part[0], "@"); isFile {
			disposition = `form-data; name="file"; filename="` + name + `"`
		}
		w, err := form.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}})
		if err == nil {
			_, err = io.WriteString(w, part[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	return form.FormDataContentType(), buffer.String()
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	send := func(parts ...[2]string) answer {
		kind, body := upload(t, parts...)
		return b.do(t, http.MethodPost, "/v1/executions", kind, body)
	}
	big := strings.Repeat("x", 1<<20)
	a := send([2]string{"code", "cat a b.csv\ncat 📈.csv"}, [2]string{"@a", "1\n"}, [2]string{"@📈.csv", "2\n"},
		[2]string{"@big", big}, [2]string{"limits", `{"wall":"3s"}`}, [2]string{"inputs", `{"v":1}`})
	if x := a.object(t); a.status != 200 || x["status"] != "ok" || x["stdout"] != "1\n2\n" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := send([2]string{"request", `{"code":"cat f"}`}, [2]string{"@f", "x"}); a.object(t)["stdout"] != "x" {
		t.Errorf("%d %s", a.status, a.body)
	}
	send([2]string{"code", "x"}, [2]string{"@big", big + "x"}).want(t, 413, "too_large", "1048576", "big")
	send([2]string{"code", "x"}, [2]string{"@a", big}, [2]string{"@b", big}, [2]string{"@c", big}, [2]string{"@d", big}).want(t, 413, "too_large", "4194304")
	send([2]string{"@../../etc/cron.d/x", "x"}, [2]string{"@/abs", "x"}, [2]string{"@a%0ab", "x"}, [2]string{`@..\\x`, "x"}).
		want(t, 400, "invalid_request", "../../etc/cron.d/x", "/abs", `..\\\\x`)
	send([2]string{"@a", "x"}, [2]string{"@a", "y"}).want(t, 400, "invalid_request", "given twice")
	send([2]string{"kode", "x"}).want(t, 400, "invalid_request", "kode")
	send([2]string{"code", "x"}, [2]string{"code", "y"}).want(t, 400, "invalid_request", "twice")
	send([2]string{"limits", "x"}).want(t, 400, "invalid_request", "not JSON")
	send([2]string{"request", "{}"}, [2]string{"code", "x"}).want(t, 400, "invalid_request", "one or the other")
	b.do(t, "POST", "/v1/executions", "multipart/form-data; boundary=x", "--x\r\ngarbage").want(t, 400, "invalid_request")
}

func TestDetachedAndPickUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	body := code("print hello", "write 销售.csv a,b\\n1,2\\n3,4\\n", "eprint oh")
	body["detach"] = true
	a := b.post(t, body)
	location := a.header.Get("Location")
	if a.status != http.StatusAccepted || location == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for b.do(t, "GET", location, "", "").object(t)["status"] != "ok" {
		if t.Context().Err() != nil {
			t.Fatal("it does not end")
		}
	}
	out := b.do(t, "GET", location+"/output?stream=stderr", "", "")
	if out.body != "oh\n" || !strings.HasPrefix(out.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%q %v", out.body, out.header)
	}
	file := b.do(t, "GET", location+"/artifacts/%E9%94%80%E5%94%AE.csv", "", "")
	if file.body != "a,b\n1,2\n3,4\n" || file.header.Get("Content-Type") != "text/csv" ||
		!strings.Contains(file.header.Get("Content-Disposition"), "filename*=UTF-8''%E9%94%80%E5%94%AE.csv") ||
		file.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(file.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%q %v", file.body, file.header)
	}
	part := b.do(t, "GET", location+"/artifacts/%E9%94%80%E5%94%AE.csv", "", "", func(r *http.Request) { r.Header.Set("Range", "bytes=4-6") })
	if part.status != http.StatusPartialContent || part.body != "1,2" {
		t.Errorf("range: %d %q", part.status, part.body)
	}
	b.do(t, "GET", location+"/artifacts/none", "", "").want(t, 404, "not_found")
	b.do(t, "GET", location+"/output?stream=stdin", "", "").want(t, 400, "invalid_request")
	if a := b.do(t, "DELETE", location, "", ""); a.status != http.StatusNoContent {
		t.Errorf("DELETE: %d", a.status)
	}
	b.do(t, "GET", location, "", "").want(t, 404, "not_found")
}

func TestOverload(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{engine: func(c *engine.Config) { c.MaxRunning, c.MaxQueued = 1, 0 }})
	body := code("spin")
	body["detach"] = true
	location := b.post(t, body).header.Get("Location")
	for b.do(t, "GET", location, "", "").object(t)["status"] != "running" {
		if t.Context().Err() != nil {
			t.Fatal("it does not begin")
		}
	}
	for _, set := range [][]func(*http.Request){nil, {accept}} {
		a := b.post(t, code("print x"), set...)
		a.want(t, http.StatusTooManyRequests, "overloaded")
		if a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	b.do(t, "DELETE", location, "", "")
	full := newBench(t, change{gateway: func(c *gateway.Config) { c.MaxPosts = 1 }})
	reader, writer := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, full.URL+"/v1/executions", reader)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
	done := make(chan error, 1)
	go func() {
		response, err := full.Client().Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		done <- err
	}()
	if _, err := io.WriteString(writer, `{"code":`); err != nil { // the first one is being read
		t.Fatal(err)
	}
	for {
		if a := full.post(t, code("print x")); a.status == http.StatusTooManyRequests {
			break
		}
	}
	writer.CloseWithError(errors.New("enough"))
	if err := <-done; err == nil {
		t.Error("a body that breaks off was taken")
	}
}

// TestScriptAsFilePart: a script sent as the file part "code" is the code, not a file beside none; no code at all is
// refused.
func TestScriptAsFilePart(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	kind, body := upload(t, [2]string{"code", "print from the file part"})
	body = strings.Replace(body, `name="code"`, `name="code"; filename="script.py"`, 1)
	if x := b.do(t, http.MethodPost, "/v1/executions", kind, body).object(t); x["stdout"] != "from the file part\n" {
		t.Errorf("stdout %q, status %v", x["stdout"], x["status"])
	}
	b.do(t, http.MethodPost, "/v1/executions", "application/json", "{}").want(t, 400, "invalid_request", "there is no code")
}

// TestASandboxOfDefaultsNeedsNoBody: every field of the request has a default, and so has that of a fork.
func TestASandboxOfDefaultsNeedsNoBody(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	for _, kind := range []string{"", "application/json"} {
		a := b.do(t, http.MethodPost, "/v1/sandboxes", kind, "")
		id, _ := a.object(t)["id"].(string)
		if a.status != http.StatusCreated || id == "" {
			t.Fatalf("Content-Type %q: %d %s", kind, a.status, a.body)
		}
		b.do(t, http.MethodPost, "/v1/sandboxes/"+id+"/fork", kind, "").want(t, 422, "unsupported", "fork")
		b.do(t, http.MethodPost, "/v1/sandboxes/"+id+"/execute", kind, "").want(t, 400, "invalid_request")
	}
	b.do(t, http.MethodPost, "/v1/sandboxes", "", "{}").want(t, 400, "invalid_request", "Content-Type")
}

// TestArtifactsAreListed: the folder of an execution's files is a list, and no redirection.
func TestArtifactsAreListed(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	x := b.do(t, http.MethodPost, "/v1/executions", "application/json", `{"code":"write a.csv 1,2"}`).object(t)
	id, _ := x["id"].(string)
	a := b.do(t, http.MethodGet, "/v1/executions/"+id+"/artifacts", "", "")
	list := a.object(t)
	if a.status != http.StatusOK || !reflect.DeepEqual(list["artifacts"], x["artifacts"]) {
		t.Errorf("%d %s, want %v", a.status, a.body, x["artifacts"])
	}
	if files, _ := list["artifacts"].([]any); len(files) != 1 {
		t.Errorf("%s", a.body)
	}
	b.do(t, http.MethodGet, "/v1/executions/nothing/artifacts", "", "").want(t, 404, "not_found")
	b.do(t, http.MethodGet, "/v1/executions/"+id+"/artifacts/", "", "").want(t, 404, "not_found")
	b.do(t, http.MethodPost, "/v1/executions/"+id+"/artifacts", "", "").want(t, 405, "method_not_allowed")
}

// TestSandboxes: a sandbox lives between executions; what it has from its beginning cannot be asked for again.
func TestSandboxes(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	const j = "application/json"
	made := b.do(t, http.MethodPost, "/v1/sandboxes", j, "{}")
	id, _ := made.object(t)["id"].(string)
	if made.status != http.StatusCreated || id == "" {
		t.Fatalf("%d %s", made.status, made.body)
	}
	path := "/v1/sandboxes/" + id
	b.do(t, http.MethodPost, path+"/execute", j, `{"code":"set v 41"}`)
	if x := b.do(t, http.MethodPost, path+"/execute", j, `{"code":"show v","limits":{"wall":5}}`).object(t); x["stdout"] != "41\n" {
		t.Errorf("%v", x)
	}
	b.do(t, http.MethodPost, path+"/execute", j, `{"code":"x","limits":{"memory":"1GiB"}}`).want(t, 400, "invalid_request", "limits")
	b.do(t, http.MethodPost, path+"/execute", j, `{"code":"x","policy":"tight"}`).want(t, 400, "invalid_request", "policy")
	b.do(t, http.MethodPost, path+"/execute", j, `{"code":"x","session":"other"}`).want(t, 404, "not_found", "other")
	b.do(t, http.MethodPost, path+"/fork", j, `{"count":2}`).want(t, 422, "unsupported", "fork")
	if a := b.do(t, http.MethodDelete, path, "", ""); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
	b.do(t, http.MethodGet, path, "", "").want(t, 404, "not_found")
	if living := b.fake.Living(); len(living) != 0 {
		t.Errorf("left: %v", living)
	}
}
