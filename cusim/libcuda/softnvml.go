package main

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
	"github.com/purecu/purecu/internal/simnvml"
)

// softwareNVML returns the NVML of a driver, whose GPUs have the faults that the environment asks for: script is the
// result of environment.GPUScript.
func softwareNVML(d *sim.Driver, script func(*simnvml.NVML)) *simnvml.NVML {
	n := simnvml.New(machine{d})
	if script != nil {
		script(n)
	}
	return n
}

// machine shows the driver's devices to NVML, as that of package cusim does.
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
		for _, p := range s.Processes {
			list[i].Processes = append(list[i].Processes, simnvml.Process{ID: p.ID, Used: p.Used})
		}
	}
	return list
}
