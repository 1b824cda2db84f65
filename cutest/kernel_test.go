package cutest_test

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

const squaresPTX = `.version 7.0 .target sm_70 .address_size 64
.entry squares(.param .u64 to, .param .u64 from, .param .u32 n)
{
	.reg .pred q; .reg .b32 t, b, n; .reg .f32 v; .reg .b64 a, x;
	mov.u32 t, %tid.x; mov.u32 b, %ctaid.x; mad.lo.u32 t, b, 32, t;
	ld.param.u32 n, [n0]; setp.ge.u32 q, t, n; @q ret;
	mul.wide.u32 x, t, 4;
	ld.param.u64 a, [from]; add.u64 a, a, x; ld.global.f32 v, [a]; mul.f32 v, v, v;
	ld.param.u64 a, [to]; add.u64 a, a, x; st.global.f32 [a], v;
	ret;
}`

// TestKernelLimit ends a kernel that never ends by itself.
func TestKernelLimit(t *testing.T) {
	drv, err := cu.Open(cu.WithSoftware(cusim.New(cusim.KernelLimit(20 * time.Millisecond))))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		t.Fatal(err)
	}
	const endless = ".version 7.0 .target sm_70 .address_size 64 .entry endless() { again: bra again; }"
	mod, err := gpu.LoadModule([]byte(endless))
	if err != nil {
		t.Fatal(err)
	}
	f, err := mod.Function("endless")
	if err != nil {
		t.Fatal(err)
	}
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Launch(s, cu.LaunchConfig{Grid: cu.Dim3{X: 300}, Block: cu.Dim3{X: 64}}); err != nil {
		t.Fatal(err)
	}
	err = s.Synchronize()
	if !errors.Is(err, cu.ResultLaunchTimeout) || !cu.NeedsRestart(err) ||
		!strings.Contains(err.Error(), "at line 1 of the PTX, bra: it was executed for longer than 20ms") {
		t.Errorf("the error is %v", err)
	}
	_ = errors.Join(s.Close(), mod.Close(), gpu.Close(), drv.Close()) // which say the same
}

// TestCompareKernel compares a kernel in PTX with one in Go, which is right, nearly right, or wrong.
func TestCompareKernel(t *testing.T) {
	const n = 100
	from, to := make([]float32, n), make([]float32, n+10)
	for i := range from {
		from[i] = float32(i)
	}
	for name, tt := range map[string]struct {
		change    func(i int, v float32) float32
		tolerance float64
		want      string
	}{
		"right":             {func(_ int, v float32) float32 { return v }, 0, ""},
		"nearly right":      {func(_ int, v float32) float32 { return v * 1.0001 }, 1e-3, ""},
		"not nearly enough": {func(_ int, v float32) float32 { return v * 1.0001 }, 1e-5, "argument 0 differs in 99 of 110 elements: element 1 is 1 after the PTX, and 1.0001 after the Go function"},
		"wrong": {func(i int, v float32) float32 {
			if i == 97 {
				return 5
			}
			return v
		}, 0, "argument 0 differs in 1 of 110 elements: element 97 is 9409 after the PTX, and 5 after the Go function"},
		"infinite": {func(i int, v float32) float32 {
			if i == 97 {
				return float32(math.Inf(1))
			}
			return v
		}, 1e-3, "argument 0 differs in 1 of 110 elements: " +
			"element 97 is 9409 after the PTX, and +Inf after the Go function"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			instructions := cutest.CompareKernel(r, cutest.KernelCase{
				Image: []byte(strings.ReplaceAll(squaresPTX, ".u32 n)", ".u32 n0)")), Name: "squares",
				Go: cusim.Kernel{Run: func(l *cusim.Launch) {
					to, from := l.Mem(0), l.Mem(1)
					for i := range int(l.U32(2)) {
						v := math.Float32frombits(binary.LittleEndian.Uint32(from[4*i:]))
						binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(tt.change(i, v*v)))
					}
				}},
				Config:    cu.LaunchConfig{Grid: cu.Dim3{X: 4}, Block: cu.Dim3{X: 32}},
				Args:      []any{to, from, cu.U32(n)},
				Tolerance: tt.tolerance,
				Options:   []cusim.Option{cusim.CheckKernels(cusim.CheckAll)},
			})
			if instructions < 4*10 || instructions > 4*20 {
				t.Errorf("%d instructions", instructions)
			}
			got := strings.Join(r.messages(), "\n")
			if got != "" != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("it reports %q, want %q", got, tt.want)
			}
			for _, f := range r.cleanups {
				f()
			}
		})
	}
	if from[5] != 5 || to[5] != 0 {
		t.Error("the arguments have changed")
	}
}
