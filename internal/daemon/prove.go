// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"strings"

	"glovebox/internal/config"
	"glovebox/internal/engine"
	"glovebox/internal/proof"
	"glovebox/internal/sandbox"
)

// attacksAtOnce is how many attacks run at the same time: each may use a processor.
const attacksAtOnce = 2

// refuse says why this host must not serve: a layer is missing that the backend claims, tenants cannot be kept apart, or
// an attack on a limit got through.
func (s *System) refuse(ctx context.Context, c config.Config) error {
	for _, backend := range s.backends {
		capabilities, err := backend.Probe(ctx)
		if err != nil {
			return fmt.Errorf("probe backend %s: %w", backend.Name(), err)
		}
		if err := refuseHost(backend.Name(), capabilities, c.SingleTenant); err != nil {
			return err
		}
		for _, layer := range capabilities.Lost() {
			s.log.WarnContext(ctx, "sandboxes are made without a layer that this host lacks", "backend", backend.Name(),
				"layer", layer.Name, "lost", layer.Detail, "mend", layer.Mend)
		}
		if !c.Prove {
			continue
		}
		if err := s.prove(ctx, backend.Name(), c.Image, capabilities); err != nil {
			return err
		}
	}
	return nil
}

// refuseHost judges what a backend found.
func refuseHost(backend string, capabilities sandbox.Capabilities, singleTenant bool) error {
	problem := func(format string, values ...any) error {
		return &engine.Problem{Code: engine.CodeBackend, Text: "backend " + backend + " " + fmt.Sprintf(format, values...)}
	}
	switch {
	case !capabilities.Available:
		return problem("cannot be used on this host: missing %s", sandbox.DescribeLayers(capabilities.Missing()))
	case !capabilities.MultiTenant && !singleTenant:
		return problem("cannot keep tenants apart on this host: without %s. Where all who use this server are one tenant, say so with --single-tenant (single_tenant: true)",
			sandbox.DescribeLayers(capabilities.Lost()))
	}
	return nil
}

// prove attacks a backend's limits. Whoever wants to serve without says so (prove: false). Without an image nothing can
// run, here or for a client, so nothing is at risk.
func (s *System) prove(ctx context.Context, backend, image string, capabilities sandbox.Capabilities) error {
	items, err := s.Prove(ctx, backend, image, capabilities)
	if engine.CodeOf(err) == engine.CodeImage {
		s.log.WarnContext(ctx, "the limits of this host were not attacked", "backend", backend, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	if err := RefuseBroken(backend, items); err != nil {
		return err
	}
	s.log.InfoContext(ctx, "every limit was attacked and holds", "backend", backend, "limits", len(items))
	return nil
}

// Prove attacks a backend's limits in sandboxes of this image, or of the usual one.
func (s *System) Prove(ctx context.Context, backend, image string, capabilities sandbox.Capabilities) ([]proof.Item, error) {
	if image == "" {
		image = s.Engine.Image
	}
	_, release, err := s.Engine.Images.Use(image)
	if err != nil {
		return nil, err
	}
	release() // each sandbox holds it itself
	target := proof.Target{Backend: backend, Image: image}
	for _, layer := range capabilities.Lost() {
		target.Accepted = append(target.Accepted, layer.Name)
	}
	return proof.Prove(ctx, s.Engine, target, attacksAtOnce)
}

// RefuseBroken returns the refusal to serve on a host whose limits do not hold.
func RefuseBroken(backend string, items []proof.Item) error {
	var texts []string
	for _, item := range proof.Broken(items) {
		texts = append(texts, fmt.Sprintf("%s: %s (%s)", item.Limit, item.State, item.Evidence))
	}
	if len(texts) == 0 {
		return nil
	}
	return &engine.Problem{Code: engine.CodeBackend, Text: fmt.Sprintf(
		"backend %s does not hold what it claims on this host: %s; `glovebox doctor` says how to mend it, and prove: false serves without this check",
		backend, strings.Join(texts, "; "))}
}
