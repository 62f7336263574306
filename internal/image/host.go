// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// hostSteps are the steps done for real, with the host's tools.
type hostSteps struct{}

// Ready checks the system, the user and the tools.
func (hostSteps) Ready(ctx context.Context, l *loaded) error {
	if !canBuild {
		return &Error{Kind: KindPrivilege, Text: "images are built on Linux: build there and copy the data folder, or use the docker backend"}
	}
	if err := missingTool(l, exec.LookPath); err != nil {
		return err
	}
	if uid := os.Geteuid(); uid != 0 {
		return &Error{Kind: KindPrivilege, Text: fmt.Sprintf("building an image needs root, this is user %d: run it with sudo", uid)}
	}
	if l.lock != nil {
		if out, err := exec.CommandContext(ctx, "python3", "-I", "-m", "pip", "--version").CombinedOutput(); err != nil {
			return &Error{
				Kind: KindTool, Text: "the host's python3 has no pip: run `apt-get install python3-pip`",
				Err: fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out))),
			}
		}
	}
	return nil
}

// missingTool returns an error that names the first missing program and its package.
func missingTool(l *loaded, look func(string) (string, error)) error {
	tools := []struct{ program, pkg string }{
		{"mmdebstrap", "mmdebstrap"},
		{"apt-get", "apt"},
		{"sh", "dash"},
		{"mount", "mount"},
		{"chroot", "coreutils"},
	}
	if l.lock != nil {
		tools = append(tools, struct{ program, pkg string }{"python3", "python3"})
	}
	if l.npmLock != nil {
		tools = append(tools, struct{ program, pkg string }{"npm", "npm"})
	}
	for _, tool := range tools {
		if _, err := look(tool.program); err != nil {
			return &Error{Kind: KindTool, Text: fmt.Sprintf("%s is not installed: run `apt-get install %s` "+
				"(a build needs mmdebstrap, debian-archive-keyring, python3, python3-pip and npm)", tool.program, tool.pkg)}
		}
	}
	return nil
}
