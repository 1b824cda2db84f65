package cu

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
)

// memoryKind is what memory is, which says who frees it, and where it may be used. A new kind is a
// row of memoryKinds, a case of memCore.free, and a file with its Go type and with what allocates
// it.
type memoryKind uint8

const (
	_              memoryKind = iota // none: each memCore says what it is
	deviceMemory                     // of cuMemAlloc
	pinnedMemory                     // of cuMemHostAlloc
	moduleVariable                   // the driver's, for as long as the module is loaded
)

// memoryKinds say what all memory of a kind has in common.
var memoryKinds = [...]struct {
	name string
	// onHost says that the memory is the host's, at memCore.host. Streams of every context may use it.
	onHost bool
	// waits says that the driver waits for all work in the context before it frees the memory: see deferred. Only such
	// memory may serve another allocation.
	waits bool
}{
	deviceMemory:   {name: "device memory", waits: true},
	pinnedMemory:   {name: "host memory", onHost: true, waits: true},
	moduleVariable: {name: "device memory"},
}

// memCore is memory that the GPU can use. Its context, and whose calls use it now, are the resource's.
type memCore struct {
	resource
	is   memoryKind
	raw  driver.DevicePtr // where it is for the device, 0 if the device cannot reach it
	host driver.HostPtr   // where it is for the host, if the kind is onHost
	size uint64
	// capacity is how much the driver has allocated, which is more where the memory served another allocation before.
	capacity uint64
	flags    HostFlags // of pinned memory
	// exposed says that others know the address.
	exposed atomic.Bool
	// copied says that a call without a stream has used the memory, which the GPU may be at on the legacy default
	// stream when it has returned. marked is an event that was recorded there later, to know when it is not.
	copied atomic.Bool
	marked driver.Event
	// listed is where it is in the list of those that allocations can take: see deferred, whose lock guards it.
	listed *list.Element
	// local is where device memory was used in its own context. To free it waits for all work there, so only who
	// takes it for another allocation has to know.
	local usage
	// module has the variable, and a call in flight for it.
	module *moduleCore
}

// newMemory puts memory into service, of which owner is the Go value that the program gets.
func newMemory[O any](owner *O, ctx *contextCore, mc *memCore) runtime.Cleanup {
	mc.waits, mc.usage = memoryKinds[mc.is].waits, new(usage)
	return owned(owner, &mc.resource, mc, ctx)
}

func (mc *memCore) kind() string { return memoryKinds[mc.is].name }

// onHost reports whether the memory is the host's.
func (mc *memCore) onHost() bool { return memoryKinds[mc.is].onHost }

func (mc *memCore) handle() uintptr {
	if mc.onHost() {
		return uintptr(mc.host)
	}
	return uintptr(mc.raw)
}

func (mc *memCore) free(at driver.At) (op string, res driver.Result) {
	at.Context = mc.ctx.raw
	t := mc.ctx.drv.table
	switch mc.is {
	case deviceMemory:
		return "cuMemFree", t.MemFree(at, mc.raw)
	case pinnedMemory:
		return "cuMemFreeHost", t.MemFreeHost(at, mc.host)
	case moduleVariable:
		if mc.module.leave(); !at.NoWait {
			mc.ctx.freeDeferred() // the module, if it was closed before
		}
		return "", driver.ResultSuccess
	}
	return "Close", driver.ResultNotSupported // a kind that was added without a case here
}

// usedOn notes that work which uses the memory is about to be enqueued on a stream,
// while calls on both are in flight: the memory stays until it is done.
func (mc *memCore) usedOn(sc *streamCore) {
	switch {
	case mc.is == moduleVariable:
		mc.module.usedOn(sc)
	case mc.is == pinnedMemory || sc.ctx != mc.ctx:
		mc.resource.usedOn(sc)
	default:
		mc.local.note(sc, false)
	}
}

// idle reports whether all work that uses the memory is known to be done. It does not wait. No call is in flight.
func (mc *memCore) idle() bool {
	if mc.exposed.Load() || !mc.usage.idle() || !mc.local.idle() {
		return false
	}
	if !mc.copied.Load() {
		return true
	}
	if mc.marked == 0 {
		legacy := &streamCore{raw: driver.CU_STREAM_LEGACY, at: driver.At{Context: mc.ctx.raw}}
		legacy.ctx, legacy.part = mc.ctx, &legacy.own
		e, err := legacy.mark()
		if err != nil {
			return false
		}
		mc.marked = e
	}
	return mc.ctx.queryEvent(mc.marked) == driver.ResultSuccess
}

// fit returns which allocations the memory is good for.
func (mc *memCore) fit() memoryFit { return fit(mc.is, mc.flags, mc.capacity) }

// unmark gives back the event that idle has recorded for memory.
func (r *resource) unmark() {
	if mc, ok := r.self.(*memCore); ok {
		mc.unmark()
	}
}

// unmark gives back the event that idle has recorded.
func (mc *memCore) unmark() {
	if mc.marked != 0 {
		mc.ctx.doneWith(EventDisableTiming, mc.marked)
		mc.marked = 0
	}
}

// usedLike is usedOn for each stream that something else was used on.
func (mc *memCore) usedLike(u *usage) {
	if l := u.streams.Load(); l != nil {
		for _, sc := range *l {
			mc.usedOn(sc)
		}
	}
}

// failAlloc is fail for allocations.
func (c *contextCore) failAlloc(op string, size uint64, res driver.Result) error {
	e := c.fail(op, 0, res)
	if res == driver.ResultOutOfMemory {
		e.Detail = join(fmt.Sprintf("%d bytes were asked for", size), e.Detail)
	}
	return e
}

// Memory is memory that the GPU can work on: a [*DeviceMem], a [*HostMem], or a
// [Span] of one, and no other type: of one that embeds memory, pass the memory.
type Memory interface {
	span() Span
}

// Span is a part of an allocation, which it keeps from being collected, but not
// from being closed.
type Span struct {
	mem       *memCore
	owner     any
	off, size uint64
	err       error
}

func (s Span) span() Span { return s }

// Size returns the size in bytes.
func (s Span) Size() uint64 { return s.size }

// Span returns size bytes of the span, beginning at off. If there are not so many,
// whatever the Span is used for fails.
func (s Span) Span(off, size uint64) Span {
	if s.err == nil && (off > s.size || size > s.size-off) {
		s.err = fmt.Errorf("%w: %d bytes at %d, of %d", errInvalid, size, off, s.size)
	}
	s.off, s.size = s.off+off, size
	return s
}

// region is the memory that a call works on: a Span without its owner, which the caller keeps from being collected. So
// the compiler sees that a Span that is passed as Memory does not escape, and allocates none.
type region struct {
	mem       *memCore
	off, size uint64
	err       error
}

// valid reports whether the region is a part of some memory.
func (r *region) valid() bool { return r.mem != nil && r.err == nil }

// addr returns where on the device the region begins.
func (r *region) addr() driver.DevicePtr { return r.mem.raw + driver.DevicePtr(r.off) }

// hostAddr returns where on the host the region begins.
func (r *region) hostAddr() driver.HostPtr { return r.mem.host + driver.HostPtr(r.off) }

// enter begins a call on the memory of a region.
func (r *region) enter(op string) error {
	if err := r.missing(op); err != nil {
		return err
	}
	if r.err != nil {
		return &Error{Op: op, Result: ResultInvalidValue, Err: r.err, Detail: "choose a span within the memory"}
	}
	return r.mem.Enter(r.mem, op)
}

// missing returns an error if there is no memory.
func (r *region) missing(op string) error {
	switch {
	case r.err == errEmbedded:
		return mistake(op, errEmbedded, 0, "pass the memory that it embeds, such as x.DeviceMem")
	case r.mem == nil:
		return errNil(op, "memory")
	}
	return nil
}

func (r *region) leave() { r.mem.leave() }

func (s Span) region() region { return region{mem: s.mem, off: s.off, size: s.size, err: s.err} }

// regionOf returns the region of a Memory, which may be nil. A method of an interface would make its argument escape.
func regionOf(m Memory) region {
	switch m := m.(type) {
	case nil:
		return region{}
	case Span:
		return m.region()
	case *Span:
		if m != nil {
			return m.region()
		}
		return region{}
	case *DeviceMem:
		return m.region()
	case *HostMem:
		return m.region()
	}
	return region{err: errEmbedded}
}

// errEmbedded is behind the error of a type that has the methods of memory because it embeds some.
var errEmbedded = errors.New("a type of the program's that embeds memory")

// readable cuts dst to what can be read at off of size bytes.
func readable(dst []byte, off int64, size uint64) ([]byte, error) {
	if off >= 0 && uint64(off) <= size && uint64(len(dst)) > size-uint64(off) {
		return dst[:size-uint64(off)], io.EOF
	}
	return dst, nil
}

// fits checks that n bytes at off are within the memory.
func (mc *memCore) fits(op string, n int, off int64) error {
	if off < 0 || uint64(off) > mc.size || uint64(n) > mc.size-uint64(off) {
		return invalid(op, fmt.Sprintf("%d bytes at %d do not fit into %d", n, off, mc.size))
	}
	return nil
}
