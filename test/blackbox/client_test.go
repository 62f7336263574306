// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
)

// execution is what a client reads of a record.
type execution struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	ExitCode  int    `json:"exit_code"`
	Reset     bool   `json:"state_reset"`
	Message   string `json:"message"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated"`
	Output    struct {
		Stdout, Stderr struct {
			Bytes   int64 `json:"bytes"`
			Kept    int64 `json:"kept_bytes"`
			Omitted int64 `json:"omitted_bytes"`
		}
	} `json:"output"`
	Background *struct {
		Text    string   `json:"text"`
		Results []bundle `json:"results"`
	} `json:"background"`
	Results   []bundle          `json:"results"`
	Values    map[string]bundle `json:"values"`
	Artifacts []file            `json:"artifacts"`
	Skipped   []struct {
		Reason string   `json:"reason"`
		Count  int      `json:"count"`
		Names  []string `json:"names"`
	} `json:"skipped_files"`
	Error *struct {
		Name      string `json:"name"`
		Value     string `json:"value"`
		Traceback string `json:"traceback"`
	} `json:"error"`
	Usage struct {
		Wall       float64 `json:"wall_seconds"`
		CPU        float64 `json:"cpu_seconds"`
		MemoryPeak int64   `json:"memory_peak_bytes"`
		OOMKills   int64   `json:"oom_kills"`
		PoolHit    bool    `json:"pool_hit"`
	} `json:"usage"`
	Limits map[string]struct {
		Value    float64  `json:"value"`
		Hit      bool     `json:"hit"`
		Measured *float64 `json:"measured"`
	} `json:"limits"`
	Warnings []struct {
		Code string `json:"code"`
		Text string `json:"text"`
	} `json:"warnings"`

	raw string
}

type file struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	MIME   string `json:"mime"`
	SHA256 string `json:"sha256"`
}

// bundle is one value in several forms.
type bundle map[string]json.RawMessage

// text is the form of that type as text.
func (b bundle) text(mime string) string {
	var text string
	if json.Unmarshal(b[mime], &text) != nil {
		return string(b[mime])
	}
	return text
}

func (b bundle) plain() string { return b.text("text/plain") }

// picture returns the bytes of the PNG.
func (b bundle) picture(t *testing.T) []byte {
	t.Helper()
	content, err := base64.StdEncoding.DecodeString(b.text("image/png"))
	if err != nil || len(content) == 0 {
		t.Fatalf("no picture in %v: %v", keys(b), err)
	}
	return content
}

func keys[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}

// warned returns the text of the warning of that code.
func (x *execution) warned(code string) string {
	for _, warning := range x.Warnings {
		if warning.Code == code {
			return warning.Text
		}
	}
	return ""
}

func (x *execution) skipped(reason string) int {
	for _, skip := range x.Skipped {
		if skip.Reason == reason {
			return skip.Count
		}
	}
	return 0
}

func (x *execution) artifact(name string) *file {
	for i := range x.Artifacts {
		if x.Artifacts[i].Name == name {
			return &x.Artifacts[i]
		}
	}
	return nil
}

// shown returns the results that have a form of that type.
func (x *execution) shown(mime string) (found []bundle) {
	for _, result := range x.Results {
		if result[mime] != nil {
			found = append(found, result)
		}
	}
	return found
}

// answer is what came back from the server.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// problem returns the code and the text of a problem document, or fails.
func (a answer) problem(t *testing.T) (code, text string) {
	t.Helper()
	var p struct{ Code, Title, Detail string }
	if err := json.Unmarshal(a.body, &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" || p.Code == "" || p.Title == "" {
		t.Errorf("no problem document: %d, %s, %v: %.300s", a.status, a.header.Get("Content-Type"), err, a.body)
	}
	return p.Code, string(a.body)
}

// execution returns the record in an answer with status 200, or fails.
func (a answer) execution(t *testing.T) *execution {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %.600s", a.status, a.body)
	}
	return decode(t, a.body)
}

func decode(t *testing.T, body []byte) *execution {
	t.Helper()
	x := &execution{raw: string(body)}
	if err := json.Unmarshal(body, x); err != nil {
		t.Fatalf("%v: %.600s", err, body)
	}
	return x
}

// request makes an authorized request.
func (s *server) request(ctx context.Context, method, path, kind string, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	return request, nil
}

// ask makes a request and reads the whole answer.
func (s *server) ask(ctx context.Context, method, path, kind string, body io.Reader) (answer, error) {
	request, err := s.request(ctx, method, path, kind, body)
	if err != nil {
		return answer{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, content}, err
}

func (s *server) do(t *testing.T, method, path, kind string, body io.Reader) answer {
	t.Helper()
	a, err := s.ask(t.Context(), method, path, kind, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (s *server) get(t *testing.T, path string) answer {
	t.Helper()
	return s.do(t, http.MethodGet, path, "", nil)
}

// call is a request for an execution.
type call map[string]any

func encode(t *testing.T, c call) []byte {
	t.Helper()
	body, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// post asks for an execution.
func (s *server) post(t *testing.T, c call) answer {
	t.Helper()
	return s.do(t, http.MethodPost, "/v1/executions", "application/json", bytes.NewReader(encode(t, c)))
}

// run runs code. Settings are further fields of the request.
func (s *server) run(t *testing.T, code string, settings ...call) *execution {
	t.Helper()
	c := call{"code": code}
	for _, more := range settings {
		maps.Copy(c, more)
	}
	return s.post(t, c).execution(t)
}

// within is a limit of that many seconds.
func within(seconds float64) call { return call{"limits": call{"wall": seconds}} }

// upload is a file with its content.
type upload struct {
	name    string
	content []byte
}

// form makes the body of an upload: the JSON request in one part, a file in each of the others.
func form(t *testing.T, c call, files ...upload) (kind string, body io.Reader) {
	t.Helper()
	var buffer bytes.Buffer
	writer := multipart.NewWriter(&buffer)
	if err := writer.WriteField("request", string(encode(t, c))); err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		header := textproto.MIMEHeader{"Content-Disposition": {
			`form-data; name="file` + strconv.Itoa(i) + `"; filename="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(f.name) + `"`,
		}}
		part, err := writer.CreatePart(header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write(f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return writer.FormDataContentType(), &buffer
}

func (s *server) postFiles(t *testing.T, c call, files ...upload) answer {
	t.Helper()
	kind, body := form(t, c, files...)
	return s.do(t, http.MethodPost, "/v1/executions", kind, body)
}

// runOn runs code on uploaded files.
func (s *server) runOn(t *testing.T, code string, files ...upload) *execution {
	t.Helper()
	return s.postFiles(t, call{"code": code, "limits": call{"wall": 60}}, files...).execution(t)
}

// ok fails unless the run ended well.
func (x *execution) ok(t *testing.T) *execution {
	t.Helper()
	if x.Status != "ok" || x.ExitCode != 0 || x.Error != nil {
		t.Fatalf("status %s, exit code %d, %s, %+v\n%.2000s", x.Status, x.ExitCode, x.Message, x.Error, x.Stderr)
	}
	return x
}

// says fails unless the run ended well and printed exactly that.
func (x *execution) says(t *testing.T, want string) {
	t.Helper()
	if x.ok(t); strings.TrimSpace(x.Stdout) != strings.TrimSpace(want) {
		t.Errorf("printed %.500q, want %.500q", x.Stdout, want)
	}
}

// alive fails unless the server still runs code.
func (s *server) alive(t *testing.T) {
	t.Helper()
	x := s.run(t, "1+1")
	if x.ok(t); len(x.Results) != 1 || x.Results[0].plain() != "2" {
		t.Errorf("1+1 is %v", x.Results)
	}
}
