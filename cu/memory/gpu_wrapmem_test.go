package memory_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
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
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer CloseIt(t, s)
	out := Need(gpu.AllocHost(16, 0))(t)
	defer CloseIt(t, out)
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer CloseIt(t, mod)
	add := Need(mod.Function("add"))(t)
	const size = 4096
	kinds := map[string]func(t *testing.T) uint64{
		"device": func(t *testing.T) uint64 { return rawMemory(t, gpu, size, false) },
		"managed": func(t *testing.T) uint64 {
			if n := Need(gpu.Device().Attribute(DeviceAttributeConcurrentManagedAccess))(t); n == 0 {
				t.Skip("the host cannot access managed memory at any time")
			}
			return rawMemory(t, gpu, size, true)
		},
		"pool": func(t *testing.T) uint64 {
			m := Need(GPUPool(t, gpu, memory.PoolOptions{}).Alloc(s, size))(t)
			t.Cleanup(func() { CloseIt(t, m) })
			return m.Handle()
		},
		"variable": func(t *testing.T) uint64 {
			mod := Need(gpu.LoadModule([]byte(`.version 6.0
.target sm_50
.address_size 64
.visible .global .align 8 .b8 table[4096];
`)))(t)
			t.Cleanup(func() { CloseIt(t, mod) })
			m := Need(mod.Global("table"))(t)
			t.Cleanup(func() { CloseIt(t, m) })
			return m.Handle()
		},
		"virtual": func(t *testing.T) uint64 {
			m := Need(memory.Reserve(gpu, 64*MiB))(t)
			t.Cleanup(func() { CloseIt(t, m) })
			NoErr(t, m.Grow(1))
			first := m.Size()
			NoErr(t, m.Grow(first+1))
			return m.Handle() + first - size/2 // in two mappings
		},
		"graph": func(t *testing.T) uint64 {
			g := Need(graph.New(gpu))(t)
			_, m, err := AddAlloc(g, size)
			NoErr(t, err)
			x := Need(g.Instantiate())(t)
			NoErr(t, x.Launch(s))
			taken := Need(x.Take(m))(t)
			t.Cleanup(func() {
				CloseIt(t, taken)
				NoErr(t, errors.Join(s.Synchronize(), m.Close(), x.Close(), g.Close()))
			})
			NoErr(t, s.Synchronize())
			return taken.Handle()
		},
	}
	for name, allocate := range kinds {
		t.Run(name, func(t *testing.T) {
			addr := allocate(t)
			info := Need(memory.PointerInfoOf(gpu, addr))(t)
			t.Logf("%+v", info)
			whole := Need(memory.Wrap(gpu, addr, size))(t)
			m := Need(memory.Wrap(gpu, addr+16, 64))(t)
			if m.Handle() != addr+16 || m.Size() != 64 {
				t.Errorf("%d bytes at %#x, the owner has %#x", m.Size(), m.Handle(), addr)
			}
			NoErr(t, whole.Memset(0))
			NoErr(t, gpu.Synchronize())
			NoErr(t, s.Memset32(m, math.Float32bits(1)))
			NoErr(t, add.Launch(s, FourThreads, Ptr(m), U32(4), F32(2)))
			NoErr(t, s.Copy2D(Rows{Mem: out, Pitch: 8}, Rows{Mem: m, Pitch: 32}, 8, 2))
			g := Need(graph.New(gpu))(t)
			set := Need(g.Add(&graph.Memset{Dst: m.Span(60, 4), Value: 7}))(t)
			Need(g.Add(&graph.Kernel{Function: add, Config: FourThreads, Args: []Arg{Ptr(SpanOf[float32](m, 4, 4)), U32(4), F32(4)}}, set))(t)
			x := Need(g.Instantiate())(t)
			NoErr(t, errors.Join(x.Launch(s), s.Synchronize(), x.Close(), g.Close()))
			want := make([]byte, 80)
			for i, v := range []float32{3, 3, 3, 3, 5, 5, 5, 5, 1, 1, 1, 1, 1, 1, 1} {
				binary.LittleEndian.PutUint32(want[16+4*i:], math.Float32bits(v))
			}
			copy(want[76:], []byte{7, 7, 7, 7})
			got := make([]byte, len(want))
			NoErr(t, whole.CopyTo(got))
			if !bytes.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			rows := make([]byte, 16)
			Need(out.ReadAt(rows, 0))(t)
			if !bytes.Equal(rows, bytes.Join([][]byte{want[16:24], want[48:56]}, nil)) {
				t.Errorf("the rows are %v", rows)
			}
			NoErr(t, m.Close())
			NoErr(t, whole.Close())
			again := Need(memory.Wrap(gpu, addr, 64))(t)
			NoErr(t, again.CopyTo(got[:64]))
			NoErr(t, again.Close())
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
	gpu := GPUContext(t)
	addr := rawMemory(t, gpu, 4096, false)
	host := Need(gpu.AllocHost(64, HostPortable|HostDeviceMap))(t)
	defer CloseIt(t, host)
	two := Need(gpu.Device().NewContext(0))(t)
	far := Need(two.Alloc(64))(t)
	defer func() { NoErr(t, errors.Join(far.Close(), two.Close())) }()
	virtual := Need(memory.Reserve(gpu, 64*MiB))(t)
	defer CloseIt(t, virtual)
	NoErr(t, virtual.Grow(1))
	end := virtual.Handle() + virtual.Size()
	gone := Need(gpu.Alloc(64 * MiB))(t)
	before := gone.Handle()
	NoErr(t, gone.Close())
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
	NoErr(t, Need(memory.Wrap(two, far.Handle(), 64))(t).Close())
}

// TestGPUWrapMemPeer wraps memory of another GPU that its owner lets this one access.
func TestGPUWrapMemPeer(t *testing.T) {
	gpu := GPUContext(t)
	devs := Need(gpu.Device().Driver().Devices())(t)
	if len(devs) < 2 || !Need(devs[0].CanAccessPeer(devs[1]))(t) {
		t.Skip("there is no second GPU whose memory this one can access")
	}
	far := Need(devs[1].PrimaryContext())(t)
	defer CloseIt(t, far)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer CloseIt(t, s)
	theirs := Need(memory.Reserve(far, 2*MiB))(t)
	defer CloseIt(t, theirs)
	NoErr(t, theirs.Grow(1))
	pool, err := memory.NewPool(far, memory.PoolOptions{})
	NoErr(t, err)
	defer CloseIt(t, pool)
	other := Need(far.NewStream(StreamNonBlocking))(t)
	defer CloseIt(t, other)
	pooled := Need(pool.Alloc(other, 4096))(t)
	defer CloseIt(t, pooled)
	NoErr(t, other.Synchronize())
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
		NoErr(t, c.allow())
		m, err := memory.Wrap(gpu, c.addr, 64)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := make([]byte, 64)
		NoErr(t, errors.Join(s.Memset(m, 5), s.Synchronize(), m.CopyTo(got), m.Close()))
		if !bytes.Equal(got, bytes.Repeat([]byte{5}, 64)) {
			t.Errorf("%s: got %v", name, got)
		}
	}
	owned := Need(far.Alloc(64))(t)
	defer CloseIt(t, owned)
	if _, err := memory.Wrap(gpu, owned.Handle(), 64); !errors.Is(err, ErrContextMismatch) {
		t.Errorf("memory of the other context: %v", err)
	}
}
