package sim

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// MemHostRegister is cuMemHostRegister_v2. The memory must not move, and must stay valid until the
// end of its registration.
func (d *Driver) MemHostRegister(th *driver.Thread, p driver.HostPtr, size uint64, flags uint32) driver.Result {
	const known = driver.CU_MEMHOSTREGISTER_PORTABLE | driver.CU_MEMHOSTREGISTER_DEVICEMAP |
		driver.CU_MEMHOSTREGISTER_IOMEMORY | driver.CU_MEMHOSTREGISTER_READ_ONLY
	addr := uint64(p)
	there := pinnable(p, size, flags&driver.CU_MEMHOSTREGISTER_READ_ONLY == 0)
	defer d.mu.Unlock()
	c, r := d.changing("cuMemHostRegister", th)
	switch {
	case r != ok:
		return r
	case addr+size >= addr && size >= 1<<62: // as an H200
		return driver.ResultNotSupported
	case p == 0 || size == 0 || addr+size < addr || addr+size > deviceBase || flags&^uint32(known) != 0:
		return driver.ResultInvalidValue
	case d.space.At(addr) != nil && d.space.At(addr).kind.pooled(): // as on an H200
		return driver.ResultInvalidValue
	case d.space.Taken(addr, size):
		return driver.ResultHostMemoryAlreadyRegistered
	case !there && size > mem.MachineRoom(0): // as on an H200, before it looks at the memory
		return driver.ResultOutOfMemory
	case flags&driver.CU_MEMHOSTREGISTER_IOMEMORY != 0, !there: // the memory is not that of a device
		return driver.ResultInvalidValue
	}
	d.space.add(&block{addr: addr, size: size, kind: registeredBlock, ctx: c, flags: flags,
		mem: mem.Of(foreignBytes(p, size))})
	return ok
}

// MemHostUnregister is cuMemHostUnregister. It waits for all work in the context
// of the registration.
func (d *Driver) MemHostUnregister(th *driver.Thread, p driver.HostPtr) driver.Result {
	defer d.mu.Unlock()
	return d.freeing("cuMemHostUnregister", th, uint64(p), registeredBlock, driver.ResultHostMemoryNotRegistered)
}

// pinnable reports whether the program has the pages of a range, and can read them, or write them, too. Only then
// can they be pinned.
func pinnable(p driver.HostPtr, size uint64, write bool) bool {
	first := uint64(p) &^ (mem.Page - 1)
	end := (uint64(p) + size + mem.Page - 1) &^ (mem.Page - 1)
	if end <= first || end > deviceBase {
		return false
	}
	parts, known := memoryParts(first, end)
	if !known {
		return touchable(first, end, write)
	}
	for _, m := range parts {
		if m.first > first { // nothing is mapped there
			return false
		}
		if write && !m.write || !write && !m.read {
			return false
		}
		first = m.end
		if last := min(m.end, end); m.file && !touchable(last-mem.Page, last, false) { // behind the end of the file
			return false
		}
	}
	return first >= end
}

// memoryPart is a part of the program's memory.
type memoryPart struct {
	first, end  uint64
	read, write bool
	file        bool // what is behind the end of the file cannot be accessed
}

// touchable reports whether all pages of a range can be read, or written. It changes nothing there.
func touchable(first, end uint64, write bool) bool {
	return touch(func() {
		for at := first; at < end; at += mem.Page {
			if word := foreignWord(driver.HostPtr(at)); write {
				atomic.OrUint32(word, 0)
			} else {
				atomic.LoadUint32(word)
			}
		}
	})
}
