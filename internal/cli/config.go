// SPDX-License-Identifier: Apache-2.0

package cli

import "fmt"

type configCommand struct {
	Check configCheck `cmd:"" help:"Say whether the configuration is valid, with every fault at once."`
	Print configPrint `cmd:"" help:"Print the configuration in force, from defaults, file, environment and flags, without its secrets."`
}

type configCheck struct{}

// Run is reached with a valid configuration only: reading it is what checks it.
func (configCheck) Run(s *session) error {
	_, err := fmt.Fprintln(s.Stdout, "the configuration is valid")
	return err
}

type configPrint struct{}

// Run prints the configuration.
func (configPrint) Run(s *session) error {
	text, err := s.config.YAML()
	if err != nil {
		return err
	}
	_, err = s.Stdout.Write(text)
	return err
}
