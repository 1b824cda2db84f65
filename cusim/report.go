package cusim

import (
	"time"

	"github.com/purecu/purecu/internal/sim"
)

// Misuse is a call that NVIDIA's driver may crash in, or never return from, or the launch
// of a kernel that nobody has written in Go.
type Misuse struct {
	// Op is the C function.
	Op string
	// Handle is what it was called with.
	Handle uintptr
	// What says what is wrong with the handle.
	What string
	// Destroyed is where the handle was destroyed, if it was.
	Destroyed string
	// Count is how often it happened, one time after the other.
	Count int
}

// String says what was misused, and where it was destroyed.
func (m Misuse) String() string { return sim.Misuse(m).String() }

// Misuses returns what was misused so far.
func (d *Driver) Misuses() []Misuse {
	var list []Misuse
	for _, m := range d.sim.Misuses() {
		list = append(list, Misuse(m))
	}
	return list
}

// Blocked is a call that waits for work which does not go on by itself: a stream is held,
// the virtual time stands still, memory does not get a value, or a host function has not
// returned.
type Blocked struct {
	// Function is the C function, such as "cuMemFree".
	Function string
	// Handle is what it was called with: a handle, an address, or 0.
	Handle uintptr
	// Held are the streams that [Driver.Hold] holds, and [Driver.Release] lets go on.
	Held []uintptr
	// Reasons say what the call waits for, and how that goes on.
	Reasons []string
	// Caller is where the call comes from: the functions outside of the driver, as in a
	// stack trace.
	Caller string
	// For is how long the call has waited, by the machine's clock, since anything was
	// enqueued, a stream was released, or the virtual time was moved.
	For time.Duration
}

// String says who waits, for what, and how that goes on.
func (b Blocked) String() string { return sim.Blocked(b).String() }

// Blocked returns the calls that wait for what does not go on by itself.
func (d *Driver) Blocked() []Blocked {
	var list []Blocked
	for _, b := range d.sim.Blocked() {
		list = append(list, Blocked(b))
	}
	return list
}

// Census counts what was made and not destroyed, by kind: "context", "stream",
// "event", "module", "device memory", "host memory", "graph", "executable graph",
// "green context". Kinds of which there is nothing are left out. What was made in a context
// that is destroyed went with it, though its handles have to be left alone.
//
// It counts nothing after the loss of the device ([Driver.LoseDevice], [Driver.Poison] with a
// code that is not sticky, or a [Fault] that makes every call of every function fail with a
// code that means a loss): a program that closes everything then cannot destroy anything.
func (d *Driver) Census() map[string]int { return d.sim.Census() }

// TB is what [Driver.Check] needs of a testing.TB.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Check reports what was not destroyed, and what was misused, as errors of a test.
func (d *Driver) Check(t TB) {
	t.Helper()
	d.sim.Check(t)
}
