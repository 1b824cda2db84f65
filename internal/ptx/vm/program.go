// Package vm executes kernels in a compact form: the machine of the PTX executor. A warp of 32 lanes
// executes each instruction for all of its active lanes at once. The package knows how warps diverge
// and wait, how blocks share processors, and how memory is accessed. It does not know what an
// instruction computes: package isa has the functions, and package compile makes the programs.
//
// A launch goes from launch.go, which shares blocks among workers, to block.go and warp.go; program.go has what they
// execute. check.go and races.go look for mistakes, watch.go counts and traces instructions, and schedule.go changes
// the order of warps and blocks.
package vm

import (
	"sync/atomic"

	"github.com/purecu/purecu/internal/ptx/vm/simd"
)

// Lanes is the number of threads of a warp.
const Lanes = 32

// Full is the mask of all lanes of a warp.
const Full uint32 = 1<<Lanes - 1

// Column has the values of a register in the lanes of a warp. A register of fewer than 64 bits is in
// the lower bits. The upper bits are undefined.
type Column = simd.Column

// Func executes an instruction for the lanes in w.Active.
type Func func(w *Warp, o *Op)

// Kind says what the machine has to do about an instruction.
type Kind uint8

// The kinds of instructions.
const (
	Plain   Kind = iota // it computes registers
	Touches             // it accesses memory, and may have a fault
	Sync                // it waits for the lanes in the mask that its E operand names
	Barrier             // it waits for threads of the block
	Cluster             // it arrives at the barrier of the cluster, or waits for it
	Branch              // to Op.Target
	Index               // to one of Detail.Targets, by the value of A
	Call                // of the function at Op.Target; D is where the callee finds the way back
	CallTo              // of the function whose address is A
	Return              // from a function; A is where the way back is
	Exit                // of the thread
	Trap                // ends the kernel with the fault Imm
	Nothing             // takes place, and does nothing
)

// Op is an instruction. Its operands are indices of columns, or of predicates.
type Op struct {
	Run    Func
	D      int32
	A      int32
	B      int32
	C      int32
	E      int32
	Guard  int32 // 0, or the index of a predicate and 1; negative if it is negated
	Target int32
	Kind   Kind
	Join   bool // lanes that have diverged may meet here
	Imm    int64
	X      *Detail
}

// Detail has what few instructions need.
type Detail struct {
	D       [8]int32 // the columns of a vector; -1 for none
	N       int
	Lists   [4][]int32 // the columns of lists of registers
	Offset  int64      // of a second address
	Targets []int32
	Copies  []Copy // of CopyLocal
	// Saved and SavedTruths are the columns and predicates of Save and Restore.
	Saved       []int32
	SavedTruths []int32
	// P is a second result, which is a predicate: its index and 1, or 0 for none.
	P int32
	// The rest is for barriers.
	Arrive  bool // it does not wait
	Counted bool // B is the number of threads, or another operand that may be absent is there
	Reduce  bool // C is a predicate, and Run gets the reduction
}

// Copy says that bytes of the local memory of a thread are copied. A base that is not 0 is the column
// of an address to which the offset is added.
type Copy struct {
	To, From, Size   uint32
	ToBase, FromBase int32
}

// Place is where an instruction is in the text.
type Place struct {
	Line int32
	Text string // the name of the instruction with its modifiers
	// File is the number of a source file, and Source a line in it. They are 0 if they are not known.
	File, Source uint32
}

// Special is a special register that has a column, with which a warp begins.
type Special uint8

// The special registers that do not change while a thread runs.
const (
	NoSpecial Special = iota
	TidX
	TidY
	TidZ
	NtidX
	NtidY
	NtidZ
	CtaidX
	CtaidY
	CtaidZ
	NctaidX
	NctaidY
	NctaidZ
	LaneID
	WarpID
	NwarpID
	LanemaskEq
	LanemaskLe
	LanemaskLt
	LanemaskGe
	LanemaskGt
	DynamicShared
	SMID
	NSMID
	GridID
	Env1        // of a cooperative launch: the upper half of the address of memory for the whole grid
	Env2        // and the lower half
	Zero        // an environment register that nobody has set
	Reserved    // the size of the shared memory below that of kernels
	ReservedOne // a place in it
	TotalShared
	AggregateShared
	ExplicitCluster // 1 if the launch says how large clusters are
	ClusterX
	ClusterY
	ClusterZ
	NclusterX
	NclusterY
	NclusterZ
	ClusterCtaidX
	ClusterCtaidY
	ClusterCtaidZ
	ClusterNctaidX
	ClusterNctaidY
	ClusterNctaidZ
	ClusterCtarank
	ClusterNctarank
)

// Constant is a column with the same value in all lanes.
type Constant struct {
	Column int32
	Value  uint64
	Symbol string // a variable of the module, whose address is added to Value; or ""
}

// Sizes are how much memory a kernel needs, in bytes.
type Sizes struct {
	Shared uint32 // the static shared memory of a block
	Static uint32 // the same without what aligns the dynamic shared memory
	Local  uint32 // the local memory of a thread
	Params uint32 // the parameters
}

// Kernel is a kernel that can be executed. It is not changed after its translation, except for spare.
type Kernel struct {
	Name       string
	Code       []Op
	Places     []Place           // by the index in Code
	Files      map[uint64]string // the names of source files
	Columns    int
	Predicates int
	Constants  []Constant
	Specials   map[Special]int32 // the columns of special registers
	Sizes
	Entries   map[uint64]int32 // the functions that are called by their addresses
	Clusters  bool             // it has to do with clusters
	Allocates bool             // it calls malloc or free
	Saves     bool             // registers are saved, perhaps many times
	Notes     *Notes           // nil unless it is watched

	spare atomic.Pointer[spare]
}

// The windows of the generic address space in which a block's shared memory, a warp's local memory, the parameters
// of a kernel, and the constant memory of its module are. No memory of a device or of the host has such an address.
const (
	SharedWindow uint64 = 0x1000_0000_0000_0000
	LocalWindow  uint64 = 0x2000_0000_0000_0000
	ParamWindow  uint64 = 0x3000_0000_0000_0000
	ConstWindow  uint64 = 0x4000_0000_0000_0000
	WindowSize   uint64 = 0x0001_0000_0000_0000
)

// ConstSize is the size of the window of constant memory, as on an H200.
const ConstSize = 1 << 16

// SharedBegin is the address of the first byte of static shared memory, as on an H200.
const SharedBegin = 1024
