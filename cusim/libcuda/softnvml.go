package main

import (
	"os"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
	"github.com/purecu/purecu/internal/simnvml"
	"github.com/purecu/purecu/nvml/raw"
)

// softwareNVML returns the NVML of a driver.
func softwareNVML(d *sim.Driver) raw.Software { return simnvml.New(machine{d}) }

// machine shows the driver's devices to NVML.
type machine struct{ d *sim.Driver }

// Clock returns the driver's clock.
func (m machine) Clock() driver.Clock { return m.d.Clock() }

// DriverVersion returns the version of CUDA.
func (m machine) DriverVersion() int { return m.d.CUDAVersion() }

// GPUs returns what the driver knows of its devices now.
func (m machine) GPUs() []simnvml.GPU {
	states := m.d.Inspect()
	list := make([]simnvml.GPU, len(states))
	for i, s := range states {
		list[i] = simnvml.GPU{Name: s.Name, UUID: s.UUID, Bus: uint32(s.Bus), Memory: s.Memory, Used: s.Used,
			Busy: s.Busy, Utilization: s.Utilization}
		if s.Contexts > 0 {
			list[i].Processes = []simnvml.Process{{ID: uint32(os.Getpid()), Used: s.Used}}
		}
	}
	return list
}
