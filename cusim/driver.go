package cusim

import (
	"io"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
)

// Driver is a software driver. It is safe for concurrent use, and need not be closed.
type Driver struct{ sim *sim.Driver }

// New returns a driver. Without options it has one device, modelled on an H200, and the version
// CUDA 13.0.
func New(opts ...Option) *Driver {
	d := &Driver{sim.New()}
	for _, o := range opts {
		if o != nil {
			o(d)
		}
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

// Devices sets the number of devices. The default is 1.
func Devices(n int) Option { return with(sim.Devices(n)) }

// DeviceAttribute sets an attribute of all devices. which is a CUdevice_attribute. The default
// values are those of an H200, and 0 for features that the driver does not have, such as sparse
// arrays. docs/testing.md lists them. An attribute does not change the behaviour of the driver.
func DeviceAttribute(which, value int) Option { return with(sim.DeviceAttribute(which, value)) }

// Version sets the CUDA version that the driver supports, in the driver's notation: 12080 is 12.8.
// Newer functions are missing. The default is 13000.
func Version(v int) Option { return with(sim.Version(v)) }

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
