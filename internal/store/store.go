// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	_ "modernc.org/sqlite" // the driver sqlite
)

// ErrNotFound means that there is no such thing, or that it is another tenant's.
var ErrNotFound = errors.New("not found")

// connections is how many PostgreSQL connections one server opens at most.
const connections = 16

// busyPatience is how long a writer of SQLite waits for another process, such as the command `glovebox keys`.
const busyPatience = 10 * time.Second

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a database. It is safe for concurrent use.
type Store struct {
	db     *sql.DB
	sqlite bool
	file   string // of SQLite
	// writing has the writers of this process wait in line: SQLite has them sleep and try again.
	writing  sync.Mutex
	reserved reservation

	putExecution, putCode *sql.Stmt
}

// Open opens the database of the URL, sqlite:PATH or postgres://..., makes it when it is missing, and brings its schema up
// to date. A database with a newer schema is refused.
func Open(ctx context.Context, address string) (*Store, error) {
	s, err := connect(address)
	if err != nil {
		return nil, err
	}
	err = s.migrate(ctx)
	if err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func connect(address string) (*Store, error) {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return connectSQLite(path)
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "postgres" && parsed.Scheme != "postgresql" {
		return nil, errors.New("the database must be sqlite:PATH or postgres://USER@HOST/NAME")
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	db.SetMaxOpenConns(connections)
	return &Store{db: db}, nil
}

func connectSQLite(path string) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the database: %w", err)
	}
	// The file is made here because of its mode: keys and code are nobody else's.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := errors.Join(keepFromOthers(path, file), file.Close()); err != nil {
		return nil, err
	}
	settings := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyPatience.Milliseconds()), "journal_mode(WAL)", "synchronous(NORMAL)",
		"foreign_keys(ON)", "secure_delete(ON)", "temp_store(MEMORY)",
	}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+settings.Encode())
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", path, err)
	}
	// Writers wait for each other in any case; more connections would only wait in a worse place.
	db.SetMaxOpenConns(4)
	return &Store{db: db, sqlite: true, file: path}, nil
}

// keepFromOthers takes the rights of others away from a database that somebody copied to its place, and from the files
// that SQLite keeps beside it.
func keepFromOthers(path string, file *os.File) error {
	if err := file.Chmod(0o600); err != nil {
		return fmt.Errorf("keep the database to its owner: %w", err)
	}
	for _, beside := range []string{"-wal", "-shm"} {
		if err := os.Chmod(path+beside, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the database to its owner: %w", err)
		}
	}
	return nil
}

func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	dialect := database.DialectPostgres
	if s.sqlite {
		dialect = database.DialectSQLite3
	}
	provider, err := goose.NewProvider(dialect, s.db, files)
	if err != nil {
		return fmt.Errorf("read the schema of the database: %w", err)
	}
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the database: %w", err)
	}
	if have > want {
		return fmt.Errorf("the database has schema %d, and this glovebox knows %d: use the newer glovebox that made it, or another database", have, want)
	}
	if have == want {
		return nil
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("bring the database up to date: %w", err)
	}
	return nil
}

// Close releases the database.
func (s *Store) Close() error { return errors.Join(s.reserved.release(), s.db.Close()) }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	if err := s.db.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return fmt.Errorf("the database does not answer: %w", err)
	}
	return nil
}

// inTransaction runs work, and keeps what it did only if it and all before it went well.
func (s *Store) inTransaction(ctx context.Context, work func(*sql.Tx) error) error {
	if s.sqlite {
		s.writing.Lock()
		defer s.writing.Unlock()
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// exec runs a statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, statement string, values ...any) (int64, error) {
	if s.sqlite {
		s.writing.Lock()
		defer s.writing.Unlock()
	}
	result, err := s.db.ExecContext(ctx, statement, values...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// micros is a time as the database has it.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// fromMicros is the inverse of micros.
func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
