// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"errors"
	"net/http"
	"testing"
	"testing/iotest"
)

// FuzzFollow: whatever a server streams, it is read to an end that says something, and a cut anywhere is no success.
func FuzzFollow(f *testing.F) {
	for _, seed := range []string{
		"event: started\ndata: {\"id\":\"x\"}\n\nevent: stdout\ndata: {\"text\":\"a\",\"base64\":\"/w==\"}\n\nevent: done\ndata: {\"id\":\"x\",\"status\":\"ok\"}\n\n",
		"event: problem\ndata: {\"status\":503,\"code\":\"shutting_down\"}\n\n", ": alive\n\nevent: error\ndata: null\n", "event: display\ndata: {\"data\":{\"\":1}}\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		events := 0
		x, err := follow(bytes.NewReader(stream), MaxAnswer, func(e Event) error {
			events++
			if e.Kind == KindError && e.Fault == nil || e.Kind == KindNotice && e.Notice == nil {
				t.Errorf("an event without content: %+v", e)
			}
			return nil
		})
		if (x == nil) == (err == nil) {
			t.Fatalf("%v, %v", x, err)
		}
		again, err2 := follow(iotest.OneByteReader(bytes.NewReader(stream)), MaxAnswer, nil)
		if (again == nil) != (x == nil) || (err2 == nil) != (err == nil) {
			t.Fatalf("by bytes: %v, %v; at once: %v, %v", again, err2, x, err)
		}
		if x != nil {
			if _, err := follow(bytes.NewReader(stream[:bytes.Index(stream, []byte("data:"))]), MaxAnswer, nil); !errors.Is(err, ErrEnded) {
				t.Errorf("a stream that was cut: %v", err)
			}
		}
	})
}

// FuzzProblem: whatever a server answers, there is a status and something to show, and no pause of below zero.
func FuzzProblem(f *testing.F) {
	f.Add([]byte(`{"code":"invalid_request","detail":"no","errors":["a"]}`), "3")
	f.Add([]byte(`<html>`), "Mon, 02 Jan 2006 15:04:05 GMT")
	f.Fuzz(func(t *testing.T, body []byte, after string) {
		p := problemOf(&http.Response{
			StatusCode: http.StatusBadRequest, Status: "400 Bad Request", Header: http.Header{"Retry-After": {after}}, Body: http.NoBody,
		})
		if p.Code != "" || p.Detail == "" {
			t.Errorf("nothing said is %+v", p)
		}
		p = problemOf(&http.Response{
			StatusCode: http.StatusBadRequest, Status: "400 Bad Request", Header: http.Header{"Retry-After": {after}},
			Body: readCloser{bytes.NewReader(body)},
		})
		if p.Status != http.StatusBadRequest || p.Code == "" && p.Detail == "" || p.RetryAfter < 0 {
			t.Errorf("%+v", p)
		}
	})
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }
