package code

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/codeimage"
	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/internal/ptx/compile"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// Text is what a driver has to know of a PTX text.
type Text struct {
	*compile.Module
	Kernels   []Kernel
	Variables []*syntax.Var // those that the text defines in global and constant memory

	gpu      *profile.GPU // for which it was compiled
	source   string       // the text, if kernels are watched
	target   int32        // 90 for sm_90
	constant int32        // size of the constant memory, in bytes
}

// Kernel is a kernel of a text.
type Kernel struct {
	Name       string
	Params     []Param
	MaxThreads int32 // the largest number of threads of a block
	Block      Dim3  // the size of a block, or zeros
	MaxRank    int32 // the largest number of blocks of a cluster, or 0
	Idle       bool  // the body only returns

	text     *Text
	at       syntax.Pos
	explicit int32      // 1 if launches must say the size of clusters
	cluster  [3]int32   // the required size of clusters, or 0
	shared   int32      // size of the shared memory, in bytes
	local    int32      // size of the local memory of a thread, in bytes
	compiled *vm.Kernel // nil before it is needed
	err      error      // why it cannot be executed
}

// GPU returns the GPU for which the kernel was compiled.
func (k *Kernel) GPU() *profile.GPU { return k.text.gpu }

// Param is a parameter of a kernel, in bytes.
type Param struct{ Offset, Size uint64 }

// Problem is the error for an image. It may have no text.
type Problem struct {
	Result driver.Result
	Text   string
	large  bool // a kernel needs more than a GPU has
}

// fatal returns the error for a text that is not valid PTX.
func fatal(at syntax.Pos, format string, a ...any) *Problem {
	return &Problem{Result: driver.ResultInvalidPTX,
		Text: fmt.Sprintf("cusim: line %d, column %d: fatal: ", at.Line, at.Col) + fmt.Sprintf(format, a...)}
}

// fatalError returns the error for an error of the parser.
func fatalError(err error) *Problem {
	e := err.(*syntax.Error)
	return fatal(e.Pos, "%s", e.Text)
}

// parse parses a text.
func (c *Compiler) parse(image []byte) (*Text, *Problem) {
	text := string(image)
	head, versionAt, targetAt, err := syntax.Header(text)
	if err != nil {
		return nil, fatalError(err)
	}
	if newest := newestPTX(c.Version); int(head.Version) > newest {
		e := fatal(versionAt, "version %d.%d of PTX is not supported, only up to %d.%d", head.Version/10, head.Version%10,
			newest/10, newest%10)
		e.Result = driver.ResultUnsupportedPTXVersion
		return nil, e
	}
	if why := c.refuses(head); why != "" {
		return nil, fatal(targetAt, "%s", why)
	}
	module, err := compile.Parse(text)
	if err != nil {
		return nil, fatalError(err)
	}
	module.MostShared = uint32(c.GPU.SharedOfBlock)
	t := &Text{Module: module, gpu: c.GPU, target: module.Text.Target}
	if c.Watched {
		t.source = text
		t.Note(text)
	}
	initialized := uint64(0)
	for _, v := range module.Text.Vars {
		if v.Extern || v.Space != syntax.Global && v.Space != syntax.Const {
			continue
		}
		if t.Variables = append(t.Variables, v); v.Space == syntax.Const {
			t.constant = behind(t.constant, v)
			if t.constant > mostConstant {
				return nil, fatal(v.Pos, "the variables in constant memory up to %s have %d bytes, and at most %d "+
					"are possible", v.Name,
					t.constant, mostConstant)
			}
		}
		if len(v.Init) > 0 {
			if initialized += min(v.Size(), 1<<40); initialized > mostInitialized {
				return nil, fatal(v.Pos, "the variables with initial values up to %s have more than %d bytes", v.Name,
					uint64(mostInitialized))
			}
		}
	}
	for _, f := range module.Text.Functions {
		if f.Kernel && f.HasBody {
			e, problem := t.entryOf(f)
			if problem != nil {
				return nil, problem
			}
			e.text, e.Idle = t, e.Idle && !c.Watched
			t.Kernels = append(t.Kernels, e)
		}
	}
	return t, nil
}

// refuses says why the device cannot have code for the target of a text, or "". A target with features runs on its own
// architecture only, but one with those of a family runs on newer ones of the same generation, too. The results are
// those of an H200, and unverified for other GPUs.
func (c *Compiler) refuses(head *syntax.Module) string {
	target, own := head.Target, c.GPU.Number
	name := fmt.Sprintf("sm_%d%s", target, head.Features)
	switch family := head.Features == "f"; {
	case head.Features != "" && target < 90, family && target < 100:
		return fmt.Sprintf("there is no target %s", name)
	case target > own:
		return fmt.Sprintf(
			"the target %s is newer than the device, which is sm_%d: compile for compute_%[2]d or an older one",
			name, own)
	case family && target/10 != own/10, head.Features != "" && !family && target != own:
		return fmt.Sprintf("the target %s is for its own devices only, and the device is sm_%d: compile for compute_%d, "+
			"without %s, or also for the device", name, own, target, head.Features)
	}
	return ""
}

// mostInitialized is how large the variables of a text with initial values may be, in bytes. Their memory
// is on the host at once, and a short text can declare large ones. An H200 refuses 2 GiB, and not 256 MiB.
const mostInitialized = 1 << 30

// MostArguments is the largest size of a kernel's arguments, in bytes.
const MostArguments = 32764

// mostConstant is the size of the constant memory of a text, in bytes.
const mostConstant = 1 << 16

// newestPTX returns the newest version of PTX that a driver supports: 87 is 8.7.
func newestPTX(version int32) int {
	major, minor := int(version/1000), int(version%1000/10)
	switch {
	case major >= 13:
		return 90 + 10*(major-13) + minor
	case major == 12 && minor <= 5:
		return 80 + minor
	case major == 12:
		return 79 + minor
	case major == 11:
		return 70 + minor
	}
	return 65
}

// behind returns the size of a memory area after the variable was added to an area with the given
// size.
func behind(size int32, v *syntax.Var) int32 {
	at := (uint64(size) + v.Align - 1) / v.Align * v.Align
	return int32(min(at+v.Size(), math.MaxInt32))
}

// entryOf describes a kernel.
func (t *Text) entryOf(f *syntax.Function) (Kernel, *Problem) {
	e := Kernel{Name: f.Name, at: f.Pos, MaxThreads: 1024}
	at := uint64(0)
	for _, v := range f.Params {
		if v.Space != syntax.Param || v.Open {
			return e, fatal(v.Pos, "parameter %s of kernel %s is no parameter of a kernel", v.Name, f.Name)
		}
		at = (at + v.Align - 1) / v.Align * v.Align
		e.Params = append(e.Params, Param{at, v.Size()})
		if at += v.Size(); at > MostArguments {
			return e, fatal(v.Pos, "the parameters of kernel %s have more than %d bytes", f.Name, MostArguments)
		}
	}
	for _, d := range f.Directives {
		size, product := [3]uint64{1, 1, 1}, uint64(1)
		copy(size[:], d.Values)
		for _, n := range size {
			product = min(product*n, 1<<20)
		}
		switch d.Name {
		case ".maxntid":
			e.MaxThreads = int32(min(product, 1024))
		case ".reqntid": // on an H200 it does not change the largest number
			e.Block = Dim3{uint32(size[0]), uint32(size[1]), uint32(size[2])}
		case ".explicitcluster":
			e.explicit = 1
		case ".maxclusterrank":
			e.MaxRank = int32(size[0])
		case ".reqnctapercluster":
			e.cluster = [3]int32{int32(size[0]), int32(size[1]), int32(size[2])}
		}
	}
	e.declared(f.Body)
	e.Idle = idle(f.Body) && e.shared <= t.gpu.SharedOfBlock // a kernel with more is translated, which fails
	return e, nil
}

// idle reports whether a body only returns.
func idle(list []syntax.Statement) bool {
	return !slices.ContainsFunc(list, func(s syntax.Statement) bool {
		switch {
		case s.Inst != nil:
			return s.Inst.Op != "ret" && s.Inst.Op != "exit"
		case s.Block != nil:
			return !idle(s.Block)
		}
		return s.Var == nil
	})
}

// declared adds the sizes of the variables that a body declares.
func (k *Kernel) declared(list []syntax.Statement) {
	for _, s := range list {
		switch v := s.Var; {
		case s.Block != nil:
			k.declared(s.Block)
		case v == nil || v.Extern || v.Open:
		case v.Space == syntax.Shared:
			k.shared = behind(k.shared, v)
		case v.Space == syntax.Local:
			k.local = behind(k.local, v)
		}
	}
}

// mostAtOnce is about how many bytes of an initial value are written at once, as the driver is locked.
const mostAtOnce = 8 << 10

// Initialize writes the initial value of a variable to its memory, elements that follow each other at once. all
// are the variables of the module.
func (t *Text) Initialize(v *syntax.Var, all Variables, put func(off uint64, data []byte) bool) *Problem {
	size := syntax.TypeSize(v.Type)
	var run []byte
	for i, e := range v.Init {
		n, problem := t.value(v, e, all)
		if problem != nil {
			return problem
		}
		run = binary.LittleEndian.AppendUint64(run, n)[:len(run)+int(size)]
		if next := i + 1; next < len(v.Init) && v.Init[next].Index == e.Index+1 && len(run) < mostAtOnce {
			continue
		}
		end := (uint64(e.Index) + 1) * uint64(size)
		if !put(end-uint64(len(run)), run) {
			return &Problem{Result: driver.ResultOutOfMemory}
		}
		run = run[:0]
	}
	return nil
}

// value returns an element of an initial value.
func (t *Text) value(v *syntax.Var, e syntax.Value, all Variables) (uint64, *Problem) {
	n := e.Number
	switch {
	case e.Symbol != "":
		address, known := t.FunctionAddress(e.Symbol)
		if other, there := all.Address(e.Symbol); there {
			address, known = other, true
		}
		if at, constant := t.ConstantAddress(e.Symbol); constant {
			address = at
			if e.Generic {
				address += vm.ConstWindow
			}
		}
		if !known {
			return 0, fatal(e.Pos, "%s, whose address is a value of %s, is not defined in this text", e.Symbol, v.Name)
		}
		if address += n.Bits; e.Mask != 0 {
			return (address & e.Mask) >> bits.TrailingZeros64(e.Mask), nil
		}
		if syntax.TypeSize(v.Type) != 8 {
			return 0, fatal(e.Pos, "%s has type %s, and no room for an address", v.Name, v.Type)
		}
		return address, nil
	case v.Type == "f32" && n.Kind == syntax.Float32:
		return n.Bits, nil
	case v.Type == "f32":
		return uint64(math.Float32bits(float32(n.Float()))), nil
	case v.Type == "f64":
		return math.Float64bits(n.Float()), nil
	case n.Kind == syntax.Float32 || n.Kind == syntax.Float64:
		return 0, fatal(e.Pos, "a float is a value of %s, which has type %s", v.Name, v.Type)
	}
	return n.Bits, nil
}

// textOf returns the PTX in an image.
func (c *Compiler) textOf(image []byte) ([]byte, *Problem) {
	switch {
	case bytes.HasPrefix(image, []byte("\x7fELF")): // a cubin
		return nil, &Problem{Result: driver.ResultNoBinaryForGPU, Text: "cusim: fatal: the image has code for a GPU, " +
			"which cannot be run without one: load PTX, or a fatbin with PTX: " + c.makesPTX()}
	case bytes.HasPrefix(image, []byte("\x50\xed\x55\xba")):
		text, err := codeimage.PTX(image, uint32(c.GPU.Number), func(text []byte) bool {
			head, _, _, err := syntax.Header(string(text))
			return err != nil || c.refuses(head) == "" // the compiler says what is wrong
		})
		switch {
		case errors.Is(err, codeimage.ErrNoPTX):
			return nil, &Problem{Result: driver.ResultNoBinaryForGPU, Text: "cusim: fatal: " + err.Error() +
				", and code for a GPU cannot be run without one: " + c.makesPTX()}
		case err != nil:
			return nil, &Problem{Result: driver.ResultInvalidImage, Text: "cusim: fatal: " + err.Error()}
		}
		return text, nil
	case !beginsPTX(image):
		return nil, &Problem{Result: driver.ResultInvalidImage,
			Text: "cusim: fatal: the image is neither a text in PTX nor code for a GPU: PTX begins with .version"}
	}
	return image, nil
}

// makesPTX says how PTX for the device is made.
func (c *Compiler) makesPTX() string {
	return fmt.Sprintf("PTX is made by nvcc -gencode arch=compute_%d,code=compute_%[1]d, "+
		"and by NVRTC with --gpu-architecture=compute_%[1]d in place of sm_%[1]d", c.GPU.Number)
}

// beginsPTX reports whether a text begins as PTX does. As for an H200, that is .version after white space and
// comments.
func beginsPTX(text []byte) bool {
	text, _, _ = bytes.Cut(text, []byte{0})
	for {
		text = bytes.TrimLeft(text, " \t\n\v\f\r")
		end := ""
		switch {
		case bytes.HasPrefix(text, []byte("//")):
			end = "\n"
		case bytes.HasPrefix(text, []byte("/*")):
			end = "*/"
		default:
			return bytes.HasPrefix(text, []byte(".version"))
		}
		_, text, _ = bytes.Cut(text[2:], []byte(end))
	}
}
