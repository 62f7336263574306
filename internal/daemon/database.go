// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"glovebox/internal/config"
	"glovebox/internal/engine"
	"glovebox/internal/store"
)

// The places of what is kept, in the data folder.
const (
	databaseName = "glovebox.db"
	blobsName    = "blobs"
)

// reserveCheck is how often a server makes sure that the database is still its own.
const reserveCheck = 10 * time.Second

// OpenDatabase opens the database of the configuration; the caller closes it. A server and commands may have it open at the
// same time.
func OpenDatabase(ctx context.Context, c config.Config) (*store.Store, error) {
	address := string(c.Database)
	if address == "" {
		if err := dataFolder(c.Data); err != nil {
			return nil, err
		}
		address = "sqlite:" + filepath.Join(c.Data, databaseName)
	}
	database, err := store.Open(ctx, address)
	if err != nil {
		return nil, databaseProblem(err)
	}
	return database, nil
}

func databaseProblem(err error) error {
	return &engine.Problem{Code: engine.CodeStorage, Err: err, Text: fmt.Sprintf(
		"the database cannot be used: %v; the setting `database` (GLOVEBOX_DATABASE) says where it is", err)}
}

// openBlobs opens the bucket of the configuration.
func openBlobs(ctx context.Context, c config.Config) (*store.Blobs, error) {
	address := c.Blobs
	if address == "" {
		address = "file:" + filepath.Join(c.Data, blobsName)
	}
	blobs, err := store.OpenBlobs(ctx, address)
	if err != nil {
		return nil, blobsProblem(err)
	}
	return blobs, nil
}

func blobsProblem(err error) error {
	return &engine.Problem{Code: engine.CodeStorage, Err: err, Text: fmt.Sprintf(
		"the bucket cannot be used: %v; the setting `blobs` (GLOVEBOX_BLOBS) says where it is", err)}
}

// openStore opens where executions are kept: in a database that no other server has, or not at all.
func (s *System) openStore(c config.Config, keep bool, spool string) (err error) {
	r := c.Retention
	retention := engine.Retention{
		Count: r.Count, Age: time.Duration(r.Artifacts), Code: time.Duration(r.Code), Events: time.Duration(r.Events),
		Answers: time.Duration(r.Answers),
	}
	if !keep {
		if s.store, err = engine.OpenStore(spool, retention, time.Now); err != nil {
			return storageProblem(c.Data, err)
		}
		return nil
	}
	ctx := context.Background()
	if s.database, err = OpenDatabase(ctx, c); err != nil {
		return err
	}
	if err := s.database.Reserve(ctx, serverName(c)); err != nil {
		return databaseProblem(err)
	}
	if s.blobs, err = openBlobs(ctx, c); err != nil {
		return err
	}
	identity, err := s.database.Identity(ctx)
	if err != nil {
		return databaseProblem(err)
	}
	if err := s.blobs.Claim(ctx, identity); err != nil {
		return blobsProblem(err)
	}
	s.store, err = engine.NewStore(engine.StoreConfig{
		Spool: spool, Database: s.database, Blobs: s.blobs, Retention: retention, Now: time.Now, Log: s.log,
	})
	if err != nil {
		return storageProblem(c.Data, err)
	}
	return nil
}

// serverName is what another server is told about this one.
func serverName(c config.Config) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s pid %d data %s", host, os.Getpid(), c.Data)
}

// keepHouse sweeps now and then, and ends the server when another one has taken its database.
func (s *server) keepHouse(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	group.Go(func() { s.system.store.SweepEvery(ctx, time.Duration(s.config.Retention.Sweep)) })
	group.Go(func() {
		ticker := time.NewTicker(reserveCheck)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			err := s.system.database.Reserved(ctx)
			switch {
			case errors.Is(err, store.ErrReserved):
				cancel(err)
				return
			case err != nil && ctx.Err() == nil:
				s.log.WarnContext(ctx, "the database does not answer", "error", err)
			}
		}
	})
	return ctx, func() { cancel(nil); group.Wait() }
}

// reservedCause returns why another server has taken the database, if it has.
func reservedCause(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, store.ErrReserved) {
		return databaseProblem(cause)
	}
	return nil
}
