package cu_test

import (
	"bytes"
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/races"
	. "github.com/purecu/purecu/internal/testrig"
)

// openers open memory of another process twice. The contexts may be those of two devices.
var openers = []struct {
	name string
	open func(t *testing.T, x *exporter, first, second *Context) (m, again *DeviceMem)
}{
	{"IPCMem", func(t *testing.T, x *exporter, first, second *Context) (m, again *DeviceMem) {
		h := x.next(t).mem
		return Need(memory.OpenIPC(first, h))(t), Need(memory.OpenIPC(second, h))(t)
	}},
	{"Pool", func(t *testing.T, x *exporter, first, second *Context) (m, again *DeviceMem) {
		theirs := x.next(t)
		p := Need(memory.ImportPool(first, theirs.pool.Fd()))(t)
		t.Cleanup(func() { p.Close() })
		return Need(p.Open(theirs.poolMem))(t), Need(p.Open(theirs.poolMem))(t)
	}},
	{"Imports", func(t *testing.T, x *exporter, first, second *Context) (m, again *DeviceMem) {
		theirs := x.next(t)
		var list [2]*DeviceMem
		for i := range list {
			p := Need(memory.ImportPool(first, theirs.pool.Fd()))(t)
			defer p.Close() // which destroys the pool when its memory is closed
			list[i] = Need(p.Open(theirs.poolMem))(t)
		}
		return list[0], list[1]
	}},
}

// TestGPUOpenedRaces uses memory of another process by two openings, which have one address or two.
// It is the same memory.
func TestGPUOpenedRaces(t *testing.T) {
	if isExporter(t) {
		return
	}
	x := startExporter(t, t.Name())
	gpu := GPUContext(t)
	t.Run("Context", func(t *testing.T) { openedRaces(t, x, gpu, gpu) })
	if n := Need(gpu.Device().Driver().DeviceCount())(t); n > 1 {
		second := Need(Need(gpu.Device().Driver().Device(1))(t).PrimaryContext())(t)
		defer second.Close()
		t.Run("Devices", func(t *testing.T) { openedRaces(t, x, gpu, second) })
	}
}

func openedRaces(t *testing.T, x *exporter, first, second *Context) {
	for _, o := range openers {
		if first != second && o.name != "IPCMem" {
			continue // the memory has one address on all devices
		}
		for want, name := range []string{"Ordered", "Race"} {
			t.Run(o.name+"/"+name, func(t *testing.T) {
				found := 0
				stop := Need(first.Device().Driver().DetectRaces(func(r Race) {
					found++
					t.Log(r.Summary())
				}))(t)
				defer stop()
				m, again := o.open(t, x, first, second)
				a, b := Need(first.NewStream(StreamNonBlocking))(t), Need(second.NewStream(StreamNonBlocking))(t)
				NoErr(t, a.Memset(m.Span(0, 8), 1))
				if want == 0 {
					NoErr(t, b.WaitStream(a))
				}
				NoErr(t, b.Memset(again.Span(4, 8), 1))
				if found != want {
					t.Errorf("%d races, want %d: the addresses are %#x and %#x", found, want, m.Handle(),
						again.Handle())
				}
				stop()
				NoErr(t, errors.Join(a.Synchronize(), b.Synchronize(), m.Close(), again.Close(), a.Close(), b.Close()))
			})
		}
	}
}

// TestGPUOpenedTwice opens memory of another process twice, and closes one opening while it is in use. The other one
// still works.
func TestGPUOpenedTwice(t *testing.T) {
	if isExporter(t) {
		return
	}
	x := startExporter(t, t.Name())
	gpu := GPUContext(t)
	for _, o := range openers {
		t.Run(o.name, func(t *testing.T) {
			m, again := o.open(t, x, gpu, gpu)
			a, b := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
			got := make([]byte, 8)
			NoErr(t, errors.Join(a.Memset(m, 1), m.Close(), a.Synchronize()))
			NoErr(t, errors.Join(b.Memset(again.Span(4, 4), 2), b.Synchronize(), again.CopyTo(got)))
			if want := []byte{1, 1, 1, 1, 2, 2, 2, 2}; !bytes.Equal(got, want) {
				t.Errorf("the memory has %d, want %d", got, want)
			}
			NoErr(t, errors.Join(b.Memset(again, 3), again.Close(), gpu.Synchronize(), a.Close(), b.Close()))
		})
	}
	t.Run("Closed import", func(t *testing.T) {
		theirs := x.next(t)
		p, again := Need(memory.ImportPool(gpu, theirs.pool.Fd()))(t), Need(memory.ImportPool(gpu, theirs.pool.Fd()))(t)
		if p.Handle() != again.Handle() {
			t.Logf("the pool has the handles %#x and %#x", p.Handle(), again.Handle())
		}
		NoErr(t, p.Close())
		m := Need(again.Open(theirs.poolMem))(t)
		NoErr(t, errors.Join(m.Memset(7), m.Close(), again.Close()))
		third := Need(memory.ImportPool(gpu, theirs.pool.Fd()))(t)
		m = Need(third.Open(theirs.poolMem))(t)
		NoErr(t, errors.Join(m.Memset(8), gpu.Synchronize(), m.Close(), third.Close()))
	})
}

// placed is a race detector that counts the calls about where memory is.
type placed struct {
	races.Observer
	mu    *sync.Mutex
	calls map[string]int
}

func (d placed) note(call string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[call]++
}

func (d placed) Allocated(what string, addr, size uint64, onHost bool) {
	d.note("Allocated " + what)
	d.Observer.Allocated(what, addr, size, onHost)
}

func (d placed) Opened(what string, addr, size, physical uint64) {
	d.note("Opened " + what)
	d.Observer.Opened(what, addr, size, physical)
}

func (d placed) Freed(addr uint64, onHost bool) {
	d.note("Freed")
	d.Observer.Freed(addr, onHost)
}

// TestOpenedForgotten closes memory that this process has not allocated. The detector forgets its
// uses, as other memory may get the address.
func TestOpenedForgotten(t *testing.T) {
	x := startExporter(t, "TestGPUOpenedRaces", GPUEnv+"=")
	r := NewSoft(t)
	f, size := ExportedFile(t, r.GPU)
	d := placed{races.New(func(races.Race) {}), new(sync.Mutex), make(map[string]int)}
	core.Of(r.Drv).ChangeTracers(func(l *drivercall.Tracers) { l.Observer = d })
	for _, o := range openers {
		m, again := o.open(t, x, r.GPU, r.GPU)
		NoErr(t, r.S.Memset(m, 1))
		NoErr(t, errors.Join(m.Close(), again.Close()))
	}
	NoErr(t, Need(interop.ImportMem(r.GPU, OpaqueFD(f), size))(t).Close())
	want := map[string]int{
		"Opened memory of another process": 2, "Opened device memory": 4, "Allocated external memory": 1, "Freed": 7,
	}
	var got map[string]int
	if !Eventually(func() bool { // memory of a pool is freed in the background
		d.mu.Lock()
		defer d.mu.Unlock()
		got = maps.Clone(d.calls)
		return maps.Equal(got, want)
	}) {
		t.Errorf("the detector was told (-want +got):\n%s", cmp.Diff(want, got))
	}
}
