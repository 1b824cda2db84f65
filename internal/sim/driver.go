package sim

import (
	"slices"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
)

var _ driver.Software = (*Driver)(nil)

// Devices is cusim.Devices.
func Devices(n int) Option { return GPUs(slices.Repeat([]*profile.GPU{profile.Default()}, n)) }

// GPUs sets the devices.
func GPUs(gpus []*profile.GPU) Option {
	return func(d *Driver) {
		d.installed = nil
		for i, g := range gpus {
			d.installed = append(d.installed, newDevice(i, g))
		}
		d.devices = d.installed
	}
}

// Version is cusim.Version.
func Version(v int) Option {
	return func(d *Driver) { d.version = int32(v) }
}

// VirtualTime is cusim.VirtualTime.
func VirtualTime() Option {
	return func(d *Driver) { d.engine.Clock.Virtual = true }
}

// New is cusim.New.
func New(opts ...Option) *Driver {
	d := &Driver{machine: machine{version: 13000}, kernelTable: kernelTable{kernels: make(map[string]Kernel),
		instructions: make(map[string]uint64), goLaunches: make(map[string]uint64)},
		failures: failures{faults: make(map[string]*fault)}}
	d.engine.Init(&d.mu)
	d.threads.none.anyThread = true
	d.readClock, d.print = d.engine.Clock.At, d.output
	d.allocateFile, d.punchFile, d.closeFile = reserveFile, (*memoryFile).punch, (*memoryFile).close
	d.newIPCFile = newIPCFile
	Devices(1)(d)
	for _, o := range opts {
		if o != nil {
			o(d)
		}
	}
	return d
}

// Clock returns the driver's clock, which package cu uses for waits and measurements.
func (d *Driver) Clock() driver.Clock { return &d.engine.Clock }

// Advance advances the virtual time. Work completes in the order of its times, and timers fire.
func (d *Driver) Advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.engine.Clock.Virtual && by >= 0 {
		d.engine.Pass(by)
	}
}

// Misuses returns all misuses so far.
func (d *Driver) Misuses() []Misuse {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reclaim()
	d.space.stale.Check(d.wroteStale)
	return append([]Misuse(nil), d.misuses...)
}

// Init is cuInit.
func (d *Driver) Init(_ *driver.Thread, flags uint32) driver.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.fault("cuInit"); r != ok {
		return r
	}
	if flags != 0 {
		return driver.ResultInvalidValue
	}
	if !d.polls {
		if r := startPoller(); r != ok {
			return r
		}
		d.polls = true
	}
	if !d.ready {
		if r := d.see(); r != ok {
			return r
		}
	}
	d.ready = true
	d.opens++
	return ok
}

// DriverGetVersion is cuDriverGetVersion.
func (d *Driver) DriverGetVersion(*driver.Thread) (int32, driver.Result) { return d.version, ok }

// GetErrorName is cuGetErrorName.
func (d *Driver) GetErrorName(_ *driver.Thread, code driver.Result) (string, driver.Result) {
	if !d.hasResult(code) {
		return "", driver.ResultInvalidValue
	}
	return code.Name(), ok
}

// GetErrorString is cuGetErrorString.
func (d *Driver) GetErrorString(_ *driver.Thread, code driver.Result) (string, driver.Result) {
	if !d.hasResult(code) {
		return "", driver.ResultInvalidValue
	}
	return code.Text(), ok
}

// hasResult reports whether the driver's version has a result.
func (d *Driver) hasResult(code driver.Result) bool {
	since := int32(0)
	switch code {
	case driver.ResultStreamDetached:
		since = 13010
	case driver.ResultGraphRecaptureFailure:
		since = 13030
	case driver.ResultMulticastResourceFull, driver.ResultInsufficientLoaderVersion, driver.ResultFabricNotReady:
		since = 13040
	}
	return code.Name() != "" && d.version >= since
}

// MeetFault returns the result of a fault for a function's name, or ok. It is for functions that C
// code implements with functions of this driver. Faults for all functions, and the check whether a
// host function may make the call, belong to the latter.
func (d *Driver) MeetFault(function string) driver.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.host(); h != nil && !h.permits(function) {
		return driver.ResultNotPermitted
	}
	return d.meet(function, d.faults[function])
}
