// SPDX-License-Identifier: Apache-2.0

// Glovebox runs untrusted code safely, in milliseconds.
package main

import (
	"os"

	"glovebox/internal/cli"
	"glovebox/internal/rootless"
)

func main() {
	namespace, args, code, done := rootless.Enter(os.Args[1:])
	if done {
		os.Exit(code)
	}
	os.Exit(cli.Main(cli.HostIn(args, namespace)))
}
