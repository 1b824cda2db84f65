package sim

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/compile"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// unknownKernels are kernels without an implementation that were launched.
type unknownKernels struct {
	accepted   bool // modules with them are loaded
	notify     func(name string, why error)
	unreported []unknownKernel // kernels for which notify still has to be called
	misuses    map[string]int  // the index of each kernel's misuse, or -1 if there are too many misuses
}

// unknownKernel is a kernel, and why its PTX cannot be executed.
type unknownKernel struct {
	name string
	why  error
}

// RefuseUnknownKernels is cusim.RefuseUnknownKernels.
func RefuseUnknownKernels() Option {
	return func(d *Driver) { d.unknown.accepted = true }
}

// OnUnknownKernel is cusim.OnUnknownKernel. The function also gets to know why the kernel's PTX cannot be
// executed.
func OnUnknownKernel(f func(name string, why error)) Option {
	return func(d *Driver) { d.unknown.notify = f }
}

// executable translates the kernels of a module that have no implementation. If one cannot be
// executed, it returns why.
func (d *Driver) executable(m *module, code *ptxCode) *ptxError {
	for i := range code.entries {
		e := &code.entries[i]
		f := m.functions[e.name]
		if _, written := d.kernels[e.name]; written || f.idle {
			continue
		}
		p := f.translated()
		if p.err == nil {
			setShared(f.attributes, p.kernel)
		} else if problem := d.unexecutable(e, p.err); problem != nil {
			return problem
		}
	}
	return nil
}

// unexecutable returns the error for a kernel that cannot be executed for a reason, or nil if it has an
// implementation, or if PTX has what the driver lacks, and an option says what happens at its launch.
func (d *Driver) unexecutable(e *ptxEntry, reason error) *ptxError {
	if _, written := d.kernels[e.name]; written || e.idle {
		return nil
	}
	at, code := e.at, driver.ResultInvalidPTX
	what := reason.Error()
	if err, is := errors.AsType[*compile.Error](reason); is {
		if what = err.What; err.Line > 0 {
			at = err.Pos
		}
		if err.Unknown && (d.unknown.accepted || d.unknown.notify != nil) {
			return nil
		}
		if err.Unknown {
			code, what = driver.ResultNotSupported, "the software driver cannot execute "+what
		}
	}
	problem := fatal(at, "kernel %s: %s", e.name, what)
	problem.code = code
	return problem
}

// setShared sets the attributes that follow from the shared memory of a kernel.
func setShared(attributes map[int32]int32, k *vm.Kernel) {
	shared := int32(k.Static)
	attributes[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = shared
	attributes[driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = max(sharedUnlessMore-shared, 0)
}

// known returns ok if a kernel can be launched: if it has an implementation, or its PTX only returns or can be
// executed. No other launch succeeds, as it would do nothing. It is a misuse, one for each name, which counts the
// launches.
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
			const what = "kernel %q is unknown, and its launch is refused: say what it does with WithKernel, which takes an empty Kernel if that is nothing; its PTX cannot be executed: %v"
			u.misuses[f.name] = n
			d.misuses = append(d.misuses, Misuse{Op: op, Handle: uintptr(f.handle), Count: 1,
				What: fmt.Sprintf(what, f.name, program.err)})
		}
		if u.notify != nil {
			u.unreported = append(u.unreported, unknownKernel{f.name, program.err})
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
