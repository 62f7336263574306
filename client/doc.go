// SPDX-License-Identifier: Apache-2.0

// Package client runs code in the sandboxes of a Glovebox server.
//
//	c, err := client.New(client.Options{URL: "https://box.example", Key: key})
//	x, err := c.Run(ctx, client.Request{Code: "print(6 * 7)"})
//	fmt.Print(x.Stdout)
//
// Run waits for the end, Stream hands events on as they come, Start leaves an execution to be asked for later with Get or
// Wait. Sandboxes keep state between executions.
//
// # Errors
//
// What a program does is no error: an Execution has a Status, and perhaps an Error with its traceback. What the server
// refuses is a *Problem with a stable Code. All else is the network's: the connection, or an answer that cannot be read.
//
// # Leaving
//
// A context that ends while Run or Stream wait ends the execution on the server, too, unless Request.Stay is set.
//
// # Retries
//
// A GET is sent again after a failure of the network and after 429, 502, 503 and 504; other requests only after 429 and 503
// with Retry-After, which say that nothing was carried out. A stream that has begun is never begun again. Each wait is
// bounded by MaxWait, and none outlasts the context. Options.Retries bounds how often.
//
// # Limits
//
// A server is not trusted with the client's memory: MaxAnswer, MaxProblem and MaxHeader bound what is read of it. Everything
// that comes from a sandbox is the claim of a program that may be hostile: do not show it as HTML, nor write it to a
// terminal as it is.
package client
