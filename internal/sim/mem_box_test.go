package sim

import (
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// TestBoxResults copies and sets boxes, and checks the results of the calls.
func TestBoxResults(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	r := newLab(t)
	s := r.newStream()
	p, pitch, res := r.MemAllocPitch(r.th, 100, 4, 4)
	r.must(res)
	defer r.MemFree(r.th, p)
	if pitch != alignment {
		t.Errorf("the pitch is %d", pitch)
	}
	page := mem.NewBytes(64)
	host := driver.HostPtr(sliceAddress(page))
	copy2D := func(change func(c *driver.Memcpy2D)) driver.Result {
		c := driver.Memcpy2D{SrcMemoryType: driver.CU_MEMORYTYPE_HOST, SrcHost: host, SrcPitch: 8,
			DstMemoryType: driver.CU_MEMORYTYPE_DEVICE,
			DstDevice:     p, DstPitch: pitch, WidthInBytes: 8, Height: 4}
		change(&c)
		return r.Memcpy2DAsync(r.th, c, s)
	}
	copy3D := func(height uint64) driver.Result {
		return r.Memcpy3DAsync(r.th, driver.Memcpy3D{SrcMemoryType: driver.CU_MEMORYTYPE_HOST, SrcHost: host,
			SrcPitch:  8,
			SrcHeight: height, DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: p, DstPitch: pitch, DstHeight: 4,
			WidthInBytes: 8, Height: 4, Depth: 1}, s)
	}
	alloc := func(w, h uint64, element uint32) driver.Result {
		_, _, res := r.MemAllocPitch(r.th, w, h, element)
		return res
	}
	for name, c := range map[string]struct{ got, want driver.Result }{
		"a copy":                   {copy2D(func(*driver.Memcpy2D) {}), ok},
		"no rows":                  {copy2D(func(c *driver.Memcpy2D) { c.Height = 0 }), ok},
		"a small pitch":            {copy2D(func(c *driver.Memcpy2D) { c.SrcPitch = 7 }), invalid},
		"a large pitch":            {copy2D(func(c *driver.Memcpy2D) { c.DstPitch = 1 << 31 }), invalid},
		"no pitch":                 {copy2D(func(c *driver.Memcpy2D) { c.SrcPitch = 0 }), ok},
		"one row without a pitch":  {copy2D(func(c *driver.Memcpy2D) { c.Height, c.SrcPitch = 1, 0 }), ok},
		"a plane without a height": {copy3D(0), ok},
		"a plane too low":          {copy3D(3), invalid},
		"past the row":             {copy2D(func(c *driver.Memcpy2D) { c.DstXInBytes = pitch }), invalid},
		"too many rows":            {copy2D(func(c *driver.Memcpy2D) { c.DstY = 1 }), invalid},
		"an array": {copy2D(func(c *driver.Memcpy2D) { c.DstMemoryType = driver.CU_MEMORYTYPE_ARRAY }),
			invalid},
		"unified": {copy2D(func(c *driver.Memcpy2D) { c.DstMemoryType = driver.CU_MEMORYTYPE_UNIFIED }),
			ok},
		"a set":                 {r.MemsetD2D8Async(r.th, p, pitch, 1, 100, 4, s), ok},
		"a set of too much":     {r.MemsetD2D8Async(r.th, p, pitch, 1, pitch+1, 4, s), invalid},
		"a set of one row":      {r.MemsetD2D8Async(r.th, p, 0, 1, pitch, 1, s), ok},
		"a set at an odd place": {r.MemsetD2D32Async(r.th, p+1, pitch, 1, 1, 1, s), invalid},
		"a set of odd rows":     {r.MemsetD2D32Async(r.th, p, 9, 1, 1, 2, s), invalid},
		"nothing":               {alloc(0, 1, 4), invalid},
		"an odd element":        {alloc(1, 1, 3), invalid},
		"too much":              {alloc(1<<20, 1<<40, 4), driver.ResultOutOfMemory},
		"more than 64 bits":     {alloc(1<<20, 1<<44, 4), invalid},
		"a little more":         {alloc(1<<62, 7, 4), driver.ResultOutOfMemory},
		"long rows":             {alloc(1<<62, 1, 4), driver.ResultOutOfMemory},
		"the longest rows":      {alloc(1<<64-1, 1, 4), invalid},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	r.must(r.StreamSynchronize(r.th, s))
}

// TestBoxesInPools copies from rows that begin where they reach into the next row. As for an H200, only memory
// of pools may have them.
func TestBoxesInPools(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	to, plain := r.alloc("...."), r.alloc("0123456789")
	pool, res := r.MemAllocAsync(r.th, 10, s)
	r.must(res)
	r.must(r.MemcpyDtoDAsync(r.th, pool, plain, 10, s))
	c := driver.Memcpy2D{SrcMemoryType: driver.CU_MEMORYTYPE_UNIFIED, SrcDevice: pool, SrcXInBytes: 3, SrcPitch: 4,
		DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: to, DstPitch: 2, WidthInBytes: 2, Height: 2}
	r.must(r.Memcpy2DAsync(r.th, c, s))
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.read(to, 4); got != "3478" {
		t.Errorf("the memory is %q", got)
	}
	c.SrcPitch = 1
	r.want("wide rows", driver.ResultInvalidValue, r.Memcpy2DAsync(r.th, c, s))
	c.SrcDevice, c.SrcPitch = plain, 4
	r.want("other memory", driver.ResultInvalidValue, r.Memcpy2D(r.th, c))
	c.SrcDevice, c.SrcXInBytes, c.DstDevice, c.DstXInBytes = plain, 0, pool, 1
	r.want("to the pool", ok, r.Memcpy2D(r.th, c))
	r.must(r.MemFreeAsync(r.th, pool, s))
	r.must(r.StreamSynchronize(r.th, s))
}

// TestBoxSizes copies boxes whose sizes are wrong: with planes of more than 64 bits, and in a range of
// the host that is larger than any memory.
func TestBoxSizes(t *testing.T) {
	r := newLab(t)
	p := r.alloc("0123456789abcdef")
	page := mem.NewBytes(64)
	c := driver.Memcpy3D{SrcMemoryType: driver.CU_MEMORYTYPE_HOST, SrcHost: driver.HostPtr(sliceAddress(page)),
		SrcPitch: 1 << 24, SrcHeight: 1 << 40, DstMemoryType: driver.CU_MEMORYTYPE_DEVICE,
		DstDevice: p, DstPitch: 1 << 24, DstHeight: 1 << 40,
		WidthInBytes: 1, Height: 1, Depth: 1 << 40}
	r.want("planes of 2^64 bytes", driver.ResultInvalidValue, r.Memcpy3DAsync(r.th, c, 0))
	c.Depth = 1
	r.want("one of them", ok, r.Memcpy3DAsync(r.th, c, 0))
	c.SrcZ = 1
	r.want("the second of them", driver.ResultInvalidValue, r.Memcpy3DAsync(r.th, c, 0))
	if raceEnabled {
		return // Go checks that a range of the host is one of its own
	}
	r.want("rows far from each other", driver.ResultInvalidValue, r.Memcpy2DAsync(r.th, driver.Memcpy2D{
		SrcMemoryType: driver.CU_MEMORYTYPE_HOST, SrcHost: c.SrcHost, SrcPitch: maxPitch,
		DstMemoryType: driver.CU_MEMORYTYPE_DEVICE,
		DstDevice:     r.alloc(string(make([]byte, 1<<15))), DstPitch: 1, WidthInBytes: 1, Height: 1 << 15}, 0))
}

// TestCopyBoxPeer copies boxes between the memory of contexts. The results are those of the documentation.
func TestCopyBoxPeer(t *testing.T) {
	r := newLab(t)
	from, to := r.alloc("abcdefgh"), r.alloc("........")
	other, res := r.CtxCreate(nil, nil, 0, 0)
	r.must(res)
	defer r.CtxDestroy(r.th, other)
	c := driver.Memcpy3DPeer{SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: from, SrcContext: r.ctx,
		SrcPitch: 4, SrcHeight: 2,
		DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: to, DstContext: r.ctx, DstPitch: 4, DstHeight: 2,
		SrcXInBytes: 1, DstXInBytes: 2, WidthInBytes: 2, Height: 2, Depth: 1}
	r.must(r.Memcpy3DPeer(r.th, c))
	if got := r.read(to, 8); got != "..bc..fg" {
		t.Errorf("the memory is %q", got)
	}
	c.Height, c.DstXInBytes, c.DstContext = 1, 0, other
	s := r.newStream()
	r.must(r.Memcpy3DPeerAsync(r.th, c, s))
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.read(to, 8); got != "bcbc..fg" {
		t.Errorf("the memory is %q after the second copy", got)
	}
	c.DstContext = 0 // as for an H200
	r.must(r.Memcpy3DPeer(r.th, c))
	r.must(r.Memcpy3DPeerAsync(r.th, c, s))
	c.SrcPitch = 1
	r.want("no context and a small pitch", driver.ResultInvalidValue, r.Memcpy3DPeer(r.th, c))
	c.SrcPitch, c.SrcContext = 4, 0
	r.must(r.Memcpy3DPeer(r.th, c))
	r.must(r.Memcpy3DPeerAsync(r.th, c, s))
	c.SrcContext = 99
	r.want("no context's handle", driver.ResultInvalidContext, r.Memcpy3DPeer(r.th, c))
	r.takeMisuses()
	c.SrcContext, c.SrcMemoryType = r.ctx, 0
	r.want("no type of memory", driver.ResultInvalidValue, r.Memcpy3DPeer(r.th, c))
}
