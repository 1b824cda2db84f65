package memory_test

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// wantLeft checks what exists of physical memory, mappings and ranges.
func wantLeft(r *Soft, physical, mappings, ranges int) {
	r.T.Helper()
	n := r.Sim.Census()
	got := [3]int{n["physical memory"], n["mapping"], n["address range"]}
	if diff := cmp.Diff([3]int{physical, mappings, ranges}, got); diff != "" {
		r.T.Errorf("physical memory, mappings and ranges (-want +got):\n%s", diff)
	}
}

// TestVirtualMemGrows writes memory, maps more behind it, and reads all at once.
func TestVirtualMemGrows(t *testing.T) {
	r := NewSoft(t)
	m := Reserve(r, 64*MiB-5)
	if m.Size() != 0 || m.Cap() != 64*MiB {
		t.Errorf("size %d, capacity %d", m.Size(), m.Cap())
	}
	r.Is(r.S.Memset(m.Span(0, 1), 1), drivercall.ErrInvalid)
	NoErr(t, m.Grow(0))
	NoErr(t, m.Grow(1))
	addr := m.Handle()
	NoErr(t, r.S.Memset(m.Mem(), 7))
	NoErr(t, m.Grow(2*MiB)) // it is there
	NoErr(t, m.Grow(5*MiB))
	if m.Size() != 6*MiB || m.Handle() != addr {
		t.Errorf("size %d at %#x, before at %#x", m.Size(), m.Handle(), addr)
	}
	wantLeft(r, 0, 2, 1)
	NoErr(t, r.S.Memset(m.Span(2*MiB, 4*MiB), 8))
	NoErr(t, r.S.Synchronize())
	got := make([]byte, 6*MiB)
	if n, err := m.Mem().ReadAt(got, 0); n != len(got) || err != nil {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
	for i, b := range got {
		if want := byte(7 + min(i/(2*MiB), 1)); b != want {
			t.Fatalf("byte %d is %d, not %d", i, b, want)
		}
	}
	if n, err := m.Mem().ReadAt(got[:10], 6*MiB-4); n != 4 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	in := []float32{1, 2, 3}
	NoErr(t, CopyFrom(m.Mem(), in))
	host := Need(r.GPU.AllocHost(6*MiB, 0))(t)
	defer host.Close()
	NoErr(t, r.S.Copy(host, m.Mem())) // across the mappings
	NoErr(t, r.S.Copy(m.Span(1*MiB, 2*MiB), m.Span(3*MiB, 2*MiB)))
	NoErr(t, r.S.Synchronize())
	out := make([]float32, 3)
	NoErr(t, CopyTo(m.Mem(), out))
	if diff := cmp.Diff(in, out); diff != "" {
		t.Error(diff)
	}
	r.Is(m.Grow(64*MiB+1), drivercall.ErrInvalid)
	NoErr(t, m.Grow(64*MiB))
	NoErr(t, m.Mem().Memset(3))
	NoErr(t, m.Close())
	NoErr(t, m.Close())
	wantLeft(r, 0, 0, 0)
	r.Is(m.Grow(1), ErrClosed)
	r.Is(m.Unmap(0, 1), ErrClosed)
	r.Is(r.S.Memset(m.Mem(), 1), ErrClosed)
	if m.Handle() != 0 {
		t.Error("a handle after Close")
	}
}

// TestVirtualMemKernel runs kernels with memory of several mappings, which is two arguments.
func TestVirtualMemKernel(t *testing.T) {
	r := NewSoft(t)
	mod := Need(r.GPU.LoadModule([]byte(".version 7.0\n.target sm_70\n.address_size 64\n" +
		".visible .entry axpy_f32(.param .u64 y, .param .u64 x, .param .f32 a) {\n" +
		"\t.reg .u32 %i; .reg .u64 %y, %x; .reg .f32 %a, %u, %v;\n" +
		"\tmov.u32 %i, %tid.x;\n" +
		"\tld.param.u64 %y, [y]; mad.wide.u32 %y, %i, 4, %y; ld.global.f32 %u, [%y];\n" +
		"\tld.param.u64 %x, [x]; mad.wide.u32 %x, %i, 4, %x; ld.global.f32 %v, [%x];\n" +
		"\tld.param.f32 %a, [a]; fma.rn.f32 %u, %a, %v, %u; st.global.f32 [%y], %u;\n" +
		"\tret;\n}\n")))(t)
	defer mod.Close()
	axpy := Need(mod.Function("axpy_f32"))(t)
	m := Reserve(r, 8*MiB)
	NoErr(t, m.Grow(2*MiB))
	NoErr(t, m.Grow(4*MiB))
	const n = 3 // the values end in the second mapping
	at := uint64(2*MiB - 4)
	NoErr(t, CopyFrom(m.Mem(), []float32{1, 2, 3}))
	b := Need(binary.Append(nil, binary.NativeEndian, []float32{10, 20, 30}))(t)
	Need(m.Mem().WriteAt(b, int64(at)))(t)
	cfg := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: n}}
	NoErr(t, axpy.Launch(r.S, cfg, Ptr(m.Span(at, 12)), Ptr(m.Mem()), F32(2)))
	NoErr(t, r.S.Synchronize())
	got := make([]float32, n)
	Need(m.Mem().ReadAt(b, int64(at)))(t)
	Need(binary.Decode(b, binary.NativeEndian, got))(t)
	if diff := cmp.Diff([]float32{12, 24, 36}, got); diff != "" {
		t.Error(diff)
	}
	put := Need(Need(r.GPU.LoadModule([]byte(PutPTX)))(t).Function("put"))(t)
	NoErr(t, put.Launch(r.S, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(m.Span(at+4, 4)), U32(77)))
	NoErr(t, r.S.Synchronize())
	word := make([]byte, 4)
	if _, err := m.Mem().ReadAt(word, int64(at)+4); err != nil || word[0] != 77 {
		t.Errorf("the kernel has written %d, %v", word, err)
	}
	p := Need(axpy.Prepare(cfg, Ptr(m.Span(at, 12)), Ptr(m.Mem()), F32(2)))(t)
	NoErr(t, p.Launch(r.S))
	NoErr(t, m.Grow(6*MiB))
	NoErr(t, m.Shrink(4*MiB)) // another generation
	NoErr(t, p.Launch(r.S))
	NoErr(t, m.Close())
	r.Is(p.Launch(r.S), ErrClosed)
}

// TestVirtualMemUnmap unmaps memory while a stream has work with it.
func TestVirtualMemUnmap(t *testing.T) {
	r := NewSoft(t)
	m := Reserve(r, 16*MiB)
	for n := uint64(2 * MiB); n <= 8*MiB; n += 2 * MiB {
		NoErr(t, m.Grow(n))
	}
	r.Is(m.Unmap(MiB, 2*MiB), drivercall.ErrInvalid)
	NoErr(t, m.Unmap(10*MiB, 2*MiB)) // nothing is mapped there
	r.Hold(r.S)
	NoErr(t, r.S.Memset(m.Mem(), 1))
	done := make(chan error)
	go func() { done <- m.Unmap(2*MiB, 4*MiB) }()
	for m.Size() != 2*MiB {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Errorf("Unmap returned %v before the work", err)
	case <-time.After(20 * time.Millisecond):
	}
	wantLeft(r, 0, 4, 1)
	r.Is(r.Other.Memset(m.Span(0, 3*MiB), 1), drivercall.ErrInvalid)
	NoErr(t, r.Other.Memset(m.Span(6*MiB, 2*MiB), 1)) // what is still mapped
	p := Need(memory.NewPhysical(r.GPU, 4*MiB, memory.PhysicalOptions{}))(t)
	defer p.Close()
	r.Says(m.Map(2*MiB, p), stillInUse)
	r.Says(m.Grow(4*MiB), stillInUse)
	r.Release(r.S)
	NoErr(t, <-done)
	wantLeft(r, 1, 2, 1)
	NoErr(t, m.Map(2*MiB, p))
	if m.Size() != 8*MiB {
		t.Errorf("the size is %d", m.Size())
	}
	NoErr(t, m.Shrink(3*MiB)) // keeps the mapping that contains the offset
	if m.Size() != 6*MiB {
		t.Errorf("the size is %d", m.Size())
	}
}

// TestVirtualMemGraph unmaps memory that a graph uses.
func TestVirtualMemGraph(t *testing.T) {
	r := NewSoft(t)
	m := Reserve(r, 16*MiB)
	NoErr(t, m.Grow(2*MiB))
	NoErr(t, m.Grow(4*MiB))
	g := r.Graph(func() error { return r.S.Memset(m.Mem(), 1) })
	x := r.Exec(g)
	NoErr(t, g.Close())
	NoErr(t, m.Shrink(2*MiB))
	wantLeft(r, 0, 2, 1)
	NoErr(t, x.Launch(r.S))
	r.OK(r.S.Synchronize())
	NoErr(t, m.Close())
	wantLeft(r, 0, 2, 1)
	NoErr(t, x.Launch(r.S))
	NoErr(t, x.Close())
	r.Freed(func() bool { return r.Sim.Census()["address range"] == 0 })
	wantLeft(r, 0, 0, 0)
}

// TestVirtualMemAccessOfGraph takes access away from memory that a graph uses.
func TestVirtualMemAccessOfGraph(t *testing.T) {
	r := NewSoft(t)
	m := Reserve(r, 16*MiB)
	NoErr(t, m.Grow(2*MiB))
	g := r.Graph(func() error { return r.S.Memset(m.Mem(), 1) })
	x := r.Exec(g)
	NoErr(t, g.Close())
	NoErr(t, x.Launch(r.S))
	r.Says(m.SetAccess(r.GPU.Device(), memory.AccessRead), "the memory is in use")
	NoErr(t, x.Launch(r.S)) // nothing has changed
	NoErr(t, x.Close())
	r.OK(r.S.Synchronize())
	if !Eventually(func() bool { return m.SetAccess(r.GPU.Device(), memory.AccessRead) == nil }) {
		t.Error("the access cannot be taken away after the graph was closed")
	}
	NoErr(t, m.SetAccess(r.GPU.Device(), memory.AccessReadWrite))
	r.OK(errors.Join(r.S.Memset(m.Mem(), 2), r.S.Synchronize()))
	NoErr(t, m.Close())
}

// TestVirtualMemAbandoned forgets memory, and closes it while work uses it.
func TestVirtualMemAbandoned(t *testing.T) {
	r := NewSoft(t)
	func() {
		m := Need(memory.Reserve(r.GPU, 4*MiB))(t)
		NoErr(t, m.Grow(2*MiB))
		r.Hold(r.S)
		NoErr(t, r.S.Memset(m.Mem(), 1))
		p := Need(m.Physical(1))(t)
		if p.Size() != 2*MiB {
			t.Errorf("the size is %d", p.Size())
		}
	}()
	if !Eventually(func() bool { runtime.GC(); return r.Sim.Census()["physical memory"] == 0 }) {
		t.Error("the physical memory is not freed")
	}
	wantLeft(r, 0, 1, 1)
	r.Release(r.S)
	r.Freed(func() bool { return r.Sim.Census()["address range"] == 0 })
	wantLeft(r, 0, 0, 0)
}

// TestPhysicalMem maps memory twice, closes it, and sets the access.
func TestPhysicalMem(t *testing.T) {
	r := NewSoft(t)
	least, best, err := memory.Granularity(r.GPU, memory.PhysicalOptions{})
	if err != nil || least == 0 || best < least {
		t.Errorf("Granularity = %d, %d, %v", least, best, err)
	}
	m := Reserve(r, 16*MiB)
	p := Need(memory.NewPhysical(r.GPU, 3*MiB, memory.PhysicalOptions{}))(t)
	if p.Size() != 4*MiB || p.Handle() == 0 {
		t.Errorf("%d bytes, handle %#x", p.Size(), p.Handle())
	}
	o := Need(p.Options())(t)
	if diff := cmp.Diff(memory.PhysicalOptions{Location: memory.LocationOf(r.GPU.Device())}, o); diff != "" {
		t.Error(diff)
	}
	NoErr(t, m.Map(0, p))
	r.Is(m.Map(2*MiB, p), drivercall.ErrInvalid)
	r.Is(m.Map(1, p), drivercall.ErrInvalid)
	r.Is(m.Map(14*MiB, p), drivercall.ErrInvalid)
	NoErr(t, m.Map(6*MiB, p))
	if m.Size() != 4*MiB {
		t.Errorf("the size is %d", m.Size())
	}
	NoErr(t, p.Close())
	NoErr(t, p.Close())
	r.Is(m.Map(10*MiB, p), ErrClosed)
	wantLeft(r, 0, 2, 1)
	NoErr(t, r.S.Memset(m.Mem(), 9))
	NoErr(t, r.S.Synchronize())
	got := []byte{0}
	NoErr(t, r.S.Synchronize())
	if n, err := m.Mem().ReadAt(got, 0); n != 1 || err != nil || got[0] != 9 {
		t.Errorf("%d bytes, %v, %d", n, err, got)
	}
	host := Need(r.GPU.AllocHost(1, 0))(t)
	defer host.Close()
	NoErr(t, r.S.Copy(host, m.Span(6*MiB, 1)))
	NoErr(t, r.S.Synchronize())
	NoErr(t, host.View(func(b []byte) error {
		if b[0] != 9 {
			t.Errorf("the second mapping has %d", b[0])
		}
		return nil
	}))
	NoErr(t, m.Grow(8*MiB)) // fills the gap
	wantLeft(r, 0, 3, 1)
	if m.Size() != 10*MiB {
		t.Errorf("the size is %d", m.Size())
	}
	dev := r.GPU.Device()
	NoErr(t, m.SetAccess(dev, memory.AccessRead))
	if a := Need(m.Access(MiB, dev))(t); a != memory.AccessRead {
		t.Errorf("Access = %v", a)
	}
	r.Is(r.S.Memset(m.Mem(), 1), ResultInvalidValue)
	NoErr(t, m.SetAccess(dev, memory.AccessReadWrite))
	NoErr(t, r.S.Memset(m.Mem(), 1))
	r.Is(m.SetAccess(dev, 2), drivercall.ErrInvalid)
	_, err = m.Access(12*MiB, dev)
	r.Is(err, drivercall.ErrInvalid)
	_, err = m.Physical(12 * MiB)
	r.Is(err, drivercall.ErrInvalid)
	_, err = memory.NewPhysical(r.GPU, 1<<50, memory.PhysicalOptions{})
	r.Is(err, ResultOutOfMemory)
	_, err = memory.NewPhysical(r.GPU, 1, memory.PhysicalOptions{Location: memory.Location{Type: memory.LocationHostNUMACurrent}})
	r.Is(err, drivercall.ErrInvalid)
	_, err = memory.NewPhysical(r.GPU, 0, memory.PhysicalOptions{})
	r.Is(err, drivercall.ErrInvalid)
	_, err = memory.Reserve(r.GPU, 1<<60)
	r.Is(err, ResultOutOfMemory)
	_, err = memory.Reserve(r.GPU, 0)
	r.Is(err, drivercall.ErrInvalid)
	for _, m := range []*memory.Virtual{nil, {}} {
		r.Is(m.Grow(1), ErrNil)
		r.Is(m.Close(), ErrNil)
		r.Is(r.S.Memset(m.Mem(), 1), ErrNil)
		if m.Cap() != 0 {
			t.Error("a capacity")
		}
	}
}

// TestPhysicalMemShared imports memory that the same process has exported.
func TestPhysicalMemShared(t *testing.T) {
	r := NewSoft(t)
	p, err := memory.NewPhysical(r.GPU, 2*MiB, memory.PhysicalOptions{Shareable: true})
	if errors.Is(err, ResultNotSupported) { // on Windows
		t.Skip(err)
	}
	NoErr(t, err)
	f := Need(p.Export())(t)
	q := Need(memory.ImportPhysical(r.GPU, f.Fd(), p.Size()))(t)
	NoErr(t, f.Close())
	m := Reserve(r, 4*MiB)
	NoErr(t, m.Map(0, p))
	NoErr(t, m.Map(2*MiB, q))
	NoErr(t, p.Close())
	NoErr(t, q.Close())
	NoErr(t, m.Mem().CopyFrom([]byte{1, 2, 3}))
	got := make([]byte, 3)
	if _, err := m.Mem().ReadAt(got, 2*MiB); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]byte{1, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
	other := Need(memory.NewPhysical(r.GPU, 2*MiB, memory.PhysicalOptions{}))(t)
	defer other.Close()
	_, err = other.Export()
	r.Is(err, ResultInvalidValue)
	null, err := os.Open(os.DevNull)
	NoErr(t, err)
	defer null.Close()
	_, err = memory.ImportPhysical(r.GPU, null.Fd(), 2*MiB)
	r.Is(err, ResultUnknown)
}

// TestVirtualMemStorm grows, shrinks, uses and closes ranges from many goroutines.
func TestVirtualMemStorm(t *testing.T) {
	r := NewSoft(t)
	var wg sync.WaitGroup
	for range 4 {
		m := Need(memory.Reserve(r.GPU, 64*MiB))(t)
		for i := range 3 {
			wg.Go(func() {
				for k := range 60 {
					var err error
					switch (i + k) % 3 {
					case 0:
						err = m.Grow(uint64(k%8+1) * 2 * MiB)
					case 1:
						err = m.Shrink(uint64(k%5) * 2 * MiB)
					default:
						if n := m.Size(); n > 0 {
							err = r.Other.Memset(m.Span(0, n), 1)
						}
					}
					if err != nil && !errors.Is(err, ErrClosed) && !strings.Contains(err.Error(), stillInUse) &&
						!errors.Is(err, drivercall.ErrInvalid) {
						t.Error(err)
					}
				}
				if i == 0 {
					if err := m.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	r.OK(r.Other.Synchronize())
	r.Freed(func() bool { return r.Sim.Census()["address range"] == 0 })
	wantLeft(r, 0, 0, 0)
}

// stillInUse is in the error for addresses whose memory is to be unmapped.
const stillInUse = "the memory that was unmapped there is still in use"
