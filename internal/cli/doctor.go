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

// diagnosis is what doctor knows of one backend.
type diagnosis struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	// Why says why it is not available, for how much it is not, or why nothing was attacked.
	Why string `json:"why"`
	// Proof has a row for each layer that was tried and, after them, for each limit that was attacked.
	Proof []proof.Item `json:"proof"`
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
		d := diagnosis{Name: one.Backend, Available: one.Capabilities.Available && one.Err == nil, Proof: []proof.Item{}}
		d.because(one.Capabilities.Why)
		if one.Err != nil {
			d.because(one.Err.Error())
		}
		for _, layer := range one.Capabilities.Layers {
			d.Proof = append(d.Proof, itemOf(layer))
		}
		usable = usable || d.Available
		if d.Available && !c.Quick {
			attacked := d.prove(s, c.Image, one.Capabilities)
			broken += len(proof.Broken(attacked))
			d.Proof = append(d.Proof, attacked...)
		}
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

func (d *diagnosis) because(why string) {
	switch {
	case d.Why == "":
		d.Why = why
	case why != "":
		d.Why += "; " + why
	}
}

// itemOf shows a layer that was tried as a row of the proof.
func itemOf(layer sandbox.Layer) proof.Item {
	item := proof.Item{Limit: layer.Name, State: proof.Enforced, Evidence: layer.Detail}
	switch {
	case layer.Present:
	case layer.Advice:
		item.State, item.Mend = proof.NotEnforced, layer.Mend
	default:
		item.State, item.Mend = proof.NotSupported, layer.Mend
	}
	return item
}

// prove attacks sandboxes of the backend.
func (d *diagnosis) prove(s *session, image string, capabilities sandbox.Capabilities) []proof.Item {
	c := s.config
	c.Backend = d.Name
	system, err := daemon.Open(c, s.Daemon, s.log)
	if err != nil {
		d.because("nothing was attacked: " + err.Error())
		return nil
	}
	defer func() { _ = system.Close(context.WithoutCancel(s.ctx)) }() // an error is logged by then
	items, err := system.Prove(s.ctx, d.Name, image, capabilities)
	if err != nil {
		d.because("nothing was attacked: " + err.Error())
	}
	return items
}

func (s *session) printDiagnoses(list []diagnosis) error {
	for _, d := range list {
		verdict := "available"
		if !d.Available {
			verdict = "NOT available"
		}
		fmt.Fprintf(s.Stdout, "backend %s: %s\n", d.Name, verdict)
		if d.Why != "" {
			fmt.Fprintf(s.Stdout, "  %s\n", visible(d.Why))
		}
		table := tabwriter.NewWriter(s.Stdout, 2, 8, 2, ' ', 0)
		for _, item := range d.Proof {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", item.Limit, item.State, visible(item.Evidence))
			if item.Mend != "" {
				fmt.Fprintf(table, "  \t\tto mend: %s\n", visible(item.Mend))
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}
