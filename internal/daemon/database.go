// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"path/filepath"

	"glovebox/internal/config"
	"glovebox/internal/engine"
	"glovebox/internal/store"
)

// OpenDatabase opens the database of the configuration; the caller closes it. A server and commands may have it open at the
// same time.
func OpenDatabase(ctx context.Context, c config.Config) (*store.Store, error) {
	address := string(c.Database)
	if address == "" {
		if err := dataFolder(c.Data); err != nil {
			return nil, err
		}
		address = "sqlite:" + filepath.Join(c.Data, "glovebox.db")
	}
	database, err := store.Open(ctx, address)
	if err != nil {
		return nil, &engine.Problem{Code: engine.CodeStorage, Err: err, Text: fmt.Sprintf(
			"the database cannot be used: %v; the setting `database` (GLOVEBOX_DATABASE) says where it is", err)}
	}
	return database, nil
}
