package entries

import (
	"os"

	"github.com/purecu/purecu/driver"
)

// pages is the size of physical memory.
const pages = 2 << 20

// physical returns the properties of physical memory.
func physical() driver.MemAllocationProp {
	return driver.MemAllocationProp{Type: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}}
}

// mapped maps physical memory, and unmaps it. It returns the first result that is not success, and
// leaves nothing.
func (w *world) mapped(at driver.At) driver.Result {
	p, r := w.MemAddressReserve(at, pages, 0, 0, 0)
	if r != ok {
		return r
	}
	h, r := w.MemCreate(at, pages, physical(), 0)
	if r == ok {
		r = w.MemMap(at, p, pages, 0, h, 0)
		if r == ok {
			r = w.MemSetAccess(at, p, pages, []driver.MemAccessDesc{{Location: physical().Location,
				Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}})
			r = first(r, w.MemUnmap(at, p, pages))
		}
		r = first(r, w.MemRelease(at, h))
	}
	return first(r, w.MemAddressFree(at, p, pages))
}

// first returns the first result that is not success.
func first(a, b driver.Result) driver.Result {
	if a != ok {
		return a
	}
	return b
}

// addresses are physical memory that is mapped, and addresses that nothing is mapped to.
type addresses struct {
	physical    driver.MemGenericAllocationHandle
	mapped, not driver.DevicePtr
}

// onDevice is memory of the device, and readAndWrite is what the device may do with it.
var (
	onDevice     = driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}
	readAndWrite = []driver.MemAccessDesc{{Location: onDevice, Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}}
)

func (w *world) addAddresses(at A) {
	a := &w.addresses
	reserve := func(p *driver.DevicePtr) {
		var r R
		*p, r = w.MemAddressReserve(at, pages, 0, 0, 0)
		w.must("cuMemAddressReserve", r)
		w.finally("cuMemAddressFree", func(at A) R {
			if *p == 0 {
				return ok
			}
			return w.MemAddressFree(at, *p, pages)
		})
	}
	reserve(&a.mapped)
	reserve(&a.not)
	var r R
	a.physical, r = w.MemCreate(at, pages, physical(), 0)
	w.must("cuMemCreate", r)
	w.finally("cuMemRelease", func(at A) R {
		if a.physical == 0 {
			return ok
		}
		return w.MemRelease(at, a.physical)
	})
	w.must("cuMemMap", w.mapAgain(at))
	w.finally("cuMemUnmap", func(at A) R { return w.MemUnmap(at, a.mapped, pages) })
}

// mapAgain maps the memory that is mapped.
func (w *world) mapAgain(at A) R {
	a := &w.addresses
	if r := w.MemMap(at, a.mapped, pages, 0, a.physical, 0); r != ok {
		return r
	}
	return w.MemSetAccess(at, a.mapped, pages, readAndWrite)
}

func (w *world) addShareable(at A) {
	p := physical()
	p.RequestedHandleTypes = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	var r R
	w.shared, r = w.MemCreate(at, pages, p, 0)
	w.must("cuMemCreate", r)
	w.finally("cuMemRelease", func(at A) R { return w.MemRelease(at, w.shared) })
	if w.file, r = w.export(at); r == ok {
		w.finally("closing a file", func(A) R {
			_ = w.file.Close()
			return ok
		})
	}
	w.must("cuMemExportToShareableHandle", r)
}

// export returns a file that stands for the shareable memory.
func (w *world) export(at A) (*os.File, R) {
	h, r := w.MemExportToShareableHandle(at, w.shared, driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
	if r != ok {
		return nil, r
	}
	return os.NewFile(uintptr(h.FD()), "memory"), ok
}

// virtualCalls are about physical memory and addresses.
func virtualCalls() []call {
	return with(virtual,
		alone("cuMemGetAllocationGranularity", func(w W, at A) R {
			_, r := w.MemGetAllocationGranularity(at, physical(), driver.CU_MEM_ALLOC_GRANULARITY_MINIMUM)
			return r
		}),
		alone("cuMemGetAllocationPropertiesFromHandle", func(w W, at A) R {
			_, r := w.MemGetAllocationPropertiesFromHandle(at, w.addresses.physical)
			return r
		}),
		alone("cuMemRetainAllocationHandle, cuMemRelease", func(w W, at A) R {
			h, r := w.MemRetainAllocationHandle(at, driver.HostPtr(w.addresses.mapped))
			if r != ok {
				return r
			}
			return w.MemRelease(at, h)
		}),
		alone("cuMemGetAccess", func(w W, at A) R {
			_, r := w.MemGetAccess(at, onDevice, w.addresses.mapped)
			return r
		}),
		alone("cuMemSetAccess", func(w W, at A) R {
			return w.MemSetAccess(at, w.addresses.mapped, pages, readAndWrite)
		}),
		alone("cuMemMap", func(w W, at A) R {
			if r := w.MemMap(at, w.addresses.not, pages, 0, w.addresses.physical, 0); r != ok {
				return r
			}
			return w.MemUnmap(at, w.addresses.not, pages)
		}),
		alone("cuMemUnmap", func(w W, at A) R {
			if r := w.MemUnmap(at, w.addresses.mapped, pages); r != ok {
				return r
			}
			return w.mapAgain(at)
		}),
		alone("cuMemGetAddressRange mapped", func(w W, at A) R {
			_, _, r := w.MemGetAddressRange(at, w.addresses.mapped+8)
			return r
		}),
		alone("cuPointerGetAttributes mapped", func(w W, at A) R { return w.attributes(at, w.addresses.mapped) }),
		destroys(alone("cuMemAddressFree", func(w W, at A) R {
			r := w.MemAddressFree(at, w.addresses.not, pages)
			if r == ok {
				w.addresses.not = 0
			}
			return r
		})),
		destroys(alone("cuMemRelease", func(w W, at A) R {
			r := w.MemRelease(at, w.addresses.physical)
			if r == ok {
				w.addresses.physical = 0
			}
			return r
		})),
	)
}

// shareableCalls are about physical memory for several processes.
func shareableCalls() []call {
	return with(shareable,
		alone("cuMemExportToShareableHandle", func(w W, at A) R {
			f, r := w.export(at)
			if r == ok {
				_ = f.Close()
			}
			return r
		}),
		alone("cuMemImportFromShareableHandle", func(w W, at A) R {
			h, r := w.MemImportFromShareableHandle(at, driver.HostPtr(w.file.Fd()),
				driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
			if r != ok {
				return r
			}
			return w.MemRelease(at, h)
		}),
	)
}
