package cu_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// rawMemory allocates memory by calls of the driver, as other code does, and returns its address.
func rawMemory(t testing.TB, gpu *Context, size uint64, managed bool) uint64 {
	t.Helper()
	tab, at := core.Of(gpu).Context.Drv.Table(), driver.At{Context: core.Of(gpu).Context.Raw}
	var p driver.DevicePtr
	var res driver.Result
	if managed {
		p, res = tab.MemAllocManaged(at, size, driver.CU_MEM_ATTACH_GLOBAL)
	} else {
		p, res = tab.MemAlloc(at, size)
	}
	if res != driver.ResultSuccess {
		t.Fatal(res)
	}
	t.Cleanup(func() {
		if res := tab.MemFree(at, p); res != driver.ResultSuccess {
			t.Errorf("the owner's free: %v", res)
		}
	})
	return uint64(p)
}

// TestGPUWrapMem uses memory of other code, of each kind, in every way in which other memory is used. The
// owner has it afterwards.
func TestGPUWrapMem(t *testing.T) {
	b := newNodeBench(t)
	gpu, s := b.gpu, b.s
	const size = 4096
	kinds := map[string]func(t *testing.T) uint64{
		"device": func(t *testing.T) uint64 { return rawMemory(t, gpu, size, false) },
		"managed": func(t *testing.T) uint64 {
			if n := need(gpu.Device().Attribute(DeviceAttributeConcurrentManagedAccess))(t); n == 0 {
				t.Skip("the host cannot access managed memory at any time")
			}
			return rawMemory(t, gpu, size, true)
		},
		"pool": func(t *testing.T) uint64 {
			m := need(gpuPool(t, gpu, memory.PoolOptions{}).Alloc(s, size))(t)
			t.Cleanup(func() { closeIt(t, m) })
			return m.Handle()
		},
		"variable": func(t *testing.T) uint64 {
			mod := need(gpu.LoadModule([]byte(`.version 6.0
.target sm_50
.address_size 64
.visible .global .align 8 .b8 table[4096];
`)))(t)
			t.Cleanup(func() { closeIt(t, mod) })
			m := need(mod.Global("table"))(t)
			t.Cleanup(func() { closeIt(t, m) })
			return m.Handle()
		},
		"virtual": func(t *testing.T) uint64 {
			m := need(memory.Reserve(gpu, 64*mib))(t)
			t.Cleanup(func() { closeIt(t, m) })
			noErr(t, m.Grow(1))
			first := m.Size()
			noErr(t, m.Grow(first+1))
			return m.Handle() + first - size/2 // in two mappings
		},
		"graph": func(t *testing.T) uint64 {
			g := need(gpu.NewGraph())(t)
			_, m, err := addAlloc(g, size)
			noErr(t, err)
			x := need(g.Instantiate())(t)
			noErr(t, x.Launch(s))
			taken := need(x.Take(m))(t)
			t.Cleanup(func() {
				closeIt(t, taken)
				noErr(t, errors.Join(s.Synchronize(), m.Close(), x.Close(), g.Close()))
			})
			noErr(t, s.Synchronize())
			return taken.Handle()
		},
	}
	for name, allocate := range kinds {
		t.Run(name, func(t *testing.T) {
			addr := allocate(t)
			info := need(memory.PointerInfoOf(gpu, addr))(t)
			t.Logf("%+v", info)
			whole := need(memory.Wrap(gpu, addr, size))(t)
			m := need(memory.Wrap(gpu, addr+16, 64))(t)
			if m.Handle() != addr+16 || m.Size() != 64 {
				t.Errorf("%d bytes at %#x, the owner has %#x", m.Size(), m.Handle(), addr)
			}
			noErr(t, whole.Memset(0))
			noErr(t, gpu.Synchronize())
			noErr(t, s.Memset32(m, math.Float32bits(1)))
			noErr(t, b.add.Launch(s, fourThreads, Ptr(m), U32(4), F32(2)))
			noErr(t, s.Copy2D(Rows{b.out, 8}, Rows{m, 32}, 8, 2))
			g := need(gpu.NewGraph())(t)
			set := need(g.Add(&MemsetNode{Dst: m.Span(60, 4), Value: 7}))(t)
			need(g.Add(&KernelNode{Kernel: b.add, Config: fourThreads, Args: []Arg{Ptr(SpanOf[float32](m, 4, 4)), U32(4), F32(4)}}, set))(t)
			x := need(g.Instantiate())(t)
			noErr(t, errors.Join(x.Launch(s), s.Synchronize(), x.Close(), g.Close()))
			want := make([]byte, 80)
			for i, v := range []float32{3, 3, 3, 3, 5, 5, 5, 5, 1, 1, 1, 1, 1, 1, 1} {
				binary.LittleEndian.PutUint32(want[16+4*i:], math.Float32bits(v))
			}
			copy(want[76:], []byte{7, 7, 7, 7})
			got := make([]byte, len(want))
			noErr(t, whole.CopyTo(got))
			if !bytes.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			rows := make([]byte, 16)
			need(b.out.ReadAt(rows, 0))(t)
			if !bytes.Equal(rows, bytes.Join([][]byte{want[16:24], want[48:56]}, nil)) {
				t.Errorf("the rows are %v", rows)
			}
			noErr(t, m.Close())
			noErr(t, whole.Close())
			again := need(memory.Wrap(gpu, addr, 64))(t)
			noErr(t, again.CopyTo(got[:64]))
			noErr(t, again.Close())
			if !bytes.Equal(got[:64], want[:64]) {
				t.Error("the owner's memory is another one after Close")
			}
			if end := info.Start + info.Size; info.Size != 0 {
				_, err := memory.Wrap(gpu, addr, end-addr+1)
				if !errors.Is(err, ResultInvalidValue) {
					t.Errorf("one byte too many: %v", err)
				}
				t.Log(err)
			}
		})
	}
}

// TestGPUWrapMemRefused wraps what is no memory of the context.
func TestGPUWrapMemRefused(t *testing.T) {
	gpu := gpuContext(t)
	addr := rawMemory(t, gpu, 4096, false)
	host := need(gpu.AllocHost(64, HostPortable|HostDeviceMap))(t)
	defer closeIt(t, host)
	two := need(gpu.Device().NewContext(0))(t)
	far := need(two.Alloc(64))(t)
	defer func() { noErr(t, errors.Join(far.Close(), two.Close())) }()
	virtual := need(memory.Reserve(gpu, 64*mib))(t)
	defer closeIt(t, virtual)
	noErr(t, virtual.Grow(1))
	end := virtual.Handle() + virtual.Size()
	gone := need(gpu.Alloc(64 * mib))(t)
	before := gone.Handle()
	noErr(t, gone.Close())
	for name, c := range map[string]struct {
		addr, size uint64
		want       error // nil if the driver knows no memory there
	}{
		"no address":                 {0, 8, ErrNil},
		"no bytes":                   {addr, 0, ResultInvalidValue},
		"more bytes than there are":  {addr, 1 << 50, ResultInvalidValue},
		"an overflow":                {addr, math.MaxUint64, ResultInvalidValue},
		"no memory":                  {1 << 20, 8, nil},
		"memory that was freed":      {before, 8, nil},
		"memory of the host":         {uint64(host.Handle()), 8, ResultInvalidValue},
		"memory of another context":  {far.Handle(), 8, ErrContextMismatch},
		"virtual memory without any": {end, 8, nil},
		"virtual memory with a gap":  {end - 8, 16, nil},
	} {
		m, err := memory.Wrap(gpu, c.addr, c.size)
		unknown := err != nil && strings.Contains(err.Error(), "the driver knows no memory at the address")
		if unknown != (c.want == nil) || !unknown && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", name, m, err)
			continue
		}
		t.Logf("%s: %v", name, err)
	}
	noErr(t, need(memory.Wrap(two, far.Handle(), 64))(t).Close())
}

// TestGPUWrapMemPeer wraps memory of another GPU that its owner lets this one access.
func TestGPUWrapMemPeer(t *testing.T) {
	gpu := gpuContext(t)
	devs := need(gpu.Device().Driver().Devices())(t)
	if len(devs) < 2 || !need(devs[0].CanAccessPeer(devs[1]))(t) {
		t.Skip("there is no second GPU whose memory this one can access")
	}
	far := need(devs[1].PrimaryContext())(t)
	defer closeIt(t, far)
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer closeIt(t, s)
	theirs := need(memory.Reserve(far, 2*mib))(t)
	defer closeIt(t, theirs)
	noErr(t, theirs.Grow(1))
	pool, err := memory.NewPool(far, memory.PoolOptions{})
	noErr(t, err)
	defer closeIt(t, pool)
	other := need(far.NewStream(StreamNonBlocking))(t)
	defer closeIt(t, other)
	pooled := need(pool.Alloc(other, 4096))(t)
	defer closeIt(t, pooled)
	noErr(t, other.Synchronize())
	for name, c := range map[string]struct {
		addr  uint64
		allow func() error
	}{
		"virtual": {theirs.Handle(), func() error { return theirs.SetAccess(devs[0], memory.AccessReadWrite) }},
		"pool":    {pooled.Handle(), func() error { return pool.SetAccess(devs[0], true) }},
	} {
		if _, err := memory.Wrap(gpu, c.addr, 64); !errors.Is(err, ErrDeviceMismatch) {
			t.Errorf("%s, without access: %v", name, err)
		}
		noErr(t, c.allow())
		m, err := memory.Wrap(gpu, c.addr, 64)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := make([]byte, 64)
		noErr(t, errors.Join(s.Memset(m, 5), s.Synchronize(), m.CopyTo(got), m.Close()))
		if !bytes.Equal(got, bytes.Repeat([]byte{5}, 64)) {
			t.Errorf("%s: got %v", name, got)
		}
	}
	owned := need(far.Alloc(64))(t)
	defer closeIt(t, owned)
	if _, err := memory.Wrap(gpu, owned.Handle(), 64); !errors.Is(err, ErrContextMismatch) {
		t.Errorf("memory of the other context: %v", err)
	}
}
