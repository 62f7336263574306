// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

// asServer makes this binary a server on the data folder that it names, whose sandboxes are no real ones.
const asServer = "GLOVEBOX_TEST_SERVER"

const serverToken = "a-token-for-tests-only"

func TestMain(m *testing.M) {
	if data := os.Getenv(asServer); data != "" {
		if err := serve(data); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serve(data string) error {
	boxes, err := os.MkdirTemp(data, "boxes-*")
	if err != nil {
		return err
	}
	c := config.Default(2)
	c.Data, c.Runtime, c.Addr, c.Token, c.Prove = data, data, "127.0.0.1:0", serverToken, false
	c.MaxRunning, c.MaxQueued = 16, 64
	fake := func(daemon.Settings) (sandbox.Backend, error) { return sandboxtest.NewFake(boxes), nil }
	options := daemon.Options{Backends: []daemon.Constructor{{Name: "fake", New: fake}}, Images: oneImage{"/"}}
	return daemon.Serve(context.Background(), c, options, slog.New(slog.NewTextHandler(os.Stderr, nil)), os.Stdout)
}

// victimServer is a server that is there to be killed.
type victimServer struct {
	url     string
	command *exec.Cmd
}

func startVictim(t *testing.T, data string) *victimServer {
	t.Helper()
	command := exec.CommandContext(context.Background(), "/proc/self/exe")
	command.Env = append(os.Environ(), asServer+"="+data)
	var log bytes.Buffer
	command.Stderr = &log
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err, errors.Join(command.Process.Kill(), command.Wait()), log.String())
	}
	return &victimServer{strings.TrimSpace(strings.TrimPrefix(line, "glovebox listens on ")), command}
}

// kill ends the server at once.
func (v *victimServer) kill(t *testing.T) {
	t.Helper()
	if err := v.command.Process.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = v.command.Wait()                                           // killed
	http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:forcetypeassert,errcheck // it is one
}

// do asks the server; the error says that it is gone.
func (v *victimServer) do(ctx context.Context, method, path, body string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, v.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+serverToken)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, content, err
}

type keptExecution struct {
	ID, Status, Stdout string
	Artifacts          []struct {
		Name string
		Size int64
	}
}

// whole fails unless an execution is all there, and returns its status.
func (v *victimServer) whole(t *testing.T, id, mark string) string {
	t.Helper()
	var x keptExecution
	status, body, err := v.do(t.Context(), "GET", "/v1/executions/"+id, "")
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &x) != nil {
		t.Errorf("execution %s: status %d, %v, %.300s", id, status, err, body)
		return ""
	}
	if x.Status != "ok" {
		return x.Status
	}
	if mark == "" {
		mark = strings.TrimSpace(x.Stdout)
	}
	status, out, err := v.do(t.Context(), "GET", "/v1/executions/"+id+"/output", "")
	if err != nil || status != http.StatusOK || string(out) != mark+"\n" || len(x.Artifacts) != 2 {
		t.Errorf("execution %s: output %d %q, %v, want %q; %+v", id, status, out, err, mark, x)
	}
	for _, a := range x.Artifacts {
		status, file, err := v.do(t.Context(), "GET", "/v1/executions/"+id+"/artifacts/"+a.Name, "")
		if err != nil || status != http.StatusOK || string(file) != mark {
			t.Errorf("execution %s: %s: %d %q, %v, want %q", id, a.Name, status, file, err, mark)
		}
	}
	return x.Status
}

// TestNothingAcknowledgedIsLost kills a server at random points while executions end, again and again on one data folder: each
// one whose answer came is there afterwards, with its output and its files; of the others, what is there is whole.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	const (
		rounds  = 8
		workers = 4
		most    = 40 // acknowledged executions of a round
	)
	data := t.TempDir()
	acknowledged := map[string]string{} // id to what it printed and wrote
	detached := map[string]bool{}
	var mu sync.Mutex
	for round := range rounds {
		server := startVictim(t, data)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the round takes too long"))
		until := rand.IntN(most) + 1
		enough := make(chan struct{}, 1)
		var group sync.WaitGroup
		count := 0
		for worker := range workers {
			group.Go(func() {
				for n := 0; ; n++ {
					mark := fmt.Sprintf("mark-%d-%d-%d", round, worker, n)
					body, _ := json.Marshal(map[string]any{
						"code": fmt.Sprintf("print %s\nwrite a.txt %[1]s\nwrite b.txt %[1]s", mark), "detach": worker == 0,
					})
					status, answer, err := server.do(ctx, "POST", "/v1/executions", string(body))
					if err != nil {
						return // it is killed
					}
					var x keptExecution
					if (status != http.StatusOK && status != http.StatusAccepted) || json.Unmarshal(answer, &x) != nil {
						if status != http.StatusTooManyRequests {
							t.Errorf("status %d: %s", status, answer)
						}
						continue
					}
					mu.Lock()
					acknowledged[x.ID], detached[x.ID] = mark, worker == 0
					if count++; count == until {
						enough <- struct{}{}
					}
					mu.Unlock()
				}
			})
		}
		select {
		case <-enough:
		case <-ctx.Done():
			t.Error(context.Cause(ctx))
		}
		server.kill(t)
		group.Wait()
		cancel()
	}
	server := startVictim(t, data)
	defer server.kill(t)
	for id, mark := range acknowledged {
		if status := server.whole(t, id, mark); status != "ok" && (!detached[id] || status != "infra") {
			t.Errorf("execution %s, detached %v, is %q", id, detached[id], status)
		}
	}
	listed, before := 0, ""
	for {
		var page struct {
			Executions []keptExecution `json:"executions"`
			Next       string
		}
		status, body, err := server.do(t.Context(), "GET", "/v1/executions?limit=200&before="+before, "")
		// The artifacts of a list are a number.
		body = bytes.ReplaceAll(body, []byte(`"artifacts":`), []byte(`"count":`))
		if err != nil || status != http.StatusOK || json.Unmarshal(body, &page) != nil {
			t.Fatalf("status %d, %v, %.300s", status, err, body)
		}
		for _, x := range page.Executions {
			listed++
			if status := server.whole(t, x.ID, ""); status != x.Status {
				t.Errorf("execution %s is listed as %q and is %q", x.ID, x.Status, status)
			}
		}
		if before = page.Next; before == "" {
			break
		}
	}
	if listed < len(acknowledged) || len(acknowledged) < rounds {
		t.Errorf("%d executions are listed, %d were acknowledged", listed, len(acknowledged))
	}
	spooled, err := filepath.Glob(filepath.Join(data, "executions", "*"))
	if err != nil || len(spooled) > 0 {
		t.Errorf("left in the spool: %v, %v", spooled, err)
	}
	t.Logf("%d acknowledged, %d kept", len(acknowledged), listed)
}
