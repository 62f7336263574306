// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"

	"glovebox/internal/auth"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

// local runs an execution in this process and keeps nothing of it.
type local struct {
	system *daemon.System
	remove func() error
}

func newLocal(s *session) (*local, error) {
	folder, remove, err := daemon.RunFolder(s.config.Data)
	if err != nil {
		return nil, err
	}
	options := s.Daemon
	options.Executions = folder
	system, err := daemon.Open(s.config, options, s.log)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	return &local{system: system, remove: remove}, nil
}

func (l *local) run(ctx context.Context, request engine.Request, sink engine.Sink) (*engine.Execution, error) {
	return l.system.Engine.Run(ctx, request, sink)
}

func (l *local) artifact(_ context.Context, id sandbox.ID, name string) (io.ReadCloser, error) {
	file, _, err := l.system.Engine.OpenArtifact(auth.DefaultTenant, id, name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (l *local) close() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(engine.ErrShutdown) // nothing runs any more
	return errors.Join(l.system.Close(ctx), l.remove())
}
