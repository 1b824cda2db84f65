package fuzz

import "github.com/purecu/purecu/driver"

// mapped maps physical memory, and unmaps it. It needs no context, and succeeds also in a capture and
// after a sticky error.
func (mc *machine) mapped(at driver.At) (res driver.Result) {
	const pages = 2 << 20
	prop := driver.MemAllocationProp{Type: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}}
	check := func(r driver.Result) bool {
		if res == ok {
			res = r
		}
		return r == ok
	}
	p, r := mc.MemAddressReserve(at, pages, 0, 0, 0)
	if !check(r) {
		return res
	}
	if h, r := mc.MemCreate(at, pages, prop, 0); check(r) {
		if check(mc.MemMap(at, p, pages, 0, h, 0)) {
			check(mc.MemSetAccess(at, p, pages, []driver.MemAccessDesc{{Location: prop.Location,
				Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}}))
			check(mc.MemUnmap(at, p, pages))
		}
		check(mc.MemRelease(at, h))
	}
	check(mc.MemAddressFree(at, p, pages))
	return res
}
