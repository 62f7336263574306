// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxPage is how many rows a page may have.
const MaxPage = 200

// ErrPage means that where a page should begin is not what an earlier page said.
var ErrPage = errors.New("this is not the place of a page: take it from the answer before, or leave it out")

// position is where a page that begins after this row begins, as a text that tells nothing.
func position(created time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(micros(created), 36) + "." + id))
}

func (p Page) position() (at int64, id string, err error) {
	if p.Limit < 1 || p.Limit > MaxPage {
		return 0, "", fmt.Errorf("a page of %d rows: 1 to %d are allowed", p.Limit, MaxPage)
	}
	if p.Before == "" {
		return math.MaxInt64, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(p.Before)
	if err != nil {
		return 0, "", ErrPage
	}
	stamp, id, found := strings.Cut(string(raw), ".")
	at, err = strconv.ParseInt(stamp, 36, 64)
	if err != nil || !found || id == "" || strings.ContainsRune(id, 0) {
		return 0, "", ErrPage
	}
	return at, id, nil
}

// scanner is a row, or the current one of many.
type scanner interface{ Scan(values ...any) error }

// listing is how the rows of one table are listed: those of a tenant, the newest first.
type listing[T any] struct {
	table, columns string
	// filter is the column that Page.Status is compared with, stamp the one that orders.
	filter, stamp string
	scan          func(scanner) (T, error)
	place         func(T) (time.Time, string)
}

// page returns a page, and where the next one begins, empty after the last.
func (l listing[T]) page(ctx context.Context, s *Store, tenant string, page Page) (found []T, next string, err error) {
	at, id, err := page.position()
	if err != nil {
		return nil, "", err
	}
	query := fmt.Sprintf( //nolint:gosec // all parts are constants of this package
		`SELECT %s FROM %s WHERE tenant = $1 AND (%s = $2 OR $2 = '') AND (%[4]s < $3 OR %[4]s = $3 AND id < $4)
		ORDER BY %[4]s DESC, id DESC LIMIT $5`, l.columns, l.table, l.filter, l.stamp)
	rows, err := s.db.QueryContext(ctx, query, tenant, page.Status, at, id, page.Limit)
	if err != nil {
		return nil, "", fmt.Errorf("list %s: %w", l.table, err)
	}
	defer rows.Close()
	for rows.Next() {
		row, err := l.scan(rows)
		if err != nil {
			return nil, "", err
		}
		found = append(found, row)
	}
	if len(found) == page.Limit {
		next = position(l.place(found[len(found)-1]))
	}
	return found, next, rows.Err()
}
