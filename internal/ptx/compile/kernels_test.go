package compile

import (
	"archive/tar"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// A scene is what the lines "//!" of a source in testdata/kernels say: buffers, and launches. The C
// program kernels.c does the same on a GPU.
type scene struct {
	text    string
	module  *Module
	buffers map[string]*buffer
	order   []*buffer
	mem     memory
	next    uint64 // the next unused address
	vars    map[string]uint64
	// constants is the constant memory.
	constants []byte
	heap      *heap

	mu      sync.Mutex
	printed strings.Builder
	failed  strings.Builder
	steps   []string // as kernels.c writes them
	checks  *vm.Checks
	watch   func(k *vm.Kernel) *vm.Watch // of each launch, or nil
	found   []*vm.Fault                  // by the checks
	fault   *vm.Fault
	change  func(k *vm.Kernel) *vm.Kernel // of each kernel that is launched, or nil
}

// buffer is memory that a scene has.
type buffer struct {
	name, kind string
	at         uint64
	data       []byte
	out        bool
	rel, abs   float64 // how far a result may be from that of a GPU
}

// heap is the memory that kernels allocate.
type heap struct {
	mu   sync.Mutex
	at   uint64
	size uint64
	live map[uint64]uint64
}

func (h *heap) Alloc(size uint64) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.at
	if h.at += (size + 15) &^ 15; h.at > h.size {
		return 0
	}
	h.live[at+heapBase] = size
	return at + heapBase
}

func (h *heap) Free(addr uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, is := h.live[addr]
	delete(h.live, addr)
	return is
}

const heapBase = 0x9000_0000

// allocate returns the address of new memory.
func (s *scene) allocate(size uint64) (uint64, []byte) {
	at := s.next
	s.next += (size + 4095) &^ 4095
	words := make([]uint64, (size+15)/8)
	s.mem[at] = vm.BytesOf(words)[:size]
	return at, s.mem[at]
}

// newScene makes memory for the variables of a text.
func newScene(text string) (*scene, error) {
	m, err := Parse(text)
	if err != nil {
		return nil, err
	}
	s := &scene{text: text, module: m, buffers: make(map[string]*buffer), mem: make(memory), next: 1 << 32,
		vars: make(map[string]uint64), heap: &heap{size: 1 << 20, live: make(map[uint64]uint64)}}
	s.mem[heapBase] = vm.BytesOf(make([]uint64, 1<<17))
	s.constants = make([]byte, m.Constants)
	memoryOf := make(map[string][]byte)
	for name, v := range m.names {
		at, constant := m.ConstantAddress(name)
		switch {
		case constant:
			s.vars[name], memoryOf[name] = vm.ConstWindow+at, s.constants[at:]
		case v.v != nil && v.space == syntax.Global:
			s.vars[name], _ = s.allocate(max(v.v.Size(), 1))
			memoryOf[name] = s.mem[s.vars[name]]
		}
	}
	for name := range s.vars {
		v := m.names[name].v
		size := syntax.TypeSize(v.Type)
		for i, value := range v.Init {
			bits := value.Number.Bits
			switch at, is := m.FunctionAddress(value.Symbol); {
			case is:
				bits += at
			case value.Symbol != "":
				bits += s.vars[value.Symbol]
			case v.Type == "f32" && value.Number.Kind == syntax.Float64:
				bits = uint64(math.Float32bits(float32(value.Number.Float())))
			case v.Type == "f64":
				bits = math.Float64bits(value.Number.Float())
			}
			word := binary.LittleEndian.AppendUint64(nil, bits)
			copy(memoryOf[name][uint64(i)*size:][:size], word)
		}
	}
	return s, nil
}

// do does what a source says.
func (s *scene) do(source string) error {
	for line := range strings.Lines(source) {
		rest, is := strings.CutPrefix(line, "//! ")
		if !is {
			continue
		}
		words := strings.Fields(rest)
		switch words[0] {
		case "buf":
			s.buffer(words)
		case "launch", "coop":
			if err := s.launch(words); err != nil {
				return err
			}
		}
	}
	return nil
}

// buffer makes a buffer: buf NAME TYPE COUNT CONTENT [out [REL ABS]].
func (s *scene) buffer(words []string) {
	b := &buffer{name: words[1], kind: words[2], out: len(words) > 5}
	count, _ := strconv.Atoi(words[3])
	b.at, b.data = s.allocate(uint64(count * sizeOfKind(b.kind)))
	if len(words) > 7 {
		b.rel, _ = strconv.ParseFloat(words[6], 64)
		b.abs, _ = strconv.ParseFloat(words[7], 64)
	}
	s.buffers[b.name] = b
	s.order = append(s.order, b)
	seed := uint64(0xcbf29ce484222325)
	for _, c := range []byte(b.name) {
		seed = (seed ^ uint64(c)) * 0x100000001b3
	}
	size := sizeOfKind(b.kind)
	how, arg, _ := strings.Cut(words[4], ":")
	for i := range count {
		h := splitmix(seed + uint64(i))
		v, bits := 0.0, uint64(0)
		whole := true
		switch how {
		case "iota":
			v = float64(i)
		case "const":
			v, _ = strconv.ParseFloat(arg, 64)
		case "mod":
			n, _ := strconv.ParseUint(arg, 10, 64)
			v = float64(h >> 33 % n)
		case "pos":
			v, whole = float64(h>>40)/(1<<24), false
		case "rand":
			v, bits, whole = float64(int64(h>>40)-1<<23)/(1<<23), h, false
			if size == 2 && b.kind != "u16" {
				v = float64(int64(h>>56)-128) / 128
			}
		}
		if whole {
			bits = uint64(int64(v))
		}
		copy(b.data[i*size:][:size], encode(b.kind, v, bits))
	}
}

// splitmix mixes the bits of a number.
func splitmix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func sizeOfKind(kind string) int {
	switch kind {
	case "u8":
		return 1
	case "u16", "f16", "bf16":
		return 2
	case "u64", "f64":
		return 8
	}
	return 4
}

// encode returns the bytes of a value of a type. Values of 16 bits need no rounding.
func encode(kind string, v float64, bits uint64) []byte {
	f := math.Float32bits(float32(v))
	switch kind {
	case "f64":
		bits = math.Float64bits(v)
	case "f32":
		bits = uint64(f)
	case "bf16":
		bits = uint64(f >> 16)
	case "f16":
		if bits = 0; f<<1 != 0 {
			bits = uint64(f>>16&0x8000 | (f>>23&255-112)<<10 | f>>13&0x3ff)
		}
	}
	return binary.LittleEndian.AppendUint64(nil, bits)[:sizeOfKind(kind)]
}

// decode returns the value of bytes of a type of floats.
func decode(kind string, data []byte) float64 {
	switch kind {
	case "f64":
		return math.Float64frombits(binary.LittleEndian.Uint64(data))
	case "f32":
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
	case "bf16":
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(data)) << 16))
	}
	h := uint32(binary.LittleEndian.Uint16(data))
	v := math.Ldexp(float64(h&0x3ff), -24)
	switch e := int(h >> 10 & 31); {
	case e == 31 && h&0x3ff != 0:
		v = math.NaN()
	case e == 31:
		v = math.Inf(1)
	case e > 0:
		v = math.Ldexp(float64(h&0x3ff|0x400), e-25)
	}
	if h>>15 != 0 {
		v = -v
	}
	return v
}

// pack appends an argument, or a structure in braces, to the bytes, and returns its alignment.
func (s *scene) pack(words *[]string, data []byte) ([]byte, int) {
	w := (*words)[0]
	*words = (*words)[1:]
	alignTo := func(data []byte, n int) []byte {
		for len(data)%n != 0 {
			data = append(data, 0)
		}
		return data
	}
	if w == "{" {
		most := 1
		for (*words)[0] != "}" {
			part, a := s.pack(words, nil)
			data = append(alignTo(data, a), part...)
			most = max(most, a)
		}
		*words = (*words)[1:]
		return alignTo(data, most), most
	}
	kind, value, is := strings.Cut(w, ":")
	if !is {
		return binary.LittleEndian.AppendUint64(data, s.buffers[w].at), 8
	}
	v, _ := strconv.ParseFloat(value, 64)
	bits, err := strconv.ParseUint(value, 0, 64)
	if err != nil {
		bits = 0
	}
	n := sizeOfKind(kind)
	return append(data, encode(kind, v, bits)...), n
}

// launch launches a kernel: launch KERNEL GRID BLOCK SHARED ARGUMENTS...
func (s *scene) launch(words []string) error {
	name := words[1]
	if s.module.kernels[name] == nil { // the source has it for other architectures only
		s.steps = append(s.steps, fmt.Sprintf("launch %s 500", name))
		return nil
	}
	k, err := s.module.Kernel(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var dims [2][3]uint32
	for i := range dims {
		dims[i] = [3]uint32{1, 1, 1}
		for j, n := range strings.Split(words[2+i], ",") {
			v, _ := strconv.Atoi(n)
			dims[i][j] = uint32(v)
		}
	}
	shared, _ := strconv.Atoi(words[4])
	var params []byte
	for rest := words[5:]; len(rest) > 0; {
		part, a := s.pack(&rest, nil)
		for len(params)%a != 0 {
			params = append(params, 0)
		}
		params = append(params, part...)
	}
	if uint32(len(params)) != k.Params {
		return fmt.Errorf("%s: %d bytes of parameters, %d expected", name, len(params), k.Params)
	}
	padded := vm.BytesOf(make([]uint64, len(params)/8+1))
	copy(padded, params)
	var constants []vm.Constant
	for _, c := range k.Constants {
		if c.Symbol != "" {
			c.Value += s.vars[c.Symbol]
		}
		constants = append(constants, c)
	}
	print := func(text []byte, failed bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if failed {
			s.failed.Write(text)
		} else {
			s.printed.Write(text)
		}
	}
	l := &vm.Launch{Kernel: k, Params: padded[:len(params)], Constants: constants, Const: s.constants, Workers: 2,
		Resident: 64, Shape: vm.Shape{Grid: dims[0], Block: dims[1], Dynamic: uint32(shared)},
		Device: vm.Device{Memory: s.mem, Multiprocessors: 132, Warps: 64, SharedUnit: 128, Heap: s.heap,
			Clock: func() int64 { return 1 }, Virtual: true, Print: print}}
	if strings.Contains(s.text, ".reqnctapercluster 2, 1, 1") {
		l.Cluster = [3]uint32{2, 1, 1}
	}
	if words[0] == "coop" {
		l.Workspace, _ = s.allocate(64)
	}
	l.Checks = s.checks
	if s.watch != nil {
		l.Watch = s.watch(k)
	}
	if s.change != nil {
		l.Kernel = s.change(k)
	}
	work, fault := l.Execute(new(vm.Stop))
	s.found = append(s.found, work.Findings...)
	code := 0
	if fault != nil {
		code, s.fault = fault.Code, fault
	}
	s.steps = append(s.steps, fmt.Sprintf("launch %s %d", name, code))
	return nil
}

// differs returns where results differ from those of a GPU by more than the source allows, or "".
func (s *scene) differs(want []byte) string {
	for _, b := range s.order {
		if !b.out {
			continue
		}
		if len(want) < len(b.data) {
			return "the recorded results are too short"
		}
		n := sizeOfKind(b.kind)
		for i := 0; i < len(b.data); i += n {
			g, w := b.data[i:i+n], want[i:i+n]
			if string(g) == string(w) {
				continue
			}
			if b.rel > 0 || b.abs > 0 {
				x, y := decode(b.kind, g), decode(b.kind, w)
				if math.Abs(x-y) <= b.abs+b.rel*math.Abs(y) || math.IsNaN(x) && math.IsNaN(y) {
					continue
				}
				return fmt.Sprintf("%s[%d] is %g, want %g", b.name, i/n, x, y)
			}
			return fmt.Sprintf("%s[%d] is %x, want %x", b.name, i/n, g, w)
		}
		want = want[len(b.data):]
	}
	return ""
}

// recordedKernels are the files of testdata/kernels/h200-cuda13.0.tgz by their names: the PTX that nvcc of
// CUDA 13.0 has made of each source for an architecture, optimized (O) or with -G (G), and what it did on
// an H200 (driver 580): the steps (res), the results (bin), and what was printed (out, err).
func recordedKernels(t testing.TB) map[string]string {
	f, err := os.Open("../testdata/kernels/h200-cuda13.0.tgz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(data)
	}
}

// unlike are the kernels whose results differ from those of a GPU, and why. They are executed, and not
// compared.
var unlike = map[string]string{
	"coop.sm_75.G": "the GPU's result is another one each time",
	"coop.sm_80.G": "the GPU's result is another one each time",
	"coop.sm_90.G": "the GPU's result is another one each time",
}

// wrong executes a text that was recorded, and returns what differs from what a GPU has done, or "". It
// returns "" for a text that is unlike others.
func (s *scene) wrong(files map[string]string, base string) (string, error) {
	source, _, _ := strings.Cut(base, ".")
	text, err := os.ReadFile("../testdata/kernels/" + source + ".cu")
	if err != nil {
		return "", err
	}
	if err := s.do(string(text)); err != nil || unlike[base] != "" {
		return "", err
	}
	for _, c := range [][2]string{{strings.Join(append(s.steps, "end 0"), "\n") + "\n", files[base+".res"]},
		{s.printed.String(), files[base+".out"]}, {s.failed.String(), files[base+".err"]}} {
		if c[0] != c[1] {
			return fmt.Sprintf("it has done\n%s%+v\nwant\n%s", c[0], s.fault, c[1]), nil
		}
	}
	if want, is := files[base+".bin"]; is {
		return s.differs([]byte(want)), nil
	}
	return "", nil
}

// textsOf returns the names of the texts among the recorded files.
func textsOf(files map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if base, is := strings.CutSuffix(name, ".ptx"); is {
			list = append(list, base)
		}
	}
	return list
}

// TestKernels executes what nvcc has made of the sources in testdata/kernels, and compares the results
// with those of a GPU.
func TestKernels(t *testing.T) {
	files := recordedKernels(t)
	texts := textsOf(files)
	for _, base := range texts {
		t.Run(base, func(t *testing.T) {
			s, err := newScene(files[base+".ptx"])
			if err != nil {
				t.Fatal(err)
			}
			why, err := s.wrong(files, base)
			if err != nil {
				t.Fatal(err)
			}
			if why != "" {
				t.Error(why)
			}
		})
	}
	if len(texts) < 230 {
		t.Errorf("there are %d texts", len(texts))
	}
}
