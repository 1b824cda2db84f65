package cusim

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
	"github.com/purecu/purecu/internal/sim/environment"
	"github.com/purecu/purecu/internal/simnvml"
)

// Driver is a software driver. It is safe for concurrent use, and need not be closed.
type Driver struct {
	sim     *sim.Driver
	nvml    *simnvml.NVML
	scripts []func(*simnvml.NVML) // what NVML gets at first
	err     error                 // of the options
}

// New returns a driver. Without options it has one device, modelled on an H200, and the version
// CUDA 13.0. What is wrong with options is an error of cu.Open and nvml.Open: see [Driver.Err].
func New(opts ...Option) *Driver {
	d := &Driver{sim: sim.New()}
	for _, o := range opts {
		if o != nil {
			o(d)
		}
	}
	d.nvml = simnvml.New(d.sim)
	for _, s := range d.scripts {
		s(d.nvml)
	}
	return d
}

// Software returns the functions of the driver, or nil for a nil Driver. Tests may call them
// directly. To change some of them, embed the result in a type with other methods, and pass that to
// [driver.Provide]. A type that embeds the Driver itself changes nothing.
func (d *Driver) Software() driver.Software {
	if d == nil || d.sim == nil {
		return nil
	}
	return d.sim
}

// Option configures the driver that [New] returns.
type Option func(*Driver)

// with returns an option for the internal driver.
func with(o sim.Option) Option { return func(d *Driver) { o(d.sim) } }

// Devices makes the devices a number of H200s. The default is 1. It and [Profile] replace each other.
func Devices(n int) Option {
	return func(d *Driver) {
		d.err = nil
		sim.Devices(n)(d.sim)
	}
}

// DeviceAttribute sets an attribute of all devices. which is a CUdevice_attribute. The default
// values are those of its [Profile], and 0 for features that the driver does not have, such as sparse
// arrays. docs/testing.md lists them. An attribute does not change the behaviour of the driver.
func DeviceAttribute(which, value int) Option { return with(sim.DeviceAttribute(which, value)) }

// Version sets the CUDA version that the driver supports, in the driver's notation: 12080 is 12.8.
// Newer functions are missing. The default is 13000.
func Version(v int) Option { return with(sim.Version(v)) }

// VisibleDevices hides devices as the environment variable CUDA_VISIBLE_DEVICES does on an H200. list has the
// indices of devices, or their UUIDs or the beginnings of these, with commas between them. The program sees
// these devices only, in this order. An entry that names no device ends the list, as an entry for a MIG device
// does. If there is no device then, cuInit returns CUDA_ERROR_NO_DEVICE (100), and if one is there twice,
// CUDA_ERROR_INVALID_DEVICE (101).
func VisibleDevices(list string) Option { return with(sim.VisibleDevices(list)) }

// Environment returns the option that the environment variables of a process ask for: CUDA_VISIBLE_DEVICES,
// CUDA_DEVICE_ORDER, and those that begin with CUSIM_ (docs/testing.md). environ is a list as os.Environ
// returns it. What the variables make the driver say is written to the standard error. The error is for a
// variable with this prefix that does not exist, and for a value that cannot be understood.
//
// [New] does not read the environment, so that a program that chooses its options gets what it asks for.
// Package cusim/auto, cuprobe and the library for C do.
func Environment(environ []string) (Option, error) {
	opts, err := environment.Options(func() []string { return environ }, os.Stderr)
	if err != nil {
		return nil, fmt.Errorf("cusim: %w", err)
	}
	script, err := environment.NVML(environ)
	if err != nil {
		return nil, fmt.Errorf("cusim: %w", err)
	}
	return func(d *Driver) {
		for _, o := range opts {
			o(d.sim)
		}
		if script != nil {
			d.scripts = append(d.scripts, script)
		}
	}, nil
}

// Output sets where the text goes that kernels in PTX print. The default is the standard output, and the
// standard error for assertions that fail. nil discards it. Kernels of several streams may print at
// once: w gets each text in one call, one after the other. The kernel waits for w, which must not call
// the driver: that call could wait for the kernel.
func Output(w io.Writer) Option { return with(sim.Output(w)) }

// VirtualTime gives the driver a time that only [Driver.Advance] advances.
func VirtualTime() Option { return with(sim.VirtualTime()) }

// Advance advances the time of a driver with [VirtualTime]. Work completes in the order of its
// times, and timers fire.
func (d *Driver) Advance(by time.Duration) { d.sim.Advance(by) }

// Hold stops a stream until Release: work that has not begun stays pending. stream is the handle
// that cu.Stream.Handle returns.
func (d *Driver) Hold(stream uintptr) { d.sim.Hold(stream) }

// Release continues a stream that was stopped by Hold.
func (d *Driver) Release(stream uintptr) { d.sim.Release(stream) }

// Finish releases all held streams and, with [VirtualTime], advances the time until all work has
// completed that only needs time. It is for the end of a test.
func (d *Driver) Finish() { d.sim.Finish() }
