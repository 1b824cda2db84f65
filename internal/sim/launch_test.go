package sim

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/purecu/purecu/driver"
)

// TestLaunchDimensions launches kernels with valid and invalid dimensions.
func TestLaunchDimensions(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	one := Dim3{1, 1, 1}
	for _, tt := range []struct {
		name        string
		grid, block Dim3
		shared      uint32
		cooperative bool
		want        driver.Result
	}{
		{"one", one, one, 0, false, ok},
		{"largest grid", Dim3{1<<31 - 1, 65535, 65535}, one, 0, false, ok},
		{"grid X", Dim3{1 << 31, 1, 1}, one, 0, false, invalid},
		{"grid Y", Dim3{1, 65536, 1}, one, 0, false, invalid},
		{"grid Z", Dim3{1, 1, 65536}, one, 0, false, invalid},
		{"no blocks", Dim3{0, 1, 1}, one, 0, false, invalid},
		{"flat grid", Dim3{1, 0, 1}, one, 0, false, invalid},
		{"block X", one, Dim3{1024, 1, 1}, 0, false, ok},
		{"too large X", one, Dim3{1025, 1, 1}, 0, false, invalid},
		{"block Z", one, Dim3{1, 1, 64}, 0, false, ok},
		{"too large Z", one, Dim3{1, 1, 65}, 0, false, invalid},
		{"too large", one, Dim3{32, 32, 2}, 0, false, invalid},
		{"no threads", one, Dim3{1, 1, 0}, 0, false, invalid},
		{"shared", one, one, 48 << 10, false, ok},
		{"too much shared", one, one, 48<<10 + 1, false, invalid},
		{"cooperative", Dim3{264, 1, 1}, Dim3{1024, 1, 1}, 0, true, ok},
		{"cooperative too large", Dim3{265, 1, 1}, Dim3{1024, 1, 1}, 0, true, driver.ResultCooperativeLaunchTooLarge},
		{"cooperative with shared", Dim3{4 * 132, 1, 1}, Dim3{32, 1, 1}, 48 << 10, true, ok},
		{"cooperative with too much shared", Dim3{4*132 + 1, 1, 1}, Dim3{32, 1, 1}, 48 << 10, true, driver.ResultCooperativeLaunchTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newLab(t)
			f, launch := r.kernel("k", ""), r.LaunchKernel
			if tt.cooperative {
				launch = r.LaunchCooperativeKernel
			}
			r.want("launch", tt.want, launch(r.th, f, tt.grid[0], tt.grid[1], tt.grid[2],
				tt.block[0], tt.block[1], tt.block[2], tt.shared, 0, driver.KernelParams{}))
		})
	}
	t.Run("shared by attribute", func(t *testing.T) {
		r := newLab(t)
		f := r.kernel("k", "")
		r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100<<10))
		r.want("launch", ok, r.LaunchKernel(r.th, f, 1, 1, 1, 1, 1, 1, 100<<10, 0, driver.KernelParams{}))
		r.want("launch", invalid, r.LaunchKernel(r.th, f, 1, 1, 1, 1, 1, 1, 100<<10+1, 0, driver.KernelParams{}))
	})
	t.Run("threads by the text", func(t *testing.T) {
		r := newLab(t)
		f, res := r.ModuleGetFunction(r.th, r.load(header+".entry k() .maxntid 64 { ret; }"), "k")
		r.must(res)
		r.want("launch", ok, r.launchOn(0, f, 64, driver.KernelParams{}))
		r.want("launch", invalid, r.launchOn(0, f, 65, driver.KernelParams{}))
	})
	t.Run("in another context", func(t *testing.T) {
		r := newLab(t)
		f := r.kernel("k", "")
		th := new(driver.Thread)
		c, res := r.CtxCreate(th, nil, 0, 0)
		r.must(res)
		s, res := r.StreamCreate(th, 0)
		r.must(res)
		r.want("stream", driver.ResultInvalidHandle, r.launchOn(s, f, 1, driver.KernelParams{}))
		r.want("default stream", driver.ResultInvalidHandle, r.LaunchKernel(th, f, 1, 1, 1, 1, 1, 1, 0, 0, driver.KernelParams{}))
		r.must(r.StreamDestroy(th, s))
		r.must(r.CtxDestroy(th, c))
	})
	t.Run("NULL", func(t *testing.T) {
		r := newLab(t)
		r.want("launch", driver.ResultInvalidHandle, r.launchOn(0, 0, 1, driver.KernelParams{}))
	})
}

// TestStaticShared launches kernels with much static shared memory. The answers are an H200's (driver 580, CUDA 13.0).
func TestStaticShared(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	for _, tt := range []struct {
		static, dynamic int32 // and the attribute for dynamic shared memory
		blocks          int32 // of one warp that a multiprocessor runs
	}{{49152, 0, 4}, {49153, 183295, 4}, {65536, 166912, 3}, {100000, 132448, 2}, {231425, 1023, 1}, {232448, 0, 1}} {
		text := fmt.Sprintf(header+".entry own() { .reg .b32 a; .shared .b8 v[%d]; mov.u32 a, v; st.shared.b32 [a], a; ret; }",
			tt.static)
		f, res := r.ModuleGetFunction(r.th, r.load(text), "own")
		r.must(res)
		launch := func(dynamic uint32) driver.Result {
			return r.LaunchKernel(r.th, f, 1, 1, 1, 32, 1, 1, dynamic, s, driver.KernelParams{})
		}
		const most = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
		if n, res := r.FuncGetAttribute(r.th, most, f); n != tt.dynamic {
			t.Errorf("%d bytes: %d bytes of dynamic memory, %v, want %d", tt.static, n, res, tt.dynamic)
		}
		n, res := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.th, f, 32, 0)
		if n != tt.blocks {
			t.Errorf("%d bytes: %d blocks, %v, want %d", tt.static, n, res, tt.blocks)
		}
		r.want("launch", ok, launch(0))
		r.want("launch with all", ok, launch(uint32(tt.dynamic)))
		r.want("launch with more", driver.ResultInvalidValue, launch(uint32(tt.dynamic)+1))
		r.must(r.StreamSynchronize(r.th, s))
	}
}

// TestArguments passes valid and invalid arguments.
func TestArguments(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	value := uint64(7)
	p := unsafe.Pointer(&value)
	for _, tt := range []struct {
		name   string
		params driver.KernelParams
		want   driver.Result
		misuse int
	}{
		{"right", driver.KernelParams{Ptrs: []unsafe.Pointer{p, p}, Sizes: []uint32{4, 8}}, ok, 0},
		{"sizes unknown", driver.KernelParams{Ptrs: []unsafe.Pointer{p, p}, Sizes: []uint32{0, 0}}, ok, 0},
		{"no sizes", driver.KernelParams{Ptrs: []unsafe.Pointer{p, p}}, ok, 0},
		{"more than it takes", driver.KernelParams{Ptrs: []unsafe.Pointer{p, p, p}, Sizes: []uint32{4, 8, 8}}, ok, 0},
		{"larger than it takes", driver.KernelParams{Ptrs: []unsafe.Pointer{p, p}, Sizes: []uint32{8, 8}}, ok, 0},
		{"too few", driver.KernelParams{Ptrs: []unsafe.Pointer{p}, Sizes: []uint32{4}}, invalid, 1},
		{"none", driver.KernelParams{}, invalid, 1},
		{"too short", driver.KernelParams{Ptrs: []unsafe.Pointer{p, p}, Sizes: []uint32{4, 4}}, invalid, 1},
		{"NULL", driver.KernelParams{Ptrs: []unsafe.Pointer{p, nil}, Sizes: []uint32{4, 8}}, invalid, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []any
			r := newLab(t, WithKernel("k", Kernel{Run: func(l *Launch) {
				got = []any{l.Name, l.Args(), l.U32(0), l.U64(1), l.F64(1), len(l.Bytes(0)), l.Threads(), l.SharedMem}
			}}))
			r.want("launch", tt.want, r.LaunchKernel(r.th, r.kernel("k", ".param .u32 a, .param .u64 b"), 2, 3, 1, 32, 1, 2, 5, 0, tt.params))
			r.must(r.CtxSynchronize(r.th))
			var want []any
			if tt.want == ok {
				want = []any{"k", 2, uint32(7), uint64(7), math.Float64frombits(7), 4, uint64(2 * 3 * 64), uint32(5)}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the kernel saw (-want +got):\n%s", diff)
			}
			if n := r.takeMisuses(); n != tt.misuse {
				t.Errorf("%d misuses, want %d", n, tt.misuse)
			}
		})
	}
}

// TestGoKernelUnlocked makes calls while a function in Go takes the place of a kernel, and has not returned.
func TestGoKernelUnlocked(t *testing.T) {
	for name, tt := range map[string]struct {
		virtual   bool
		meanwhile func(r *lab, p driver.DevicePtr)
		want      driver.Result
	}{
		"run":               {},
		"run, virtual time": {virtual: true},
		"a sticky error": {want: driver.ResultLaunchFailed,
			meanwhile: func(r *lab, _ driver.DevicePtr) { r.Poison(int(driver.ResultLaunchFailed)) }},
		"the end of the memory": {meanwhile: func(r *lab, p driver.DevicePtr) {
			r.must(r.MemFreeAsync(r.th, p, driver.CU_STREAM_LEGACY))
			r.must(r.StreamSynchronize(r.th, driver.CU_STREAM_LEGACY))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			begun, end, got := make(chan bool), make(chan bool), make(chan byte, 1)
			k := Kernel{Run: func(l *Launch) {
				m := l.Mem(0)
				begun <- true
				<-end
				m[1]++
				got <- m[0] + m[1]
			}}
			opts := []Option{WithKernel("k", k)}
			if tt.virtual {
				opts = append(opts, VirtualTime())
			}
			r := newLab(t, opts...)
			f, s, other, th := r.kernel("k", ".param .u64 p"), r.newStream(), r.newStream(), r.otherThread()
			p, res := r.MemAllocAsync(r.th, 2, s)
			r.must(res)
			r.must(r.MemsetD8Async(r.th, p, '1', 2, s))
			launched := make(chan driver.Result)
			go func() {
				res := r.launchOn(s, f, 1, params(p))
				if tt.virtual {
					r.Advance(time.Second)
				}
				launched <- res
			}()
			<-begun
			r.want("the kernel's stream", driver.ResultNotReady, r.StreamQuery(th, s))
			r.want("another stream", ok, r.StreamQuery(th, other))
			e, res := r.EventCreate(th, 0)
			r.must(res)
			r.must(r.EventRecord(th, e, other))
			r.must(r.EventQuery(th, e))
			r.must(r.EventDestroy(th, e))
			q, res := r.MemAlloc(th, 64)
			r.must(res)
			r.must(r.MemsetD8(th, q, 1, 64))
			if tt.meanwhile != nil {
				tt.meanwhile(r, p)
			}
			close(end)
			r.must(<-launched)
			r.want("the launch", tt.want, r.StreamSynchronize(r.th, s))
			if b := <-got; b != '1'+'2' {
				t.Errorf("the kernel has read %d", b)
			}
			r.MemFree(r.th, p)
			r.MemFree(r.th, q)
			r.CtxSynchronize(r.th)
		})
	}
}

// TestGoKernelNeverReturns finishes while a function in Go that takes the place of a kernel waits for the test.
func TestGoKernelNeverReturns(t *testing.T) {
	end := make(chan bool)
	r := newLab(t, WithKernel("k", Kernel{Run: func(*Launch) { <-end }}))
	r.engine.Settling = time.Millisecond
	s := r.newStream()
	r.must(r.launchOn(s, r.kernel("k", ""), 1, params()))
	for r.executes() == 0 {
		r.StreamQuery(r.th, s)
	}
	r.Finish()
	r.want("the stream", driver.ResultLaunchTimeout, r.StreamSynchronize(r.th, s))
	if m := r.Misuses(); len(m) != 1 || m[0].Op != "k" || !strings.Contains(m[0].What, "has not returned") {
		t.Errorf("the misuses are %v", m)
	}
	r.takeMisuses()
	close(end)
}

// executes returns how many goroutines execute kernels or move bytes.
func (r *lab) executes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engine.Executing()
}

// TestKernelTime launches kernels in virtual time. Their effect happens at their end, with the
// arguments of the launch.
func TestKernelTime(t *testing.T) {
	r := newLab(t, VirtualTime(), WithKernel("store", Kernel{
		Time: func(l *Launch) time.Duration { return time.Duration(l.U32(1)) * time.Second },
		Run:  func(l *Launch) { copy(l.Mem(0), "stored") },
	}), WithKernel("backwards", Kernel{Time: func(*Launch) time.Duration { return -time.Hour }}), WithKernel("empty", Kernel{}))
	s, p := r.newStream(), r.alloc("------")
	args := params(p, uint32(10))
	r.must(r.launchOn(s, r.kernel("store", ".param .u64 p, .param .u32 seconds"), 1, args))
	*(*uint64)(args.Ptrs[0]), *(*uint32)(args.Ptrs[1]) = 0, 0
	for _, step := range []struct {
		by      time.Duration
		content string
		status  driver.Result
	}{
		{0, "------", driver.ResultNotReady}, {10*time.Second - 1, "------", driver.ResultNotReady}, {1, "stored", ok},
	} {
		r.Advance(step.by)
		r.want("query", step.status, r.StreamQuery(r.th, s))
		if got := r.read(p, 6); got != step.content {
			t.Errorf("the memory has %q, want %q", got, step.content)
		}
	}
	r.must(r.launchOn(s, r.kernel("empty", ""), 1, driver.KernelParams{}))
	r.Advance(kernelTime - 1)
	r.want("a kernel without an implementation", driver.ResultNotReady, r.StreamQuery(r.th, s))
	r.Advance(1)
	r.want("a kernel without an implementation", ok, r.StreamQuery(r.th, s))
	r.must(r.launchOn(s, r.kernel("backwards", ""), 1, driver.KernelParams{}))
	r.want("a kernel that takes less than nothing", ok, r.StreamQuery(r.th, s))
	r.spin(s, time.Hour)
	r.Advance(time.Hour - 1)
	r.want("spin", driver.ResultNotReady, r.StreamQuery(r.th, s))
	r.Advance(1)
	r.want("spin", ok, r.StreamQuery(r.th, s))
}

// TestGoKernels launches kernels by names that package cusim once had in Go. Their PTX is executed, unless an option
// has a function for the name.
func TestGoKernels(t *testing.T) {
	for _, name := range []string{"cusim_spin", "cusim_fill_u32", "cusim_add_f32", "cusim_axpy_f32", "cusim_trap", "k"} {
		for _, written := range []bool{false, true} {
			var opts []Option
			if written {
				opts = append(opts, WithKernel(name, Kernel{}))
			}
			r := &lab{Driver: New(opts...), t: t, th: new(driver.Thread)}
			r.must(r.Init(nil, 0))
			r.must(r.CtxSetCurrent(r.th, r.primary(0)))
			p := r.alloc("\x00\x00\x00\x00")
			f, res := r.ModuleGetFunction(r.th, r.load(header+".visible .entry "+name+
				"(.param .u64 p) { .reg .b64 a; ld.param.u64 a, [p]; st.global.u32 [a], 7; ret; }"), name)
			r.must(res)
			r.must(r.launchGrid(f, 1, 1, 1, 1, 0, p))
			got := []uint64{uint64(r.wordsAt(p, 1)[0]), r.Instructions(name), r.GoLaunches(name)}
			want := []uint64{7, 4, 0}
			if written {
				want = []uint64{0, 0, 1}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, with a function %v: word, instructions and launches of functions (-want +got):\n%s", name, written, diff)
			}
		}
	}
}

// TestKernelFaults runs kernels that fail.
func TestKernelFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kernel Kernel
		arg    uint64
		want   driver.Result
		misuse string // part of the text
	}{
		{"fault", Kernel{Run: func(l *Launch) { l.Fault(719); l.Fault(700) }}, 0, driver.ResultLaunchFailed, ""},
		{"nowhere", Kernel{Run: func(l *Launch) { l.Mem(0) }}, 64, driver.ResultIllegalAddress, ""},
		{"over the end", Kernel{Run: func(l *Launch) { l.Mem(0)[4] = 1 }}, 0, driver.ResultIllegalAddress, "index out of range"},
		{"no such argument", Kernel{Run: func(l *Launch) { l.U32(1) }}, 0, driver.ResultIllegalAddress, "index out of range"},
		{"panic", Kernel{Run: func(*Launch) { panic("oops") }}, 0, driver.ResultLaunchFailed, "the kernel panicked: oops"},
		{"panic in Time", Kernel{Time: func(*Launch) time.Duration { panic("oops") }}, 0, driver.ResultLaunchFailed, "the kernel panicked: oops"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newLab(t, WithKernel("k", tt.kernel))
			s, p := r.newStream(), r.alloc("abcd")
			if tt.arg != 0 {
				p = driver.DevicePtr(tt.arg)
			}
			r.must(r.launchOn(s, r.kernel("k", ".param .u64 p"), 1, params(p)))
			r.want("synchronize", tt.want, r.StreamSynchronize(r.th, s))
			_, res := r.EventCreate(r.th, 0)
			r.want("afterwards", tt.want, res)
			var misuses []string
			for _, m := range r.Misuses() {
				misuses = append(misuses, m.String())
			}
			if got := strings.Join(misuses, "\n"); !strings.Contains(got, tt.misuse) || (got == "") != (tt.misuse == "") {
				t.Errorf("misuse is %q, want %q", got, tt.misuse)
			}
			r.takeMisuses()
		})
	}
}

// TestVisible checks that work that changes host memory is done without calls of the driver.
func TestVisible(t *testing.T) {
	for name, call := range map[string]func(r *lab, s driver.Stream, host driver.HostPtr, p driver.DevicePtr) driver.Result{
		"copy": func(r *lab, s driver.Stream, host driver.HostPtr, p driver.DevicePtr) driver.Result {
			return r.MemcpyDtoHAsync(r.th, host, p, 1, s)
		},
		"memset": func(r *lab, s driver.Stream, host driver.HostPtr, _ driver.DevicePtr) driver.Result {
			return r.MemsetD8Async(r.th, driver.DevicePtr(host), 'x', 1, s)
		},
		"kernel": func(r *lab, s driver.Stream, host driver.HostPtr, _ driver.DevicePtr) driver.Result {
			return r.launchOn(s, r.kernel("k", ".param .u64 p"), 1, params(uint64(host)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, WithKernel("k", Kernel{Run: func(l *Launch) { l.Mem(0)[0] = 'x' }}))
			s, p := r.newStream(), r.alloc("x")
			b, host := r.pinned("-")
			r.must(call(r, s, host, p))
			look := func() string {
				r.mu.Lock()
				defer r.mu.Unlock()
				return string(b)
			}
			for i := 0; look() != "x"; i++ {
				if i == 10_000 {
					t.Fatalf("it has %q", look())
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// TestPoisonDropsWork poisons a driver with pending work, for which another device waits. The other
// device is lost, too.
func TestPoisonDropsWork(t *testing.T) {
	r := newLab(t, VirtualTime(), Devices(2))
	th := new(driver.Thread)
	c := r.primary(1)
	r.must(r.CtxSetCurrent(th, c))
	other, res := r.StreamCreate(th, driver.CU_STREAM_NON_BLOCKING)
	r.must(res)
	s, held := r.newStream(), r.newStream()
	e, res := r.EventCreate(r.th, 0)
	r.must(res)
	b, _ := r.pinned("-")
	p := driver.DevicePtr(sliceAddress(b))
	r.spin(s, time.Hour)
	r.must(r.MemsetD8Async(r.th, p, 'x', 1, s))
	r.must(r.EventRecord(r.th, e, s))
	r.must(r.StreamWaitEvent(r.th, held, e, 0))
	r.must(r.StreamWaitValue32(r.th, r.newStream(), r.alloc("\x00\x00\x00\x00"), 1, 0))
	r.Hold(uintptr(held))
	r.must(r.MemsetD8Async(r.th, p, 'y', 1, held))
	idle := r.newStream()
	r.Hold(uintptr(idle))
	r.must(r.MemsetD8Async(r.th, p, 'z', 1, idle))
	r.must(r.StreamWaitEvent(th, other, e, 0))
	r.want("the other device", driver.ResultNotReady, r.StreamQuery(th, other))
	done := make(chan driver.Result)
	waiter := r.otherThread()
	go func() { done <- r.StreamSynchronize(waiter, s) }()
	r.blocked(1)
	r.Poison(700)
	r.Poison(719)
	if !r.devices[0].contexts[0].pending.None() {
		t.Error("operations are pending")
	}
	r.want("the one that waited", driver.ResultIllegalAddress, <-done)
	r.want("the device", driver.ResultIllegalAddress, r.CtxSynchronize(r.th))
	r.want("the other device", driver.ResultIllegalAddress, r.StreamQuery(th, other))
	r.Release(uintptr(held))
	r.Advance(2 * time.Hour)
	if string(b) != "-" {
		t.Errorf("memory was set to %q", b)
	}
	r.want("destroy", driver.ResultIllegalAddress, r.EventDestroy(r.th, e))
	r.want("destroy on the other device", driver.ResultIllegalAddress, r.StreamDestroy(th, other))
	r.must(r.DevicePrimaryCtxRelease(nil, 1))
}

// TestGlobal runs a kernel that uses a variable of its module.
func TestGlobal(t *testing.T) {
	r := newLab(t, WithKernel("count", Kernel{Run: func(l *Launch) { l.Global("n")[0]++ }}),
		WithKernel("wild", Kernel{Run: func(l *Launch) { l.Global("nosuch") }}))
	m := r.load(header + ".global .u32 n = 41; .entry count() { ret; } .entry wild() { ret; }")
	p, size, res := r.ModuleGetGlobal(r.th, m, "n")
	r.must(res)
	for _, tt := range []struct {
		name string
		want driver.Result
	}{{"count", ok}, {"wild", driver.ResultIllegalAddress}} {
		f, res := r.ModuleGetFunction(r.th, m, tt.name)
		r.must(res)
		r.must(r.launchOn(0, f, 1, driver.KernelParams{}))
		r.want(tt.name, tt.want, r.CtxSynchronize(r.th))
		if b := make([]byte, size); tt.want == ok {
			r.must(r.MemcpyDtoH(r.th, b, p))
			if string(b) != "*\x00\x00\x00" {
				t.Errorf("the variable is %q", b)
			}
		}
	}
}

// TestGraphOfKernels captures a launch, and runs it twice.
func TestGraphOfKernels(t *testing.T) {
	r := newLab(t, WithKernel("add", Kernel{Run: func(l *Launch) { l.Mem(0)[0] += byte(l.U32(1)) }}))
	s, p := r.newStream(), r.alloc("a")
	f := r.kernel("add", ".param .u64 p, .param .u32 n")
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
	r.must(r.launchOn(s, f, 1, params(p, uint32(1))))
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	x, res := r.GraphInstantiateWithFlags(r.th, g, 0)
	r.must(res)
	r.must(r.GraphDestroy(r.th, g))
	for _, want := range []string{"b", "c"} {
		r.must(r.GraphLaunch(r.th, x, s))
		r.must(r.StreamSynchronize(r.th, s))
		if got := r.read(p, 1); got != want {
			t.Errorf("the memory has %q, want %q", got, want)
		}
	}
	r.must(r.GraphExecDestroy(r.th, x))
}

// TestLegacyInCapture enqueues work on the legacy default stream during a capture of a blocking
// stream.
func TestLegacyInCapture(t *testing.T) {
	for name, call := range map[string]func(r *lab, f driver.Function, p driver.DevicePtr) driver.Result{
		"launch": func(r *lab, f driver.Function, _ driver.DevicePtr) driver.Result {
			return r.launchOn(0, f, 1, driver.KernelParams{})
		},
		"memset": func(r *lab, _ driver.Function, p driver.DevicePtr) driver.Result {
			return r.MemsetD8Async(r.th, p, 1, 1, 0)
		},
		"host function": func(r *lab, _ driver.Function, _ driver.DevicePtr) driver.Result {
			return r.LaunchHostFunc(r.th, 0, driver.Callback{Go: func() {}})
		},
		"copy": func(r *lab, _ driver.Function, p driver.DevicePtr) driver.Result {
			return r.MemcpyHtoD(r.th, p, []byte("y"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			f, p := r.kernel("k", ""), r.alloc("x")
			s, res := r.StreamCreate(r.th, 0)
			r.must(res)
			r.want("before", ok, call(r, f, p))
			r.must(r.CtxSynchronize(r.th))
			r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
			r.want(name, driver.ResultStreamCaptureImplicit, call(r, f, p))
			_, res = r.StreamEndCapture(r.th, s)
			r.want("end", driver.ResultStreamCaptureInvalidated, res)
			r.want("afterwards", ok, call(r, f, p))
			r.must(r.CtxSynchronize(r.th))
			r.must(r.StreamDestroy(r.th, s))
		})
	}
}
