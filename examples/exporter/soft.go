//go:build !nosoft

package main

import (
	"flag"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	// With PURECU_DRIVER=soft the program runs without a GPU. Build what you ship with -tags nosoft: that leaves the
	// software driver out, which saves about 2.7 MB of a stripped program.
	_ "github.com/purecu/purecu/cusim/auto"
	"github.com/purecu/purecu/nvml"
)

// soft is the number of software devices that replace the machine's GPUs, or 0 to use the GPUs.
var soft = flag.Int("soft", 0, "use this many software devices")

func init() {
	software = func() ([]cu.Option, []nvml.Option) {
		if *soft <= 0 {
			return nil, nil
		}
		sim := cusim.New(cusim.Devices(*soft))
		return []cu.Option{cu.WithSoftware(sim)}, []nvml.Option{nvml.WithSoftware(sim.NVML())}
	}
}
