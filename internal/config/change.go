// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// live are the settings that a running server takes over; of log that is the level.
func live() []string {
	return []string{"policy", "maxima", "max_running", "max_queued", "max_queued_each", "queue_wait", "hosts", "tenant", "tenants", "log"}
}

// Changes names the settings in which next differs: those that a running server takes over, and those for which it must be
// started again.
func (c Config) Changes(next Config) (taken, restart []string) {
	before, after := reflect.ValueOf(c), reflect.ValueOf(next)
	for i := range before.NumField() {
		name, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("yaml"), ",")
		switch {
		case same(before.Field(i), after.Field(i)):
		case slices.Contains(live(), name):
			taken = append(taken, name)
		default:
			restart = append(restart, name)
		}
	}
	if c.Log.Format != next.Log.Format {
		restart = append(restart, "log.format")
	}
	return taken, restart
}

// same takes an empty list for none.
func same(a, b reflect.Value) bool {
	if kind := a.Kind(); (kind == reflect.Slice || kind == reflect.Map) && a.Len()+b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// YAML writes the configuration as a file that could be read again, but for its secrets, which are hidden.
func (c Config) YAML() ([]byte, error) {
	var text bytes.Buffer
	if err := yaml.NewEncoder(&text).Encode(c); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return text.Bytes(), nil
}
