package cu_test

import (
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
	"github.com/purecu/purecu/internal/core"
)

const mib = 1 << 20

func (r *soft) reserve(size uint64) *memory.Virtual {
	r.t.Helper()
	m := need(memory.Reserve(r.gpu, size))(r.t)
	r.t.Cleanup(func() { m.Close() })
	return m
}

// left checks what exists of physical memory, mappings and ranges.
func (r *soft) left(physical, mappings, ranges int) {
	r.t.Helper()
	n := r.sim.Census()
	got := [3]int{n["physical memory"], n["mapping"], n["address range"]}
	if diff := cmp.Diff([3]int{physical, mappings, ranges}, got); diff != "" {
		r.t.Errorf("physical memory, mappings and ranges (-want +got):\n%s", diff)
	}
}

// TestVirtualMemGrows writes memory, maps more behind it, and reads all at once.
func TestVirtualMemGrows(t *testing.T) {
	r := newSoft(t)
	m := r.reserve(64*mib - 5)
	if m.Size() != 0 || m.Cap() != 64*mib {
		t.Errorf("size %d, capacity %d", m.Size(), m.Cap())
	}
	r.is(r.s.Memset(m.Span(0, 1), 1), core.ErrInvalid)
	noErr(t, m.Grow(0))
	noErr(t, m.Grow(1))
	addr := m.Handle()
	noErr(t, r.s.Memset(m.Mem(), 7))
	noErr(t, m.Grow(2*mib)) // it is there
	noErr(t, m.Grow(5*mib))
	if m.Size() != 6*mib || m.Handle() != addr {
		t.Errorf("size %d at %#x, before at %#x", m.Size(), m.Handle(), addr)
	}
	r.left(0, 2, 1)
	noErr(t, r.s.Memset(m.Span(2*mib, 4*mib), 8))
	noErr(t, r.s.Synchronize())
	got := make([]byte, 6*mib)
	if n, err := m.Mem().ReadAt(got, 0); n != len(got) || err != nil {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
	for i, b := range got {
		if want := byte(7 + min(i/(2*mib), 1)); b != want {
			t.Fatalf("byte %d is %d, not %d", i, b, want)
		}
	}
	if n, err := m.Mem().ReadAt(got[:10], 6*mib-4); n != 4 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	in := []float32{1, 2, 3}
	noErr(t, CopyFrom(m.Mem(), in))
	host := need(r.gpu.AllocHost(6*mib, 0))(t)
	defer host.Close()
	noErr(t, r.s.Copy(host, m.Mem())) // across the mappings
	noErr(t, r.s.Copy(m.Span(1*mib, 2*mib), m.Span(3*mib, 2*mib)))
	noErr(t, r.s.Synchronize())
	out := make([]float32, 3)
	noErr(t, CopyTo(m.Mem(), out))
	if diff := cmp.Diff(in, out); diff != "" {
		t.Error(diff)
	}
	r.is(m.Grow(64*mib+1), core.ErrInvalid)
	noErr(t, m.Grow(64*mib))
	noErr(t, m.Mem().Memset(3))
	noErr(t, m.Close())
	noErr(t, m.Close())
	r.left(0, 0, 0)
	r.is(m.Grow(1), ErrClosed)
	r.is(m.Unmap(0, 1), ErrClosed)
	r.is(r.s.Memset(m.Mem(), 1), ErrClosed)
	if m.Handle() != 0 {
		t.Error("a handle after Close")
	}
}

const putPTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry put(.param .u64 p, .param .u32 v)
{
	.reg .u64 %a;
	.reg .u32 %v;
	ld.param.u64 %a, [p];
	ld.param.u32 %v, [v];
	cvta.to.global.u64 %a, %a;
	st.global.u32 [%a], %v;
	ret;
}
`

// TestVirtualMemKernel runs kernels with memory of several mappings, which is two arguments.
func TestVirtualMemKernel(t *testing.T) {
	r := newSoft(t)
	mod := need(r.gpu.LoadModule([]byte(".version 7.0\n.target sm_70\n.address_size 64\n" +
		".visible .entry axpy_f32(.param .u64 y, .param .u64 x, .param .f32 a) {\n" +
		"\t.reg .u32 %i; .reg .u64 %y, %x; .reg .f32 %a, %u, %v;\n" +
		"\tmov.u32 %i, %tid.x;\n" +
		"\tld.param.u64 %y, [y]; mad.wide.u32 %y, %i, 4, %y; ld.global.f32 %u, [%y];\n" +
		"\tld.param.u64 %x, [x]; mad.wide.u32 %x, %i, 4, %x; ld.global.f32 %v, [%x];\n" +
		"\tld.param.f32 %a, [a]; fma.rn.f32 %u, %a, %v, %u; st.global.f32 [%y], %u;\n" +
		"\tret;\n}\n")))(t)
	defer mod.Close()
	axpy := need(mod.Function("axpy_f32"))(t)
	m := r.reserve(8 * mib)
	noErr(t, m.Grow(2*mib))
	noErr(t, m.Grow(4*mib))
	const n = 3 // the values end in the second mapping
	at := uint64(2*mib - 4)
	noErr(t, CopyFrom(m.Mem(), []float32{1, 2, 3}))
	if _, err := m.Mem().WriteAt(BytesAt(&[]float32{10, 20, 30}[0], 12), int64(at)); err != nil {
		t.Fatal(err)
	}
	cfg := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: n}}
	noErr(t, axpy.Launch(r.s, cfg, Ptr(m.Span(at, 12)), Ptr(m.Mem()), F32(2)))
	noErr(t, r.s.Synchronize())
	got := make([]float32, n)
	if _, err := m.Mem().ReadAt(BytesAt(&got[0], 12), int64(at)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{12, 24, 36}, got); diff != "" {
		t.Error(diff)
	}
	put := need(need(r.gpu.LoadModule([]byte(putPTX)))(t).Function("put"))(t)
	noErr(t, put.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(m.Span(at+4, 4)), U32(77)))
	noErr(t, r.s.Synchronize())
	word := make([]byte, 4)
	if _, err := m.Mem().ReadAt(word, int64(at)+4); err != nil || word[0] != 77 {
		t.Errorf("the kernel has written %d, %v", word, err)
	}
	p := need(axpy.Prepare(cfg, Ptr(m.Span(at, 12)), Ptr(m.Mem()), F32(2)))(t)
	noErr(t, p.Launch(r.s))
	noErr(t, m.Grow(6*mib))
	noErr(t, m.Shrink(4*mib)) // another generation
	noErr(t, p.Launch(r.s))
	noErr(t, m.Close())
	r.is(p.Launch(r.s), ErrClosed)
}

// TestVirtualMemUnmap unmaps memory while a stream has work with it.
func TestVirtualMemUnmap(t *testing.T) {
	r := newSoft(t)
	m := r.reserve(16 * mib)
	for n := uint64(2 * mib); n <= 8*mib; n += 2 * mib {
		noErr(t, m.Grow(n))
	}
	r.is(m.Unmap(mib, 2*mib), core.ErrInvalid)
	noErr(t, m.Unmap(10*mib, 2*mib)) // nothing is mapped there
	r.hold(r.s)
	noErr(t, r.s.Memset(m.Mem(), 1))
	done := make(chan error)
	go func() { done <- m.Unmap(2*mib, 4*mib) }()
	for m.Size() != 2*mib {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Errorf("Unmap returned %v before the work", err)
	case <-time.After(20 * time.Millisecond):
	}
	r.left(0, 4, 1)
	r.is(r.other.Memset(m.Span(0, 3*mib), 1), core.ErrInvalid)
	noErr(t, r.other.Memset(m.Span(6*mib, 2*mib), 1)) // what is still mapped
	p := need(memory.NewPhysical(r.gpu, 4*mib, memory.PhysicalOptions{}))(t)
	defer p.Close()
	r.says(m.Map(2*mib, p), stillInUse)
	r.says(m.Grow(4*mib), stillInUse)
	r.release(r.s)
	noErr(t, <-done)
	r.left(1, 2, 1)
	noErr(t, m.Map(2*mib, p))
	if m.Size() != 8*mib {
		t.Errorf("the size is %d", m.Size())
	}
	noErr(t, m.Shrink(3*mib)) // keeps the mapping that contains the offset
	if m.Size() != 6*mib {
		t.Errorf("the size is %d", m.Size())
	}
}

// TestVirtualMemGraph unmaps memory that a graph uses.
func TestVirtualMemGraph(t *testing.T) {
	r := newSoft(t)
	m := r.reserve(16 * mib)
	noErr(t, m.Grow(2*mib))
	noErr(t, m.Grow(4*mib))
	g := r.graph(func() error { return r.s.Memset(m.Mem(), 1) })
	x := r.exec(g)
	noErr(t, g.Close())
	noErr(t, m.Shrink(2*mib))
	r.left(0, 2, 1)
	noErr(t, x.Launch(r.s))
	r.ok(r.s.Synchronize())
	noErr(t, m.Close())
	r.left(0, 2, 1)
	noErr(t, x.Launch(r.s))
	noErr(t, x.Close())
	r.freed(func() bool { return r.sim.Census()["address range"] == 0 })
	r.left(0, 0, 0)
}

// TestVirtualMemAccessOfGraph takes access away from memory that a graph uses.
func TestVirtualMemAccessOfGraph(t *testing.T) {
	r := newSoft(t)
	m := r.reserve(16 * mib)
	noErr(t, m.Grow(2*mib))
	g := r.graph(func() error { return r.s.Memset(m.Mem(), 1) })
	x := r.exec(g)
	noErr(t, g.Close())
	noErr(t, x.Launch(r.s))
	r.says(m.SetAccess(r.gpu.Device(), memory.AccessRead), "the memory is in use")
	noErr(t, x.Launch(r.s)) // nothing has changed
	noErr(t, x.Close())
	r.ok(r.s.Synchronize())
	if !eventually(func() bool { return m.SetAccess(r.gpu.Device(), memory.AccessRead) == nil }) {
		t.Error("the access cannot be taken away after the graph was closed")
	}
	noErr(t, m.SetAccess(r.gpu.Device(), memory.AccessReadWrite))
	r.ok(errors.Join(r.s.Memset(m.Mem(), 2), r.s.Synchronize()))
	noErr(t, m.Close())
}

// TestVirtualMemAbandoned forgets memory, and closes it while work uses it.
func TestVirtualMemAbandoned(t *testing.T) {
	r := newSoft(t)
	func() {
		m := need(memory.Reserve(r.gpu, 4*mib))(t)
		noErr(t, m.Grow(2*mib))
		r.hold(r.s)
		noErr(t, r.s.Memset(m.Mem(), 1))
		p := need(m.Physical(1))(t)
		if p.Size() != 2*mib {
			t.Errorf("the size is %d", p.Size())
		}
	}()
	if !eventually(func() bool { runtime.GC(); return r.sim.Census()["physical memory"] == 0 }) {
		t.Error("the physical memory is not freed")
	}
	r.left(0, 1, 1)
	r.release(r.s)
	r.freed(func() bool { return r.sim.Census()["address range"] == 0 })
	r.left(0, 0, 0)
}

// TestPhysicalMem maps memory twice, closes it, and sets the access.
func TestPhysicalMem(t *testing.T) {
	r := newSoft(t)
	least, best, err := memory.Granularity(r.gpu, memory.PhysicalOptions{})
	if err != nil || least == 0 || best < least {
		t.Errorf("Granularity = %d, %d, %v", least, best, err)
	}
	m := r.reserve(16 * mib)
	p := need(memory.NewPhysical(r.gpu, 3*mib, memory.PhysicalOptions{}))(t)
	if p.Size() != 4*mib || p.Handle() == 0 {
		t.Errorf("%d bytes, handle %#x", p.Size(), p.Handle())
	}
	o := need(p.Options())(t)
	if diff := cmp.Diff(memory.PhysicalOptions{Location: memory.LocationOf(r.gpu.Device())}, o); diff != "" {
		t.Error(diff)
	}
	noErr(t, m.Map(0, p))
	r.is(m.Map(2*mib, p), core.ErrInvalid)
	r.is(m.Map(1, p), core.ErrInvalid)
	r.is(m.Map(14*mib, p), core.ErrInvalid)
	noErr(t, m.Map(6*mib, p))
	if m.Size() != 4*mib {
		t.Errorf("the size is %d", m.Size())
	}
	noErr(t, p.Close())
	noErr(t, p.Close())
	r.is(m.Map(10*mib, p), ErrClosed)
	r.left(0, 2, 1)
	noErr(t, r.s.Memset(m.Mem(), 9))
	noErr(t, r.s.Synchronize())
	got := []byte{0}
	noErr(t, r.s.Synchronize())
	if n, err := m.Mem().ReadAt(got, 0); n != 1 || err != nil || got[0] != 9 {
		t.Errorf("%d bytes, %v, %d", n, err, got)
	}
	host := need(r.gpu.AllocHost(1, 0))(t)
	defer host.Close()
	noErr(t, r.s.Copy(host, m.Span(6*mib, 1)))
	noErr(t, r.s.Synchronize())
	noErr(t, host.View(func(b []byte) error {
		if b[0] != 9 {
			t.Errorf("the second mapping has %d", b[0])
		}
		return nil
	}))
	noErr(t, m.Grow(8*mib)) // fills the gap
	r.left(0, 3, 1)
	if m.Size() != 10*mib {
		t.Errorf("the size is %d", m.Size())
	}
	dev := r.gpu.Device()
	noErr(t, m.SetAccess(dev, memory.AccessRead))
	if a := need(m.Access(mib, dev))(t); a != memory.AccessRead {
		t.Errorf("Access = %v", a)
	}
	r.is(r.s.Memset(m.Mem(), 1), ResultInvalidValue)
	noErr(t, m.SetAccess(dev, memory.AccessReadWrite))
	noErr(t, r.s.Memset(m.Mem(), 1))
	r.is(m.SetAccess(dev, 2), core.ErrInvalid)
	_, err = m.Access(12*mib, dev)
	r.is(err, core.ErrInvalid)
	_, err = m.Physical(12 * mib)
	r.is(err, core.ErrInvalid)
	_, err = memory.NewPhysical(r.gpu, 1<<50, memory.PhysicalOptions{})
	r.is(err, ResultOutOfMemory)
	_, err = memory.NewPhysical(r.gpu, 1, memory.PhysicalOptions{Location: memory.Location{Type: memory.LocationHostNUMACurrent}})
	r.is(err, core.ErrInvalid)
	_, err = memory.NewPhysical(r.gpu, 0, memory.PhysicalOptions{})
	r.is(err, core.ErrInvalid)
	_, err = memory.Reserve(r.gpu, 1<<60)
	r.is(err, ResultOutOfMemory)
	_, err = memory.Reserve(r.gpu, 0)
	r.is(err, core.ErrInvalid)
	for _, m := range []*memory.Virtual{nil, {}} {
		r.is(m.Grow(1), ErrNil)
		r.is(m.Close(), ErrNil)
		r.is(r.s.Memset(m.Mem(), 1), ErrNil)
		if m.Cap() != 0 {
			t.Error("a capacity")
		}
	}
}

// TestPhysicalMemShared imports memory that the same process has exported.
func TestPhysicalMemShared(t *testing.T) {
	r := newSoft(t)
	p, err := memory.NewPhysical(r.gpu, 2*mib, memory.PhysicalOptions{Shareable: true})
	if errors.Is(err, ResultNotSupported) { // on Windows
		t.Skip(err)
	}
	noErr(t, err)
	f := need(p.Export())(t)
	q := need(memory.ImportPhysical(r.gpu, f.Fd(), p.Size()))(t)
	noErr(t, f.Close())
	m := r.reserve(4 * mib)
	noErr(t, m.Map(0, p))
	noErr(t, m.Map(2*mib, q))
	noErr(t, p.Close())
	noErr(t, q.Close())
	noErr(t, m.Mem().CopyFrom([]byte{1, 2, 3}))
	got := make([]byte, 3)
	if _, err := m.Mem().ReadAt(got, 2*mib); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]byte{1, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
	other := need(memory.NewPhysical(r.gpu, 2*mib, memory.PhysicalOptions{}))(t)
	defer other.Close()
	_, err = other.Export()
	r.is(err, ResultInvalidValue)
	null, err := os.Open(os.DevNull)
	noErr(t, err)
	defer null.Close()
	_, err = memory.ImportPhysical(r.gpu, null.Fd(), 2*mib)
	r.is(err, ResultUnknown)
}

// TestVirtualMemStorm grows, shrinks, uses and closes ranges from many goroutines.
func TestVirtualMemStorm(t *testing.T) {
	r := newSoft(t)
	var wg sync.WaitGroup
	for range 4 {
		m := need(memory.Reserve(r.gpu, 64*mib))(t)
		for i := range 3 {
			wg.Go(func() {
				for k := range 60 {
					var err error
					switch (i + k) % 3 {
					case 0:
						err = m.Grow(uint64(k%8+1) * 2 * mib)
					case 1:
						err = m.Shrink(uint64(k%5) * 2 * mib)
					default:
						if n := m.Size(); n > 0 {
							err = r.other.Memset(m.Span(0, n), 1)
						}
					}
					if err != nil && !errors.Is(err, ErrClosed) && !strings.Contains(err.Error(), stillInUse) &&
						!errors.Is(err, core.ErrInvalid) {
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
	r.ok(r.other.Synchronize())
	r.freed(func() bool { return r.sim.Census()["address range"] == 0 })
	r.left(0, 0, 0)
}

// stillInUse is in the error for addresses whose memory is to be unmapped.
const stillInUse = "the memory that was unmapped there is still in use"
