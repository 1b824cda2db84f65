package cu_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// ended checks what the Driver counts of mappings that have ended, and are not unmapped.
func (r *soft) ended(mappings int, bytes uint64) {
	r.t.Helper()
	if s := r.drv.Stats(); s.EndedMappings != mappings || s.EndedBytes != bytes {
		r.t.Errorf("%d ended mappings of %d bytes, want %d of %d", s.EndedMappings, s.EndedBytes, mappings, bytes)
	}
}

// TestVirtualMemUnmapFails has the driver fail to unmap memory: it is unmapped later.
func TestVirtualMemUnmapFails(t *testing.T) {
	r := newSoft(t)
	refuse := func(nth int) {
		r.sim.Inject(cusim.Fault{Function: "cuMemUnmap", Nth: nth, Code: int(ResultOperatingSystem)})
	}
	m := r.reserve(16 * mib)
	fill := func(n uint64) {
		t.Helper()
		for have := m.Size(); have < n; have += 2 * mib {
			noErr(t, m.Grow(have+2*mib))
		}
		r.left(0, int(n/(2*mib)), 1)
		r.ended(0, 0)
	}
	fill(8 * mib)
	refuse(2)
	r.is(m.Shrink(2*mib), ResultOperatingSystem) // the first and the third of three are unmapped
	r.left(0, 2, 1)
	r.ended(1, 2*mib)
	if m.Size() != 2*mib {
		t.Errorf("the size is %d", m.Size())
	}
	noErr(t, m.Grow(4*mib))
	refuse(1)
	r.is(m.Grow(6*mib), ResultOperatingSystem) // the memory there has to be unmapped first
	r.ended(1, 2*mib)
	noErr(t, m.Grow(6*mib))
	r.left(0, 3, 1)
	r.ended(0, 0)

	refuse(1)
	r.is(m.Unmap(4*mib, 2*mib), ResultOperatingSystem)
	noErr(t, m.Unmap(5*mib, 2*mib)) // a part of it: nothing is mapped there any more
	r.left(0, 3, 1)
	noErr(t, m.Unmap(4*mib, 2*mib)) // again
	r.left(0, 2, 1)
	r.ended(0, 0)

	fill(8 * mib)
	refuse(1)
	r.is(m.Unmap(2*mib, 2*mib), ResultOperatingSystem)
	noErr(t, m.Unmap(6*mib, 2*mib)) // other memory
	r.ended(1, 2*mib)
	noErr(t, m.Close())
	r.left(0, 0, 0)
	r.ended(0, 0)
}

// TestVirtualMemUnmapFailsLater has the driver fail to unmap memory in the background.
func TestVirtualMemUnmapFailsLater(t *testing.T) {
	r := newSoft(t)
	m := r.reserve(16 * mib)
	noErr(t, m.Grow(2*mib))
	noErr(t, m.Grow(4*mib))
	g := r.graph(func() error { return r.s.Memset(m.Mem(), 1) })
	noErr(t, m.Shrink(2*mib))
	r.left(0, 2, 1)
	r.ended(1, 2*mib)
	r.sim.Inject(cusim.Fault{Function: "cuMemUnmap", Code: int(ResultOperatingSystem)})
	noErr(t, g.Close())
	if !eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.leaks) != 0 && errors.Is(r.leaks[0].Err, ResultOperatingSystem)
	}) {
		t.Error("the failure was not reported")
	}
	r.ended(1, 2*mib)
	noErr(t, m.Grow(4*mib))
	r.ended(0, 0)
	noErr(t, m.Close())
	r.left(0, 0, 0)
}

// TestVirtualMemAccessFails has the driver fail to set the access of a part of the memory.
func TestVirtualMemAccessFails(t *testing.T) {
	r := newSoft(t)
	refuse := func(nth int) {
		r.sim.Inject(cusim.Fault{Function: "cuMemSetAccess", Nth: nth, Code: int(ResultOperatingSystem)})
	}
	m := r.reserve(16 * mib)
	for n := uint64(2 * mib); n <= 10*mib; n += 2 * mib {
		noErr(t, m.Grow(n))
	}
	noErr(t, m.Unmap(4*mib, 2*mib)) // two mappings, a gap, and two mappings
	dev := r.gpu.Device()
	access := func(want ...memory.Access) {
		t.Helper()
		for i, off := range []uint64{0, 2 * mib, 6 * mib, 8 * mib} {
			if a := need(m.Access(off, dev))(t); a != want[i] {
				t.Errorf("at offset %d: %v, want %v", off, a, want[i])
			}
		}
	}
	refuse(2)
	r.is(m.SetAccess(dev, memory.AccessRead), ResultOperatingSystem)
	access(memory.AccessReadWrite, memory.AccessReadWrite, memory.AccessReadWrite, memory.AccessReadWrite)
	r.ok(errors.Join(r.s.Memset(m.Mem(), 1), r.s.Synchronize()))
	refuse(2)
	refuse(3)
	err := m.SetAccess(dev, memory.AccessRead)
	r.is(err, ResultOperatingSystem)
	if !strings.Contains(err.Error(), "4194304 bytes at offset 0 is the new one") {
		t.Error(err)
	}
	access(memory.AccessRead, memory.AccessRead, memory.AccessReadWrite, memory.AccessReadWrite)
	noErr(t, m.SetAccess(dev, memory.AccessRead))
	access(memory.AccessRead, memory.AccessRead, memory.AccessRead, memory.AccessRead)
	refuse(2)
	r.is(m.SetAccess(dev, memory.AccessReadWrite), ResultOperatingSystem)
	access(memory.AccessRead, memory.AccessRead, memory.AccessRead, memory.AccessRead)
	noErr(t, m.SetAccess(dev, memory.AccessNone))
	refuse(2)
	r.is(m.SetAccess(dev, memory.AccessReadWrite), ResultOperatingSystem)
	access(memory.AccessNone, memory.AccessNone, memory.AccessNone, memory.AccessNone)
	noErr(t, m.Close())
}

// exporting is a driver that exports another file descriptor.
type exporting struct {
	driver.Software
	fd int
}

func (d *exporting) MemExportToShareableHandle(*driver.Thread, driver.MemGenericAllocationHandle, int32,
	uint64) (h driver.ShareableHandle, _ driver.Result) {
	h[0] = uint64(uint32(d.fd))
	return h, driver.ResultSuccess
}

func (d *exporting) MemPoolExportToShareableHandle(*driver.Thread, driver.MemoryPool, int32,
	uint64) (h driver.ShareableHandle, _ driver.Result) {
	h[0] = uint64(uint32(d.fd))
	return h, driver.ResultSuccess
}

// TestDescriptors passes numbers that are no file descriptors, in both directions.
func TestDescriptors(t *testing.T) {
	sim := cusim.New()
	d := &exporting{sim.Software(), -1}
	drv := need(Open(WithSoftware(driver.Provide(d))))(t)
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
	p := need(memory.NewPhysical(gpu, 1, memory.PhysicalOptions{}))(t)
	pool := need(memory.NewPool(gpu, memory.PoolOptions{}))(t)
	for name, export := range map[string]func() (*os.File, error){"memory": p.Export, "pool": pool.Export} {
		if f, err := export(); f != nil || !errors.Is(err, ResultUnknown) {
			t.Errorf("%s: Export = %v, %v", name, f, err)
		}
	}
	var none *os.File
	for _, fd := range []uintptr{none.Fd(), 1 << 32, 1 << 31} {
		if _, err := memory.ImportPhysical(gpu, fd, 2*mib); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%#x: %v", fd, err)
		}
		if _, err := memory.ImportPool(gpu, fd); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%#x: %v", fd, err)
		}
	}
	noErr(t, errors.Join(p.Close(), pool.Close(), gpu.Close(), drv.Close()))
	checkFreed(t, sim)
}
