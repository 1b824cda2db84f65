package sim

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// unknownKernels are kernels without an implementation that were launched.
type unknownKernels struct {
	refused    bool
	notify     func(name string)
	unreported []string       // kernels for which notify still has to be called
	misuses    map[string]int // the index of each kernel's misuse, or -1 if there are too many misuses
}

// RefuseUnknownKernels is cusim.RefuseUnknownKernels.
func RefuseUnknownKernels() Option {
	return func(d *Driver) { d.unknown.refused = true }
}

// OnUnknownKernel is cusim.OnUnknownKernel.
func OnUnknownKernel(f func(name string)) Option {
	return func(d *Driver) { d.unknown.notify = f }
}

// known returns ok if a kernel can be launched. It records a misuse for a kernel without an
// implementation, unless its PTX only returns or can be executed. There is one misuse for each name,
// which counts the launches.
func (d *Driver) known(op string, f *function) driver.Result {
	if _, written := d.kernels[f.name]; written || f.idle {
		return ok
	}
	program := f.translated()
	if program.err == nil {
		return ok
	}
	u := &d.unknown
	switch i, seen := u.misuses[f.name]; {
	case !seen:
		if u.misuses == nil {
			u.misuses = make(map[string]int)
		}
		u.misuses[f.name] = -1
		if n := len(d.misuses); n < maxMisuses {
			what := "kernel %q is unknown, and its launch does nothing"
			if u.refused {
				what = "kernel %q is unknown, and its launch is refused"
			}
			what += ": say what it does with WithKernel, which takes an empty Kernel if that is nothing; its PTX cannot be executed: %v"
			u.misuses[f.name] = n
			d.misuses = append(d.misuses, Misuse{Op: op, Handle: uintptr(f.handle), Count: 1,
				What: fmt.Sprintf(what, f.name, program.err)})
		}
		if u.notify != nil {
			u.unreported = append(u.unreported, f.name)
		}
	case i >= 0:
		d.misuses[i].Count++
	}
	if u.refused {
		return driver.ResultNotSupported
	}
	return ok
}

// reportUnknown calls the function of OnUnknownKernel for new kernels. The driver is not locked.
func (d *Driver) reportUnknown() {
	if d.unknown.notify == nil { // set by an option, and never changed
		return
	}
	d.mu.Lock()
	names := d.unknown.unreported
	d.unknown.unreported = nil
	d.mu.Unlock()
	for _, name := range names {
		d.unknown.notify(name)
	}
}
