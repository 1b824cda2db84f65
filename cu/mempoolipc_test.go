package cu

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// sharing is a driver that seems to share pools: a pool that is opened is a new one, and so is memory.
type sharing struct{ driver.Software }

func (d sharing) MemPoolCreate(th *driver.Thread, p driver.MemPoolProps) (driver.MemoryPool, driver.Result) {
	p.HandleTypes = 0
	return d.Software.MemPoolCreate(th, p)
}

func (d sharing) MemPoolExportToShareableHandle(_ *driver.Thread, _ driver.MemoryPool, typ int32,
	_ uint64) (h driver.ShareableHandle, res driver.Result) {
	r, w, err := os.Pipe()
	if err != nil || typ != driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR {
		return h, driver.ResultInvalidValue
	}
	defer r.Close()
	fd := w.Fd()
	h[0] = uint64(fd)
	exportedFiles = append(exportedFiles, w)
	return h, driver.ResultSuccess
}

var exportedFiles []*os.File // whose descriptors belong to the files that Export returns

func (d sharing) MemPoolImportFromShareableHandle(th *driver.Thread, _ driver.HostPtr, _ int32,
	_ uint64) (driver.MemoryPool, driver.Result) {
	return d.MemPoolCreate(th, driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}})
}

func (d sharing) MemPoolExportPointer(_ *driver.Thread,
	p driver.DevicePtr) (data driver.MemPoolPtrExportData, r driver.Result) {
	binary.LittleEndian.PutUint64(data[:], uint64(p))
	return data, driver.ResultSuccess
}

func (d sharing) MemPoolImportPointer(th *driver.Thread, p driver.MemoryPool,
	_ driver.MemPoolPtrExportData) (driver.DevicePtr, driver.Result) {
	return d.MemAllocFromPoolAsync(th, 64, p, driver.CU_STREAM_LEGACY)
}

// TestPoolShared exports a pool and its memory, and opens both.
func TestPoolShared(t *testing.T) {
	sim := cusim.New()
	drv := must(Open(WithSoftware(driver.Provide(sharing{sim.Software()})), neverWait))(t)
	gpu := must(must(drv.Device(0))(t).PrimaryContext())(t)
	s := must(gpu.NewStream(StreamNonBlocking))(t)
	p := must(gpu.NewMemPool(MemPoolOptions{Shareable: true}))(t)
	m := must(p.Alloc(s, 64))(t)
	f := must(p.Export())(t)
	h := must(m.PoolHandle())(t)
	q := must(gpu.ImportMemPool(f.Fd()))(t)
	o := must(q.Open(h))(t)
	if o.Size() != 64 || o.Handle() == m.Handle() {
		t.Errorf("%d bytes at %#x", o.Size(), o.Handle())
	}
	noErr(t, o.Memset(1))
	noErr(t, q.Close()) // later
	noErr(t, o.Close()) // no stream has used the memory, except for the legacy default stream
	if _, err := q.Open(h); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed pool: %v", err)
	}
	if _, err := p.Open(PoolMemHandle{}); !errors.Is(err, ErrNil) {
		t.Errorf("the zero handle: %v", err)
	}
	plain := must(gpu.Alloc(64))(t)
	if _, err := plain.PoolHandle(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("memory of no pool: %v", err)
	}
	noErr(t, plain.Close())
	noErr(t, m.Close())
	noErr(t, p.Close())
	noErr(t, s.Close())
	noErr(t, gpu.Close())
	if !eventually(func() bool { drv.Close(); return len(sim.Census()) == 0 }) {
		sim.Check(t)
	}
}
