package compile

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/internal/ptx/tables"
	"github.com/purecu/purecu/internal/ptx/vm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is memory with one region for each slice.
type memory map[uint64][]byte

func (m memory) Region(addr uint64, _ bool) (uint64, []byte, bool) {
	for base, data := range m {
		if addr-base < uint64(len(data)) {
			return base, data, false
		}
	}
	return 0, nil, false
}

// launch executes a kernel of a text, whose parameters are words of 64 bits.
func launch(t *testing.T, text string, grid, block uint32, mem memory, params ...uint64) (*vm.Fault, error) {
	t.Helper()
	return launchWith(t, text, grid, block, mem, func(*vm.Launch) {}, params...)
}

// launchWith is launch with changes.
func launchWith(t *testing.T, text string, grid, block uint32, mem memory, change func(l *vm.Launch),
	params ...uint64) (*vm.Fault, error) {
	t.Helper()
	m, err := Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	k, err := m.Kernel("k")
	if err != nil {
		return nil, err
	}
	l := launchOf(k, grid, block, mem, params)
	change(l)
	_, fault := l.Execute(new(vm.Stop))
	return fault, nil
}

// launchOf returns a launch of a kernel, whose parameters are words of 64 bits.
func launchOf(k *vm.Kernel, grid, block uint32, mem memory, params []uint64) *vm.Launch {
	return &vm.Launch{
		Kernel: k, Constants: k.Constants, Params: slices.Grow(vm.BytesOf(slices.Clone(params)), 8),
		Workers: 2, Resident: 64, Const: make([]byte, 16),
		Shape: vm.Shape{Grid: [3]uint32{grid, 1, 1}, Block: [3]uint32{block, 1, 1}, Cluster: [3]uint32{1, 1, 1}},
		Device: vm.Device{Memory: mem, Images: images{}, Multiprocessors: 132, Warps: 64, SharedUnit: 128,
			Clock: func() int64 { return 2<<32 + 2 }},
	}
}

// example is a text with the kernel k, of whose results something is known.
type example struct {
	name, text  string
	grid, block uint32
	params      []uint64
	// prepare returns the memory, and a function that says what is wrong after the launch, or "".
	prepare func() (mem memory, wrong func(fault *vm.Fault) string)
}

// kernel translates the kernel.
func (e *example) kernel() (*vm.Kernel, error) {
	m, err := Parse(e.text)
	if err != nil {
		return nil, err
	}
	return m.Kernel("k")
}

// wrong executes the kernel, and returns what is wrong, or "".
func (e *example) wrong(k *vm.Kernel) string {
	mem, wrong := e.prepare()
	_, fault := launchOf(k, e.grid, e.block, mem, e.params).Execute(new(vm.Stop))
	return wrong(fault)
}

// check reports an example that is wrong.
func (e *example) check(t *testing.T) {
	t.Helper()
	k, err := e.kernel()
	if err != nil {
		t.Errorf("%s: %v in\n%s", e.name, err, e.text)
	} else if why := e.wrong(k); why != "" {
		t.Errorf("%s: %s", e.name, why)
	}
}

const textHeader = ".version 8.7 .target sm_90a .address_size 64\n"

// recorded returns the lines of the results that an H200 has computed (driver 580, CUDA 13.0).
func recorded(t *testing.T) [][]string {
	rows, err := tables.Read("testdata/h200-cuda13.0.tsv.gz")
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func words(t *testing.T, list string) (w []uint64) {
	for _, h := range strings.Fields(list) {
		n, err := strconv.ParseUint(h, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		w = append(w, n)
	}
	return w
}

// bitsOf returns the size of a register for values of a kind.
func bitsOf(kind string) int {
	switch kind {
	case "f64", "i64":
		return 64
	case "f16", "bf16", "i16":
		return 16
	}
	return 32
}

// recordedExamples are the instructions that were recorded with special values. What the manual does not
// define is among them.
func recordedExamples(t *testing.T) (list []*example) {
	values := make(map[string][]uint64)
	for _, line := range recorded(t) {
		if kind, is := strings.CutPrefix(line[0], "values "); is {
			values[kind] = words(t, line[1])
			continue
		}
		if strings.HasPrefix(line[0], "warp ") {
			continue
		}
		rest, out, _ := cutLast(line[0], "; ")
		ins, kindList, _ := cutLast(rest, ";")
		name, _, _ := strings.Cut(ins, " ")
		kinds, want := strings.Fields(kindList), words(t, line[1])
		inputs := cross(values, kinds)
		n := len(inputs) / 4
		list = append(list, &example{name: ins, text: kernelFor(ins, kinds, out), grid: uint32(n+127) / 128, block: 128,
			params: []uint64{1 << 32, 1 << 40, uint64(n)}, prepare: func() (memory, func(*vm.Fault) string) {
				results := make([]uint64, n)
				return memory{1 << 32: vm.BytesOf(inputs), 1 << 40: vm.BytesOf(results)}, func(fault *vm.Fault) string {
					if fault != nil {
						return fmt.Sprintf("%+v", fault)
					}
					for i, want := range want {
						if got := results[i]; got != want && !closeTo(name, inputs[4*i], got, want) {
							return fmt.Sprintf("of %x: got %x, want %x", inputs[4*i:4*i+len(kinds)], got, want)
						}
					}
					return ""
				}
			}})
	}
	return list
}

// TestRecorded executes each instruction with special values, and compares the results with those of
// a GPU, bit by bit.
func TestRecorded(t *testing.T) {
	for _, e := range recordedExamples(t) {
		e.check(t)
	}
}

// cutLast cuts a text around the last place of a separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// cross returns the operands of the recording: four words for each result.
func cross(values map[string][]uint64, kinds []string) (inputs []uint64) {
	second := []uint64{0}
	if len(kinds) > 1 {
		second = values[kinds[1]]
	}
	for i, a := range values[kinds[0]] {
		for j, b := range second {
			c := uint64(0)
			if len(kinds) > 2 {
				third := values[kinds[2]]
				c = third[(i*7+j*3)%len(third)]
			}
			inputs = append(inputs, a, b, c, 0)
		}
	}
	return inputs
}

// kernelFor returns the kernel with which an instruction was recorded.
func kernelFor(ins string, kinds []string, out string) string {
	var b strings.Builder
	b.WriteString(textHeader + `.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {
		.reg .b64 i, o, x; .reg .b32 g, c, t; .reg .pred P;`)
	for i, kind := range kinds {
		fmt.Fprintf(&b, ".reg .b%d %c;\n", bitsOf(kind), "ABC"[i])
	}
	fmt.Fprintf(&b, ".reg .b%d D;\n", bitsOf(out))
	b.WriteString(`ld.param.u64 i,[in]; ld.param.u64 o,[out]; ld.param.u32 g,[n]; mov.u32 c,%ctaid.x; mov.u32 t,%ntid.x;
		mul.lo.u32 c,c,t; mov.u32 t,%tid.x; add.u32 c,c,t; setp.ge.u32 P,c,g; @P ret;
		mul.wide.u32 x,c,32; add.u64 i,i,x; mul.wide.u32 x,c,8; add.u64 o,o,x;`)
	for i, kind := range kinds {
		fmt.Fprintf(&b, "ld.global.b%d %c,[i+%d];\n", bitsOf(kind), "ABC"[i], 8*i)
	}
	fmt.Fprintln(&b, ins+";")
	if out == "p" {
		b.WriteString("selp.u32 D,1,0,P;\n")
	}
	fmt.Fprintf(&b, "st.global.b%d [o],D; ret; }\n", bitsOf(out))
	return b.String()
}

// closeTo reports whether the result of an approximate instruction is as close to that of a GPU as two
// approximations within the manual's bounds are.
func closeTo(name string, operand, got, want uint64) bool {
	if !strings.Contains(name, ".approx") && !strings.Contains(name, ".full") {
		return false
	}
	if strings.HasSuffix(name, "f16") {
		return max(got, want)-min(got, want) <= 2
	}
	if strings.HasSuffix(name, "f64") {
		a, b := math.Float64frombits(got), math.Float64frombits(want)
		return math.Abs(a-b) <= math.Abs(b)/(1<<19)
	}
	a, b := float64(math.Float32frombits(uint32(got))), float64(math.Float32frombits(uint32(want)))
	switch name {
	case "tanh.approx.f32":
		return math.Abs(a-b) <= math.Abs(b)/(1<<10)
	case "sin.approx.f32", "cos.approx.f32", "sin.approx.ftz.f32", "cos.approx.ftz.f32":
		// The manual bounds the error for small operands only.
		if x := math.Float32frombits(uint32(operand)); x >= -2 && x <= 2 {
			return math.Abs(a-b) <= 1.0/(1<<19)
		}
		return math.Abs(a) <= 1 && math.Abs(b) <= 1
	case "lg2.approx.f32", "lg2.approx.ftz.f32":
		return math.Abs(a-b) <= max(1.0/(1<<21), math.Abs(b)/(1<<21))
	}
	return math.Abs(a-b) <= max(math.Abs(b)/(1<<21), 3e-45)
}

// otherwise are the bodies whose results differ from those of a GPU, and why.
var otherwise = map[string]string{
	"mov.u32 r9,%warpid;":              "another number is as good",
	"mov.u32 r9,%gridid;":              "it counts launches",
	"mov.u32 r9,%clock_hi;":            "it counts cycles",
	"mov.u32 r9,%envreg0;":             "not supported",
	"mov.u32 r9,%is_explicit_cluster;": "a GPU's compiler refuses it",
	"mov.u32 r9,%aggr_smem_size;": "" +
		"a GPU's compiler refuses it in version 8.0",
	"red.shared.add.u32 [0x100000],1;":                                            "a GPU's compiler refuses it",
	".local .b32 s[4]; mov.u32 r9,s;":                                             "local memory is elsewhere",
	"add.u64 d1,d0,4; ld.global.u64 d2,[d1];":                                     "a GPU's compiler removes the load",
	"add.u64 d1,d0,8; ld.global.v4.u32 {r1,r2,r3,r9},[d1];":                       "a GPU's compiler removes three loads",
	"mov.u32 r1,0x1000000; ld.const.u32 r9,[r1];":                                 "beyond constant memory a GPU reads zeros",
	".local .b32 s[4]; mov.u32 r1,0x1000000; ld.local.u32 r9,[r1];":               "beyond local memory a GPU reads something",
	"mov.u64 d1,16; prefetch.global.L2 [d1]; mov.u32 r9,3;":                       "NVIDIA's driver crashed",
	"mov.u64 d1,16; setp.eq.u32 p,r0,99; @p ld.global.u32 r9,[d1]; mov.u32 r9,3;": "",
}

// recordedWarps are kernels of two warps, with what the threads have stored, or the fault.
func recordedWarps(t *testing.T) (list []*example) {
	for _, line := range recorded(t) {
		body, is := strings.CutPrefix(line[0], "warp ")
		if !is || otherwise[body] != "" {
			continue
		}
		list = append(list, &example{name: body, text: warpText(body), grid: 1, block: 64,
			params: []uint64{1 << 32}, prepare: func() (memory, func(*vm.Fault) string) {
				data := slices.Repeat([]uint64{0xeeeeeeeeeeeeeeee}, 32)
				return memory{1 << 32: vm.BytesOf(data)}, func(fault *vm.Fault) string {
					var words []string
					for _, v := range data {
						words = append(words, fmt.Sprintf("%x %x", uint32(v), v>>32))
					}
					got := strings.Join(words, " ")
					if fault != nil {
						got = fmt.Sprint("error ", fault.Code)
					}
					if got == line[1] {
						return ""
					}
					return fmt.Sprintf("\n\tgot  %s\n\twant %s", got, line[1])
				}
			}})
	}
	return list
}

// warpText returns the text for instructions that leave a result in r9.
func warpText(body string) string {
	return textHeader + `.visible .entry k(.param .u64 out) {
		.reg .b32 r<10>; .reg .b64 d<4>; .reg .b64 o,x; .reg .pred p,q;
		ld.param.u64 o,[out]; mov.u64 d0,o; mov.u32 r0,%tid.x; setp.ne.u32 p,r0,r0; mov.u32 r9,0;
		` + body + "\nmul.wide.u32 x,r0,4; add.u64 o,o,x; st.global.u32 [o],r9; ret; }"
}

// TestRecordedWarps executes kernels of two warps, and compares what they have done with a GPU.
func TestRecordedWarps(t *testing.T) {
	for _, e := range recordedWarps(t) {
		e.check(t)
	}
}
