package sim

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// RefuseUnknownKernels is cusim.RefuseUnknownKernels.
func RefuseUnknownKernels() Option {
	return func(d *Driver) { d.unknown.accepted = true }
}

// OnUnknownKernel is cusim.OnUnknownKernel. The function also gets to know why the kernel's PTX cannot be
// executed.
func OnUnknownKernel(f func(name string, why error)) Option {
	return func(d *Driver) { d.unknown.notify = f }
}

// canRun returns ok if a kernel can be launched: if it has an implementation, or its PTX only returns or can be
// executed. No other launch succeeds, as it would do nothing. It is a misuse, one for each name, which counts the
// launches.
func (d *Driver) canRun(name string, f *function) driver.Result {
	if f.Idle || d.replacedByGo(f.Name) {
		return ok
	}
	program := f.linked()
	if program.Err == nil {
		return ok
	}
	u := &d.unknown
	switch i, seen := u.misuses[f.Name]; {
	case !seen:
		if u.misuses == nil {
			u.misuses = make(map[string]int)
		}
		u.misuses[f.Name] = -1
		if n := len(d.misuses); n < maxMisuses {
			const what = "kernel %q is unknown, and its launch is refused: say what it does with WithKernel, which takes an empty Kernel if that is nothing; its PTX cannot be executed: %v"
			u.misuses[f.Name] = n
			d.misuses = append(d.misuses, Misuse{Op: name, Handle: uintptr(f.handle), Count: 1,
				What: fmt.Sprintf(what, f.Name, program.Err)})
		}
		if u.notify != nil {
			u.unreported = append(u.unreported, unknownKernel{f.Name, program.Err})
		}
	case i >= 0:
		d.misuses[i].Count++
	}
	return driver.ResultNotSupported
}

// reportUnknown calls the function of OnUnknownKernel for new kernels. The driver is not locked.
func (d *Driver) reportUnknown() {
	if d.unknown.notify == nil { // set by an option, and never changed
		return
	}
	d.mu.Lock()
	list := d.unknown.unreported
	d.unknown.unreported = nil
	d.mu.Unlock()
	for _, k := range list {
		d.unknown.notify(k.name, k.why)
	}
}
