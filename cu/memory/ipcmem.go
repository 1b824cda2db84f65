package memory

import (
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/ipchandle"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/subject"
)

// IPCHandleOf returns the handle by which other processes open the memory (cuIpcGetMemHandle, CUDA
// 4.1). Each call returns the same handle. Programs in C and Python open it by
// cuIpcOpenMemHandle_v2, and Go programs by [OpenIPC]. The handle is of the whole memory, which
// [cu.Context.Alloc] or [cu.Context.AllocPitch] must have allocated.
//
// Keep the memory open until the other processes have closed it: CUDA does not define what happens
// otherwise. On an H200 they keep the memory, and no other allocation gets it before they close it.
// The memory does not order the work of processes: see [cu.Event.IPCHandle] for that.
//
// There are other ways for memory of pools ([PoolHandleOf]) and for virtual memory
// ([Physical.Export]). For memory of another process the error matches [cu.ErrImported], and for
// other memory that has no handle [cu.ResultInvalidValue]. Where memory cannot be shared, it matches
// [cu.ResultNotSupported].
func IPCHandleOf(m *cu.DeviceMem) (IPCHandle, error) {
	const op = "cuIpcGetMemHandle"
	mc := subject.DeviceMem(m)
	if mc == nil {
		return IPCHandle{}, drivercall.NilError(op, "device memory")
	}
	if err := exportable(mc, op); err != nil {
		return IPCHandle{}, err
	}
	if err := mc.Enter(mc, op); err != nil {
		return IPCHandle{}, err
	}
	defer runtime.KeepAlive(m)
	defer mc.EndCall()
	mc.Exposed.Store(true) // no other allocation gets memory that other processes use
	h, res := mc.Ctx.Drv.Table().IpcGetMemHandle(driver.At{Context: mc.Ctx.Raw}, mc.Raw)
	if res != driver.ResultSuccess {
		return IPCHandle{}, mc.Ctx.CallError(op, mc.Handle(), res)
	}
	return IPCHandle(h), nil
}

// exportable returns an error for memory that has no handle.
func exportable(mc *memstate.Mem, op string) error {
	switch {
	case mc.Is == ipcMemory:
		return drivercall.Misuse(op, mc, cu.ErrImported,
			"only the process that allocated it can get its handle: pass on the handle that this memory was opened by")
	case mc.Is.Unshared != "":
		return drivercall.BadValue(op, mc, mc.Is.Unshared)
	}
	return nil
}

// ipcMemory is memory of another process.
var ipcMemory = memstate.Kind{
	Traits: memstate.Traits{FreeWaits: true, Tracked: true, Others: true},
	Funcs: &memstate.Funcs{
		Name: "memory of another process",
		Free: (*memstate.Mem).FreeByEnd,
	},
}

// OpenIPC opens memory of another process on the machine (cuIpcOpenMemHandle_v2, CUDA 11.0;
// cuMemGetAddressRange). The DeviceMem has all bytes of the allocation that the handle is of, also if
// the other process shares only a part: [cu.DeviceMem.Span] returns a part.
//
// Each call returns a new DeviceMem. In one context all have the same address. Close ends the
// access (cuIpcCloseMemHandle), and does not free the memory: as for other device memory it waits
// for all work in the context. Abandoned memory is closed as [cu.DeviceMem.Close] says. The memory
// of one device and one process can be open in only one context of each device at a time: in
// another context the error matches [cu.ResultInvalidHandle].
//
// The process that allocated the memory cannot open it: the error matches [cu.ErrSameProcess]. The
// content of a handle is private to the driver: an H200's driver opens other memory by a handle that
// was changed on the way. If the other process is killed, nobody reports it: use a timeout, or
// monitor the process.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func OpenIPC(c *cu.Context, h IPCHandle) (*cu.DeviceMem, error) {
	const op = "cuIpcOpenMemHandle"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	if err := h.check(op); err != nil {
		return nil, drivercall.About(cc, err)
	}
	at, t := driver.At{Context: cc.Raw}, cc.Drv.Table()
	raw, res, collection := core.Allocated(cc, func() (driver.DevicePtr, driver.Result) {
		return t.IpcOpenMemHandle(at, driver.IPCMemHandle(h), driver.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
	})
	switch res {
	case driver.ResultSuccess:
	case driver.ResultInvalidContext: // the driver's result for a handle of this process
		return nil, drivercall.NewError(op, cc, cu.ResultInvalidContext, cu.ErrSameProcess,
			"the handle is of memory of this process: use that DeviceMem, "+
				"and open the handle in another process")
	default:
		return nil, collection.Explain(cc.CallError(op, 0, res))
	}
	mc := &memstate.Mem{Is: ipcMemory, Raw: raw, ImportedMemory: memstate.ImportedMemory{Opened: true}}
	mc.End = func(at driver.At) (string, driver.Result) {
		mc.ObserveFree()
		return "cuIpcCloseMemHandle", t.IpcCloseMemHandle(at, raw)
	}
	m := subject.NewDeviceMem(cc, mc)
	_, mc.Size, res = t.MemGetAddressRange(at, raw)
	mc.Capacity = mc.Size
	memstate.ObserveOpened(mc, h)
	if res != driver.ResultSuccess {
		core.CleanupOf(core.RefOf(m)).Stop() // keeps m, too
		mc.CloseKept()
		mc.DestroyLate(false) // a close here might wait for the GPU
		return nil, cc.CallError("cuMemGetAddressRange", uintptr(raw), res)
	}
	return m, nil
}

// IPCHandle names memory to other processes on the machine: the content of a CUipcMemHandle, and of
// a cudaIpcMemHandle_t. [IPCHandleOf] returns it, and [OpenIPC] of another process takes it. It is
// a plain value, which may be compared, copied and used as a key of a map. It does not keep the
// memory allocated.
//
// It is transferred as its 64 bytes (MarshalBinary), the format of C, or as text of 128 hexadecimal
// digits (MarshalText), as a [cu.IPCEventHandle] is. The zero IPCHandle names no memory; calls with
// it return an error that matches [cu.ErrNil].
type IPCHandle [driver.CU_IPC_HANDLE_SIZE]byte

// IsZero reports whether the handle is zero, and so names no memory.
func (h IPCHandle) IsZero() bool { return h == IPCHandle{} }

// String returns the handle as MarshalText does; "" for the zero handle.
func (h IPCHandle) String() string { return ipchandle.MemHandles.String(h) }

// check refuses the zero handle.
func (h IPCHandle) check(op string) error { return ipchandle.MemHandles.Check(op, h) }

// AppendBinary appends the handle's 64 bytes to b: see [encoding.BinaryAppender].
func (h IPCHandle) AppendBinary(b []byte) ([]byte, error) {
	return ipchandle.MemHandles.AppendBinary(b, h)
}

// MarshalBinary returns the handle's 64 bytes: see [encoding.BinaryMarshaler].
func (h IPCHandle) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// UnmarshalBinary sets the handle from exactly 64 bytes: see [encoding.BinaryUnmarshaler]. If it
// returns an error, the handle is unchanged. Whether the bytes name memory is checked when the
// handle is opened.
func (h *IPCHandle) UnmarshalBinary(data []byte) error {
	return ipchandle.MemHandles.UnmarshalBinary((*ipchandle.Handle)(h), data)
}

// AppendText appends the handle as text, 128 hexadecimal digits, to b: see
// [encoding.TextAppender].
func (h IPCHandle) AppendText(b []byte) ([]byte, error) { return ipchandle.MemHandles.AppendText(b, h) }

// MarshalText returns the handle as text, 128 hexadecimal digits: see [encoding.TextMarshaler].
func (h IPCHandle) MarshalText() ([]byte, error) { return h.AppendText(nil) }

// UnmarshalText sets the handle from exactly 128 hexadecimal digits: see
// [encoding.TextUnmarshaler]. If it returns an error, the handle is unchanged.
func (h *IPCHandle) UnmarshalText(text []byte) error {
	return ipchandle.MemHandles.UnmarshalText((*ipchandle.Handle)(h), text)
}
