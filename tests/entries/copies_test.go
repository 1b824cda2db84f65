package entries

import (
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// These are a rectangle of memory, and another one.
const (
	rowPitch    = 64
	rowWidth    = 16
	rowsHigh    = 4
	rowsFrom    = 1024 // in the memory of a base
	rowsTo      = 2048
	managedSize = 4096
)

func (b *base) copy2D() driver.Memcpy2D {
	return driver.Memcpy2D{
		SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: b.memory + rowsFrom, SrcPitch: rowPitch,
		DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: b.memory + rowsTo, DstPitch: rowPitch,
		WidthInBytes: rowWidth, Height: rowsHigh,
	}
}

func (b *base) copyBetween() driver.Memcpy3DPeer {
	return driver.Memcpy3DPeer{
		SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: b.memory + rowsFrom, SrcContext: b.ctx, SrcPitch: rowPitch,
		SrcHeight: 1, DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: b.memory + rowsTo, DstContext: b.ctx,
		DstPitch: rowPitch, DstHeight: 1, WidthInBytes: rowWidth, Height: 1, Depth: 1,
	}
}

func (b *base) copyInBatch() driver.Memcpy3DBatchOp {
	op := driver.Memcpy3DBatchOp{Extent: driver.Extent3D{Width: rowWidth, Height: 1, Depth: 1},
		SrcAccessOrder: driver.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}
	op.Dst.Type, op.Src.Type = driver.CU_MEMCPY_OPERAND_TYPE_POINTER, driver.CU_MEMCPY_OPERAND_TYPE_POINTER
	op.Dst.Op.Ptr().Ptr, op.Src.Op.Ptr().Ptr = b.memory+rowsTo, b.memory+rowsFrom
	return op
}

// copyCalls are about copies and memsets of rows, of other elements, and between contexts.
func copyCalls() []call {
	return with(0,
		alone("cuMemcpy2D", func(w W, at A) R { return w.Memcpy2D(at, w.copy2D()) }),
		alone("cuMemcpy2DUnaligned", func(w W, at A) R { return w.Memcpy2DUnaligned(at, w.copy2D()) }),
		alone("cuMemcpy3D", func(w W, at A) R { return w.Memcpy3D(at, *w.copyParams()) }),
		alone("cuMemcpy3DPeer", func(w W, at A) R { return w.Memcpy3DPeer(at, w.copyBetween()) }),
		alone("cuMemcpyPeer", func(w W, at A) R {
			return w.MemcpyPeer(at, w.memory+rowsTo, w.ctx, w.memory+rowsFrom, w.ctx, rowWidth)
		}),
		alone("cuMemcpy", func(w W, at A) R { return w.Memcpy(at, w.memory+rowsTo, w.memory+rowsFrom, rowWidth) }),
		alone("cuMemsetD16", func(w W, at A) R { return w.MemsetD16(at, w.memory+rowsTo, 1, rowWidth) }),
		alone("cuMemsetD32", func(w W, at A) R { return w.MemsetD32(at, w.memory+rowsTo, 1, rowWidth) }),
		alone("cuMemsetD2D8", func(w W, at A) R {
			return w.MemsetD2D8(at, w.memory+rowsTo, rowPitch, 1, rowWidth, rowsHigh)
		}),
		alone("cuMemsetD2D16", func(w W, at A) R {
			return w.MemsetD2D16(at, w.memory+rowsTo, rowPitch, 1, rowWidth, rowsHigh)
		}),
		alone("cuMemsetD2D32", func(w W, at A) R {
			return w.MemsetD2D32(at, w.memory+rowsTo, rowPitch, 1, rowWidth, rowsHigh)
		}),
		alone("cuMemAllocPitch", func(w W, at A) R {
			p, _, r := w.MemAllocPitch(at, rowWidth, rowsHigh, 4)
			return w.later(r, func(at A) R { return w.MemFree(at, p) })
		}),
		alone("cuMemAllocHost", func(w W, at A) R {
			p, r := w.MemAllocHost(at, 16)
			return w.later(r, func(at A) R { return w.MemFreeHost(at, p) })
		}),
		onStream("cuMemcpyBatchAsync_v1", func(w W, at A, s S) R {
			_, r := w.MemcpyBatchAsyncV1(at, []driver.DevicePtr{w.memory + rowsTo}, []driver.DevicePtr{w.memory + rowsFrom},
				[]uint64{rowWidth}, inOrder, []uint64{0}, s)
			return r
		}),
		onStream("cuMemcpy3DBatchAsync_v1", func(w W, at A, s S) R {
			_, r := w.Memcpy3DBatchAsyncV1(at, []driver.Memcpy3DBatchOp{w.copyInBatch()}, 0, s)
			return r
		}),
		onStream("cuMemcpy2DAsync", func(w W, at A, s S) R { return w.Memcpy2DAsync(at, w.copy2D(), s) }),
		onStream("cuMemcpy3DAsync", func(w W, at A, s S) R { return w.Memcpy3DAsync(at, *w.copyParams(), s) }),
		onStream("cuMemcpy3DPeerAsync", func(w W, at A, s S) R { return w.Memcpy3DPeerAsync(at, w.copyBetween(), s) }),
		onStream("cuMemcpyPeerAsync", func(w W, at A, s S) R {
			return w.MemcpyPeerAsync(at, w.memory+rowsTo, w.ctx, w.memory+rowsFrom, w.ctx, rowWidth, s)
		}),
		onStream("cuMemcpyAsync", func(w W, at A, s S) R {
			return w.MemcpyAsync(at, w.memory+rowsTo, w.memory+rowsFrom, rowWidth, s)
		}),
		onStream("cuMemsetD16Async", func(w W, at A, s S) R {
			return w.MemsetD16Async(at, w.memory+rowsTo, 1, rowWidth, s)
		}),
		onStream("cuMemsetD32Async", func(w W, at A, s S) R {
			return w.MemsetD32Async(at, w.memory+rowsTo, 1, rowWidth, s)
		}),
		onStream("cuMemsetD2D8Async", func(w W, at A, s S) R {
			return w.MemsetD2D8Async(at, w.memory+rowsTo, rowPitch, 1, rowWidth, rowsHigh, s)
		}),
		onStream("cuMemsetD2D16Async", func(w W, at A, s S) R {
			return w.MemsetD2D16Async(at, w.memory+rowsTo, rowPitch, 1, rowWidth, rowsHigh, s)
		}),
		onStream("cuMemsetD2D32Async", func(w W, at A, s S) R {
			return w.MemsetD2D32Async(at, w.memory+rowsTo, rowPitch, 1, rowWidth, rowsHigh, s)
		}),
	)
}

func (w *world) register(at A) {
	w.must("cuMemHostRegister", w.MemHostRegister(at, w.own, 4096, 0))
	w.things.registered = w.own
	w.finally("cuMemHostUnregister", func(at A) R {
		if w.things.registered == 0 {
			return ok
		}
		return w.MemHostUnregister(at, w.own)
	})
}

// registeredCalls are about memory of the host that is registered.
func registeredCalls() []call {
	return with(registered,
		alone("cuPointerGetAttributes registered", func(w W, at A) R {
			return w.attributes(at, driver.DevicePtr(w.own))
		}),
		destroys(alone("cuMemHostUnregister", func(w W, at A) R {
			r := w.MemHostUnregister(at, w.own)
			if r == ok {
				w.things.registered = 0
			}
			return r
		})),
	)
}

// managedCalls are about managed memory, and about addresses.
func managedCalls() []call {
	return with(0,
		alone("cuMemAllocManaged", func(w W, at A) R {
			p, r := w.MemAllocManaged(at, managedSize, driver.CU_MEM_ATTACH_GLOBAL)
			return w.later(r, func(at A) R { return w.MemFree(at, p) })
		}),
		alone("cuMemAdvise", func(w W, at A) R {
			return w.MemAdvise(at, w.managed, managedSize, driver.CU_MEM_ADVISE_UNSET_READ_MOSTLY, onDevice)
		}),
		alone("cuMemAdvise_v1", func(w W, at A) R {
			return w.MemAdviseV1(at, w.managed, managedSize, driver.CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0)
		}),
		alone("cuMemRangeGetAttribute", func(w W, at A) R {
			return w.MemRangeGetAttribute(at, make([]byte, 4), driver.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, w.managed, managedSize)
		}),
		alone("cuMemRangeGetAttributes", func(w W, at A) R {
			v := new(uint32)
			return w.MemRangeGetAttributes(at, []unsafe.Pointer{unsafe.Pointer(v)}, []uint64{4},
				[]int32{driver.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY}, w.managed, managedSize)
		}),
		alone("cuMemGetAddressRange", func(w W, at A) R { _, _, r := w.MemGetAddressRange(at, w.memory+8); return r }),
		alone("cuMemGetAddressRange managed", func(w W, at A) R {
			_, _, r := w.MemGetAddressRange(at, w.managed+8)
			return r
		}),
		alone("cuPointerGetAttributes managed", func(w W, at A) R { return w.attributes(at, w.managed) }),
		alone("cuPointerGetAttributes of the host", func(w W, at A) R { return w.attributes(at, w.device) }),
		onStream("cuMemPrefetchAsync_v1", func(w W, at A, s S) R {
			return w.MemPrefetchAsyncV1(at, w.managed, managedSize, driver.CU_DEVICE_CPU, s)
		}),
		onStream("cuStreamAttachMemAsync", func(w W, at A, s S) R {
			return w.StreamAttachMemAsync(at, s, w.managed, 0, driver.CU_MEM_ATTACH_GLOBAL)
		}),
	)
}
