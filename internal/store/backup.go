// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// ErrNotSQLite means that the database has tools of its own for this.
var ErrNotSQLite = errors.New("this database is PostgreSQL: use pg_dump and pg_restore")

// Backup writes the whole database, as of one moment, to a new file, while it is in use. An existing file is an error.
func (s *Store) Backup(ctx context.Context, file string) error {
	if !s.sqlite {
		return ErrNotSQLite
	}
	target, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("back the database up: %w", err)
	}
	if err := target.Close(); err != nil {
		return err
	}
	// VACUUM INTO takes an empty file, and so keeps the mode it was made with.
	if _, err := s.db.ExecContext(ctx, "VACUUM INTO $1", file); err != nil {
		return errors.Join(fmt.Errorf("back the database up to %s: %w", file, err), os.Remove(file))
	}
	return nil
}

// Check reads a backup from end to end and returns an error when it is no whole database of ours.
func Check(ctx context.Context, file string) error {
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("check the backup: %w", err)
	}
	s, err := connectSQLite(file)
	if err != nil {
		return err
	}
	defer s.Close()
	var verdict string
	if err := s.db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return fmt.Errorf("%s is no database: %w", file, err)
	}
	if verdict != "ok" {
		return fmt.Errorf("%s is damaged: %.200s", file, verdict)
	}
	var keys int
	if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM keys").Scan(&keys); err != nil {
		return fmt.Errorf("%s is no database of glovebox: %w", file, err)
	}
	return nil
}
