// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

// Run prints what was built from what.
func (versionCommand) Run(s *session) error {
	_, err := fmt.Fprintln(s.Stdout, versionText())
	return err
}

func versionText() string {
	version, revision := "devel", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			version = info.Main.Version
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = " (" + setting.Value[:min(12, len(setting.Value))] + ")"
			}
		}
	}
	return fmt.Sprintf("glovebox %s%s %s %s/%s", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
