package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// IPCHandle returns the handle by which other processes open the memory (cuIpcGetMemHandle, CUDA
// 4.1). Each call returns the same handle. Programs in C and Python open it by
// cuIpcOpenMemHandle_v2, and Go programs by [Context.OpenIPCMem]. The handle is of the whole memory,
// which [Context.Alloc] or [Context.AllocPitch] must have allocated.
//
// Keep the memory open until the other processes have closed it: CUDA does not define what happens
// otherwise. On an H200 they keep the memory, and no other allocation gets it before they close it.
// The memory does not order the work of processes: see [Event.IPCHandle] for that.
//
// There are other ways for memory of pools ([DeviceMem.PoolHandle]) and for virtual memory
// ([PhysicalMem.Export]). For memory of another process the error matches [ErrImported], and for
// other memory that has no handle [ResultInvalidValue]. Where memory cannot be shared, it matches
// [ResultNotSupported].
func (m *DeviceMem) IPCHandle() (IPCMemHandle, error) {
	const op = "cuIpcGetMemHandle"
	if m.core() == nil {
		return IPCMemHandle{}, core.NilError(op, "device memory")
	}
	mc := m.core()
	if err := exportable(mc, op); err != nil {
		return IPCMemHandle{}, err
	}
	if err := mc.Enter(mc, op); err != nil {
		return IPCMemHandle{}, err
	}
	defer runtime.KeepAlive(m)
	defer mc.EndCall()
	mc.Exposed.Store(true) // no other allocation gets memory that other processes use
	h, res := mc.Ctx.Drv.Table().IpcGetMemHandle(driver.At{Context: mc.Ctx.Raw}, mc.Raw)
	if res != driver.ResultSuccess {
		return IPCMemHandle{}, mc.Ctx.CallError(op, mc.Handle(), res)
	}
	return IPCMemHandle(h), nil
}

// exportable returns an error for memory that has no handle.
func exportable(mc *core.Mem, op string) error {
	switch {
	case mc.Is == ipcMemory:
		return core.Misuse(op, mc, ErrImported,
			"only the process that allocated it can get its handle: pass on the handle that this memory was opened by")
	case mc.Is.Unshared != "":
		return core.BadValue(op, mc, mc.Is.Unshared)
	}
	return nil
}

// ipcMemory is memory of another process.
var ipcMemory = core.MemoryKind{
	MemoryTraits: core.MemoryTraits{FreeWaits: true, Tracked: true, Others: true},
	MemoryFuncs: &core.MemoryFuncs{
		Name: "memory of another process",
		Free: (*core.Mem).FreeByEnd,
	},
}

// OpenIPCMem opens memory of another process on the machine (cuIpcOpenMemHandle_v2, CUDA 11.0;
// cuMemGetAddressRange). The DeviceMem has all bytes of the allocation that the handle is of, also if
// the other process shares only a part: [DeviceMem.Span] returns a part.
//
// Each call returns a new DeviceMem. In one context all have the same address. Close ends the access
// (cuIpcCloseMemHandle), and does not free the memory: as for other device memory it waits for all
// work in the context. Abandoned memory is closed as [DeviceMem.Close] says. The memory of one device
// and one process can be open in only one context of each device at a time: in another context the
// error matches [ResultInvalidHandle].
//
// The process that allocated the memory cannot open it: the error matches [ErrSameProcess]. The
// content of a handle is private to the driver: an H200's driver opens other memory by a handle that
// was changed on the way. If the other process is killed, nobody reports it: use a timeout, or
// monitor the process.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func (c *Context) OpenIPCMem(h IPCMemHandle) (*DeviceMem, error) {
	const op = "cuIpcOpenMemHandle"
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if err := h.check(op); err != nil {
		return nil, core.About(cc, err)
	}
	at, t := driver.At{Context: cc.Raw}, cc.Drv.Table()
	raw, res, own := core.Allocated(cc, func() (driver.DevicePtr, driver.Result) {
		return t.IpcOpenMemHandle(at, driver.IPCMemHandle(h), driver.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
	})
	switch res {
	case driver.ResultSuccess:
	case driver.ResultInvalidContext: // the driver's result for a handle of this process
		return nil, core.NewError(op, cc, ResultInvalidContext, ErrSameProcess,
			"the handle is of memory of this process: use that DeviceMem, "+
				"and open the handle in another process")
	default:
		return nil, own.Explain(cc.CallError(op, 0, res))
	}
	mc := &core.Mem{Is: ipcMemory, Raw: raw, ImportedMemory: core.ImportedMemory{Opened: true}}
	mc.End = func(at driver.At) (string, driver.Result) {
		mc.ObserveFree()
		return "cuIpcCloseMemHandle", t.IpcCloseMemHandle(at, raw)
	}
	m := newDeviceMem(cc, mc)
	_, mc.Size, res = t.MemGetAddressRange(at, raw)
	mc.Capacity = mc.Size
	core.ObserveOpened(mc, h)
	if res != driver.ResultSuccess {
		// The cleanup of m finds it closed.
		mc.CloseKept()
		mc.DestroyLate(false) // a close here might wait for the GPU
		return nil, cc.CallError("cuMemGetAddressRange", uintptr(raw), res)
	}
	return m, nil
}

// IPCMemHandle names memory to other processes on the machine: the content of a CUipcMemHandle, and of
// a cudaIpcMemHandle_t. [DeviceMem.IPCHandle] returns it, and [Context.OpenIPCMem] of another process
// takes it. It is a plain value, which may be compared, copied and used as a key of a map. It does
// not keep the memory allocated.
//
// It is transferred as its 64 bytes (MarshalBinary), the format of C, or as text of 128 hexadecimal
// digits (MarshalText), as an [IPCEventHandle] is. The zero IPCMemHandle names no memory; calls with
// it return an error that matches [ErrNil].
type IPCMemHandle [driver.CU_IPC_HANDLE_SIZE]byte

// IsZero reports whether the handle is zero, and so names no memory.
func (h IPCMemHandle) IsZero() bool { return h == IPCMemHandle{} }

// String returns the handle as MarshalText does; "" for the zero handle.
func (h IPCMemHandle) String() string { return core.MemHandles.String(h) }

// check refuses the zero handle.
func (h IPCMemHandle) check(op string) error { return core.MemHandles.Check(op, h) }

// AppendBinary appends the handle's 64 bytes to b: see [encoding.BinaryAppender].
func (h IPCMemHandle) AppendBinary(b []byte) ([]byte, error) {
	return core.MemHandles.AppendBinary(b, h)
}

// MarshalBinary returns the handle's 64 bytes: see [encoding.BinaryMarshaler].
func (h IPCMemHandle) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// UnmarshalBinary sets the handle from exactly 64 bytes: see [encoding.BinaryUnmarshaler]. If it
// returns an error, the handle is unchanged. Whether the bytes name memory is checked when the
// handle is opened.
func (h *IPCMemHandle) UnmarshalBinary(data []byte) error {
	return core.MemHandles.UnmarshalBinary((*core.IPCHandle)(h), data)
}

// AppendText appends the handle as text, 128 hexadecimal digits, to b: see
// [encoding.TextAppender].
func (h IPCMemHandle) AppendText(b []byte) ([]byte, error) { return core.MemHandles.AppendText(b, h) }

// MarshalText returns the handle as text, 128 hexadecimal digits: see
// [encoding.TextMarshaler].
func (h IPCMemHandle) MarshalText() ([]byte, error) { return h.AppendText(nil) }

// UnmarshalText sets the handle from exactly 128 hexadecimal digits: see
// [encoding.TextUnmarshaler]. If it returns an error, the handle is unchanged.
func (h *IPCMemHandle) UnmarshalText(text []byte) error {
	return core.MemHandles.UnmarshalText((*core.IPCHandle)(h), text)
}
