// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"glovebox/internal/daemon"
	"glovebox/internal/policy"
)

type backupCommand struct {
	File string `arg:"" help:"The new file; an existing one is not replaced." type:"path"`
}

// Run makes a backup; a server may run meanwhile.
func (c backupCommand) Run(s *session) error {
	contents, err := daemon.Backup(s.ctx, s.config, c.File)
	if err != nil {
		return err
	}
	if contents.Elsewhere {
		fmt.Fprintln(s.Stderr, "glovebox: the files of executions are in a bucket, which is not in this backup: keep it by its own means")
	}
	_, err = fmt.Fprintf(s.Stdout, "%s: %d files, %s. It holds code, output and the hashes of keys: keep it as safe as the data folder.\n",
		c.File, contents.Files, policy.FormatSize(contents.Bytes))
	return err
}

type restoreCommand struct {
	File  string `arg:"" help:"What glovebox backup made." type:"path"`
	Force bool   `help:"Replace what the data folder keeps."`
}

// Run restores a backup; no server may use the data folder.
func (c restoreCommand) Run(s *session) error {
	contents, err := daemon.Restore(s.ctx, s.config, c.File, c.Force)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Stdout, "restored %d files, %s, to %s\n", contents.Files, policy.FormatSize(contents.Bytes), s.config.Data)
	return err
}
