// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/proof"
	"glovebox/internal/sandbox"
)

type doctorCommand struct {
	JSON  bool   `help:"Print one JSON object." name:"json"`
	Quick bool   `help:"Only look for the layers; attack nothing."`
	Image string `help:"Image whose sandboxes are attacked (default: the configured one)." placeholder:"NAME"`
}

// attacksAtOnce is how many attacks run at the same time: each may use a processor.
const attacksAtOnce = 2

// diagnosis is what doctor knows of one backend.
type diagnosis struct {
	Name string `json:"name"`
	sandbox.Capabilities
	Error string `json:"error,omitempty"`
	// Proof is what attacks on this host showed; nil if there were none.
	Proof []proof.Item `json:"proof,omitempty"`
	// NotProved says why there were no attacks.
	NotProved string `json:"not_proved,omitempty"`
}

// Run probes every backend.
func (c doctorCommand) Run(s *session) error {
	found, err := daemon.Diagnose(s.ctx, s.config, s.Daemon, s.log)
	if err != nil {
		return err
	}
	var list []diagnosis
	usable, broken := false, 0
	for _, one := range found {
		d := diagnosis{Name: one.Backend, Capabilities: one.Capabilities}
		if one.Err != nil {
			d.Error, d.Available = one.Err.Error(), false
		}
		if d.Layers == nil {
			d.Layers = []sandbox.Layer{}
		}
		usable = usable || d.Available
		if d.Available && !c.Quick {
			d.prove(s, c.Image)
		}
		broken += len(proof.Broken(d.Proof))
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
	if err == nil && broken > 0 {
		err = &exitError{Code: engine.ExitInfra, Err: fmt.Errorf("%d limits do not hold on this host: see above", broken)}
	}
	return err
}

// prove attacks sandboxes of the backend.
func (d *diagnosis) prove(s *session, image string) {
	c := s.config
	c.Backend = d.Name
	system, err := daemon.Open(c, s.Daemon, s.log)
	if err != nil {
		d.NotProved = err.Error()
		return
	}
	defer func() { _ = system.Close(context.WithoutCancel(s.ctx)) }() // an error is logged by then
	d.Proof, err = proof.Prove(s.ctx, system.Engine, d.Name, image, attacksAtOnce)
	if err != nil {
		d.NotProved = err.Error()
	}
}

func (s *session) printDiagnoses(list []diagnosis) error {
	for _, d := range list {
		verdict := "available"
		if !d.Available {
			verdict = "NOT available"
		}
		fmt.Fprintf(s.Stdout, "backend %s: %s\n", d.Name, verdict)
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
		for _, item := range d.Proof {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", item.Limit, item.State, visible(item.Evidence))
			if item.Mend != "" {
				fmt.Fprintf(table, "  \t\tto mend: %s\n", item.Mend)
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
		if d.NotProved != "" {
			fmt.Fprintf(s.Stdout, "  nothing was attacked: %s\n", visible(d.NotProved))
		}
	}
	return nil
}
