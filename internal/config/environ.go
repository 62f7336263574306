// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Environment is what a process is told by its surroundings.
type Environment struct {
	// Vars are NAME=value.
	Vars []string
	// Root says whether the process is root.
	Root bool
	// Processors is how many the host has.
	Processors int
	// File is read when there is one and no other file is named.
	File string
}

// Host returns the environment of this process.
func Host() Environment {
	return Environment{Vars: os.Environ(), Root: os.Geteuid() == 0, Processors: runtime.NumCPU(), File: "/etc/glovebox/config.yaml"}
}

func (e Environment) get(name string) string {
	for _, variable := range e.Vars {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

const prefix = "GLOVEBOX_"

// field is a setting that an environment variable can have.
type field struct {
	name string
	set  func(*Config, string) error
}

func fields() []field {
	text := func(target func(*Config) *string) func(*Config, string) error {
		return func(c *Config, value string) error { *target(c) = value; return nil }
	}
	number := func(target func(*Config) *int) func(*Config, string) error {
		return func(c *Config, value string) (err error) { *target(c), err = strconv.Atoi(value); return err }
	}
	return []field{
		{"DATA", text(func(c *Config) *string { return &c.Data })},
		{"RUNTIME", text(func(c *Config) *string { return &c.Runtime })},
		{"ADDR", text(func(c *Config) *string { return &c.Addr })},
		{"ALLOW_REMOTE", func(c *Config, value string) (err error) { c.AllowRemote, err = strconv.ParseBool(value); return err }},
		{"HOSTS", func(c *Config, value string) error { c.Hosts = strings.Split(value, ","); return nil }},
		{"TOKEN", func(c *Config, value string) error { c.Token = Secret(value); return nil }},
		{"DATABASE", func(c *Config, value string) error { c.Database = Secret(value); return nil }},
		{"BLOBS", text(func(c *Config) *string { return &c.Blobs })},
		{"PROVE", func(c *Config, value string) (err error) { c.Prove, err = strconv.ParseBool(value); return err }},
		{"ACCEPT_MISSING", func(c *Config, value string) error { c.AcceptMissing = strings.Split(value, ","); return nil }},
		{"SINGLE_TENANT", func(c *Config, value string) (err error) { c.SingleTenant, err = strconv.ParseBool(value); return err }},
		{"BACKEND", text(func(c *Config) *string { return &c.Backend })},
		{"IMAGE", text(func(c *Config) *string { return &c.Image })},
		{"POLICY", text(func(c *Config) *string { return &c.Policy })},
		{"MAX_RUNNING", number(func(c *Config) *int { return &c.MaxRunning })},
		{"MAX_QUEUED", number(func(c *Config) *int { return &c.MaxQueued })},
		{"LOG_LEVEL", text(func(c *Config) *string { return &c.Log.Level })},
		{"LOG_FORMAT", text(func(c *Config) *string { return &c.Log.Format })},
		{"CONFIG", func(*Config, string) error { return nil }}, // read in Load
	}
}

// environment applies the GLOVEBOX_ variables.
func (c *Config) environment(e Environment) error {
	var faults []error
	for _, variable := range e.Vars {
		name, value, _ := strings.Cut(variable, "=")
		short, ours := strings.CutPrefix(name, prefix)
		if !ours || value == "" || foreign(short) {
			continue
		}
		known := false
		for _, field := range fields() {
			if field.name != short {
				continue
			}
			known = true
			if err := field.set(c, value); err != nil {
				faults = append(faults, fmt.Errorf("%s is %q, which is not understood: %w", name, value, err))
			}
		}
		if !known {
			faults = append(faults, fmt.Errorf("%s is not a setting: unset it, or mend its spelling", name))
		}
	}
	return errors.Join(faults...)
}

// Client is which server the command line speaks to, and with which key; it is no setting of a server.
type Client struct {
	URL string
	Key Secret
}

// Client returns what GLOVEBOX_SERVER and GLOVEBOX_KEY say.
func (e Environment) Client() Client {
	return Client{URL: e.get(prefix + "SERVER"), Key: Secret(e.get(prefix + "KEY"))}
}

// foreign reports whether a variable with our prefix is no setting: Kubernetes sets some for a Service named glovebox,
// tests have their own, and Client those of the command line.
func foreign(short string) bool {
	return short == "SERVER" || short == "KEY" || strings.HasPrefix(short, "SERVICE_") || short == "PORT" || strings.HasPrefix(short, "PORT_") || strings.HasPrefix(short, "TEST_")
}

// defaultRuntime is the folder for locks when none is set.
func (e Environment) defaultRuntime(data string) string {
	if e.Root {
		return "/run/glovebox"
	}
	if dir := e.get("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "glovebox")
	}
	return filepath.Join(data, "run")
}

// defaultData is the data folder when none is set.
func (e Environment) defaultData() (string, error) {
	if e.Root {
		return "/var/lib/glovebox", nil
	}
	if dir := e.get("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "glovebox"), nil
	}
	if home := e.get("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "glovebox"), nil
	}
	return "", errors.New("no data folder: set GLOVEBOX_DATA, or HOME")
}
