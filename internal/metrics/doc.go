// SPDX-License-Identifier: Apache-2.0

// Package metrics counts what a server does, for Prometheus.
//
// It has a registry of its own: what a library registers by itself is not shown. Every label has a small fixed set of
// values: a backend, an end, a code, a route of the table, a class of status. A tenant, a key, an id, a path or an image is
// never one: a caller could make as many as they like, and who reads metrics need not learn who uses the server.
//
// To add a metric: a field, its description in New, and the place that counts. Names end in their unit.
package metrics
