package cusim

import (
	"time"

	"github.com/purecu/purecu/internal/sim"
)

// Kernel is an implementation of a kernel in Go, which takes the place of its PTX: see [WithKernel]. The
// zero Kernel takes 5 µs and does nothing. The PTX of all other kernels is executed. A module with PTX that
// the driver lacks is not loaded, unless there is a [RefuseUnknownKernels] or [OnUnknownKernel].
//
// Run is called on a goroutine, for several launches at the same time if nothing orders the launches. It may
// wait for the program. Neither function may call the driver. No [KernelLimit] ends them.
type Kernel struct {
	// Time returns the duration of a launch before it runs. It must depend only on the arguments, and return at
	// once: other calls of the driver wait for it. nil means 5 µs.
	Time func(l *Launch) time.Duration
	// Run makes the changes of the kernel, at the end of the launch. If it panics, the device has a fault as if
	// the kernel had used an invalid address, and the panic is recorded as a [Misuse].
	Run func(l *Launch)
}

// WithKernel sets the implementation of all kernels with a name, in all modules. Modules have the names and
// the parameters of kernels. The PTX of these kernels is not executed: [Driver.GoLaunches] counts their
// launches, and the compiler's verbose log of a module names them.
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

// RefuseUnknownKernels makes the driver load modules with unknown kernels: those without an
// implementation in Go whose PTX has what the driver lacks. Their launches fail with
// CUDA_ERROR_NOT_SUPPORTED (801), and are a [Misuse]. Without this option and [OnUnknownKernel] the
// module is not loaded: the result is 801, and the log says why. A module with invalid PTX is never
// loaded, as by a GPU's driver: the result is CUDA_ERROR_INVALID_PTX (218).
func RefuseUnknownKernels() Option { return with(sim.RefuseUnknownKernels()) }

// OnUnknownKernel is [RefuseUnknownKernels] with a function that is called at the first launch of each such
// kernel, on the goroutine that makes the launch. f may call the driver.
func OnUnknownKernel(f func(name string)) Option {
	return with(sim.OnUnknownKernel(func(name string, _ error) { f(name) }))
}

// Checks are mistakes of kernels that [CheckKernels] makes the driver look for.
type Checks uint

// The mistakes.
const (
	// CheckMemory finds reads of bytes that nothing has written: in memory from cuMemAlloc and
	// cuMemAllocPitch, and in shared memory. Copies, memsets and kernels write; a kernel in Go writes all
	// memory that it asks for. A copy of bytes that nothing has written does not count.
	CheckMemory = Checks(sim.CheckMemory)
	// CheckRaces finds two accesses of shared memory by threads of a block, of which one writes another
	// value, and between which there is neither a barrier nor a strong write and read with fences. Two
	// atomic, volatile or ordered accesses are no race, and accesses of other blocks are not looked at.
	CheckRaces = Checks(sim.CheckRaces)
	// CheckBarriers finds barriers that some threads do not reach: those of a warp wait at another
	// barrier, or a thread has ended before a barrier of the whole block.
	CheckBarriers = Checks(sim.CheckBarriers)
	// CheckAll has all of them.
	CheckAll = CheckMemory | CheckRaces | CheckBarriers
)

// ParseChecks returns the checks in a list of the names memory, races, barriers and all, separated by
// commas, as a command line has them.
func ParseChecks(s string) (Checks, error) {
	c, err := sim.ParseChecks(s)
	return Checks(c), err
}

// CheckKernels makes the driver look for mistakes of kernels in PTX. Each one is a [Misuse] with the
// kernel, the thread, the line of the PTX and its source, the address, and the other access. The launch
// goes on. Without the option nothing is looked at, and with it kernels take several times as long.
func CheckKernels(c Checks) Option { return with(sim.CheckKernels(sim.Checks(c), nil)) }

// Seed makes kernels in PTX execute in an order that follows from a seed: in which order the warps of a block
// have their turns, which of the blocks that have begun continues, and where they give their turns to others,
// behind accesses of memory and at barriers. A kernel with a race or without a barrier that it needs may have
// another result then, and with the same seed it has the same result again, on any number of processors.
// cutest.Seeds tries many seeds. The threads of a warp keep their order, as do the beginnings of blocks.
//
// A launch is executed by one goroutine, and takes up to four times as long on one processor. Each launch of a
// kernel has another order. It is the same in the next run if the program launches each kernel
// equally often before, nothing changes the memory of the kernel meanwhile, and the kernel does not read a
// clock, unless it is virtual. Without the option the order is what is fastest.
func Seed(n uint64) Option { return with(sim.Seed(n)) }

// KernelLimit ends a kernel in PTX that is executed for longer than a time, by the machine's clock. As on a
// GPU that limits the time of kernels, no context can be used afterwards: the result is
// CUDA_ERROR_LAUNCH_TIMEOUT (702). [Driver.Misuses] says where the kernel was, and how many of its blocks
// have run to their end. A launch is successful only if all have. Without the option, or with 0 or less, a
// kernel may take any time.
func KernelLimit(limit time.Duration) Option { return with(sim.KernelLimit(limit)) }

// Dim3 is a number of blocks or threads in three dimensions.
type Dim3 struct{ X, Y, Z uint32 }

// Launch is one launch of a kernel.
type Launch struct {
	// Name is the kernel's name.
	Name string
	// Grid is the number of blocks, and Block the number of threads in each block.
	Grid, Block Dim3
	// SharedMem is the size of the dynamic shared memory of a block, in bytes.
	SharedMem uint32
	// Cluster is the number of blocks in each cluster, 1 in each dimension without clusters.
	Cluster Dim3

	sim *sim.Launch
}

// launchOf returns the public form of a launch.
func launchOf(l *sim.Launch) *Launch {
	dim := func(d sim.Dim3) Dim3 { return Dim3{d[0], d[1], d[2]} }
	return &Launch{Name: l.Name, Grid: dim(l.Grid), Block: dim(l.Block), SharedMem: l.SharedMem, Cluster: dim(l.Cluster),
		sim: l}
}

// Threads returns how many threads the launch has.
func (l *Launch) Threads() uint64 { return l.sim.Threads() }

// Args returns how many arguments there are.
func (l *Launch) Args() int { return l.sim.Args() }

// Bytes returns the value of argument i, counted from 0. If there is no such argument, Bytes
// panics. The methods below also panic if the value is too short.
func (l *Launch) Bytes(i int) []byte { return l.sim.Bytes(i) }

// U32 returns argument i, of 32 bits.
func (l *Launch) U32(i int) uint32 { return l.sim.U32(i) }

// U64 returns argument i, of 64 bits, such as an address.
func (l *Launch) U64(i int) uint64 { return l.sim.U64(i) }

// F32 returns argument i, a 32-bit float.
func (l *Launch) F32(i int) float32 { return l.sim.F32(i) }

// F64 returns argument i, a 64-bit float.
func (l *Launch) F64(i int) float64 { return l.sim.F64(i) }

// Mem returns the memory from the address in argument i to the end of its allocation. The device has a
// fault, and Mem returns nil, if the address is invalid, or the machine has no memory for all of this.
// The slice is valid only during Run.
func (l *Launch) Mem(i int) []byte { return l.sim.Mem(i) }

// Global returns the memory of a variable of the kernel's module. If there is no such variable, the
// device has a fault, and Global returns nil. The slice is valid only during Run.
func (l *Launch) Global(name string) []byte { return l.sim.Global(name) }

// SetConditional does what cudaGraphSetConditional does on a GPU: it sets a value that conditional
// nodes of the launch's graph read. If the graph has no such handle, the device has a fault.
func (l *Launch) SetConditional(handle uint64, value uint32) { l.sim.SetConditional(handle, value) }

// Fault makes the launch fail with a code, such as 700 for an illegal address. Afterwards the
// device cannot be used. Only the first call of Fault has an effect.
func (l *Launch) Fault(code int) { l.sim.Fault(code) }
