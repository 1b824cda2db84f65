//go:build !nosoft

package main

import (
	"flag"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	_ "github.com/purecu/purecu/cusim/auto"
	"github.com/purecu/purecu/nvml"
)

// With PURECU_DRIVER=soft the program runs without a GPU. Build what you ship with -tags nosoft: that
// leaves the software driver out, which saves about 1.8 MB of a stripped program.
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
