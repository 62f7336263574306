// SPDX-License-Identifier: Apache-2.0

// Package daemon is the wiring: it makes an engine with its backends, images and store from a configuration, and serves
// it. It alone imports backends; backends.go is the list of them.
package daemon
