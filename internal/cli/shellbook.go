// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"

	"glovebox/client"
	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

// notebook is a sandbox that keeps its state between cells, here or in a server.
type notebook interface {
	// open makes a sandbox.
	open(ctx context.Context) error
	// cell runs code in it; when ctx ends the code is interrupted.
	cell(ctx context.Context, code string, sink engine.Sink) (*engine.Execution, error)
	// end ends the sandbox, if there is one.
	end(ctx context.Context) error
	close() error
}

// remoteNotebook is in a server.
type remoteNotebook struct {
	*remote
	request engine.Request
	id      string
}

func (n *remoteNotebook) open(ctx context.Context) error {
	n.id = ""
	made, err := n.client.Sandboxes().Create(ctx, requestOf(n.request))
	if err != nil {
		return n.told(err)
	}
	n.id = made.ID
	return nil
}

// cell has the server end the execution when ctx ends, and stays: the record then says whether the variables are there.
func (n *remoteNotebook) cell(ctx context.Context, code string, sink engine.Sink) (*engine.Execution, error) {
	return n.follow(ctx, sink, n.client.Delete, func(ctx context.Context, each func(client.Event) error) (*client.Execution, error) {
		return n.client.Sandboxes().Stream(ctx, n.id, client.Cell{Code: code}, each)
	})
}

func (n *remoteNotebook) end(ctx context.Context) error {
	if n.id == "" {
		return nil
	}
	err := n.client.Sandboxes().Delete(ctx, n.id)
	n.id = ""
	if client.IsCode(err, string(engine.CodeNotFound)) || client.IsCode(err, string(engine.CodeExpired)) {
		return nil
	}
	return n.told(err)
}

// localNotebook is in this process.
type localNotebook struct {
	*local
	request engine.Request
	id      sandbox.ID
}

func (n *localNotebook) open(ctx context.Context) error {
	n.id = ""
	held, err := n.system.Engine.Hold(ctx, n.request)
	n.id = held.ID
	return err
}

func (n *localNotebook) cell(ctx context.Context, code string, sink engine.Sink) (*engine.Execution, error) {
	return n.system.Engine.ExecuteIn(ctx, n.id, engine.MainSession, engine.Request{Code: code, MustHaveCode: true}, sink, func(sandbox.ID) {})
}

func (n *localNotebook) end(context.Context) error {
	if n.id == "" {
		return nil
	}
	err := n.system.Engine.Release(auth.DefaultTenant, n.id)
	n.id = ""
	if problem, ok := errors.AsType[*engine.Problem](err); ok && (problem.Code == engine.CodeNotFound || problem.Code == engine.CodeExpired) {
		return nil
	}
	return err
}
