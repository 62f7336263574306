// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/gateway"
)

// raw sends bytes as they are and returns every answer that comes back on the connection.
func (b *bench) raw(t *testing.T, request string) []answer {
	t.Helper()
	at, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(at.Host)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, strings.ReplaceAll(request, "HOST", at.Host)); err != nil {
		t.Fatal(err)
	}
	// Work is given up where the client's end closes, so who wants its answer asks the server to close.
	if !strings.Contains(request, "Connection: close") {
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	var answers []answer
	for reader := bufio.NewReader(conn); ; {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return answers
		}
		body, _ := io.ReadAll(response.Body) // cut where the server closes
		_ = response.Body.Close()
		answers = append(answers, answer{status: response.StatusCode, header: response.Header, body: string(body)})
	}
}

// TestNoWayAroundTheKey: no form of a header, a path or a request lets anybody in, or makes of one request two.
func TestNoWayAroundTheKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{"alpha": principal("alpha", auth.Scopes()...)}))
	const get = "GET /v1/executions/x HTTP/1.1\r\nHost: HOST\r\n"
	for name, request := range map[string]string{
		"no header":              get + "\r\n",
		"no scheme":              get + "Authorization: alpha\r\n\r\n",
		"another scheme":         get + "Authorization: Basic alpha\r\n\r\n",
		"a scheme like it":       get + "Authorization: Bearerr alpha\r\n\r\n",
		"in another header":      get + "X-Authorization: Bearer alpha\r\n\r\n",
		"in a cookie":            get + "Cookie: Authorization=Bearer alpha\r\n\r\n",
		"two, the good first":    get + "Authorization: Bearer alpha\r\nAuthorization: Bearer x\r\n\r\n",
		"two, the good last":     get + "Authorization: Bearer x\r\nAuthorization: Bearer alpha\r\n\r\n",
		"a list":                 get + "Authorization: Bearer alpha, Bearer x\r\n\r\n",
		"other case":             get + "Authorization: Bearer ALPHA\r\n\r\n",
		"full-width letters":     get + "Authorization: Bearer ａlpha\r\n\r\n",
		"a byte that is no text": get + "Authorization: Bearer alpha\xff\r\n\r\n",
		"in the address":         "GET /v1/executions/x?access_token=alpha&authorization=Bearer%20alpha HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"the open path inside":   "GET /healthz/../v1/executions/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"the open path, encoded": "GET /healthz%2f..%2fv1/executions/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"two slashes":            "GET //v1/executions/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"a dot":                  "GET /./v1/executions/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"encoded dots":           "GET /healthz/%2e%2e/v1/executions/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"a slash behind":         "GET /v1/executions/x/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"a semicolon":            "GET /healthz;/v1/executions/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"an absolute address":    "GET http://localhost/v1/executions/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"a method of our own":    "HEALTHZ /v1/executions/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"CONNECT":                "CONNECT /healthz/../v1/executions/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"OPTIONS of all":         "OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"OPTIONS":                "OPTIONS /v1/executions/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"method override":        "POST /healthz HTTP/1.1\r\nHost: HOST\r\nX-HTTP-Method-Override: GET\r\nX-Original-URL: /v1/executions/x\r\nContent-Length: 0\r\n\r\n",
	} {
		answers := b.raw(t, request)
		if len(answers) != 1 {
			t.Errorf("%s: %d answers", name, len(answers))
			continue
		}
		switch a := answers[0]; {
		case a.status == http.StatusUnauthorized, a.status == http.StatusBadRequest, a.status == http.StatusForbidden:
		case name == "method override" && a.status == http.StatusMethodNotAllowed: // that of the open path
		case name == "OPTIONS of all" && a.body == "": // answered by the HTTP library itself, with nothing
		default:
			t.Errorf("%s: status %d, %.200s", name, a.status, a.body)
		}
	}
	// The control: this is let in.
	if a := b.raw(t, get+"Authorization: bEaReR  alpha \r\n\r\n"); len(a) != 1 || a[0].status != http.StatusNotFound {
		t.Errorf("the control: %+v", a)
	}
}

// TestOneRequestIsOne: what a proxy in front of the server may take for a body is not answered as a request.
func TestOneRequestIsOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{"alpha": principal("alpha", auth.Scopes()...)}))
	const inner = "GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n"
	post := "POST /v1/executions HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer alpha\r\nContent-Type: application/json\r\n"
	for name, request := range map[string]string{
		"two lengths":          post + "Content-Length: 0\r\nContent-Length: 60\r\n\r\n" + inner,
		"a length with a sign": post + "Content-Length: +0\r\n\r\n" + inner,
		"an unknown coding":    post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
		"a coding with space":  post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + inner,
		"two codings":          post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + inner,
		"a length too large":   post + "Content-Length: 99999999999999999999\r\n\r\n" + inner,
		"a broken chunk":       post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + inner,
		"a refused one":        "POST /v1/executions HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1000\r\n\r\n" + inner,
	} {
		for i, a := range b.raw(t, request) {
			if a.status == http.StatusOK || i > 0 {
				t.Errorf("%s: answer %d has status %d, %.100s", name, i, a.status, a.body)
			}
		}
	}
}

// TestFormsOfForeignIDs: no form of a request tells a foreign id from one that never was.
func TestFormsOfForeignIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{"alpha": principal("alpha", auth.Scopes()...), "beta": principal("beta", auth.Scopes()...)}))
	made := b.as(t, "alpha", "POST", "/v1/executions", `{"code": "print('secret')\nwrite out.txt secret"}`)
	held := b.as(t, "alpha", "POST", "/v1/sandboxes", `{}`)
	var ids []string
	for _, a := range []answer{made, held} {
		_, after, _ := strings.Cut(a.body, `"id":"`)
		id, _, _ := strings.Cut(after, `"`)
		ids = append(ids, id)
	}
	never := strings.Repeat("a", len(ids[0]))
	tried := 0
	for _, route := range gateway.Routes() {
		_, path, _ := strings.Cut(route, " ")
		if !strings.Contains(path, "{id}") {
			continue
		}
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "POST", "PATCH", "DELETE"} {
			for _, form := range []string{"%s", "/%s", "./%s", "x/../%s", "%%2e/%s", "%s/", "%s/.", "%s?stream=nosuch", "%s%%00", "%s%%2f", "%%2f%s"} {
				ask := func(id string) string {
					target := strings.NewReplacer("{id}", fmt.Sprintf(form, id), "{name...}", "out.txt").Replace(path)
					a := b.raw(t, method+" "+target+" HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nAuthorization: Bearer beta\r\nContent-Type: application/json\r\n"+
						"Range: bytes=0-1\r\nIf-None-Match: *\r\nContent-Length: 2\r\n\r\n{}")
					if len(a) == 0 {
						return "none"
					}
					return strings.ReplaceAll(fmt.Sprint(a[0].status, a[0].header["Location"], a[0].header["Allow"], a[0].header["Etag"], a[0].body), id, "ID")
				}
				for _, id := range ids {
					tried++
					if foreign, unknown := ask(id), ask(never); foreign != unknown {
						t.Errorf("%s %s as %s:\n%s\nof one that never was:\n%s", method, path, form, foreign, unknown)
					}
				}
			}
		}
	}
	t.Logf("%d forms", tried)
	for i, path := range []string{"/v1/executions/", "/v1/sandboxes/"} {
		if a := b.as(t, "alpha", "GET", path+ids[i], ""); a.status != http.StatusOK {
			t.Errorf("%s: status %d after the attempts", path, a.status)
		}
	}
	b.as(t, "alpha", "DELETE", "/v1/sandboxes/"+ids[1], "")
}

// slowly begins a request of beta with a body of so many bytes, of which all but the last are sent, and returns how to end it.
func (b *bench) slowly(t *testing.T, kind, body string) (end func() string) {
	t.Helper()
	at, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	head := fmt.Sprintf("POST /v1/executions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer beta\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", at.Host, kind, len(body))
	if _, err := io.WriteString(conn, head+body[:len(body)-1]); err != nil {
		t.Fatal(err)
	}
	return func() string {
		_, _ = io.WriteString(conn, body[len(body)-1:]) // a refusal may have come, and the end of the connection
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return fmt.Sprint(response.StatusCode, " ", string(text))
	}
}

// awaitTaken waits until beta's requests have so much: the server reads them in its own time.
func (b *bench) awaitTaken(t *testing.T, posts, bodies int64) {
	t.Helper()
	face, ok := b.Config.Handler.(*gateway.Gateway)
	if !ok {
		t.Fatalf("the handler is a %T", b.Config.Handler)
	}
	var hasPosts, hasBodies int64
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if hasPosts, hasBodies = face.Taken("beta"); hasPosts >= posts && hasBodies >= bodies {
			return
		}
	}
	t.Fatalf("beta has %d places and %d bytes, and never %d and %d", hasPosts, hasBodies, posts, bodies)
}

// until asks again and again until an answer has the status: the server takes requests in its own time.
func until(t *testing.T, status int, ask func() answer) answer {
	t.Helper()
	var a answer
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if a = ask(); a.status == status {
			return a
		}
	}
	t.Errorf("status %d and never %d: %.200s", a.status, status, a.body)
	return a
}

// TestSlowRequestsOfOneTenant: a tenant whose requests take all the places that one may have keeps no other out.
func TestSlowRequestsOfOneTenant(t *testing.T) {
	t.Parallel()
	keys := keyring{"alpha": principal("alpha", auth.Scopes()...), "beta": principal("beta", auth.Scopes()...)}
	limits := withKeys(keys)
	set := limits.gateway
	limits.gateway = func(c *gateway.Config) { set(c); c.MaxPosts, c.MaxPostsEach = 8, 2 }
	b := newBench(t, limits)
	run := func(key string) func() answer {
		return func() answer { return b.as(t, key, "POST", "/v1/executions", `{"code": "print(1)"}`) }
	}
	first := b.slowly(t, "application/json", `{"code": "print(1)"}`)
	b.slowly(t, "application/json", `{"code": "print(1)"}`)
	b.awaitTaken(t, 2, 0)
	until(t, http.StatusTooManyRequests, run("beta"))
	if a := run("alpha")(); a.status != http.StatusOK {
		t.Errorf("another tenant: status %d, %.200s", a.status, a.body)
	}
	if text := first(); !strings.HasPrefix(text, "200 ") {
		t.Errorf("the slow request: %.200s", text)
	}
	until(t, http.StatusOK, run("beta"))
}

// TestLargeBodiesOfOneTenant: what bodies hold of the server's memory is bounded, and shared; it is given back.
func TestLargeBodiesOfOneTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{"alpha": principal("alpha", auth.Scopes()...), "beta": principal("beta", auth.Scopes()...)}))
	large := `{"code": "print(1)", "env": {"X": "` + strings.Repeat("x", 900<<10) + `"}}`
	form := "--b\r\nContent-Disposition: form-data; name=\"inputs\"\r\n\r\n\"" + strings.Repeat("x", 900<<10) + "\"\r\n--b--\r\n"
	b.slowly(t, "application/json", large)
	second := b.slowly(t, `multipart/form-data; boundary=b`, form)
	b.awaitTaken(t, 2, 2*900<<10)
	ask := func(key string) func() answer {
		return func() answer { return b.as(t, key, "POST", "/v1/executions", large) }
	}
	until(t, http.StatusTooManyRequests, ask("beta"))
	if a := b.as(t, "beta", "POST", "/v1/executions", `{"code": "print(1)"}`); a.status != http.StatusOK {
		t.Errorf("a small one of the same tenant: status %d, %.200s", a.status, a.body)
	}
	if a := ask("alpha")(); a.status == http.StatusTooManyRequests {
		t.Errorf("another tenant: status %d, %.200s", a.status, a.body)
	}
	second()
	if a := until(t, http.StatusBadRequest, ask("beta")); strings.Contains(a.body, "try again") {
		t.Errorf("after one has ended: %.200s", a.body)
	}
}

// TestFormsThatFillTheMemory: fields are kept in memory all together, and so is what is said of faults: a form of a gigabyte
// may have 60 fields of the largest size, or ten million bad parts.
func TestFormsThatFillTheMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	var fields, faults strings.Builder
	for n := range 3 {
		fmt.Fprintf(&fields, "--b\r\nContent-Disposition: form-data; name=\"f%d\"\r\n\r\n%s\r\n", n, strings.Repeat("x", 600<<10))
	}
	for range 20_000 {
		faults.WriteString("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a/b\"\r\n\r\n\r\n")
	}
	for name, c := range map[string]struct {
		body   string
		status int
		words  string
	}{
		"fields": {fields.String(), http.StatusRequestEntityTooLarge, "send large content as files"},
		"faults": {faults.String(), http.StatusBadRequest, "more faults than are read"},
	} {
		a := b.do(t, "POST", "/v1/executions", "multipart/form-data; boundary=b", c.body+"--b--\r\n", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
		if a.status != c.status || !strings.Contains(a.body, c.words) || len(a.body) > 64<<10 {
			t.Errorf("%s: status %d, %d bytes, %.300s", name, a.status, len(a.body), a.body)
		}
	}
}
