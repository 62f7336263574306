// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrReserved means that another server has the database. Two would take each other's living sandboxes for lost ones.
var ErrReserved = errors.New("another server uses this database")

// advisoryKey is the lock of PostgreSQL that a server holds.
const advisoryKey = 0x676c6f7665 // "glove"

// maxServerName is what PostgreSQL keeps of the name of an application.
const maxServerName = 63

// reservation is what shows that the database is one server's.
type reservation struct {
	name string
	file *os.File  // SQLite: locked
	conn *sql.Conn // PostgreSQL: has the lock as long as it lives
}

// Reserve makes the database this server's until Close, or says ErrReserved and whose it is. Commands do not reserve it.
func (s *Store) Reserve(ctx context.Context, name string) error {
	s.reserved.name = strings.ToValidUTF8(name[:min(len(name), maxServerName)], "")
	if s.sqlite {
		return s.reserveFile()
	}
	return s.reserveConn(ctx)
}

func (s *Store) reserveFile() (err error) {
	s.reserved.file, err = LockFile(s.file, s.reserved.name)
	return err
}

// LockFile reserves the file of a SQLite database, which need not be there, until what it returns is closed.
func LockFile(database, name string) (*os.File, error) {
	file, err := os.OpenFile(database+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("reserve the database: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := make([]byte, maxServerName)
		n, _ := file.ReadAt(holder, 0) // only a name
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrReserved, holder[:n]), file.Close())
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(name), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reserve the database: %w", err), file.Close())
	}
	return file, nil
}

func (s *Store) reserveConn(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("reserve the database: %w", err)
	}
	var taken bool
	var holder string
	err = conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", int64(advisoryKey)).Scan(&taken)
	if err == nil && taken {
		_, err = conn.ExecContext(ctx, "SELECT set_config('application_name', $1, false)", s.reserved.name)
		if err == nil {
			s.reserved.conn = conn
			return nil
		}
	}
	if err == nil {
		err = conn.QueryRowContext(ctx, `SELECT COALESCE(MIN(a.application_name), '') FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE l.locktype = 'advisory' AND l.granted AND l.classid = $1 AND l.objid = $2 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
			int64(advisoryKey>>32), int64(advisoryKey&0xffffffff)).Scan(&holder)
		err = errors.Join(fmt.Errorf("%w: %s", ErrReserved, holder), err)
	}
	return errors.Join(err, conn.Close())
}

// Reserved makes sure that the database is still reserved: with PostgreSQL, the lock ends with its connection and is taken
// again. ErrReserved says that another server was faster.
func (s *Store) Reserved(ctx context.Context) error {
	if s.sqlite || s.reserved.conn == nil && s.reserved.name == "" {
		return nil
	}
	if s.reserved.conn != nil {
		var one int
		if s.reserved.conn.QueryRowContext(ctx, "SELECT 1").Scan(&one) == nil {
			return nil
		}
		_ = s.reserved.conn.Close() // it is broken, and is replaced
		s.reserved.conn = nil
	}
	return s.reserveConn(ctx)
}

func (r *reservation) release() error {
	var errs []error
	if r.conn != nil {
		errs = append(errs, r.conn.Close())
	}
	if r.file != nil {
		errs = append(errs, r.file.Close())
	}
	return errors.Join(errs...)
}

// Identity is a random name that the database has for good.
func (s *Store) Identity(ctx context.Context) (id string, err error) {
	err = s.inTransaction(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT id FROM identity").Scan(&id)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		id = rand.Text()
		_, err = tx.ExecContext(ctx, "INSERT INTO identity (id) VALUES ($1)", id)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the identity of the database: %w", err)
	}
	return id, nil
}
