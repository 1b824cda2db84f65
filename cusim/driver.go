package cusim

import (
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
)

// Driver is a software driver. It is safe for concurrent use, and needs no closing.
type Driver struct{ sim *sim.Driver }

// New returns a driver: one device, modelled on an H200, of CUDA 13.0, unless options say
// otherwise.
func New(opts ...Option) *Driver {
	d := &Driver{sim.New()}
	for _, o := range opts {
		if o != nil {
			o(d)
		}
	}
	return d
}

// Software returns the functions of the driver. Tests call them directly, or pass a
// driver that changes some of them to [driver.Provide]. The methods of a type that
// embeds the Driver change none of them. It returns nil for a nil driver.
func (d *Driver) Software() driver.Software {
	if d == nil || d.sim == nil {
		return nil
	}
	return d.sim
}

// Option changes what [New] makes.
type Option func(*Driver)

// with is an option of the driver itself.
func with(o sim.Option) Option { return func(d *Driver) { o(d.sim) } }

// Devices sets the number of devices; there is one otherwise.
func Devices(n int) Option { return with(sim.Devices(n)) }

// DeviceAttribute sets an attribute that all devices have, by the number that CUDA has for
// it (CUdevice_attribute). Without it they are those of an H200, and 0 for what the driver
// does not have, such as managed memory and memory pools; docs/testing.md lists them. What a
// device can do does not follow an attribute that is set.
func DeviceAttribute(which, value int) Option { return with(sim.DeviceAttribute(which, value)) }

// Version sets the CUDA version that the driver supports, as the driver counts:
// 12080 is 12.8. Functions that are newer are missing, as they are from a driver of
// that age. It is 13000 otherwise.
func Version(v int) Option { return with(sim.Version(v)) }

// VirtualTime makes time stand still until [Driver.Advance] moves it.
func VirtualTime() Option { return with(sim.VirtualTime()) }

// Advance moves the time of a driver with [VirtualTime]. What completes meanwhile
// does so in the order of its times. Timers fire.
func (d *Driver) Advance(by time.Duration) { d.sim.Advance(by) }

// Hold keeps a stream from beginning anything until Release: what is enqueued on
// it stays pending. The stream is named by its handle, which cu.Stream.Handle returns.
func (d *Driver) Hold(stream uintptr) { d.sim.Hold(stream) }

// Release lets a stream go on that was held.
func (d *Driver) Release(stream uintptr) { d.sim.Release(stream) }

// Finish releases every stream that is held, and, with [VirtualTime], moves the time
// until nothing is pending that the time alone completes: for the end of a test.
func (d *Driver) Finish() { d.sim.Finish() }
