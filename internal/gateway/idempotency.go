// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"glovebox/internal/engine"
	"glovebox/internal/store"
)

// Answers keeps the answers to requests that came with an Idempotency-Key; see store.Store.
type Answers interface {
	Claim(ctx context.Context, tenant, name, request string, at time.Time) (answer string, err error)
	Answer(ctx context.Context, tenant, name, answer string) error
	Unclaim(ctx context.Context, tenant, name string) error
}

const (
	headerKey      = "Idempotency-Key"
	headerReplayed = "Idempotency-Replayed"
	maxKey         = 255
	// maxKept bounds an answer that is kept whole; of a longer one it is kept where to find it.
	maxKept = 256 << 10
)

// keptAnswer is what is kept of an answer: all of it, or the place of what was made.
type keptAnswer struct {
	Status   int    `json:"status"`
	Kind     string `json:"kind,omitempty"`
	Location string `json:"location,omitempty"`
	Body     string `json:"body,omitempty"`
}

// once carries a request with an Idempotency-Key out a single time: who sends it again gets the first answer. Only what was
// done is kept; after a refusal the key is free again.
func (g *Gateway) once(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(headerKey)
		if key == "" {
			next(w, r)
			return
		}
		digest, err := g.digest(w, r, key)
		if err != nil {
			g.fail(w, r, err)
			return
		}
		answer, err := g.Answers.Claim(r.Context(), caller(r).Tenant, key, digest, time.Now())
		switch {
		case errors.Is(err, store.ErrUnderWay):
			g.problem(w, problem{Status: http.StatusConflict, Code: engine.CodeBusy, Detail: err.Error() + ": ask again when it is over"})
		case errors.Is(err, store.ErrOtherRequest):
			g.problem(w, problem{Status: http.StatusUnprocessableEntity, Code: "idempotency_key_reused", Detail: err.Error() + ": use another key"})
		case err != nil:
			g.Log.ErrorContext(r.Context(), "claiming an Idempotency-Key failed", "error", err)
			g.problem(w, problem{Status: http.StatusServiceUnavailable, Code: engine.CodeStorage, Detail: "answers cannot be kept now: try again later, or without an Idempotency-Key"})
		case answer != "":
			g.replay(w, r, answer)
		default:
			g.first(w, r, key, next)
		}
	}
}

// digest reads the body, which then can be read once more, and tells one request from another.
func (g *Gateway) digest(w http.ResponseWriter, r *http.Request, key string) (string, error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // an unreadable one is refused later
	switch {
	case g.Answers == nil:
		return "", invalid("this server keeps no answers: leave %s out", headerKey)
	case len(key) > maxKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }):
		return "", invalid("%s: 1 to %d printable ASCII characters are allowed", headerKey, maxKey)
	case wantsEvents(r):
		return "", invalid("a request with %s is answered in one piece: leave Accept: text/event-stream out", headerKey)
	case kind == "multipart/form-data":
		return "", invalid("a request with %s has a JSON body: put the files into the field files", headerKey)
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readPatience)) // not supported by test recorders
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, g.MaxJSON))
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return "", err
		}
		return "", invalid("the body ended before it was whole: %w", err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	hash := sha256.New()
	for _, part := range []string{r.Method, r.URL.Path, kind, string(body)} {
		sum := sha256.Sum256([]byte(part))
		_, _ = hash.Write(sum[:]) // never fails
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// first carries the request out, keeps what was answered, and then answers: who was told that it is done finds it done.
func (g *Gateway) first(w http.ResponseWriter, r *http.Request, key string, next http.HandlerFunc) {
	recorded := &recorder{ResponseWriter: w}
	ctx := context.WithoutCancel(r.Context())
	tenant := caller(r).Tenant
	recorded.settle = func(answer string) {
		var err error
		if answer == "" {
			err = g.Answers.Unclaim(ctx, tenant, key)
		} else {
			err = g.Answers.Answer(ctx, tenant, key, answer)
		}
		if err != nil {
			g.Log.ErrorContext(ctx, "keeping an answer failed", "error", err)
		}
	}
	defer recorded.finish() // also when the handler gives up
	next(recorded, r)
}

// replay answers as the first time.
func (g *Gateway) replay(w http.ResponseWriter, r *http.Request, answer string) {
	var kept keptAnswer
	if err := json.Unmarshal([]byte(answer), &kept); err != nil {
		g.fail(w, r, err)
		return
	}
	w.Header().Set(headerReplayed, "true")
	if kept.Location != "" {
		w.Header().Set("Location", kept.Location)
	}
	if kept.Body == "" && kept.Location != "" {
		again, err := http.NewRequestWithContext(r.Context(), http.MethodGet, kept.Location, http.NoBody)
		if err != nil {
			g.fail(w, r, err)
			return
		}
		again.Host = r.Host
		g.mux.ServeHTTP(w, withCaller(again, caller(r)))
		return
	}
	g.allowWrite(w)
	w.Header().Set("Content-Type", kept.Kind)
	w.WriteHeader(kept.Status)
	_, _ = io.WriteString(w, kept.Body) // the client may have gone
}

// recorder holds an answer back until it is kept. One that is too long is let go as soon as its place is kept.
type recorder struct {
	http.ResponseWriter
	settle func(answer string)
	status int
	body   bytes.Buffer
	gone   bool
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader keeps the first status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if !r.gone && r.body.Len()+len(p) <= maxKept {
		return r.body.Write(p)
	}
	if !r.gone {
		if err := r.release(""); err != nil {
			return 0, err
		}
	}
	return r.ResponseWriter.Write(p)
}

// release keeps the answer, with this body, and then sends what was held back.
func (r *recorder) release(body string) error {
	r.gone = true
	answer := ""
	if r.status >= http.StatusOK && r.status < http.StatusMultipleChoices {
		answer = string(marshal(keptAnswer{
			Status: r.status, Kind: r.Header().Get("Content-Type"), Location: r.Header().Get("Location"), Body: body,
		}))
	}
	r.settle(answer)
	r.ResponseWriter.WriteHeader(r.status)
	_, err := r.ResponseWriter.Write(r.body.Bytes())
	return err
}

func (r *recorder) finish() {
	switch {
	case r.gone:
	case r.status == 0:
		r.settle("") // the handler gave up
	default:
		_ = r.release(r.body.String()) // the client may have gone
	}
}
