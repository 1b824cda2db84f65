package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
)

const heapPTX = header + `
.extern .func (.param .b64 r) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 text[] = {118, 97, 108, 117, 101, 32, 37, 100, 10, 0};
.visible .entry keep(.param .u64 to) {
	.reg .b64 a, p; .reg .b32 v; ld.param.u64 a, [to];
	{ .param .b64 n; .param .b64 r; st.param.b64 [n], 100; call.uni (r), malloc, (n); ld.param.b64 p, [r]; }
	st.global.u64 [a], p; mov.u32 v, 5; st.u32 [p+96], v; ret; }
.visible .entry show(.param .u64 from) {
	.local .align 8 .b8 args[8]; .reg .b64 a, p, t; .reg .b32 v; ld.param.u64 a, [from];
	ld.global.u64 p, [a]; ld.u32 v, [p+96]; st.local.u32 [args], v; mov.u64 a, args; cvta.local.u64 a, a;
	mov.u64 t, text; cvta.global.u64 t, t;
	{ .param .b64 f; .param .b64 b; .param .b32 r; st.param.b64 [f], t; st.param.b64 [b], a; call.uni (r), vprintf, (f, b); }
	{ .param .b64 f; st.param.b64 [f], p; call.uni free, (f); } ret; }
.visible .entry broken() {
	.reg .b64 t; mov.u64 t, text; cvta.global.u64 t, t;
	{ .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;
	st.param.b64 [m], t; st.param.b64 [f], t; st.param.b32 [l], 7; st.param.b64 [n], t; st.param.b64 [s], 1;
	call.uni __assertfail, (m, f, l, n, s); } ret; }`

// TestExecuteHeap executes kernels that allocate, print, and free, each in another launch.
func TestExecuteHeap(t *testing.T) {
	var out bytes.Buffer
	r := newLab(t, Output(&out))
	m := r.load(heapPTX)
	get := func(name string) driver.Function {
		f, res := r.ModuleGetFunction(r.th, m, name)
		r.must(res)
		return f
	}
	p := r.alloc(strings.Repeat("\x00", 8))
	r.must(r.launchGrid(get("keep"), 1, 1, 1, 1, 0, p))
	if out.Len() > 0 {
		t.Errorf("printed: %q", &out)
	}
	r.must(r.launchGrid(get("show"), 1, 1, 1, 1, 0, p))
	if got := out.String(); got != "value 5\n" {
		t.Errorf("printed: %q", got)
	}
	if res := r.launchGrid(get("show"), 1, 1, 1, 1, 0, p); res != driver.ResultLaunchFailed {
		t.Errorf("a second free returns %v", res)
	}
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses", n)
	}
}

// lostOutput is a writer that does not write.
type lostOutput func() error

func (f lostOutput) Write([]byte) (int, error) { return 0, f() }

// TestExecuteOutputLost executes a kernel whose output cannot be written. The kernel runs to its end, and a
// report says that the output is lost.
func TestExecuteOutputLost(t *testing.T) {
	for want, f := range map[string]lostOutput{
		"the disk is full":               func() error { return errors.New("the disk is full") },
		"broken":                         func() error { panic("broken") },
		"the writer ended its goroutine": func() error { runtime.Goexit(); return nil },
	} {
		r := newLab(t, Output(f))
		m, p := r.load(heapPTX), r.alloc(strings.Repeat("\x00", 8))
		for _, name := range []string{"keep", "show"} {
			f, res := r.ModuleGetFunction(r.th, m, name)
			r.must(res)
			r.must(r.launchGrid(f, 1, 1, 1, 1, 0, p))
		}
		if list := r.Misuses(); len(list) != 1 || list[0].What != "what a kernel has printed is lost: "+want {
			t.Errorf("%s: the report is %v", want, list)
		}
		r.takeMisuses()
	}
}

// TestExecuteAssert executes a kernel with an assertion that fails.
func TestExecuteAssert(t *testing.T) {
	var out bytes.Buffer
	r := newLab(t, Output(&out))
	f, res := r.ModuleGetFunction(r.th, r.load(heapPTX), "broken")
	r.must(res)
	if res := r.launchGrid(f, 1, 1, 1, 1, 0); res != driver.ResultAssert {
		t.Errorf("it returns %v", res)
	}
	if got := out.String(); !strings.HasSuffix(got, "\n: block: [0,0,0], thread: [0,0,0] Assertion `value %d\n` failed.\n") {
		t.Errorf("printed: %q", got)
	}
}

// TestExecuteTogether executes a kernel whose blocks wait for each other with memory of the launch, and
// one whose blocks are in clusters.
func TestExecuteTogether(t *testing.T) {
	r := newLab(t)
	m := r.load(strings.Replace(header, "sm_70", "sm_90", 1) + `
.visible .entry grid(.param .u64 to) {
	.reg .b64 w, h, o; .reg .b32 a, b, n; .reg .pred p;
	mov.u32 a, %envreg2; mov.u32 b, %envreg1; mov.b64 w, {a, b}; mov.u32 n, %nctaid.x;
	atom.global.add.u32 a, [w+4], 1;
again: ld.volatile.global.u32 a, [w+4]; setp.lt.u32 p, a, n; @p bra again;
	ld.param.u64 o, [to]; red.global.add.u32 [o], a; ret; }
.visible .entry pairs(.param .u64 to) .reqnctapercluster 2 {
	.shared .u32 s; .reg .b64 o, x; .reg .b32 a, b, c;
	mov.u32 a, %ctaid.x; add.u32 a, a, 5; st.shared.u32 [s], a;
	barrier.cluster.arrive; barrier.cluster.wait;
	mov.u32 b, %cluster_ctarank; xor.b32 b, b, 1; mov.u32 a, s; mapa.shared::cluster.u32 a, a, b;
	ld.shared::cluster.u32 c, [a]; barrier.cluster.arrive; barrier.cluster.wait;
	ld.param.u64 o, [to]; mov.u32 a, %ctaid.x; mul.wide.u32 x, a, 4; add.u64 o, o, x; st.global.u32 [o], c; ret; }`)
	get := func(name string) driver.Function {
		f, res := r.ModuleGetFunction(r.th, m, name)
		r.must(res)
		return f
	}
	p := r.alloc(strings.Repeat("\x00", 32))
	for range 2 {
		r.must(r.LaunchCooperativeKernel(r.th, get("grid"), 8, 1, 1, 1, 1, 1, 0, 0, params(p)))
	}
	r.must(r.CtxSynchronize(r.th))
	if got := r.wordsAt(p, 1)[0]; got != 2*8*8 {
		t.Errorf("got %d", got)
	}
	r.must(r.launchGrid(get("pairs"), 8, 1, 1, 1, 0, p))
	for i, v := range r.wordsAt(p, 8) {
		if want := uint32(i^1) + 5; v != want {
			t.Errorf("block %d got %d, want %d", i, v, want)
		}
	}
}

// TestExecuteClustered writes to the shared memory of a cluster from a stream and from a graph. The launch needs a size
// of clusters.
func TestExecuteClustered(t *testing.T) {
	const body = `{ .shared .align 8 .b8 sh[16]; .reg .b32 s;
	mov.u32 s, sh; mbarrier.init.shared.b64 [s+8], 1;
	st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [s], s, [s+8]; ret; }
`
	size := driver.LaunchAttribute{ID: driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION}
	for i := range 3 {
		size.Value[4*i] = 1
	}
	for _, tt := range []struct {
		kernel string
		count  uint32 // of attributes
		want   driver.Result
	}{
		{"required", 0, ok},
		{"plain", 1, ok},
		{"plain", 0, driver.ResultIllegalInstruction},
	} {
		for _, graph := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.kernel, tt.count, graph), func(t *testing.T) {
				r := newLab(t)
				f, res := r.ModuleGetFunction(r.th, r.load(".version 8.1\n.target sm_90\n.address_size 64\n"+
					".entry plain() "+body+".entry required() .reqnctapercluster 1, 1, 1 "+body), tt.kernel)
				r.must(res)
				s, res := r.StreamCreate(r.th, driver.CU_STREAM_NON_BLOCKING)
				r.must(res)
				if graph {
					r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
				}
				r.must(r.LaunchKernelEx(r.th, &driver.LaunchConfig{GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1,
					BlockZ: 1, Stream: s, Attributes: &size, Count: tt.count}, f, driver.KernelParams{}))
				if graph {
					g, res := r.StreamEndCapture(r.th, s)
					r.must(res)
					x, res := r.GraphInstantiateWithFlags(r.th, g, 0)
					r.must(res)
					r.must(r.GraphLaunch(r.th, x, s))
					defer func() { r.GraphExecDestroy(r.th, x); r.GraphDestroy(r.th, g) }()
				}
				r.want("the launch", tt.want, r.StreamSynchronize(r.th, s))
				r.takeMisuses()
			})
		}
	}
}

// TestExecuteWithoutWorkspace launches a cooperative grid when no memory is left on the device.
func TestExecuteWithoutWorkspace(t *testing.T) {
	r := newLab(t)
	f, res := r.ModuleGetFunction(r.th, r.load(header+".entry one() { .reg .b32 a; mov.u32 a, 1; ret; }"), "one")
	r.must(res)
	free, _, res := r.MemGetInfo(r.th)
	r.must(res)
	p, res := r.MemAlloc(r.th, free)
	r.must(res)
	r.must(r.LaunchCooperativeKernel(r.th, f, 1, 1, 1, 1, 1, 1, 0, 0, params()))
	r.want("the launch", driver.ResultLaunchFailed, r.CtxSynchronize(r.th))
	if text := r.Misuses()[0].What; !strings.Contains(text, "no memory is left for the barrier") {
		t.Errorf("the report is %q", text)
	}
	r.takeMisuses()
	r.MemFree(r.th, p)
}

// TestLimits sets limits, and compares what they are then with an H200 (driver 580, 2026-11-28).
func TestLimits(t *testing.T) {
	const stack, printf, heap, depth = driver.CU_LIMIT_STACK_SIZE, driver.CU_LIMIT_PRINTF_FIFO_SIZE,
		driver.CU_LIMIT_MALLOC_HEAP_SIZE, driver.CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH
	r := newLab(t)
	for limit, want := range map[int32]map[uint64]uint64{
		printf: {0: 512 << 10, 1: 512 << 10, 65537: 512 << 10, 100_000: 512 << 10, 1 << 20: 1 << 20,
			1<<20 + 1: 1<<20 + 256, 2 << 20: 2 << 20, 8650751: 8650752, 8650753: 8651008, 1 << 30: 1 << 30,
			1 << 40: 2 << 30},
		heap: {0: 4 << 20, 1: 4 << 20, 1000: 4 << 20, 65537: 4 << 20, 2 << 20: 4 << 20, 8650751: 8650752,
			8650753: 8716288, 12345678: 12386304, 16 << 20: 16 << 20, 1 << 30: 1 << 30, 1 << 40: 17681179680},
	} {
		old, res := r.CtxGetLimit(r.th, limit)
		r.must(res)
		for v, want := range want {
			r.must(r.CtxSetLimit(r.th, limit, v))
			if got, res := r.CtxGetLimit(r.th, limit); got != want || res != ok {
				t.Errorf("limit %d: after %d it is %d, %v; want %d", limit, v, got, res, want)
			}
		}
		r.must(r.CtxSetLimit(r.th, limit, old))
	}
	for _, tt := range [][2]uint64{{1023, 1023}, {1024, 1024}, {0, 0}, {1, 16}, {1024, 1024}, {4096, 4096},
		{65535, 65536}, {65536, 65536}, {65537, 65552}, {100_000, 100_000}, {523_712, 523_712}, {1024, 1024}} {
		r.must(r.CtxSetLimit(r.th, stack, tt[0]))
		if got, res := r.CtxGetLimit(r.th, stack); got != tt[1] || res != ok {
			t.Errorf("after %d the stack is %d, %v; want %d", tt[0], got, res, tt[1])
		}
	}
	free, _, res := r.MemGetInfo(r.th)
	r.must(res)
	half, res := r.MemAlloc(r.th, free/2)
	r.must(res)
	r.want("more stacks than memory", driver.ResultOutOfMemory, r.CtxSetLimit(r.th, stack, 337_136))
	r.must(r.MemFree(r.th, half))
	for _, v := range []uint64{523_713, 523_728, 1 << 20, 1<<20 + 1, 8650753, 1 << 30, 1 << 40} {
		r.want("a large stack", driver.ResultInvalidValue, r.CtxSetLimit(r.th, stack, v))
		if got, _ := r.CtxGetLimit(r.th, stack); got != 1024 {
			t.Errorf("a stack of %d bytes that is refused makes the limit %d", v, got)
		}
	}
	for _, v := range []uint64{0, 1, 1024, 1 << 40} {
		r.want("the depth", driver.ResultUnsupportedLimit, r.CtxSetLimit(r.th, depth, v))
	}
	// The largest numbers do not overflow.
	r.want("the largest stack", driver.ResultInvalidValue, r.CtxSetLimit(r.th, stack, math.MaxUint64))
	for limit, want := range map[int32]uint64{printf: 2 << 30, heap: 17681179680} {
		r.must(r.CtxSetLimit(r.th, limit, math.MaxUint64))
		if got, _ := r.CtxGetLimit(r.th, limit); got != want {
			t.Errorf("the most of limit %d is %d", limit, got)
		}
	}
}

// TestHeapLimit sets the size of the heap before and after a kernel that allocates, and allocates more
// in the heap than a cooperative grid leaves.
func TestHeapLimit(t *testing.T) {
	r := newLab(t)
	const limit = driver.CU_LIMIT_MALLOC_HEAP_SIZE
	set := func(n uint64, want driver.Result) {
		t.Helper()
		r.want("the limit", want, r.CtxSetLimit(r.th, limit, n))
	}
	m := r.load(heapPTX + `.visible .entry most(.param .u64 to) {
	.reg .b64 a, p; .reg .pred q; ld.param.u64 a, [to];
again: { .param .b64 n; .param .b64 r; st.param.b64 [n], 65536; call.uni (r), malloc, (n); ld.param.b64 p, [r]; }
	setp.eq.u64 q, p, 0; @q ret; atom.global.add.u64 p, [a], 1; bra again; }
.visible .entry other() { .reg .b32 a; mov.u32 a, 1; ret; }`)
	get := func(name string) driver.Function {
		f, res := r.ModuleGetFunction(r.th, m, name)
		r.must(res)
		return f
	}
	r.must(r.launchGrid(get("other"), 1, 1, 1, 1, 0))
	set(64<<16, ok)
	p := r.alloc(strings.Repeat("\x00", 8))
	for range 2 {
		r.must(r.LaunchCooperativeKernel(r.th, get("most"), 1, 1, 1, 1, 1, 1, 0, 0, params(p)))
		r.must(r.CtxSynchronize(r.th))
	}
	if n := r.wordsAt(p, 1)[0]; n != 64 {
		t.Errorf("%d allocations", n)
	}
	set(64<<16, driver.ResultInvalidValue)
	if n, _ := r.CtxGetLimit(r.th, limit); n != 64<<16 {
		t.Errorf("the limit is %d", n)
	}
}
