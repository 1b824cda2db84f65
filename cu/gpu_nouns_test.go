package cu_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	ptxtext "github.com/purecu/purecu/internal/ptx"
	. "github.com/purecu/purecu/internal/testrig"
)

// The nouns on a real GPU: see gpu_test.go.

const globalPTX = `
.version 6.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 counter = 41;
.visible .entry count(.param .align 4 .b8 step[8])
{
	.reg .u64 %p;
	.reg .u32 %v, %s;
	mov.u64 %p, counter;
	ld.param.u32 %s, [step+4];
	atom.global.add.u32 %v, [%p], %s;
	ret;
}
.visible .entry empty() { ret; }
`

func TestGPUDevices(t *testing.T) {
	gpu := GPUContext(t)
	dev := gpu.Device()
	drv := dev.Driver()
	name, uuid, id := Need(dev.Name())(t), Need(dev.UUID())(t), Need(dev.PCIBusID())(t)
	total := Need(dev.TotalMem())(t)
	major, minor, err := dev.ComputeCapability()
	if err != nil || name == "" || uuid == (UUID{}) || total < 1<<28 || major < 3 {
		t.Errorf("%q %v %d.%d %d bytes, %v", name, uuid, major, minor, total, err)
	}
	if same := Need(drv.DeviceByPCIBusID(id))(t); same != dev {
		t.Errorf("%s is device %d", id, same.Ordinal())
	}
	if _, err := drv.DeviceByPCIBusID("ffff:ff:1f.0"); !errors.Is(err, ResultInvalidDevice) && !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an empty slot: %v", err)
	}
	all := Need(dev.Attributes())(t)
	if len(all) < 80 || all[DeviceAttributeWarpSize] != 32 || all[DeviceAttributeComputeCapabilityMajor] != major {
		t.Errorf("%d attributes, warp size %d", len(all), all[DeviceAttributeWarpSize])
	}
	if _, err := dev.Attribute(9999); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an unknown attribute: %v", err)
	}
	t.Logf("%s, %v, %s, compute capability %d.%d, %d attributes", name, uuid, id, major, minor, len(all))
	features := Need(drv.Features())(t)
	t.Logf("%+v", features)
	missing := 0
	for _, s := range drv.Symbols() {
		if s.Err != nil {
			missing++
			if Version(s.Since) <= features.Version && !core.Of(drv).Table().Software() { // which has no addresses

				t.Errorf("%s: %v", s.Export, s.Err)
			}
		}
	}
	t.Logf("%d symbols are missing", missing)
	devs := Need(drv.Devices())(t)
	for _, peer := range devs[1:] {
		can := Need(devs[0].CanAccessPeer(peer))(t)
		rank, err := devs[0].P2PAttribute(P2PAttributePerformanceRank, peer)
		t.Logf("access from device 0 to %d: %v, rank %d, %v", peer.Ordinal(), can, rank, err)
	}
}

func TestGPUContexts(t *testing.T) {
	gpu := GPUContext(t)
	dev := gpu.Device()
	drv := dev.Driver()
	if _, active, err := dev.PrimaryContextState(); !active || err != nil {
		t.Errorf("the primary context is active: %v, %v", active, err)
	}
	least, greatest, err := gpu.PriorityRange()
	if err != nil || greatest > least {
		t.Errorf("priorities %d to %d, %v", least, greatest, err)
	}
	free, total, err := gpu.MemInfo()
	if err != nil || free > total || total == 0 {
		t.Errorf("%d of %d bytes are free, %v", free, total, err)
	}
	version, err := gpu.APIVersion()
	t.Logf("priorities %d to %d, API version %d, %v", least, greatest, version, err)
	Need(gpu.Limit(LimitStackSize))(t)
	if err := gpu.SetLimit(LimitPrintfFIFOSize, 2<<20); err != nil {
		t.Error(err)
	}
	if n := Need(gpu.Limit(LimitPrintfFIFOSize))(t); n < 2<<20 {
		t.Errorf("the limit is %d", n)
	}
	if _, err := gpu.Limit(99); err == nil {
		t.Error("an unknown limit was found")
	} else {
		t.Log(err)
	}

	own := Need(dev.NewContext(ContextSchedYield))(t)
	if flags := Need(own.Flags())(t); flags&ContextSchedYield == 0 {
		t.Errorf("Flags = %v", flags)
	}
	if Need(own.ID())(t) == Need(gpu.ID())(t) || own.Handle() == gpu.Handle() {
		t.Error("the new context is the primary one")
	}
	s, e, p := Need(own.NewStream(0))(t), Need(own.NewEvent(0))(t), Need(gpu.NewEvent(0))(t)
	defer p.Close()
	if err := e.Record(s); err != nil {
		t.Error(err)
	}
	if err := p.Record(s); !errors.Is(err, ErrContextMismatch) {
		t.Errorf("an event of the primary context: %v", err)
	}
	// What the driver itself says to that is the same.
	if res := core.Of(drv).Table().EventRecord(driver.At{}, driver.Event(p.Handle()), core.Of(s).Raw); res != driver.ResultInvalidHandle {
		t.Errorf("the driver says %v", res)
	}
	if err := own.Close(); err != nil {
		t.Error(err)
	}
	if err := e.Wait(context.Background()); err != nil {
		t.Error(err)
	}
	e.Close()
	s.Close()

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := Need(drv.CurrentContext())(t)
	on := Need(gpu.NewEvent(0))(t)
	defer on.Close()
	err = gpu.Do(func(th *Thread) error {
		if cur := Need(th.CurrentContext())(t); cur != gpu.Handle() {
			t.Errorf("context %#x is current, not %#x", cur, gpu.Handle())
		}
		if cur := Need(drv.CurrentContext())(t); cur != gpu.Handle() && !core.Of(drv).Table().Software() {
			t.Errorf("context %#x is current on the thread, not %#x", cur, gpu.Handle())
		}
		ptds := Need(th.DefaultStream())(t)
		if err := on.Record(ptds); err != nil {
			return err
		}
		if st, err := ptds.Query(); err != nil || st == StatusUnknown {
			t.Errorf("Query = %v, %v", st, err)
		}
		id, err := ptds.ID()
		t.Logf("the thread's default stream has id %d, %v", id, err)
		return ptds.Synchronize()
	})
	if err != nil {
		t.Error(err)
	}
	if after := Need(drv.CurrentContext())(t); after != before {
		t.Errorf("context %#x is current, %#x was", after, before)
	}
	wrapped := Need(drv.WrapContext(gpu.Handle()))(t)
	if core.Of(wrapped).Context != core.Of(gpu).Context {
		t.Error("the wrapped context is another one")
	}
	wrapped.Close()
}

// TestGPUBatches records, asks for and waits for more events than a crossing is for, on a
// stream that is held and on one that is not.
func TestGPUBatches(t *testing.T) {
	gpu := GPUContext(t)
	g := NewGate(t, gpu)
	held, free, waiting := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
	var events []*Event
	var streams []*Stream
	for i := range 2*drivercall.BatchSize + 1 {
		events = append(events, Need(gpu.NewEvent(EventDisableTiming))(t))
		streams = append(streams, []*Stream{held, free}[i%2])
	}
	statuses := make([]Status, len(events))
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	g.Hold(t, held)
	check(RecordAll(events, streams))
	check(free.Synchronize())
	check(QueryAll(statuses, events))
	for i, st := range statuses {
		if want := []Status{Pending, Complete}[i%2]; st != want {
			t.Errorf("event %d is %v, not %v", i, st, want)
		}
	}
	check(waiting.WaitEvents(events...))
	end := Need(gpu.NewEvent(EventDisableTiming))(t)
	check(end.Record(waiting))
	if st, err := end.Query(); st != Pending || err != nil {
		t.Errorf("what waits for them is %v, %v", st, err)
	}
	g.Open()
	check(end.Wait(t.Context()))
	check(QueryAll(statuses, events))
	for i, st := range statuses {
		if st != Complete {
			t.Errorf("event %d is %v at the end", i, st)
		}
	}
	for _, e := range append(events, end) {
		check(e.Close())
	}
	for _, s := range []*Stream{held, free, waiting} {
		check(s.Close())
	}
}

// TestGPUThreadEnds releases a thread in the middle of a failed capture of its default
// stream, which would take libcuda down with it.
func TestGPUThreadEnds(t *testing.T) {
	gpu := GPUContext(t)
	threadEnds(t, gpu)
	time.Sleep(100 * time.Millisecond) // a thread ends some time after its goroutine
	var e Event
	defer e.Close()
	s := Need(gpu.NewStream(0))(t)
	defer s.Close()
	if err := errors.Join(e.Record(s), e.Wait(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestDoEndsCapturesElsewhere leaves a failed capture in a context that Do's function makes
// current, and a good one in Do's own.
func TestDoEndsCapturesElsewhere(t *testing.T) {
	r := NewSoft(t)
	beside := Need(r.GPU.Device().NewContext(ContextDefault))(t)
	defer beside.Close()
	table := core.Of(r.Drv).Table()
	var at driver.At
	err := r.GPU.Do(func(th *Thread) error {
		at = driver.At{Thread: RawThread(th)}
		begin := func() driver.Result {
			return table.StreamBeginCapture(at, driver.CU_STREAM_PER_THREAD, driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
		}
		if a, b, c := begin(), table.CtxPushCurrent(at, driver.Context(beside.Handle())), begin(); a+b+c != driver.ResultSuccess {
			t.Errorf("%v, %v, %v", a, b, c)
		}
		if res := table.StreamQuery(at, driver.CU_STREAM_PER_THREAD); res != driver.ResultStreamCaptureUnsupported {
			t.Errorf("cuStreamQuery: %v", res)
		}
		return nil
	})
	if !errors.Is(err, ErrUnbalanced) {
		t.Errorf("Do: %v", err)
	}
	for _, gpu := range []*Context{r.GPU, beside} {
		at.Context = driver.Context(gpu.Handle())
		if status, res := table.StreamIsCapturing(at, driver.CU_STREAM_PER_THREAD); status != driver.CU_STREAM_CAPTURE_STATUS_NONE || res != driver.ResultSuccess {
			t.Errorf("a capture is left, with status %d (%v)", status, res)
		}
	}
}

// threadEnds lets a goroutine end on a thread that Do could not put back.
func threadEnds(t *testing.T, gpu *Context) {
	t.Helper()
	table, done := core.Of(gpu).Context.Drv.Table(), make(chan struct{})
	go func() {
		defer close(done)
		var at driver.At
		err := gpu.Do(func(th *Thread) error {
			at = driver.At{Thread: RawThread(th), Context: driver.Context(gpu.Handle())}
			if _, err := th.DefaultStream(); err != nil {
				return err
			}
			if res := table.StreamBeginCapture(at, driver.CU_STREAM_PER_THREAD, driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL); res != driver.ResultSuccess {
				t.Errorf("cuStreamBeginCapture: %v", res)
			}
			if res := table.StreamQuery(at, driver.CU_STREAM_PER_THREAD); res != driver.ResultStreamCaptureUnsupported {
				t.Errorf("cuStreamQuery: %v", res)
			}
			table.ThreadExchangeStreamCaptureMode(driver.At{Thread: RawThread(th)}, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
			return nil
		})
		if !errors.Is(err, ErrUnbalanced) {
			t.Errorf("Do: %v", err)
		}
		if status, res := table.StreamIsCapturing(at, driver.CU_STREAM_PER_THREAD); status != driver.CU_STREAM_CAPTURE_STATUS_NONE || res != driver.ResultSuccess {
			t.Errorf("the capture is left, with status %d (%v)", status, res)
		}
	}()
	<-done
}

func TestGPUStreams(t *testing.T) {
	gpu := GPUContext(t)
	g := NewGate(t, gpu)
	_, greatest, err := gpu.PriorityRange()
	if err != nil {
		t.Fatal(err)
	}
	a := Need(gpu.NewStreamPriority(StreamNonBlocking, greatest))(t)
	defer a.Close()
	if p := Need(a.Priority())(t); p != greatest {
		t.Errorf("Priority = %d", p)
	}
	if flags := Need(a.Flags())(t); flags != StreamNonBlocking {
		t.Errorf("Flags = %v", flags)
	}
	b := Need(gpu.NewStreamPriority(StreamNonBlocking, -100))(t)
	defer b.Close()
	if p := Need(b.Priority())(t); p != greatest {
		t.Errorf("priority -100 became %d", p)
	}
	if Need(a.ID())(t) == Need(b.ID())(t) {
		t.Error("two streams have one id")
	}

	// Each waits for the other in turn, on one event.
	g.Hold(t, a)
	for range 3 {
		if err := b.WaitStream(a); err != nil {
			t.Fatal(err)
		}
		if err := a.WaitStream(b); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := b.Query(); st != Pending || err != nil {
		t.Errorf("the stream that waits is %v, %v", st, err)
	}
	var done Event
	defer done.Close()
	if err := done.Record(b); err != nil {
		t.Fatal(err)
	}
	g.Open()
	if err := done.Wait(context.Background()); err != nil {
		t.Error(err)
	}

	legacy := Need(gpu.LegacyStream())(t)
	defer legacy.Close()
	id, err := legacy.ID()
	t.Logf("the legacy stream has id %d, %v", id, err)
	if err := legacy.WaitStream(a); err != nil {
		t.Error(err)
	}
	if err := done.Record(legacy); err != nil {
		t.Error(err)
	}
	if err := legacy.Synchronize(); err != nil {
		t.Error(err)
	}
	if st, err := done.Query(); st != Complete || err != nil {
		t.Errorf("Query = %v, %v", st, err)
	}

	wrapped := Need(gpu.WrapStream(a.Handle()))(t)
	if Need(wrapped.ID())(t) != Need(a.ID())(t) {
		t.Error("the wrapped stream is another one")
	}
	wrapped.Close()
	if _, err := a.Query(); err != nil {
		t.Errorf("closing the wrapper hurt the stream: %v", err)
	}

	spin := Need(Need(gpu.LoadModule([]byte(SpinPTX)))(t).Function("spin"))(t)
	defer ModuleOf(spin).Close()
	d, err := a.Time(context.Background(), func() error {
		return spin.Launch(a, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, U64(uint64(5*time.Millisecond)))
	})
	if err != nil || d < 4*time.Millisecond || d > time.Second {
		t.Errorf("a kernel of 5 ms took %v, %v", d, err)
	}
}

func TestGPUMemory(t *testing.T) {
	gpu := GPUContext(t)
	g := NewGate(t, gpu)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	const size = 1 << 20
	a, b := Need(gpu.Alloc(size))(t), Need(gpu.Alloc(size))(t)
	defer a.Close()
	defer b.Close()
	for _, flags := range []HostFlags{0, HostPortable, HostDeviceMap, HostWriteCombined, HostPortable | HostDeviceMap | HostWriteCombined} {
		src, dst := Need(gpu.AllocHost(size, flags))(t), Need(gpu.AllocHost(size, HostDefault))(t)
		if core.Of(src).Raw == 0 {
			t.Errorf("%v: the device cannot reach it", flags)
		}
		want := bytes.Repeat([]byte{1, 2, 3, byte(flags)}, size/4)
		Need(src.WriteAt(want, 0))(t)
		for _, err := range []error{
			s.Copy(a, src), s.Copy(b, a), s.Memset(b.Span(0, 16), 0xee), s.Memset32(b.Span(16, 16), 0x04030201),
			s.Memset(src.Span(0, 4), 9), s.Copy(dst, b), s.Synchronize(),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		copy(want, bytes.Repeat([]byte{0xee}, 16))
		copy(want[16:], bytes.Repeat([]byte{1, 2, 3, 4}, 4))
		got := make([]byte, size)
		Need(dst.ReadAt(got, 0))(t)
		if !bytes.Equal(want, got) {
			t.Errorf("%v: what came back is not what went there", flags)
		}
		Need(src.ReadAt(got[:4], 0))(t)
		if !bytes.Equal(got[:4], []byte{9, 9, 9, 9}) {
			t.Errorf("%v: a set of host memory: %v", flags, got[:4])
		}
		src.Close()
		dst.Close()
	}
	if err := a.Memset(0x5a); err != nil {
		t.Error(err)
	}
	got := make([]byte, 8)
	if n, err := a.ReadAt(got, size-4); n != 4 || err == nil || !bytes.Equal(got[:4], []byte{0x5a, 0x5a, 0x5a, 0x5a}) {
		t.Errorf("ReadAt = %d, %v: %v", n, err, got)
	}

	// Memory that is closed under a copy stays until the copy is done.
	h := Need(gpu.AllocHost(size, 0))(t)
	g.Hold(t, s)
	if err := s.Copy(a, h); err != nil {
		t.Fatal(err)
	}
	var copied Event
	defer copied.Close()
	if err := copied.Record(s); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- h.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	g.Open()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if st, err := copied.Query(); st != Complete || err != nil {
		t.Errorf("the copy is %v, %v", st, err)
	}
	if _, err := gpu.Alloc(1 << 50); !errors.Is(err, ResultOutOfMemory) {
		t.Errorf("a petabyte: %v", err)
	}
}

func TestGPUModules(t *testing.T) {
	gpu := GPUContext(t)
	_, err := gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.address_size 64\n.entyr oops() { ret; }\n"))
	if !errors.Is(err, ResultInvalidPTX) || !strings.Contains(err.Error(), "the compiler says") {
		t.Errorf("broken PTX: %v", err)
	} else {
		t.Log(err)
	}
	if _, err := gpu.LoadModule([]byte("\x7fELF" + strings.Repeat("\x00", 60))); err == nil {
		t.Error("an empty cubin was taken")
	} else {
		t.Log(err)
	}
	m := Need(gpu.LoadModule([]byte(globalPTX), JITVerbose(), JITOptimizationLevel(4), JITLineInfo(), JITMaxRegisters(64)))(t)
	defer m.Close()
	t.Logf("the compiler's log: %q", m.Log())

	s := Need(gpu.NewStream(0))(t)
	defer s.Close()
	counter := Need(m.Global("counter"))(t)
	defer counter.Close()
	count := Need(m.Function("count"))(t)
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	if err := count.Launch(s, one, Value([2]uint32{7, 1})); err != nil {
		t.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if err := counter.CopyTo(got); err != nil || got[0] != 42 || counter.Size() != 4 {
		t.Errorf("the counter is %v, of %d bytes, %v", got, counter.Size(), err)
	}
	if _, err := m.Global("nonsense"); !errors.Is(err, ResultNotFound) {
		t.Errorf("an unknown variable: %v", err)
	}
	if err := count.Launch(s, one, U64(1), U64(2)); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("too many arguments: %v", err)
	}

	// What the driver says about parameters is what the text says.
	for _, text := range []string{globalPTX, SpinPTX} {
		m := Need(gpu.LoadModule([]byte(text)))(t)
		defer m.Close()
		for name, want := range ptxtext.Kernels([]byte(text)) {
			sizes, known := Need(m.Function(name))(t).Params()
			if known && !slices.EqualFunc(sizes, want, func(n uint64, p ptxtext.Param) bool { return n == p.Size }) {
				t.Errorf("%s: the driver says %v, the text %v", name, sizes, want)
			}
		}
	}

	empty := Need(m.Function("empty"))(t)
	if n := Need(empty.Attribute(FunctionAttributeMaxThreadsPerBlock))(t); n < 64 {
		t.Errorf("%d threads in a block", n)
	}
	if err := empty.SetAttribute(FunctionAttributeMaxDynamicSharedSizeBytes, 16<<10); err != nil {
		t.Error(err)
	}
	active := Need(empty.MaxActiveBlocks(256, 0))(t)
	blocks, threads, err := empty.SuggestBlockSize(0, 0)
	t.Logf("%d active blocks of 256; %d blocks of %d occupy the device, %v", active, blocks, threads, err)
	if active < 1 || blocks < 1 || threads < 32 || err != nil {
		t.Error("occupancy")
	}
	sms := Need(gpu.Device().Attribute(DeviceAttributeMultiprocessorCount))(t)
	one.Flags = LaunchCooperative
	if err := empty.Launch(s, one); err != nil {
		t.Errorf("a cooperative launch: %v", err)
	}
	one.Grid.X = uint32(sms*Need(empty.MaxActiveBlocks(1, 0))(t) + 1)
	if err := empty.Launch(s, one); !errors.Is(err, ResultCooperativeLaunchTooLarge) {
		t.Errorf("a cooperative launch of %d blocks: %v", one.Grid.X, err)
	}
	if err := s.Synchronize(); err != nil {
		t.Error(err)
	}
}
