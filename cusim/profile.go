package cusim

import (
	"fmt"

	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/internal/sim"
)

// Profile says which GPUs the devices are: "A100" for one A100, or "A100:2,T4" for two and a T4 after them. [Profiles]
// lists the names, whose case does not count. If there is another name in the list, cu.Open and nvml.Open return an
// error: see [Driver.Err]. Profile and [Devices] replace each other: the last of them counts.
//
// Names, attributes, memory, limits, occupancy, and what NVML says of the product are those of the GPU. Code for a
// newer target than the GPU is refused, as are clusters and other features that older GPUs do not have. The results of
// calls are those of an H200, and times do not depend on the GPU. Only devices of the same kind can access each other's
// memory.
//
// Unverified: what is not about an H100 or an H200 is from public tables. No other GPU was asked.
func Profile(list string) Option {
	return func(d *Driver) {
		gpus, err := profile.Parse(list)
		if err != nil {
			err = fmt.Errorf("cusim: Profile: %w", err)
		}
		d.err = err
		sim.GPUs(gpus)(d.sim)
	}
}

// Profiles returns the names for [Profile], from the oldest GPU to the newest. The default is H200.
func Profiles() []string { return profile.Names() }

// Err returns what is wrong with the options of [New], or nil. With such an error the driver has no device, and cu.Open
// and nvml.Open return the error.
func (d *Driver) Err() error {
	if d == nil {
		return nil
	}
	return d.err
}
