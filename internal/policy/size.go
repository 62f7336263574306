// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseSize reads a size in bytes: 1048576, 512MiB, 512M, 1.5GiB, 1GB. Letters may be of either case. KB, MB and GB are
// powers of 1000; KiB, MiB, GiB and the bare letters K, M, G are powers of 1024.
func ParseSize(text string) (int64, error) {
	trimmed := strings.TrimSpace(text)
	digits := strings.TrimRight(trimmed, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	factor, known := sizeUnits()[strings.ToLower(strings.TrimSpace(trimmed[len(digits):]))]
	number, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || number < 0 || math.IsNaN(number) {
		return 0, fmt.Errorf("size %q is not understood: write it like 512MiB, 1GB or 1048576", clip(text))
	}
	if number*float64(factor) >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q is too large", clip(text))
	}
	if whole, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return whole * factor, nil
	}
	return int64(number * float64(factor)), nil
}

func sizeUnits() map[string]int64 {
	return map[string]int64{
		"": 1, "b": 1, "k": KiB, "kib": KiB, "m": MiB, "mib": MiB, "g": GiB, "gib": GiB,
		"kb": 1000, "mb": 1000 * 1000, "gb": 1000 * 1000 * 1000,
	}
}

// FormatSize is the inverse of ParseSize for people.
func FormatSize(size int64) string {
	for _, u := range []struct {
		factor int64
		name   string
	}{{GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if size >= u.factor {
			return strconv.FormatFloat(math.Round(float64(size)/float64(u.factor)*100)/100, 'f', -1, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(size, 10) + " B"
}

// ParseDuration reads 10s, 1m30s, 250ms, or a bare number of seconds.
func ParseDuration(text string) (time.Duration, error) {
	trimmed := strings.TrimSpace(text)
	if seconds, err := strconv.ParseFloat(trimmed, 64); err == nil {
		return Seconds(seconds)
	}
	d, err := time.ParseDuration(trimmed)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("duration %q is not understood: write it like 10s, 1m30s or 250ms", clip(text))
	}
	return d, nil
}

// Seconds converts a number of seconds.
func Seconds(seconds float64) (time.Duration, error) {
	if math.IsNaN(seconds) || seconds < 0 || seconds > float64(math.MaxInt64/int64(time.Second)) {
		return 0, fmt.Errorf("duration of %v seconds is not possible", seconds)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// ParseCPUs reads a number of processors, as 1, 0.5 or 500m, into thousandths.
func ParseCPUs(text string) (int64, error) {
	trimmed := strings.TrimSpace(text)
	scale := 1000.0
	if cut, ok := strings.CutSuffix(trimmed, "m"); ok {
		trimmed, scale = cut, 1
	}
	number, err := strconv.ParseFloat(trimmed, 64)
	if err != nil || number < 0 || number*scale > math.MaxInt32 || math.IsNaN(number) {
		return 0, fmt.Errorf("number of processors %q is not understood: write it like 1, 0.5 or 500m", clip(text))
	}
	return int64(math.Round(number * scale)), nil
}

func clip(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
