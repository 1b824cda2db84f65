package cusim

import (
	"time"

	"github.com/purecu/purecu/internal/sim"
)

// Misuse is a mistake of a program: a call in which NVIDIA's driver may crash or never return, a launch
// of a kernel without an implementation, a wrong access of a kernel, what [CheckKernels] finds, or a
// [Fault] of a function that CUDA does not have.
type Misuse struct {
	// Op is the name of the C function.
	Op string
	// Handle is the handle in the arguments of the call.
	Handle uintptr
	// What describes the problem.
	What string
	// Destroyed is the place in the program where the handle was destroyed, or "".
	Destroyed string
	// Count is how often the same misuse was repeated without another one in between.
	Count int
}

// String returns a text with all fields.
func (m Misuse) String() string { return sim.Misuse(m).String() }

// Misuses returns all misuses so far.
func (d *Driver) Misuses() []Misuse {
	var list []Misuse
	for _, m := range d.sim.Misuses() {
		list = append(list, Misuse(m))
	}
	return list
}

// Blocked is a call that waits for work that cannot continue by itself: a stream is held, virtual
// time does not advance, a value in memory is not written, or a host function does not return.
type Blocked struct {
	// Function is the name of the C function, such as "cuMemFree".
	Function string
	// Handle is the handle or the address in the arguments of the call, or 0.
	Handle uintptr
	// Held are the streams that [Driver.Hold] has stopped.
	Held []uintptr
	// Reasons say what the call waits for, and how that can continue.
	Reasons []string
	// Caller is a stack trace of the call, with the functions outside of the driver.
	Caller string
	// For is how long the call has waited, by the machine's clock, since work was enqueued, a
	// stream was released, or the virtual time was advanced.
	For time.Duration
}

// String returns a text with all fields.
func (b Blocked) String() string { return sim.Blocked(b).String() }

// Blocked returns the calls that wait for work that cannot continue by itself.
func (d *Driver) Blocked() []Blocked {
	var list []Blocked
	for _, b := range d.sim.Blocked() {
		list = append(list, Blocked(b))
	}
	return list
}

// Census returns the number of objects that were created and not destroyed, by kind: "context",
// "stream", "event", "module", "library", "linker", "device memory", "host memory", "managed memory",
// "memory pool", "physical memory", "address range", "mapping", "graph", "executable graph", "user object",
// "green context", "external memory", "external semaphore". Kinds without objects are omitted. Objects of a
// destroyed context do not count.
//
// # Lost devices
//
// After the loss of the device the result is empty, as a program then cannot destroy anything. The
// device is lost after [Driver.LoseDevice], after [Driver.Poison] with a code that is not sticky,
// and with a [Fault] that makes all calls of all functions fail with a code that means a loss.
func (d *Driver) Census() map[string]int { return d.sim.Census() }

// TB contains the methods of testing.TB that [Driver.Check] needs.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Check reports the objects that were not destroyed, and the misuses, as errors of a test.
func (d *Driver) Check(t TB) {
	t.Helper()
	d.sim.Check(t)
}

// Instructions returns how many instructions the warps of all launches of a kernel in PTX have
// executed, on all devices. A kernel with a Go function, and one that only returns, has none. The number
// is the same in each run, unless threads wait for each other or for the program. Tests may call it at
// any time.
func (d *Driver) Instructions(kernel string) uint64 { return d.sim.Instructions(kernel) }

// GoLaunches returns how many launches of a kernel have run a Go function of [WithKernel] in place of its
// PTX, on all devices. Tests may call it at any time.
func (d *Driver) GoLaunches(kernel string) uint64 { return d.sim.GoLaunches(kernel) }
