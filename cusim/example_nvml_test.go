package cusim_test

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// A tool that reads NVML meets a GPU that fails.
func ExampleDriver_NVML() {
	sim := cusim.New(cusim.Devices(2), cusim.VirtualTime())
	lib, err := nvml.Open(nvml.WithSoftware(sim.NVML()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lib.Close()

	dev, _ := lib.Device(0)
	fmt.Println(dev.Temperature(nvml.TemperatureGPU))

	sim.ECCErrors(0, 3, 0)
	fmt.Println(dev.ECCErrors(nvml.MemoryErrorCorrected, nvml.ECCVolatile))

	sim.InjectNVML(cusim.NVMLFault{Function: "nvmlDeviceGetPowerUsage", Result: raw.NVML_ERROR_NO_PERMISSION})
	_, err = dev.PowerUsage()
	fmt.Println(errors.Is(err, nvml.ErrNoPermission))

	sim.LoseGPU(0)
	_, err = dev.Temperature(nvml.TemperatureGPU)
	fmt.Println(errors.Is(err, nvml.ErrGPULost))
	// Output:
	// 33 °C <nil>
	// 3 <nil>
	// true
	// true
}
