package memory

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/remedy"
	"github.com/purecu/purecu/internal/subject"
	"github.com/purecu/purecu/internal/valuename"
)

// This file has the pools of memory that the host can access: pinned and managed memory.

// PoolKind is the kind of memory of a [Pool].
type PoolKind uint8

const (
	// PoolDevice is memory of the context's device, for [Pool.Alloc]. It is the zero value.
	PoolDevice PoolKind = iota
	// PoolPinned is pinned memory of the host, for [Pool.AllocHost] (CUDA 13.0).
	PoolPinned
	// PoolManaged is managed memory, for [Pool.AllocHost] (CUDA 13.0).
	PoolManaged
)

// String returns the kind in words.
func (k PoolKind) String() string {
	return valuename.Of([]valuename.Name{
		{Value: int32(PoolDevice), Name: "device memory"},
		{Value: int32(PoolPinned), Name: "pinned memory"},
		{Value: int32(PoolManaged), Name: "managed memory"},
	}, int32(k))
}

// The kinds of memory that only Pool.AllocHost allocates.
var (
	pooledPinned = memstate.Kind{
		Traits: memstate.Traits{OnHost: true, Tracked: true},
		Funcs: &memstate.Funcs{
			Name:   "host memory",
			Pooled: memstate.NewPoolFuncs(),
			Free:   (*memstate.Mem).FreePooled,
		},
	}
	pooledManaged = memstate.Kind{
		Traits: memstate.Traits{Everywhere: true, Tracked: true, Managed: true},
		Funcs: &memstate.Funcs{
			Name:   "managed memory",
			Pooled: memstate.NewPoolFuncs(),
			Free:   (*memstate.Mem).FreePooled,
		},
	}
)

// memory returns the kind of the memory of a pool.
func (k PoolKind) memory() memstate.Kind {
	switch k {
	case PoolPinned:
		return pooledPinned
	case PoolManaged:
		return pooledManaged
	}
	return memstate.DevicePoolMemory
}

// props returns the properties of a pool for the driver.
func (o *PoolOptions) props(op string, c *core.Context) (driver.MemPoolProps, error) {
	p := driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED, MaxSize: o.MaxSize}
	switch {
	case o.Shareable && o.Kind != PoolDevice:
		return p, drivercall.BadValue(op, c,
			"processes share pools of device memory only, and this one is of "+o.Kind.String()+
				": leave Shareable false, or Kind zero")
	case o.Shareable:
		p.HandleTypes = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	}
	switch o.Kind {
	case PoolDevice:
		if o.Location != (Location{}) {
			return p, drivercall.BadValue(op, c, "Location is "+o.Location.String()+
				", and device memory is always of the context's device: leave Location zero, or choose another Kind")
		}
		p.Location = memstate.DeviceLocation(c.Dev)
	case PoolPinned:
		switch p.Location = o.Location.raw(); o.Location.Type {
		case 0:
			p.Location.Type = driver.CU_MEM_LOCATION_TYPE_HOST
		case LocationHost, LocationHostNUMA:
		default:
			return p, drivercall.BadValue(op, c, "Location is "+o.Location.String()+", where no pool has pinned memory: "+
				"leave Location zero, or use memory.LocationHost or memory.LocationHostNUMA")
		}
	case PoolManaged:
		if o.MaxSize != 0 {
			return p, drivercall.BadValue(op, c, "the driver limits no pool of managed memory: leave MaxSize 0")
		}
		p.AllocType, p.Location = driver.CU_MEM_ALLOCATION_TYPE_MANAGED, o.Location.raw()
		if err := canManage(c, op, "use a pool of pinned memory"); err != nil {
			return p, err
		}
	default:
		return p, drivercall.BadValue(op, c, fmt.Sprintf("unknown kind of memory %d: see memory.PoolKind", o.Kind))
	}
	return p, nil
}

// withHostPools is the first CUDA version with pools of managed memory, and of pinned memory that
// is of no NUMA node.
const withHostPools = 13000

// failPool returns the error for a pool that the driver has not created, which may be too old for
// it.
func failPool(c *core.Context, op string, p driver.MemPoolProps, res driver.Result) *cu.Error {
	symbol := "CU_MEM_ALLOCATION_TYPE_MANAGED"
	if p.AllocType == driver.CU_MEM_ALLOCATION_TYPE_PINNED {
		symbol = "CU_MEM_LOCATION_TYPE_HOST"
	}
	v := c.Drv.Table().Version()
	switch old := res == driver.ResultInvalidValue || res == driver.ResultNotSupported; {
	case !old || v >= withHostPools:
	case p.AllocType == driver.CU_MEM_ALLOCATION_TYPE_MANAGED, p.Location.Type == driver.CU_MEM_LOCATION_TYPE_HOST:
		m := &driver.MissingError{Symbol: "cuMemPoolCreate with " + symbol, Since: withHostPools, Driver: v,
			Software: c.Drv.Table().Software()}
		return drivercall.NewError(op, c, cu.ResultNotSupported, m, remedy.OfMissing(m))
	}
	return c.CallError(op, 0, res)
}

// AllocHost allocates size bytes of a pool of pinned or of managed memory in the order of the
// stream, and returns at once (cuMemAllocFromPoolAsync, CUDA 13.0). The pool must be of the
// stream's context. Work that is enqueued on the stream later can use the memory. The content is
// undefined. Other streams, and the host by [cu.HostMem.View] and [cu.HostMem.ReadAt], must come after
// the allocation: see [cu.Stream.WaitStream] and [cu.Stream.Synchronize]. Close frees the memory as it
// frees memory of [cu.Stream.Alloc]: in the order of the stream, and without waiting. AllocHost may
// wait for the GPU if memory is short: see docs/blocking.md.
//
// Kernels and sets can access pinned memory on the device of the pool's context, and on the devices
// that [Pool.SetAccess] has allowed. Copies can access it on all devices. Managed memory is for
// all devices. It has the preferred location of the pool, which [Advise] cannot change.
// [Prefetch] moves it.
//
// Graphs cannot allocate this memory: in a capture the error matches [errors.ErrUnsupported], and
// the capture continues.
func (p *Pool) AllocHost(s *cu.Stream, size uint64) (*cu.HostMem, error) {
	const op = "cuMemAllocFromPoolAsync"
	pc, err := p.enter(op)
	if err != nil {
		return nil, err
	}
	defer p.leave()
	if pc.Memory == memstate.DevicePoolMemory {
		return nil, drivercall.BadValue(op, pc,
			"the pool is of device memory: use memory.Pool.Alloc, or set memory.PoolOptions.Kind for the pool")
	}
	sc := subject.Stream(s)
	switch {
	case sc == nil:
		return nil, drivercall.NilArgError(op, pc, "stream")
	case sc.Ctx != pc.Ctx:
		return nil, core.MixedError(op, pc, sc)
	}
	if err := sc.Begin(op); err != nil {
		return nil, err
	}
	defer subject.LeaveStream(s)
	if size == 0 || size > 1<<62 {
		return nil, drivercall.BadValue(op, sc,
			fmt.Sprintf("the size is %d bytes: ask for at least 1 and at most 1<<62", size))
	}
	var raw driver.DevicePtr
	refused := false
	res, collection := sc.Ctx.Allocate(func() (res driver.Result) {
		raw, res, refused = memstate.AllocOnce(sc, size, pc, nil)
		return res
	})
	switch {
	case refused:
		return nil, drivercall.NewError(op, sc, cu.ResultStreamCaptureUnsupported, errGraphHost,
			"allocate before the capture, and close the memory after the last launch of the graph")
	case res != driver.ResultSuccess:
		return nil, memstate.FailPoolAlloc(sc, op, size, res, pc, collection)
	}
	mc := &memstate.Mem{Is: pc.Memory, Raw: raw, Host: driver.HostPtr(raw), Size: size, Capacity: size,
		PoolFields: memstate.PoolFields{Pool: pc}}
	pc.Retain()
	m := subject.NewHostMem(sc.Ctx, mc)
	mc.Resource.UsedOn(sc)
	mc.ObserveOrder(op, sc)
	return m, nil
}

// errGraphHost is wrapped by the error for an allocation that would become a node of a graph.
var errGraphHost = fmt.Errorf("graphs cannot allocate pinned or managed memory: %w", errors.ErrUnsupported)

// notOnDevice returns an error if the pool is not of device memory.
func notOnDevice(p *memstate.Pool, op, instead string) error {
	if p.Memory == memstate.DevicePoolMemory {
		return nil
	}
	return drivercall.BadValue(op, p, "the pool is of "+p.Memory.Name+", not of device memory: "+instead)
}
