package driver

import "github.com/purecu/purecu/internal/ccall"

// NewCallback returns a callback for this driver that calls f. Each call runs on a new goroutine,
// and returns to the driver after f has returned. The callback is valid until Drop. After Drop the
// driver may still call it, without an effect. The error matches errors.ErrUnsupported, unless
// the process lacks a file descriptor for it.
//
// Go code must not be given to cuLogsRegisterCallback: the driver calls it in any call that fails, on
// the thread of the call, and Go may then move the stack that has the call's arguments.
func (t *Table) NewCallback(f func()) (Callback, error) {
	if t.soft != nil {
		n := ccall.NewFunc(f)
		return Callback{Data: uintptr(n), Go: n.CallHere, Apart: true}, nil
	}
	addr, err := ccall.Trampoline()
	if err != nil {
		return Callback{}, err
	}
	return Callback{Addr: addr, Data: uintptr(ccall.NewFunc(f))}, nil
}

// Drop releases the function of a callback that NewCallback returned.
func (c Callback) Drop() { ccall.Func(c.Data).Drop() }
