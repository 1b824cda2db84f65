package cusim

import (
	"io"

	"github.com/purecu/purecu/internal/sim"
)

// Thread is a thread of a kernel.
type Thread struct {
	// Kernel is the name of the kernel.
	Kernel string
	// Block is the index of the block, and Thread that of the thread in it. They count from 0.
	Block, Thread Dim3
}

// TraceThread writes to w which instructions of PTX one thread executes, in each launch of its kernel: the
// line, the instruction, the registers that it reads, and, behind an arrow, those that it writes:
//
//	12  @%p1 bra $L__BB0_2;               // %p1=false skipped
//	13  add.s32 %r4, %r1, 1;              // %r1=-8 -> %r4=-7
//
// Before the instructions is a line with the number of the launch. Launches of the kernel are numbered in the order
// in which the program makes them. A line has the values of the registers for one execution. Numbers above
// 2^20 are hexadecimal, unless the instruction takes them for signed ones. The kernel waits for w, which must
// not call the driver: that call could wait for the kernel. All kernels take longer, as they are executed one
// instruction after the other. The last TraceThread counts. If w is nil, the option has no effect.
func TraceThread(t Thread, w io.Writer) Option {
	if w == nil {
		return func(*Driver) {}
	}
	dim := func(d Dim3) sim.Dim3 { return sim.Dim3{d.X, d.Y, d.Z} }
	return with(sim.TraceThread(sim.Thread{Kernel: t.Kernel, Block: dim(t.Block), Thread: dim(t.Thread)}, w))
}

// Coverage collects which lines of PTX threads execute. The zero Coverage is empty. Several drivers may use one
// at once, so that it is about all tests of a package. Kernels with a Go function of [WithKernel] are not
// executed.
type Coverage struct{ sim sim.Coverage }

// Cover makes the driver collect in c which lines of PTX are executed, of all modules that it loads. A launch
// counts when it has ended. All kernels take longer, as they are executed one instruction after the other. In a
// test, cutest.Cover also writes the result. If c is nil, the option has no effect.
func Cover(c *Coverage) Option {
	if c == nil {
		return func(*Driver) {}
	}
	return with(sim.Cover(&c.sim))
}

// Summary returns a line for each module, with how many of its lines were executed, and how many of its
// branches: an instruction with a guard predicate has two, one for true and one for false. A module has the
// name of its first kernel.
func (c *Coverage) Summary() string { return c.sim.Summary() }

// WriteProfile writes how many threads have reached each instruction, in the format of go test -coverprofile
// with the mode count. The guard predicate need not be true.
func (c *Coverage) WriteProfile(w io.Writer) error { return c.sim.WriteProfile(w) }

// WriteListing writes the summary and the text of each module. Before each line with instructions is how many
// threads have reached it, and behind guard predicates how often they were true and false. A "!" is before a
// line that no thread has reached, or whose guard predicate was always the same.
func (c *Coverage) WriteListing(w io.Writer) error { return c.sim.WriteListing(w) }
