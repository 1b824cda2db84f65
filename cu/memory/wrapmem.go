package memory

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/subject"
)

// Wrap returns a DeviceMem for size bytes of device memory at an address (a CUdeviceptr) that
// other code of the process has allocated: a library in C, such as NCCL, or one with tensors. The
// memory may be of any kind that the driver knows: of cuMemAlloc, managed, of a pool, virtual, or of
// a graph. It is used as other device memory, in copies, sets, launches and nodes of graphs, and by
// [cu.SpanOf].
//
// Wrap asks the driver what is at the address (cuPointerGetAttributes, cuMemGetAddressRange). The
// range must be inside one allocation, or, if it is virtual memory, be mapped everywhere. The
// context must be that of the memory. For memory without one, such as that of pools, the context's
// device must be able to read and write it. Wrap fails otherwise, and for memory that is of the
// host, or that the driver does not know. It does not wait for the GPU.
//
// # Lifetime
//
// The other code keeps the ownership. Close waits until the work that uses the memory is done, as
// far as this library has enqueued it, and frees nothing. It returns at once if a call or a graph
// uses the memory, or if a stream that has used it is being captured. So before the owner frees the
// memory, end the captures, close the graphs that use it, and then the DeviceMem. Do not leave this
// to the garbage collector.
//
// # What stays unsafe
//
// The driver is asked once. If the owner frees the memory, or unmaps it, while it is used here, work
// fails and poisons the context, or uses other memory that is there by then. The same happens if the
// address was of freed memory before, and the driver knows other memory there now. The library does
// not know the owner's work: let streams wait for the owner's streams or events, and the reverse.
// See [cu.Context.WrapStream] and [cu.Context.WrapEvent].
func Wrap(c *cu.Context, addr, size uint64) (*cu.DeviceMem, error) {
	cc, err := subject.EnterContext(c, wrapOp)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	is, err := wrapKind(cc, addr, size)
	if err != nil {
		return nil, err
	}
	mc := &memstate.Mem{Is: is, Raw: driver.DevicePtr(addr), Size: size, Capacity: size}
	mc.End = func(at driver.At) (string, driver.Result) {
		if !at.NoWait { // the program's Close has waited for the work
			for _, sc := range mc.UsedStreams.List() {
				sc.ObserveDone()
			}
		}
		return "", driver.ResultSuccess // the owner frees it
	}
	return subject.NewDeviceMem(cc, mc), nil
}

const wrapOp = "cuPointerGetAttributes"

// errUnknownMem is wrapped by the error for an address that the driver does not know.
var errUnknownMem = errors.New("the driver knows no memory at the address")

// The kinds of memory that other code of the process has allocated.
var (
	wrappedMemory = memstate.Kind{
		Traits: memstate.Traits{Tracked: true, Others: true, Wrapped: true},
		Funcs: &memstate.Funcs{
			Name:     "memory of other code",
			Free:     (*memstate.Mem).FreeByEnd,
			Unshared: unsharedWrapped,
		},
	}
	wrappedManaged = memstate.Kind{
		Traits: memstate.Traits{Everywhere: true, Tracked: true, Managed: true, Others: true, Wrapped: true},
		Funcs: &memstate.Funcs{
			Name:     "memory of other code",
			Free:     (*memstate.Mem).FreeByEnd,
			Unshared: unsharedWrapped,
		},
	}
)

const unsharedWrapped = "other code has allocated the memory: " +
	"let that code share it, or copy it to memory of Context.Alloc"

// wrapKind returns the kind of memory that other code has allocated, or an error if the context
// cannot use all of it.
func wrapKind(c *core.Context, addr, size uint64) (kind memstate.Kind, err error) {
	end, carry := bits.Add64(addr, size, 0)
	switch {
	case addr == 0:
		return kind, drivercall.Misuse(wrapOp, c, cu.ErrNil, "the address is 0: pass a CUdeviceptr")
	case size == 0:
		return kind, drivercall.BadValue(wrapOp, c, "the size is 0 bytes: ask for at least one")
	case carry != 0:
		return kind, drivercall.BadValue(wrapOp, c,
			fmt.Sprintf("%d bytes at %#x are more than there are addresses", size, addr))
	}
	info, err := wrappable(c, addr)
	switch {
	case err != nil:
		return kind, err
	case addr < info.Start || end-info.Start > info.Size:
		return kind, outside(c, size, addr, info.Start, info.Size)
	case info.Managed:
		return wrappedManaged, nil
	case info.Context != 0 || info.Pool != 0:
		return wrappedMemory, nil
	}
	// The range of virtual memory is the reservation, in which several pieces may be mapped.
	for at := addr; ; {
		const op = "cuMemGetAddressRange"
		start, n, res := c.Drv.Table().MemGetAddressRange(driver.At{Context: c.Raw}, driver.DevicePtr(at))
		switch {
		case res != driver.ResultSuccess:
			return kind, c.CallError(op, uintptr(at), res)
		case end-uint64(start) <= n:
			return wrappedMemory, nil
		case uint64(start)+n <= at: // not a range that contains the address
			return kind, outside(c, size, addr, uint64(start), n)
		}
		at = uint64(start) + n
		if _, err := wrappable(c, at); err != nil {
			return kind, err
		}
	}
}

// outside returns the error for memory that is not inside one allocation.
func outside(c *core.Context, size, addr, start, n uint64) error {
	return drivercall.BadValue(wrapOp, c, fmt.Sprintf("%d bytes at %#x are not inside one allocation: "+
		"the driver knows %d bytes at %#x", size, addr, n, start))
}

// wrappable returns what the driver knows about an address, or an error if the context cannot use
// its memory.
func wrappable(c *core.Context, addr uint64) (PointerInfo, error) {
	info, access, err := pointerInfo(c, wrapOp, addr)
	if err != nil {
		return info, err
	}
	own := info.Device != nil && subject.Device(info.Device).Raw == c.Dev
	switch {
	case info.Type == TypeUnregistered:
		return info, drivercall.NewError(wrapOp, c, cu.ResultInvalidValue, errUnknownMem,
			fmt.Sprintf("pass the address of memory that is allocated, and of this driver, instead of %#x", addr))
	case info.Type == TypeHost:
		return info, drivercall.BadValue(wrapOp, c, fmt.Sprintf("the memory at %#x is of the host: "+
			"copy it from there as bytes, or let package cu allocate it by Context.AllocHost", addr))
	case info.Managed:
		return info, nil
	case info.Context != 0 && info.Context != uintptr(c.Raw):
		return info, drivercall.Misuse(wrapOp, c, cu.ErrContextMismatch, fmt.Sprintf(
			"the memory is of context %#x, not of %#x: wrap it with its own context", info.Context, c.Raw))
	case info.DevicePointer != addr, access == AccessRead, !own && access != AccessReadWrite:
		return info, drivercall.Misuse(wrapOp, c, cu.ErrDeviceMismatch, fmt.Sprintf(
			"device %d cannot read and write the memory at %#x: wrap it with a context of another device, "+
				"or let its owner allow the access", c.Dev, addr))
	}
	return info, nil
}
