package sim

import (
	"testing"

	"github.com/purecu/purecu/driver"
)

func (r *lab) poolAttr(p driver.MemoryPool, attr int32) uint64 {
	r.t.Helper()
	v, res := r.MemPoolGetAttribute(r.th, p, attr)
	r.must(res)
	return v
}

func poolProps(dev int32) driver.MemPoolProps {
	return driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: dev}}
}

// TestPoolResults makes calls about pools, and checks their results.
func TestPoolResults(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	r := newLab(t, Devices(2))
	s := r.newStream()
	p, res := r.MemPoolCreate(r.th, poolProps(0))
	r.must(res)
	def, res := r.DeviceGetDefaultMemPool(r.th, 0)
	r.must(res)
	shared := poolProps(0)
	shared.HandleTypes = driver.CU_MEM_HANDLE_TYPE_FABRIC
	host := driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_HOST}
	access := func(dev, flags int32) driver.Result {
		return r.MemPoolSetAccess(r.th, p, []driver.MemAccessDesc{{Location: poolProps(dev).Location, Flags: flags}})
	}
	second := func(_ any, res driver.Result) driver.Result { return res }
	for name, c := range map[string]struct{ got, want driver.Result }{
		"a pool of no device":      {second(r.MemPoolCreate(r.th, poolProps(9))), invalid},
		"a pool for a fabric":      {second(r.MemPoolCreate(r.th, shared)), driver.ResultNotSupported},
		"destroy the default pool": {r.MemPoolDestroy(r.th, def), invalid},
		"destroy nothing":          {r.MemPoolDestroy(r.th, 0), invalid},
		"an unknown attribute":     {second(r.MemPoolGetAttribute(r.th, p, 99)), invalid},
		"set an unknown attribute": {r.MemPoolSetAttribute(r.th, p, 99, 0), invalid},
		"set a current amount": {r.MemPoolSetAttribute(r.th, p, driver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0),
			invalid},
		"set a mark to 1": {r.MemPoolSetAttribute(r.th, p, driver.CU_MEMPOOL_ATTR_USED_MEM_HIGH, 1),
			invalid},
		"set a mark to 0":             {r.MemPoolSetAttribute(r.th, p, driver.CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0), ok},
		"access of the host":          {second(r.MemPoolGetAccess(r.th, p, host)), ok},
		"no access of its own device": {access(0, driver.CU_MEM_ACCESS_FLAGS_PROT_NONE), driver.ResultInvalidDevice},
		"read access":                 {access(1, driver.CU_MEM_ACCESS_FLAGS_PROT_READ), driver.ResultNotSupported},
		"access of no device": {access(9, driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
			driver.ResultInvalidDevice},
		"the pool of another device": {r.DeviceSetMemPool(r.th, 1, p), invalid},
		"an allocation of nothing":   {second(r.MemAllocFromPoolAsync(r.th, 0, p, s)), ok},
		"export":                     {second(r.MemPoolExportToShareableHandle(r.th, p, 1, 0)), invalid},
		"export of no memory":        {second(r.MemPoolExportPointer(r.th, 1)), invalid},
		"import":                     {second(r.MemPoolImportFromShareableHandle(r.th, 3, 1, 0)), driver.ResultUnknown},
		"import of memory": {second(r.MemPoolImportPointer(r.th, p, driver.MemPoolPtrExportData{})),
			invalid},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	r.must(r.MemPoolDestroy(r.th, p))
}

// TestPoolDependencies allocates what another stream has freed.
func TestPoolDependencies(t *testing.T) {
	const n = 1 << 30
	for _, c := range []struct {
		name           string
		policy         int32 // the only one, or 0
		wait, complete bool  // between the free and the allocation
		reuse          bool
	}{
		{"no policy", 0, false, true, false},
		{"opportunistic", driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, false, true, true},
		{"opportunistic, pending", driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, false, false, false},
		{"events, without one", driver.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, false, false, false},
		{"events", driver.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, true, false, true},
		{"internal", driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newLab(t)
			s, other := r.newStream(), r.newStream()
			props := poolProps(0)
			props.MaxSize = n
			p, res := r.MemPoolCreate(r.th, props)
			r.must(res)
			r.must(r.MemPoolSetAttribute(r.th, p, driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 1<<56))
			for a := int32(1); a <= 3; a++ {
				set := uint64(0)
				if a == c.policy {
					set = 1
				}
				r.must(r.MemPoolSetAttribute(r.th, p, a, set))
			}
			m, res := r.MemAllocFromPoolAsync(r.th, n, p, s)
			r.must(res)
			if !c.complete {
				r.Hold(uintptr(s))
			}
			r.must(r.MemFreeAsync(r.th, m, s))
			if c.wait {
				e, res := r.EventCreate(r.th, driver.CU_EVENT_DISABLE_TIMING)
				r.must(res)
				r.must(r.EventRecord(r.th, e, s))
				r.must(r.StreamWaitEvent(r.th, other, e, 0))
				r.must(r.EventDestroy(r.th, e))
			}
			again, res := r.MemAllocFromPoolAsync(r.th, n, p, other)
			if reused := res == ok; reused != c.reuse || reused && again != m {
				t.Errorf("%#x, %v; the freed memory is %#x", again, res, m)
			}
			if c.reuse {
				r.must(r.MemsetD8Async(r.th, again, 1, n, other))
				if done := r.StreamQuery(r.th, other) == ok; !c.complete && done {
					t.Error("the memory is used before it is free")
				}
				r.Finish()
				if used := r.poolAttr(p, driver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT); used != n {
					t.Errorf("%d bytes are used", used)
				}
			}
			r.Release(uintptr(s))
			if res == ok {
				r.must(r.MemFree(r.th, again))
			}
			r.must(r.MemPoolDestroy(r.th, p))
		})
	}
}

// TestPoolLargestMax creates a pool that may become as large as a number can say.
func TestPoolLargestMax(t *testing.T) {
	r := newLab(t)
	props := poolProps(0)
	props.MaxSize = 1<<64 - 1
	p, res := r.MemPoolCreate(r.th, props)
	r.must(res)
	m, res := r.MemAllocFromPoolAsync(r.th, 64, p, 0)
	r.must(res)
	r.must(r.MemFree(r.th, m))
	r.must(r.MemPoolDestroy(r.th, p))
}

// TestPoolDoesNotGrow allocates and frees memory of different sizes beside memory that stays, so that the
// free pieces of the pool become small, and much more in all than the pool has.
func TestPoolDoesNotGrow(t *testing.T) {
	for name, other := range map[string]bool{"one stream": false, "two streams": true} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			s, last := r.newStream(), r.newStream()
			if !other {
				last = s
			}
			p, res := r.DeviceGetDefaultMemPool(r.th, 0)
			r.must(res)
			stays, res := r.MemAllocAsync(r.th, 1, s)
			r.must(res)
			for i := range uint64(3000) {
				for _, on := range []driver.Stream{s, last} {
					m, res := r.MemAllocAsync(r.th, (i%61+1)*(8<<10), on)
					r.must(res)
					r.must(r.MemFreeAsync(r.th, m, on))
				}
			}
			if n := r.poolAttr(p, driver.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH); n != chunkSize {
				t.Errorf("%d bytes are reserved", n)
			}
			r.must(r.MemFreeAsync(r.th, stays, s))
			r.must(r.CtxSynchronize(r.th))
		})
	}
}

// TestPoolOfOtherStreams allocates from a pool that cannot grow, when all of its memory is free but a part was freed in
// another stream, and must not be used again without an order.
func TestPoolOfOtherStreams(t *testing.T) {
	r := newLab(t)
	s, other := r.newStream(), r.newStream()
	p, res := r.MemPoolCreate(r.th, driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}, MaxSize: 1 << 20})
	r.must(res)
	r.must(r.MemPoolSetAttribute(r.th, p, driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 1<<40))
	m, res := r.MemAllocFromPoolAsync(r.th, 64, p, s)
	r.must(res)
	r.must(r.MemFreeAsync(r.th, m, s))
	r.must(r.CtxSynchronize(r.th))
	for _, a := range []int32{driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
		driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES} {
		r.must(r.MemPoolSetAttribute(r.th, p, a, 0))
	}
	next, res := r.MemAllocFromPoolAsync(r.th, 64, p, other)
	r.must(res)
	if next == m {
		t.Error("memory is used again without an order")
	}
	r.must(r.MemFreeAsync(r.th, next, other))
	r.must(r.CtxSynchronize(r.th))
	r.must(r.MemPoolDestroy(r.th, p))
}
