package cu_test

import (
	"testing"

	. "github.com/purecu/purecu/cu"
	. "github.com/purecu/purecu/internal/testrig"
)

// Rig is what examples see of the fake driver.
type Rig struct {
	Path   string // of the driver's library
	Driver *Driver
	GPU    *Context
	Stream *Stream
	Tell   func(name string, args ...any) // calls one of the fake driver's own functions
}

// ForeignHandle is what the fake driver takes for the handle of an event of another
// process: that with the number 0.
func ForeignHandle() (h IPCEventHandle) {
	copy(h[:], "purecu!")
	return h
}

// NewSoftRig returns a software driver with the usual things.
func NewSoftRig(t testing.TB) *Rig {
	t.Helper()
	r := NewSoft(t)
	return &Rig{"", r.Drv, r.GPU, r.S, func(string, ...any) { t.Fatal("the software driver cannot be told") }}
}

// NewRig returns the fake driver with the usual things, or skips the test.
func NewRig(t testing.TB) *Rig {
	t.Helper()
	r := newRig(t)
	return &Rig{r.path, r.drv, r.gpu, r.s, r.tell}
}
