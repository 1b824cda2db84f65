package memory

import (
	"encoding/binary"
	"os"
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/poolimport"
	"github.com/purecu/purecu/internal/subject"
)

// Export returns a file that stands for the pool in other processes, which open the pool by
// [ImportPool] (cuMemPoolExportToShareableHandle, CUDA 11.2). The pool must be
// [PoolOptions.Shareable]. The caller closes the file, and passes it on by
// [os/exec.Cmd.ExtraFiles] or over a Unix socket. It keeps the pool's memory allocated.
func (p *Pool) Export() (*os.File, error) {
	const op = "cuMemPoolExportToShareableHandle"
	pc, err := p.enter(op)
	if err != nil {
		return nil, err
	}
	defer p.leave()
	if err := notOnDevice(pc, op, "share a pool of device memory"); err != nil {
		return nil, err
	}
	h, res := pc.Ctx.Drv.Table().MemPoolExportToShareableHandle(driver.At{Context: pc.Ctx.Raw}, pc.Raw,
		driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
	f, res := exportedFile("CUmemoryPool", h, res)
	if res != driver.ResultSuccess {
		return nil, pc.Ctx.CallError(op, pc.Handle(), res)
	}
	return f, nil
}

// ImportPool opens the pool of another process, on the same device
// (cuMemPoolImportFromShareableHandle, CUDA 11.2). fd is the descriptor of a file that
// [Pool.Export] has returned there. It stays the caller's, who may close it afterwards. Streams
// cannot allocate from the pool: [Pool.Open] gives access to memory that the other process has
// allocated.
//
// Each call returns a new Pool. Those of one pool may have the same handle: the pool is destroyed
// in this process, once, when the last of them and all their memory are closed. If it is being
// destroyed, the call waits until it is, and imports the pool again.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func ImportPool(c *cu.Context, fd uintptr) (*Pool, error) {
	const op = drivercall.ImportPoolOp
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	if err := checkDescriptor(op, cc, fd); err != nil {
		return nil, err
	}
	at := driver.At{Context: cc.Raw}
	raw, res, collection := core.Allocated(cc, func() (driver.MemoryPool, driver.Result) {
		return core.StateOf[poolimport.Pools](cc.Drv).Get(func() (driver.MemoryPool, driver.Result) {
			return cc.Drv.Table().MemPoolImportFromShareableHandle(at, driver.HostPtr(fd),
				driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
		})
	})
	if res != driver.ResultSuccess {
		return nil, collection.Explain(cc.CallError(op, 0, res))
	}
	p := newPool(cc, raw, memstate.DevicePoolMemory, false)
	p.core().LeaveImports = core.StateOf[poolimport.Pools](cc.Drv).Leave
	return p, nil
}

// PoolHandle names memory of a shareable pool to other processes: the bytes of a
// CUmemPoolPtrExportData, and the size of the memory. It is a plain value, which does not keep the
// memory allocated.
type PoolHandle [64 + 8]byte

// PoolHandleOf returns the handle by which a process that has imported the memory's pool opens the
// memory (cuMemPoolExportPointer, CUDA 11.2). Streams of that process have to come after the
// allocation, by an event that the processes share: see [cu.Event.IPCHandle]. The memory must be
// closed there before it is closed here.
func PoolHandleOf(m *cu.DeviceMem) (h PoolHandle, err error) {
	const op = "cuMemPoolExportPointer"
	mc := subject.DeviceMem(m)
	if mc == nil {
		return h, drivercall.NilError(op, "device memory")
	}
	if mc.Is != memstate.DevicePoolMemory {
		return h, drivercall.BadValue(op, mc,
			"the memory is not of a pool: allocate it by memory.Pool.Alloc of a shareable pool")
	}
	if err := mc.Enter(mc, op); err != nil {
		return h, err
	}
	defer runtime.KeepAlive(m)
	defer mc.EndCall()
	data, res := mc.Ctx.Drv.Table().MemPoolExportPointer(driver.At{Context: mc.Ctx.Raw}, mc.Raw)
	if res != driver.ResultSuccess {
		return h, mc.Ctx.CallError(op, mc.Handle(), res)
	}
	copy(h[:], data[:])
	binary.LittleEndian.PutUint64(h[64:], mc.Size)
	return h, nil
}

// Open gives access to memory that another process has allocated from the pool, which [ImportPool]
// has returned (cuMemPoolImportPointer, CUDA 11.2). Close of the DeviceMem ends the access, as if
// it were memory of this process. A handle that was changed on the way may crash the process.
//
// Each call returns a new DeviceMem. Those of one handle may have the same address: the memory is
// freed in this process after the last of them was closed, and after the work of all of them. If it is
// being freed, Open waits until it is, and opens it again.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func (p *Pool) Open(h PoolHandle) (*cu.DeviceMem, error) {
	const op = "cuMemPoolImportPointer"
	size := binary.LittleEndian.Uint64(h[64:])
	if size == 0 {
		return nil, drivercall.Misuse(op, p.object(), cu.ErrNil,
			"the handle names no memory: pass one that memory.PoolHandleOf has returned")
	}
	pc, err := p.enter(op)
	if err != nil {
		return nil, err
	}
	defer p.leave()
	mc := &memstate.Mem{Is: memstate.DevicePoolMemory, Size: size, Capacity: size,
		PoolFields:     memstate.PoolFields{Pool: pc},
		ImportedMemory: memstate.ImportedMemory{Opened: true}}
	mc.Ctx = pc.Ctx
	res, collection := pc.Ctx.Allocate(func() driver.Result {
		return core.StateOf[poolimport.Memory](pc.Ctx.Drv).Open(mc, driver.MemPoolPtrExportData(h[:64]))
	})
	if res != driver.ResultSuccess {
		return nil, collection.Explain(pc.Ctx.CallError(op, uintptr(pc.Raw), res))
	}
	pc.Retain()
	return subject.NewDeviceMem(pc.Ctx, mc), nil
}
