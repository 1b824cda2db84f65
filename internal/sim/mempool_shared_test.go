//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"bytes"
	"os"
	"testing"

	"github.com/purecu/purecu/driver"
)

// sharedPool creates a pool that processes share.
func (r *lab) sharedPool(dev int32, most uint64) driver.MemoryPool {
	r.t.Helper()
	props := poolProps(dev)
	props.HandleTypes, props.MaxSize = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, most
	p, res := r.MemPoolCreate(r.th, props)
	r.must(res)
	return p
}

// exported returns the file of a pool.
func (r *lab) exported(p driver.MemoryPool) *os.File {
	r.t.Helper()
	h, res := r.MemPoolExportToShareableHandle(r.th, p, driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
	r.must(res)
	f := os.NewFile(uintptr(h[0]), "pool")
	r.t.Cleanup(func() { f.Close() })
	return f
}

// imported returns the pool of a file.
func (r *lab) imported(f *os.File) driver.MemoryPool {
	r.t.Helper()
	p, res := r.MemPoolImportFromShareableHandle(r.th, driver.HostPtr(f.Fd()),
		driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
	r.must(res)
	return p
}

// TestSharedPool exports memory of a pool from one driver to another, which stands for another process.
func TestSharedPool(t *testing.T) {
	here, there := newLab(t, Devices(2)), newLab(t, Devices(2))
	const n = 1000
	for _, dev := range []int32{0, 1} {
		for _, r := range []*lab{here, there} { // no other device can access the memory
			r.must(r.CtxSetCurrent(r.th, r.primary(driver.Device(dev))))
			t.Cleanup(func() { r.must(r.DevicePrimaryCtxRelease(r.th, driver.Device(dev))) })
		}
		p := here.sharedPool(dev, 0)
		s := here.newStream()
		var memory [3]driver.DevicePtr
		for i := range memory {
			var res driver.Result
			memory[i], res = here.MemAllocFromPoolAsync(here.th, n, p, s)
			here.must(res)
			here.must(here.MemcpyHtoD(here.th, memory[i], bytes.Repeat([]byte{byte(i + 1)}, n)))
		}
		here.must(here.StreamSynchronize(here.th, s))
		q := there.imported(here.exported(p))
		for i, m := range memory {
			data, res := here.MemPoolExportPointer(here.th, m)
			here.must(res)
			got, res := there.MemPoolImportPointer(there.th, q, data)
			there.must(res)
			b := make([]byte, n)
			there.must(there.MemcpyDtoH(there.th, b, got))
			if !bytes.Equal(b, bytes.Repeat([]byte{byte(i + 1)}, n)) {
				t.Errorf("device %d, memory %d: %d …", dev, i, b[:4])
			}
			there.must(there.MemcpyHtoD(there.th, got, bytes.Repeat([]byte{9}, n)))
			ordinal, res := there.PointerGetAttribute(there.th, driver.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, got)
			if res != ok || ordinal[0] != uint64(dev) {
				t.Errorf("the memory is of device %d, %v; want %d", ordinal, res, dev)
			}
			if i == 0 {
				there.must(there.MemFree(there.th, got))
			} else {
				there.must(there.MemFreeAsync(there.th, got, driver.CU_STREAM_LEGACY))
			}
			here.must(here.MemcpyDtoH(here.th, b, m))
			if !bytes.Equal(b, bytes.Repeat([]byte{9}, n)) {
				t.Errorf("device %d, memory %d, afterwards: %d …", dev, i, b[:4])
			}
		}
		there.must(there.CtxSynchronize(there.th))
		there.must(there.MemPoolDestroy(there.th, q))
		here.must(here.MemPoolDestroy(here.th, p)) // before its memory
		for _, m := range memory {
			here.must(here.MemcpyHtoD(here.th, m, []byte{3}))
			here.must(here.MemFreeAsync(here.th, m, s))
		}
		here.must(here.StreamSynchronize(here.th, s))
	}
	for _, r := range []*lab{here, there} {
		if n := len(r.space.closing); n != 0 {
			t.Errorf("%d files are left", n)
		}
		r.must(r.CtxSynchronize(r.th))
		if n := len(r.space.closing); n != 0 {
			t.Errorf("%d files are left after a call", n)
		}
	}
}

// TestSharedPoolOpenedTwice opens memory of an imported pool twice. As on an H200, the address is the same, and the
// first free ends both openings.
func TestSharedPoolOpenedTwice(t *testing.T) {
	here, there := newLab(t), newLab(t)
	p, s := here.sharedPool(0, 0), here.newStream()
	q, other := there.imported(here.exported(p)), there.newStream()
	var data [2]driver.MemPoolPtrExportData
	for i := range data {
		m, res := here.MemAllocFromPoolAsync(here.th, 64, p, s)
		here.must(res)
		data[i], res = here.MemPoolExportPointer(here.th, m)
		here.must(res)
	}
	open := func(i int) driver.DevicePtr {
		m, res := there.MemPoolImportPointer(there.th, q, data[i])
		there.must(res)
		return m
	}
	a, b := open(0), open(1)
	if again := open(0); again != a || a == b {
		t.Errorf("the memory is at %#x and %#x; other memory at %#x", a, again, b)
	}
	used, res := there.MemPoolGetAttribute(there.th, q, driver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
	if there.must(res); used != 128 {
		t.Errorf("%d bytes are used, want 128", used)
	}
	there.must(there.MemFreeAsync(there.th, a, other))
	there.want("the second free", driver.ResultInvalidValue, there.MemFreeAsync(there.th, a, other))
	there.must(there.MemsetD8(there.th, open(0), 1, 64))
	there.must(there.MemFree(there.th, b))
	there.must(there.MemsetD8(there.th, open(1), 1, 64))
	for i := range data {
		there.must(there.MemFree(there.th, open(i)))
	}
	there.must(there.MemPoolDestroy(there.th, q))
	here.must(here.MemPoolDestroy(here.th, p))
}

// TestSharedPoolRoom reserves and gives back memory of a pool again and again: the parts of its file are used again.
// The budget gives for each part once, also if the file system keeps it.
func TestSharedPoolRoom(t *testing.T) {
	for name, keeps := range map[string]bool{"a file system": false, "a file system that keeps all": true} {
		t.Run(name, func(t *testing.T) { sharedPoolRoom(t, keeps) })
	}
}

func sharedPoolRoom(t *testing.T, keeps bool) {
	r := newLab(t)
	if keeps {
		r.punchFile = func(*memoryFile, uint64, uint64) bool { return false }
	}
	h := r.sharedPool(0, 0)
	p, _ := find[memPool](r.Driver, "", poolKind, uintptr(h))
	s := r.newStream()
	const large = chunkSize/2 + chunkUnit // two are in two chunks
	for range 10 {
		var list []driver.DevicePtr
		for _, n := range []uint64{large, 64, large} {
			m, res := r.MemAllocFromPoolAsync(r.th, n, h, s)
			r.must(res)
			r.must(r.MemsetD8Async(r.th, m+driver.DevicePtr(n-1), 1, 1, s))
			list = append(list, m)
		}
		if last := p.byOffset()[1]; last.offset != chunkSize {
			t.Fatalf("the last chunk is at %#x", last.offset)
		}
		for _, m := range list {
			r.must(r.MemFreeAsync(r.th, m, s))
		}
		r.must(r.StreamSynchronize(r.th, s)) // gives the chunks back
		r.must(r.StreamSynchronize(r.th, s))
		if n, want := r.space.budget.Used(), map[bool]uint64{true: 2*large + chunkUnit}[keeps]; n != want {
			t.Fatalf("%d bytes of the machine are in use, want %d", n, want)
		}
	}
	r.must(r.MemPoolDestroy(r.th, h))
}

// TestSharedPoolEnds looks for a part of a file that other chunks have nearly filled.
func TestSharedPoolEnds(t *testing.T) {
	p := &memPool{dev: &device{}}
	all := poolFileSize(p.dev)
	p.chunks = []*chunk{{offset: all - 2*chunkSize, size: chunkSize}, {offset: chunkSize, size: all - 4*chunkSize}}
	for size, want := range map[uint64]uint64{
		1: 0, chunkSize: 0, chunkSize + 1: all - chunkSize, all: all - chunkSize, // without room
	} {
		if got, there := p.room(size); got != want || there != (size <= chunkSize) {
			t.Errorf("%#x bytes: %#x, %v; want %#x", size, got, there, want)
		}
	}
}

// TestSharedPoolTwice imports a pool twice. As on an H200, both have one handle. One call destroys it here.
func TestSharedPoolTwice(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	here, there := newLab(t, Devices(2)), newLab(t, Devices(2))
	p := here.sharedPool(1, 0)
	s := here.newStream()
	m, res := here.MemAllocFromPoolAsync(here.th, 64, p, s)
	here.must(res)
	data, res := here.MemPoolExportPointer(here.th, m)
	here.must(res)
	q, again := there.imported(here.exported(p)), there.imported(here.exported(p))
	p2 := here.sharedPool(1, 0)
	other := there.imported(here.exported(p2))
	if q != again || q == other {
		t.Errorf("the pool has the handles %#x and %#x, another pool %#x", q, again, other)
	}
	open, res := there.MemPoolImportPointer(there.th, q, data)
	there.must(res)
	twice, res := there.MemPoolImportPointer(there.th, again, data)
	there.must(res)
	if open != twice {
		t.Errorf("the memory is at %#x and %#x", open, twice)
	}
	there.want("destroy with open memory", invalid, there.MemPoolDestroy(there.th, q))
	there.must(there.MemFreeAsync(there.th, open, there.newStream()))
	there.must(there.MemPoolDestroy(there.th, q))
	_, res = there.MemPoolGetAttribute(there.th, again, driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
	there.want("attribute of a destroyed pool", invalid, res)
	there.want("destroy again", invalid, there.MemPoolDestroy(there.th, again))
	there.takeMisuses()
	q = there.imported(here.exported(p)) // a new one
	here.must(here.MemFreeAsync(here.th, m, s))
	for _, p := range []driver.MemoryPool{p, p2} {
		here.must(here.MemPoolDestroy(here.th, p))
	}
	for _, p := range []driver.MemoryPool{q, other} {
		there.must(there.MemPoolDestroy(there.th, p))
	}
}

// TestSharedPoolOfHost exports pinned memory of a node of the host from one driver to another. Both programs access it
// directly, and by copies. The imported pool reserves nothing, and has the access that a new pool has.
func TestSharedPoolOfHost(t *testing.T) {
	const n = 1000
	here, there := newLab(t), newLab(t)
	props := propsOf(pinnedType, onNode)
	props.HandleTypes = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	p, res := here.MemPoolCreate(here.th, props)
	here.must(res)
	q := there.imported(here.exported(p))
	if again := there.imported(here.exported(p)); again != q {
		t.Errorf("the pool has the handles %#x and %#x", q, again)
	}
	s := here.newStream()
	var memory, opened [2]driver.DevicePtr
	for i := range memory {
		memory[i], res = here.MemAllocFromPoolAsync(here.th, n, p, s)
		here.must(res)
		copy(foreignBytes(driver.HostPtr(memory[i]), n), bytes.Repeat([]byte{byte(i + 1)}, n))
		data, res := here.MemPoolExportPointer(here.th, memory[i])
		here.must(res)
		opened[i], res = there.MemPoolImportPointer(there.th, q, data)
		there.must(res)
		if again, res := there.MemPoolImportPointer(there.th, q, data); again != opened[i] || res != ok {
			t.Errorf("the memory is at %#x, then at %#x, %v", opened[i], again, res)
		}
	}
	x, res := there.MemAlloc(there.th, n)
	there.must(res)
	for i, m := range opened {
		if b := foreignBytes(driver.HostPtr(m), n); !bytes.Equal(b, bytes.Repeat([]byte{byte(i + 1)}, n)) {
			t.Errorf("memory %d: %d …", i, b[:4])
		}
		there.must(there.Memcpy(there.th, x, m, n))
		b := make([]byte, n)
		there.must(there.MemcpyDtoH(there.th, b, x))
		if b[0] != byte(i+1) || b[n-1] != byte(i+1) {
			t.Errorf("memory %d is copied as %d …", i, b[:4])
		}
		there.want("a set without access", driver.ResultInvalidValue, there.MemsetD8(there.th, m, 1, n))
		v, res := there.PointerGetAttribute(there.th, driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, m)
		if there.must(res); v[0] != driver.CU_MEMORYTYPE_HOST {
			t.Errorf("the memory is of the type %d", v[0])
		}
	}
	access := []driver.MemAccessDesc{{Location: poolProps(0).Location,
		Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}}
	there.must(there.MemPoolSetAccess(there.th, q, access))
	there.must(there.MemsetD8(there.th, opened[0], 9, n))
	if b := foreignBytes(driver.HostPtr(memory[0]), n); b[0] != 9 || b[n-1] != 9 {
		t.Errorf("what the other program has set is %d …", b[:4])
	}
	there.must(there.MemFree(there.th, opened[0]))
	there.must(there.MemFreeAsync(there.th, opened[1], driver.CU_STREAM_LEGACY))
	there.must(there.CtxSynchronize(there.th))
	there.must(there.MemPoolDestroy(there.th, q))
	for _, m := range memory {
		here.must(here.MemFreeAsync(here.th, m, s))
	}
	here.must(here.StreamSynchronize(here.th, s))
	here.must(here.MemPoolDestroy(here.th, p))
	here.must(here.CtxSynchronize(here.th))
	there.must(there.MemFree(there.th, x))
	for _, r := range []*lab{here, there} {
		if r.space.pinned != 0 || len(r.space.closing) != 0 {
			t.Errorf("%d bytes are pinned, and %d files are left", r.space.pinned, len(r.space.closing))
		}
	}
}

// TestSharedPoolResults makes calls about shared pools that fail.
func TestSharedPoolResults(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	r := newLab(t)
	s := r.newStream()
	p := r.sharedPool(0, 0)
	q := r.imported(r.exported(p))
	m, res := r.MemAllocFromPoolAsync(r.th, 64, p, s)
	r.must(res)
	data, res := r.MemPoolExportPointer(r.th, m)
	r.must(res)
	open, res := r.MemPoolImportPointer(r.th, q, data)
	r.must(res)
	p2 := r.sharedPool(0, 0)
	other := r.imported(r.exported(p2))
	wrong := func(i int, v byte) driver.MemPoolPtrExportData {
		d := data
		d[i] = v
		return d
	}
	physical, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer physical.Close()
	second := func(_ any, res driver.Result) driver.Result { return res }
	for name, c := range map[string]struct{ got, want driver.Result }{
		"another handle": {second(r.MemPoolExportToShareableHandle(r.th, p, driver.CU_MEM_HANDLE_TYPE_FABRIC, 0)),
			invalid},
		"flags":                     {second(r.MemPoolExportToShareableHandle(r.th, p, 1, 1)), invalid},
		"export of an imported one": {second(r.MemPoolExportToShareableHandle(r.th, q, 1, 0)), invalid},
		"import of another file": {second(r.MemPoolImportFromShareableHandle(r.th, driver.HostPtr(physical.Fd()), 1, 0)),
			driver.ResultUnknown},
		"import of no file": {second(r.MemPoolImportFromShareableHandle(r.th, 1<<32-1, 1, 0)),
			driver.ResultUnknown},
		"an allocation of an imported": {second(r.MemAllocFromPoolAsync(r.th, 64, q, s)), invalid},
		"an imported one as current":   {r.DeviceSetMemPool(r.th, 0, q), invalid},
		"export of imported memory":    {second(r.MemPoolExportPointer(r.th, open)), invalid},
		"export within memory":         {second(r.MemPoolExportPointer(r.th, m+8)), invalid},
		"import into another pool":     {second(r.MemPoolImportPointer(r.th, other, data)), invalid},
		"import into the own pool":     {second(r.MemPoolImportPointer(r.th, p, data)), invalid},
		"other data":                   {second(r.MemPoolImportPointer(r.th, q, wrong(0, 1))), invalid},
		"an odd place":                 {second(r.MemPoolImportPointer(r.th, q, wrong(8, 1))), invalid},
		"a place behind the end":       {second(r.MemPoolImportPointer(r.th, q, wrong(15, 1))), invalid},
		"a large size":                 {second(r.MemPoolImportPointer(r.th, q, wrong(23, 0x80))), invalid},
		"no bytes":                     {second(r.MemPoolImportPointer(r.th, q, wrong(16, 0))), invalid},
	} {
		r.want(name, c.want, c.got)
	}
	r.must(r.MemFreeAsync(r.th, open, s))
	r.must(r.MemFreeAsync(r.th, m, s))
	r.want("export of memory that is freed", invalid, second(r.MemPoolExportPointer(r.th, m)))
	r.must(r.StreamSynchronize(r.th, s))
	for _, h := range []driver.MemoryPool{p, q, p2, other} {
		r.must(r.MemPoolDestroy(r.th, h))
	}
}

// TestSharedPoolOfHostAgain opens memory of the host again while its free waits for a stream, and memory that is where
// other memory is open.
func TestSharedPoolOfHostAgain(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	here, there := newLab(t), newLab(t)
	props := propsOf(pinnedType, onNode)
	props.HandleTypes = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	p, res := here.MemPoolCreate(here.th, props)
	here.must(res)
	q, s, reader := there.imported(here.exported(p)), here.newStream(), there.newStream()
	exported := func(n uint64) (driver.DevicePtr, driver.MemPoolPtrExportData) {
		t.Helper()
		m, res := here.MemAllocFromPoolAsync(here.th, n, p, s)
		here.must(res)
		data, res := here.MemPoolExportPointer(here.th, m)
		here.must(res)
		return m, data
	}
	m, data := exported(2000)
	first, res := there.MemPoolImportPointer(there.th, q, data)
	there.must(res)
	there.Hold(uintptr(reader))
	there.must(there.MemFreeAsync(there.th, first, reader))
	again, res := there.MemPoolImportPointer(there.th, q, data)
	if there.must(res); again != first {
		t.Errorf("the memory is at %#x, then at %#x", first, again)
	}
	v, res := there.PointerGetAttribute(there.th, driver.CU_POINTER_ATTRIBUTE_RANGE_SIZE, again)
	if v[0] != 2000 || res != ok {
		t.Errorf("the memory that is open again has %d bytes, %v", v[0], res)
	}
	there.Release(uintptr(reader))
	there.must(there.StreamSynchronize(there.th, reader))
	x, res := there.MemAlloc(there.th, 1000)
	there.must(res)
	there.must(there.Memcpy(there.th, x, again, 1000))
	there.must(there.MemFree(there.th, x))

	here.must(here.MemFree(here.th, m)) // too early, but the other program cannot know
	m, data = exported(1000)
	_, res = there.MemPoolImportPointer(there.th, q, data)
	there.want("memory that covers open memory", invalid, res)
	there.must(there.MemFree(there.th, again))
	again, res = there.MemPoolImportPointer(there.th, q, data)
	there.must(res)
	there.must(there.MemFree(there.th, again))
	if n := there.space.Covered(); n != 0 || len(there.space.All()) != 0 {
		t.Errorf("%d and %d blocks are left", n, len(there.space.All()))
	}
	there.must(there.MemPoolDestroy(there.th, q))
	here.must(here.MemFree(here.th, m))
	here.must(here.MemPoolDestroy(here.th, p))
}
