package nvml_test

import (
	"testing"

	"github.com/purecu/purecu/nvml"
)

// TestNumbers checks that methods refuse numbers that C's unsigned int cannot have, before the library sees them.
func TestNumbers(t *testing.T) {
	d := deviceOf(t, basis{})
	for _, n := range []int{-1, 1 << 32} {
		_, err := d.FanSpeedOf(n)
		isError(t, err, nvml.ErrInvalidArgument)
		_, err = d.NVLinkActive(n)
		isError(t, err, nvml.ErrInvalidArgument)
		isError(t, d.SetFanSpeed(n, 50), nvml.ErrInvalidArgument)
		_, _, err = d.NVLinkCounter(0, n)
		isError(t, err, nvml.ErrInvalidArgument)
	}
}
