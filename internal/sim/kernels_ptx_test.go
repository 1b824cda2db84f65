package sim

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// ptxFile returns a kernel of a file in testdata.
func (r *lab) ptxFile(file, kernel string) driver.Function {
	r.t.Helper()
	text, err := os.ReadFile("testdata/ptx/" + file + ".ptx")
	if err != nil {
		r.t.Fatal(err)
	}
	f, res := r.ModuleGetFunction(r.th, r.load(string(text)), kernel)
	r.must(res)
	return f
}

// launchGrid launches a kernel with blocks of one or two dimensions, and waits for it.
func (r *lab) launchGrid(f driver.Function, gx, gy, bx, by, shared uint32, args ...any) driver.Result {
	r.t.Helper()
	r.must(r.LaunchKernel(r.th, f, gx, gy, 1, bx, by, 1, shared, 0, params(args...)))
	return r.CtxSynchronize(r.th)
}

// series returns the bytes of words.
func series(n int, f func(i int) uint32) string {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, f(i))
	}
	return string(b)
}

// wordsAt returns words of memory.
func (r *lab) wordsAt(p driver.DevicePtr, n int) (list []uint32) {
	s := r.read(p, 4*n)
	for i := range n {
		list = append(list, binary.LittleEndian.Uint32([]byte(s[4*i:])))
	}
	return list
}

func TestExecuteVectorAdd(t *testing.T) {
	r := newLab(t)
	const n = 1000
	a := r.alloc(series(n, func(i int) uint32 { return math.Float32bits(float32(i)) }))
	b := r.alloc(series(n, func(i int) uint32 { return math.Float32bits(0.5) }))
	c := r.alloc(series(n+24, func(int) uint32 { return 7 }))
	r.must(r.launchGrid(r.ptxFile("vecadd", "vecadd"), 8, 1, 128, 1, 0, c, a, b, uint32(n)))
	for i, v := range r.wordsAt(c, n+24) {
		want := math.Float32bits(float32(i) + 0.5)
		if i >= n {
			want = 7
		}
		if v != want {
			t.Fatalf("c[%d] is %x, want %x", i, v, want)
		}
	}
}

func TestExecuteMatrixProduct(t *testing.T) {
	r := newLab(t)
	const n = 64
	value := func(seed int) func(i int) uint32 {
		return func(i int) uint32 { return math.Float32bits(float32((i*seed)%17) - 8) }
	}
	a, b := r.alloc(series(n*n, value(5))), r.alloc(series(n*n, value(11)))
	c := r.alloc(series(n*n, func(int) uint32 { return 0 }))
	r.must(r.launchGrid(r.ptxFile("matmul", "matmul"), n/16, n/16, 16, 16, 0, c, a, b, uint32(n)))
	for i, v := range r.wordsAt(c, n*n) {
		want := 0
		for k := range n {
			want += ((i/n*n+k)*5%17 - 8) * ((k*n+i%n)*11%17 - 8)
		}
		if got := math.Float32frombits(v); got != float32(want) {
			t.Fatalf("c[%d] is %v, want %d", i, got, want)
		}
	}
}

func TestExecuteWarps(t *testing.T) {
	r := newLab(t)
	const n = 5000
	data := series(n, func(i int) uint32 { return uint32(i*i + 1) })
	in, zero := r.alloc(data), series(256, func(int) uint32 { return 0 })
	sum := uint32(0)
	for i := range n {
		sum += uint32(i*i + 1)
	}
	out := r.alloc(zero)
	f := r.ptxFile("warps", "sum")
	r.must(r.launchGrid(f, 20, 1, 256, 1, 0, out, in, uint32(n)))
	if got := r.wordsAt(out, 1)[0]; got != sum {
		t.Errorf("the sum is %d, want %d", got, sum)
	}
	total, _, res := r.ModuleGetGlobal(r.th, driver.Module(r.functionModule(f)), "total")
	r.must(res)
	if got := r.wordsAt(total, 1)[0]; got != 100+sum {
		t.Errorf("the variable is %d, want %d", got, 100+sum)
	}

	out = r.alloc(zero)
	r.must(r.launchGrid(r.ptxFile("warps", "histogram"), 3, 1, 256, 1, 1024, out, in, uint32(4*n)))
	var count [256]uint32
	for _, c := range []byte(data) {
		count[c]++
	}
	if got := r.wordsAt(out, 256); [256]uint32(got) != count {
		t.Errorf("the histogram is %v, want %v", got, count)
	}

	out = r.alloc(zero)
	r.must(r.launchGrid(r.ptxFile("warps", "locked"), 4, 1, 96, 1, 0, out, out+4))
	if got := r.wordsAt(out, 2); got[0] != 4*96 || got[1] != 0 {
		t.Errorf("the counter and the lock are %d", got)
	}

	out = r.alloc(zero)
	r.must(r.launchGrid(r.ptxFile("warps", "crowd"), 1, 1, 32, 1, 0, out))
	if got := r.wordsAt(out, 2); got[0] != 0 || got[1] != 31 {
		t.Errorf("the lock and the counter are %d", got)
	}

	out = r.alloc(zero)
	r.must(r.launchGrid(r.ptxFile("warps", "meet"), 1, 1, 32, 1, 0, out))
	for i, v := range r.wordsAt(out, 32) {
		want := uint32(i^1) << 16
		if i < 16 {
			want |= 7
		}
		if v != want {
			t.Errorf("lane %d has %#x, want %#x", i, v, want)
		}
	}

	out = r.alloc(series(10, func(int) uint32 { return 1 << 31 }))
	r.must(r.launchGrid(r.ptxFile("warps", "wide"), 1, 1, 1, 1, 0, out))
	if got := r.wordsAt(out+8, 8); !slices.Equal(got, []uint32{1 << 31, 0, 1 << 31, math.MaxUint32, 1 << 31, 0,
		1 << 31, math.MaxUint32}) {
		t.Errorf("the wide words are %#x", got)
	}

	out = r.alloc(zero)
	r.must(r.launchGrid(r.ptxFile("warps", "behind"), 1, 1, 32, 1, 0, out))
	for i, v := range r.wordsAt(out, 32) {
		if v != uint32(i^16) {
			t.Errorf("lane %d has %d", i, v)
		}
	}

	out = r.alloc(series(200, func(i int) uint32 { return uint32(i) }))
	r.must(r.launchGrid(r.ptxFile("warps", "scan"), 1, 1, 200, 1, 800, out))
	for i, v := range r.wordsAt(out, 200) {
		if int(v) != i*(i+1)/2 {
			t.Fatalf("sum %d is %d", i, v)
		}
	}

	out = r.alloc(zero)
	r.must(r.launchGrid(r.ptxFile("warps", "calls"), 1, 1, 40, 1, 0, out))
	for i, v := range r.wordsAt(out, 40) {
		want := uint32(1)
		for range i {
			want *= []uint32{2, 3, 5}[i%3]
		}
		if i%2 == 0 {
			want += 1000
		}
		if v != want {
			t.Errorf("word %d is %d, want %d", i, v, want)
		}
	}

	out = r.alloc(zero)
	r.must(r.launchGrid(r.ptxFile("warps", "relay"), 64, 1, 1, 1, 0, out))
	if got := r.wordsAt(out, 65); got[0] != 1 || got[63] != 1 || got[64] != 0 {
		t.Errorf("the flags are %d", got)
	}
}

// functionModule returns the module of a kernel.
func (r *lab) functionModule(f driver.Function) driver.Module {
	r.mu.Lock()
	defer r.mu.Unlock()
	object, _ := r.objects.find(uintptr(f))
	return object.(*function).module.handle
}

// TestExecutePoll executes a kernel that waits for the host, while other calls are made.
func TestExecutePoll(t *testing.T) {
	r := newLab(t)
	flag, address := r.pinned("\x00\x00\x00\x00")
	out := r.alloc("----")
	s := r.newStream()
	r.must(r.LaunchKernel(r.th, r.ptxFile("warps", "poll"), 1, 1, 1, 32, 1, 1, 0, s, params(uint64(address), out)))
	other := r.alloc("another allocation")
	r.want("query", driver.ResultNotReady, r.StreamQuery(r.th, s))
	if got := r.read(other, 7); got != "another" {
		t.Errorf("read %q", got)
	}
	store32(flag, 42)
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.wordsAt(out, 1)[0]; got != 42 {
		t.Errorf("the kernel has stored %d", got)
	}
}

// TestExecutePollVirtual executes a kernel that waits for the host with virtual time, for longer than the
// time waits for it.
func TestExecutePollVirtual(t *testing.T) {
	launch := func(r *lab) (flag []byte, out driver.DevicePtr, s driver.Stream) {
		r.engine.Settling = 20 * time.Millisecond
		flag, address := r.pinned("\x00\x00\x00\x00")
		out, s = r.alloc("----"), r.newStream()
		r.must(r.LaunchKernel(r.th, r.ptxFile("warps", "poll"), 1, 1, 1, 32, 1, 1, 0, s, params(uint64(address), out)))
		for range 100 { // a spin after another ends in each of them
			r.spin(r.newStream(), time.Millisecond)
		}
		begun := time.Now()
		for range 10 {
			r.Advance(time.Second)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("10 times Advance took %v", took)
		}
		r.want("the kernel", driver.ResultNotReady, r.StreamQuery(r.th, s))
		return flag, out, s
	}
	t.Run("written", func(t *testing.T) {
		r := newLab(t, VirtualTime())
		flag, out, s := launch(r)
		store32(flag, 42)
		for range 200 {
			r.Advance(time.Second)
			if r.StreamQuery(r.th, s) == ok {
				break
			}
		}
		r.want("the kernel", ok, r.StreamQuery(r.th, s))
		if got := r.wordsAt(out, 1)[0]; got != 42 {
			t.Errorf("the kernel has stored %d", got)
		}
	})
	t.Run("not written", func(t *testing.T) {
		r := newLab(t, VirtualTime())
		_, _, s := launch(r)
		r.Finish()
		r.want("the kernel", driver.ResultLaunchTimeout, r.StreamQuery(r.th, s))
		if text := r.Misuses()[0].What; !strings.Contains(text, `kernel "poll" has not ended for `) ||
			!strings.Contains(text, "Then it was at thread (0, 0, 0) of block (0, 0, 0), at line ") {
			t.Errorf("the report is %q", text)
		}
		r.takeMisuses()
	})
}

// TestExecuteStopped executes kernels that never end, and makes them end.
func TestExecuteStopped(t *testing.T) {
	for name, end := range map[string]func(r *lab){
		"poison": func(r *lab) { r.Poison(int(driver.ResultLaunchFailed)) },
		"fault": func(r *lab) {
			r.must(r.LaunchKernel(r.th, r.ptxFile("warps", "traps"), 1, 1, 1, 1, 1, 1, 0, r.newStream(), params()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			_, flag := r.pinned("\x00\x00\x00\x00")
			s := r.newStream()
			r.must(r.LaunchKernel(r.th, r.ptxFile("warps", "poll"), 100, 1, 1, 64, 1, 1, 0, s,
				params(uint64(flag), uint64(flag))))
			end(r)
			r.want("the wait", driver.ResultLaunchFailed, r.StreamSynchronize(r.th, s))
		})
	}
}

// TestExecuteLimit executes a kernel that never ends, and one that ends in time.
func TestExecuteLimit(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		opts := []Option{KernelLimit(50 * time.Millisecond)}
		if virtual {
			opts = append(opts, VirtualTime())
		}
		r := newLab(t, opts...)
		word, flag := r.pinned("\x01\x00\x00\x00") // the first kernel finds what it waits for
		poll, s := r.ptxFile("warps", "poll"), r.newStream()
		done := func() driver.Result {
			if virtual {
				for range 200 {
					r.Advance(time.Second)
					if res := r.StreamQuery(r.th, s); res != driver.ResultNotReady {
						return res
					}
				}
			}
			return r.StreamSynchronize(r.th, s)
		}
		launch := func() {
			r.must(r.LaunchKernel(r.th, poll, 100, 1, 1, 64, 1, 1, 0, s, params(uint64(flag), uint64(flag))))
		}
		launch()
		r.want("a short kernel", ok, done())
		store32(word, 0)
		launch()
		r.want("a kernel that waits", driver.ResultLaunchTimeout, done())
		_, res := r.MemAlloc(r.th, 4)
		r.want("another call", driver.ResultLaunchTimeout, res)
		text := r.Misuses()[0].What
		if !strings.Contains(text, `kernel "poll" ends with CUDA_ERROR_LAUNCH_TIMEOUT: thread (`) ||
			!strings.Contains(text, "at line ") || !strings.Contains(text, "executed for longer than 50ms") {
			t.Errorf("the report is %q", text)
		}
		r.takeMisuses()
	}
}

// TestExecuteVirtualTime executes kernels with virtual time: how long they take depends on nothing but
// their instructions.
func TestExecuteVirtualTime(t *testing.T) {
	r := newLab(t, VirtualTime())
	s := r.newStream()
	wait := r.ptxFile("warps", "wait")
	for range 3 {
		r.must(r.launchOn(s, wait, 1, params(uint32(1e6))))
	}
	r.want("at once", driver.ResultNotReady, r.StreamQuery(r.th, s))
	r.Advance(3 * 995 * time.Microsecond)
	r.want("too early", driver.ResultNotReady, r.StreamQuery(r.th, s))
	r.Advance(3 * 20 * time.Microsecond)
	r.want("later", ok, r.StreamQuery(r.th, s))
}

func TestExecuteFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		kernel  string
		threads uint32
		offset  driver.DevicePtr
		want    driver.Result
		report  []string
	}{
		"beyond": {"writes", 3, 0, driver.ResultIllegalAddress, []string{
			`kernel "writes" ends with CUDA_ERROR_ILLEGAL_ADDRESS: thread (2, 0, 0) of block (0, 0, 0), at line`,
			"of the PTX, st.global.u32 writes 4 bytes at 0x17f", "; the nearest memory is 16 bytes at 0x17f",
			"which ends 0 bytes before"}},
		"misaligned": {"writes", 1, 2, driver.ResultMisalignedAddress, []string{"thread (0, 0, 0)",
			"st.global.u32 writes 4 bytes"}},
		"trap": {"traps", 1, 0, driver.ResultLaunchFailed, nil},
		"deadlock": {"stuck", 32, 0, driver.ResultLaunchFailed,
			[]string{"bar.sync: all threads of the block wait for each other"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			f := r.ptxFile("warps", tt.kernel)
			p := r.alloc(strings.Repeat("x", 16))
			r.want(name, tt.want, r.launchGrid(f, 1, 1, tt.threads, 1, 0, p+tt.offset))
			text := ""
			for _, m := range r.Misuses() {
				text += m.What
			}
			for _, part := range tt.report {
				if !strings.Contains(text, part) {
					t.Errorf("the report %q does not contain %q", text, part)
				}
			}
			if len(tt.report) == 0 && text != "" {
				t.Errorf("unexpected report %q", text)
			}
			r.takeMisuses()
		})
	}
}

// TestExecuteFreed makes a kernel use memory that is freed, and whose source is known.
func TestExecuteFreed(t *testing.T) {
	r := newLab(t)
	m := r.load(header + ".file 1 \"sum.cu\"\n.entry sum(.param .u64 a) { .reg .b64 %r0; ld.param.u64 %r0, [a];\n" +
		".loc 1 42 7\nld.global.u8 %r0, [%r0+5];\nret; }")
	f, res := r.ModuleGetFunction(r.th, m, "sum")
	r.must(res)
	p, res := r.MemAlloc(r.th, 100)
	r.must(res)
	r.want("before", ok, r.launchGrid(f, 1, 1, 1, 1, 0, p))
	if n := r.Instructions("sum"); n < 3 || n > 10 {
		t.Errorf("%d instructions", n)
	}
	r.must(r.MemFree(r.th, p))
	r.want("after", driver.ResultIllegalAddress, r.launchGrid(f, 1, 1, 1, 1, 0, p))
	report := r.Misuses()[0]
	for _, part := range []string{"at line 7 of the PTX (sum.cu:42), ld.global.u8 reads 1 bytes",
		"; this was in memory of 100 bytes at 0x17f", "which is freed"} {
		if !strings.Contains(report.What, part) {
			t.Errorf("the report %q does not contain %q", report.What, part)
		}
	}
	if !strings.Contains(report.Destroyed, "TestExecuteFreed") {
		t.Errorf("it was freed by %q", report.Destroyed)
	}
	r.takeMisuses()
}

// TestExecuteParameterStore makes a kernel write to its parameters.
func TestExecuteParameterStore(t *testing.T) {
	r := newLab(t)
	m := r.load(header + ".entry stores(.param .u64 a) { .reg .b64 %r<3>; mov.u64 %r0, a; cvta.param.u64 %r1, %r0; " +
		"ld.u64 %r2, [%r1]; st.u64 [%r1], %r2; ret; }")
	f, res := r.ModuleGetFunction(r.th, m, "stores")
	r.must(res)
	r.want("a store", driver.ResultIllegalAddress, r.launchGrid(f, 1, 1, 1, 1, 0, driver.DevicePtr(1)))
	if text := r.Misuses()[0].What; !strings.Contains(text, "st.u64 writes 8 bytes") || !strings.Contains(text, "in the parameters") {
		t.Errorf("the report is %q", text)
	}
	r.takeMisuses()
}

// TestExecuteDynamicAlignment checks the place of dynamic shared memory behind static shared memory.
func TestExecuteDynamicAlignment(t *testing.T) {
	r := newLab(t)
	m := r.load(header + ".extern .shared .align 128 .b8 d[]; .entry aligned(.param .u64 a) { .reg .b64 %r0; .reg .b32 %s; " +
		".shared .b8 s[20]; st.shared.u8 [s+19], 1; ld.param.u64 %r0, [a]; mov.u32 %s, d; st.global.u32 [%r0], %s; " +
		"st.shared.u8 [d+31], 1; ret; }")
	f, res := r.ModuleGetFunction(r.th, m, "aligned")
	r.must(res)
	p := r.alloc("1234")
	r.want("launch", ok, r.launchGrid(f, 1, 1, 1, 1, 32, p))
	if at := binary.LittleEndian.Uint32([]byte(r.read(p, 4))); at != 1024+128 {
		t.Errorf("it begins at %d", at)
	}
	if n, _ := r.FuncGetAttribute(r.th, driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f); n != 20 {
		t.Errorf("there are %d bytes of static shared memory", n)
	}
}

// TestExecutePeers makes a kernel write to the memory of another device.
func TestExecutePeers(t *testing.T) {
	for name, want := range map[string]driver.Result{"peer access": ok, "no peer access": driver.ResultIllegalAddress} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, Devices(2))
			f := r.ptxFile("warps", "writes")
			other := r.primary(1)
			r.must(r.CtxSetCurrent(r.th, other))
			p, res := r.MemAlloc(r.th, 64)
			r.must(res)
			r.must(r.CtxSetCurrent(r.th, r.ctx))
			if want == ok {
				r.must(r.CtxEnablePeerAccess(r.th, other, 0))
			}
			r.want(name, want, r.launchGrid(f, 1, 1, 2, 1, 0, p))
			r.takeMisuses()
			r.MemFree(r.th, p)
			r.DevicePrimaryCtxRelease(nil, 1)
		})
	}
}

// BenchmarkExecuteEmpty launches a kernel that does hardly anything, and waits for it.
func BenchmarkExecuteEmpty(b *testing.B) {
	d := New()
	th := new(driver.Thread)
	d.Init(nil, 0)
	c, _ := d.DevicePrimaryCtxRetain(nil, 0)
	d.CtxSetCurrent(th, c)
	m, _, _ := d.ModuleLoadLog(th, []byte(header+".entry e(.param .u64 a) { .reg .b32 %r; mov.u32 %r, %tid.x; ret; }"), nil)
	f, _ := d.ModuleGetFunction(th, m, "e")
	for b.Loop() {
		if r := d.LaunchKernel(th, f, 1, 1, 1, 32, 1, 1, 0, 0, params(uint64(1))); r != ok {
			b.Fatal(r)
		}
		d.CtxSynchronize(th)
	}
}

// BenchmarkExecuteLaunches launches the same kernel many times, and waits for all.
func BenchmarkExecuteLaunches(b *testing.B) {
	for name, body := range map[string]string{"returns": "ret;", "moves": ".reg .b32 %r; mov.u32 %r, %tid.x; ret;"} {
		b.Run(name, func(b *testing.B) {
			d := New()
			th := new(driver.Thread)
			d.Init(nil, 0)
			c, _ := d.DevicePrimaryCtxRetain(nil, 0)
			d.CtxSetCurrent(th, c)
			m, _, _ := d.ModuleLoadLog(th, []byte(header+".entry e(.param .u64 a) { "+body+" }"), nil)
			f, _ := d.ModuleGetFunction(th, m, "e")
			for n := 0; b.Loop(); n++ {
				if r := d.LaunchKernel(th, f, 1, 1, 1, 32, 1, 1, 0, 0, params(uint64(1))); r != ok {
					b.Fatal(r)
				}
				if n%100 == 0 {
					d.CtxSynchronize(th)
				}
			}
			d.CtxSynchronize(th)
		})
	}
}

// TestExecuteVariablesOfFunctions checks variables in global and constant memory that functions declare:
// each has one place and an initial value, and hides others with its name.
func TestExecuteVariablesOfFunctions(t *testing.T) {
	r := newLab(t)
	f, res := r.ModuleGetFunction(r.th, r.load(header+`.global .u32 count = 90;
		.func (.reg .u32 n) next() { .global .u32 count = 40; .const .b32 step[2] = {0, 2}; .reg .u32 s;
			ld.const.u32 s, [step+4];
			atom.global.add.u32 n, [count], s; { .global .u32 count = 500; ld.global.u32 s, [count]; add.u32 n,
			n, s; } ret; }
		.entry functions(.param .u64 out) { .reg .b32 r<5>; .reg .b64 o, d; ld.param.u64 o, [out];
			ld.global.u32 r0, [count];
			{ .global .align 8 .b8 count[2] = {1, 2}; ld.global.u8 r1, [count+1]; mov.u64 d, count; ld.u8 r2, [d]; }
			call (r3), next, (); call (r4), next, ();
			st.global.v4.u32 [o], {r0, r1, r2, r3}; st.global.u32 [o+16], r4; ret; }`), "functions")
	r.must(res)
	out := r.alloc(series(5, func(int) uint32 { return 0 }))
	for _, want := range [][]uint32{{90, 2, 1, 540, 542}, {90, 2, 1, 544, 546}} {
		r.must(r.launchGrid(f, 1, 1, 1, 1, 0, out))
		if got := r.wordsAt(out, 5); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
