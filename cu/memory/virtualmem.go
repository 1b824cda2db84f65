package memory

import (
	"fmt"
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/subject"
	"github.com/purecu/purecu/internal/valuename"
)

// Virtual is a range of addresses of the device, and the memory that is mapped there.
// [Virtual.Grow] adds memory at the end without moving what is there, as append does with a slice
// that has room. Like a slice it has a size, the bytes that are mapped from the beginning without a
// gap, and a capacity, the bytes of the range. It is safe for concurrent use.
//
// For the use as a [cu.Memory], [Virtual.Mem] returns it: it is as large as its size is when the call
// begins. [Virtual.Span] returns any part.
type Virtual struct{ mem *cu.DeviceMem }

// Access says how a device may access memory (CUmemAccess_flags).
type Access int32

const (
	// AccessNone allows no access: CU_MEM_ACCESS_FLAGS_PROT_NONE.
	AccessNone Access = driver.CU_MEM_ACCESS_FLAGS_PROT_NONE
	// AccessRead allows kernels and copies to read: CU_MEM_ACCESS_FLAGS_PROT_READ.
	AccessRead Access = driver.CU_MEM_ACCESS_FLAGS_PROT_READ
	// AccessReadWrite allows all access: CU_MEM_ACCESS_FLAGS_PROT_READWRITE.
	AccessReadWrite Access = driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
)

// String returns the name of the access.
func (a Access) String() string {
	return valuename.Of([]valuename.Name{
		{Value: int32(AccessNone), Name: "AccessNone"},
		{Value: int32(AccessRead), Name: "AccessRead"},
		{Value: int32(AccessReadWrite), Name: "AccessReadWrite"},
	}, int32(a))
}

// Reserve reserves a range of addresses for at least capacity bytes, and maps no memory
// (cuMemAddressReserve, CUDA 10.2). The capacity is rounded up to a multiple of [Granularity].
// Addresses take no memory, so ask for as many as the memory may need. They are limited all the
// same: a driver may refuse 32 GiB, for example where ulimit -v limits the process, and the error
// matches [cu.ResultOutOfMemory]. Before that Reserve frees what was abandoned, for which it may
// wait for the GPU: see docs/blocking.md. Streams of the context can use the memory, and those of
// other devices after [Virtual.SetAccess].
func Reserve(c *cu.Context, capacity uint64) (*Virtual, error) {
	const op = "cuMemAddressReserve"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	if capacity == 0 || capacity > 1<<62 {
		return nil, drivercall.BadValue(op, cc, fmt.Sprintf(
			"the capacity is %d bytes: ask for at least 1 and at most 1<<62", capacity))
	}
	v := &virtualCore{ctx: cc}
	prop, _ := PhysicalOptions{}.prop(cc) // the zero value has no mistake
	var res driver.Result
	if v.unit, res = granularity(cc, &prop, driver.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED); res != driver.ResultSuccess {
		return nil, cc.CallError("cuMemGetAllocationGranularity", 0, res)
	}
	v.size = roundUp(capacity, v.unit)
	res, collection := cc.Allocate(func() (res driver.Result) {
		v.raw, res = cc.Drv.Table().MemAddressReserve(driver.At{}, v.size, 0, 0, 0)
		return res
	})
	if res != driver.ResultSuccess {
		return nil, memstate.FailAlloc(cc, op, 0, v.size, res, collection)
	}
	v.access = []driver.MemAccessDesc{{Location: prop.Location, Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}}
	first := v.newGeneration()
	v.now.Store(first)
	return &Virtual{subject.NewDeviceMem(cc, first)}, nil
}

// enter begins a call on the memory. leave ends it.
func (m *Virtual) enter(op string) (*virtualCore, *memstate.Mem, error) {
	if m == nil || m.mem == nil {
		return nil, nil, drivercall.NilError(op, "virtual memory")
	}
	mc := subject.DeviceMem(m.mem).Current()
	return mc.Virt.(*generation).of, mc, mc.Enter(mc, op)
}

func (m *Virtual) leave(mc *memstate.Mem) {
	mc.EndCall()
	runtime.KeepAlive(m.mem)
}

// Mem returns the memory as a DeviceMem, for copies, launches, and all that use memory. It is
// valid as long as the Virtual, and its Close closes the Virtual. For nil it is nil.
func (m *Virtual) Mem() *cu.DeviceMem {
	if m == nil {
		return nil
	}
	return m.mem
}

// Size returns the number of bytes that are mapped from the beginning without a gap, or 0 for nil.
func (m *Virtual) Size() uint64 { return m.Mem().Size() }

// Cap returns the number of bytes of the range, or 0 for nil.
func (m *Virtual) Cap() uint64 {
	if m == nil || m.mem == nil {
		return 0
	}
	return subject.DeviceMem(m.mem).Size
}

// Handle returns the address of the range (CUdeviceptr), for code that calls the driver directly. It
// is valid until the Virtual is closed or collected. For nil and for closed memory it is 0.
func (m *Virtual) Handle() uint64 { return m.Mem().Handle() }

// Span returns size bytes of the range, beginning at off. If they are not mapped, the calls that use
// the Span fail. The Span stays valid if other memory is mapped or unmapped.
func (m *Virtual) Span(off, size uint64) cu.Span {
	if m.Cap() == 0 {
		return cu.Span{}
	}
	return subject.NewSpan(memstate.Span{Mem: subject.DeviceMem(m.mem), Owner: m.mem, Size: m.Cap()}).Span(off, size)
}

// Grow maps new memory of the device behind the memory that is mapped, until the size is at least n
// bytes (cuMemCreate, cuMemMap, cuMemSetAccess). The bytes that are there stay, at the same
// addresses, and work that uses them goes on. The content of the new memory is undefined. Grow does
// not wait for the GPU unless memory is short, as [cu.Context.Alloc]: see docs/blocking.md.
//
// Each call that adds memory makes one mapping. Many small mappings make work with the memory slower.
func (m *Virtual) Grow(n uint64) error {
	const op = "cuMemCreate"
	v, mc, err := m.enter(op)
	if err != nil {
		return err
	}
	defer m.leave(mc)
	if n > v.size {
		return drivercall.BadValue(op, mc, fmt.Sprintf("%d bytes exceed the capacity of %d: reserve more", n, v.size))
	}
	prop, _ := PhysicalOptions{}.prop(v.ctx)
	for {
		have := v.length.Load()
		if have >= n {
			return nil
		}
		size := min(roundUp(n-have, v.unit), v.room(have))
		if size == 0 {
			continue // another call has mapped memory there
		}
		raw, res, collection := createPhysical(v.ctx, size, &prop)
		if res != driver.ResultSuccess {
			return memstate.OutOfMemory(v.ctx, memstate.FailAlloc(v.ctx, op, uintptr(v.raw), size, res, collection))
		}
		err := v.mapAt(raw, v.ctx.Drv.Physical.Add(1), have, size, true)
		v.ctx.Drv.Table().MemRelease(driver.At{}, raw) // the mapping keeps the memory
		if err != nil && err != errMoved {
			return err
		}
	}
}

// Shrink unmaps the memory that was mapped at byte n or later, each mapping as a whole
// (cuMemUnmap). So the size may stay above n, up to the end of a mapping. It waits as
// [Virtual.Unmap] does: see docs/blocking.md.
func (m *Virtual) Shrink(n uint64) error {
	return m.unmap("memory.Virtual.Shrink", func(p *part) (bool, error) { return p.off >= n, nil })
}

// Unmap unmaps size bytes at offset off (cuMemUnmap). The range must not begin or end within a
// mapping. Unmap waits until work that has been enqueued with any part of the range is done: see
// docs/blocking.md.
//
// If calls that use the memory are in flight, or a graph uses it, Unmap returns at once, and the
// library unmaps the memory when they are done. Until then nothing can be mapped there. Later calls
// cannot use the memory: a copy is refused, and a kernel that accesses it fails. A call that begins
// at the same time as Unmap may fail with [cu.ErrClosed].
//
// If the driver fails to unmap memory, it is lost for work all the same. The next Unmap or
// [Virtual.Map] of these addresses, or Close, tries again. [cu.Driver.Stats] counts such memory.
func (m *Virtual) Unmap(off, size uint64) error {
	return m.unmap("memory.Virtual.Unmap", func(p *part) (bool, error) {
		switch inside := p.off >= off && p.off-off < size; {
		case inside && p.size <= size-(p.off-off):
			return true, nil
		case inside || off > p.off && off-p.off < p.size:
			return false, drivercall.BadValue("cuMemUnmap", subject.DeviceMem(m.mem), fmt.Sprintf(
				"%d bytes at %d are a part of a mapping of %d bytes at %d: unmap the whole mapping", size, off,
				p.size, p.off))
		}
		return false, nil
	})
}

func (m *Virtual) unmap(method string, take func(*part) (bool, error)) error {
	v, mc, err := m.enter("cuMemUnmap")
	if err != nil {
		return err
	}
	m.leave(mc) // the generation must be able to end
	defer runtime.KeepAlive(m.mem)
	return v.unmap(method, take)
}

// Map maps physical memory at byte off, which must be a multiple of [Granularity] (cuMemMap,
// cuMemSetAccess). The same memory may be mapped at several places. The mapping keeps the memory
// allocated, also after p is closed. The devices have the access that [Virtual.SetAccess] has set,
// and the context's own device reads and writes. Map does not wait for the GPU.
func (m *Virtual) Map(off uint64, p *Physical) error {
	const op = "cuMemMap"
	v, mc, err := m.enter(op)
	if err != nil {
		return err
	}
	defer m.leave(mc)
	pc, err := p.enter(op)
	if err != nil {
		return drivercall.About(mc, err)
	}
	defer p.leave()
	switch {
	case pc.Ctx.Drv != v.ctx.Drv:
		return core.MixedError(op, pc, mc)
	case off > v.size || pc.size > v.size-off:
		return drivercall.BadValue(op, mc, fmt.Sprintf("%d bytes at %d exceed the capacity of %d", pc.size, off, v.size))
	case off%v.unit != 0:
		return drivercall.BadValue(op, mc, fmt.Sprintf("the offset %d is not a multiple of the granularity, %d", off, v.unit))
	}
	return v.mapAt(pc.raw, pc.physical, off, pc.size, false)
}

// SetAccess sets how a device may access the memory that is mapped, or will be (cuMemSetAccess). If
// it may take a kind of access away, it first waits for the work that has been enqueued with the
// memory: see docs/blocking.md. If a graph uses the memory, or a call is in flight, it returns an
// error, and changes nothing. If the driver refuses the change, it is undone. Work that is enqueued at
// the same time, and that needs the access, fails and poisons its context.
func (m *Virtual) SetAccess(dev *cu.Device, a Access) error {
	const op = "cuMemSetAccess"
	v, mc, err := m.enter(op)
	if err != nil {
		return err
	}
	m.leave(mc) // the generation must be able to end
	defer runtime.KeepAlive(m.mem)
	of := subject.Device(dev)
	switch {
	case of == nil:
		return drivercall.NilArgError(op, mc, "device")
	case of.Drv != v.ctx.Drv:
		return drivercall.Misuse(op, mc, cu.ErrDriverMismatch,
			"the device is of another driver than the memory: open one driver and share it")
	case a != AccessNone && a != AccessRead && a != AccessReadWrite:
		return drivercall.BadValue(op, mc, "unknown access "+a.String()+": see memory.Access")
	}
	if a != AccessReadWrite {
		if err := v.endWork(op); err != nil {
			return err
		}
	}
	return v.setAccess(driver.MemAccessDesc{Location: memstate.DeviceLocation(of.Raw), Flags: int32(a)})
}

// Access returns how a device may access the memory that is mapped at byte off (cuMemGetAccess).
func (m *Virtual) Access(off uint64, dev *cu.Device) (Access, error) {
	const op = "cuMemGetAccess"
	v, mc, err := m.enter(op)
	if err != nil {
		return 0, err
	}
	defer m.leave(mc)
	of := subject.Device(dev)
	if of == nil {
		return 0, drivercall.NilArgError(op, mc, "device")
	}
	if v.at(off) == nil {
		return 0, errUnmappedAt(op, mc, off)
	}
	flags, res := v.ctx.Drv.Table().MemGetAccess(driver.At{}, memstate.DeviceLocation(of.Raw), v.raw+driver.DevicePtr(off))
	if res != driver.ResultSuccess {
		return 0, v.ctx.CallError(op, mc.Handle(), res)
	}
	return Access(flags), nil
}

// Physical returns the physical memory that is mapped at byte off (cuMemRetainAllocationHandle,
// CUDA 11.0). Close it after use.
func (m *Virtual) Physical(off uint64) (*Physical, error) {
	const op = "cuMemRetainAllocationHandle"
	v, mc, err := m.enter(op)
	if err != nil {
		return nil, err
	}
	defer m.leave(mc)
	p := v.at(off) // it stays mapped during the call
	if p == nil {
		return nil, errUnmappedAt(op, mc, off)
	}
	raw, res := v.ctx.Drv.Table().MemRetainAllocationHandle(driver.At{}, driver.HostPtr(v.raw)+driver.HostPtr(off))
	if res != driver.ResultSuccess {
		return nil, v.ctx.CallError(op, mc.Handle(), res)
	}
	return newPhysical(v.ctx, raw, p.physical, p.size), nil
}

// Close unmaps all memory, and gives the addresses back (cuMemUnmap, cuMemAddressFree). It waits
// until the work that uses the memory is done: see docs/blocking.md. If calls that use the memory
// are in flight, or a graph uses it, Close returns at once, and the library does this when they are
// done. Further calls return nil.
func (m *Virtual) Close() error {
	if m == nil || m.mem == nil {
		return drivercall.NilError("cuMemAddressFree", "virtual memory")
	}
	return m.mem.Close()
}
