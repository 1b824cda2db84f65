//go:build !race

package nvml_test

import (
	"context"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

const raceEnabled = false

// TestAllocations is not for the race detector, which allocates. A call that returns a number allocates nothing, apart
// from what a software NVML needs.
func TestAllocations(t *testing.T) {
	s, _, devs := ward(t, 1)
	l := raw.NewSoftware(s)
	own := testing.AllocsPerRun(100, func() {
		var index uint32
		l.DeviceGetIndex(1, &index)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, dev := range map[string]*nvml.Device{
		"no bound": devs[0], "a limit": devs[0].WithTimeout(time.Minute), "a context": devs[0].WithContext(ctx),
		"both": devs[0].WithContext(ctx).WithTimeout(time.Minute),
	} {
		got := testing.AllocsPerRun(100, func() {
			if _, err := dev.Index(); err != nil {
				t.Error(err)
			}
		})
		if got > own {
			t.Errorf("with %s, a call allocates %v times, and the software NVML %v times", name, got, own)
		}
	}
}
