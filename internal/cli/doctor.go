// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

type doctorCommand struct {
	JSON bool `help:"Print one JSON object." name:"json"`
}

// diagnosis is what doctor knows of one backend.
type diagnosis struct {
	Backend string `json:"backend"`
	sandbox.Capabilities
	Error string `json:"error,omitempty"`
}

// Run probes every backend.
func (c doctorCommand) Run(s *session) error {
	found, err := daemon.Diagnose(s.ctx, s.config, s.Daemon, s.log)
	if err != nil {
		return err
	}
	var list []diagnosis
	usable := false
	for _, one := range found {
		d := diagnosis{Backend: one.Backend, Capabilities: one.Capabilities}
		if one.Err != nil {
			d.Error, d.Available = one.Err.Error(), false
		}
		if d.Layers == nil {
			d.Layers = []sandbox.Layer{}
		}
		usable = usable || d.Available
		list = append(list, d)
	}
	if c.JSON {
		encoder := json.NewEncoder(s.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(map[string]any{"backends": list})
	} else {
		err = s.printDiagnoses(list)
	}
	if err == nil && !usable {
		err = &exitError{Code: engine.ExitInfra, Err: errors.New("no backend can be used on this host: mend what is required and missing")}
	}
	return err
}

func (s *session) printDiagnoses(list []diagnosis) error {
	for _, d := range list {
		verdict := "available"
		if !d.Available {
			verdict = "NOT available"
		}
		fmt.Fprintf(s.Stdout, "backend %s: %s\n", d.Backend, verdict)
		for _, why := range []string{d.Why, d.Error} {
			if why != "" {
				fmt.Fprintf(s.Stdout, "  %s\n", visible(why))
			}
		}
		table := tabwriter.NewWriter(s.Stdout, 2, 8, 2, ' ', 0)
		for _, layer := range d.Layers {
			state := "yes"
			switch {
			case !layer.Present && layer.Required:
				state = "MISSING"
			case !layer.Present:
				state = "no"
			}
			fmt.Fprintf(table, "  %s\t%s\t%s\n", layer.Name, state, visible(layer.Detail))
			if !layer.Present && layer.Mend != "" {
				fmt.Fprintf(table, "  \t\tto mend: %s\n", visible(layer.Mend))
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}
