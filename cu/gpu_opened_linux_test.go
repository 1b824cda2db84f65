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
	"github.com/purecu/purecu/internal/races"
)

// openers open memory of another process twice. The contexts may be those of two devices.
var openers = []struct {
	name string
	open func(t *testing.T, x *exporter, first, second *Context) (m, again *DeviceMem)
}{
	{"IPCMem", func(t *testing.T, x *exporter, first, second *Context) (m, again *DeviceMem) {
		h := x.next(t).mem
		return need(memory.OpenIPC(first, h))(t), need(memory.OpenIPC(second, h))(t)
	}},
	{"Pool", func(t *testing.T, x *exporter, first, second *Context) (m, again *DeviceMem) {
		theirs := x.next(t)
		p := need(memory.ImportPool(first, theirs.pool.Fd()))(t)
		t.Cleanup(func() { p.Close() })
		return need(p.Open(theirs.poolMem))(t), need(p.Open(theirs.poolMem))(t)
	}},
	{"Imports", func(t *testing.T, x *exporter, first, second *Context) (m, again *DeviceMem) {
		theirs := x.next(t)
		var list [2]*DeviceMem
		for i := range list {
			p := need(memory.ImportPool(first, theirs.pool.Fd()))(t)
			defer p.Close() // which destroys the pool when its memory is closed
			list[i] = need(p.Open(theirs.poolMem))(t)
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
	gpu := gpuContext(t)
	t.Run("Context", func(t *testing.T) { openedRaces(t, x, gpu, gpu) })
	if n := need(gpu.Device().Driver().DeviceCount())(t); n > 1 {
		second := need(need(gpu.Device().Driver().Device(1))(t).PrimaryContext())(t)
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
				stop := need(first.Device().Driver().DetectRaces(func(r Race) {
					found++
					t.Log(r.Summary())
				}))(t)
				defer stop()
				m, again := o.open(t, x, first, second)
				a, b := need(first.NewStream(StreamNonBlocking))(t), need(second.NewStream(StreamNonBlocking))(t)
				noErr(t, a.Memset(m.Span(0, 8), 1))
				if want == 0 {
					noErr(t, b.WaitStream(a))
				}
				noErr(t, b.Memset(again.Span(4, 8), 1))
				if found != want {
					t.Errorf("%d races, want %d: the addresses are %#x and %#x", found, want, m.Handle(),
						again.Handle())
				}
				stop()
				noErr(t, errors.Join(a.Synchronize(), b.Synchronize(), m.Close(), again.Close(), a.Close(), b.Close()))
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
	gpu := gpuContext(t)
	for _, o := range openers {
		t.Run(o.name, func(t *testing.T) {
			m, again := o.open(t, x, gpu, gpu)
			a, b := need(gpu.NewStream(StreamNonBlocking))(t), need(gpu.NewStream(StreamNonBlocking))(t)
			got := make([]byte, 8)
			noErr(t, errors.Join(a.Memset(m, 1), m.Close(), a.Synchronize()))
			noErr(t, errors.Join(b.Memset(again.Span(4, 4), 2), b.Synchronize(), again.CopyTo(got)))
			if want := []byte{1, 1, 1, 1, 2, 2, 2, 2}; !bytes.Equal(got, want) {
				t.Errorf("the memory has %d, want %d", got, want)
			}
			noErr(t, errors.Join(b.Memset(again, 3), again.Close(), gpu.Synchronize(), a.Close(), b.Close()))
		})
	}
	t.Run("Closed import", func(t *testing.T) {
		theirs := x.next(t)
		p, again := need(memory.ImportPool(gpu, theirs.pool.Fd()))(t), need(memory.ImportPool(gpu, theirs.pool.Fd()))(t)
		if p.Handle() != again.Handle() {
			t.Logf("the pool has the handles %#x and %#x", p.Handle(), again.Handle())
		}
		noErr(t, p.Close())
		m := need(again.Open(theirs.poolMem))(t)
		noErr(t, errors.Join(m.Memset(7), m.Close(), again.Close()))
		third := need(memory.ImportPool(gpu, theirs.pool.Fd()))(t)
		m = need(third.Open(theirs.poolMem))(t)
		noErr(t, errors.Join(m.Memset(8), gpu.Synchronize(), m.Close(), third.Close()))
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
	x := startExporter(t, "TestGPUOpenedRaces", gpuEnv+"=")
	r := newSoft(t)
	f, size := exported(t, r.gpu)
	d := placed{races.New(func(races.Race) {}), new(sync.Mutex), make(map[string]int)}
	core.Of(r.drv).ChangeTracers(func(l *core.Tracers) { l.Observer = d })
	for _, o := range openers {
		m, again := o.open(t, x, r.gpu, r.gpu)
		noErr(t, r.s.Memset(m, 1))
		noErr(t, errors.Join(m.Close(), again.Close()))
	}
	noErr(t, need(interop.ImportMem(r.gpu, opaque(f), size))(t).Close())
	want := map[string]int{
		"Opened memory of another process": 2, "Opened device memory": 4, "Allocated external memory": 1, "Freed": 7,
	}
	var got map[string]int
	if !eventually(func() bool { // memory of a pool is freed in the background
		d.mu.Lock()
		defer d.mu.Unlock()
		got = maps.Clone(d.calls)
		return maps.Equal(got, want)
	}) {
		t.Errorf("the detector was told (-want +got):\n%s", cmp.Diff(want, got))
	}
}
