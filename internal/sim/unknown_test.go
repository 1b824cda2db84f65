package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/driver"
)

// TestUnknownKernels launches kernels without an implementation.
func TestUnknownKernels(t *testing.T) {
	for name, tt := range map[string]struct {
		opts []Option
	}{
		"with a function":     {nil},
		"with another option": {[]Option{RefuseUnknownKernels()}},
	} {
		t.Run(name, func(t *testing.T) {
			var named []string
			var r *lab
			r = newLab(t, append(tt.opts, OnUnknownKernel(func(name string, why error) {
				r.CtxGetCurrent(r.th) // it may call the driver
				named = append(named, name+": "+why.Error())
			}))...)
			s := r.newStream()
			// A kernel that only returns needs no implementation.
			idle, res := r.ModuleGetFunction(r.th, r.load(header+".visible .entry idle(.param .u64 a) {\n\tret;\n}"),
				"idle")
			r.must(res)
			saxpy, other, known := r.kernel("saxpy", ""), r.kernel("other", ""), r.kernel("k", "")
			for range 2 {
				r.want("saxpy", driver.ResultNotSupported, r.launchOn(s, saxpy, 1, driver.KernelParams{}))
				r.want("other", driver.ResultNotSupported, r.launchOn(s, other, 1, driver.KernelParams{}))
				r.must(r.launchOn(s, known, 1, driver.KernelParams{}))
				r.must(r.launchOn(s, idle, 1, params(uint64(1))))
			}
			r.want("the wrong grid", driver.ResultInvalidValue, r.launchOn(s, saxpy, 0, driver.KernelParams{}))
			r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
			r.want("captured", driver.ResultNotSupported, r.launchOn(s, saxpy, 1, driver.KernelParams{}))
			g, res := r.StreamEndCapture(r.th, s)
			r.must(res)
			r.must(r.GraphDestroy(r.th, g))
			r.must(r.StreamSynchronize(r.th, s))
			why := ": line 4: tcgen05.fence::before_thread_sync"
			if diff := cmp.Diff([]string{"saxpy" + why, "other" + why}, named); diff != "" {
				t.Errorf("it was said of (-want +got):\n%s", diff)
			}
			says := func(kernel string) string {
				return "kernel \"" + kernel + "\" is unknown, and its launch is refused: " +
					"say what it does with WithKernel, which takes an empty Kernel if that is nothing; " +
					"its PTX cannot be executed: line 4: tcgen05.fence::before_thread_sync"
			}
			want := []Misuse{
				{Op: "cuLaunchKernel", Handle: uintptr(saxpy), What: says("saxpy"), Count: 3},
				{Op: "cuLaunchKernel", Handle: uintptr(other), What: says("other"), Count: 2},
			}
			if diff := cmp.Diff(want, r.Misuses()); diff != "" {
				t.Errorf("misuses (-want +got):\n%s", diff)
			}
			var complaints complaints
			r.Check(&complaints)
			if n := len(slices.DeleteFunc(complaints, func(c string) bool { return c != "cusim: misuse: %v" })); n != 2 {
				t.Errorf("Check complains %d times", n)
			}
			r.takeMisuses()
		})
	}
}

// TestUnsupported loads modules with kernels that cannot be executed.
func TestUnsupported(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       driver.Result
		log        string
	}{
		{"no PTX", "unsupported.instruction;", driver.ResultInvalidPTX,
			"cusim: line 5, column 3: fatal: kernel x: unsupported.instruction: there is no instruction with this name"},
		{"cubes", "tex.cube.v4.f32.f32 {a, a, a, a}, [t, {a, a, a, a}];", driver.ResultNotSupported,
			"cusim: line 5, column 3: fatal: kernel x: the software driver cannot execute tex.cube.v4.f32.f32"},
		{"tensors", "tcgen05.fence::before_thread_sync;", driver.ResultNotSupported,
			"cusim: line 5, column 3: fatal: kernel x: the software driver cannot execute tcgen05.fence::before_thread_sync"},
		{"a modifier", "add.f128 %x, 1, 2;", driver.ResultNotSupported,
			"cusim: line 5, column 3: fatal: kernel x: the software driver cannot execute add.f128"},
		{"no register", "mov.u32 %x, 1;", driver.ResultInvalidPTX,
			"cusim: line 5, column 3: fatal: kernel x: mov.u32: result %x is no register"},
		{"no label", "bra L;", driver.ResultInvalidPTX, "line 5, column 3: fatal: kernel x: bra: L is no label"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := []byte(header + ".entry k() { ret; } .entry x() {\n  " + tt.body + "\n}")
			r := newLab(t)
			_, log, res := r.ModuleLoadLog(r.th, text, nil)
			r.want("load", tt.want, res)
			if !strings.Contains(log.Error, tt.log) {
				t.Errorf("the log is %q, want %q", log.Error, tt.log)
			}
			if n := len(r.Census()); n != 1 {
				t.Errorf("there are %v", r.Census())
			}
			r = newLab(t, WithKernel("x", Kernel{}))
			r.load(string(text))
		})
	}
}

// TestInvalidTexts loads texts that a GPU's driver refuses, whatever the options say, and texts with what only the
// software driver lacks.
func TestInvalidTexts(t *testing.T) {
	const lacks = "tcgen05.fence::before_thread_sync; "
	const invalid, lacking, accepted = driver.ResultInvalidPTX, driver.ResultNotSupported, ok
	for _, tt := range []struct {
		name, text      string
		want, permitted driver.Result // without an option, and with one that accepts what the driver lacks
	}{
		{"types in a kernel", ".entry x() { .reg .f32 f; .reg .b32 a; add.u32 a, f, f; ret; }", invalid, invalid},
		{"types in a function", ".func g() { .reg .f32 f; .reg .b32 a; add.u32 a, f, f; ret; }", invalid, invalid},
		{"the target", ".func g() { .reg .f32 f; .reg .b32 a; cvt.rn.bf16x2.f32 a, f, f; ret; }", invalid, invalid},
		{"a parameter", ".func g(.param .b64 q) { .reg .b64 x; add.s64 x, q, 8; ret; }", invalid, invalid},
		{"a name", ".func g() { .reg .b32 a; foo.u32 a, a; ret; }", invalid, invalid},
		{"a special register", ".entry x() { .reg .b32 a; mov.u32 a, %tid.q; ret; }", invalid, invalid},
		{"after what is lacking", ".entry x() { " + lacks + "bra L; ret; }", invalid, invalid},
		{"in another kernel", ".entry a() { " + lacks + "ret; } .entry b() { bra L; ret; }", invalid, invalid},
		{"in a function that is called", ".func g() { bra L; ret; } .entry a() { " + lacks + "call g; ret; }", invalid, invalid},
		{"lacking in a kernel", ".entry x() { " + lacks + "ret; }", lacking, accepted},
		{"lacking in a function", ".func g() { " + lacks + "ret; } .entry x() { call g; ret; }", lacking, accepted},
		{"lacking, and not called", ".func g() { " + lacks + "ret; } .entry x() { exit; }", accepted, accepted},
		{"right, and not called", ".func (.param .b32 r) g(.param .b32 x) { .reg .b32 a; ld.param.b32 a, [x]; { .param .b32 y; " +
			"st.param.b32 [y], a; call (r), g, (y); } ret; } .func h() { ret; } .global .b64 p = h;", accepted, accepted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := ".version 8.0 .target sm_70 .address_size 64 " + tt.text
			for _, opts := range [][]Option{nil, {RefuseUnknownKernels()}, {OnUnknownKernel(func(string, error) {})}} {
				want := tt.permitted
				if opts == nil {
					want = tt.want
				}
				r := newLab(t, opts...)
				_, log, res := r.ModuleLoadLog(r.th, []byte(text), nil)
				if r.want("cuModuleLoadData", want, res); (res == ok) != (log.Error == "") {
					t.Errorf("the log is %q", log.Error)
				}
				l, res := r.LinkCreate(r.th, nil, nil)
				r.must(res)
				// A text may need what another one defines: only its syntax matters before the end.
				res = r.LinkAddData(r.th, l, driver.CU_JIT_INPUT_PTX, []byte(text+"\x00"), "t", nil, nil)
				if res == ok {
					_, _, res = r.LinkComplete(r.th, l)
				}
				r.want("cuLinkComplete", want, res)
				r.must(r.LinkDestroy(r.th, l))
			}
		})
	}
}

// complaints is a TB that records the errors of Check.
type complaints []string

func (c *complaints) Helper() {}

func (c *complaints) Errorf(format string, _ ...any) { *c = append(*c, format) }

// TestCensusOfDestroyedContext checks that objects of a destroyed context do not count.
func TestCensusOfDestroyedContext(t *testing.T) {
	r := newLab(t)
	c, res := r.CtxCreate(r.th, nil, 0, 0)
	r.must(res)
	_, _, res = r.ModuleLoadLog(r.th, []byte(header+".global .u64 g;"), nil)
	r.must(res)
	_, res = r.EventCreate(r.th, 0)
	r.must(res)
	_, res = r.StreamCreate(r.th, 0)
	r.must(res)
	want := map[string]int{"context": 2, "module": 1, "event": 1, "stream": 1}
	if diff := cmp.Diff(want, r.Census()); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	r.must(r.CtxDestroy(r.th, c))
	if diff := cmp.Diff(map[string]int{"context": 1}, r.Census()); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
}

// TestMemoryOfContexts checks that a context uses memory of its device.
func TestMemoryOfContexts(t *testing.T) {
	r := newLab(t)
	free := func() uint64 { n, _, _ := r.MemGetInfo(r.th); return n }
	before := free()
	c, res := r.CtxCreate(r.th, nil, 0, 0)
	r.must(res)
	if n := before - free(); n != contextMemory {
		t.Errorf("the second context takes %d bytes", n)
	}
	p, res := r.MemAlloc(r.th, free())
	r.must(res)
	if free() != 0 {
		t.Errorf("%d bytes are free", free())
	}
	_, res = r.CtxCreate(r.th, nil, 0, 0)
	r.want("a context without memory", driver.ResultOutOfMemory, res)
	r.must(r.MemFree(r.th, p))
	r.must(r.CtxDestroy(r.th, c))
	if free() != before {
		t.Errorf("%d bytes are free, %d were", free(), before)
	}
}
