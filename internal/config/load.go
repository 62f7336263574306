// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
)

// MaxFile bounds a configuration file.
const MaxFile = 1 << 20

// Flags are what the command line sets; nil keeps what the other sources say.
type Flags struct {
	// File is the configuration file; it must exist when it is named.
	File          string
	Data          *string
	Addr          *string
	AllowRemote   *bool
	Hosts         []string
	AcceptMissing []string
	SingleTenant  *bool
}

// Load returns the configuration: defaults, file, environment, flags, validated.
func Load(environment Environment, flags Flags) (Config, error) {
	c := Default(environment.Processors)
	file, named := flags.File, flags.File != ""
	if !named {
		file = environment.get(prefix + "CONFIG")
		named = file != ""
	}
	if !named {
		file = environment.File
	}
	faults := []error{c.file(file, named), c.environment(environment)}
	c.flags(flags)
	if c.Data == "" {
		data, err := environment.defaultData()
		if err != nil {
			return Config{}, errors.Join(append(faults, err)...)
		}
		c.Data = data
	}
	if absolute, err := filepath.Abs(c.Data); err == nil {
		c.Data = absolute
	}
	if c.Runtime == "" {
		c.Runtime = environment.defaultRuntime(c.Data)
	}
	if err := errors.Join(append(faults, c.Validate())...); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (c *Config) file(name string, named bool) error {
	if name == "" {
		return nil
	}
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the configuration file: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return fmt.Errorf("read the configuration file: %w", err)
	}
	if len(content) > MaxFile {
		return fmt.Errorf("configuration file %s has more than %d bytes", name, MaxFile)
	}
	return c.Parse(name, content)
}

// Parse applies a YAML text; name stands in errors.
func (c *Config) Parse(name string, content []byte) error {
	var anything any
	if err := yaml.Unmarshal(content, &anything); err == nil && anything == nil {
		return nil // an empty document would set everything to zero
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content), yaml.Strict())
	if err := decoder.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("configuration file %s: %w", name, err)
	}
	return nil
}

func (c *Config) flags(f Flags) {
	if f.Data != nil {
		c.Data = *f.Data
	}
	if f.Addr != nil {
		c.Addr = *f.Addr
	}
	if f.AllowRemote != nil {
		c.AllowRemote = *f.AllowRemote
	}
	if len(f.Hosts) > 0 {
		c.Hosts = f.Hosts
	}
	if len(f.AcceptMissing) > 0 {
		c.AcceptMissing = f.AcceptMissing
	}
	if f.SingleTenant != nil {
		c.SingleTenant = *f.SingleTenant
	}
}
