package memory

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/memstate"
)

// This file has the memory that is mapped at reserved addresses, and the protocol by which it is
// unmapped.
//
// cuMemUnmap does not wait for work that uses the memory: such work fails. So the library waits.
// Work uses the whole range, as nobody knows which addresses a kernel accesses. The range has one
// memstate.Mem at a time, its generation, which work uses as it uses other memory. To unmap a part, the
// next generation takes over, and the old one is closed. When the old one is not used any more, it
// is freed, like other memory, and that unmaps the part. The last generation also gives the
// addresses back. A generation is freed after the one before, because work of that one may use what
// it unmaps.

var virtualMemory = memstate.Kind{
	Traits: memstate.Traits{Tracked: true},
	Funcs: &memstate.Funcs{
		Name:     "virtual memory",
		Unshared: "the memory is virtual: use memory.Physical.Export, or Context.Alloc",
		Free:     func(mc *memstate.Mem, at driver.At) (string, driver.Result) { return mc.Virt.Free(at) },
	},
}

// virtualCore is a range of addresses, with the memory that is mapped there.
type virtualCore struct {
	ctx  *core.Context
	raw  driver.DevicePtr
	size uint64
	unit uint64 // sizes and offsets of mappings are multiples of it
	// now is the generation that new work uses.
	now atomic.Pointer[memstate.Mem]
	// length is the number of bytes that are mapped from the beginning without a gap.
	length atomic.Uint64
	// parts are the mappings, in the order of their offsets. The slice is replaced and never changed.
	parts atomic.Pointer[[]*part]
	// devices has a bit for each other device that may access the memory.
	devices atomic.Uint64

	mu lock.Mutex[lock.Virtual] // guards the following, and changes of the above
	// leaving are mappings that are not used for new work, and perhaps not unmapped yet.
	leaving []*part
	access  []driver.MemAccessDesc // of all mappings
	closed  bool
}

// part is a mapping.
type part struct {
	off, size uint64
	physical  uint64       // the number of the memory: see core.Numbering
	state     atomic.Int32 // a part's state
}

// The states of a part that is in virtualCore.leaving.
const (
	// leavingPart is to be unmapped when its generation is freed.
	leavingPart int32 = iota
	// stuckPart is used by no work, and the driver has failed to unmap it.
	stuckPart
	// gonePart was unmapped.
	gonePart
)

// stuck returns the parts of leaving that the driver has failed to unmap. The caller holds the lock.
func (v *virtualCore) stuck() (list []*part) {
	for _, p := range v.leaving {
		if p.state.Load() == stuckPart {
			list = append(list, p)
		}
	}
	return list
}

// unmapPart unmaps a part that no work uses.
func (v *virtualCore) unmapPart(at driver.At, p *part) driver.Result {
	res := v.ctx.Drv.Table().MemUnmap(at, v.raw+driver.DevicePtr(p.off), p.size)
	if res != driver.ResultSuccess {
		p.state.Store(stuckPart)
		return res
	}
	p.state.Store(gonePart)
	v.ctx.Unmapping.Add(-1)
	v.ctx.UnmappingBytes.Add(-int64(p.size))
	return res
}

// generation is what a memstate.Mem of a virtualCore has beyond that of other memory.
type generation struct {
	of *virtualCore
	// unmap are the mappings to be unmapped when the memstate.Mem is freed. If last is set, the
	// addresses are given back, too.
	unmap []*part
	last  bool
	// next is the next generation, with a call in flight for this one.
	next *memstate.Mem
}

// Current returns the memory that stands for the range now.
func (g *generation) Current() *memstate.Mem { return g.of.now.Load() }

// Length returns how many bytes of the range are mapped.
func (g *generation) Length() uint64 { return g.of.length.Load() }

// newGeneration returns a new memstate.Mem. The caller is a user of the context.
func (v *virtualCore) newGeneration() *memstate.Mem {
	mc := &memstate.Mem{Is: virtualMemory, Raw: v.raw, Size: v.size, Virt: &generation{of: v}}
	mc.UsedStreams = new(core.StreamSet)
	mc.Init(mc, v.ctx)
	return mc
}

// list returns the mappings.
func (v *virtualCore) list() []*part {
	if l := v.parts.Load(); l != nil {
		return *l
	}
	return nil
}

// at returns the mapping that has an offset, or nil.
func (v *virtualCore) at(off uint64) *part {
	for _, p := range v.list() {
		if off >= p.off && off-p.off < p.size {
			return p
		}
	}
	return nil
}

// Covers reports whether all bytes of a part of the range are mapped.
func (g *generation) Covers(off, size uint64) bool {
	for _, p := range g.of.list() {
		if off >= p.off && off-p.off < p.size {
			n := min(size, p.size-(off-p.off))
			off, size = off+n, size-n
		}
	}
	return size == 0
}

// MemoryBytes returns how much memory is mapped.
func (g *generation) MemoryBytes() (n uint64) {
	for _, p := range g.of.list() {
		n += p.size
	}
	return n
}

// room returns the number of bytes from an offset to the next mapping, or to the end of the range.
func (v *virtualCore) room(off uint64) uint64 {
	for _, p := range v.list() {
		if p.off >= off {
			return p.off - off
		}
	}
	return v.size - off
}

// store replaces the mappings. The caller holds the lock.
func (v *virtualCore) store(parts []*part) {
	n := uint64(0)
	for _, p := range parts {
		if p.off == n {
			n += p.size
		}
	}
	v.parts.Store(&parts)
	v.length.Store(n)
}

// errMoved says that the memory does not end where mapAt was to add some.
var errMoved = errors.New("another call has mapped or unmapped memory")

// mapAt maps physical memory. With append set it does so only if off is the size of the memory, and
// returns errMoved otherwise.
func (v *virtualCore) mapAt(raw driver.MemGenericAllocationHandle, physical, off, size uint64, append bool) error {
	op, res, err := v.mapLocked(raw, physical, off, size, append)
	switch {
	case err != nil:
		return err
	case res != driver.ResultSuccess:
		return v.ctx.CallError(op, uintptr(v.raw)+uintptr(off), res)
	}
	v.ctx.Drv.ReportRaces()
	return nil
}

func (v *virtualCore) mapLocked(raw driver.MemGenericAllocationHandle, physical, off, size uint64,
	append bool) (op string, res driver.Result, err error) {
	op = "cuMemMap"
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return op, 0, v.now.Load().Refused(op)
	}
	if append && v.length.Load() != off {
		return op, 0, errMoved
	}
	overlaps := func(p *part) bool { return p.off < off+size && off < p.off+p.size }
	for _, p := range v.stuck() {
		if overlaps(p) {
			if res = v.unmapPart(driver.At{}, p); res != driver.ResultSuccess {
				return "cuMemUnmap", res, nil
			}
		}
	}
	v.leaving = slices.DeleteFunc(v.leaving, func(p *part) bool { return p.state.Load() == gonePart })
	switch parts := v.list(); {
	case slices.ContainsFunc(parts, overlaps):
		return op, 0, drivercall.BadValue(op, v.now.Load(), fmt.Sprintf(
			"memory is mapped in the %d bytes at %d: unmap it first", size, off))
	case slices.ContainsFunc(v.leaving, overlaps):
		return op, 0, drivercall.Misuse(op, v.now.Load(), errLeaving, fmt.Sprintf(
			"%d bytes at %d: end the calls, and close the graphs, that use the memory", size, off))
	}
	t, addr := v.ctx.Drv.Table(), v.raw+driver.DevicePtr(off)
	if res = t.MemMap(driver.At{}, addr, size, 0, raw, 0); res != driver.ResultSuccess {
		return op, res, nil
	}
	if res = t.MemSetAccess(driver.At{}, addr, size, v.access); res != driver.ResultSuccess {
		t.MemUnmap(driver.At{}, addr, size) // nothing has used it
		return "cuMemSetAccess", res, nil
	}
	p := &part{off: off, size: size, physical: physical}
	if o := v.ctx.Drv.Observer(); o != nil {
		o.Mapped(virtualMemory.Name, uint64(addr), size, physical)
	}
	parts := slices.Clone(v.list())
	i, _ := slices.BinarySearchFunc(parts, off, func(p *part, off uint64) int {
		if p.off < off {
			return -1
		}
		return 1
	})
	v.store(slices.Insert(parts, i, p))
	return op, driver.ResultSuccess, nil
}

// errLeaving is wrapped by the error for addresses whose memory is to be unmapped.
var errLeaving = errors.New("the memory that was unmapped there is still in use")

// errUnmappedAt returns the error for an offset without memory.
func errUnmappedAt(op string, of drivercall.Named, off uint64) error {
	return drivercall.BadValue(op, of, fmt.Sprintf("no memory is mapped at offset %d: "+
		"use memory.Virtual.Grow or memory.Virtual.Map", off))
}

// endWork waits for all work that uses the memory, also of graphs. It returns an error if the memory
// stays in use.
func (v *virtualCore) endWork(op string) error {
	old, err := v.retire(op, nil)
	if err != nil {
		return err
	}
	if err := old.CloseOwned("memory.Virtual.SetAccess", runtime.Cleanup{}); err != nil {
		return detailed(err, "the access does not change: set it on another goroutine, or after the function")
	}
	if !old.Freed.Load() { // which also the generations before it are then
		return drivercall.Misuse(op, v.now.Load(), errInUse, "end the calls, and close the graphs, that use the memory")
	}
	return nil
}

// errInUse is wrapped by the error for memory whose access cannot be taken away now.
var errInUse = errors.New("the memory is in use")

// unmap ends the generation, and with it the mappings that take chooses. method is the method that
// the program has called.
func (v *virtualCore) unmap(method string, take func(*part) (bool, error)) error {
	old, err := v.retire("cuMemUnmap", take)
	if old == nil {
		return err
	}
	return detailed(old.CloseOwned(method, runtime.Cleanup{}), "the memory is unmapped when its work is done")
}

// detailed replaces what a core.LaterError says about the end of an object: the range is not closed.
func detailed(err error, detail string) error {
	if e, ok := err.(*cu.Error); ok && errors.Is(e.Err, cu.ResultNotPermitted) {
		e.Detail = detail
	}
	return err
}

// retire makes another generation the current one, and returns the old one, or nil if take chooses
// no mapping. Without take all mappings stay.
func (v *virtualCore) retire(op string, take func(*part) (bool, error)) (*memstate.Mem, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.now.Load()
	if v.closed {
		return nil, old.Refused(op)
	}
	all := take == nil
	if all {
		take = func(*part) (bool, error) { return false, nil }
	}
	var stay, leave, again []*part
	for _, p := range v.list() {
		switch taken, err := take(p); {
		case err != nil:
			return nil, err
		case taken:
			leave = append(leave, p)
		default:
			stay = append(stay, p)
		}
	}
	for _, p := range v.stuck() { // the error for a part of one was returned before
		if taken, err := take(p); taken && err == nil {
			again = append(again, p)
		}
	}
	if leave == nil && again == nil && !all {
		return nil, nil
	}
	next := v.newGeneration()
	next.Retain()
	g := old.Virt.(*generation)
	g.unmap, g.next = append(again, v.leave(leave)...), next
	for _, p := range again {
		p.state.Store(leavingPart)
	}
	v.store(stay)
	v.now.Store(next)
	return old, nil
}

// leave notes that mappings are to be unmapped, and returns them. The caller holds the lock.
func (v *virtualCore) leave(parts []*part) []*part {
	v.leaving = append(v.leaving, parts...)
	for _, p := range parts {
		v.ctx.Unmapping.Add(1)
		v.ctx.UnmappingBytes.Add(int64(p.size))
	}
	return parts
}

// end marks the range as closed, and returns the last generation, or nil if that was done before.
func (v *virtualCore) end() *memstate.Mem {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	last := v.now.Load()
	g := last.Virt.(*generation)
	g.unmap, g.last = v.leave(v.list()), true
	return last
}

// Close is the Close of the owner.
func (g *generation) Close(cleanup runtime.Cleanup) error {
	if last := g.of.end(); last != nil {
		return last.CloseOwned("memory.Virtual.Close", cleanup)
	}
	return nil
}

// Forgotten is Close for an owner that is abandoned.
func (g *generation) Forgotten() {
	if last := g.of.end(); last != nil {
		last.Resource.Forgotten()
	}
}

// parts returns what is to be unmapped when the generation is freed: at the end of the range also
// what the driver has failed to unmap.
func (g *generation) parts() []*part {
	if !g.last {
		return g.unmap
	}
	v := g.of
	v.mu.Lock()
	defer v.mu.Unlock()
	return append(v.stuck(), g.unmap...)
}

// Free frees the generation, whose work is done. What the driver fails to unmap stays in leaving: the
// next call that unmaps it, maps memory there, or closes the range, tries again.
func (g *generation) Free(at driver.At) (op string, res driver.Result) {
	v := g.of
	at.Context = 0
	for _, p := range g.parts() {
		if o := v.ctx.Drv.Observer(); o != nil {
			o.Freed(uint64(v.raw)+p.off, false)
		}
		if r := v.unmapPart(at, p); r != driver.ResultSuccess && res == driver.ResultSuccess {
			op, res = "cuMemUnmap", r
		}
	}
	if g.last && res == driver.ResultSuccess {
		op, res = "cuMemAddressFree", v.ctx.Drv.Table().MemAddressFree(at, v.raw, v.size)
	}
	next := g.next
	g.next, g.unmap = nil, nil // arguments of kernels may refer to old generations for long
	if next != nil {
		next.EndCall()
	}
	return op, res
}

// setAccess sets the access of a device for all mappings, and for those to come.
func (v *virtualCore) setAccess(desc driver.MemAccessDesc) error {
	res, changed, err := v.setAccessLocked(desc)
	if err != nil || res == driver.ResultSuccess {
		return err
	}
	e := v.ctx.CallError("cuMemSetAccess", uintptr(v.raw), res)
	if changed != nil {
		e.Detail = drivercall.JoinText("the driver has changed a part, and failed to undo that: the access to "+
			strings.Join(changed, ", ")+" is the new one", e.Detail)
	}
	return e
}

// setAccessLocked changes the access everywhere or nowhere. If the driver fails to undo a change, it
// returns where.
func (v *virtualCore) setAccessLocked(desc driver.MemAccessDesc) (res driver.Result, changed []string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return 0, nil, v.now.Load().Refused("cuMemSetAccess")
	}
	was := driver.MemAccessDesc{Location: desc.Location} // no access
	same := func(a driver.MemAccessDesc) bool { return a.Location == desc.Location }
	if i := slices.IndexFunc(v.access, same); i >= 0 {
		was = v.access[i]
	}
	runs := v.runs()
	for i, r := range runs {
		if res = v.setRun(r, desc); res == driver.ResultSuccess {
			continue
		}
		for _, r := range runs[:i] {
			if v.setRun(r, was) != driver.ResultSuccess {
				changed = append(changed, fmt.Sprintf("%d bytes at offset %d", r.size, r.off))
			}
		}
		return res, changed, nil
	}
	v.access = slices.DeleteFunc(v.access, same)
	v.access = append(v.access, desc)
	if bit := uint64(1) << (desc.Location.ID & 63); desc.Flags != driver.CU_MEM_ACCESS_FLAGS_PROT_NONE {
		v.devices.Or(bit)
	} else {
		v.devices.And(^bit)
	}
	return driver.ResultSuccess, nil, nil
}

// run is a part of the range without a gap between its mappings.
type run struct{ off, size uint64 }

// runs returns the parts of the range that are mapped, each as large as possible. The driver sets the
// access of one as a whole, or not at all.
func (v *virtualCore) runs() (list []run) {
	for _, p := range v.list() {
		if n := len(list); n > 0 && list[n-1].off+list[n-1].size == p.off {
			list[n-1].size += p.size
		} else {
			list = append(list, run{p.off, p.size})
		}
	}
	return list
}

func (v *virtualCore) setRun(r run, desc driver.MemAccessDesc) driver.Result {
	return v.ctx.Drv.Table().MemSetAccess(driver.At{}, v.raw+driver.DevicePtr(r.off), r.size,
		[]driver.MemAccessDesc{desc})
}

// Reaches reports whether kernels on a device can access the memory.
func (g *generation) Reaches(dev driver.Device) bool {
	return g.of.devices.Load()>>(dev&63)&1 != 0
}

// physicalCore is physical memory.
type physicalCore struct {
	raw      driver.MemGenericAllocationHandle
	physical uint64 // the number of the memory: see core.Numbering
	size     uint64
	core.Resource
}

// Kind names the kind of the object in errors and reports.
func (p *physicalCore) Kind() string { return "physical memory" }

// MemoryBytes returns how much memory is freed with the object.
func (p *physicalCore) MemoryBytes() uint64 { return p.size }

// Handle returns the driver's handle.
func (p *physicalCore) Handle() uintptr { return uintptr(p.raw) }

// Destroy destroys the object in the driver, unless other code owns it: see core.Object.
func (p *physicalCore) Destroy(at driver.At) (string, driver.Result) {
	at.Context = 0
	return "cuMemRelease", p.Ctx.Drv.Table().MemRelease(at, p.raw)
}

// granularity returns a granularity of physical memory, in bytes.
func granularity(c *core.Context, prop *driver.MemAllocationProp, which int32) (uint64, driver.Result) {
	return c.Drv.Table().MemGetAllocationGranularity(driver.At{}, *prop, which)
}

// createPhysical allocates physical memory.
func createPhysical(c *core.Context, size uint64,
	prop *driver.MemAllocationProp,
) (raw driver.MemGenericAllocationHandle, res driver.Result, collection *core.Collection) {
	res, collection = c.Allocate(func() (res driver.Result) {
		raw, res = c.Drv.Table().MemCreate(driver.At{}, size, *prop, 0)
		return res
	})
	return raw, res, collection
}

// roundUp returns the next multiple of unit, or the largest multiple that there is.
func roundUp(n, unit uint64) uint64 {
	if n > math.MaxUint64-unit {
		return math.MaxUint64 / unit * unit
	}
	return (n + unit - 1) / unit * unit
}
