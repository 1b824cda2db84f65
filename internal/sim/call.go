package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// begin begins a call. It locks the driver, which the caller unlocks, and completes the work that
// is due. If its result is not ok, the call has to return it at once.
func (d *Driver) begin(name string) driver.Result {
	if r := d.enter(name); r != ok {
		return r
	}
	if !d.ready {
		return driver.ResultNotInitialized
	}
	d.engine.CatchUp()
	d.reclaim()
	d.space.building = false
	return ok
}

// enter is begin for a call that needs no cuInit.
func (d *Driver) enter(name string) driver.Result {
	d.mu.Lock()
	if h := d.host(); h != nil && !h.permits(name) {
		return driver.ResultNotPermitted
	}
	if len(d.faults) > 0 {
		return d.fault(name)
	}
	return ok
}

// about begins a call with an object as an argument.
func about[T any](d *Driver, name string, k kind, h uintptr) (*T, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	return find[T](d, name, k, h)
}

// permits reports whether the function may make a call. An H100 permits these calls:
// testdata/hostfunc-h100-cuda13.0.tsv.
func (h *hostCall) permits(name string) bool {
	switch name {
	case "cuEventQuery", "cuEventRecord", "cuEventRecordWithFlags", "cuEventDestroy", "cuEventSynchronize",
		"cuEventElapsedTime", "cuStreamQuery", "cuStreamSynchronize", "cuStreamWaitEvent",
		"cuStreamGetFlags", "cuStreamDestroy", "cuMemsetD8Async", "cuLaunchHostFunc":
		return true
	}
	return h.apart
}

// host returns the host function that makes the present call, or nil. It recognises the function by
// the thread, to which the function's goroutine is locked.
func (d *Driver) host() *hostCall {
	if len(d.hosts) == 0 {
		return nil
	}
	return d.hosts[driver.CurrentThread()]
}

// reclaim gives memory back that does not exist any more: contents, files, and parts of the files of
// pools. What is executed at present without the driver's lock, a kernel or a copy, may access such
// memory. Contents wait for what had begun when they were retired, and the others, which are rare, until
// nothing is executed. The driver is unlocked while memory is unmapped, and files are closed or become
// smaller, as this may take long: a call does this at its beginning or at its end.
func (d *Driver) reclaim() {
	a, e := &d.space, &d.engine
	var files []*memoryFile
	if e.Executing() == 0 {
		files, a.closing = a.closing, nil
	}
	for i := range a.retired {
		if r := &a.retired[i]; r.before == 0 {
			r.before = e.Starts()
		}
	}
	var mapped []*mem.Content
	a.retired = slices.DeleteFunc(a.retired, func(r retired) bool {
		switch {
		case !e.EndedUpTo(r.before):
			return false
		case r.freed != nil:
			mapped = append(mapped, a.stale.Keep(r.Content, *r.freed, d.wroteStale)...)
		case r.Mapped():
			mapped = append(mapped, r.Content)
		default:
			r.Release()
		}
		return true
	})
	if len(files)+len(mapped) > 0 {
		d.unlocked(func() {
			for _, c := range mapped {
				c.Release()
			}
			for _, f := range files {
				d.closeFile(f)
				a.budget.Give(f.charged)
			}
		})
	}
	for e.Executing() == 0 {
		i := slices.IndexFunc(a.shrunk, func(p *memPool) bool { return !p.growing })
		if i < 0 {
			break
		}
		p := a.shrunk[i]
		a.shrunk = slices.Delete(a.shrunk, i, i+1)
		if p.file != nil {
			p.shrink(d)
		}
	}
}
