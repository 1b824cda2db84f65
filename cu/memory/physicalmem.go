package memory

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/subject"
)

// Physical is memory of a device without addresses (CUmemGenericAllocationHandle): [Virtual.Map]
// maps it. It stays allocated until it is closed, all of its mappings have ended, and all processes
// that have imported it have closed it. It is safe for concurrent use.
type Physical struct {
	_       core.NoCopy
	core    *physicalCore
	cleanup runtime.Cleanup
}

// PhysicalOptions are the properties of physical memory (CUmemAllocationProp). The zero value is
// memory of the context's device, for this process.
type PhysicalOptions struct {
	// Location is where the memory is, or the context's device if it is zero.
	Location Location
	// Shareable makes memory that [Physical.Export] can share with other processes on Linux.
	Shareable bool
	// Compressible asks for memory that the device may compress. The driver may ignore it.
	Compressible bool
	// RDMA makes memory that other devices, such as network cards, can access directly.
	RDMA bool
}

// prop returns the options for the driver.
func (o PhysicalOptions) prop(c *core.Context) (p driver.MemAllocationProp, err error) {
	p.Type = driver.CU_MEM_ALLOCATION_TYPE_PINNED
	p.Location = o.Location.raw()
	if o.Location == (Location{}) {
		p.Location = memstate.DeviceLocation(c.Dev)
	}
	if o.Shareable {
		p.RequestedHandleTypes = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	}
	if o.Compressible {
		p.AllocFlags.CompressionType = compressible
	}
	if o.RDMA {
		p.AllocFlags.GpuDirectRDMACapable = 1
	}
	if t := o.Location.Type; o.Location != (Location{}) && t != LocationDevice && t != LocationHost &&
		t != LocationHostNUMA {
		return p, drivercall.BadValue("cuMemCreate", c, fmt.Sprintf(
			"physical memory cannot be at %v: use a device, the host or a NUMA node", o.Location))
	}
	return p, nil
}

// compressible is CU_MEM_ALLOCATION_COMP_GENERIC.
const compressible = 1

// Granularity returns the unit of sizes and offsets of physical memory, in bytes: the smallest, and
// the one that makes access fastest (cuMemGetAllocationGranularity, CUDA 10.2).
func Granularity(c *cu.Context, o PhysicalOptions) (smallest, recommended uint64, err error) {
	const op = "cuMemGetAllocationGranularity"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return 0, 0, err
	}
	defer subject.LeaveContext(c)
	prop, err := o.prop(cc)
	if err != nil {
		return 0, 0, err
	}
	smallest, res := granularity(cc, &prop, driver.CU_MEM_ALLOC_GRANULARITY_MINIMUM)
	if res == driver.ResultSuccess {
		recommended, res = granularity(cc, &prop, driver.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
	}
	if res != driver.ResultSuccess {
		return 0, 0, cc.CallError(op, 0, res)
	}
	return smallest, recommended, nil
}

// NewPhysical allocates physical memory of at least size bytes, rounded up to a multiple of the
// granularity (cuMemCreate, CUDA 10.2). It may wait for the GPU if memory is short, like
// [cu.Context.Alloc]: see docs/blocking.md.
func NewPhysical(c *cu.Context, size uint64, o PhysicalOptions) (*Physical, error) {
	const op = "cuMemCreate"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	prop, err := o.prop(cc)
	switch {
	case err != nil:
		return nil, err
	case size == 0 || size > 1<<62:
		return nil, drivercall.BadValue(op, cc,
			fmt.Sprintf("the size is %d bytes: ask for at least 1 and at most 1<<62", size))
	}
	unit, res := granularity(cc, &prop, driver.CU_MEM_ALLOC_GRANULARITY_MINIMUM)
	if res != driver.ResultSuccess {
		return nil, cc.CallError("cuMemGetAllocationGranularity", 0, res)
	}
	size = roundUp(size, unit)
	raw, res, collection := createPhysical(cc, size, &prop)
	if res != driver.ResultSuccess {
		return nil, memstate.OutOfMemory(cc, memstate.FailAlloc(cc, op, 0, size, res, collection))
	}
	return newPhysical(cc, raw, cc.Drv.Physical.Add(1), size), nil
}

// ImportPhysical opens physical memory of another process (cuMemImportFromShareableHandle, CUDA
// 10.2). fd is the descriptor of a file that [Physical.Export] has returned there. It stays the
// caller's, who may close it afterwards. size is the size of the memory in bytes, which the file
// does not say: a mapping fails if it is wrong.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func ImportPhysical(c *cu.Context, fd uintptr, size uint64) (*Physical, error) {
	const op = drivercall.ImportPhysicalOp
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	if err := checkDescriptor(op, cc, fd); err != nil {
		return nil, err
	}
	raw, res, collection := core.Allocated(cc, func() (driver.MemGenericAllocationHandle, driver.Result) {
		return cc.Drv.Table().MemImportFromShareableHandle(driver.At{}, driver.HostPtr(fd),
			driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
	})
	if res != driver.ResultSuccess {
		return nil, collection.Explain(cc.CallError(op, fd, res))
	}
	return newPhysical(cc, raw, cc.Drv.Physical.Add(1), size), nil
}

// checkDescriptor returns an error for what is no file descriptor. The driver looks at 32 bits only.
func checkDescriptor(op string, of drivercall.Named, fd uintptr) error {
	if fd > math.MaxInt32 {
		return drivercall.BadValue(op, of, fmt.Sprintf("%#x is not the descriptor of an open file: "+
			"pass that of the file of memory.Physical.Export", fd))
	}
	return nil
}

// exportedFile makes a file descriptor that the driver has returned the caller's file. Programs
// that the process starts later do not get it unless the caller passes it on, as is usual in Go. An
// H200's driver returns descriptors of pools that they would get. A program that is started during
// the call may get the file: syscall.ForkLock would prevent that, but the driver's call can wait
// for another call.
func exportedFile(name string, h driver.ShareableHandle, res driver.Result) (*os.File, driver.Result) {
	fd := h.FD()
	switch {
	case res != driver.ResultSuccess:
		return nil, res
	case fd < 0:
		return nil, driver.ResultUnknown
	}
	callWith(syscall.CloseOnExec, fd)
	return os.NewFile(uintptr(fd), name), res
}

// callWith calls a function of a file descriptor, whose type depends on the platform.
func callWith[T ~int | ~uintptr](f func(T), fd int32) { f(T(fd)) }

// newPhysical returns the memory with a handle and a number, within a call on the context.
func newPhysical(c *core.Context, raw driver.MemGenericAllocationHandle, physical, size uint64) *Physical {
	p := &Physical{core: &physicalCore{raw: raw, physical: physical, size: size}}
	p.cleanup = core.Owned(p, &p.core.Resource, p.core, c)
	return p
}

// enter begins a call on the memory. leave ends it.
func (p *Physical) enter(op string) (*physicalCore, error) {
	if p == nil || p.core == nil {
		return nil, drivercall.NilError(op, "physical memory")
	}
	return p.core, p.core.Enter(p.core, op)
}

func (p *Physical) leave() {
	p.core.EndCall()
	runtime.KeepAlive(p)
}

// Size returns the size in bytes, or 0 for nil.
func (p *Physical) Size() uint64 {
	if p == nil || p.core == nil {
		return 0
	}
	return p.core.size
}

// Handle returns the CUmemGenericAllocationHandle, for code that calls the driver directly. It is
// valid until the Physical is closed or collected. For nil and for closed memory it is 0.
func (p *Physical) Handle() uint64 {
	if p == nil || p.core == nil || p.core.Closed() {
		return 0
	}
	return uint64(p.core.raw)
}

// Options returns the properties of the memory (cuMemGetAllocationPropertiesFromHandle, CUDA 10.2).
// They may differ from those that were asked for. Imported memory is not shareable again.
func (p *Physical) Options() (o PhysicalOptions, err error) {
	const op = "cuMemGetAllocationPropertiesFromHandle"
	pc, err := p.enter(op)
	if err != nil {
		return o, err
	}
	defer p.leave()
	prop, res := pc.Ctx.Drv.Table().MemGetAllocationPropertiesFromHandle(driver.At{}, pc.raw)
	if res != driver.ResultSuccess {
		return o, pc.Ctx.CallError(op, pc.Handle(), res)
	}
	return PhysicalOptions{
		Location:     Location{Type: LocationType(prop.Location.Type), ID: int(prop.Location.ID)},
		Shareable:    prop.RequestedHandleTypes&driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR != 0,
		Compressible: prop.AllocFlags.CompressionType == compressible,
		RDMA:         prop.AllocFlags.GpuDirectRDMACapable != 0,
	}, nil
}

// Export returns a file that stands for the memory in other processes, which open it by
// [ImportPhysical] (cuMemExportToShareableHandle, CUDA 10.2). The memory must be
// [PhysicalOptions.Shareable]. The caller closes the file, and passes it on by
// [os/exec.Cmd.ExtraFiles] or over a Unix socket. The file keeps the memory allocated.
func (p *Physical) Export() (*os.File, error) {
	const op = "cuMemExportToShareableHandle"
	pc, err := p.enter(op)
	if err != nil {
		return nil, err
	}
	defer p.leave()
	h, res := pc.Ctx.Drv.Table().MemExportToShareableHandle(driver.At{}, pc.raw,
		driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
	f, res := exportedFile("CUmemGenericAllocationHandle", h, res)
	if res != driver.ResultSuccess {
		e := pc.Ctx.CallError(op, pc.Handle(), res)
		if res == driver.ResultInvalidValue {
			e.Detail = drivercall.JoinText(
				"only memory of memory.NewPhysical with memory.PhysicalOptions.Shareable can be exported",
				e.Detail)
		}
		return nil, e
	}
	return f, nil
}

// Close releases the memory (cuMemRelease). Mappings of it stay valid. It does not wait for the
// GPU. Further calls return nil.
func (p *Physical) Close() error {
	if p == nil || p.core == nil {
		return drivercall.NilError("cuMemRelease", "physical memory")
	}
	return p.core.CloseOwned("memory.Physical.Close", p.cleanup)
}
