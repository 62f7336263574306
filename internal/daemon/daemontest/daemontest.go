// SPDX-License-Identifier: Apache-2.0

// Package daemontest tells tests of the whole program whether this machine can run it for real.
package daemontest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/image/imagetest"
)

// Data finds a data folder with the image python on a host that can isolate, or says what is missing.
func Data() (data, missing string) {
	data, err := imagetest.Data()
	if err != nil {
		return "", err.Error()
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("probing took too long"))
	defer cancel()
	c, err := config.Load(config.Environment{Root: os.Geteuid() == 0}, config.Flags{Data: &data})
	if err != nil {
		return "", err.Error()
	}
	found, err := daemon.Diagnose(ctx, c, daemon.Options{}, slog.New(slog.DiscardHandler))
	switch {
	case err != nil:
		return "", err.Error()
	case len(found) == 0:
		return "", "no backend is built in"
	case found[0].Err != nil:
		return "", found[0].Err.Error()
	case !found[0].Capabilities.Available:
		return "", found[0].Capabilities.Why
	}
	return data, ""
}
