// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/daemon"
	"glovebox/internal/policy"
	"glovebox/internal/store"
)

type keysCommand struct {
	Create keysCreate `cmd:"" help:"Make a key, and show it once."`
	List   keysList   `cmd:"" help:"List keys." aliases:"ls"`
	Revoke keysRevoke `cmd:"" help:"End a key for good, at once."`
}

// withDatabase does work with the database open. A running server sees what it does at once.
func (s *session) withDatabase(work func(*store.Store) error) error {
	database, err := daemon.OpenDatabase(s.ctx, s.config)
	if err != nil {
		return err
	}
	return errors.Join(work(database), database.Close())
}

type keysCreate struct {
	Name      string   `arg:"" optional:"" help:"What the key is for."`
	Tenant    string   `help:"Who owns what is made with the key." default:"default" placeholder:"NAME"`
	Scopes    []string `help:"What it may do: run, sandboxes, files, audit, admin (default: the first three)." placeholder:"LIST" sep:","`
	Expires   string   `help:"How long it is valid, as 720h or 90d (default: until it is revoked)." placeholder:"D"`
	Policy    string   `help:"The only policy it may use (default: any)." placeholder:"P"`
	Images    []string `help:"The images it may use (default: any)." placeholder:"LIST" sep:","`
	PerMinute int      `help:"Requests a minute that start work (default: the server's limit)." placeholder:"N"`
	Running   int      `help:"Executions at once (default: the server's limit)." placeholder:"N"`
	Sandboxes int      `help:"Living sandboxes at once (default: the server's limit)." placeholder:"N"`
	Memory    string   `help:"Memory limits of all that is alive, together (default: the server's limit)." placeholder:"SIZE"`
	Quiet     bool     `help:"Print the key and nothing else." short:"q"`
}

// Run makes a key.
func (c keysCreate) Run(s *session) error {
	key, err := c.key(time.Now().UTC())
	if err != nil {
		return usage("%w", err)
	}
	text, id, hash := auth.NewKey()
	key.ID, key.Hash = id, hash
	err = s.withDatabase(func(database *store.Store) error { return database.AddKey(s.ctx, key) })
	if err != nil {
		return err
	}
	if c.Quiet {
		_, err = fmt.Fprintln(s.Stdout, text)
		return err
	}
	_, err = fmt.Fprintf(s.Stdout, "%s\n\nThis is shown once: keep it now. It belongs to tenant %s, may %s, and is revoked with `glovebox keys revoke %s`.\n",
		text, key.Tenant, strings.Join(names(key.Scopes), ", "), id)
	return err
}

func (c keysCreate) key(now time.Time) (auth.Key, error) {
	scopes, scopeErr := auth.ParseScopes(c.Scopes)
	key := auth.Key{
		Tenant: c.Tenant, Name: c.Name, Scopes: scopes, Policy: c.Policy, Images: c.Images, Created: now,
		Quota: auth.Quota{PerMinute: c.PerMinute, Running: c.Running, Sandboxes: c.Sandboxes},
	}
	faults := []error{scopeErr}
	if !auth.ValidTenant(c.Tenant) {
		faults = append(faults, fmt.Errorf("tenant %.80q: use up to %d lower-case letters, digits and hyphens", c.Tenant, auth.MaxName))
	}
	if len(c.Name) > auth.MaxName {
		faults = append(faults, fmt.Errorf("the name has %d bytes: at most %d are allowed", len(c.Name), auth.MaxName))
	}
	if c.Policy != "" {
		if _, err := policy.Decide(c.Policy, policy.Overrides{}, policy.DefaultMaxima()); err != nil {
			faults = append(faults, err)
		}
	}
	if c.Expires != "" {
		age, err := parseAge(c.Expires)
		faults = append(faults, err)
		key.Expires = now.Add(age)
	}
	if c.Memory != "" {
		size, err := policy.ParseSize(c.Memory)
		faults = append(faults, err)
		key.Quota.Memory = size
	}
	if !key.Quota.Valid() {
		faults = append(faults, errors.New("a quota is below zero: leave it out for the server's limit"))
	}
	return key, errors.Join(faults...)
}

// maxAge is the longest time that a key may be asked to be valid for.
const maxAge = 100 * 365 * 24 * time.Hour

// parseAge reads a duration; days are what people think in.
func parseAge(text string) (time.Duration, error) {
	hours, isDays := strings.CutSuffix(text, "d")
	if isDays {
		hours += "h"
	}
	age, err := time.ParseDuration(hours)
	const day = 24
	most := maxAge
	if isDays {
		most /= day // before it is multiplied: more would overflow into a short time
	}
	if err != nil || age <= 0 || age > most {
		return 0, fmt.Errorf("expires %.40q: write a time above zero, as 12h or 90d, of at most 100 years", text)
	}
	if isDays {
		age *= day
	}
	return age, nil
}

type keysList struct {
	Tenant string `help:"Only those of this tenant." placeholder:"NAME"`
	JSON   bool   `help:"Print one JSON array." name:"json"`
}

// Run lists keys.
func (c keysList) Run(s *session) error {
	return s.withDatabase(func(database *store.Store) error {
		keys, err := database.Keys(s.ctx, c.Tenant)
		if err != nil {
			return err
		}
		if c.JSON {
			if keys == nil {
				keys = []auth.Key{}
			}
			return json.NewEncoder(s.Stdout).Encode(keys)
		}
		table := tabwriter.NewWriter(s.Stdout, 2, 8, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tTENANT\tNAME\tSCOPES\tSTATE\tCREATED\tLAST USED")
		for _, key := range keys {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", key.ID, key.Tenant, visible(key.Name), strings.Join(names(key.Scopes), ","),
				keyState(key, time.Now()), day(key.Created), day(key.LastUsed))
		}
		return table.Flush()
	})
}

func keyState(key auth.Key, now time.Time) string {
	switch {
	case !key.Revoked.IsZero():
		return "revoked " + day(key.Revoked)
	case !key.Expires.IsZero() && !now.Before(key.Expires):
		return "expired " + day(key.Expires)
	case !key.Expires.IsZero():
		return "until " + day(key.Expires)
	}
	return "valid"
}

func day(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04")
}

func names(scopes []auth.Scope) []string {
	texts := make([]string, len(scopes))
	for i, scope := range scopes {
		texts[i] = string(scope)
	}
	return texts
}

type keysRevoke struct {
	ID    string `arg:"" help:"The key's id, as the list shows it; the key itself will do too."`
	Quiet bool   `help:"Print nothing." short:"q"`
}

// Run revokes a key.
func (c keysRevoke) Run(s *session) error {
	id := c.ID
	if parsed, _, err := auth.ParseKey(c.ID); err == nil {
		id = parsed
	}
	return s.withDatabase(func(database *store.Store) error {
		err := database.RevokeKey(s.ctx, id, time.Now())
		if errors.Is(err, store.ErrNotFound) {
			return usage("there is no key with the id %.80q: `glovebox keys list` shows them", visible(id))
		}
		if err != nil || c.Quiet {
			return err
		}
		_, err = fmt.Fprintf(s.Stdout, "key %s is revoked\n", id)
		return err
	})
}
