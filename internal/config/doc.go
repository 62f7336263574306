// SPDX-License-Identifier: Apache-2.0

// Package config is the one configuration struct: defaults, then a YAML file, then the environment (GLOVEBOX_*), then
// flags; then one validation that lists every fault at once. Unknown keys and unknown GLOVEBOX_ variables are errors.
// Only this package reads the environment.
//
// To add a setting: a field in Config with its yaml key and its default, a row in fields (environ.go) if it has an
// environment variable, a check in Validate, and a line in the user guide.
package config
