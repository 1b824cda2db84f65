package cu_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

const kindsPTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry takes(.param .u64 .ptr .global to, .param .f32 factor, .param .u32 count, .param .b32 word,
	.param .s64 offset, .param .f64 limit, .param .f16 half, .param .align 4 .b8 pair[8], .param .u8 flag) { ret; }
.visible .entry other(.param .f32 x) { ret; }
`

// pair has the size of a parameter with two members.
type pair struct{ a, b uint32 }

// TestArgumentKinds passes arguments of the wrong kinds.
func TestArgumentKinds(t *testing.T) {
	r := NewSoft(t)
	argumentKinds(t, r.GPU, []byte(kindsPTX), fatbinOf(kindsPTX))
	// The driver tells no sizes, so the text has to.
	old := NewSoft(t, cusim.Version(12030))
	argumentKinds(t, old.GPU, []byte(kindsPTX), fatbinOf(kindsPTX))
}

// TestGPUArgumentKinds is TestArgumentKinds on a GPU.
func TestGPUArgumentKinds(t *testing.T) { argumentKinds(t, GPUContext(t), []byte(kindsPTX)) }

// argumentKinds launches the kernels of kindsPTX, which images contain.
func argumentKinds(t *testing.T, gpu *Context, images ...[]byte) {
	t.Helper()
	mod := Need(gpu.LoadModule([]byte(kindsPTX)))(t)
	defer mod.Close()
	f, other := Need(mod.Function("takes"))(t), Need(mod.Function("other"))(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	m := Need(gpu.Alloc(64))(t)
	defer m.Close()
	right := []Arg{Ptr(m), F32(2), U32(3), U32(4), I64(5), F64(6), Value(uint16(7)), Value(pair{8, 9}), Value(true)}
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}

	for _, tt := range []struct {
		i    int
		arg  Arg
		want string // "" for what is right
	}{
		{0, U64(uint64(m.Handle())), ""},
		{0, I64(0), ""},
		{0, ConstPtr(m), ""},
		{0, Value([2]uint32{}), ""},
		{0, F64(1), "argument 0 is a float, and the kernel's parameter to is .u64: pass cu.Ptr for memory, or cu.U64 or cu.I64"},
		{0, Value(1.5), "argument 0 is a float, and"},
		{1, Value(float32(1)), ""},
		{1, U32(1), "argument 1 is an integer, and the kernel's parameter factor is .f32: pass cu.F32"},
		{1, I32(-1), "argument 1 is an integer, and"},
		{1, F64(1), "argument 1 has 8 bytes, and the kernel's parameter factor has 4: pass cu.F32"},
		{2, I32(-1), ""},
		{2, Value(struct{ f float32 }{1}), ""},
		{2, F32(1), "argument 2 is a float, and the kernel's parameter count is .u32: pass cu.U32 or cu.I32"},
		{3, F32(1), ""},
		{4, U64(1), ""},
		{4, Ptr(m), ""},
		{4, F64(1), "argument 4 is a float, and the kernel's parameter offset is .s64"},
		{5, I64(1), "argument 5 is an integer, and the kernel's parameter limit is .f64: pass cu.F64"},
		{5, Ptr(m), "argument 5 is an address, and the kernel's parameter limit is .f64: pass cu.F64"},
		{6, Value(int16(1)), ""},
		{6, Value([2]byte{}), ""},
		{7, F64(1), ""},
		{7, Value([2]float32{}), ""},
		{8, Value(int8(1)), ""},
		{8, U32(1), "argument 8 has 4 bytes, and the kernel's parameter flag has 1: pass a value of that size"},
	} {
		args := append([]Arg(nil), right...)
		args[tt.i] = tt.arg
		for name, err := range launchedAs(t, gpu, s, f, one, right, args) {
			switch {
			case tt.want == "" && err == nil:
			case tt.want != "" && errors.Is(err, ResultInvalidValue) && strings.Contains(err.Error(), "kernel takes: "+tt.want):
			default:
				t.Errorf("%s with argument %d: %v; want %q", name, tt.i, err, tt.want)
			}
		}
	}
	if err := other.Launch(s, one, U32(1)); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("another kernel: %v", err)
	}

	// The PTX may be in a fatbin, or in a library.
	for i, image := range images {
		mod := Need(gpu.LoadModule(image))(t)
		defer mod.Close()
		wrong := []error{Need(mod.Function("other"))(t).Launch(s, one, U32(1))}
		lib, err := library.Load(gpu.Device().Driver(), image)
		if !errors.Is(err, errors.ErrUnsupported) {
			NoErr(t, err)
			defer lib.Close()
			f := Need(Need(lib.Kernel("other"))(t).Function(gpu))(t)
			wrong = append(wrong, f.Launch(s, one, U32(1)))
			NoErr(t, f.Launch(s, one, F32(1)))
		}
		for _, err := range wrong {
			if err == nil || !strings.Contains(err.Error(), "argument 0 is an integer, and the kernel's parameter x is .f32") {
				t.Errorf("image %d: %v", i, err)
			}
		}
	}
	NoErr(t, s.Synchronize())
}

// launchedAs launches a kernel with arguments in all ways, some of which begin with the right arguments, and
// returns the errors.
func launchedAs(t *testing.T, gpu *Context, s *Stream, f *Function, cfg LaunchConfig, right, args []Arg) map[string]error {
	t.Helper()
	together, clustered := cfg, cfg
	together.Flags = LaunchCooperative
	clustered.Attributes = LaunchWith(LaunchPriority(0))
	errs := map[string]error{
		"Launch":                   f.Launch(s, cfg, args...),
		"a cooperative launch":     f.Launch(s, together, args...),
		"a launch with attributes": f.Launch(s, clustered, args...),
		"a launch in a capture":    nil,
		"PreparedLaunch.SetArg":    nil,
		"a graph's node":           nil,
		"graph.Node.Set":           nil,
		"graph.Exec.Set":           nil,
		"graph.Exec.SetAll":        nil,
		"Function.Prepare":         nil,
	}
	_, errs["Function.Prepare"] = f.Prepare(cfg, args...)
	p := Need(f.Prepare(cfg, right...))(t)
	for i := range args {
		errs["PreparedLaunch.SetArg"] = errors.Join(errs["PreparedLaunch.SetArg"], p.SetArg(i, args[i]))
	}
	g := Need(graph.New(gpu))(t)
	defer g.Close()
	n := Need(g.Add(&graph.Kernel{Function: f, Config: cfg, Args: right}))(t)
	x := Need(g.Instantiate())(t)
	defer x.Close()
	errs["graph.Exec.Set"] = x.Set(n, &graph.Kernel{Function: f, Config: cfg, Args: args})
	errs["graph.Exec.SetAll"] = x.SetAll(graph.NodeUpdate{Node: n, Work: &graph.Kernel{Function: f, Config: cfg, Args: args}})
	errs["graph.Node.Set"] = n.Set(&graph.Kernel{Function: f, Config: cfg, Args: args})
	_, errs["a graph's node"] = g.Add(&graph.Kernel{Function: f, Config: cfg, Args: args})
	NoErr(t, x.Launch(s))
	captured, err := graph.Capture(s, graph.CaptureRelaxed, func() error {
		errs["a launch in a capture"] = f.Launch(s, cfg, args...)
		return nil
	})
	NoErr(t, err)
	NoErr(t, captured.Close())
	return errs
}

// fatbinOf returns a fatbin with a text for compute capability 7.0.
func fatbinOf(text string) []byte {
	le := binary.LittleEndian
	for len(text)%8 != 0 {
		text += "\x00"
	}
	const header, entry = 16, 64
	b := make([]byte, header+entry)
	le.PutUint32(b, 0xba55ed50)
	le.PutUint16(b[4:], 1)
	le.PutUint16(b[6:], header)
	le.PutUint64(b[8:], uint64(entry+len(text)))
	le.PutUint16(b[header:], 1) // PTX
	le.PutUint16(b[header+2:], 0x101)
	le.PutUint32(b[header+4:], entry)
	le.PutUint64(b[header+8:], uint64(len(text)))
	le.PutUint32(b[header+28:], 70)
	return append(b, text...)
}
