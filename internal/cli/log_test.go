// SPDX-License-Identifier: Apache-2.0

package cli_test

import "log/slog"

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
