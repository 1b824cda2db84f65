package cu

import (
	"errors"

	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/races"
)

// DetectRaces calls report for uses of the same memory that the program has not put in order, until
// stop is called. It is meant for tests: see also package cutest. Call it before objects are created on
// the driver, because what older objects order is not known.
//
// report is called by the call that makes the second use, and must be safe for concurrent use. It may
// use this package, but must not wait for the GPU, because a host function may make that call. Each race
// is reported once. A report that another goroutine has begun may end after stop. A driver has at most
// one detector; a second call fails.
//
// # What counts as a use
//
// Copies, memsets and launches use the memory of their arguments: [ConstPtr] for reading, [Ptr] for
// reading and writing. The nodes of a graph use theirs in each launch. The host uses pinned memory
// by [HostMem.View], which counts as a read of all of it, by ReadAt and WriteAt. [DeviceMem.CopyTo] and
// the other calls without a stream are work on the legacy default stream. An address that is passed as
// a number, by [U64], counts as a read of one byte, and must not be of freed memory.
//
// # What counts as an order
//
// Two uses are in order if they are on one stream, or if records, waits, timelines, words of memory
// ([Stream.BatchMemOps]), semaphores of other APIs (interop.Wait), host functions, graphs or the
// default streams' rules order them, or if a call of this package has told the program that the first
// is done, before the second was enqueued. A host function, [Ticket.Done] and [Ticket.Notify] are held
// until no goroutine of the program goes on without them, or for a second, so that the detector sees whether the
// program has waited for them. How fast the GPU is does not matter: a race is found even if the work
// is always done in time. All goroutines count as one: what one has learned, all know.
//
// # What it does not see
//
// It does not compare uses by the host with each other: Go's race detector does. It sees neither
// uses of memory nor orders by other code, by raw driver calls or by kernels that raise a timeline;
// nor memory that a kernel reaches in another way than by its arguments. It knows both addresses of
// physical memory that is mapped twice, and of memory that is opened twice by memory.OpenIPC
// or by one pool's memory.Pool.Open. It does not know that a file is of memory that has another
// address here: of a pool (memory.ImportPool), of physical memory
// (memory.ImportPhysical), or of memory of another API (interop.ImportMem). Waits for
// events of other processes count as waits for all of this process. A wait for a semaphore that
// another API signals counts as a wait for everything that was signalled to other APIs before.
// Green contexts count as their whole context.
func (d *Driver) DetectRaces(report func(Race)) (stop func(), err error) {
	const op = "Driver.DetectRaces"
	switch {
	case !d.open():
		return nil, drivercall.NilError(op, "driver")
	case report == nil:
		return nil, drivercall.Misuse(op, nil, ErrNil, "the function is nil: pass one that handles a Race")
	}
	detector := races.New(func(r races.Race) { report(Race{r}) })
	d.core.ChangeTracers(func(l *drivercall.Tracers) {
		if err = nil; l.Observer != nil {
			err = drivercall.Misuse(op, nil, errDetecting, "stop the first detection before")
			return
		}
		l.Observer = detector
	})
	if err != nil {
		return nil, err
	}
	return func() {
		d.core.ChangeTracers(func(l *drivercall.Tracers) {
			if l.Observer == detector {
				l.Observer = nil
			}
		})
		detector.Stop()
	}, nil
}

// errDetecting is wrapped by the error of a second DetectRaces.
var errDetecting = errors.New("races are being detected already")

// Race is a race that [Driver.DetectRaces] has found.
type Race struct{ found races.Race }

// Summary returns in one sentence which calls use which memory without an order.
func (r Race) Summary() string { return r.found.Summary() }

// Remedy returns what the program has to do, such as which stream has to wait for which.
func (r Race) Remedy() string { return r.found.Remedy() }

// String returns the summary, the remedy, and the stacks of both calls and of the allocation.
func (r Race) String() string { return r.found.String() }
