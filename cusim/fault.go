package cusim

import (
	"time"

	"github.com/purecu/purecu/internal/sim"
)

// Fault makes calls fail, or last longer.
type Fault struct {
	// Function is the name of a C function, such as "cuEventCreate", and means all its versions. ""
	// means all functions but cuDriverGetVersion, cuGetErrorName, cuGetErrorString and those of its log.
	// A name that CUDA does not have is a [Misuse]. Package cu may make more calls than the program:
	// after CUDA_ERROR_OUT_OF_MEMORY it tries an allocation again, so let such a fault be Every.
	Function string
	// Nth is the number of the affected call since the fault was set. 0 and 1 are the first call.
	Nth int
	// Every extends the fault to all later calls.
	Every bool
	// Code is the CUresult that the call returns, without an effect. It need not be a code that
	// CUDA defines. With 0 the call is made.
	Code int
	// Slow is a delay at the beginning of the call, in the driver's time.
	Slow time.Duration
	// Log is what the driver writes to its log about a call that returns Code. It becomes a part of
	// the cu.Error. It needs a driver for CUDA 12.9 or newer.
	Log string
}

// Faults sets faults from the beginning. See also [Driver.Inject].
func Faults(faults ...Fault) Option {
	return func(d *Driver) {
		for _, f := range faults {
			d.Inject(f)
		}
	}
}

// FaultRate makes calls of the given functions, or of all functions, fail with a code with the
// probability p. The seed, and the order of the calls of these functions, decide which calls fail.
func FaultRate(seed uint64, p float64, code int, functions ...string) Option {
	return with(sim.FaultRate(seed, p, code, functions...))
}

// Inject sets a fault from now on.
func (d *Driver) Inject(f Fault) { d.sim.Inject(sim.Fault(f)) }

// ClearFaults removes all faults, also those of NVML. It does not undo LoseDevice, LoseGPU and Poison.
func (d *Driver) ClearFaults() {
	d.sim.ClearFaults()
	d.nvml.ClearFaults()
}

// LoseDevice makes the driver fail as if a device were lost: it is [Driver.Poison] with
// CUDA_ERROR_DEVICE_UNAVAILABLE (46). NVIDIA's driver may return other codes as well.
func (d *Driver) LoseDevice() { d.sim.LoseDevice() }

// Poison makes the driver fail with a code, as after a kernel with a fault. Pending work is not
// done. From then on every call in a context returns the code. This includes contexts of other
// devices, as was observed with H200s. Later calls of Poison have no effect.
func (d *Driver) Poison(code int) { d.sim.Poison(code) }
