package cu

import "testing"

// Rig is what tests outside of the package see of the fake driver.
type Rig struct {
	Path   string // of the driver's library
	Driver *Driver
	GPU    *Context
	Stream *Stream
	Tell   func(name string, args ...any) // calls one of the fake driver's own functions
}

// NewRig returns the fake driver with the usual things, or skips the test.
func NewRig(t testing.TB) *Rig {
	t.Helper()
	r := newRig(t)
	return &Rig{r.path, r.drv, r.gpu, r.s, r.tell}
}
