// SPDX-License-Identifier: Apache-2.0

package artifact

// Limits bound a collection. Every field is required.
type Limits struct {
	// Count is the most files that are taken.
	Count int
	// Single is the greatest size of one file, Total of all together.
	Single int64
	Total  int64
	// Depth is how many folders may stand above a file.
	Depth int
	// Folders and Entries bound what is read of the tree.
	Folders int
	Entries int
}

// DefaultLimits are enough for an analysis and small enough for a server.
func DefaultLimits() Limits {
	return Limits{Count: 256, Single: 256 << 20, Total: 512 << 20, Depth: 16, Folders: 2048, Entries: 120_000}
}

// Artifact is one file that was taken.
type Artifact struct {
	// Name is safe for people, headers and file systems, and unique in its collection; folders are divided by slashes.
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	MIME   string `json:"mime"`
	SHA256 string `json:"sha256"`
}

// Reason says why an entry was not taken.
type Reason string

// The reasons.
const (
	ReasonLink       Reason = "link"        // a symbolic link
	ReasonSpecial    Reason = "special"     // a FIFO, a socket or a device
	ReasonMount      Reason = "mount"       // another file system
	ReasonHidden     Reason = "hidden"      // a name that begins with a dot, or __pycache__
	ReasonTooLarge   Reason = "too_large"   // Limits.Single
	ReasonTotal      Reason = "total_size"  // Limits.Total
	ReasonCount      Reason = "count"       // Limits.Count
	ReasonDepth      Reason = "depth"       // Limits.Depth
	ReasonFolders    Reason = "folders"     // Limits.Folders: the rest was not read
	ReasonEntries    Reason = "entries"     // Limits.Entries: the rest was not read
	ReasonChanged    Reason = "changed"     // it changed while it was read
	ReasonUnreadable Reason = "unreadable"  // the kernel refused
	ReasonStopped    Reason = "interrupted" // collecting was interrupted
)

// Skip is a summary of what was left out for one reason.
type Skip struct {
	Reason Reason `json:"reason"`
	Count  int    `json:"count"`
	// Names are the first few, made safe.
	Names []string `json:"names"`
}

// MaxSkipNames is how many names a Skip keeps.
const MaxSkipNames = 5

// Report is the outcome of a collection.
type Report struct {
	Artifacts []Artifact
	Skipped   []Skip
	// Excesses are the limits that what the program left is beyond of, in the order in which they were met.
	Excesses []Excess
}

// Excess is a limit of a collection, by its Reason, with what was measured: a count or bytes. What is beyond a depth or a
// number of entries is not read, so that there the measure is the least that it must be.
type Excess struct {
	Reason          Reason
	Measured, Value int64
}

// exceed notes that so much was measured of a limit.
func (r *Report) exceed(reason Reason, measured, value int64) {
	for i := range r.Excesses {
		if excess := &r.Excesses[i]; excess.Reason == reason {
			excess.Measured = max(excess.Measured, measured)
			return
		}
	}
	r.Excesses = append(r.Excesses, Excess{reason, measured, value})
}

// Total is the size of all artifacts.
func (r Report) Total() int64 {
	var total int64
	for _, artifact := range r.Artifacts {
		total += artifact.Size
	}
	return total
}

func (r *Report) skip(reason Reason, path string) {
	for i := range r.Skipped {
		if r.Skipped[i].Reason == reason {
			r.Skipped[i].Count++
			if len(r.Skipped[i].Names) < MaxSkipNames {
				r.Skipped[i].Names = append(r.Skipped[i].Names, SafePath(path))
			}
			return
		}
	}
	r.Skipped = append(r.Skipped, Skip{Reason: reason, Count: 1, Names: []string{SafePath(path)}})
}
