// Package nvml asks NVIDIA's driver about the GPUs of the machine, and changes their settings, through
// libnvidia-ml.so.1 (nvml.dll on Windows). It needs no cgo, and works in static programs. The library is loaded at run
// time.
//
//	lib, err := nvml.Open(nvml.WithTimeout(2 * time.Second))
//	if err != nil {
//		return err // says why there is no NVML: for example, that the driver is not loaded
//	}
//	defer lib.Close()
//	for dev, err := range lib.Devices() {
//		if err != nil {
//			log.Print(err) // this GPU cannot be opened; the others may be well
//			continue
//		}
//		temp, err := dev.Temperature(nvml.TemperatureGPU)
//		fmt.Println(dev, temp, err)
//	}
//
// # Where to begin
//
//   - The machine: [Open], [Library.Devices], [Library.DeviceByUUID], [Library.DeviceByPCI].
//   - What a GPU is: [Device.Name], [Device.UUID], [Device.PCI], [Device.Architecture].
//   - What it does: [Device.Temperature], [Device.PowerUsage], [Device.Memory], [Device.Utilization], [Device.Clock],
//     [Device.Fields].
//   - Who uses it: [Device.ComputeProcesses].
//   - Whether it is well: [Device.ECCErrors], [Device.RemappedRows], [Device.ClockReasons], [EventSet].
//   - Its parts: [Device.MIGDevices], [GPUInstance], [ComputeInstance], [VGPU].
//
// Names follow those of C: nvmlDeviceGetPowerUsage is [Device.PowerUsage], and each comment names the function. If the
// library has several versions of a function, the newest is called. Functions that this package does not have are in
// package [github.com/purecu/purecu/nvml/raw].
//
// # Errors
//
// An error is an [*Error]. It names the function and the device, and matches the result: errors.Is(err, ErrGPULost).
// What the device or the library does not have matches [errors.ErrUnsupported]. No device has everything, so a program
// that shows values leaves these out.
//
// # A GPU that does not answer
//
// NVML may block for minutes while a GPU fails. [WithTimeout], [Device.WithTimeout] and [Device.WithContext] bound
// calls: see there.
//
// # Without a GPU
//
// Package [github.com/purecu/purecu/cusim] has an NVML in Go, with GPUs that a test can make fail. [WithSoftware] makes
// [Open] use it, as does PURECU_DRIVER=soft in a program that imports package cusim/auto.
//
// # Concurrency
//
// Everything may be used by several goroutines at once. Devices and their parts need no Close. After [Library.Close],
// their methods return errors that match [ErrClosed].
package nvml
