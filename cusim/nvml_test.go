package cusim_test

import (
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
)

func TestNVML(t *testing.T) {
	sim := cusim.New(cusim.Devices(2), cusim.VirtualTime())
	lib, err := nvml.Open(nvml.WithSoftware(sim.NVML()))
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	_ = cu.Pending
	for dev, err := range lib.Devices() {
		if err != nil {
			t.Fatal(err)
		}
		name, err := dev.Name()
		t.Log(name, err)
		t.Log(dev.UUID())
		t.Log(dev.PCI())
		t.Log(dev.Memory())
		t.Log(dev.Temperature(nvml.TemperatureGPU))
		t.Log(dev.PowerUsage())
		t.Log(dev.Utilization())
		t.Log(dev.ComputeProcesses())
		t.Log(dev.Architecture())
	}
}
