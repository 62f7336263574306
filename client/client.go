// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The limits of what is read of a server, in bytes.
const (
	// MaxAnswer bounds a JSON answer, and one event of a stream. The largest answer that a server gives is a record with
	// 32 MiB of results.
	MaxAnswer = 128 << 20
	// MaxProblem bounds the answer that says why a request was refused.
	MaxProblem = 1 << 20
	// MaxHeader bounds the headers of an answer. A client with a HTTPClient of its own has that one's limit.
	MaxHeader = 256 << 10
)

// The limits of retrying.
const (
	// DefaultRetries is how often a request is sent again, when that is safe.
	DefaultRetries = 3
	// MaxWait is the longest pause before a request is sent again. A server that asks for more gets its Problem returned.
	MaxWait = 30 * time.Second
	// firstWait is the pause where the server says nothing; it doubles.
	firstWait = 200 * time.Millisecond
)

const dialPatience = 10 * time.Second

// ErrInsecure says that a key would travel readable for everybody on its way.
var ErrInsecure = errors.New("the key would be sent over http:// to another machine, readable on its way")

// Options say where the server is, and who asks.
type Options struct {
	// URL is the server's, as https://box.example or http://127.0.0.1:8722. A path before /v1 is kept.
	URL string
	// Socket is the path of the server's Unix socket, in place of URL; it needs no Key.
	Socket string
	// Key is an API key or the operator's token.
	Key string
	// Insecure permits a Key over http:// to another machine than this one.
	Insecure bool
	// HTTPClient replaces the client that is made for URL: for a proxy, certificates or tests. Its Timeout bounds whole
	// executions and downloads. Redirects are never followed.
	HTTPClient *http.Client
	// Retries is how often a request is sent again, when that is safe: zero is DefaultRetries, below zero is never.
	Retries int
	// Waiting is told of each pause before a request is sent again, and why; nil is nobody.
	Waiting func(why error, pause time.Duration)
}

// Client speaks to one server. It may be used by several goroutines at once.
type Client struct {
	base    string
	key     string
	retries int
	waiting func(why error, pause time.Duration)
	http    *http.Client
	// most is MaxAnswer, but for tests.
	most int64
}

// New returns a client. It does not connect yet. The error says which option cannot be used.
func New(o Options) (*Client, error) {
	c := &Client{base: strings.TrimRight(o.URL, "/"), key: o.Key, retries: o.Retries, waiting: o.Waiting, most: MaxAnswer}
	if o.Retries == 0 {
		c.retries = DefaultRetries
	}
	if c.waiting == nil {
		c.waiting = func(error, time.Duration) {}
	}
	if strings.ContainsFunc(o.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the key has spaces or other characters that no key has: check that it is whole and alone")
	}
	if (o.Socket == "") == (o.URL == "") {
		return nil, errors.New("a client needs a URL or a socket, and not both")
	}
	if o.Socket != "" {
		c.base = "http://localhost"
	} else if err := o.checkURL(); err != nil {
		return nil, err
	}
	c.http = &http.Client{}
	if o.HTTPClient != nil {
		*c.http = *o.HTTPClient
	} else {
		c.http.Transport = o.transport()
	}
	// A redirect would send code and files to where nobody meant them to go.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func (o Options) checkURL() error {
	parsed, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return fmt.Errorf("the server's URL cannot be read: %w", err)
	case parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Hostname() == "":
		return fmt.Errorf("the server's URL is %q: write it as https://HOST or http://127.0.0.1:PORT", o.URL)
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return errors.New("the server's URL has a user, a query or a fragment: leave them out; the key is an option of its own")
	case parsed.Scheme == "http" && o.Key != "" && !o.Insecure && !loopback(parsed.Hostname()):
		return fmt.Errorf("%w: use https://", ErrInsecure)
	}
	return nil
}

// loopback reports whether host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (o Options) transport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialPatience}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: dialPatience,
		MaxResponseHeaderBytes: MaxHeader, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	if o.Socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", o.Socket)
		}
	}
	return t
}

// Close lets go of the connections that are open and not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Health asks whether the server answers. It needs no key.
func (c *Client) Health(ctx context.Context) error {
	return c.object(ctx, call{method: http.MethodGet, path: "/healthz"}, nil)
}

// call is one request to the server.
type call struct {
	method, path string
	query        url.Values
	accept       string
	header       http.Header
	// body makes the body anew for each attempt; nil is none. kind is its Content-Type.
	body func() (body io.ReadCloser, kind string)
}

// jsonBody is a body that is a value as JSON.
func jsonBody(value any) (func() (io.ReadCloser, string), error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return func() (io.ReadCloser, string) {
		return io.NopCloser(bytes.NewReader(encoded)), "application/json"
	}, nil
}

// object sends a request and decodes the JSON of its answer; a nil into drops it.
func (c *Client) object(ctx context.Context, asked call, into any) error {
	answer, err := c.send(ctx, asked)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if into == nil {
		return nil
	}
	body := &bounded{source: answer.Body, left: c.most}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("the answer of the server cannot be read: %w", err)
	}
	return nil
}

// send sends a request, and sends it again where that is safe. The answer is one of success; all others are Problems.
func (c *Client) send(ctx context.Context, asked call) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		answer, err := c.once(ctx, asked)
		if err == nil {
			return answer, nil
		}
		wait, safe := again(asked.method, attempt, err)
		if !safe || attempt >= c.retries || !outlasts(ctx, wait) {
			return nil, err
		}
		c.waiting(err, wait)
		if !pause(ctx, wait) {
			return nil, err
		}
	}
}

// again says whether a request that failed may be sent once more, and when.
func again(method string, attempt int, err error) (wait time.Duration, safe bool) {
	var problem *Problem
	asked := errors.As(err, &problem)
	wait = firstWait << min(attempt, 6) //nolint:mnd // some 13 s at most
	if asked && problem.RetryAfter > 0 {
		wait = problem.RetryAfter
	}
	switch {
	case wait > MaxWait:
		return 0, false
	case !asked:
		return wait, method == http.MethodGet && !errors.Is(err, ErrTooLarge)
	case problem.Status == http.StatusTooManyRequests || problem.Status == http.StatusServiceUnavailable:
		return wait, method == http.MethodGet || problem.RetryAfter > 0
	}
	gateway := problem.Status == http.StatusBadGateway || problem.Status == http.StatusGatewayTimeout
	return wait, method == http.MethodGet && gateway
}

// outlasts reports whether the context is there after a pause, as far as that is known.
func outlasts(ctx context.Context, wait time.Duration) bool {
	end, bounded := ctx.Deadline()
	return ctx.Err() == nil && (!bounded || time.Until(end) > wait)
}

// pause waits; false says that the context ended meanwhile.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once sends a request one time.
func (c *Client) once(ctx context.Context, asked call) (*http.Response, error) {
	var body io.ReadCloser = http.NoBody
	kind := ""
	if asked.body != nil {
		body, kind = asked.body()
	}
	target := c.base + asked.path
	if len(asked.query) > 0 {
		target += "?" + asked.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, asked.method, target, body)
	if err != nil {
		_ = body.Close() // nothing was read of it
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	maps.Copy(request.Header, asked.header)
	for name, value := range map[string]string{"Content-Type": kind, "Accept": asked.accept, "User-Agent": "glovebox-client"} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	if answer.StatusCode >= http.StatusOK && answer.StatusCode < http.StatusMultipleChoices {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, problemOf(answer)
}

// ErrTooLarge says that an answer is beyond MaxAnswer.
var ErrTooLarge = fmt.Errorf("the server's answer is larger than the limit of %d bytes", MaxAnswer)

// bounded reads up to a limit, and then fails.
type bounded struct {
	source io.Reader
	left   int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := b.source.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
