package memstate

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/mistake"
)

// Kind is a kind of memory. Each kind is a variable beside the function that makes such memory. No other code
// names a kind that only some programs use, so that the other programs do not contain the functions of the kind. A Mem
// has a copy of the traits, so that a call that enqueues work reads them where it reads the address.
type Kind struct {
	Traits
	*Funcs
}

// Traits say where memory of a kind may be used, and what its free has to wait for.
type Traits struct {
	// OnHost says that the memory is host memory, at Mem.Host. Streams of every context may use it.
	// Kernels and sets may need access to its pool: see Mem.AccessibleIn.
	OnHost bool
	// Everywhere says that streams of every context may use the memory, although it is not OnHost.
	Everywhere bool
	// FreeWaits says that freeing the memory waits for all work in the context: see deferred.go of
	// package core. Only such memory may serve another allocation.
	FreeWaits bool
	// Tracked says that freeing the memory has to wait for the streams that have used it. Otherwise
	// the driver does that by itself for the streams of the memory's context.
	Tracked bool
	Managed bool
	// OfNode says that a node of a graph allocates the memory: it has no address of its own.
	OfNode bool
	// Others says that the memory is part of something else, or of somebody else, so that Close frees nothing.
	Others bool
	// Wrapped says that other memory may have the address, as other code has allocated it.
	Wrapped bool
}

// Funcs are the functions of a kind of memory, and its names in errors.
type Funcs struct {
	Name string
	// Unshared says why another process cannot open the memory by a memory.IPCHandle, and what to do. It is empty if
	// that is possible.
	Unshared string
	// Free destroys the memory, as core.Object.Destroy does. at has the memory's context.
	Free func(mc *Mem, at driver.At) (op string, res driver.Result)
	// Pooled is what memory of a pool has beyond other memory, or nil.
	Pooled *PoolFuncs
}

// PoolFuncs is how memory of a pool is freed, and who can access it.
type PoolFuncs struct {
	// closeOrdered frees closed memory that no call uses in the order of a stream, and destroyIdle
	// in the background when all work that uses it is done.
	closeOrdered func(mc *Mem) error
	destroyIdle  func(mc *Mem, l drivercall.LeakReport)
	// reaches reports whether kernels on a device can access the memory because its pool allows it.
	reaches func(mc *Mem, dev driver.Device) bool
}

// DeviceMemory is memory of cuMemAlloc.
var DeviceMemory = Kind{Traits{FreeWaits: true}, &Funcs{
	Name: "device memory",
	Free: (*Mem).FreeDevice,
}}

// FreeDevice frees memory by cuMemFree.
func (mc *Mem) FreeDevice(at driver.At) (string, driver.Result) {
	mc.ObserveFree()
	return "cuMemFree", mc.Ctx.Drv.Table().MemFree(at, mc.Raw)
}

// FreeByEnd is the free of memory that has Mem.End.
func (mc *Mem) FreeByEnd(at driver.At) (string, driver.Result) { return mc.End(at) }

// Mem is memory that the GPU can use. Its resource has its context and counts the calls in
// flight.
type Mem struct {
	core.Resource
	Flags uint32 // of pinned memory. Calls that enqueue work read it, and the traits and addresses beside it
	Is    Kind
	Raw   driver.DevicePtr // the address for the device, 0 if the device cannot access the memory
	Host  driver.HostPtr   // the address for the host, if the host can access the memory
	// Virt is what virtual memory has beyond other memory, or nil.
	Virt Virtual
	Size uint64
	// Capacity is the size that the driver has allocated. It is larger than Size if the memory
	// served a larger allocation before.
	Capacity uint64
	// HostBytes is the program's memory that is registered, which keeps it from being collected before.
	HostBytes []byte
	memoryUse
	// Module is the module of a variable, with a call in flight for the memory, or nil.
	Module VariableOwner
	PoolFields
	ImportedMemory
	// End frees memory that somebody else has allocated: another process, another API, or other code. It
	// is a field, so that a program that uses no such memory does not contain the function.
	End func(at driver.At) (op string, res driver.Result)
}

// memoryUse is who may use memory beside the streams in Resource.UsedStreams.
type memoryUse struct {
	// Exposed says that other code has the address.
	Exposed atomic.Bool
	// Copied says that a call without a stream has used the memory. After such a call has returned,
	// work on the legacy default stream may still use the memory. marked is an event that was
	// recorded there later: when it is complete, that work is done.
	Copied atomic.Bool
	marked driver.Event
	// localStreams has the streams of the memory's own context that used it, if it is device
	// memory. Freeing it waits for all work there, so only a reuse by another allocation has to
	// check this.
	localStreams core.StreamSet
}

// PoolFields is what memory of a pool, or of a node, has beyond other memory.
type PoolFields struct {
	// Pool is the pool of the memory, with a call in flight for the memory, or nil if it is the
	// device's current pool. FreeOn is the stream on which the program wants the memory to be freed.
	Pool   core.Holder
	FreeOn atomic.Pointer[core.Stream]
	// OfGraph says that the launch of a graph has allocated the memory, which is treated as memory of
	// a pool: see graph.Exec.Take.
	OfGraph bool
	// Held is the memory that was taken of a node's memory, or that an executable graph has left there,
	// or nil.
	Held atomic.Pointer[Mem]
}

// ImportedMemory is what memory of another process has beyond other memory.
type ImportedMemory struct {
	// Opened says that another process's handle names the memory: see ObserveOpened.
	Opened bool
	// Opening is not nil if the memory is of an imported pool.
	Opening *CountedOpening
	// Left says that Opening.Leave was called.
	Left bool
}

// Virtual is a *generation of cu/memory. It is an interface, so that a program that maps no memory does not
// contain it.
type Virtual interface {
	// MemoryBytes returns how much memory is mapped.
	MemoryBytes() uint64
	// Current returns the memory that new work uses, and Length its size in bytes.
	Current() *Mem
	Length() uint64
	Covers(off, size uint64) bool
	Reaches(dev driver.Device) bool
	Close(cleanup runtime.Cleanup) error
	// Forgotten is Close for an owner that is abandoned.
	Forgotten()
	Free(at driver.At) (op string, res driver.Result)
}

// VariableOwner is the module of a variable. It is an interface, so that programs without modules do not contain them.
type VariableOwner interface {
	core.UsedObject
	// Observed notes that the race detector is told about the variable. Its end is that of the module.
	Observed(variable driver.DevicePtr, size uint64)
}

// CountedOpening has what to do with one of several openings of the same memory: see poolimport.Memory. It has
// functions, so that a program that opens no memory of pools does not contain them.
type CountedOpening struct {
	// Leave is called when no call on closed memory is in flight. It reports whether the caller has to
	// free the memory. Otherwise another opening of the memory does that.
	Leave func() (last bool)
	// BeginFree is called before the driver frees the memory. If may is false, it must not, as there
	// is another opening. Else end is called afterwards.
	BeginFree func() (end func(), may bool)
}

// beginFree is BeginFree of the memory's opening. Other memory may always be freed.
func (mc *Mem) beginFree() (end func(), may bool) {
	if mc.Opening == nil {
		return func() {}, true
	}
	return mc.Opening.BeginFree()
}

// DeviceLocation is the memory of a device.
func DeviceLocation(dev driver.Device) driver.MemLocation {
	return driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: int32(dev)}
}

// leavePool ends the memory's use of its pool.
func (mc *Mem) leavePool() {
	if mc.Pool != nil {
		mc.Pool.EndCall()
	}
}

// Current returns the memory that work uses, which may be other virtual memory.
func (mc *Mem) Current() *Mem {
	if mc == nil || mc.Virt == nil {
		return mc
	}
	return mc.Virt.Current()
}

// Length returns the number of bytes of the whole memory: of virtual memory those that are mapped
// from the beginning.
func (mc *Mem) Length() uint64 {
	if mc.Virt == nil {
		return mc.Size
	}
	return mc.Virt.Length()
}

// Kind names the kind of the object in errors and reports.
func (mc *Mem) Kind() string { return mc.Is.Name }

// OnHost reports whether this is host memory.
func (mc *Mem) OnHost() bool { return mc.Is.OnHost }

// Everywhere reports whether streams of every context may use the memory.
func (mc *Mem) Everywhere() bool {
	return mc.Is.OnHost || mc.Is.Everywhere
}

// AccessibleIn reports whether kernels and sets in another context of the driver can access memory
// that copies may use everywhere.
func (mc *Mem) AccessibleIn(c *core.Context) bool {
	return mc.Everywhere() && (mc.Is.Pooled == nil || mc.Is.Managed || mc.Is.Pooled.reaches(mc, c.Dev))
}

// Handle returns the driver's handle.
func (mc *Mem) Handle() uintptr {
	if mc.OnHost() {
		return uintptr(mc.Host)
	}
	return uintptr(mc.Raw)
}

// Destroy frees the memory in the way of its kind: see core.Object.
func (mc *Mem) Destroy(at driver.At) (op string, res driver.Result) {
	at.Context = mc.Ctx.Raw
	return mc.Is.Free(mc, at)
}

// UsedOn notes that work which uses the memory is about to be enqueued on a stream. Calls are in
// flight on both. The memory is not freed before the work is done. The variable of a module is not
// noted, but the module is.
func (mc *Mem) UsedOn(sc *core.Stream) (noted bool) {
	switch {
	case mc.Module != nil:
		mc.Module.UsedOn(sc)
		return false
	case mc.Is.Tracked || sc.Ctx != mc.Ctx:
		return mc.Resource.UsedOn(sc)
	}
	return mc.localStreams.NoteIfRoom(sc)
}

// UsedOnAll is UsedOn for each stream of the set.
func (mc *Mem) UsedOnAll(set *core.StreamSet) {
	if l := set.Streams.Load(); l != nil {
		for _, sc := range *l {
			mc.UsedOn(sc)
		}
	}
}

// FailAlloc returns the error of core.Context.CallError for an allocation, with the size if there is too little memory.
// A handle of 0 stands for the context.
func FailAlloc(
	c *core.Context, op string, handle uintptr, size uint64, res driver.Result, collection *core.Collection,
) *cuerror.Error {
	if handle == 0 {
		handle = uintptr(c.Raw)
	}
	e := c.CallError(op, handle, res)
	if res == driver.ResultOutOfMemory {
		e.Detail = drivercall.JoinText(fmt.Sprintf("%d bytes were requested", size), collection.Explain(e).Detail)
	}
	return e
}

// Region is a Span without its owner, which the caller keeps from being collected. It lets the
// compiler see that a Span passed as Memory does not escape, so that none is allocated.
type Region struct {
	Mem       *Mem
	Off, Size uint64
	// Fault says why the memory cannot be used, or is nil. It is an address, because the compiler passes a struct of up
	// to four words in registers.
	Fault *Fault
}

// Valid reports whether the region lies within some memory.
func (r *Region) Valid() bool { return r.Mem != nil && r.Fault == nil }

// Usable is Valid for memory that is open. Only the size of such a region is compared with others: that
// the memory is closed is said first.
func (r *Region) Usable() bool { return r.Valid() && !r.Mem.Closed() }

// Addr returns the region's address for the device.
func (r *Region) Addr() driver.DevicePtr { return r.Mem.Raw + driver.DevicePtr(r.Off) }

// HostAddr returns the region's address for the host.
func (r *Region) HostAddr() driver.HostPtr { return r.Mem.Host + driver.HostPtr(r.Off) }

// Check returns an error if the region does not lie within open memory.
func (r *Region) Check(op string) error { return r.checkAs("", op) }

// checkAs is Check of a region with a role in the call.
func (r *Region) checkAs(role, op string) error {
	if err := r.Missing(op); err != nil {
		return err
	}
	switch {
	case r.Mem.Closed():
		return r.Mem.RefusedAs(role, op)
	case r.Fault.is(ErrReadOnly):
		return ReadOnly(op, core.InRole(role, r.Mem))
	case r.Fault != nil:
		return drivercall.NewError(op, core.InRole(role, r.Mem), driver.ResultInvalidValue, r.Fault.Err,
			"choose a span that lies within the memory, and is mapped if the memory is virtual")
	}
	return nil
}

// RefusedAs is Refused for memory with a role in the call.
func (mc *Mem) RefusedAs(role, op string) error {
	err := mc.Refused(op)
	if e, ok := err.(*cuerror.Error); ok {
		e.Object = drivercall.Describe(core.InRole(role, mc))
	}
	return err
}

// CheckEnds is Check of both ends of work, which are the same if there is one.
func CheckEnds(op string, d, r *Region) error {
	for i, sp := range [...]*Region{d, r} {
		if err := sp.checkAs(RoleOf(i, d, r), op); err != nil {
			return err
		}
	}
	return nil
}

// RoleOf returns the role of end i of work, of which the first is the destination.
func RoleOf(i int, d, r *Region) string {
	switch {
	case d == r:
		return ""
	case i == 0:
		return "destination"
	}
	return "source"
}

// BetweenHost returns the error for a copy from host memory to host memory.
func BetweenHost(op string, d, r *Region) error {
	if err := CheckEnds(op, d, r); err != nil {
		return err
	}
	return drivercall.BadValue(op, core.InRole("destination", d.Mem),
		"both are host memory: use Go's copy on the slices of View")
}

// Mapped returns an error if bytes of virtual memory are not mapped.
func (mc *Mem) Mapped(off, size uint64) error {
	if mc.Virt == nil || mc.Virt.Covers(off, size) {
		return nil
	}
	return fmt.Errorf("%w: not all of the %d bytes at %d are mapped", drivercall.ErrInvalid, size, off)
}

// Missing returns an error if the region has no memory.
func (r *Region) Missing(op string) error {
	switch {
	case r.Fault.is(ErrEmbedded):
		return drivercall.Misuse(op, nil, ErrEmbedded, "pass the embedded memory, such as x.DeviceMem")
	case r.Mem == nil:
		return drivercall.NilError(op, "memory")
	}
	return nil
}

// ErrReadOnly is wrapped by the error of a call that would write memory of HostReadOnly.
var ErrReadOnly = fmt.Errorf("%w: the memory was registered with HostReadOnly", drivercall.ErrInvalid)

// ReadOnly returns the error of a call that would write the memory.
func ReadOnly(op string, of drivercall.Named) error {
	return drivercall.NewError(op, of, driver.ResultInvalidValue, ErrReadOnly,
		"write to other memory, or register memory that the program may write without HostReadOnly")
}

// ErrEmbedded is wrapped by the error for a type that implements Memory by embedding.
var ErrEmbedded = errors.New("the type embeds memory, and is not memory itself")

// Fits returns an error unless n bytes at off lie within the memory.
func (mc *Mem) Fits(op string, n int, off int64) error {
	if off < 0 || uint64(off) > mc.Size || uint64(n) > mc.Size-uint64(off) {
		return drivercall.BadValue(op, mc, fmt.Sprintf(
			"%d bytes at %d do not fit into %d: copy fewer, or allocate more memory", n, off, mc.Size))
	}
	return nil
}

// TooSmall returns the error for a copy to memory that is too small.
func TooSmall(op string, from, to uint64) error {
	return drivercall.BadValue(op, nil, fmt.Sprintf(
		"%d bytes do not fit into %d: copy a Span of them, or use larger memory", from, to))
}

// LegacyCall makes a call of the driver that the driver treats as work on the legacy default stream.
func (mc *Mem) LegacyCall(op string, call func(*driver.Table, driver.At) driver.Result) error {
	if res := onLegacy(mc.Ctx, call); res != driver.ResultSuccess {
		return mc.Ctx.CallError(op, mc.Handle(), res)
	}
	return nil
}

// onLegacy makes a call that the driver checks against captures as it checks calls on the legacy
// default stream.
func onLegacy(c *core.Context, call func(*driver.Table, driver.At) driver.Result) driver.Result {
	t, legacy := c.Drv.Table(), &c.CaptureGate.Legacy
	place := legacy.BeginLong(t.Clock())
	defer legacy.EndLong(place)
	return call(t, driver.At{Context: c.Raw})
}

// FinishCopy waits until a copy by cuMemcpyHtoD is done, which may return when it has read its
// source. It does not wait while a blocking stream of the context is part of a capture, because the call
// would invalidate the capture.
func FinishCopy(c *core.Context) (waited bool, err error) {
	res := onLegacy(c, func(t *driver.Table, at driver.At) driver.Result {
		if c.CaptureGate.Blocking.Load() != 0 {
			return driver.ResultSuccess
		}
		waited = true
		return t.StreamSynchronize(at, driver.CU_STREAM_LEGACY)
	})
	if res != driver.ResultSuccess {
		return false, c.CallError("cuStreamSynchronize", uintptr(driver.CU_STREAM_LEGACY), res)
	}
	return waited, nil
}

// Bytes returns the memory as a slice. The caller has a call in flight.
func (mc *Mem) Bytes() []byte {
	if mc.HostBytes != nil {
		return mc.HostBytes
	}
	// The conversion is valid: the address is of C memory, which the garbage collector neither
	// moves nor frees. go vet refuses the usual form, because the address comes from C as a number.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&mc.Host))
	return unsafe.Slice((*byte)(p), mc.Size)
}

// PointerAttributes asks for attributes of an address, whose values have at most eight bytes. Those that
// the memory does not have become 0.
func PointerAttributes(c *core.Context, attributes []int32, addr driver.DevicePtr) ([]uint64, driver.Result) {
	values, places := make([]uint64, len(attributes)), make([]unsafe.Pointer, len(attributes))
	for i := range places {
		places[i] = unsafe.Pointer(&values[i])
	}
	res := c.Drv.Table().PointerGetAttributes(driver.At{Context: c.Raw}, attributes, places, addr)
	return values, res
}

// HostAddress returns the address of the program's memory. The memory is not on a stack, as the
// caller keeps it, and the garbage collector does not move it.
func HostAddress(b []byte) driver.HostPtr {
	return driver.HostPtr(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// CheckWork returns an error if the stream cannot use the regions.
func CheckWork(sc *core.Stream, f core.WorkFunction, d, r *Region) error {
	op := f.Op()
	if f == core.WorkCopyPeer {
		if d.Mem.Ctx != sc.Ctx && r.Mem.Ctx != sc.Ctx {
			return drivercall.Misuse(op, core.InRole("destination", d.Mem), core.Mismatch(d.Mem.Ctx, sc.Ctx), fmt.Sprintf(
				"the memory is on devices %d and %d, the stream on device %d: use a stream of either memory's context",
				d.Mem.Ctx.Dev, r.Mem.Ctx.Dev, sc.Ctx.Dev))
		}
	} else {
		for i, sp := range [...]*Region{d, r} {
			if !sp.Mem.Everywhere() && sp.Mem.Ctx != sc.Ctx {
				return core.MixedError(op, core.InRole(RoleOf(i, d, r), sp.Mem), sc)
			}
		}
		if d == r && d.Mem.Ctx != sc.Ctx && !d.Mem.AccessibleIn(sc.Ctx) { // it is set
			return drivercall.Misuse(op, d.Mem, mistake.ErrDeviceMismatch, fmt.Sprintf(
				"device %d cannot access the memory's pool: allow it by memory.Pool.SetAccess", sc.Ctx.Dev))
		}
	}
	if d.Mem == r.Mem && d.Mem.OnHost() && d.Mem.Raw == 0 {
		return drivercall.Misuse(op, d.Mem, ErrUnmapped, "allocate it with HostDeviceMap")
	}
	return nil
}

// ErrUnmapped is wrapped by the error of work on host memory that the device cannot access.
var ErrUnmapped = errors.New("the device cannot access the host memory")
