package cusim

import (
	"time"

	"github.com/purecu/purecu/internal/sim"
)

// Kernel is what a kernel does, in Go. Modules name kernels, and say what
// parameters they have; [WithKernel] says what happens when one runs. The zero Kernel
// takes 5 µs and does nothing. So does a kernel that WithKernel does not name, which is
// a [Misuse] as well, as its results are missing; see also [RefuseUnknownKernels].
type Kernel struct {
	// Time returns how long a launch takes, before it runs; nil stands for 5 µs. It
	// has only the arguments to go by.
	Time func(l *Launch) time.Duration
	// Run does what the kernel does, all at once when the launch ends: who reads
	// before that sees what was there before. It must not call the driver. If it
	// panics the device has a fault, as if the kernel had used memory that it does not
	// have, and the panic is kept as a [Misuse].
	Run func(l *Launch)
}

// WithKernel says what the kernels of a name do, in whichever module. The driver
// knows some of its own:
//
//	cusim_spin(u64 ns)                                        keeps the stream busy
//	cusim_illegal_address()                                   has a fault: 700
//	cusim_assert()                                            fails an assertion: 710
//	cusim_misaligned()                                        has a misaligned address: 716
//	cusim_trap()                                              ends itself: 719
//	cusim_fill_u32(u64 dst, u32 value, u32 n)                 dst[i] = value
//	cusim_add_f32(u64 dst, u64 x, u64 y, u32 n)               dst[i] = x[i] + y[i]
//	cusim_axpy_f32(u64 y, u64 x, f32 a, u32 n)                y[i] += a * x[i]
//
// Those that fail do so after 1 ms. Those with an n do as many elements as the launch has
// threads, and no more than n.
func WithKernel(name string, k Kernel) Option {
	var inner sim.Kernel
	if k.Time != nil {
		inner.Time = func(l *sim.Launch) time.Duration { return k.Time(launchOf(l)) }
	}
	if k.Run != nil {
		inner.Run = func(l *sim.Launch) { k.Run(launchOf(l)) }
	}
	return with(sim.WithKernel(name, inner))
}

// RefuseUnknownKernels makes launches of kernels fail that [WithKernel] does not name, that
// the driver does not have, and whose PTX does more than return, with
// CUDA_ERROR_NOT_SUPPORTED (801). Otherwise they take 5 µs and do nothing. Both is a [Misuse].
func RefuseUnknownKernels() Option { return with(sim.RefuseUnknownKernels()) }

// OnUnknownKernel has f called when a kernel is launched for the first time that
// [WithKernel] does not name, and the driver does not have. f runs on a goroutine that
// launches one, when the launch is enqueued or refused, and may call the driver.
func OnUnknownKernel(f func(name string)) Option { return with(sim.OnUnknownKernel(f)) }

// Dim3 is a number of blocks or threads in three dimensions.
type Dim3 struct{ X, Y, Z uint32 }

// Launch is one launch of a kernel.
type Launch struct {
	// Name is the kernel's.
	Name string
	// Grid is the number of blocks, Block the number of threads in each.
	Grid, Block Dim3
	// SharedMem is the size of the dynamic shared memory of a block, in bytes.
	SharedMem uint32

	sim *sim.Launch
}

// launchOf returns a launch as kernels see it.
func launchOf(l *sim.Launch) *Launch {
	return &Launch{Name: l.Name, Grid: Dim3(l.Grid), Block: Dim3(l.Block), SharedMem: l.SharedMem, sim: l}
}

// Threads returns how many threads the launch has.
func (l *Launch) Threads() uint64 { return l.sim.Threads() }

// Args returns how many arguments there are.
func (l *Launch) Args() int { return l.sim.Args() }

// Bytes returns the value of argument i, counted from 0. If there is none the
// kernel panics, as it does if the value is too short for one of the methods below.
func (l *Launch) Bytes(i int) []byte { return l.sim.Bytes(i) }

// U32 returns argument i, of 32 bits.
func (l *Launch) U32(i int) uint32 { return l.sim.U32(i) }

// U64 returns argument i, of 64 bits. An address is one.
func (l *Launch) U64(i int) uint64 { return l.sim.U64(i) }

// F32 returns argument i, a 32-bit float.
func (l *Launch) F32(i int) float32 { return l.sim.F32(i) }

// F64 returns argument i, a 64-bit float.
func (l *Launch) F64(i int) float64 { return l.sim.F64(i) }

// Mem returns the memory from the address that argument i is to the end of the
// allocation. If nothing is there the device has a fault, and Mem returns nil. The
// slice is for Run alone.
func (l *Launch) Mem(i int) []byte { return l.sim.Mem(i) }

// Global returns the memory of a variable of the kernel's module. If there is none
// the device has a fault, and Global returns nil. The slice is for Run alone.
func (l *Launch) Global(name string) []byte { return l.sim.Global(name) }

// Fault makes the launch fail with a code, such as 700 for an illegal address: the
// device is of no use afterwards. The first code counts.
func (l *Launch) Fault(code int) { l.sim.Fault(code) }
