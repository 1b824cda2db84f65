package sim

import (
	gocontext "context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/descriptor"
	"github.com/purecu/purecu/internal/sim/graph"
)

// This file has semaphores of other APIs, for which other code of the process stands in.

// NewExternalSemaphore is cusim.Driver.NewExternalSemaphore.
func (d *Driver) NewExternalSemaphore(timeline bool) (*ExternalSemaphore, error) {
	if !canShareMemory {
		return nil, errors.ErrUnsupported
	}
	f, err := d.newMemoryFile(0, 0)
	if err != nil {
		return nil, fmt.Errorf("cusim: %s: %w", shortage(err, 0), err)
	}
	id, _ := fileOf(f.descriptor())
	x := &ExternalSemaphore{d: d, timeline: timeline, changed: make(chan struct{}), file: f, id: id}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.semaphores == nil {
		d.semaphores = make(map[fileID]*ExternalSemaphore)
	}
	d.semaphores[id] = x
	return x, nil
}

// File is cusim.ExternalSemaphore.File.
func (x *ExternalSemaphore) File() (*os.File, error) {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	if x.file == nil {
		return nil, os.ErrClosed
	}
	fd, err := x.file.duplicate()
	if err != nil {
		return nil, fmt.Errorf("cusim: %s: %w", shortage(err, 0), err)
	}
	return os.NewFile(uintptr(fd), "semaphore"), nil
}

// Close is cusim.ExternalSemaphore.Close.
func (x *ExternalSemaphore) Close() error {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	if x.file != nil {
		delete(x.d.semaphores, x.id)
		x.file.close()
		x.file = nil
	}
	return nil
}

// Value is cusim.ExternalSemaphore.Value.
func (x *ExternalSemaphore) Value() uint64 {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	x.d.engine.CatchUp()
	return x.value
}

// Signal is cusim.ExternalSemaphore.Signal.
func (x *ExternalSemaphore) Signal(value uint64) {
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	x.d.engine.CatchUp()
	x.signal(value)
	x.d.engine.Moved()
	x.d.engine.CatchUp() // streams that wait go on
	x.d.engine.Arm()
}

// Wait is cusim.ExternalSemaphore.Wait.
func (x *ExternalSemaphore) Wait(ctx gocontext.Context, value uint64) error {
	for {
		x.d.mu.Lock()
		x.d.engine.CatchUp()
		passed, changed := x.passes(value), x.changed
		if passed {
			x.wait()
		}
		x.d.mu.Unlock()
		if passed {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// signal does what a signal does. As on a GPU, a timeline may get a smaller value.
func (x *ExternalSemaphore) signal(value uint64) {
	if x.value = 1; x.timeline {
		x.value = value
	}
	close(x.changed)
	x.changed = make(chan struct{})
}

// passes reports whether a wait for a value ends.
func (x *ExternalSemaphore) passes(value uint64) bool {
	if x.timeline {
		return x.value >= value
	}
	return x.value != 0
}

// wait does what the end of a wait does.
func (x *ExternalSemaphore) wait() {
	if !x.timeline {
		x.value = 0
	}
}

// importedSemaphore is a CUexternalSemaphore.
type importedSemaphore struct {
	handle driver.ExternalSemaphore
	ctx    *context
	of     *ExternalSemaphore
	gone   bool
}

// ImportExternalSemaphore is cuImportExternalSemaphore. If it succeeds, the file descriptor is the driver's. A
// GPU's driver does not find out that a semaphore is of another type. As there, the file of memory is imported as
// a semaphore.
func (d *Driver) ImportExternalSemaphore(th *driver.Thread,
	desc driver.ExternalSemaphoreHandleDesc) (driver.ExternalSemaphore, driver.Result) {
	const name = "cuImportExternalSemaphore"
	defer d.mu.Unlock()
	c, r := d.changing(name, th)
	fd := *desc.Handle.Fd()
	timeline := desc.Type == driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
	switch {
	case r != ok:
		return 0, r
	case desc.Type <= 0, desc.Type > driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32, desc.Flags != 0,
		timeline && fd < 0:
		return 0, driver.ResultInvalidValue
	case !timeline && desc.Type != driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, !canShareMemory:
		return 0, driver.ResultNotSupported
	}
	id, open := fileOf(fd)
	x := d.semaphores[id]
	switch {
	case !open:
		return 0, driver.ResultUnknown
	case x != nil:
	case isMemoryFile(sizeOfFile(int(fd))):
		x = &ExternalSemaphore{d: d, timeline: timeline, changed: make(chan struct{})}
	default:
		return 0, driver.ResultUnknown
	}
	if x.timeline != timeline {
		const text = "a timeline semaphore is imported as a binary one, or a binary one as a timeline"
		d.misuse(name, uintptr(fd), text, nil)
	}
	descriptor.Close(fd)
	s := &importedSemaphore{ctx: c, of: x}
	s.handle = driver.ExternalSemaphore(d.objects.add(externalSemaphoreKind, s))
	return s.handle, ok
}

// DestroyExternalSemaphore is cuDestroyExternalSemaphore. It waits for all work in the context.
func (d *Driver) DestroyExternalSemaphore(th *driver.Thread, h driver.ExternalSemaphore) driver.Result {
	const name = "cuDestroyExternalSemaphore"
	defer d.mu.Unlock()
	s, r := leaving[importedSemaphore](d, name, th, externalSemaphoreKind, uintptr(h))
	if r == ok && s.ctx.destroyed {
		r = d.of(name, s.ctx, uintptr(h), externalSemaphoreKind)
	}
	if r != ok {
		return r
	}
	r = d.drain(name, uintptr(h), s.ctx)
	if r == driver.ResultNotPermitted || s.gone {
		return r
	}
	s.gone = true
	d.objects.remove(uintptr(h))
	return r
}

// semaphoreOps is the work of signals of semaphores, or of waits for them.
type semaphoreOps struct {
	commonWork
	d       *Driver
	typ     graph.Type // graph.SignalNode or graph.WaitNode
	list    []*importedSemaphore
	handles []driver.ExternalSemaphore
	signals []driver.ExternalSemaphoreSignalParams // nil for waits
	waits   []driver.ExternalSemaphoreWaitParams
}

// semaphoreOps returns operations on semaphores with handles.
func (d *Driver) semaphoreOps(name string, t graph.Type, handles []driver.ExternalSemaphore,
	signals []driver.ExternalSemaphoreSignalParams, waits []driver.ExternalSemaphoreWaitParams) (*semaphoreOps,
	driver.Result) {
	o := &semaphoreOps{d: d, typ: t, handles: slices.Clone(handles), signals: slices.Clone(signals),
		waits: slices.Clone(waits)}
	for _, h := range handles {
		if h == 0 {
			d.misuse(name, 0, "an external semaphore is NULL", nil)
			return nil, driver.ResultInvalidValue
		}
		s, r := find[importedSemaphore](d, name, externalSemaphoreKind, uintptr(h))
		if r != ok {
			return nil, driver.ResultInvalidValue
		}
		o.list = append(o.list, s)
	}
	return o, ok
}

// Type implements graph.Work.
func (o *semaphoreOps) Type() graph.Type { return o.typ }

func (o *semaphoreOps) context() *context {
	if len(o.list) == 0 {
		return nil
	}
	return o.list[0].ctx
}

// Updatable implements graph.Work: there must be as many semaphores.
func (o *semaphoreOps) Updatable(other graph.Work) bool {
	return len(o.list) == len(other.(*semaphoreOps).list)
}

// Replaceable implements graph.Work, as Updatable does.
func (o *semaphoreOps) Replaceable(other graph.Work) bool { return o.Updatable(other) }

func (o *semaphoreOps) op(graph.Values) *op {
	if len(o.list) == 0 {
		return &op{}
	}
	var steps []*op
	for i, s := range o.list {
		if s.gone || s.ctx.destroyed { // on an H100 nothing happens
			o.d.misuse("cuGraphLaunch", uintptr(s.handle), "the external semaphore of a node was destroyed", nil)
			continue
		}
		step := &op{}
		if x := s.of; o.signals != nil {
			value := o.signals[i].Params.Fence.Value
			step.Visible, step.Effect = true, func() { x.signal(value) }
		} else {
			value := o.waits[i].Params.Fence.Value
			step.Ready, step.Effect = func() bool { return x.passes(value) }, x.wait
		}
		steps = append(steps, step)
	}
	return sequence(steps)
}

// enqueueSemaphores enqueues operations on a stream of the semaphores' context.
func (d *Driver) enqueueSemaphores(name string, th *driver.Thread, h driver.Stream, t graph.Type,
	handles []driver.ExternalSemaphore, signals []driver.ExternalSemaphoreSignalParams,
	waits []driver.ExternalSemaphoreWaitParams) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	flags := slices.ContainsFunc(signals, func(p driver.ExternalSemaphoreSignalParams) bool { return p.Flags != 0 }) ||
		slices.ContainsFunc(waits, func(p driver.ExternalSemaphoreWaitParams) bool { return p.Flags != 0 })
	switch {
	case r != ok:
		return r
	case s.capture != nil && s.capture.invalidated:
		return driver.ResultStreamCaptureInvalidated
	case len(handles) == 0, flags:
		return driver.ResultInvalidValue
	}
	o, r := d.semaphoreOps(name, t, handles, signals, waits)
	if r != ok {
		return r
	}
	if slices.ContainsFunc(o.list, func(x *importedSemaphore) bool { return x.ctx != s.ctx }) {
		return driver.ResultInvalidValue
	}
	return d.submit(s, o)
}

// SignalExternalSemaphoresAsync is cuSignalExternalSemaphoresAsync.
func (d *Driver) SignalExternalSemaphoresAsync(th *driver.Thread, handles []driver.ExternalSemaphore,
	params []driver.ExternalSemaphoreSignalParams, h driver.Stream) driver.Result {
	return d.enqueueSemaphores("cuSignalExternalSemaphoresAsync", th, h, graph.SignalNode, handles, params, nil)
}

// WaitExternalSemaphoresAsync is cuWaitExternalSemaphoresAsync.
func (d *Driver) WaitExternalSemaphoresAsync(th *driver.Thread, handles []driver.ExternalSemaphore,
	params []driver.ExternalSemaphoreWaitParams, h driver.Stream) driver.Result {
	return d.enqueueSemaphores("cuWaitExternalSemaphoresAsync", th, h, graph.WaitNode, handles, nil, params)
}
