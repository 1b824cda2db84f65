package cu

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
)

// memoryKind is a kind of memory. Each kind is a variable beside the function that makes such memory. The core names no
// kind that only some programs use, so that the other programs do not contain the functions of the kind. A memCore has
// a copy of the traits, so that a call that enqueues work reads them where it reads the address.
type memoryKind struct {
	memoryTraits
	*memoryFuncs
}

// memoryTraits say where memory of a kind may be used, and what its free has to wait for.
type memoryTraits struct {
	// onHost says that the memory is host memory, at memCore.host. Streams of every context may use
	// it. Kernels and sets may need access to its pool: see memCore.accessibleIn.
	onHost bool
	// everywhere says that streams of every context may use the memory, although it is not onHost.
	everywhere bool
	// freeWaits says that freeing the memory waits for all work in the context: see deferredList. Only
	// such memory may serve another allocation.
	freeWaits bool
	// tracked says that freeing the memory has to wait for the streams that have used it. Otherwise
	// the driver does that by itself for the streams of the memory's context.
	tracked bool
	managed bool
	// ofNode says that a node of a graph allocates the memory: it has no address of its own.
	ofNode bool
	// others says that the memory is part of something else, or of somebody else, so that Close frees nothing.
	others bool
	// wrapped says that other memory may have the address, as other code has allocated it.
	wrapped bool
}

// memoryFuncs are the functions of a kind of memory, and its names in errors.
type memoryFuncs struct {
	name string
	// unshared says why another process cannot open the memory by an IPCMemHandle, and what to do. It is empty if
	// that is possible.
	unshared string
	// free destroys the memory, as object.free does. at has the memory's context.
	free func(mc *memCore, at driver.At) (op string, res driver.Result)
	// pooled is what memory of a pool has beyond other memory, or nil.
	pooled *pooledKind
}

// pooledKind is how memory of a pool is freed, and who can access it.
type pooledKind struct {
	// closeOrdered frees closed memory that no call uses in the order of a stream, and destroyIdle in the background when
	// all work that uses it is done.
	closeOrdered func(mc *memCore) error
	destroyIdle  func(mc *memCore, l leakReport)
	// reaches reports whether kernels on a device can access the memory because its pool allows it.
	reaches func(mc *memCore, dev driver.Device) bool
}

var deviceMemory = memoryKind{memoryTraits{freeWaits: true}, &memoryFuncs{
	name: "device memory",
	free: (*memCore).freeDevice,
}}

// freeDevice frees memory by cuMemFree.
func (mc *memCore) freeDevice(at driver.At) (string, driver.Result) {
	mc.observeFree()
	return "cuMemFree", mc.ctx.drv.table().MemFree(at, mc.raw)
}

// freeByEnd is the free of memory that has memCore.end.
func (mc *memCore) freeByEnd(at driver.At) (string, driver.Result) { return mc.end(at) }

// memCore is memory that the GPU can use. Its resource has its context and counts the calls in
// flight.
type memCore struct {
	resource
	flags uint32 // of pinned memory. Calls that enqueue work read it, and the traits and addresses beside it
	is    memoryKind
	raw   driver.DevicePtr // the address for the device, 0 if the device cannot access the memory
	host  driver.HostPtr   // the address for the host, if the host can access the memory
	// virt is what virtual memory has beyond other memory, or nil.
	virt virtual
	size uint64
	// capacity is the size that the driver has allocated. It is larger than size if the memory
	// served a larger allocation before.
	capacity uint64
	// own is the program's memory that is registered, so that it is not collected before.
	own []byte
	memoryUse
	// module is the module of a variable, with a call in flight for the memory.
	module *moduleCore
	poolMemory
	importedMemory
	// end frees memory that somebody else has allocated: another process, another API, or other code. It
	// is a field, so that a program that uses no such memory does not contain the function.
	end func(at driver.At) (op string, res driver.Result)
}

// memoryUse is who may use memory beside the streams in resource.usedStreams.
type memoryUse struct {
	// exposed says that other code has the address.
	exposed atomic.Bool
	// copied says that a call without a stream has used the memory. After such a call has returned,
	// work on the legacy default stream may still use the memory. marked is an event that was
	// recorded there later: when it is complete, that work is done.
	copied atomic.Bool
	marked driver.Event
	// localStreams has the streams of the memory's own context that used it, if it is device
	// memory. Freeing it waits for all work there, so only a reuse by another allocation has to
	// check this.
	localStreams streamSet
}

// poolMemory is what memory of a pool, or of a node, has beyond other memory.
type poolMemory struct {
	// pool is the pool of the memory, with a call in flight for the memory, or nil if it is the
	// device's current pool. freeOn is the stream on which the program wants the memory to be freed.
	pool   holder
	freeOn atomic.Pointer[streamCore]
	// ofGraph says that the launch of a graph has allocated the memory, which is treated as memory of
	// a pool: see GraphExec.Take.
	ofGraph bool
	// held is the memory that was taken of a node's memory, or that an executable graph has left there,
	// or nil.
	held atomic.Pointer[memCore]
}

// importedMemory is what memory of another process has beyond other memory.
type importedMemory struct {
	// opened says that another process's handle names the memory: see observeOpened.
	opened bool
	// opening is not nil if the memory is of an imported pool.
	opening *countedOpening
	// left says that leave of opening was called.
	left bool
}

// virtual is a *generation. It is an interface, so that a program that maps no memory does not
// contain it.
type virtual interface {
	// memoryBytes returns how much memory is mapped.
	memoryBytes() uint64
	// current returns the memory that new work uses, and length its size in bytes.
	current() *memCore
	length() uint64
	covers(off, size uint64) bool
	reaches(dev driver.Device) bool
	close(cleanup runtime.Cleanup) error
	free(at driver.At) (op string, res driver.Result)
}

// countedOpening has what to do with one of several openings of the same memory: see openings. It has
// functions, so that a program that opens no memory of pools does not contain them.
type countedOpening struct {
	// leave is called when no call on closed memory is in flight. It reports whether the caller has to
	// free the memory. Otherwise another opening of the memory does that.
	leave func() (last bool)
	// beginFree is called before the driver frees the memory. If may is false, it must not, as there
	// is another opening. Else end is called afterwards.
	beginFree func() (end func(), may bool)
}

// beginFree is beginFree of the memory's opening. Other memory may always be freed.
func (mc *memCore) beginFree() (end func(), may bool) {
	if mc.opening == nil {
		return func() {}, true
	}
	return mc.opening.beginFree()
}

// deviceLocation is the memory of a device.
func deviceLocation(dev driver.Device) driver.MemLocation {
	return driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: int32(dev)}
}

// leavePool ends the memory's use of its pool.
func (mc *memCore) leavePool() {
	if mc.pool != nil {
		mc.pool.leave()
	}
}

// current returns the memory that work uses, which may be other virtual memory.
func (mc *memCore) current() *memCore {
	if mc == nil || mc.virt == nil {
		return mc
	}
	return mc.virt.current()
}

// length returns the number of bytes of the whole memory: of virtual memory those that are mapped
// from the beginning.
func (mc *memCore) length() uint64 {
	if mc.virt == nil {
		return mc.size
	}
	return mc.virt.length()
}

func (mc *memCore) kind() string { return mc.is.name }

// onHost reports whether this is host memory.
func (mc *memCore) onHost() bool { return mc.is.onHost }

// everywhere reports whether streams of every context may use the memory.
func (mc *memCore) everywhere() bool {
	return mc.is.onHost || mc.is.everywhere
}

// accessibleIn reports whether kernels and sets in another context of the driver can access memory
// that copies may use everywhere.
func (mc *memCore) accessibleIn(c *contextCore) bool {
	return mc.everywhere() && (mc.is.pooled == nil || mc.is.managed || mc.is.pooled.reaches(mc, c.dev))
}

func (mc *memCore) handle() uintptr {
	if mc.onHost() {
		return uintptr(mc.host)
	}
	return uintptr(mc.raw)
}

func (mc *memCore) free(at driver.At) (op string, res driver.Result) {
	at.Context = mc.ctx.raw
	return mc.is.free(mc, at)
}

// usedOn notes that work which uses the memory is about to be enqueued on a stream. Calls are in
// flight on both. The memory is not freed before the work is done. The variable of a module is not
// noted, but the module is.
func (mc *memCore) usedOn(sc *streamCore) (noted bool) {
	switch {
	case mc.module != nil:
		mc.module.usedOn(sc)
		return false
	case mc.is.tracked || sc.ctx != mc.ctx:
		return mc.resource.usedOn(sc)
	}
	return mc.localStreams.note(sc, false)
}

// usedOnAll is usedOn for each stream of the set.
func (mc *memCore) usedOnAll(set *streamSet) {
	if l := set.streams.Load(); l != nil {
		for _, sc := range *l {
			mc.usedOn(sc)
		}
	}
}

// failAlloc returns the error of callError, with the size if there is too little memory. A handle of 0
// stands for the context.
func (c *contextCore) failAlloc(op string, handle uintptr, size uint64, res driver.Result, own *collection) *cuerror.Error {
	if handle == 0 {
		handle = uintptr(c.raw)
	}
	e := c.callError(op, handle, res)
	if res == driver.ResultOutOfMemory {
		e.Detail = join(fmt.Sprintf("%d bytes were requested", size), own.explain(e).Detail)
	}
	return e
}

// region is a Span without its owner, which the caller keeps from being collected. It lets the
// compiler see that a Span passed as Memory does not escape, so that none is allocated.
type region struct {
	mem       *memCore
	off, size uint64
	err       error
}

// valid reports whether the region lies within some memory.
func (r *region) valid() bool { return r.mem != nil && r.err == nil }

// usable is valid for memory that is open. Only the size of such a region is compared with others: that
// the memory is closed is said first.
func (r *region) usable() bool { return r.valid() && !r.mem.Closed() }

// addr returns the region's address for the device.
func (r *region) addr() driver.DevicePtr { return r.mem.raw + driver.DevicePtr(r.off) }

// hostAddr returns the region's address for the host.
func (r *region) hostAddr() driver.HostPtr { return r.mem.host + driver.HostPtr(r.off) }

// check returns an error if the region does not lie within open memory.
func (r *region) check(op string) error { return r.checkAs("", op) }

// checkAs is check of a region with a role in the call.
func (r *region) checkAs(role, op string) error {
	if err := r.missing(op); err != nil {
		return err
	}
	switch {
	case r.mem.Closed():
		return r.mem.refusedAs(role, op)
	case r.err == errReadOnly:
		return readOnly(op, as(role, r.mem))
	case r.err != nil:
		return newError(op, as(role, r.mem), driver.ResultInvalidValue, r.err,
			"choose a span that lies within the memory, and is mapped if the memory is virtual")
	}
	return nil
}

// refusedAs is Refused for memory with a role in the call.
func (mc *memCore) refusedAs(role, op string) error {
	err := mc.Refused(op)
	if e, ok := err.(*cuerror.Error); ok {
		e.Object = describe(as(role, mc))
	}
	return err
}

// checkEnds is check of both ends of work, which are the same if there is one.
func checkEnds(op string, d, r *region) error {
	for i, sp := range [...]*region{d, r} {
		if err := sp.checkAs(roleOf(i, d, r), op); err != nil {
			return err
		}
	}
	return nil
}

// roleOf returns the role of end i of work, of which the first is the destination.
func roleOf(i int, d, r *region) string {
	switch {
	case d == r:
		return ""
	case i == 0:
		return "destination"
	}
	return "source"
}

// betweenHost returns the error for a copy from host memory to host memory.
func betweenHost(op string, d, r *region) error {
	if err := checkEnds(op, d, r); err != nil {
		return err
	}
	return badValue(op, as("destination", d.mem), "both are host memory: use Go's copy on the slices of View")
}

// mapped returns an error if bytes of virtual memory are not mapped.
func (mc *memCore) mapped(off, size uint64) error {
	if mc.virt == nil || mc.virt.covers(off, size) {
		return nil
	}
	return fmt.Errorf("%w: not all of the %d bytes at %d are mapped", errInvalid, size, off)
}

// missing returns an error if the region has no memory.
func (r *region) missing(op string) error {
	switch {
	case r.err == errEmbedded:
		return misuse(op, nil, errEmbedded, "pass the embedded memory, such as x.DeviceMem")
	case r.mem == nil:
		return errNil(op, "memory")
	}
	return nil
}

// errReadOnly is wrapped by the error of a call that would write memory of HostReadOnly.
var errReadOnly = fmt.Errorf("%w: the memory was registered with HostReadOnly", errInvalid)

// readOnly returns the error of a call that would write the memory.
func readOnly(op string, of named) error {
	return newError(op, of, driver.ResultInvalidValue, errReadOnly,
		"write to other memory, or register memory that the program may write without HostReadOnly")
}

// errEmbedded is wrapped by the error for a type that implements Memory by embedding.
var errEmbedded = errors.New("the type embeds memory, and is not memory itself")

// fits returns an error unless n bytes at off lie within the memory.
func (mc *memCore) fits(op string, n int, off int64) error {
	if off < 0 || uint64(off) > mc.size || uint64(n) > mc.size-uint64(off) {
		return badValue(op, mc, fmt.Sprintf(
			"%d bytes at %d do not fit into %d: copy fewer, or allocate more memory", n, off, mc.size))
	}
	return nil
}

// tooSmall returns the error for a copy to memory that is too small.
func tooSmall(op string, from, to uint64) error {
	return badValue(op, nil, fmt.Sprintf("%d bytes do not fit into %d: copy a Span of them, or use larger memory",
		from, to))
}

// legacyCall makes a call of the driver that the driver treats as work on the legacy default stream.
func (mc *memCore) legacyCall(op string, call func(*driver.Table, driver.At) driver.Result) error {
	if res := mc.ctx.onLegacy(call); res != driver.ResultSuccess {
		return mc.ctx.callError(op, mc.handle(), res)
	}
	return nil
}

// onLegacy makes a call that the driver checks against captures as it checks calls on the legacy
// default stream.
func (c *contextCore) onLegacy(call func(*driver.Table, driver.At) driver.Result) driver.Result {
	t, legacy := c.drv.table(), &c.captureGate.Legacy
	place := legacy.BeginLong(t.Clock())
	defer legacy.EndLong(place)
	return call(t, driver.At{Context: c.raw})
}

// finishCopy waits until a copy by cuMemcpyHtoD is done, which may return when it has read its
// source. It does not wait while a blocking stream of the context is part of a capture, because the call
// would invalidate the capture.
func (c *contextCore) finishCopy() (waited bool, err error) {
	res := c.onLegacy(func(t *driver.Table, at driver.At) driver.Result {
		if c.captureGate.Blocking.Load() != 0 {
			return driver.ResultSuccess
		}
		waited = true
		return t.StreamSynchronize(at, driver.CU_STREAM_LEGACY)
	})
	if res != driver.ResultSuccess {
		return false, c.callError("cuStreamSynchronize", uintptr(driver.CU_STREAM_LEGACY), res)
	}
	return waited, nil
}

// bytes returns the memory as a slice. The caller has a call in flight.
func (mc *memCore) bytes() []byte {
	if mc.own != nil {
		return mc.own
	}
	// The conversion is valid: the address is of C memory, which the garbage collector neither
	// moves nor frees. go vet refuses the usual form, because the address comes from C as a number.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&mc.host))
	return unsafe.Slice((*byte)(p), mc.size)
}

// pointerAttributes asks for attributes of an address, whose values have at most eight bytes. Those that
// the memory does not have become 0.
func (c *contextCore) pointerAttributes(attributes []int32, addr driver.DevicePtr) ([]uint64, driver.Result) {
	values, places := make([]uint64, len(attributes)), make([]unsafe.Pointer, len(attributes))
	for i := range places {
		places[i] = unsafe.Pointer(&values[i])
	}
	res := c.drv.table().PointerGetAttributes(driver.At{Context: c.raw}, attributes, places, addr)
	return values, res
}

// hostAddress returns the address of the program's memory. The memory is not on a stack, as the
// caller keeps it, and the garbage collector does not move it.
func hostAddress(b []byte) driver.HostPtr {
	return driver.HostPtr(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// checkMemory returns an error if the stream cannot use the regions.
func (sc *streamCore) checkMemory(f workFunction, d, r *region) error {
	op := f.op()
	if f == workCopyPeer {
		if d.mem.ctx != sc.ctx && r.mem.ctx != sc.ctx {
			return misuse(op, as("destination", d.mem), mismatch(d.mem.ctx, sc.ctx), fmt.Sprintf(
				"the memory is on devices %d and %d, the stream on device %d: use a stream of either memory's context",
				d.mem.ctx.dev, r.mem.ctx.dev, sc.ctx.dev))
		}
	} else {
		for i, sp := range [...]*region{d, r} {
			if !sp.mem.everywhere() && sp.mem.ctx != sc.ctx {
				return errMixed(op, as(roleOf(i, d, r), sp.mem), sc)
			}
		}
		if d == r && d.mem.ctx != sc.ctx && !d.mem.accessibleIn(sc.ctx) { // it is set
			return misuse(op, d.mem, mistake.ErrDeviceMismatch, fmt.Sprintf(
				"device %d cannot access the memory's pool: allow it by MemPool.SetAccess", sc.ctx.dev))
		}
	}
	if d.mem == r.mem && d.mem.onHost() && d.mem.raw == 0 {
		return misuse(op, d.mem, errUnmapped, "allocate it with HostDeviceMap")
	}
	return nil
}

// errUnmapped is wrapped by the error of work on host memory that the device cannot access.
var errUnmapped = errors.New("the device cannot access the host memory")
