package sim

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
)

const (
	pinnedType, managedType = driver.CU_MEM_ALLOCATION_TYPE_PINNED, driver.CU_MEM_ALLOCATION_TYPE_MANAGED
	nowhere, onDevice       = driver.CU_MEM_LOCATION_TYPE_INVALID, driver.CU_MEM_LOCATION_TYPE_DEVICE
	onHost, onNode          = driver.CU_MEM_LOCATION_TYPE_HOST, driver.CU_MEM_LOCATION_TYPE_HOST_NUMA
	onThisNode              = driver.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
)

func propsOf(alloc, location int32) driver.MemPoolProps {
	return driver.MemPoolProps{AllocType: alloc, Location: driver.MemLocation{Type: location}}
}

func (r *lab) hostPool(alloc, location int32) driver.MemoryPool {
	r.t.Helper()
	p, res := r.MemPoolCreate(r.th, propsOf(alloc, location))
	r.must(res)
	return p
}

// TestHostPoolCreate creates pools of all types at all locations: the results are those of an H200.
func TestHostPoolCreate(t *testing.T) {
	const invalid, unsupported = driver.ResultInvalidValue, driver.ResultNotSupported
	r := newLab(t)
	for _, c := range []struct {
		alloc, location, id, handles int32
		want                         driver.Result
	}{
		{0, onHost, 0, 0, invalid}, {3, onHost, 0, 0, invalid},
		{pinnedType, nowhere, 0, 0, invalid}, {pinnedType, onThisNode, 0, 0, invalid}, {pinnedType, 5, 0, 0, invalid},
		{pinnedType, onHost, 0, 0, ok}, {pinnedType, onHost, -1, 0, ok}, {pinnedType, onHost, 7, 0, ok},
		{pinnedType, onHost, 0, 1, invalid}, {pinnedType, onHost, 0, 8, invalid},
		{pinnedType, onNode, 0, 0, ok}, {pinnedType, onNode, 1, 0, invalid}, {pinnedType, onNode, -1, 0, invalid},
		{pinnedType, onNode, 1, 1, invalid}, {pinnedType, onNode, 0, 8, unsupported},
		{managedType, nowhere, 0, 0, ok}, {managedType, nowhere, 7, 0, ok}, {managedType, nowhere, 0, 1, invalid},
		{managedType, onDevice, 0, 0, ok}, {managedType, onDevice, 7, 0, invalid},
		{managedType, onDevice, 0, 8, invalid},
		{managedType, onHost, -1, 0, ok}, {managedType, onNode, 0, 0, ok}, {managedType, onNode, 1, 0, invalid},
		{managedType, onThisNode, 7, 0, ok}, {managedType, 5, 0, 0, unsupported}, {managedType, 5, 0, 1, invalid},
	} {
		props := propsOf(c.alloc, c.location)
		if c.want == ok { // managed memory has no limit
			props.MaxSize = 1 << 30
			p, res := r.MemPoolCreate(r.th, props)
			if (res == ok) != (c.alloc == pinnedType) {
				t.Errorf("%+v with a limit: %v", c, res)
			}
			if res == ok {
				r.must(r.MemPoolDestroy(r.th, p))
			}
			props.MaxSize = 0
		}
		props.Location.ID, props.HandleTypes = c.id, c.handles
		p, res := r.MemPoolCreate(r.th, props)
		if res != c.want {
			t.Errorf("%+v: %v", c, res)
		}
		if res == ok {
			r.must(r.MemPoolDestroy(r.th, p))
		}
	}
}

// TestStandingPools asks for the default pools and the current pools of all places, and makes others current.
func TestStandingPools(t *testing.T) {
	const invalid, lacking = driver.ResultInvalidValue, driver.ResultNotSupported
	r := newLab(t, Devices(2))
	seen := make(map[driver.MemoryPool]bool)
	for _, c := range []struct {
		alloc, location, id int32
		want                driver.Result
	}{
		{pinnedType, onDevice, 0, ok}, {pinnedType, onDevice, 1, ok}, {pinnedType, onDevice, 2, invalid},
		{pinnedType, onHost, -1, ok}, {pinnedType, onNode, 0, ok}, {pinnedType, onNode, 1, invalid},
		{pinnedType, nowhere, 0, invalid}, {pinnedType, onThisNode, 0, lacking}, {pinnedType, 5, 0, invalid},
		{managedType, nowhere, 7, ok}, {managedType, onDevice, 1, ok}, {managedType, onDevice, 2, invalid},
		{managedType, onHost, 0, ok}, {managedType, onNode, 0, ok}, {managedType, onThisNode, 0, lacking},
		{0, onDevice, 0, invalid}, {3, onHost, 0, invalid},
	} {
		l := driver.MemLocation{Type: c.location, ID: c.id}
		first, res := r.MemGetDefaultMemPool(r.th, l, c.alloc)
		now, resNow := r.MemGetMemPool(r.th, l, c.alloc)
		if res != c.want || resNow != c.want || now != first || seen[first] {
			t.Errorf("%+v: %#x, %v, and %#x, %v", c, first, res, now, resNow)
		}
		if res != ok {
			r.want("cuMemSetMemPool", c.want, r.MemSetMemPool(r.th, l, c.alloc, first))
			continue
		}
		seen[first] = true
		r.want("the end of a default pool", invalid, r.MemPoolDestroy(r.th, first))
		props := propsOf(c.alloc, c.location)
		props.Location.ID = c.id
		p, res := r.MemPoolCreate(r.th, props)
		r.must(res)
		current := func(want driver.MemoryPool) {
			t.Helper()
			if got, res := r.MemGetMemPool(r.th, l, c.alloc); got != want || res != ok {
				t.Errorf("%+v: the current pool is %#x, %v; want %#x", c, got, res, want)
			}
		}
		r.must(r.MemSetMemPool(r.th, l, c.alloc, p))
		current(p)
		r.must(r.MemSetMemPool(r.th, l, c.alloc, first))
		current(first)
		r.must(r.MemSetMemPool(r.th, l, c.alloc, p))
		r.must(r.MemPoolDestroy(r.th, p))
		current(first)
	}
	host, node := driver.MemLocation{Type: onHost}, driver.MemLocation{Type: onNode}
	p, res := r.MemGetMemPool(r.th, host, managedType)
	r.must(res)
	r.want("a pool of another place", invalid, r.MemSetMemPool(r.th, node, managedType, p))
	r.want("a pool of another type", invalid, r.MemSetMemPool(r.th, host, pinnedType, p))

	m, res := r.MemAllocFromPoolAsync(r.th, 64, p, r.newStream())
	r.must(res)
	v, res := r.PointerGetAttribute(r.th, driver.CU_POINTER_ATTRIBUTE_IS_MANAGED, m)
	if r.must(res); v[0] != 1 {
		t.Error("the memory is not managed")
	}
	foreignBytes(driver.HostPtr(m), 64)[63] = 1
	r.must(r.MemFree(r.th, m))
	r.must(r.CtxSynchronize(r.th)) // the pool gives its memory back
}

// TestHostPoolAccess asks for the access to pools, and sets it.
func TestHostPoolAccess(t *testing.T) {
	const invalid, unsupported = driver.ResultInvalidValue, driver.ResultNotSupported
	const none, read, all = driver.CU_MEM_ACCESS_FLAGS_PROT_NONE, driver.CU_MEM_ACCESS_FLAGS_PROT_READ,
		driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	r := newLab(t)
	pinned, managed := r.hostPool(pinnedType, onHost), r.hostPool(managedType, onDevice)
	for i, c := range []struct {
		p           driver.MemoryPool
		location    int32
		before, set int32
		res         driver.Result
		after       int32
	}{
		{pinned, onDevice, none, read, unsupported, none}, {pinned, onDevice, none, all, ok, all},
		{pinned, onDevice, all, none, ok, none},
		{pinned, onHost, all, none, unsupported, all}, {pinned, onNode, all, read, unsupported, all},
		{pinned, onHost, all, all, ok, all},
		{managed, onDevice, none, all, ok, all}, {managed, onDevice, all, none, ok, none},
		{managed, onHost, none, all, ok, all}, {managed, onHost, all, none, ok, none},
		{managed, onNode, none, read, unsupported, none},
	} {
		l := driver.MemLocation{Type: c.location}
		before, res := r.MemPoolGetAccess(r.th, c.p, l)
		r.must(res)
		res = r.MemPoolSetAccess(r.th, c.p, []driver.MemAccessDesc{{Location: l, Flags: c.set}})
		after, _ := r.MemPoolGetAccess(r.th, c.p, l)
		if before != c.before || res != c.res || after != c.after {
			t.Errorf("%d: the access is %d, then %v, then %d", i, before, res, after)
		}
	}
	for _, p := range []driver.MemoryPool{pinned, managed} {
		for _, l := range []int32{nowhere, onThisNode, 5} {
			at := driver.MemLocation{Type: l}
			if _, res := r.MemPoolGetAccess(r.th, p, at); res != invalid {
				t.Errorf("the access at %d: %v", l, res)
			}
			res := r.MemPoolSetAccess(r.th, p, []driver.MemAccessDesc{{Location: at, Flags: all}})
			if res != invalid {
				t.Errorf("access is allowed at %d: %v", l, res)
			}
		}
		r.must(r.MemPoolDestroy(r.th, p))
	}
}

// TestHostPoolMemory allocates memory of pools of pinned memory, before and after the device may
// access it, and of managed memory.
func TestHostPoolMemory(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	second := func(_ any, res driver.Result) driver.Result { return res }
	for _, props := range []driver.MemPoolProps{propsOf(pinnedType, onHost), propsOf(pinnedType, onNode),
		propsOf(managedType, nowhere), propsOf(managedType, onDevice), propsOf(managedType, onHost)} {
		r := newLab(t)
		s := r.newStream()
		p := r.hostPool(props.AllocType, props.Location.Type)
		m, res := r.MemAllocFromPoolAsync(r.th, 1000, p, s)
		r.must(res)
		next, res := r.MemAllocFromPoolAsync(r.th, 3000, p, s)
		r.must(res)
		if next-m != 1024 {
			t.Errorf("the second block is %d bytes behind the first", next-m)
		}
		got := []uint64{r.poolAttr(p, driver.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
			r.poolAttr(p, driver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)}
		if got[0] != 32<<20 || got[1] != 4000 {
			t.Errorf("reserved and used are %v", got)
		}
		attribute := func(a int32) uint64 {
			v, res := r.PointerGetAttribute(r.th, a, m+8)
			r.must(res)
			return v[0]
		}
		if v := attribute(driver.CU_POINTER_ATTRIBUTE_HOST_POINTER); v != uint64(m+8) {
			t.Errorf("the host pointer is %#x", v)
		}
		if attribute(driver.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) != uint64(p) ||
			attribute(driver.CU_POINTER_ATTRIBUTE_CONTEXT) != 0 {
			t.Error("the memory is of another pool, or of a context")
		}
		want := ok
		if props.AllocType == pinnedType {
			want = invalid
			if attribute(driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE) != driver.CU_MEMORYTYPE_HOST {
				t.Error("the memory is not of the host")
			}
		} else if attribute(driver.CU_POINTER_ATTRIBUTE_IS_MANAGED) != 1 {
			t.Error("the memory is not managed")
		}
		if res := r.MemsetD8Async(r.th, m, 7, 1000, s); res != want {
			t.Errorf("a memset: %v", res)
		}
		if res := second(r.PointerGetAttribute(r.th, driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER, m)); res != want {
			t.Errorf("the device pointer: %v", res)
		}
		if props.AllocType == pinnedType {
			r.must(r.MemPoolSetAccess(r.th, p, []driver.MemAccessDesc{{Location: poolProps(0).Location, Flags: 3}}))
			r.must(r.MemsetD8Async(r.th, m, 7, 1000, s))
		}
		if v := attribute(driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER); v != uint64(m+8) {
			t.Errorf("the device pointer is %#x", v)
		}
		r.must(r.StreamSynchronize(r.th, s))
		if b := foreignBytes(driver.HostPtr(m), 1000); b[0] != 7 || b[999] != 7 {
			t.Errorf("the host sees %d and %d", b[0], b[999])
		}
		for what, c := range map[string]struct{ got, want driver.Result }{
			"registration":        {r.MemHostRegister(r.th, driver.HostPtr(m), 64, 0), invalid},
			"end of registration": {r.MemHostUnregister(r.th, driver.HostPtr(m)), invalid},
			"free of host memory": {r.MemFreeHost(r.th, driver.HostPtr(m)), invalid},
			"flags":               {second(r.MemHostGetFlags(r.th, driver.HostPtr(m))), invalid},
			"attach":              {r.StreamAttachMemAsync(r.th, s, m, 0, driver.CU_MEM_ATTACH_GLOBAL), invalid},
			"export":              {second(r.MemPoolExportPointer(r.th, m)), invalid},
			"import":              {second(r.MemPoolImportPointer(r.th, p, driver.MemPoolPtrExportData{})), invalid},
		} {
			if c.got != c.want {
				t.Errorf("%s: %v", what, c.got)
			}
		}
		advised := r.MemAdvise(r.th, m, 1000, driver.CU_MEM_ADVISE_SET_READ_MOSTLY, propsOf(0, onHost).Location)
		moved := r.MemPrefetchAsync(r.th, m, 1000, propsOf(0, onHost).Location, 0, s)
		if props.AllocType == pinnedType && (advised != invalid || moved != invalid) ||
			props.AllocType == managedType && (advised != driver.ResultNotSupported || moved != ok) {
			t.Errorf("advice: %v, prefetch: %v", advised, moved)
		}
		r.must(r.MemFreeAsync(r.th, m, s))
		r.must(r.MemFree(r.th, next))
		again, res := r.MemAllocFromPoolAsync(r.th, 64, p, s)
		if r.must(res); again != m && again != next {
			t.Errorf("%#x is not what was freed: %#x or %#x", again, m, next)
		}
		r.must(r.MemFreeAsync(r.th, again, s))
		r.must(r.StreamSynchronize(r.th, s))
		if n := r.poolAttr(p, driver.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); n != 0 {
			t.Errorf("%d bytes are reserved after all frees", n)
		}
		if r.space.pinned != 0 {
			t.Errorf("%d bytes of the host are in use", r.space.pinned)
		}
		r.must(r.MemPoolDestroy(r.th, p))
	}
}

// TestHostPoolCopies copies from and to pinned memory of a pool, which is memory of the host, with
// and without access of the device. Sets need the access, and kernels in TestHostPoolKernels.
func TestHostPoolCopies(t *testing.T) {
	const invalid, n = driver.ResultInvalidValue, 64
	r := newLab(t)
	s := r.newStream()
	p := r.hostPool(pinnedType, onNode)
	m, res := r.MemAllocFromPoolAsync(r.th, n, p, s)
	r.must(res)
	x, res := r.MemAlloc(r.th, n)
	r.must(res)
	host, b := driver.HostPtr(m), make([]byte, n)
	corner := func(kind int32) driver.Memcpy2D {
		return driver.Memcpy2D{DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: x, SrcMemoryType: kind,
			SrcHost: host, SrcDevice: m, WidthInBytes: 8, Height: 2, SrcPitch: 8, DstPitch: 8}
	}
	for _, access := range []bool{false, true} {
		sets := invalid
		if access {
			r.must(r.MemPoolSetAccess(r.th, p, []driver.MemAccessDesc{{Location: poolProps(0).Location, Flags: 3}}))
			sets = ok
		}
		for name, c := range map[string]struct{ got, want driver.Result }{
			"HtoD":               {r.MemcpyHtoD(r.th, m, b), invalid},
			"DtoH":               {r.MemcpyDtoH(r.th, b, m), invalid},
			"DtoD to":            {r.MemcpyDtoD(r.th, m, x, n), invalid},
			"DtoD from":          {r.MemcpyDtoD(r.th, x, m, n), invalid},
			"peer":               {r.MemcpyPeer(r.th, m, 0, x, 0, n), invalid},
			"memcpy to":          {r.Memcpy(r.th, m, x, n), ok},
			"memcpy from":        {r.MemcpyAsync(r.th, x, m, n, s), ok},
			"HtoD as the source": {r.MemcpyHtoDAsync(r.th, x, host, n, s), ok},
			"DtoH as the target": {r.MemcpyDtoHAsync(r.th, host, x, n, s), ok},
			"2D of the host":     {r.Memcpy2D(r.th, corner(driver.CU_MEMORYTYPE_HOST)), ok},
			"2D of the device":   {r.Memcpy2D(r.th, corner(driver.CU_MEMORYTYPE_DEVICE)), invalid},
			"2D unified":         {r.Memcpy2D(r.th, corner(driver.CU_MEMORYTYPE_UNIFIED)), ok},
			"set":                {r.MemsetD8(r.th, m, 1, n), sets},
			"set of a rectangle": {r.MemsetD2D8(r.th, m, 8, 1, 4, 2), sets},
			"a word":             {r.StreamWriteValue32(r.th, s, m, 1, 0), invalid},
		} {
			if c.got != c.want {
				t.Errorf("%s, access %v: %v", name, access, c.got)
			}
		}
		start, size, res := r.MemGetAddressRange(r.th, m+8)
		if access != (res == ok) || access && (start != m || size != n) || !access && res != driver.ResultNotFound {
			t.Errorf("access %v: the range is %d bytes at %#x, %v", access, size, start, res)
		}
	}
	next, res := r.MemAllocFromPoolAsync(r.th, n, p, s)
	r.must(res)
	v, res := r.PointerGetAttribute(r.th, driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, next+8)
	if r.must(res); v[0] != uint64(next-m) {
		t.Errorf("the range begins at %#x", v[0])
	}
	r.must(r.MemFreeAsync(r.th, m, s))
	r.must(r.MemFreeAsync(r.th, next, s))
	r.must(r.MemFree(r.th, x))
	r.must(r.MemPoolDestroy(r.th, p))
}

// TestHostPoolKernels writes to pinned memory of a pool with a kernel, which needs access of its
// own device. The report of the fault says that the access is missing.
func TestHostPoolKernels(t *testing.T) {
	for _, allowed := range []int32{-1, 0, 1} {
		r := newLab(t, Devices(2))
		s, p := r.newStream(), r.hostPool(pinnedType, onHost)
		m, res := r.MemAllocFromPoolAsync(r.th, 16, p, s)
		r.must(res)
		if allowed >= 0 {
			access := driver.MemAccessDesc{Location: poolProps(allowed).Location,
				Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}
			r.must(r.MemPoolSetAccess(r.th, p, []driver.MemAccessDesc{access}))
		}
		f := r.ptxFile("warps", "writes")
		if allowed == 0 {
			r.want("with access", ok, r.launchGrid(f, 1, 1, 2, 1, 0, m))
			r.must(r.MemFree(r.th, m))
			r.must(r.MemPoolDestroy(r.th, p))
			continue
		}
		r.want("without access", driver.ResultIllegalAddress, r.launchGrid(f, 1, 1, 2, 1, 0, m))
		want := fmt.Sprintf("; the memory of 16 bytes at %#x does not allow the access", m)
		if report := r.Misuses()[0].What; !strings.Contains(report, want) {
			t.Errorf("access of device %d: the report %q does not contain %q", allowed, report, want)
		}
		r.takeMisuses()
		r.MemFree(r.th, m) // returns the fault, and frees the memory
		r.must(r.MemPoolDestroy(r.th, p))
	}
}

// TestHostPoolPlaces asks where managed memory of pools is, and should be.
func TestHostPoolPlaces(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	const prefType, prefID = driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
		driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID
	const lastType, lastID = driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
		driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID
	for location, want := range map[int32][3]int32{nowhere: {0, -2, -2}, onDevice: {1, 0, 0}, onHost: {2, 0, -1},
		onNode: {2, 0, -1}} {
		p := r.hostPool(managedType, location)
		m, res := r.MemAllocFromPoolAsync(r.th, 1<<20, p, s)
		r.must(res)
		is := func(attribute, want int32) {
			t.Helper()
			b := make([]byte, 4)
			r.must(r.MemRangeGetAttribute(r.th, b, attribute, m, 1<<20))
			if v := int32(binary.LittleEndian.Uint32(b)); v != want {
				t.Errorf("a pool at %d: attribute %d is %d, want %d", location, attribute, v, want)
			}
		}
		is(prefType, want[0])
		is(prefID, want[1])
		is(driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, want[2])
		is(lastType, 0)
		is(lastID, -2)
		r.must(r.MemPrefetchAsync(r.th, m, 1<<20, driver.MemLocation{Type: onNode}, 0, s))
		is(lastType, onNode)
		is(lastID, 0)
		is(driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, -1)
		r.must(r.MemPrefetchAsync(r.th, m, 1<<20, driver.MemLocation{Type: onHost}, 0, s))
		is(lastType, onHost)
		is(lastID, -1)
		r.must(r.MemPrefetchAsync(r.th, m, 1<<19, driver.MemLocation{Type: onDevice}, 0, s))
		is(lastType, 0)
		is(prefID, want[1])
		r.must(r.MemFreeAsync(r.th, m, s))
		r.must(r.MemPoolDestroy(r.th, p))
	}
}

// TestHostPoolGraphs allocates in captures, and by nodes. The pool of managed memory at a device
// gives memory of the device there, and does not become the device's current pool.
func TestHostPoolGraphs(t *testing.T) {
	r := newLab(t)
	for _, c := range []struct {
		alloc, location         int32
		captured, node, current driver.Result
	}{
		{pinnedType, onHost, driver.ResultNotSupported, driver.ResultNotSupported, driver.ResultInvalidValue},
		{pinnedType, onNode, driver.ResultNotSupported, driver.ResultNotSupported, driver.ResultInvalidValue},
		{managedType, nowhere, driver.ResultInvalidValue, driver.ResultNotSupported, driver.ResultInvalidValue},
		{managedType, onHost, driver.ResultNotSupported, driver.ResultNotSupported, driver.ResultInvalidValue},
		{managedType, onDevice, ok, ok, ok},
	} {
		s := r.newStream()
		p := r.hostPool(c.alloc, c.location)
		r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
		m, captured := r.MemAllocFromPoolAsync(r.th, 64, p, s)
		if captured == ok {
			v, res := r.PointerGetAttribute(r.th, driver.CU_POINTER_ATTRIBUTE_IS_MANAGED, m)
			if res == ok && v[0] != 0 {
				t.Error("memory of a graph is managed")
			}
		}
		g, res := r.StreamEndCapture(r.th, s)
		r.must(res)
		_, _, node := r.GraphAddMemAllocNode(r.th, g, nil,
			driver.MemAllocNodeParams{PoolProps: propsOf(c.alloc, c.location), Bytesize: 64})
		r.must(r.GraphDestroy(r.th, g))
		current := r.DeviceSetMemPool(r.th, 0, p)
		now, res := r.DeviceGetMemPool(r.th, 0)
		if r.must(res); now == p {
			t.Error("the pool is the device's current one")
		}
		if captured != c.captured || node != c.node || current != c.current {
			t.Errorf("%+v: captured %v, node %v, current %v", c, captured, node, current)
		}
		r.must(r.MemPoolDestroy(r.th, p))
	}
}

// TestHostPoolSetsInGraphs captures a set of pinned memory, and instantiates the graph, also as a child
// of another one. Without access of the device the capture goes on, and the graph is refused.
func TestHostPoolSetsInGraphs(t *testing.T) {
	r := newLab(t)
	s, p := r.newStream(), r.hostPool(pinnedType, onHost)
	m, res := r.MemAllocFromPoolAsync(r.th, 64, p, s)
	r.must(res)
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	r.must(r.MemsetD8Async(r.th, m, 7, 64, s))
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	parent, res := r.GraphCreate(r.th, 0)
	r.must(res)
	_, res = r.GraphAddChildGraphNode(r.th, parent, nil, g)
	r.must(res)
	for _, c := range []struct {
		flags int32
		want  driver.Result
	}{
		{driver.CU_MEM_ACCESS_FLAGS_PROT_NONE, driver.ResultInvalidValue},
		{driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE, ok},
	} {
		r.must(r.MemPoolSetAccess(r.th, p, []driver.MemAccessDesc{{Location: poolProps(0).Location, Flags: c.flags}}))
		for name, h := range map[string]driver.Graph{"the graph": g, "its parent": parent} {
			x, res := r.GraphInstantiateWithFlags(r.th, h, 0)
			if res != c.want {
				t.Errorf("%s, with access %d: %v, want %v", name, c.flags, res, c.want)
			}
			if res != ok {
				continue
			}
			foreignBytes(driver.HostPtr(m), 64)[63] = 0
			r.must(r.GraphLaunch(r.th, x, s))
			r.must(r.StreamSynchronize(r.th, s))
			if b := foreignBytes(driver.HostPtr(m), 64); b[63] != 7 {
				t.Errorf("%s sets %d", name, b[63])
			}
			r.must(r.GraphExecDestroy(r.th, x))
		}
	}
	r.must(r.GraphDestroy(r.th, parent))
	r.must(r.GraphDestroy(r.th, g))
	r.must(r.MemFreeAsync(r.th, m, s))
	r.must(r.MemPoolDestroy(r.th, p))
}

// TestHostPoolPages allocates and frees chunks of a pool of pinned memory: each once.
func TestHostPoolPages(t *testing.T) {
	r := newLab(t)
	there := func() uint64 { return r.space.pinned / chunkSize }
	s := r.newStream()
	p := r.hostPool(pinnedType, onHost)
	for range 3 {
		m, res := r.MemAllocFromPoolAsync(r.th, 64, p, s)
		r.must(res)
		if there() != 1 {
			t.Errorf("%d chunks are allocated", there())
		}
		r.must(r.MemFreeAsync(r.th, m, s))
	}
	m, res := r.MemAllocFromPoolAsync(r.th, 64, p, s)
	r.must(res)
	r.must(r.MemPoolDestroy(r.th, p))
	if there() != 1 {
		t.Errorf("%d chunks are there while memory of a destroyed pool is", there())
	}
	r.must(r.MemFreeAsync(r.th, m, s))
	r.must(r.StreamSynchronize(r.th, s))
	if there() != 0 {
		t.Errorf("%d chunks are not freed", there())
	}
	p = r.hostPool(pinnedType, onHost)
	for _, n := range []uint64{1 << 40, 1<<64 - 1} {
		if _, res := r.MemAllocFromPoolAsync(r.th, n, p, s); res != driver.ResultOutOfMemory {
			t.Errorf("an allocation of %d bytes: %v", n, res)
		}
	}
	m, res = r.MemAllocFromPoolAsync(r.th, 33<<20, p, s)
	r.must(res)
	if n := r.poolAttr(p, driver.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); n != 64<<20 {
		t.Errorf("%d bytes are reserved for 33 MiB", n)
	}
	r.must(r.MemFreeAsync(r.th, m, s))
	r.must(r.MemPoolDestroy(r.th, p))
}
