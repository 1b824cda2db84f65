package cusim

import (
	"time"

	"github.com/purecu/purecu/internal/sim"
)

// Fault makes calls fail, or take their time.
type Fault struct {
	// Function is the C function, such as "cuEventCreate", in any version; "" stands
	// for all but cuDriverGetVersion, cuGetErrorName and cuGetErrorString.
	Function string
	// Nth says which call it is, counted from 1 and from when the fault was set; 0 is
	// the first.
	Nth int
	// Every makes all later calls fail too.
	Every bool
	// Code is the CUresult that the call returns instead of doing anything. It may be
	// one that nobody knows. 0 lets the call go on.
	Code int
	// Slow is how long the call takes before anything else, in the driver's time.
	Slow time.Duration
}

// Faults makes calls fail, or take their time. See also [Driver.Inject].
func Faults(faults ...Fault) Option {
	return func(d *Driver) {
		for _, f := range faults {
			d.Inject(f)
		}
	}
}

// FaultRate makes calls of functions, or of all if none is named, fail with a code
// with the probability p. Which ones depends on the seed, and on the order of the
// calls of all these functions.
func FaultRate(seed uint64, p float64, code int, functions ...string) Option {
	return with(sim.FaultRate(seed, p, code, functions...))
}

// Inject sets a fault from now on.
func (d *Driver) Inject(f Fault) { d.sim.Inject(sim.Fault(f)) }

// ClearFaults takes back all faults that were set. A driver that is lost stays lost.
func (d *Driver) ClearFaults() { d.sim.ClearFaults() }

// LoseDevice makes the driver fail as if a device had fallen off the bus: [Driver.Poison]
// with CUDA_ERROR_DEVICE_UNAVAILABLE (46). What NVIDIA's driver returns differs from one
// accident to the next.
func (d *Driver) LoseDevice() { d.sim.LoseDevice() }

// Poison makes the driver fail with a code, as a kernel does that had a fault: what there
// was to do is not done, and from then on every call in a context returns the code, whatever
// the context's device is. So it was seen of H200s: an error of one of them is an error of
// all, for the process. The first code stays.
func (d *Driver) Poison(code int) { d.sim.Poison(code) }
