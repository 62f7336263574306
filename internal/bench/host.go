// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is what the figures depend on. It does not name the machine.
type Machine struct {
	Kernel       string  `json:"kernel"`
	Architecture string  `json:"architecture"`
	CPU          string  `json:"cpu"`
	Cores        int     `json:"cores"`
	MemoryGiB    float64 `json:"memory_gib"`
	Hypervisor   bool    `json:"hypervisor"`
	// FaultMicroseconds is what the first touch of an anonymous page costs.
	FaultMicroseconds float64 `json:"fault_us"`
}

func describeMachine() (Machine, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Machine{}, fmt.Errorf("uname: %w", err)
	}
	m := Machine{Kernel: unix.ByteSliceToString(name.Release[:]), Architecture: runtime.GOARCH, Cores: runtime.NumCPU()}
	m.CPU, m.Hypervisor = processor()
	total, _, err := memory()
	if err != nil {
		return Machine{}, err
	}
	m.MemoryGiB = float64(total) / (1 << 30)
	m.FaultMicroseconds, err = faultCost()
	return m, err
}

// processor reads the model and whether it says that it is a virtual one.
func processor() (model string, hypervisor bool) {
	content, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown", false
	}
	model = "unknown"
	for line := range strings.Lines(string(content)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name":
			model = strings.TrimSpace(value)
		case "flags":
			return model, strings.Contains(value, " hypervisor")
		}
	}
	return model, false
}

// memory returns the host's memory and what of it is available, in bytes.
func memory() (total, available int64, err error) {
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64) // lines of another form are not asked for
		switch fields[0] {
		case "MemTotal:":
			total = kib << 10
		case "MemAvailable:":
			available = kib << 10
		}
	}
	return total, available, nil
}

// faultCost touches fresh pages and returns microseconds a page: the median of some rounds.
func faultCost() (float64, error) {
	const rounds, size = 5, 32 << 20
	page := os.Getpagesize()
	var costs []float64
	for range rounds {
		region, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return 0, fmt.Errorf("map fresh pages: %w", err)
		}
		_ = unix.Madvise(region, unix.MADV_NOHUGEPAGE) // not every kernel has huge pages
		began := time.Now()
		for at := 0; at < size; at += page {
			region[at] = 1
		}
		costs = append(costs, float64(time.Since(began).Microseconds())/float64(size/page))
		if err := unix.Munmap(region); err != nil {
			return 0, fmt.Errorf("unmap: %w", err)
		}
	}
	return Summarize(costs).P50, nil
}

// Conditions are what the host did besides during a scenario.
type Conditions struct {
	LoadBefore float64 `json:"load_before"`
	LoadAfter  float64 `json:"load_after"`
	// Own and Others are processors busy on average with our work and with that of others; Stolen were not given to us.
	Own     float64 `json:"own_cores"`
	Others  float64 `json:"other_cores"`
	Stolen  float64 `json:"stolen_cores"`
	Seconds float64 `json:"seconds"`
}

// mostIdle is how many processors others may take on a machine that is called idle.
const mostIdle = 0.15

// Idle reports whether the host did next to nothing else.
func (c Conditions) Idle() bool { return c.Others+c.Stolen < mostIdle }

// watch is the state of the host at one moment.
type watch struct {
	at     time.Time
	load   float64
	busy   time.Duration
	stolen time.Duration
	own    treeUsage
}

func look(now func() time.Time) (watch, error) {
	w := watch{at: now()}
	var err error
	if w.load, err = loadAverage(); err != nil {
		return w, err
	}
	if w.busy, w.stolen, err = processorTimes(); err != nil {
		return w, err
	}
	w.own, err = usageOf(os.Getpid())
	return w, err
}

// until returns what happened between two moments.
func (w watch) until(end watch) Conditions {
	seconds := end.at.Sub(w.at).Seconds()
	share := func(d time.Duration) float64 { return max(0, d.Seconds()/max(seconds, 0.001)) }
	own := end.own.cpu - w.own.cpu
	return Conditions{
		LoadBefore: w.load, LoadAfter: end.load, Seconds: seconds, Own: share(own),
		Others: share(end.busy - w.busy - own), Stolen: share(end.stolen - w.stolen),
	}
}

func loadAverage() (float64, error) {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(content), " ")
	return strconv.ParseFloat(first, 64)
}

// tick is the unit of processor times in /proc, the same on all architectures that matter here.
const tick = 10 * time.Millisecond

// processorTimes returns how long all processors together were busy, and how long they were taken from us, since boot.
func processorTimes() (busy, stolen time.Duration, err error) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	line, err := bufio.NewReader(file).ReadString('\n')
	if err != nil {
		return 0, 0, fmt.Errorf("read /proc/stat: %w", err)
	}
	return parseProcessorTimes(line)
}

// parseProcessorTimes reads "cpu user nice system idle iowait irq softirq steal guest guest_nice". The guest times are in
// user and nice already.
func parseProcessorTimes(line string) (busy, stolen time.Duration, err error) {
	fields := strings.Fields(line)
	const idle, iowait, steal = 4, 5, 8
	if len(fields) <= steal || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, field := range fields[1 : steal+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/stat: %w", err)
		}
		switch i + 1 {
		case idle, iowait:
		case steal:
			stolen = time.Duration(ticks) * tick
		default:
			busy += time.Duration(ticks) * tick
		}
	}
	return busy, stolen, nil
}

// ownVersion says what this program was built from.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := "devel"
	if v := info.Main.Version; v != "" && v != "(devel)" {
		version = v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && !strings.Contains(version, setting.Value[:min(12, len(setting.Value))]) {
			version += " " + setting.Value[:min(12, len(setting.Value))]
		}
	}
	return version + ", " + info.GoVersion
}
