package entries

import "github.com/purecu/purecu/driver"

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

// onDevice is memory of the device, and readAndWrite is what the device may do with it.
var (
	onDevice     = driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}
	readAndWrite = []driver.MemAccessDesc{{Location: onDevice, Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}}
)
