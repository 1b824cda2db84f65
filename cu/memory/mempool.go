package memory

import (
	"errors"
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/subject"
	"github.com/purecu/purecu/internal/valuename"
)

// Pool is a pool of memory of the device, or of pinned or managed memory (CUmemoryPool). It
// reserves memory, and streams allocate from it and free to it without waiting for the GPU. It is
// safe for concurrent use.
type Pool struct {
	_ core.NoCopy
	poolRef
}

// poolRef is an alias, so that the field of a Pool is not exported.
type poolRef = core.Ref[memstate.Pool]

// core returns the state of the pool, or nil for a nil or zero Pool.
func (p *Pool) core() *memstate.Pool {
	if p == nil {
		return nil
	}
	return core.State(&p.poolRef)
}

// PoolOptions are the options of [NewPool]. The zero value is a pool of device memory, for this
// process, without a limit.
type PoolOptions struct {
	// Kind is the kind of memory.
	Kind PoolKind
	// Location is where the memory is. For pinned memory it is LocationHost or the zero value, which
	// mean the same, or LocationHostNUMA with a node. For managed memory it is the preferred
	// location, or the zero value for none. Device memory is on the context's device: leave it zero.
	Location Location
	// MaxSize is the most memory that the pool reserves, in bytes, or 0 for no limit (CUDA 12.2).
	// Managed memory has no limit.
	MaxSize uint64
	// Shareable makes a pool that [Pool.Export] can share with other processes on Linux.
	Shareable bool
}

// PoolStats are the amounts of memory of a pool, in bytes.
type PoolStats struct {
	// Reserved is what the pool has of the device's or the host's memory, and Used what is
	// allocated. Memory that a stream is going to free does not count as used. Abandoned memory
	// that a freeing call frees does count afterwards, with NVIDIA's driver of CUDA 13.0: the pool
	// can use it again.
	Reserved, Used uint64
	// ReservedHigh and UsedHigh are the highest values since [Pool.ResetHigh].
	ReservedHigh, UsedHigh uint64
}

// PoolReuse says which memory that was freed on a stream can serve an allocation on another
// stream. An allocation on the same stream can always use it.
type PoolReuse uint8

const (
	// ReuseFollowEvents allows memory whose free comes before the allocation, because of events:
	// CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES.
	ReuseFollowEvents PoolReuse = 1 << iota
	// ReuseOpportunistic allows memory whose free is complete, although nothing makes the
	// allocation come after it: CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC.
	ReuseOpportunistic
	// ReuseInternalDependencies allows the driver to make the allocating stream wait for the free:
	// CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES.
	ReuseInternalDependencies
)

// String lists the policies by name.
func (r PoolReuse) String() string {
	return valuename.OfFlags(uint32(r), "0",
		[]string{"ReuseFollowEvents", "ReuseOpportunistic", "ReuseInternalDependencies"})
}

// newPool returns the pool with a handle, within a call on the context.
func newPool(c *core.Context, raw driver.MemoryPool, memory memstate.Kind, foreign bool) *Pool {
	p, pc := new(Pool), &memstate.Pool{Raw: raw, Memory: memory, Foreign: foreign}
	core.SetState(&p.poolRef, pc, core.Owned(p, &pc.Resource, pc, c))
	return p
}

// NewPool creates a pool of memory (cuMemPoolCreate, CUDA 11.2; pinned and managed memory CUDA
// 13.0). Streams of the context allocate from it. The context's device can access the memory.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func NewPool(c *cu.Context, o PoolOptions) (*Pool, error) {
	const op = "cuMemPoolCreate"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	props, err := o.props(op, cc)
	if err != nil {
		return nil, err
	}
	raw, res, collection := core.Allocated(cc, func() (driver.MemoryPool, driver.Result) {
		return cc.Drv.Table().MemPoolCreate(driver.At{Context: cc.Raw}, props)
	})
	if res != driver.ResultSuccess {
		return nil, collection.Explain(failPool(cc, op, props, res))
	}
	p := newPool(cc, raw, o.Kind.memory(), false)
	p.core().Most = o.MaxSize
	cc.Drv.MemPools.Store(raw, p.core())
	if o.Kind == PoolPinned { // no device can access a new one
		if err := p.SetAccess(c.Device(), true); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// DefaultPool returns the default pool of the context's device (cuDeviceGetDefaultMemPool, CUDA
// 11.2). Close ends the use of the value, and does not destroy the pool.
func DefaultPool(c *cu.Context) (*Pool, error) {
	return devicePool(c, "cuDeviceGetDefaultMemPool", (*driver.Table).DeviceGetDefaultMemPool)
}

// CurrentPool returns the current pool of the context's device, from which [cu.Stream.Alloc]
// allocates (cuDeviceGetMemPool, CUDA 11.2). Close ends the use of the value. A pool of [NewPool]
// is not destroyed before that.
func CurrentPool(c *cu.Context) (*Pool, error) {
	return devicePool(c, "cuDeviceGetMemPool", (*driver.Table).DeviceGetMemPool)
}

func devicePool(c *cu.Context, op string,
	get func(*driver.Table, driver.At, driver.Device) (driver.MemoryPool, driver.Result)) (*Pool, error) {
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	ask := func() (driver.MemoryPool, driver.Result) {
		return get(cc.Drv.Table(), driver.At{Context: cc.Raw}, cc.Dev)
	}
	raw, res := ask()
	var of *memstate.Pool
	for again := true; again && res == driver.ResultSuccess; { // the pool may be destroyed meanwhile
		before := raw
		known, _ := cc.Drv.MemPools.Load(raw)
		of, _ = known.(*memstate.Pool)
		raw, res = ask()
		again = raw != before
	}
	if res != driver.ResultSuccess {
		return nil, cc.CallError(op, 0, res)
	}
	if of != nil {
		if err := of.Enter(of, op); err != nil {
			return nil, err
		}
	}
	p := newPool(cc, raw, memstate.DevicePoolMemory, true)
	p.core().Of = of
	return p, nil
}

// SetPool makes [cu.Stream.Alloc] allocate from the pool, in all contexts of the context's device,
// or from the default pool if p is nil (cuDeviceSetMemPool, CUDA 11.2). The pool must be of device
// memory. The end of the pool ends this.
func SetPool(c *cu.Context, p *Pool) error {
	const op = "cuDeviceSetMemPool"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return err
	}
	defer subject.LeaveContext(c)
	t, at := cc.Drv.Table(), driver.At{Context: cc.Raw}
	var raw driver.MemoryPool
	res := driver.ResultSuccess
	if p == nil {
		raw, res = t.DeviceGetDefaultMemPool(at, cc.Dev)
	} else {
		pc, err := p.enter(op)
		if err != nil {
			return drivercall.About(cc, err)
		}
		defer p.leave()
		if pc.Ctx.Drv != cc.Drv || pc.Ctx.Dev != cc.Dev {
			return core.MixedError(op, pc, cc)
		}
		if err := notOnDevice(pc, op, "pass a pool of device memory"); err != nil {
			return err
		}
		raw = pc.Raw
	}
	if res == driver.ResultSuccess {
		res = t.DeviceSetMemPool(at, cc.Dev, raw)
	}
	if res != driver.ResultSuccess {
		return cc.CallError(op, uintptr(raw), res)
	}
	return nil
}

// object returns the object for an error, or nil if there is none.
func (p *Pool) object() drivercall.Named {
	if p.core() == nil {
		return nil
	}
	return p.core()
}

// enter begins a call on the pool. leave ends it.
func (p *Pool) enter(op string) (*memstate.Pool, error) {
	if p.core() == nil {
		return nil, drivercall.NilError(op, "memory pool")
	}
	return p.core(), p.core().Enter(p.core(), op)
}

func (p *Pool) leave() {
	p.core().EndCall()
	runtime.KeepAlive(p)
}

// Close destroys the pool (cuMemPoolDestroy). If memory of the pool is allocated, the pool is
// destroyed when the memory has been freed. Close does not wait for the GPU. Further calls return
// nil.
func (p *Pool) Close() error {
	if p.core() == nil {
		return drivercall.NilError("cuMemPoolDestroy", "memory pool")
	}
	return p.core().CloseOwned("memory.Pool.Close", core.CleanupOf(&p.poolRef))
}

// Handle returns the CUmemoryPool, for code that calls the driver directly. It is valid until the
// Pool is closed or collected. For nil and for a closed pool it is 0.
func (p *Pool) Handle() uintptr {
	if p.core() == nil || p.core().Closed() {
		return 0
	}
	return uintptr(p.core().Raw)
}

// call makes a call of the driver about the pool.
func (p *Pool) call(op string, f func(t *driver.Table, at driver.At, raw driver.MemoryPool) driver.Result) error {
	pc, err := p.enter(op)
	if err != nil {
		return err
	}
	defer p.leave()
	if res := f(pc.Ctx.Drv.Table(), driver.At{Context: pc.Ctx.Raw}, pc.Raw); res != driver.ResultSuccess {
		return pc.Ctx.CallError(op, uintptr(pc.Raw), res)
	}
	return nil
}

// get returns attributes of the pool, each as 64 bits.
func (p *Pool) get(attrs ...int32) (values []uint64, err error) {
	const op = "cuMemPoolGetAttribute"
	err = p.call(op, func(t *driver.Table, at driver.At, raw driver.MemoryPool) driver.Result {
		for _, a := range attrs {
			v, res := t.MemPoolGetAttribute(at, raw, a)
			if res != driver.ResultSuccess {
				return res
			}
			values = append(values, v)
		}
		return driver.ResultSuccess
	})
	return values, err
}

// set sets an attribute of the pool.
func (p *Pool) set(attr int32, value uint64) error {
	const op = "cuMemPoolSetAttribute"
	return p.call(op, func(t *driver.Table, at driver.At, raw driver.MemoryPool) driver.Result {
		return t.MemPoolSetAttribute(at, raw, attr, value)
	})
}

// Stats returns the amounts of memory of the pool (cuMemPoolGetAttribute, CUDA 11.3). They are read
// one after the other.
func (p *Pool) Stats() (PoolStats, error) {
	v, err := p.get(driver.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, driver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
		driver.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, driver.CU_MEMPOOL_ATTR_USED_MEM_HIGH)
	if err != nil {
		return PoolStats{}, err
	}
	return PoolStats{Reserved: v[0], Used: v[1], ReservedHigh: v[2], UsedHigh: v[3]}, nil
}

// ResetHigh sets ReservedHigh and UsedHigh to the current values (cuMemPoolSetAttribute, CUDA
// 11.3).
func (p *Pool) ResetHigh() error {
	if err := p.set(driver.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0); err != nil {
		return err
	}
	return p.set(driver.CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)
}

// ReleaseThreshold returns the reserved memory, in bytes, up to which the pool keeps memory that is
// not used when the program waits for a stream, an event or a context (cuMemPoolGetAttribute).
func (p *Pool) ReleaseThreshold() (uint64, error) {
	v, err := p.get(driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// SetReleaseThreshold sets what [Pool.ReleaseThreshold] returns (cuMemPoolSetAttribute). The
// default is 0. With [math.MaxUint64] the pool keeps all memory.
func (p *Pool) SetReleaseThreshold(bytes uint64) error {
	return p.set(driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, bytes)
}

// Reuse returns the policies by which memory that one stream has freed serves an allocation on
// another stream (cuMemPoolGetAttribute).
func (p *Pool) Reuse() (r PoolReuse, err error) {
	v, err := p.get(driver.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
		driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
	for i, v := range v {
		if v != 0 {
			r |= 1 << i
		}
	}
	return r, err
}

// SetReuse sets the policies that [Pool.Reuse] returns (cuMemPoolSetAttribute). A new pool has
// all of them.
func (p *Pool) SetReuse(r PoolReuse) error {
	if r&^(ReuseFollowEvents|ReuseOpportunistic|ReuseInternalDependencies) != 0 {
		return drivercall.BadValue("cuMemPoolSetAttribute", p.object(),
			"unknown policies "+r.String()+": see memory.PoolReuse")
	}
	for i := range 3 {
		attr := int32(driver.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES + i)
		if err := p.set(attr, uint64(r>>i&1)); err != nil {
			return err
		}
	}
	return nil
}

// Trim gives reserved memory that is not used back to the device, until keep bytes are reserved
// (cuMemPoolTrimTo).
func (p *Pool) Trim(keep uint64) error {
	return p.call("cuMemPoolTrimTo", func(t *driver.Table, at driver.At, raw driver.MemoryPool) driver.Result {
		return t.MemPoolTrimTo(at, raw, keep)
	})
}

// SetAccess allows kernels on another device to access the pool's memory, or ends that
// (cuMemPoolSetAccess). [cu.Context.EnablePeerAccess] does not allow it. A launch does not find out
// whether other code has allowed it: call SetAccess also then. Kernels that use the memory after the
// end fail, which poisons their context. Managed memory is for all devices, and needs no access.
func (p *Pool) SetAccess(peer *cu.Device, allow bool) error {
	const op = "cuMemPoolSetAccess"
	dev := subject.Device(peer)
	if dev == nil {
		return drivercall.NilArgError(op, p.object(), "device")
	}
	if p.core() != nil && p.core().Memory == pooledManaged {
		return drivercall.BadValue(op, p.core(),
			"managed memory is for all devices, whose access does not change: do not set it")
	}
	desc := driver.MemAccessDesc{Location: memstate.DeviceLocation(dev.Raw)}
	if allow {
		desc.Flags = driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	}
	return p.call(op, func(t *driver.Table, at driver.At, raw driver.MemoryPool) driver.Result {
		res := t.MemPoolSetAccess(at, raw, []driver.MemAccessDesc{desc})
		if res == driver.ResultSuccess {
			key := memstate.PoolAccess{Pool: raw, Dev: dev.Raw}
			if allow {
				p.core().Ctx.Drv.MemPoolAccess.Store(key, true)
			} else {
				p.core().Ctx.Drv.MemPoolAccess.Delete(key)
			}
		}
		return res
	})
}

// Access reports whether kernels on a device can access the pool's memory (cuMemPoolGetAccess).
func (p *Pool) Access(dev *cu.Device) (can bool, err error) {
	const op = "cuMemPoolGetAccess"
	of := subject.Device(dev)
	if of == nil {
		return false, drivercall.NilArgError(op, p.object(), "device")
	}
	err = p.call(op, func(t *driver.Table, at driver.At, raw driver.MemoryPool) driver.Result {
		flags, res := t.MemPoolGetAccess(at, raw, memstate.DeviceLocation(of.Raw))
		// The driver (580) says no for managed memory, which is for all devices.
		can = flags == driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE || p.core().Memory == pooledManaged
		return res
	})
	return can, err
}

// Alloc is [cu.Stream.Alloc] with this pool, which must be of the stream's context
// (cuMemAllocFromPoolAsync, CUDA 11.2). It may wait for the GPU if memory is short: see
// docs/blocking.md.
func (p *Pool) Alloc(s *cu.Stream, size uint64) (*cu.DeviceMem, error) {
	const op = "cuMemAllocFromPoolAsync"
	pc, err := p.enter(op)
	if err != nil {
		return nil, err
	}
	defer p.leave()
	if err := notOnDevice(pc, op, "use memory.Pool.AllocHost"); err != nil {
		return nil, err
	}
	sc := subject.Stream(s)
	switch {
	case sc == nil:
		return nil, drivercall.NilArgError(op, pc, "stream")
	case sc.Ctx != pc.Ctx:
		return nil, core.MixedError(op, pc, sc)
	}
	var m *cu.DeviceMem
	err = memstate.AllocPooled(sc, op, size, pc, func(mc *memstate.Mem) { m = subject.NewDeviceMem(pc.Ctx, mc) })
	runtime.KeepAlive(s)
	return m, err
}
