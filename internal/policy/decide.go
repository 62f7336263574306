// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"glovebox/internal/sandbox"
)

// Overrides are the limits that a caller sets; nil keeps the preset's. Zero is a value, and too small.
type Overrides struct {
	Wall      *time.Duration
	CPUTime   *time.Duration
	Memory    *int64
	MilliCPU  *int64
	Processes *int64
	OpenFiles *int64
	Disk      *int64
	Inodes    *int64
	Tmp       *int64
	Output    *int64
	// DiskBandwidth is set for every run where there is a maximum.
	DiskBandwidth *int64
}

// Decision is what a run gets.
type Decision struct {
	Policy  string
	Profile sandbox.Profile
	Network sandbox.Network
	Limits  sandbox.Limits
}

// Decide applies overrides to the named preset (empty: the default) and refuses what is above maxima or below the
// smallest useful value. The error lists every fault at once, each a LimitError or an unknown policy.
func Decide(name string, overrides Overrides, maxima sandbox.Limits) (Decision, error) {
	preset, err := find(name)
	if err != nil {
		return Decision{}, err
	}
	limits := preset.Limits
	var faults []error
	for _, row := range rows(&limits, overrides, maxima) {
		if err := row.apply(); err != nil {
			faults = append(faults, err)
		}
	}
	if err := decideCPUTime(&limits, overrides.CPUTime, maxima.CPUTime); err != nil {
		faults = append(faults, err)
	}
	if err := decideDiskBandwidth(&limits, overrides.DiskBandwidth, maxima.DiskBandwidth); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return Decision{}, errors.Join(faults...)
	}
	if err := limits.Validate(); err != nil {
		return Decision{}, err
	}
	return Decision{Policy: preset.Name, Profile: preset.Profile, Network: preset.Network, Limits: limits}, nil
}

// decideCPUTime derives the limit of processor time when the caller sets none: so far above what the wall limit and the
// share of processors allow that the wall limit is what a busy program meets.
func decideCPUTime(limits *sandbox.Limits, asked *time.Duration, maximum time.Duration) error {
	if asked == nil {
		cores := max(1, (limits.MilliCPU+999)/1000)
		limits.CPUTime = max(sandbox.MinWall, min(2*time.Duration(cores)*limits.Wall+time.Second, maximum))
		return nil
	}
	row := row{
		name: "cpu_time", unit: unitDuration, least: int64(sandbox.MinWall), most: int64(maximum),
		asked: (*int64)(asked), target: (*int64)(&limits.CPUTime),
	}
	return row.apply()
}

// decideDiskBandwidth leaves the limit out when neither the caller nor the operator wants it.
func decideDiskBandwidth(limits *sandbox.Limits, asked, maximum *int64) error {
	limits.DiskBandwidth = maximum
	if asked == nil {
		return nil
	}
	most := int64(math.MaxInt64)
	if maximum != nil {
		most = *maximum
	}
	limits.DiskBandwidth = new(int64)
	row := row{
		name: "disk_bandwidth", unit: unitBytes, least: sandbox.MinDiskBandwidth, most: most,
		asked: asked, target: limits.DiskBandwidth,
	}
	return row.apply()
}

// LimitError is a limit outside its bounds.
type LimitError struct {
	// Limit is the name callers know the limit by.
	Limit string
	// Above tells whether the value is above the maximum or below the minimum.
	Above bool
	// Asked and Bound are the value and the bound as text.
	Asked string
	Bound string
}

func (e *LimitError) Error() string {
	if e.Above {
		return fmt.Sprintf("limit %s is %s: the maximum here is %s; ask for less, or have the maximum raised in the configuration (maxima.%s)",
			e.Limit, e.Asked, e.Bound, e.setting())
	}
	return fmt.Sprintf("limit %s is %s: the minimum is %s", e.Limit, e.Asked, e.Bound)
}

// setting is the name of the limit's maximum in the configuration.
func (e *LimitError) setting() string {
	if e.Limit == limitCPUs {
		return "milli_cpu"
	}
	return e.Limit
}

// limitCPUs is how callers ask for processors; thousandths are for programs.
const limitCPUs = "cpus"

type unit int

const (
	unitCount unit = iota
	unitBytes
	unitDuration
	unitMilli
)

func (u unit) format(value int64) string {
	switch u {
	case unitBytes:
		return FormatSize(value)
	case unitDuration:
		return time.Duration(value).String()
	case unitMilli:
		return strconv.FormatFloat(float64(value)/1000, 'f', -1, 64)
	case unitCount:
	}
	return strconv.FormatInt(value, 10)
}

// row is one limit on its way from the caller to the decision.
type row struct {
	name        string
	unit        unit
	least, most int64
	asked       *int64
	target      *int64
}

// apply sets the target. A preset's own value above the maximum is lowered to it: the operator's word goes before ours.
func (r row) apply() error {
	if r.asked == nil {
		*r.target = min(*r.target, r.most)
		return nil
	}
	switch value := *r.asked; {
	case value > r.most:
		return &LimitError{Limit: r.name, Above: true, Asked: r.unit.format(value), Bound: r.unit.format(r.most)}
	case value < r.least:
		return &LimitError{Limit: r.name, Asked: r.unit.format(value), Bound: r.unit.format(r.least)}
	default:
		*r.target = value
		return nil
	}
}

func rows(l *sandbox.Limits, o Overrides, m sandbox.Limits) []row {
	return []row{
		{"wall", unitDuration, int64(sandbox.MinWall), int64(m.Wall), (*int64)(o.Wall), (*int64)(&l.Wall)},
		{"memory", unitBytes, sandbox.MinMemory, m.Memory, o.Memory, &l.Memory},
		{limitCPUs, unitMilli, sandbox.MinMilliCPU, m.MilliCPU, o.MilliCPU, &l.MilliCPU},
		{"processes", unitCount, sandbox.MinProcesses, m.Processes, o.Processes, &l.Processes},
		{"open_files", unitCount, sandbox.MinOpenFiles, m.OpenFiles, o.OpenFiles, &l.OpenFiles},
		{"disk", unitBytes, sandbox.MinDisk, m.Disk, o.Disk, &l.Disk},
		{"inodes", unitCount, sandbox.MinInodes, m.Inodes, o.Inodes, &l.Inodes},
		{"tmp", unitBytes, sandbox.MinDisk, m.Tmp, o.Tmp, &l.Tmp},
		{"output", unitBytes, sandbox.MinOutput, m.Output, o.Output, &l.Output},
	}
}
