// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"os"
	"strconv"
	"time"
)

// slownessVariable says how many times slower than usual this machine is; scripts/test-vm sets it for an emulated one.
const slownessVariable = "GLOVEBOX_TEST_SLOWNESS"

// Patient returns the time that something may take here whose duration is not what is tested.
func Patient(usual time.Duration) time.Duration { return usual * time.Duration(slowness()) }

func slowness() int {
	times, err := strconv.Atoi(os.Getenv(slownessVariable)) //nolint:forbidigo // tests are told of their machine by it
	if err != nil || times < 1 {
		return 1
	}
	return times
}
