package main

import (
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
)

// ownStream implements the functions with the suffix _ptds that copy and set memory: they use the
// per-thread default stream instead of the legacy default stream. Each of them calls another
// function, whose faults affect it as well.
type ownStream struct{ d *sim.Driver }

// perThread is the per-thread default stream.
const perThread = driver.Stream(driver.CU_STREAM_PER_THREAD)

// wait waits for the stream, unless enqueuing the work has failed.
func (o ownStream) wait(th *driver.Thread, r driver.Result) driver.Result {
	if r != driver.ResultSuccess {
		return r
	}
	return o.d.StreamSynchronize(th, perThread)
}

// host returns the address of C memory.
func host(b []byte) driver.HostPtr {
	return driver.HostPtr(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// LaunchKernelEx is cuLaunchKernelEx, on the per-thread default stream if the configuration has no
// stream.
func (o ownStream) LaunchKernelEx(th *driver.Thread, c *driver.LaunchConfig, f driver.Function,
	p driver.KernelParams) driver.Result {
	if c != nil && c.Stream == 0 {
		own := *c
		own.Stream = perThread
		c = &own
	}
	return o.d.LaunchKernelEx(th, c, f, p)
}

// GraphInstantiateWithParams is cuGraphInstantiateWithParams, which uploads the graph on the
// per-thread default stream if the parameters have no stream.
func (o ownStream) GraphInstantiateWithParams(th *driver.Thread, g driver.Graph,
	p driver.GraphInstantiateParams) (driver.GraphExec, driver.GraphInstantiateParams, driver.Result) {
	given := p.HUploadStream
	if given == 0 {
		p.HUploadStream = perThread
	}
	x, p, r := o.d.GraphInstantiateWithParams(th, g, p)
	p.HUploadStream = given
	return x, p, r
}

// MemcpyHtoD is cuMemcpyHtoD on the per-thread default stream. It returns when the copy is done.
func (o ownStream) MemcpyHtoD(th *driver.Thread, dst driver.DevicePtr, src []byte) driver.Result {
	if r := o.d.MeetFault("cuMemcpyHtoD"); r != driver.ResultSuccess {
		return r
	}
	return o.wait(th, o.d.MemcpyHtoDAsync(th, dst, host(src), uint64(len(src)), perThread))
}

// MemcpyDtoH is cuMemcpyDtoH on the per-thread default stream. It returns when the copy is done.
func (o ownStream) MemcpyDtoH(th *driver.Thread, dst []byte, src driver.DevicePtr) driver.Result {
	if r := o.d.MeetFault("cuMemcpyDtoH"); r != driver.ResultSuccess {
		return r
	}
	return o.wait(th, o.d.MemcpyDtoHAsync(th, host(dst), src, uint64(len(dst)), perThread))
}

// MemcpyDtoD is cuMemcpyDtoD on the per-thread default stream. It does not wait for the copy.
func (o ownStream) MemcpyDtoD(th *driver.Thread, dst, src driver.DevicePtr, n uint64) driver.Result {
	if r := o.d.MeetFault("cuMemcpyDtoD"); r != driver.ResultSuccess {
		return r
	}
	return o.d.MemcpyDtoDAsync(th, dst, src, n, perThread)
}

// Memcpy is cuMemcpy on the per-thread default stream. Its memory may be the host's: it waits for the
// copy.
func (o ownStream) Memcpy(th *driver.Thread, dst, src driver.DevicePtr, n uint64) driver.Result {
	if r := o.d.MeetFault("cuMemcpy"); r != driver.ResultSuccess {
		return r
	}
	return o.wait(th, o.d.MemcpyAsync(th, dst, src, n, perThread))
}

// MemcpyPeer is cuMemcpyPeer on the per-thread default stream. It does not wait for the copy.
func (o ownStream) MemcpyPeer(th *driver.Thread, dst driver.DevicePtr, dstCtx driver.Context, src driver.DevicePtr,
	srcCtx driver.Context, n uint64) driver.Result {
	if r := o.d.MeetFault("cuMemcpyPeer"); r != driver.ResultSuccess {
		return r
	}
	return o.d.MemcpyPeerAsync(th, dst, dstCtx, src, srcCtx, n, perThread)
}

// MemsetD8 is cuMemsetD8 on the per-thread default stream. It does not wait for the set.
func (o ownStream) MemsetD8(th *driver.Thread, dst driver.DevicePtr, v uint8, n uint64) driver.Result {
	if r := o.d.MeetFault("cuMemsetD8"); r != driver.ResultSuccess {
		return r
	}
	return o.d.MemsetD8Async(th, dst, v, n, perThread)
}

// MemsetD32 is cuMemsetD32 on the per-thread default stream. It does not wait for the set.
func (o ownStream) MemsetD32(th *driver.Thread, dst driver.DevicePtr, v uint32, n uint64) driver.Result {
	if r := o.d.MeetFault("cuMemsetD32"); r != driver.ResultSuccess {
		return r
	}
	return o.d.MemsetD32Async(th, dst, v, n, perThread)
}

// MemsetD16 is cuMemsetD16 on the per-thread default stream. It does not wait for the set.
func (o ownStream) MemsetD16(th *driver.Thread, dst driver.DevicePtr, v uint16, n uint64) driver.Result {
	if r := o.d.MeetFault("cuMemsetD16"); r != driver.ResultSuccess {
		return r
	}
	return o.d.MemsetD16Async(th, dst, v, n, perThread)
}

// MemsetD2D8 is cuMemsetD2D8 on the per-thread default stream. It does not wait for the set.
func (o ownStream) MemsetD2D8(th *driver.Thread, dst driver.DevicePtr, pitch uint64, v uint8, width,
	height uint64) driver.Result {
	if r := o.d.MeetFault("cuMemsetD2D8"); r != driver.ResultSuccess {
		return r
	}
	return o.d.MemsetD2D8Async(th, dst, pitch, v, width, height, perThread)
}

// MemsetD2D16 is cuMemsetD2D16 on the per-thread default stream. It does not wait for the set.
func (o ownStream) MemsetD2D16(th *driver.Thread, dst driver.DevicePtr, pitch uint64, v uint16, width,
	height uint64) driver.Result {
	if r := o.d.MeetFault("cuMemsetD2D16"); r != driver.ResultSuccess {
		return r
	}
	return o.d.MemsetD2D16Async(th, dst, pitch, v, width, height, perThread)
}

// MemsetD2D32 is cuMemsetD2D32 on the per-thread default stream. It does not wait for the set.
func (o ownStream) MemsetD2D32(th *driver.Thread, dst driver.DevicePtr, pitch uint64, v uint32, width,
	height uint64) driver.Result {
	if r := o.d.MeetFault("cuMemsetD2D32"); r != driver.ResultSuccess {
		return r
	}
	return o.d.MemsetD2D32Async(th, dst, pitch, v, width, height, perThread)
}

// Memcpy2D is cuMemcpy2D on the per-thread default stream. It returns when the copy is done.
func (o ownStream) Memcpy2D(th *driver.Thread, c driver.Memcpy2D) driver.Result {
	if r := o.d.MeetFault("cuMemcpy2D"); r != driver.ResultSuccess {
		return r
	}
	return o.wait(th, o.d.Memcpy2DAsync(th, c, perThread))
}

// Memcpy2DUnaligned is cuMemcpy2DUnaligned on the per-thread default stream.
func (o ownStream) Memcpy2DUnaligned(th *driver.Thread, c driver.Memcpy2D) driver.Result {
	if r := o.d.MeetFault("cuMemcpy2DUnaligned"); r != driver.ResultSuccess {
		return r
	}
	return o.wait(th, o.d.Memcpy2DAsync(th, c, perThread))
}

// Memcpy3D is cuMemcpy3D on the per-thread default stream. It returns when the copy is done.
func (o ownStream) Memcpy3D(th *driver.Thread, c driver.Memcpy3D) driver.Result {
	if r := o.d.MeetFault("cuMemcpy3D"); r != driver.ResultSuccess {
		return r
	}
	return o.wait(th, o.d.Memcpy3DAsync(th, c, perThread))
}

// Memcpy3DPeer is cuMemcpy3DPeer on the per-thread default stream. It returns when the copy is done.
func (o ownStream) Memcpy3DPeer(th *driver.Thread, c driver.Memcpy3DPeer) driver.Result {
	if r := o.d.MeetFault("cuMemcpy3DPeer"); r != driver.ResultSuccess {
		return r
	}
	return o.wait(th, o.d.Memcpy3DPeerAsync(th, c, perThread))
}

// MemcpyHtoA is cuMemcpyHtoA on the per-thread default stream. It returns when the copy is done.
func (o ownStream) MemcpyHtoA(th *driver.Thread, dst driver.Array, off uint64, src []byte) driver.Result {
	if r := o.d.MeetFault("cuMemcpyHtoA"); r != driver.ResultSuccess {
		return r
	}
	return o.wait(th, o.d.MemcpyHtoAAsync(th, dst, off, host(src), uint64(len(src)), perThread))
}

// MemcpyAtoH is cuMemcpyAtoH on the per-thread default stream. It returns when the copy is done.
func (o ownStream) MemcpyAtoH(th *driver.Thread, dst []byte, src driver.Array, off uint64) driver.Result {
	if r := o.d.MeetFault("cuMemcpyAtoH"); r != driver.ResultSuccess {
		return r
	}
	return o.wait(th, o.d.MemcpyAtoHAsync(th, host(dst), src, off, uint64(len(dst)), perThread))
}

// MemcpyDtoA is cuMemcpyDtoA on the per-thread default stream. It does not wait for the copy.
func (o ownStream) MemcpyDtoA(th *driver.Thread, dst driver.Array, off uint64, src driver.DevicePtr,
	n uint64) driver.Result {
	return o.d.MemcpyDtoAOn(th, dst, off, src, n, perThread)
}

// MemcpyAtoD is cuMemcpyAtoD on the per-thread default stream. It does not wait for the copy.
func (o ownStream) MemcpyAtoD(th *driver.Thread, dst driver.DevicePtr, src driver.Array, off,
	n uint64) driver.Result {
	return o.d.MemcpyAtoDOn(th, dst, src, off, n, perThread)
}

// MemcpyAtoA is cuMemcpyAtoA on the per-thread default stream. It does not wait for the copy.
func (o ownStream) MemcpyAtoA(th *driver.Thread, dst driver.Array, off uint64, src driver.Array, at,
	n uint64) driver.Result {
	return o.d.MemcpyAtoAOn(th, dst, off, src, at, n, perThread)
}
