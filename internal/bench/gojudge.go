// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// goJudge is a server of the peer of that name, over its REST interface.
type goJudge struct {
	now     func() time.Time
	address string
	client  *http.Client
	command *exec.Cmd
	ended   chan error
	said    *bytes.Buffer
}

// openGoJudge starts a server whose sandboxes have the image's folders.
func openGoJudge(ctx context.Context, host peerHost) (Subject, string, error) {
	path, version, err := installed(ctx, "go-judge", "-version")
	if err != nil {
		return nil, "", err
	}
	mounts := filepath.Join(host.folder, "go-judge.yaml")
	if err := os.WriteFile(mounts, []byte(goJudgeMounts(host.rootfs)), 0o600); err != nil {
		return nil, "", err
	}
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return nil, "", err
	}
	said := &bytes.Buffer{}
	command := exec.CommandContext(context.WithoutCancel(ctx), path, "-http-addr", ports[0], "-monitor-addr", ports[1],
		"-mount-conf", mounts, "-seccomp-conf", filepath.Join(host.folder, "none.yaml"), "-parallelism", "4", "-silent")
	command.Env, command.Stdout, command.Stderr, command.Dir = environment(), said, said, host.folder
	if err := command.Start(); err != nil {
		return nil, "", fmt.Errorf("start go-judge: %w", err)
	}
	j := &goJudge{
		now: host.now, address: "http://" + ports[0], command: command, said: said, ended: make(chan error, 1),
		client: &http.Client{Timeout: runPatience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	go func() { j.ended <- command.Wait() }()
	if err := j.ready(ctx); err != nil {
		return nil, "", errors.Join(err, j.Close())
	}
	return j, version, nil
}

// goJudgeMounts describes a root of the image's folders in the peer's own format.
func goJudgeMounts(rootfs string) string {
	var text strings.Builder
	text.WriteString("mount:\n")
	bind := func(source, target string, readOnly bool) {
		fmt.Fprintf(&text, "  - {type: bind, source: %q, target: %q, readonly: %t}\n", source, target, readOnly)
	}
	for _, folder := range []string{"bin", "lib", "lib64", "usr", "etc"} {
		bind(filepath.Join(rootfs, folder), "/"+folder, true)
	}
	for _, device := range []string{"null", "urandom", "random", "zero", "full"} {
		bind("/dev/"+device, "/dev/"+device, false)
	}
	for _, folder := range []string{"w", "tmp"} {
		fmt.Fprintf(&text, "  - {type: tmpfs, target: /%s, data: %q}\n", folder, "size=128m,nr_inodes=4k")
	}
	text.WriteString("proc: true\nworkDir: /w\nhostName: sandbox\ndomainName: sandbox\nuid: 1536\ngid: 1536\n")
	return text.String()
}

// freePorts returns loopback addresses that were free a moment ago.
func freePorts(ctx context.Context, n int) ([]string, error) {
	var addresses []string
	for range n {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

func (j *goJudge) ready(ctx context.Context) error {
	const attempts, pause = 100, 50 * time.Millisecond
	for range attempts {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, j.address+"/version", nil)
		if err != nil {
			return err
		}
		if answer, err := j.client.Do(request); err == nil {
			return answer.Body.Close()
		}
		select {
		case err := <-j.ended:
			j.ended <- err
			return fmt.Errorf("go-judge ended: %w: %s", err, lastLine(j.said.String()))
		case <-time.After(pause):
		}
	}
	return errors.New("go-judge does not answer")
}

func (j *goJudge) Name() string { return "go-judge" }

// goJudgeResult is one element of an answer.
type goJudgeResult struct {
	Status string            `json:"status"`
	Error  string            `json:"error"`
	Exit   int               `json:"exitStatus"`
	Files  map[string]string `json:"files"`
}

// Run asks for one run; the answer comes when all is over.
func (j *goJudge) Run(ctx context.Context, work Work, began time.Time) Sample {
	results, err := j.post(ctx, work)
	took := j.now().Sub(began)
	if err != nil {
		return failed(err)
	}
	if len(results) != 1 {
		return failed(fmt.Errorf("go-judge gave %d results", len(results)))
	}
	one := results[0]
	s := Sample{Result: took, End: took, Faults: unknownFaults, Output: one.Files["stdout"]}
	if s.Err = work.check(s.Output); one.Status != "Accepted" {
		s.Err = fmt.Errorf("go-judge: %s, exit %d: %s %s", one.Status, one.Exit, one.Error, lastLine(one.Files["stderr"]))
	}
	return s
}

func (j *goJudge) post(ctx context.Context, work Work) ([]goJudgeResult, error) {
	const second = int64(time.Second)
	body, err := json.Marshal(map[string]any{"cmd": []any{map[string]any{
		"args": python(), "env": environment(), "cpuLimit": 60 * second, "clockLimit": 60 * second,
		"memoryLimit": int64(512 << 20), "procLimit": 64,
		"files": []any{
			map[string]any{"content": work.Code},
			map[string]any{"name": "stdout", "max": 1 << 20},
			map[string]any{"name": "stderr", "max": 1 << 16},
		},
	}}})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, j.address+"/run", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := j.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	var results []goJudgeResult
	if err := json.Unmarshal(content, &results); err != nil {
		return nil, fmt.Errorf("go-judge answered %d: %s", answer.StatusCode, lastLine(string(content)))
	}
	return results, nil
}

// Close ends the server.
func (j *goJudge) Close() error {
	j.client.CloseIdleConnections()
	return endProcess(j.command, j.ended)
}
