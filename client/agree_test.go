// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"glovebox/client"
	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/gateway"
	"glovebox/internal/sandbox"
)

// TestRecordsAgreeWithTheServers: what the server says of an execution and of a sandbox is the same object in the client's
// types, both ways, with every field and with none. A field that only one side knows fails this test: add it to the other.
func TestRecordsAgreeWithTheServers(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]any{
		"execution": {engine.Execution{}, client.Execution{}},
		"sandbox":   {engine.Held{}, client.Sandbox{}},
	} {
		for _, full := range []bool{true, false} {
			agree(t, name, pair[0], pair[1], full)
			agree(t, name, pair[1], pair[0], full)
		}
	}
}

// agree fails unless a value of one type is the same JSON when it has been a value of the other.
func agree(t *testing.T, name string, from, to any, full bool) {
	t.Helper()
	source, target := reflect.New(reflect.TypeOf(from)), reflect.New(reflect.TypeOf(to))
	if full {
		fill(t, source.Elem())
	}
	want := encode(t, source.Interface())
	decoder := json.NewDecoder(bytes.NewReader(want))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target.Interface()); err != nil {
		t.Errorf("%s: %T as %T: %v", name, from, to, err)
		return
	}
	if diff := cmp.Diff(string(want), string(encode(t, target.Interface()))); diff != "" {
		t.Errorf("%s: %T as %T: %s", name, from, to, diff)
	}
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	encoded, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// fill gives every field a value that is not zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)))
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`"x"`))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("name").Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(2.5)
	default:
		t.Fatalf("no value for %s", v.Type())
	}
}

// keyring knows the key of these tests.
type keyring struct{}

func (keyring) Authenticate(context.Context, string) (*auth.Principal, error) {
	return auth.Operator(), nil
}

// listener is an engine that remembers what it was asked for.
type listener struct {
	gateway.Engine
	got   engine.Request
	files map[string]string
}

func (l *listener) Follow(_ context.Context, q engine.Request, _ engine.Sink, _ func(sandbox.ID)) (*engine.Execution, error) {
	l.got, l.files = q, map[string]string{}
	for _, file := range q.Files {
		content, err := file.Open()
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(content)
		content.Close()
		if err != nil {
			return nil, err
		}
		l.files[file.Name] = string(text)
	}
	if q.Release != nil {
		q.Release()
	}
	return &engine.Execution{ID: "x", Status: "ok"}, nil
}

// TestRequestsArriveWhole: every field of a request reaches the engine, with files and without.
func TestRequestsArriveWhole(t *testing.T) {
	t.Parallel()
	heard := &listener{}
	face, err := gateway.New(gateway.Config{
		Engine: heard, Authenticator: keyring{}, Uploads: t.TempDir(), MaxJSON: 1 << 20, MaxFile: 1 << 20, MaxRequest: 4 << 20, MaxPosts: 1,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(face)
	t.Cleanup(s.Close)
	c := connect(t, client.Options{URL: s.URL, Key: key})
	var q client.Request
	q.Files, q.Inputs = []client.File{}, map[string]json.RawMessage{"v": json.RawMessage(`{"a":1}`)}
	asked := reflect.ValueOf(&q).Elem()
	for field, value := range asked.Fields() {
		if field.Name != "Files" && field.Name != "Inputs" {
			fill(t, value)
		}
	}
	names := []string{`数据"表.csv`, `a'b;$(id).csv`, "📈 x.csv", `a%20b".txt`, "plain"}
	for _, withFiles := range []bool{false, true} {
		if withFiles {
			for _, name := range names {
				q.Files = append(q.Files, client.File{Name: name, Open: text(name)})
			}
		}
		if _, err := c.Run(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		got := heard.got
		for what, pair := range map[string][2]any{
			"code": {got.Code, q.Code}, "name": {got.Name, q.Name}, "language": {got.Language, q.Language}, "policy": {got.Policy, q.Policy},
			"image": {got.Image, q.Image}, "backend": {got.Backend, q.Backend}, "env": {got.Env, q.Env}, "inputs": {got.Inputs, q.Inputs},
			"return": {got.Return, q.Return}, "fresh": {got.Fresh, q.Fresh}, "limits": {client.Limits(got.Limits), q.Limits},
		} {
			if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		if len(heard.files) != len(q.Files) {
			t.Errorf("files are %v", heard.files)
		}
		for _, file := range q.Files {
			if heard.files[file.Name] != file.Name {
				t.Errorf("file %q is %q", file.Name, heard.files[file.Name])
			}
		}
	}
}
