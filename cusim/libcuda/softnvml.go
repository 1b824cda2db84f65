package main

import (
	"github.com/purecu/purecu/internal/sim"
	"github.com/purecu/purecu/internal/simnvml"
)

// softwareNVML returns the NVML of a driver. Its GPUs have the faults that the environment asks for: script, which may
// be nil, is the result of environment.NVML.
func softwareNVML(d *sim.Driver, script func(*simnvml.NVML)) *simnvml.NVML {
	n := simnvml.New(d)
	if script != nil {
		script(n)
	}
	return n
}
