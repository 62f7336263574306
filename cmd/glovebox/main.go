// SPDX-License-Identifier: Apache-2.0

// Glovebox runs untrusted code safely, in milliseconds.
package main

import (
	"os"

	"glovebox/internal/cli"
)

func main() { os.Exit(cli.Main(cli.Host())) }
