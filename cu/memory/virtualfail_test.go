package memory_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// wantEndedMappings checks what the Driver counts of mappings that have ended, and are not unmapped.
func wantEndedMappings(r *Soft, mappings int, bytes uint64) {
	r.T.Helper()
	if s := r.Drv.Stats(); s.EndedMappings != mappings || s.EndedBytes != bytes {
		r.T.Errorf("%d ended mappings of %d bytes, want %d of %d", s.EndedMappings, s.EndedBytes, mappings, bytes)
	}
}

// TestVirtualMemUnmapFails has the driver fail to unmap memory: it is unmapped later.
func TestVirtualMemUnmapFails(t *testing.T) {
	r := NewSoft(t)
	refuse := func(nth int) {
		r.Sim.Inject(cusim.Fault{Function: "cuMemUnmap", Nth: nth, Code: int(ResultOperatingSystem)})
	}
	m := Reserve(r, 16*MiB)
	fill := func(n uint64) {
		t.Helper()
		for have := m.Size(); have < n; have += 2 * MiB {
			NoErr(t, m.Grow(have+2*MiB))
		}
		wantLeft(r, 0, int(n/(2*MiB)), 1)
		wantEndedMappings(r, 0, 0)
	}
	fill(8 * MiB)
	refuse(2)
	r.Is(m.Shrink(2*MiB), ResultOperatingSystem) // the first and the third of three are unmapped
	wantLeft(r, 0, 2, 1)
	wantEndedMappings(r, 1, 2*MiB)
	if m.Size() != 2*MiB {
		t.Errorf("the size is %d", m.Size())
	}
	NoErr(t, m.Grow(4*MiB))
	refuse(1)
	r.Is(m.Grow(6*MiB), ResultOperatingSystem) // the memory there has to be unmapped first
	wantEndedMappings(r, 1, 2*MiB)
	NoErr(t, m.Grow(6*MiB))
	wantLeft(r, 0, 3, 1)
	wantEndedMappings(r, 0, 0)

	refuse(1)
	r.Is(m.Unmap(4*MiB, 2*MiB), ResultOperatingSystem)
	NoErr(t, m.Unmap(5*MiB, 2*MiB)) // a part of it: nothing is mapped there any more
	wantLeft(r, 0, 3, 1)
	NoErr(t, m.Unmap(4*MiB, 2*MiB)) // again
	wantLeft(r, 0, 2, 1)
	wantEndedMappings(r, 0, 0)

	fill(8 * MiB)
	refuse(1)
	r.Is(m.Unmap(2*MiB, 2*MiB), ResultOperatingSystem)
	NoErr(t, m.Unmap(6*MiB, 2*MiB)) // other memory
	wantEndedMappings(r, 1, 2*MiB)
	NoErr(t, m.Close())
	wantLeft(r, 0, 0, 0)
	wantEndedMappings(r, 0, 0)
}

// TestVirtualMemUnmapFailsLater has the driver fail to unmap memory in the background.
func TestVirtualMemUnmapFailsLater(t *testing.T) {
	r := NewSoft(t)
	m := Reserve(r, 16*MiB)
	NoErr(t, m.Grow(2*MiB))
	NoErr(t, m.Grow(4*MiB))
	g := r.Graph(func() error { return r.S.Memset(m.Mem(), 1) })
	NoErr(t, m.Shrink(2*MiB))
	wantLeft(r, 0, 2, 1)
	wantEndedMappings(r, 1, 2*MiB)
	r.Sim.Inject(cusim.Fault{Function: "cuMemUnmap", Code: int(ResultOperatingSystem)})
	NoErr(t, g.Close())
	if !Eventually(func() bool {
		leaks := r.Leaks()
		return len(leaks) != 0 && errors.Is(leaks[0].Err, ResultOperatingSystem)
	}) {
		t.Error("the failure was not reported")
	}
	wantEndedMappings(r, 1, 2*MiB)
	NoErr(t, m.Grow(4*MiB))
	wantEndedMappings(r, 0, 0)
	NoErr(t, m.Close())
	wantLeft(r, 0, 0, 0)
}

// TestVirtualMemAccessFails has the driver fail to set the access of a part of the memory.
func TestVirtualMemAccessFails(t *testing.T) {
	r := NewSoft(t)
	refuse := func(nth int) {
		r.Sim.Inject(cusim.Fault{Function: "cuMemSetAccess", Nth: nth, Code: int(ResultOperatingSystem)})
	}
	m := Reserve(r, 16*MiB)
	for n := uint64(2 * MiB); n <= 10*MiB; n += 2 * MiB {
		NoErr(t, m.Grow(n))
	}
	NoErr(t, m.Unmap(4*MiB, 2*MiB)) // two mappings, a gap, and two mappings
	dev := r.GPU.Device()
	access := func(want ...memory.Access) {
		t.Helper()
		for i, off := range []uint64{0, 2 * MiB, 6 * MiB, 8 * MiB} {
			if a := Need(m.Access(off, dev))(t); a != want[i] {
				t.Errorf("at offset %d: %v, want %v", off, a, want[i])
			}
		}
	}
	refuse(2)
	r.Is(m.SetAccess(dev, memory.AccessRead), ResultOperatingSystem)
	access(memory.AccessReadWrite, memory.AccessReadWrite, memory.AccessReadWrite, memory.AccessReadWrite)
	r.OK(errors.Join(r.S.Memset(m.Mem(), 1), r.S.Synchronize()))
	refuse(2)
	refuse(3)
	err := m.SetAccess(dev, memory.AccessRead)
	r.Is(err, ResultOperatingSystem)
	if !strings.Contains(err.Error(), "4194304 bytes at offset 0 is the new one") {
		t.Error(err)
	}
	access(memory.AccessRead, memory.AccessRead, memory.AccessReadWrite, memory.AccessReadWrite)
	NoErr(t, m.SetAccess(dev, memory.AccessRead))
	access(memory.AccessRead, memory.AccessRead, memory.AccessRead, memory.AccessRead)
	refuse(2)
	r.Is(m.SetAccess(dev, memory.AccessReadWrite), ResultOperatingSystem)
	access(memory.AccessRead, memory.AccessRead, memory.AccessRead, memory.AccessRead)
	NoErr(t, m.SetAccess(dev, memory.AccessNone))
	refuse(2)
	r.Is(m.SetAccess(dev, memory.AccessReadWrite), ResultOperatingSystem)
	access(memory.AccessNone, memory.AccessNone, memory.AccessNone, memory.AccessNone)
	NoErr(t, m.Close())
}

// exporting is a driver that exports another file descriptor.
type exporting struct {
	Software driver.Software
	fd       int
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
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(d)))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	p := Need(memory.NewPhysical(gpu, 1, memory.PhysicalOptions{}))(t)
	pool := Need(memory.NewPool(gpu, memory.PoolOptions{}))(t)
	for name, export := range map[string]func() (*os.File, error){"memory": p.Export, "pool": pool.Export} {
		if f, err := export(); f != nil || !errors.Is(err, ResultUnknown) {
			t.Errorf("%s: Export = %v, %v", name, f, err)
		}
	}
	var none *os.File
	for _, fd := range []uintptr{none.Fd(), 1 << 32, 1 << 31} {
		if _, err := memory.ImportPhysical(gpu, fd, 2*MiB); !errors.Is(err, drivercall.ErrInvalid) {
			t.Errorf("%#x: %v", fd, err)
		}
		if _, err := memory.ImportPool(gpu, fd); !errors.Is(err, drivercall.ErrInvalid) {
			t.Errorf("%#x: %v", fd, err)
		}
	}
	NoErr(t, errors.Join(p.Close(), pool.Close(), gpu.Close(), drv.Close()))
	CheckFreed(t, sim)
}
