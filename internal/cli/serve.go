// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"os/signal"
	"syscall"

	"glovebox/internal/config"
	"glovebox/internal/daemon"
)

type serveCommand struct {
	Addr         string   `help:"Where to listen (default: 127.0.0.1:8722)." placeholder:"HOST:PORT"`
	AllowRemote  bool     `help:"Permit an address that other machines can reach."`
	Check        bool     `help:"Only say whether a server could start here now, and start none."`
	SingleTenant bool     `help:"Serve on a host whose sandboxes of several tenants cannot be kept apart: all who use this server are one."`
	Host         []string `help:"A further name under which clients reach this server." placeholder:"NAME" sep:","`
}

// Run serves until a signal comes, and then drains until all is done, its time is over or another signal comes.
func (c serveCommand) Run(s *session) error {
	if c.Check {
		return daemon.CheckServe(s.ctx, s.config)
	}
	s.Daemon.Hurry = s.signals.second()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	s.Daemon.Reload, s.Daemon.Level = reload, s.level
	s.Daemon.Reread = func() (config.Config, error) { return config.Load(s.Environment, s.flags) }
	return daemon.Serve(s.ctx, s.config, s.Daemon, s.log, s.Stdout)
}
