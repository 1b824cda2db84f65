package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/loader"
)

// The values of -driver that are not a path.
const (
	autoDriver = "auto"
	cudaDriver = "cuda"
	softDriver = "soft"
)

// softName is the name of the software driver in reports.
const softName = "the software driver (cusim)"

// software reports whether the driver is the software driver.
func (c *invocation) software() bool { return c.driver == softDriver }

// library returns the path of the library that the user has named, or "".
func (c *invocation) library() string {
	switch c.driver {
	case autoDriver, cudaDriver, softDriver:
		return ""
	}
	return c.driver
}

// mayUseSoftware reports whether the software driver may replace the driver that cannot be opened
// because of err. Only the demo without arguments may use it. A user who names a command, a driver,
// a library or a device, or reads JSON, asks about the machine's driver.
func (c *invocation) mayUseSoftware(err error) bool {
	named, _ := c.env(loader.Environment)
	asked := !c.noCommand || c.json || c.driver != autoDriver || c.device != anyDevice || named != ""
	return !asked && (errors.Is(err, cu.ErrNoDriver) || errors.Is(err, cu.ErrNoDevice))
}

// open opens the driver that the user has chosen. A driver without a device is an error, even if
// cuInit succeeds.
func (c *invocation) open() (*cu.Driver, error) {
	var opts []cu.Option
	if path := c.library(); path != "" {
		opts = append(opts, cu.WithLibrary(path))
	}
	if c.software() {
		sim, err := c.softwareDriver()
		if err != nil {
			return nil, err
		}
		opts = append(opts, cu.WithSoftware(sim))
	}
	drv, err := cu.Open(opts...)
	if err != nil {
		return nil, err
	}
	if n, err := drv.DeviceCount(); err == nil && n == 0 {
		return nil, &cu.Error{Op: "cuDeviceGetCount", Result: cu.ResultNoDevice, Err: cu.ErrNoDevice,
			Detail: "it reports 0 devices, although cuInit succeeded"}
	}
	return drv, nil
}

// softwareDriver returns the software driver of the invocation, which the first call creates.
func (c *invocation) softwareDriver() (*cusim.Driver, error) {
	if c.sim == nil {
		if err := c.simulate(modelSpin()); err != nil {
			return nil, err
		}
	}
	return c.sim, nil
}

// simulate creates the software driver, as the environment and then the options say. If it replaces NVIDIA's
// driver, the variables of that do not count.
func (c *invocation) simulate(opts ...cusim.Option) error {
	environ := os.Environ()
	if c.namedBy == "" {
		environ = slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, "CUDA_") })
	}
	env, err := cusim.Environment(environ)
	if err != nil {
		return usage("%v", err)
	}
	c.sim = cusim.New(append([]cusim.Option{env, cusim.Output(c.kernelOutput())}, opts...)...)
	return nil
}

// kernelOutput returns where kernels print: on the standard output, as on a GPU, unless that has JSON.
func (c *invocation) kernelOutput() io.Writer {
	if c.json || c.out == nil {
		return c.err
	}
	return c.out
}

// openDevice opens the driver, and returns it with the device that the user has chosen.
func (c *invocation) openDevice() (*cu.Driver, *cu.Device, error) {
	drv, err := c.open()
	if err != nil {
		return nil, nil, err
	}
	dev, err := drv.Device(max(c.device, 0))
	return drv, dev, err
}

// devices returns the device that the user has chosen, or all devices.
func (c *invocation) devices(drv *cu.Driver) ([]*cu.Device, error) {
	if c.device == anyDevice {
		return drv.Devices()
	}
	dev, err := drv.Device(c.device)
	return []*cu.Device{dev}, err
}

// driverInfo is the part of reports about the driver.
type driverInfo struct {
	// Library is the path of the library, or the name that was passed to the system's loader. For
	// the software driver it is softName.
	Library string `json:"library"`
	// Version is the newest CUDA version that the driver supports: 12080 is 12.8.
	Version cu.Version `json:"version"`
	// CUDA is Version as text: "12.8".
	CUDA string `json:"cuda"`
}

func (c *invocation) driverInfo(drv *cu.Driver) (driverInfo, error) {
	v, err := drv.Version()
	info := driverInfo{Library: drv.String(), Version: v, CUDA: v.String()}
	if c.software() {
		info.Library = softName
	}
	return info, err
}

func (d driverInfo) text(w io.Writer) {
	fmt.Fprintf(w, "driver   %s, CUDA %s\n", d.Library, d.CUDA)
}

// deviceInfo is the part of reports about a device.
type deviceInfo struct {
	Ordinal           int    `json:"ordinal"`
	Name              string `json:"name"`
	UUID              string `json:"uuid"`
	PCIBusID          string `json:"pciBusID"`
	ComputeCapability string `json:"computeCapability"`
	Multiprocessors   int    `json:"multiprocessors"`
	ClockKHz          int    `json:"clockKHz"`
	MemoryTotal       uint64 `json:"memoryTotalBytes"`
}

// newDeviceInfo queries the driver for the properties of a device.
func newDeviceInfo(dev *cu.Device) (info deviceInfo, err error) {
	info = deviceInfo{Ordinal: dev.Ordinal()}
	if info.Name, err = dev.Name(); err != nil {
		return info, err
	}
	major, minor, err := dev.ComputeCapability()
	if err != nil {
		return info, err
	}
	info.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
	if info.MemoryTotal, err = dev.TotalMem(); err != nil {
		return info, err
	}
	if uuid, err := dev.UUID(); err == nil {
		info.UUID = uuid.String()
	} else if optional(err) != nil {
		return info, err
	}
	if info.PCIBusID, err = dev.PCIBusID(); optional(err) != nil {
		return info, err
	}
	if info.Multiprocessors, err = dev.Attribute(cu.DeviceAttributeMultiprocessorCount); optional(err) != nil {
		return info, err
	}
	info.ClockKHz, err = dev.Attribute(cu.DeviceAttributeClockRate)
	return info, optional(err)
}

// optional returns err, or nil if err means that the driver or the device does not have the
// property.
func optional(err error) error {
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, cu.ResultNotSupported) ||
		errors.Is(err, cu.ResultInvalidValue) {
		return nil
	}
	return err
}

func (d deviceInfo) text(w io.Writer) {
	fmt.Fprintf(w, "device   %d: %s, compute capability %s, %s GiB\n", d.Ordinal, d.Name, d.ComputeCapability,
		gibibytes(d.MemoryTotal))
}
