// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestTermsAndKeysOfSandboxes: the real store keeps answers, and the native backend refuses by name what it cannot change.
func TestTermsAndKeysOfSandboxes(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	send := func(body string) answer {
		t.Helper()
		request, err := s.request(t.Context(), http.MethodPost, "/v1/sandboxes", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Idempotency-Key", "of "+t.Name())
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer{status: response.StatusCode, body: content}
	}
	const body = `{"metadata": {"of": "TestTermsAndKeysOfSandboxes"}, "lease": {"idle": 60}}`
	first, again := send(body), send(body)
	var held struct{ ID string }
	if err := json.Unmarshal(first.body, &held); err != nil || first.status != http.StatusCreated || !bytes.Equal(first.body, again.body) {
		t.Fatalf("%v: %d %s and then %d %s", err, first.status, first.body, again.status, again.body)
	}
	if a := send(`{}`); a.status != http.StatusUnprocessableEntity {
		t.Errorf("another request: %d %s", a.status, a.body)
	}
	n := &notebook{s, held.ID}
	if a := n.in(t, "PATCH", "", strings.NewReader(`{"limits": {"memory": "300MiB"}, "lease": {"idle": 90}}`), http.StatusUnprocessableEntity); !strings.Contains(string(a.body), "native does not support") {
		t.Errorf("limits: %s", a.body)
	}
	if a := n.in(t, "GET", "", nil, http.StatusOK); !strings.Contains(string(a.body), `"idle_seconds":60`) {
		t.Errorf("refused, and yet changed: %s", a.body)
	}
	if a := s.do(t, "GET", "/v1/sandboxes?metadata.of=TestTermsAndKeysOfSandboxes", "", nil); strings.Count(string(a.body), held.ID) != 1 {
		t.Errorf("list: %s", a.body)
	}
	n.in(t, "DELETE", "", nil, http.StatusNoContent)
	n.in(t, "GET", "/files/list", nil, http.StatusNotFound)
}
