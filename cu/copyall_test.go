package cu_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// batchCounter is a driver that counts calls.
type batchCounter struct {
	Software        driver.Software
	batches, single int
}

func (d *batchCounter) MemcpyBatchAsyncV1(th *driver.Thread, dsts, srcs []driver.DevicePtr, sizes []uint64,
	attrs []driver.MemcpyAttributes, indexes []uint64, s driver.Stream) (uint64, driver.Result) {
	d.batches++
	return d.Software.MemcpyBatchAsyncV1(th, dsts, srcs, sizes, attrs, indexes, s)
}

func (d *batchCounter) Memcpy3DBatchAsyncV1(th *driver.Thread, ops []driver.Memcpy3DBatchOp, flags uint64,
	s driver.Stream) (uint64, driver.Result) {
	d.batches++
	return d.Software.Memcpy3DBatchAsyncV1(th, ops, flags, s)
}

func (d *batchCounter) MemPrefetchBatchAsync(th *driver.Thread, addrs []driver.DevicePtr, sizes []uint64,
	places []driver.MemLocation, indexes []uint64, flags uint64, s driver.Stream) driver.Result {
	d.batches++
	return d.Software.MemPrefetchBatchAsync(th, addrs, sizes, places, indexes, flags, s)
}

func (d *batchCounter) MemDiscardBatchAsync(th *driver.Thread, addrs []driver.DevicePtr, sizes []uint64, flags uint64,
	s driver.Stream) driver.Result {
	d.batches++
	return d.Software.MemDiscardBatchAsync(th, addrs, sizes, flags, s)
}

func (d *batchCounter) MemcpyDtoDAsync(th *driver.Thread, dst, src driver.DevicePtr, n uint64, s driver.Stream) driver.Result {
	d.single++
	return d.Software.MemcpyDtoDAsync(th, dst, src, n, s)
}

func (d *batchCounter) MemcpyDtoHAsync(th *driver.Thread, dst driver.HostPtr, src driver.DevicePtr, n uint64,
	s driver.Stream) driver.Result {
	d.single++
	return d.Software.MemcpyDtoHAsync(th, dst, src, n, s)
}

func (d *batchCounter) Memcpy3DAsync(th *driver.Thread, c driver.Memcpy3D, s driver.Stream) driver.Result {
	d.single++
	return d.Software.Memcpy3DAsync(th, c, s)
}

func (d *batchCounter) MemPrefetchAsync(th *driver.Thread, p driver.DevicePtr, n uint64, l driver.MemLocation, flags uint32,
	s driver.Stream) driver.Result {
	d.single++
	return d.Software.MemPrefetchAsync(th, p, n, l, flags, s)
}

// batchRig has memory of 100 bytes with the values 0 to 99, and other memory.
type batchRig struct {
	t      *testing.T
	sim    *cusim.Driver
	calls  *batchCounter
	drv    *Driver
	gpu    *Context
	s      *Stream
	a, b   *DeviceMem
	host   *HostMem
	expect []byte // the content of b
}

func newBatchRig(t *testing.T, opts ...cusim.Option) *batchRig {
	r := &batchRig{t: t, sim: cusim.New(append([]cusim.Option{cusim.Devices(2)}, opts...)...), expect: make([]byte, 100)}
	r.calls = &batchCounter{Software: r.sim.Software()}
	r.drv = Need(OpenNeverWait(WithSoftware(driver.Provide(override.Driver(r.calls)))))(t)
	r.gpu = Need(Need(r.drv.Device(0))(t).PrimaryContext())(t)
	r.s = Need(r.gpu.NewStream(StreamNonBlocking))(t)
	r.a, r.b = Need(r.gpu.Alloc(100))(t), Need(r.gpu.Alloc(100))(t)
	r.host = Need(r.gpu.AllocHost(100, 0))(t)
	values := make([]byte, 100)
	for i := range values {
		values[i] = byte(i)
	}
	NoErr(t, errors.Join(r.a.CopyFrom(values), r.b.Memset(0)))
	t.Cleanup(func() {
		r.sim.Finish()
		NoErr(t, errors.Join(r.s.Close(), r.a.Close(), r.b.Close(), r.host.Close(), r.gpu.Close(), r.drv.Close()))
		CheckFreed(t, r.sim)
	})
	return r
}

// made checks the number of calls since the last check, and the content of b.
func (r *batchRig) made(batches, single int) {
	r.t.Helper()
	NoErr(r.t, r.s.Synchronize())
	got := make([]byte, 100)
	NoErr(r.t, r.b.CopyTo(got))
	if diff := cmp.Diff(r.expect, got); diff != "" {
		r.t.Errorf("the content (-want +got):\n%s", diff)
	}
	if r.calls.batches != batches || r.calls.single != single {
		r.t.Errorf("%d calls of batches and %d of one, want %d and %d", r.calls.batches, r.calls.single, batches, single)
	}
	r.calls.batches, r.calls.single = 0, 0
}

// TestCopyAll makes copies in one call, and those that the driver cannot make so one by one.
func TestCopyAll(t *testing.T) {
	r := newBatchRig(t)
	pair := func(dst, src, n uint64) MemCopy { return MemCopy{r.b.Span(dst, n), r.a.Span(src, n)} }
	NoErr(t, r.s.CopyAll(nil))
	NoErr(t, r.s.CopyAll([]MemCopy{pair(0, 50, 1)}))
	r.expect[0] = 50
	r.made(0, 1)
	NoErr(t, r.s.CopyAll([]MemCopy{pair(10, 20, 2), pair(12, 20, 3), {r.host.Span(0, 5), r.a.Span(30, 5)}}))
	copy(r.expect[10:], []byte{20, 21, 20, 21, 22})
	r.made(1, 0)
	NoErr(t, r.host.View(func(b []byte) error {
		if b[0] != 30 || b[4] != 34 {
			t.Errorf("the host has %d", b[:5])
		}
		return nil
	}))
	// The second copy reads what the first writes.
	NoErr(t, r.s.CopyAll([]MemCopy{pair(40, 7, 2), {r.b.Span(50, 2), r.b.Span(40, 2)}}))
	copy(r.expect[40:], []byte{7, 8})
	copy(r.expect[50:], []byte{7, 8})
	r.made(0, 2)
	NoErr(t, r.s.CopyAll([]MemCopy{pair(60, 1, 4), pair(63, 9, 2)})) // the second overwrites a byte
	copy(r.expect[60:], []byte{1, 2, 3, 9, 10})
	r.made(0, 2)
	// The driver refuses the batch, and then one of the copies.
	r.sim.Inject(cusim.Fault{Function: "cuMemcpyBatchAsync", Code: int(ResultUnknown)})
	r.sim.Inject(cusim.Fault{Function: "cuMemcpyDtoDAsync", Nth: 2, Code: int(ResultOperatingSystem)})
	err := r.s.CopyAll([]MemCopy{pair(70, 1, 1), pair(71, 2, 1), pair(72, 3, 1)})
	r.expect[70], r.expect[72] = 1, 3
	r.made(1, 3)
	var batch *BatchError
	if !errors.As(err, &batch) || batch.Errs[0] != nil || !errors.Is(batch.Errs[1], ResultOperatingSystem) ||
		batch.Errs[2] != nil || !strings.Contains(err.Error(), "item 1") {
		t.Error(err)
	}
	// A copy that cannot be made.
	err = r.s.CopyAll([]MemCopy{pair(80, 1, 1), {r.b.Span(81, 1), r.a}, pair(82, 3, 1), {r.host, r.host}, {}})
	r.expect[80], r.expect[82] = 1, 3
	r.made(0, 2)
	if !errors.As(err, &batch) || batch.Errs[0] != nil || !errors.Is(batch.Errs[1], drivercall.ErrInvalid) ||
		!errors.Is(batch.Errs[3], drivercall.ErrInvalid) || !errors.Is(batch.Errs[4], ErrNil) {
		t.Error(err)
	}
	for _, s := range []*Stream{nil, {}} {
		if err := s.CopyAll([]MemCopy{pair(0, 0, 1), pair(1, 1, 1)}); !errors.Is(err, ErrNil) {
			t.Error(err)
		}
	}
	legacy := Need(r.gpu.LegacyStream())(t)
	NoErr(t, legacy.CopyAll([]MemCopy{pair(90, 1, 1), pair(91, 2, 1)}))
	NoErr(t, errors.Join(legacy.Synchronize(), legacy.Close()))
	r.expect[90], r.expect[91] = 1, 2
	r.made(0, 2)
	g := Need(graph.Capture(r.s, graph.CaptureGlobal, func() error { return r.s.CopyAll([]MemCopy{pair(95, 1, 1), pair(96, 2, 1)}) }))(t)
	x := Need(g.Instantiate())(t)
	r.made(0, 2)
	NoErr(t, x.Launch(r.s))
	r.expect[95], r.expect[96] = 1, 2
	r.made(0, 0)
	NoErr(t, errors.Join(x.Close(), g.Close()))
}

// TestCopyAllKeeps closes memory while a stream has copies of it to make.
func TestCopyAllKeeps(t *testing.T) {
	r := newBatchRig(t)
	r.sim.Hold(r.s.Handle())
	src := Need(r.gpu.Alloc(10))(t)
	NoErr(t, src.Memset(5))
	pool := Need(memory.NewPool(r.gpu, memory.PoolOptions{}))(t)
	pooled := Need(pool.Alloc(r.s, 10))(t)
	NoErr(t, r.s.Memset(pooled, 6))
	NoErr(t, r.s.CopyAll([]MemCopy{{r.b.Span(0, 10), src}, {r.b.Span(10, 10), pooled}}))
	NoErr(t, pooled.Close())
	closed := make(chan error)
	go func() { closed <- src.Close() }()
	r.sim.Release(r.s.Handle())
	NoErr(t, <-closed)
	for i := range 20 {
		r.expect[i] = byte(5 + i/10)
	}
	r.made(1, 0)
	NoErr(t, pool.Close())
	if err := r.s.CopyAll([]MemCopy{{r.b, src}, {r.b, pooled}}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestCopyAllOld makes copies with a driver that has no batches.
func TestCopyAllOld(t *testing.T) {
	r := newBatchRig(t, cusim.Version(12070))
	NoErr(t, r.s.CopyAll([]MemCopy{{r.b.Span(0, 1), r.a.Span(5, 1)}, {r.b.Span(1, 1), r.a.Span(6, 1)}}))
	r.expect[0], r.expect[1] = 5, 6
	r.made(0, 2)
	box := BoxCopy{Dst: Planes{Rows: Rows{Mem: r.b.Span(10, 4)}}, Src: Planes{Rows: Rows{Mem: r.a.Span(10, 4)}}, Width: 2,
		Height: 2, Depth: 1}
	other := box
	other.Dst.Mem = r.b.Span(20, 4)
	NoErr(t, r.s.Copy3DAll([]BoxCopy{box, other}))
	copy(r.expect[10:], []byte{10, 11, 12, 13})
	copy(r.expect[20:], []byte{10, 11, 12, 13})
	r.made(0, 2)
	m := Need(memory.AllocManaged(r.gpu, 8192, memory.AttachGlobal))(t)
	dev := memory.LocationOf(r.gpu.Device())
	NoErr(t, memory.PrefetchAll(r.s, []memory.Move{{Mem: m.Span(0, 4096), To: dev}, {Mem: m.Span(4096, 4096), To: memory.Location{Type: memory.LocationHost}}}))
	r.made(0, 2)
	err := errors.Join(memory.Discard(r.s, m), memory.Discard(r.s, m.Span(0, 4096), m.Span(4096, 4096)),
		memory.DiscardAndPrefetch(r.s, []memory.Move{{Mem: m, To: dev}}))
	if !errors.Is(err, errors.ErrUnsupported) || strings.Count(err.Error(), "13.0") < 4 {
		t.Error(err)
	}
	NoErr(t, m.Close())
}

// TestCopy3DAll copies tiles of an image, whose rows lie between each other.
func TestCopy3DAll(t *testing.T) {
	r := newBatchRig(t)
	// a and b are 10 rows of 10 bytes.
	tile := func(x, y, toX, toY, w, h uint64) BoxCopy {
		return BoxCopy{Dst: Planes{Rows: Rows{Mem: r.b, Pitch: 10}.At(toX, toY)},
			Src: Planes{Rows: Rows{Mem: r.a, Pitch: 10}.At(x, y)}, Width: w, Height: h, Depth: 1}
	}
	expect := func(x, y, toX, toY, w, h int) {
		for j := range h {
			for i := range w {
				r.expect[(toY+j)*10+toX+i] = byte((y+j)*10 + x + i)
			}
		}
	}
	NoErr(t, r.s.Copy3DAll([]BoxCopy{tile(0, 0, 5, 0, 5, 5), tile(5, 5, 0, 0, 5, 5), tile(3, 3, 0, 5, 10, 4)}))
	expect(0, 0, 5, 0, 5, 5)
	expect(5, 5, 0, 0, 5, 5)
	expect(3, 3, 0, 5, 10, 4)
	r.made(1, 0)
	NoErr(t, r.s.Copy3DAll([]BoxCopy{tile(0, 0, 0, 0, 5, 5), tile(5, 5, 4, 4, 5, 5)})) // one byte is in both
	expect(0, 0, 0, 0, 5, 5)
	expect(5, 5, 4, 4, 5, 5)
	r.made(0, 2)
	err := r.s.Copy3DAll([]BoxCopy{tile(0, 0, 0, 0, 1, 1), tile(0, 0, 0, 0, 11, 2), {}})
	expect(0, 0, 0, 0, 1, 1)
	r.made(0, 1)
	var batch *BatchError
	if !errors.As(err, &batch) || batch.Errs[0] != nil || !errors.Is(batch.Errs[1], drivercall.ErrInvalid) ||
		!errors.Is(batch.Errs[2], ErrNil) {
		t.Error(err)
	}
}

// TestDiscard prefetches and discards managed memory.
func TestDiscard(t *testing.T) {
	r := newBatchRig(t)
	const half = 4096
	m := Need(memory.AllocManaged(r.gpu, 2*half, memory.AttachGlobal))(t)
	first, second := m.Span(0, half), m.Span(half, half)
	dev, host := memory.LocationOf(r.gpu.Device()), memory.Location{Type: memory.LocationHost}
	where := func(want ...memory.Location) {
		t.Helper()
		NoErr(t, r.s.Synchronize())
		for i, part := range []Memory{first, second} {
			if got := Need(memory.ManagedInfoOf(r.gpu, part))(t).LastPrefetch; got != want[i] {
				t.Errorf("half %d: the last prefetch was to %v, want %v", i, got, want[i])
			}
		}
	}
	NoErr(t, memory.PrefetchAll(r.s, []memory.Move{{Mem: first, To: dev}, {Mem: second, To: host}}))
	where(dev, host)
	r.made(1, 0)
	NoErr(t, memory.PrefetchAll(r.s, []memory.Move{{Mem: m, To: host}, {Mem: first, To: dev}})) // in this order
	where(dev, host)
	r.made(0, 2)
	NoErr(t, memory.DiscardAndPrefetch(r.s, []memory.Move{{Mem: first, To: host}, {Mem: second, To: host}}))
	where(host, host)
	NoErr(t, memory.DiscardAndPrefetch(r.s, []memory.Move{{Mem: first, To: dev}}))
	where(dev, host)
	r.made(0, 0)
	NoErr(t, memory.Discard(r.s, first, second))
	NoErr(t, memory.Discard(r.s, m))
	NoErr(t, memory.Discard(r.s, m, first))
	NoErr(t, memory.Discard(r.s))
	r.made(4, 0)
	var batch *BatchError
	if err := memory.Discard(r.s, first, r.a, nil); !errors.As(err, &batch) || batch.Errs[0] != nil ||
		!errors.Is(batch.Errs[1], drivercall.ErrInvalid) || !errors.Is(batch.Errs[2], ErrNil) {
		t.Error(err)
	}
	r.sim.Inject(cusim.Fault{Function: "cuMemDiscardBatchAsync", Code: int(ResultUnknown)})
	r.sim.Inject(cusim.Fault{Function: "cuMemDiscardBatchAsync", Nth: 3, Code: int(ResultOperatingSystem)})
	if err := memory.Discard(r.s, first, second); !errors.As(err, &batch) || batch.Errs[0] != nil ||
		!errors.Is(batch.Errs[1], ResultOperatingSystem) {
		t.Error(err)
	}
	legacy := Need(r.gpu.LegacyStream())(t)
	if err := memory.Discard(legacy, first, second); !errors.Is(err, drivercall.ErrInvalid) {
		t.Error(err)
	}
	NoErr(t, legacy.Close())
	for name, f := range map[string]func() error{
		"discard": func() error { return memory.Discard(r.s, first, second) },
		"prefetch": func() error {
			return memory.PrefetchAll(r.s, []memory.Move{{Mem: first, To: dev}, {Mem: second, To: host}})
		},
		"discard and prefetch": func() error {
			return memory.DiscardAndPrefetch(r.s, []memory.Move{{Mem: first, To: dev}, {Mem: second, To: host}})
		},
	} {
		if _, err := graph.Capture(r.s, graph.CaptureGlobal, f); !errors.Is(err, ResultStreamCaptureUnsupported) {
			t.Errorf("%s in a capture: %v", name, err)
		}
	}
	NoErr(t, m.Close())
}

// TestOverlap finds memory that several copies use.
func TestOverlap(t *testing.T) {
	row := func(from, n uint64, write bool) memstate.RowRange {
		return memstate.RowRange{From: from, To: from + n, Width: n, Write: write}
	}
	box := func(from, width, rows, pitch uint64) memstate.RowRange {
		return memstate.RowRange{From: from, To: from + (rows-1)*pitch + width, Width: width, Pitch: pitch, Write: true}
	}
	for name, c := range map[string]struct {
		list []memstate.RowRange
		want bool
	}{
		"nothing":                {nil, false},
		"beside each other":      {[]memstate.RowRange{row(10, 5, true), row(5, 5, true), row(15, 1, false)}, false},
		"two reads":              {[]memstate.RowRange{row(10, 5, false), row(12, 5, false)}, false},
		"a read and a write":     {[]memstate.RowRange{row(10, 5, false), row(14, 5, true)}, true},
		"the same":               {[]memstate.RowRange{row(10, 5, true), row(10, 5, true)}, true},
		"within":                 {[]memstate.RowRange{row(10, 50, false), row(11, 1, false), row(20, 1, true)}, true},
		"tiles":                  {[]memstate.RowRange{box(0, 5, 4, 10), box(5, 5, 4, 10)}, false},
		"tiles of other rows":    {[]memstate.RowRange{box(0, 5, 4, 10), box(15, 5, 4, 10)}, false},
		"tiles with a column":    {[]memstate.RowRange{box(0, 6, 4, 10), box(5, 5, 4, 10)}, true},
		"a tile that wraps":      {[]memstate.RowRange{box(0, 5, 4, 10), box(7, 5, 4, 10)}, true},
		"tiles of other pitches": {[]memstate.RowRange{box(0, 5, 4, 10), box(5, 5, 4, 20)}, true},
	} {
		if got := memstate.Overlap(c.list); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	var many []memstate.RowRange
	for range 1000 {
		many = append(many, row(0, 5, false))
	}
	if memstate.Overlap(many) {
		t.Error("reads overlap")
	}
	for i := range many { // tiles whose rows all lie between each other
		many[i] = box(uint64(i), 1, 2, 1000)
	}
	if !memstate.Overlap(many) {
		t.Error("a thousand tiles are compared for too long")
	}
}
