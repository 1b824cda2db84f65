package entries

import (
	"unsafe"

	"github.com/purecu/purecu/driver"
)

func (w *world) addPool(at A) {
	var r R
	w.pool, r = w.MemPoolCreate(at, poolProps)
	w.must("cuMemPoolCreate", r)
	w.block, r = w.MemAllocFromPoolAsync(at, 256, w.pool, w.streams[nonBlocking])
	w.must("cuMemAllocFromPoolAsync", r)
	w.must("cuStreamSynchronize", w.StreamSynchronize(at, w.streams[nonBlocking]))
	w.finally("cuMemPoolDestroy", func(at A) R {
		w.MemFree(at, w.block) // it still exists if the call did not free it
		if w.pool == 0 {
			return ok
		}
		return w.MemPoolDestroy(at, w.pool)
	})
}

// poolProps are the properties of a pool.
var poolProps = driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED, Location: onDevice}

// poolCalls are about pools, and about memory in the order of a stream.
func poolCalls() []call {
	// free frees memory later, unless it is the memory of a graph.
	free := func(w W, p driver.DevicePtr, r R) R {
		return w.later(r, func(at A) R {
			w.MemFree(at, p)
			return ok
		})
	}
	return with(memoryPool,
		alone("cuDeviceGetDefaultMemPool", func(w W, at A) R { _, r := w.DeviceGetDefaultMemPool(at, 0); return r }),
		alone("cuDeviceGetMemPool", func(w W, at A) R { _, r := w.DeviceGetMemPool(at, 0); return r }),
		alone("cuDeviceSetMemPool", func(w W, at A) R {
			p, r := w.DeviceGetMemPool(at, 0)
			if r != ok {
				return r
			}
			return w.DeviceSetMemPool(at, 0, p)
		}),
		alone("cuMemGetDefaultMemPool", func(w W, at A) R {
			_, r := w.MemGetDefaultMemPool(at, onDevice, driver.CU_MEM_ALLOCATION_TYPE_PINNED)
			return r
		}),
		alone("cuMemGetMemPool", func(w W, at A) R {
			_, r := w.MemGetMemPool(at, onDevice, driver.CU_MEM_ALLOCATION_TYPE_PINNED)
			return r
		}),
		alone("cuMemSetMemPool", func(w W, at A) R {
			p, r := w.DeviceGetMemPool(at, 0)
			if r != ok {
				return r
			}
			return w.MemSetMemPool(at, onDevice, driver.CU_MEM_ALLOCATION_TYPE_PINNED, p)
		}),
		alone("cuMemPoolCreate", func(w W, at A) R {
			p, r := w.MemPoolCreate(at, poolProps)
			return w.later(r, func(at A) R { return w.MemPoolDestroy(at, p) })
		}),
		alone("cuMemPoolGetAttribute", func(w W, at A) R {
			_, r := w.MemPoolGetAttribute(at, w.pool, driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
			return r
		}),
		alone("cuMemPoolSetAttribute", func(w W, at A) R {
			return w.MemPoolSetAttribute(at, w.pool, driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0)
		}),
		alone("cuMemPoolGetAccess", func(w W, at A) R { _, r := w.MemPoolGetAccess(at, w.pool, onDevice); return r }),
		alone("cuMemPoolSetAccess", func(w W, at A) R { return w.MemPoolSetAccess(at, w.pool, readAndWrite) }),
		alone("cuMemPoolTrimTo", func(w W, at A) R { return w.MemPoolTrimTo(at, w.pool, 0) }),
		// The pool is of one process.
		refused(alone("cuMemPoolExportToShareableHandle", func(w W, at A) R {
			_, r := w.MemPoolExportToShareableHandle(at, w.pool, driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
			return r
		})),
		refused(alone("cuMemPoolImportFromShareableHandle", func(w W, at A) R {
			p, r := w.MemPoolImportFromShareableHandle(at, ^driver.HostPtr(0),
				driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
			return w.later(r, func(at A) R { return w.MemPoolDestroy(at, p) })
		})),
		refused(alone("cuMemPoolExportPointer", func(w W, at A) R {
			_, r := w.MemPoolExportPointer(at, w.block)
			return r
		})),
		refused(alone("cuMemPoolImportPointer", func(w W, at A) R {
			p, r := w.MemPoolImportPointer(at, w.pool, driver.MemPoolPtrExportData{})
			return free(w, p, r)
		})),
		alone("cuPointerGetAttributes of a pool", func(w W, at A) R { return w.attributes(at, w.block) }),
		onStream("cuMemAllocAsync", func(w W, at A, s S) R {
			p, r := w.MemAllocAsync(at, 256, s)
			return free(w, p, r)
		}),
		onStream("cuMemAllocFromPoolAsync", func(w W, at A, s S) R {
			p, r := w.MemAllocFromPoolAsync(at, 256, w.pool, s)
			return free(w, p, r)
		}),
		destroys(onStream("cuMemFreeAsync", func(w W, at A, s S) R { return w.MemFreeAsync(at, w.block, s) })),
		destroys(alone("cuMemPoolDestroy", func(w W, at A) R {
			r := w.MemPoolDestroy(at, w.pool)
			if r == ok {
				w.pool = 0
			}
			return r
		})),
	)
}

// attributes asks for some attributes of an address.
func (w *world) attributes(at A, p driver.DevicePtr) R {
	kind, start := new(uint32), new(driver.DevicePtr)
	return w.PointerGetAttributes(at,
		[]int32{driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR},
		[]unsafe.Pointer{unsafe.Pointer(kind), unsafe.Pointer(start)}, p)
}
