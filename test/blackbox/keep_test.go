// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// key makes an API key beside the running server.
func (s *server) key(t *testing.T, tenant, scopes string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "/proc/self/exe", "--data", s.folder, "--config", filepath.Join(s.folder, "config.yaml"),
		"keys", "create", "--quiet", "--tenant", tenant, "--scopes", scopes)
	command.Env = append(os.Environ(), asProgram+"=1")
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// as is the server for another caller.
func (s *server) as(key string) *server {
	return &server{url: s.url, token: key, folder: s.folder, command: s.command, log: s.log, ended: s.ended}
}

// holding lists the files of the data folder, images aside, that hold the word.
func (s *server) holding(t *testing.T, word string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(s.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(word)) || strings.Contains(path, word) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (s *server) remove(t *testing.T, path string) {
	t.Helper()
	if a := s.do(t, http.MethodDelete, path, "", nil); a.status != http.StatusNoContent {
		t.Errorf("DELETE %s: status %d, %s", path, a.status, a.body)
	}
}

// TestWhatIsKeptCanBeListedReadAndDeleted: a tenant's executions are listed, their code is read by an auditor alone, and after a
// DELETE, of an execution or of the tenant, a word that was planted in code, upload, output and files is in no file of the
// data folder.
func TestWhatIsKeptCanBeListedReadAndDeleted(t *testing.T) {
	t.Parallel()
	s := ownServer(t, "", nil)
	alpha, auditor := s.as(s.key(t, "alpha", "run")), s.as(s.key(t, "alpha", "audit"))
	admin, beta := s.as(s.key(t, "alpha", "admin")), s.as(s.key(t, "beta", "run,audit,admin"))
	const word = "plantedK9X"
	plant := func() *execution {
		code := "print('" + word + "', open('" + word + ".csv').read())\nopen('out-" + word + ".txt', 'w').write('" + word + "')\n'" + word + "'"
		return alpha.runOn(t, code, upload{word + ".csv", []byte(word)}).ok(t)
	}
	first, second, third := plant(), plant(), plant()
	var list struct {
		Executions []struct{ ID, Status string }
		Next       string
	}
	read := func(of *server, query string) (ids []string) {
		a := of.get(t, "/v1/executions?"+query)
		list.Next, list.Executions = "", nil
		if err := json.Unmarshal(a.body, &list); err != nil || a.status != http.StatusOK {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		for _, x := range list.Executions {
			ids = append(ids, x.ID)
		}
		return ids
	}
	if ids := read(alpha, "limit=2&status=ok"); !slices.Equal(ids, []string{third.ID, second.ID}) || list.Next == "" {
		t.Errorf("the first page: %v, next %q", ids, list.Next)
	}
	if ids := read(alpha, "limit=2&status=ok&before="+list.Next); !slices.Equal(ids, []string{first.ID}) || list.Next != "" {
		t.Errorf("the second page: %v, next %q", ids, list.Next)
	}
	if ids := read(beta, ""); len(ids) > 0 {
		t.Errorf("another tenant sees %v", ids)
	}
	for of, want := range map[*server]int{alpha: http.StatusForbidden, beta: http.StatusNotFound, auditor: http.StatusOK} {
		a := of.get(t, "/v1/executions/"+first.ID+"/code")
		if a.status != want || want == http.StatusOK && !strings.Contains(string(a.body), "print('"+word) {
			t.Errorf("the code: status %d, want %d: %s", a.status, want, a.body)
		}
	}
	if found := s.holding(t, word); len(found) < 2 {
		t.Fatalf("the word is only in %v: is it looked for?", found)
	}
	for _, x := range []*execution{first, second, third} {
		alpha.remove(t, "/v1/executions/"+x.ID)
	}
	if found := s.holding(t, word); len(found) > 0 {
		t.Errorf("after DELETE of each: %v", found)
	}
	plant()
	if a := beta.do(t, http.MethodDelete, "/v1/tenants/alpha", "", nil); a.status != http.StatusNotFound {
		t.Errorf("another tenant's admin: status %d", a.status)
	}
	admin.remove(t, "/v1/tenants/alpha")
	if found := s.holding(t, word); len(found) > 0 {
		t.Errorf("after DELETE of the tenant: %v", found)
	}
	if a := alpha.get(t, "/v1/executions"); a.status != http.StatusUnauthorized {
		t.Errorf("a key of a deleted tenant: status %d", a.status)
	}
}
