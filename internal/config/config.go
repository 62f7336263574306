// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// Config is everything that can be set.
type Config struct {
	// Data is the folder for images, executions, the token and the socket.
	Data string `yaml:"data"`
	// Runtime is the folder for locks that must not outlive a reboot. All processes of a host that make sandboxes as the
	// same user share it: by its locks they know each other's sandboxes from what dead ones left.
	Runtime string `yaml:"runtime"`
	// Addr is where serve listens.
	Addr string `yaml:"addr"`
	// AllowRemote permits an Addr that is not loopback.
	AllowRemote bool `yaml:"allow_remote"`
	// Hosts are further names under which clients reach the server; any other Host or Origin is refused.
	Hosts []string `yaml:"hosts"`
	// Token replaces the token that is kept in the data folder.
	Token Secret `yaml:"token"`
	// Database is where keys and records are kept: postgres://..., or sqlite:PATH; empty is a file in the data folder.
	Database Secret `yaml:"database"`
	// Blobs is the bucket for what executions print and leave: s3://BUCKET?region=..., or file:FOLDER; empty is a folder in
	// the data folder.
	Blobs string `yaml:"blobs"`
	// Backend, Image and Policy are the defaults of a request.
	Backend string `yaml:"backend"`
	Image   string `yaml:"image"`
	Policy  string `yaml:"policy"`
	// MaxRunning is how many executions run at once, MaxQueued how many more wait, QueueWait how long. MaxQueuedEach is how
	// many of one tenant may wait.
	MaxRunning    int      `yaml:"max_running"`
	MaxQueued     int      `yaml:"max_queued"`
	MaxQueuedEach int      `yaml:"max_queued_each"`
	QueueWait     Duration `yaml:"queue_wait"`
	// Tenant is what each tenant may do, and Tenants what single ones may, by name, where that is something else.
	Tenant  Tenant            `yaml:"tenant"`
	Tenants map[string]Tenant `yaml:"tenants"`
	// Drain is how long running executions may go on when the server is asked to end.
	Drain  Duration `yaml:"drain"`
	Maxima Maxima   `yaml:"maxima"`
	// Prove has a server attack its own limits when it starts, and refuse to serve when one does not hold.
	Prove bool `yaml:"prove"`
	// AcceptMissing names layers, as doctor does, without which sandboxes are made on a host that lacks them. What they
	// limit is then not limited, and every result says so.
	AcceptMissing []string `yaml:"accept_missing"`
	// SingleTenant permits to serve on a host that cannot keep tenants apart.
	SingleTenant bool      `yaml:"single_tenant"`
	Pool         Pool      `yaml:"pool"`
	Retention    Retention `yaml:"retention"`
	Uploads      Uploads   `yaml:"uploads"`
	Log          Log       `yaml:"log"`
}

// Maxima are the most that a request may ask for.
type Maxima struct {
	Wall      Duration `yaml:"wall"`
	CPUTime   Duration `yaml:"cpu_time"`
	Memory    Size     `yaml:"memory"`
	MilliCPU  int64    `yaml:"milli_cpu"`
	Processes int64    `yaml:"processes"`
	OpenFiles int64    `yaml:"open_files"`
	Disk      Size     `yaml:"disk"`
	Inodes    int64    `yaml:"inodes"`
	Tmp       Size     `yaml:"tmp"`
	Output    Size     `yaml:"output"`
	// DiskBandwidth, in bytes a second, is also what every run gets that asks for no less. Without it none is limited.
	DiskBandwidth *Size `yaml:"disk_bandwidth"`
}

// Limits returns the maxima as limits.
func (m Maxima) Limits() sandbox.Limits {
	return sandbox.Limits{
		Wall: time.Duration(m.Wall), CPUTime: time.Duration(m.CPUTime), Memory: int64(m.Memory), MilliCPU: m.MilliCPU,
		Processes: m.Processes, OpenFiles: m.OpenFiles, Disk: int64(m.Disk), Inodes: m.Inodes, Tmp: int64(m.Tmp),
		Output: int64(m.Output), DiskBandwidth: (*int64)(m.DiskBandwidth),
	}
}

// Pool says how many warm sandboxes a server keeps ready.
type Pool struct {
	Enabled bool `yaml:"enabled"`
	// Min and Max bound the ready sandboxes of one kind, Total those of all kinds. One takes some 14 MiB, one that has
	// drawn a chart some 36.
	Min   int `yaml:"min"`
	Max   int `yaml:"max"`
	Total int `yaml:"total"`
	// MaxAge is how long a sandbox may stay ready.
	MaxAge Duration `yaml:"max_age"`
}

// Retention says how much is kept, and how long.
type Retention struct {
	// Count is how many executions are kept at most, of all tenants.
	Count int `yaml:"count"`
	// Artifacts is for executions that are over, with what they printed and left; Code for the code that was run; Events for
	// who read and deleted what; Answers for answers to requests that may come again.
	Artifacts Duration `yaml:"artifacts"`
	Code      Duration `yaml:"code"`
	Events    Duration `yaml:"events"`
	Answers   Duration `yaml:"answers"`
	// Sweep is how often the server removes what is over.
	Sweep Duration `yaml:"sweep"`
}

// Uploads bound what a client may send.
type Uploads struct {
	// JSON bounds a JSON body, File one uploaded file, Request a whole upload.
	JSON    Size `yaml:"json"`
	File    Size `yaml:"file"`
	Request Size `yaml:"request"`
}

// Log says what is logged and how: debug, info, warn or error; text or json.
type Log struct {
	Level  string `yaml:"level"`
	Format string `yaml:"format"`
}

// SlogLevel returns the level.
func (l Log) SlogLevel() (slog.Level, error) {
	var level slog.Level
	err := level.UnmarshalText([]byte(l.Level))
	return level, err
}

// Default returns the defaults; processors is how many the host has.
func Default(processors int) Config {
	maxima := policy.DefaultMaxima()
	const (
		day = Duration(24 * time.Hour)

		perProcessor = 4
		leastRunning = 4
	)
	return Config{
		Addr: "127.0.0.1:8722", Backend: "auto", Image: "python", Policy: policy.Standard,
		MaxRunning: max(leastRunning, perProcessor*processors), MaxQueued: 128, MaxQueuedEach: 64,
		Tenant:    defaultTenant(),
		QueueWait: Duration(30 * time.Second), Drain: Duration(20 * time.Second),
		Maxima: Maxima{
			Wall: Duration(maxima.Wall), CPUTime: Duration(maxima.CPUTime), Memory: Size(maxima.Memory), MilliCPU: maxima.MilliCPU,
			Processes: maxima.Processes, OpenFiles: maxima.OpenFiles, Disk: Size(maxima.Disk), Inodes: maxima.Inodes,
			Tmp: Size(maxima.Tmp), Output: Size(maxima.Output),
		},
		Prove: true,
		Pool:  Pool{Enabled: true, Min: 4, Max: 24, Total: 48, MaxAge: Duration(30 * time.Minute)},
		Retention: Retention{
			Count: 100_000, Artifacts: 7 * day, Code: 30 * day, Events: 180 * day, Answers: day, Sweep: Duration(10 * time.Minute),
		},
		Uploads: Uploads{JSON: Size(32 * policy.MiB), File: Size(512 * policy.MiB), Request: Size(policy.GiB)},
		Log:     Log{Level: "info", Format: "text"},
	}
}

// Validate lists every fault at once.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, values ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, values...))
		}
	}
	check(c.Data != "" && filepath.IsAbs(c.Data), "data is %q: it must be an absolute path; set GLOVEBOX_DATA or --data", c.Data)
	check(c.Runtime != "" && filepath.IsAbs(c.Runtime), "runtime is %q: it must be an absolute path", c.Runtime)
	check(c.MaxRunning > 0, "max_running is %d: it must be at least 1", c.MaxRunning)
	check(c.MaxQueued >= 0, "max_queued is %d: it must not be negative", c.MaxQueued)
	check(c.MaxQueuedEach > 0, "max_queued_each is %d: it must be at least 1", c.MaxQueuedEach)
	check(c.QueueWait > 0, "queue_wait is %v: it must be above zero", time.Duration(c.QueueWait))
	check(c.Drain > 0, "drain is %v: it must be above zero", time.Duration(c.Drain))
	check(c.Pool.Min >= 1 && c.Pool.Max >= c.Pool.Min && c.Pool.Total >= c.Pool.Max,
		"pool: min %d, max %d, total %d: 1 <= min <= max <= total must hold; enabled: false switches the pool off",
		c.Pool.Min, c.Pool.Max, c.Pool.Total)
	check(c.Pool.MaxAge > 0, "pool.max_age is %v: it must be above zero", time.Duration(c.Pool.MaxAge))
	check(c.Retention.Count > 0, "retention.count is %d: it must be at least 1", c.Retention.Count)
	r := c.Retention
	for _, kept := range []struct {
		name string
		age  Duration
	}{{"artifacts", r.Artifacts}, {"code", r.Code}, {"events", r.Events}, {"answers", r.Answers}, {"sweep", r.Sweep}} {
		check(kept.age > 0, "retention.%s is %v: it must be above zero", kept.name, time.Duration(kept.age))
	}
	check(c.Blobs == "" || strings.HasPrefix(c.Blobs, "s3://") || strings.HasPrefix(c.Blobs, "file:/"),
		"blobs is %q: it must be s3://BUCKET?region=... or file:/FOLDER", c.Blobs)
	check(c.Uploads.JSON > 0 && c.Uploads.File > 0 && c.Uploads.Request > 0, "uploads: json, file and request must be above zero")
	check(c.Log.Format == "text" || c.Log.Format == "json", "log.format is %q: choose text or json", c.Log.Format)
	check(c.Backend != "", "backend is empty: choose auto or a backend's name")
	check(c.Image != "", "image is empty: name an image")
	check(c.Token == "" || len(c.Token) >= MinToken, "token is too short: use at least %d characters", MinToken)
	_, err := c.Log.SlogLevel()
	check(err == nil, "log.level is %q: choose debug, info, warn or error", c.Log.Level)
	for _, host := range c.Hosts {
		check(host != "" && !strings.ContainsAny(host, "/ @"), "hosts: %q is not a host name", host)
	}
	faults = append(faults, c.validateAddr(), c.validateTenants())
	if err := c.Maxima.Limits().Validate(); err != nil {
		faults = append(faults, fmt.Errorf("maxima: %w", err))
	}
	if _, err := policy.Decide(c.Policy, policy.Overrides{}, policy.DefaultMaxima()); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// MinToken is the least length of a token.
const MinToken = 20

func (c Config) validateAddr() error {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return fmt.Errorf("addr is %q: write it as HOST:PORT, as in 127.0.0.1:8722", c.Addr)
	}
	if c.AllowRemote || IsLoopback(host) {
		return nil
	}
	return fmt.Errorf("addr is %q, which other machines can reach: allow it with --allow-remote (allow_remote: true), or use 127.0.0.1", c.Addr)
}

// IsLoopback reports whether host names this machine alone.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Secret is a text that is never shown.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[hidden]"
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML hides the secret.
func (s Secret) MarshalYAML() ([]byte, error) { return strconv.AppendQuote(nil, s.String()), nil }

// Size is a number of bytes that is written as 512MiB.
type Size int64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	size, err := policy.ParseSize(string(text))
	*s = Size(size)
	return err
}

// MarshalText writes the size in the largest unit that is exact.
func (s Size) MarshalText() ([]byte, error) {
	value, units := s, []string{"", "KiB", "MiB", "GiB"}
	unit := 0
	for ; unit+1 < len(units) && value != 0 && value%1024 == 0; unit++ {
		value /= 1024
	}
	return append(strconv.AppendInt(nil, int64(value), 10), units[unit]...), nil
}

// Duration is a time.Duration that is written as 10s.
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	duration, err := policy.ParseDuration(string(text))
	*d = Duration(duration)
	return err
}

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }
