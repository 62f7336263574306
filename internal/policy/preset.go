// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"time"

	"glovebox/internal/sandbox"
)

// Sizes in bytes.
const (
	KiB = int64(1) << 10
	MiB = int64(1) << 20
	GiB = int64(1) << 30
)

// The names of the presets.
const (
	Standard = "standard"
	Tight    = "tight"
	Strict   = "strict"
)

// DefaultOutput is how much of each stream is kept for download unless a preset or a caller says otherwise.
const DefaultOutput = 64 * MiB

// Preset is a named set of limits and the mount profile that goes with it.
type Preset struct {
	Name    string
	Profile sandbox.Profile
	Network sandbox.Network
	Limits  sandbox.Limits
}

// Presets returns the built-in presets, the default one first.
//
// To add a preset: a row here, and a line in the user guide.
func Presets() []Preset {
	tight := Preset{
		Name: Tight, Profile: sandbox.ProfileTight, Network: sandbox.NetworkNone,
		Limits: sandbox.Limits{
			Wall: 10 * time.Second, Memory: 256 * MiB, MilliCPU: 500, Processes: 50, OpenFiles: 100,
			Disk: 64 * MiB, Inodes: 1 << 14, Tmp: 64 * MiB, Output: 16 * MiB,
		},
	}
	// Nothing looser than tight: what it refuses beyond that is in its profile.
	strict := tight
	strict.Name, strict.Profile = Strict, sandbox.ProfileStrict
	return []Preset{
		{
			Name: Standard, Profile: sandbox.ProfileStandard, Network: sandbox.NetworkNone,
			Limits: sandbox.Limits{
				Wall: 10 * time.Second, Memory: 512 * MiB, MilliCPU: 1000, Processes: 64, OpenFiles: 256,
				Disk: 256 * MiB, Inodes: 1 << 17, Tmp: 128 * MiB, Output: DefaultOutput,
			},
		},
		tight,
		strict,
	}
}

// DefaultMaxima are the most that a caller may ask for when the configuration says nothing else.
func DefaultMaxima() sandbox.Limits {
	return sandbox.Limits{
		Wall: 10 * time.Minute, CPUTime: time.Hour, Memory: 8 * GiB, MilliCPU: 8000, Processes: 1024,
		OpenFiles: 4096, Disk: 8 * GiB, Inodes: 1 << 20, Tmp: 2 * GiB, Output: GiB,
	}
}

func find(name string) (Preset, error) {
	presets := Presets()
	if name == "" {
		return presets[0], nil
	}
	names := make([]string, 0, len(presets))
	for _, preset := range presets {
		if preset.Name == name {
			return preset, nil
		}
		names = append(names, preset.Name)
	}
	return Preset{}, fmt.Errorf("policy %q is not known: choose one of %s", name, strings.Join(names, ", "))
}
