package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/races"
	"github.com/purecu/purecu/internal/subject"
	"github.com/purecu/purecu/internal/valuename"
)

// Location is a place where memory can be. The zero value is no place.
type Location struct {
	Type LocationType
	// ID is the ordinal of the device, or the number of the NUMA node.
	ID int
}

// LocationOf returns the place that is the device's memory.
func LocationOf(dev *cu.Device) Location {
	of := subject.Device(dev)
	if of == nil {
		return Location{}
	}
	return Location{LocationDevice, int(of.Raw)}
}

// LocationType is the kind of a [Location] (CUmemLocationType).
type LocationType int32

const (
	// LocationDevice is the memory of a device: CU_MEM_LOCATION_TYPE_DEVICE.
	LocationDevice LocationType = driver.CU_MEM_LOCATION_TYPE_DEVICE
	// LocationHost is the memory of the host: CU_MEM_LOCATION_TYPE_HOST.
	LocationHost LocationType = driver.CU_MEM_LOCATION_TYPE_HOST
	// LocationHostNUMA is the memory of a NUMA node: CU_MEM_LOCATION_TYPE_HOST_NUMA.
	LocationHostNUMA LocationType = driver.CU_MEM_LOCATION_TYPE_HOST_NUMA
	// LocationHostNUMACurrent is the memory of the calling thread's NUMA node:
	// CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT.
	LocationHostNUMACurrent LocationType = driver.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
)

// String returns the name of the type.
func (t LocationType) String() string {
	return valuename.Of([]valuename.Name{
		{Value: driver.CU_MEM_LOCATION_TYPE_INVALID, Name: "nowhere"},
		{Value: int32(LocationDevice), Name: "device"},
		{Value: int32(LocationHost), Name: "host"},
		{Value: int32(LocationHostNUMA), Name: "NUMA node"},
		{Value: int32(LocationHostNUMACurrent), Name: "current NUMA node"},
	}, int32(t))
}

// String returns the place in words, such as "device 0".
func (l Location) String() string {
	if l.Type == LocationDevice || l.Type == LocationHostNUMA {
		return fmt.Sprintf("%v %d", l.Type, l.ID)
	}
	return l.Type.String()
}

func (l Location) raw() driver.MemLocation {
	return driver.MemLocation{Type: int32(l.Type), ID: valuename.Clamp32(l.ID)}
}

// Advice is what a program says about the future use of managed memory (CUmem_advise).
type Advice int32

const (
	// AdviseReadMostly says that the memory is read often and written seldom, so that each device
	// may have a copy of it: CU_MEM_ADVISE_SET_READ_MOSTLY.
	AdviseReadMostly Advice = driver.CU_MEM_ADVISE_SET_READ_MOSTLY
	// UnadviseReadMostly ends AdviseReadMostly: CU_MEM_ADVISE_UNSET_READ_MOSTLY.
	UnadviseReadMostly Advice = driver.CU_MEM_ADVISE_UNSET_READ_MOSTLY
	// AdvisePreferredLocation says where the memory should be:
	// CU_MEM_ADVISE_SET_PREFERRED_LOCATION.
	AdvisePreferredLocation Advice = driver.CU_MEM_ADVISE_SET_PREFERRED_LOCATION
	// UnadvisePreferredLocation ends AdvisePreferredLocation:
	// CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION.
	UnadvisePreferredLocation Advice = driver.CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION
	// AdviseAccessedBy says that a device or the host will access the memory, which should be
	// mapped there: CU_MEM_ADVISE_SET_ACCESSED_BY.
	AdviseAccessedBy Advice = driver.CU_MEM_ADVISE_SET_ACCESSED_BY
	// UnadviseAccessedBy ends AdviseAccessedBy: CU_MEM_ADVISE_UNSET_ACCESSED_BY.
	UnadviseAccessedBy Advice = driver.CU_MEM_ADVISE_UNSET_ACCESSED_BY
)

// String returns the name of the advice.
func (a Advice) String() string {
	return valuename.Of([]valuename.Name{
		{Value: int32(AdviseReadMostly), Name: "AdviseReadMostly"},
		{Value: int32(UnadviseReadMostly), Name: "UnadviseReadMostly"},
		{Value: int32(AdvisePreferredLocation), Name: "AdvisePreferredLocation"},
		{Value: int32(UnadvisePreferredLocation), Name: "UnadvisePreferredLocation"},
		{Value: int32(AdviseAccessedBy), Name: "AdviseAccessedBy"},
		{Value: int32(UnadviseAccessedBy), Name: "UnadviseAccessedBy"},
	}, int32(a))
}

// located reports whether a place belongs to the advice.
func (a Advice) located() bool {
	return a == AdvisePreferredLocation || a == AdviseAccessedBy || a == UnadviseAccessedBy
}

// AttachFlags say which streams may access managed memory (CUmemAttach_flags).
type AttachFlags uint32

const (
	// AttachGlobal allows all streams on all devices: CU_MEM_ATTACH_GLOBAL.
	AttachGlobal AttachFlags = driver.CU_MEM_ATTACH_GLOBAL
	// AttachHost allows no stream on devices without concurrent managed access: CU_MEM_ATTACH_HOST.
	AttachHost AttachFlags = driver.CU_MEM_ATTACH_HOST
	// AttachSingle allows one stream only: CU_MEM_ATTACH_SINGLE.
	AttachSingle AttachFlags = driver.CU_MEM_ATTACH_SINGLE
)

// String lists the flags by name.
func (f AttachFlags) String() string {
	return valuename.OfFlags(uint32(f), "0", []string{"AttachGlobal", "AttachHost", "AttachSingle"})
}

var managedMemory = memstate.Kind{
	Traits: memstate.Traits{Everywhere: true, FreeWaits: true, Tracked: true, Managed: true},
	Funcs: &memstate.Funcs{
		Name: "managed memory",
		Free: (*memstate.Mem).FreeDevice,
	},
}

// AllocManaged allocates size bytes of managed memory, which the driver moves to the device or to
// the host that accesses it (cuMemAllocManaged). flags are AttachGlobal or AttachHost. Streams of
// all contexts can use the memory, and the host by [cu.HostMem.View]. It may wait for the GPU if memory
// is short: see docs/blocking.md.
//
// On devices without concurrent managed access, on which the host must not access the memory while
// the GPU has work, the error matches [errors.ErrUnsupported].
func AllocManaged(c *cu.Context, size uint64, flags AttachFlags) (*cu.HostMem, error) {
	const op = "cuMemAllocManaged"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	switch {
	case size == 0 || size > 1<<62:
		return nil, drivercall.BadValue(op, cc,
			fmt.Sprintf("the size is %d bytes: ask for at least 1 and at most 1<<62", size))
	case flags != AttachGlobal && flags != AttachHost:
		return nil, drivercall.BadValue(op, cc,
			"the flags are "+flags.String()+": use memory.AttachGlobal or memory.AttachHost")
	}
	if err := canManage(cc, op, "use Context.AllocHost, and copy the memory"); err != nil {
		return nil, err
	}
	t, at := cc.Drv.Table(), driver.At{Context: cc.Raw}
	var raw driver.DevicePtr
	res, collection := cc.Allocate(func() (res driver.Result) {
		raw, res = t.MemAllocManaged(at, size, uint32(flags))
		return res
	})
	if res != driver.ResultSuccess {
		return nil, memstate.FailAlloc(cc, op, 0, size, res, collection)
	}
	mc := &memstate.Mem{Is: managedMemory, Raw: raw, Host: driver.HostPtr(raw), Size: size, Capacity: size}
	return subject.NewHostMem(cc, mc), nil
}

// canManage returns an error if the host cannot access managed memory at any time.
func canManage(c *core.Context, op, instead string) error {
	can, res := c.Drv.Table().DeviceGetAttribute(driver.At{Context: c.Raw},
		driver.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, c.Dev)
	switch {
	case res != driver.ResultSuccess:
		return c.CallError("cuDeviceGetAttribute", 0, res)
	case can == 0:
		return drivercall.NewError(op, c, cu.ResultNotSupported, errNotConcurrent, instead)
	}
	return nil
}

// errNotConcurrent is wrapped by the error for a device on which the host cannot access managed
// memory at any time.
var errNotConcurrent = fmt.Errorf("the host could not access the memory while the GPU has work: %w",
	errors.ErrUnsupported)

// notManaged returns the error for other memory than managed memory.
func notManaged(op string, m *memstate.Mem) error {
	return drivercall.BadValue(op, m, "the memory is not managed memory: allocate it by memory.AllocManaged")
}

// Prefetch enqueues the move of managed memory to a place (cuMemPrefetchAsync, CUDA 12.2). The
// stream must be of the place's device, or of any for the host. Work that is enqueued on the stream
// later finds the memory there. It may wait for the GPU if earlier prefetches on the stream are not
// done: see docs/blocking.md.
func Prefetch(s *cu.Stream, m cu.Memory, to Location) error {
	return onManaged(s, core.WorkPrefetch, m, func(sc *core.Stream, r *memstate.Region) driver.Result {
		return sc.Ctx.Drv.Table().MemPrefetchAsync(sc.InContext(), r.Addr(), r.Size, to.raw(), 0, sc.Raw)
	})
}

// Attach enqueues that only the streams that flags say may access managed memory, which must be a
// whole allocation (cuStreamAttachMemAsync). With AttachSingle this is the stream. It may wait
// while the stream's queue is full: see docs/blocking.md.
func Attach(s *cu.Stream, m *cu.HostMem, flags AttachFlags) error {
	var of drivercall.Named
	if sc := subject.Stream(s); sc != nil {
		of = sc
	}
	if flags != AttachGlobal && flags != AttachHost && flags != AttachSingle {
		return drivercall.BadValue(core.WorkAttach.Op(), of,
			"the flags are "+flags.String()+": use one of memory.AttachFlags")
	}
	if mc := subject.HostMem(m); mc != nil && mc.Is == pooledManaged && !mc.Closed() {
		return drivercall.BadValue(core.WorkAttach.Op(), mc,
			"the memory is of a pool, which streams of all devices may access: "+
				"allocate it by memory.AllocManaged")
	}
	return onManaged(s, core.WorkAttach, m, func(sc *core.Stream, r *memstate.Region) driver.Result {
		return sc.Ctx.Drv.Table().StreamAttachMemAsync(sc.InContext(), sc.Raw, r.Addr(), 0, uint32(flags))
	})
}

// onManaged enqueues work about managed memory, which uses no content of it.
func onManaged(s *cu.Stream, f core.WorkFunction, m cu.Memory,
	call func(*core.Stream, *memstate.Region) driver.Result) error {
	r := subject.RegionOf(m)
	defer runtime.KeepAlive(m)
	if r.Usable() && (!r.Mem.Is.Managed || r.Size == 0) {
		return notManaged(f.Op(), r.Mem)
	}
	sc := subject.Stream(s)
	return sc.CallWithRetry(f.Op(), func() error {
		w, err := memstate.Begin(sc, f, &r, &r)
		if err != nil {
			return err
		}
		res := call(w.Stream, &r)
		w.Stream.LeaveGate()
		w.End()
		runtime.KeepAlive(s)
		if res != driver.ResultSuccess {
			return w.Stream.Ctx.CallError(f.Op(), uintptr(w.Stream.Raw), res)
		}
		return nil
	})
}

// useManaged makes a call about a part of managed memory.
func useManaged(c *cu.Context, op string, m cu.Memory, call func(*core.Context, *memstate.Region) driver.Result) error {
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return err
	}
	defer subject.LeaveContext(c)
	r := subject.RegionOf(m)
	defer runtime.KeepAlive(m)
	switch err := r.Check(op); {
	case err != nil:
		return drivercall.About(cc, err)
	case r.Mem.Ctx.Drv != cc.Drv:
		return core.MixedError(op, r.Mem, cc)
	case !r.Mem.Is.Managed || r.Size == 0:
		return notManaged(op, r.Mem)
	}
	if err := r.Mem.Enter(r.Mem, op); err != nil {
		return err
	}
	defer r.Mem.EndCall()
	if res := call(cc, &r); res != driver.ResultSuccess {
		return cc.CallError(op, r.Mem.Handle(), res)
	}
	return nil
}

// Advise says how managed memory will be used (cuMemAdvise, CUDA 12.2). It concerns the pages of
// the memory. The place matters for a preferred location, and for who accesses the memory. The
// driver takes no advice about memory of pools: see [PoolOptions].
func Advise(c *cu.Context, m cu.Memory, advice Advice, at Location) error {
	const op = "cuMemAdvise"
	if r := subject.RegionOf(m); r.Usable() && r.Mem.Is == pooledManaged {
		return drivercall.BadValue(op, r.Mem, "the memory is of a pool, about which the driver takes no advice: "+
			"set memory.PoolOptions.Location, or allocate the memory by memory.AllocManaged")
	}
	return useManaged(c, op, m, func(cc *core.Context, r *memstate.Region) driver.Result {
		if at == (Location{}) && !advice.located() { // the driver checks it all the same
			at = Location{Type: LocationDevice, ID: int(cc.Dev)}
		}
		return cc.Drv.Table().MemAdvise(driver.At{Context: cc.Raw}, r.Addr(), r.Size, int32(advice), at.raw())
	})
}

// ManagedInfo is the advice about a part of managed memory. A place is zero if there is none, or if
// it differs between the pages.
type ManagedInfo struct {
	ReadMostly bool
	// Preferred is the preferred location, and LastPrefetch the place of the last prefetch.
	Preferred, LastPrefetch Location
	// AccessedBy are the devices, and the host, for which the memory is mapped.
	AccessedBy []Location
}

// ManagedInfoOf returns the advice about managed memory (cuMemRangeGetAttribute, CUDA 12.2).
//
// The answer is sure for one page, or from the beginning of an allocation. Otherwise driver 580 may
// leave pages out: if m begins inside of pages with the same advice, the driver looks at as many pages
// less behind them. And it does not always note a prefetch or advice for all pages of a part that had
// different advice before.
func ManagedInfoOf(c *cu.Context, m cu.Memory) (i ManagedInfo, err error) {
	err = useManaged(c, "cuMemRangeGetAttribute", m, func(cc *core.Context, r *memstate.Region) (failed driver.Result) {
		get := func(attribute int32, n int) []int32 {
			data, values := make([]byte, 4*n), make([]int32, n)
			at := driver.At{Context: cc.Raw}
			if res := cc.Drv.Table().MemRangeGetAttribute(at, data, attribute, r.Addr(),
				r.Size); res != driver.ResultSuccess {
				failed = res
			}
			for k := range values {
				values[k] = int32(binary.LittleEndian.Uint32(data[4*k:]))
			}
			return values
		}
		place := func(typ, id int32) (l Location) {
			if l.Type = LocationType(get(typ, 1)[0]); l.Type == LocationDevice || l.Type == LocationHostNUMA {
				l.ID = int(get(id, 1)[0])
			}
			return l
		}
		i.ReadMostly = get(driver.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1)[0] != 0
		i.Preferred = place(driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
			driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID)
		i.LastPrefetch = place(driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
			driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
		devices, res := cc.Drv.Table().DeviceGetCount(driver.At{})
		if res != driver.ResultSuccess {
			return res
		}
		for _, dev := range get(driver.CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, int(devices)+1) {
			switch {
			case dev == driver.CU_DEVICE_CPU:
				i.AccessedBy = append(i.AccessedBy, Location{Type: LocationHost})
			case dev >= 0:
				i.AccessedBy = append(i.AccessedBy, Location{LocationDevice, int(dev)})
			}
		}
		return failed
	})
	if err != nil {
		return ManagedInfo{}, err
	}
	return i, nil
}

// Move is a part of managed memory, and the place to which it is moved.
type Move struct {
	Mem cu.Memory
	To  Location
}

// PrefetchAll enqueues the moves of managed memory, with the result of [Prefetch] for each in
// order (cuMemPrefetchBatchAsync, CUDA 13.0). If some fail, the error is a [*cu.BatchError], and the
// others are enqueued. It makes one call of the driver, or one for each on drivers that are older. It
// may wait as [Prefetch]: see docs/blocking.md.
func PrefetchAll(s *cu.Stream, list []Move) error {
	return moveAll(s, core.WorkPrefetchAll, list, func(i int) error { return Prefetch(s, list[i].Mem, list[i].To) },
		func(sc *core.Stream, m moves) driver.Result {
			return sc.Ctx.Drv.Table().MemPrefetchBatchAsync(sc.InContext(), m.addrs, m.sizes, m.places, m.firsts, 0,
				sc.Raw)
		})
}

// Discard enqueues that the content of managed memory is not needed any more, so that the driver
// does not have to move it (cuMemDiscardBatchAsync, CUDA 13.0). Until it is written again, or
// prefetched, reads return any values. If some fail, the error is a [*cu.BatchError], and the
// others are discarded. It may wait as [Prefetch]: see docs/blocking.md.
func Discard(s *cu.Stream, mem ...cu.Memory) error {
	list := make([]Move, len(mem))
	for i, m := range mem {
		list[i].Mem = m
	}
	return moveAll(s, core.WorkDiscard, list, nil, func(sc *core.Stream, m moves) driver.Result {
		return sc.Ctx.Drv.Table().MemDiscardBatchAsync(sc.InContext(), m.addrs, m.sizes, 0, sc.Raw)
	})
}

// DiscardAndPrefetch is [Discard] and then [PrefetchAll] (cuMemDiscardAndPrefetchBatchAsync, CUDA
// 13.0). The memory is then at its new place, and no content was moved. It may wait as [Prefetch]:
// see docs/blocking.md.
func DiscardAndPrefetch(s *cu.Stream, list []Move) error {
	return moveAll(s, core.WorkDiscardPrefetch, list, nil, func(sc *core.Stream, m moves) driver.Result {
		return sc.Ctx.Drv.Table().MemDiscardAndPrefetchBatchAsync(sc.InContext(), m.addrs, m.sizes, m.places, m.firsts,
			0, sc.Raw)
	})
}

// moves are the arguments of calls about several pieces of managed memory: the addresses, the sizes,
// and the places, each from one of the pieces on.
type moves struct {
	addrs  []driver.DevicePtr
	sizes  []uint64
	places []driver.MemLocation
	firsts []uint64
}

func (m *moves) add(r *memstate.Region, to Location) {
	if at := to.raw(); len(m.places) == 0 || m.places[len(m.places)-1] != at {
		m.places, m.firsts = append(m.places, at), append(m.firsts, uint64(len(m.addrs)))
	}
	m.addrs, m.sizes = append(m.addrs, r.Addr()), append(m.sizes, r.Size)
}

// moveAll makes a call about several pieces of managed memory. one makes it for one piece, or is nil
// if call does that, too.
func moveAll(s *cu.Stream, f core.WorkFunction, list []Move, one func(i int) error,
	call func(*core.Stream, moves) driver.Result) error {
	defer runtime.KeepAlive(list)
	defer runtime.KeepAlive(s)
	discards := f == core.WorkDiscard || f == core.WorkDiscardPrefetch
	var all moves
	regions, ranges := make([]memstate.Region, len(list)), make([]memstate.RowRange, len(list))
	fit := len(list) > 1
	for i := 0; fit && i < len(list); i++ {
		r := &regions[i]
		*r = subject.RegionOf(list[i].Mem)
		if fit = r.Valid() && r.Mem.Is.Managed && r.Size != 0; fit {
			all.add(r, list[i].To)
			ranges[i] = r.Rows(true)
		}
	}
	if fit && !memstate.Overlap(ranges) && memstate.EnqueueBatch(subject.Stream(s), f, regions,
		func(sc *core.Stream) driver.Result { return call(sc, all) }) {
		if discards {
			for i := range regions {
				observeDiscard(s, f, &regions[i])
			}
		}
		return nil
	}
	if one == nil {
		if sc := subject.Stream(s); sc != nil && sc.Raw == driver.CU_STREAM_LEGACY {
			return drivercall.BadValue(f.Op(), sc, "the legacy default stream cannot discard memory: use another stream")
		}
		one = func(i int) error {
			r := subject.RegionOf(list[i].Mem)
			err := onManaged(s, f, list[i].Mem, func(sc *core.Stream, r *memstate.Region) driver.Result {
				var m moves
				m.add(r, list[i].To)
				return call(sc, m)
			})
			if err == nil {
				observeDiscard(s, f, &r)
			}
			return err
		}
	}
	return drivercall.OneByOne(f.Op(), len(list), one)
}

// observeDiscard tells the race detector that the content of the region changes.
func observeDiscard(s *cu.Stream, f core.WorkFunction, r *memstate.Region) {
	sc := subject.Stream(s)
	if o := sc.Ctx.Drv.Observer(); o != nil {
		o.Enqueue(sc.Observed(), f.Op(), "", []races.Use{r.Used(r.Size, true, "memory")})
		o.Report()
	}
}
