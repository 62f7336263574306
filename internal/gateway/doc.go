// SPDX-License-Identifier: Apache-2.0

// Package gateway is the HTTP face of the engine: it authenticates, refuses what a browser should not be able to send,
// bounds and decodes requests, and streams answers. It decides nothing about executions.
//
//	GET    /healthz, /readyz
//	GET    /metrics                              scope admin
//	GET    /v1/usage?from=DAY&to=DAY&tenant=NAME  another tenant's: scope admin
//	POST   /v1/executions                        JSON or multipart; an answer, a stream of events, or 202
//	GET    /v1/executions/{id}
//	GET    /v1/executions/{id}/output?stream=stdout|stderr|background
//	GET    /v1/executions/{id}/artifacts/{name}
//	DELETE /v1/executions/{id}
//
// Errors are problem documents (RFC 9457) with a stable code. To add an endpoint: a method in a file named by its noun,
// and a row in routes.
package gateway
