// SPDX-License-Identifier: Apache-2.0

package image

import "strconv"

// suite is what the builder must know of a Debian suite before it is unpacked.
type suite struct {
	Name   string
	Python string // the suite's Python, major.minor
	Glibc  int    // minor version of its glibc 2.x: newer wheels do not run
}

// suiteNamed returns a suite. To add one: a case here, its name in suiteNames,
// and a build with the check of images/python.
func suiteNamed(name string) (suite, bool) {
	switch name {
	case "trixie":
		return suite{Name: name, Python: "3.13", Glibc: 41}, true
	default:
		return suite{}, false
	}
}

func suiteNames() []string { return []string{"trixie"} }

// architecture is a machine type under the names that tools give it.
type architecture struct {
	Debian string
	Wheel  string
}

// architectureOf translates Go's name.
func architectureOf(goarch string) (architecture, bool) {
	switch goarch {
	case "amd64":
		return architecture{Debian: "amd64", Wheel: "x86_64"}, true
	case "arm64":
		return architecture{Debian: "arm64", Wheel: "aarch64"}, true
	default:
		return architecture{}, false
	}
}

// wheelPlatforms lists the platform tags whose wheels run on the suite.
func wheelPlatforms(s suite, arch architecture) []string {
	tags := []string{"manylinux1_" + arch.Wheel, "manylinux2010_" + arch.Wheel, "manylinux2014_" + arch.Wheel}
	const oldest = 5 // manylinux_2_5 is manylinux1
	for minor := oldest; minor <= s.Glibc; minor++ {
		tags = append(tags, "manylinux_2_"+strconv.Itoa(minor)+"_"+arch.Wheel)
	}
	return append(tags, "linux_"+arch.Wheel)
}
