//go:build unix

package compile

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// cpuTime returns the time for which the process has used processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// loop returns a kernel that executes instructions n times.
func loop(n int, body string) string {
	return textHeader + fmt.Sprintf(`.visible .entry k(.param .u64 in) {
		.reg .b32 a, b, c, n, m; .shared .b32 sh[128]; .reg .f32 f, g, h; .reg .pred p, q; .reg .b64 x, y; .reg .f64 d, e;
		ld.param.u64 x, [in]; mov.u32 a, %%tid.x; mul.wide.u32 y, a, 4; add.u64 x, x, y; mov.u32 b, 7; mov.u32 c, 9;
		mov.u32 n, 0; mov.f32 f, 0f3F800000; mov.f32 g, 0f3F000000; mov.f32 h, 0f3E000000;
		mov.u32 m, sh; shl.b32 n, a, 2; add.u32 m, m, n; mov.u32 n, 0;
		mov.f64 d, 0d3FF0000000000000; mov.f64 e, 0d3FE0000000000000;
	again: %s
		add.u32 n, n, 1; setp.lt.u32 p, n, %d; @p bra again; ret; }`, body, n)
}

// BenchmarkLoops measures how many instructions of threads are executed in a second.
func BenchmarkLoops(b *testing.B) {
	for name, body := range map[string]string{
		"integer": strings.Repeat("add.u32 a, a, b; xor.b32 b, b, c; mad.lo.u32 c, a, b, c; shl.b32 b, b, 1;", 4),
		"float":   strings.Repeat("fma.rn.f32 f, g, h, f; mul.f32 g, g, h; add.f32 h, f, g; fma.rn.f32 h, f, g, h;", 4),
		"double":  strings.Repeat("fma.rn.f64 d, d, e, d; mul.f64 d, d, e; add.f64 d, d, e; sub.f64 d, d, e;", 4),
		"memory":  strings.Repeat("ld.global.u32 a, [x]; add.u32 a, a, b; st.global.u32 [x], a; add.u32 c, c, a;", 4),
		"shared":  strings.Repeat("ld.shared.u32 a, [m]; add.u32 a, a, b; st.shared.u32 [m], a; ld.global.u32 c, [x];", 4),
		"mixed":   strings.Repeat("setp.lt.s32 q, a, b; selp.b32 c, a, b, q; min.s32 b, a, c; cvt.rn.f32.u32 f, c;", 4),
	} {
		b.Run(name, func(b *testing.B) {
			m, err := Parse(loop(2000, body))
			if err != nil {
				b.Fatal(err)
			}
			k, err := m.Kernel("k")
			if err != nil {
				b.Fatal(err)
			}
			data := make([]uint64, 1024)
			l := launchOf(k, 1, 128, memory{1 << 32: vm.BytesOf(data)}, []uint64{1 << 32})
			l.Workers, l.Resident = 1, 1
			n, begun := uint64(0), cpuTime()
			for b.Loop() {
				work, fault := l.Execute(new(vm.Stop))
				if fault != nil {
					b.Fatalf("%+v", fault)
				}
				n += work.Instructions
			}
			b.ReportMetric(float64(n*vm.Lanes)/1e6/(cpuTime()-begun).Seconds(), "Minst/s")
		})
	}
}

// BenchmarkKernels executes kernels as nvcc has compiled them, on two processors. It measures how many elements they
// compute in a second of a processor: products, cells, numbers.
func BenchmarkKernels(b *testing.B) {
	files := recordedKernels(b)
	for _, k := range []struct {
		name, file, launch string
		buffers            []string
		elements           float64
	}{
		{"product", "matmul", "launch matmul 32,32 16,16 0 c a b u32:512",
			[]string{"a f32 262144 rand", "b f32 262144 rand", "c f32 262144 zero"}, 512 * 512 * 512},
		{"product64", "matmul", "launch matmul64 16,16 16,16 0 c a b u32:256",
			[]string{"a f32 65536 rand", "b f32 65536 rand", "c f64 65536 zero"}, 256 * 256 * 256},
		{"stencil", "conv", "launch conv2d 64,64 16,16 0 out in u32:1024",
			[]string{"in f32 1048576 rand", "out f32 1048576 zero"}, 1024 * 1024},
		{"reduction", "reduce", "launch reduce_float 4096 256 0 r f",
			[]string{"f f32 1048576 mod:256", "r f32 4096 zero"}, 1024 * 1024},
		{"sort", "sort", "launch bitonic 1 256 0 a u32:512", []string{"a u32 512 rand"}, 512},
		{"bodies", "nbody", "launch nbody 16 64 0 v p u32:1024 f32:0.01",
			[]string{"p f32 4096 rand", "v f32 4096 zero"}, 1024 * 1024},
		{"bytes", "conv", "launch blur8 128,128 8,8 0 blur bytes u32:1024 u32:1024",
			[]string{"bytes u8 1048576 rand", "blur u8 1048576 zero"}, 1024 * 1024},
	} {
		b.Run(k.name, func(b *testing.B) {
			s, err := newScene(files[k.file+".sm_90.O.ptx"])
			if err != nil {
				b.Fatal(err)
			}
			for _, line := range k.buffers {
				s.buffer(strings.Fields("buf " + line))
			}
			n, begun := 0.0, cpuTime()
			for b.Loop() {
				if err := s.launch(strings.Fields(k.launch)); err != nil || s.fault != nil {
					b.Fatal(err, s.fault)
				}
				n += k.elements
			}
			b.ReportMetric(n/1e6/(cpuTime()-begun).Seconds(), "M/s")
		})
	}
}

// TestLargeText reads and translates a text of 100,000 lines.
func TestLargeText(t *testing.T) {
	var b strings.Builder
	b.WriteString(textHeader + ".visible .entry k(.param .u64 p) {\n.reg .b32 %r<100000>; .reg .pred %p<10>;\nmov.u32 %r0, %tid.x;\n")
	for i := range 100_000 {
		fmt.Fprintf(&b, "\tadd.s32 \t%%r%d, %%r%d, %d;\n", i%50_000+1, i%50_000, i)
	}
	b.WriteString("ret;\n}\n")
	begun := cpuTime()
	m, err := Parse(b.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Kernel("k"); err != nil {
		t.Fatal(err)
	}
	t.Logf("it took %v", cpuTime()-begun)
}
