package sim

import (
	"sync"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/texture"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/sim/mem"
)

// blockKind is the kind of a block of memory.
type blockKind uint8

const (
	deviceBlock      blockKind = iota // of cuMemAlloc
	poolBlock                         // of a pool of device memory
	graphBlock                        // of a node of a graph
	moduleBlock                       // a variable of a module
	arrayBlock                        // an array, which has no address for programs
	mappedBlock                       // physical memory that is mapped
	ipcBlock                          // memory of another process, of cuIpcOpenMemHandle
	externalBlock                     // memory of another API, of cuExternalMemoryGetMappedBuffer
	managedBlock                      // of cuMemAllocManaged
	managedPoolBlock                  // of a pool of managed memory
	pinnedBlock                       // of cuMemHostAlloc
	pinnedPoolBlock                   // of a pool of pinned memory
	registeredBlock                   // memory of other code, pinned by cuMemHostRegister
	pageableBlock                     // memory of other code, not registered
)

// onHost reports whether it is memory of the host.
func (k blockKind) onHost() bool { return k >= pinnedBlock }

// visible reports whether the host can access the memory.
func (k blockKind) visible() bool { return k >= managedBlock }

func (k blockKind) pooled() bool {
	return k == poolBlock || k == managedPoolBlock || k == pinnedPoolBlock
}

// foreign reports whether the memory belongs to other code, which could unmap it.
func (k blockKind) foreign() bool { return k >= registeredBlock }

// block is a piece of memory with one owner.
type block struct {
	addr, size uint64
	kind       blockKind
	ctx        *context
	flags      uint32       // flags of pinned and registered memory
	chunk      *chunk       // of a pool
	mapping    *mapping     // of physical memory
	parts      []span       // of a block that stands for neighbours: see addressSpace.across
	mem        *mem.Content // has what the block contains, from the offset begin on; nil if it has a mapping or parts
	begin      uint64
	// defined says which bytes were written, or is nil if no check of kernels needs it.
	defined *vm.Defined
	// asleep says that the memory of a graph's node is not allocated now: see graphAlloc.
	asleep bool

	blockLife
	blockSettings
	blockOwner
}

// blockLife is the creation and the end of a block.
type blockLife struct {
	id      uint64    // differs from those of all other blocks
	created []uintptr // the stack of the creation
	freer   string    // the function that frees it, or ""
	// leaving says that cuMemFreeAsync was called, and gone that the block is freed.
	leaving, gone bool
}

// blockSettings are what the program has set for a block.
type blockSettings struct {
	advice []advised // about managed memory, in the order of the offsets; nil if there is none
	// syncMemops is CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
	syncMemops bool
}

// blockOwner is what a block belongs to, if not to the program alone.
type blockOwner struct {
	// variable says that the managed memory is a variable, which the program cannot free.
	variable bool
	alloc    *graphAlloc // of a graph's node
	shared   *ipcMemory  // of memory that processes share, or nil
}

// addressSpace is the unified address space of the devices and the host.
type addressSpace struct {
	mem.Blocks[*block]
	ranges          []*addressRange
	next            uint64 // the first unused address of the devices
	pinned, managed uint64 // sizes of the pinned and of the managed memory, in bytes
	ids             uint64 // the last assigned id
	// building says that the call is about nodes of a graph, which may use memory that is not
	// allocated now: see graphAlloc.
	building bool

	budget mem.Budget
	wide   sync.Mutex // see vm.Device
	freedMemory
}

// freedMemory is memory that was freed, and what is left to do about it: see reclaim.
type freedMemory struct {
	// freed has the blocks that were freed last, for reports about kernels that still use them.
	freed   mem.FreedList
	closing []*memoryFile
	retired []retired
	stale   mem.StaleList
	shrunk  []*memPool // pools that processes share, and that have given chunks back
}

// span is a part of a block.
type span struct {
	*block
	off, n uint64
}

// ipcMemory is memory that processes share.
type ipcMemory struct {
	file  *memoryFile
	id    ipcID // of the file
	opens int   // how often this process has opened it, if it is memory of another process
}

// retired is a content that is given back when what had begun before a number has ended. The number is 0
// until reclaim looks.
type retired struct {
	*mem.Content
	before uint64
	freed  *mem.Freed // of the block of the host that had the content, or nil
}

// memPool is a pool of memory of a device, of pinned memory, or of managed memory. It reserves
// chunks, from which streams allocate blocks. A block that a stream frees can serve an allocation
// that comes after the free.
type memPool struct {
	handle driver.MemoryPool
	kind   blockKind // of its blocks
	dev    *device   // or nil if the location is no device
	// location is the location, for managed memory the preferred one.
	location driver.MemLocation
	// created says that the program has created the pool, and destroyed that it has destroyed it.
	// The memory stays valid until it is freed.
	created, destroyed bool
	max                uint64 // the most memory that the pool may reserve, in bytes; 0 for no limit
	threshold          uint64
	reuse              [3]int32 // by attribute, from CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES on
	reserved, used     highWater
	chunks             []*chunk
	access             map[*device]int32
	hostAccess         int32 // that was set for managed memory
	poolFile
}

// poolPlace is a type of memory, and where it is.
type poolPlace struct {
	managed  bool
	location driver.MemLocation
}

// standingPools are the default pool of a place, and the one that is current there.
type standingPools struct{ first, current *memPool }

// poolFile is the file with the content of a pool that processes share.
type poolFile struct {
	file     *memoryFile     // or nil
	imported bool            // from another process, or this one
	growing  bool            // the file system allocates parts of the file, or gets them back
	charged  map[uint64]bool // the units of the file for which the budget has given memory
	lack     error           // why the file could not grow, of the newest attempt
}

// highWater is a number of bytes, and the most that it was since the last reset.
type highWater struct{ now, high uint64 }

// add changes the number. by may be a negative number in two's complement.
func (w *highWater) add(by uint64) {
	w.now += by
	w.high = max(w.high, w.now)
}

const (
	// chunkSize is the unit of the sizes of chunks, and chunkUnit that of the parts of the files of
	// pools that the file system allocates, in bytes.
	chunkSize = 32 << 20
	chunkUnit = 2 << 20
)

// chunk is memory that a pool has reserved. Its blocks are parts of one content: work that was enqueued
// before a free may run after the memory is allocated again.
type chunk struct {
	pool       *memPool
	addr, size uint64
	offset     uint64 // in the file of the pool
	mem        *mem.Content
	allocated  uint64 // bytes from the beginning on that the file system has allocated
	live       int    // number of blocks that are not freed
	free       []piece
}

// piece is a part of a chunk that can be allocated.
type piece struct {
	addr, size uint64
	s          *stream // that has freed it, or nil
	op         *op     // the free, or nil
	was        *block  // that was there, or nil
}

// granularity is the unit of physical memory, and of its mappings, in bytes.
const granularity = 2 << 20

// addressRange is a range of addresses that the program has reserved.
type addressRange struct {
	addr, size uint64
	created    []uintptr // the stack of the creation
}

// physical is memory of a device that has no address. It exists until the program has released all
// handles, and has unmapped it everywhere.
type physical struct {
	handle  uintptr
	dev     *device
	prop    driver.MemAllocationProp
	size    uint64
	handles int // that are not released
	uses    int // handles and mappings
	mem     *mem.Content
	shared  *memoryFile // the file with the content, if other processes may get it
	// imported says that the memory is of another physical, perhaps of another process.
	imported bool
}

// mapping is physical memory at an address: that of its block.
type mapping struct {
	physical *physical
	access   map[*device]int32
}

// gathered is a copy of neighbours in one piece, for a kernel in Go.
type gathered struct {
	*block
	was *mem.Content // what the copy had in the beginning
}

const (
	// deviceBase is the first address of the devices. These addresses look like those of a GPU, but
	// are above all addresses of a process. So no memory of the host has such an address, and a
	// program that uses one as a pointer fails at once.
	deviceBase = 0x1_7f00_0000_0000
	// deviceEnd is the end of these addresses. Behind it kernels have other memory.
	deviceEnd = vm.SharedWindow
	// alignment is the alignment of device memory, in bytes.
	alignment = 512
	// mostPinned is the largest size of all pinned memory, and mostManaged that of all managed memory, in
	// bytes. Both are more than most machines have: see mem.Content.
	mostPinned  = 1 << 35
	mostManaged = 1 << 38
	// contextMemory is the size of the device memory that a context uses for itself, in bytes. It
	// was measured on an H100 (driver 580.159.04, CUDA 13.0) with one context that had two streams,
	// a module and 64 bytes of memory. Other versions of the driver use other sizes.
	contextMemory = 556_597_248
)

// rounded returns the size of device memory that a block uses.
func rounded(size uint64) uint64 { return (size + alignment - 1) &^ (alignment - 1) }

// advice is what the program has said about the use of managed memory.
type advice struct {
	readMostly           bool
	preferred, prefetch  driver.MemLocation
	accessedBy           uint64 // a bit for each device, and accessedByHost
	hasPreferred, loaded bool   // preferred and prefetch are set
}

// advised is the advice about a part of a block, whose offsets are multiples of a page.
type advised struct {
	from, to uint64
	advice
}

// cudaArray is an array of one, two or three dimensions, perhaps with layers.
type cudaArray struct {
	ctx    *context
	handle driver.Array
	desc   driver.Array3DDescriptor
	block  *block
	// row is the size of a row in bytes. There are so many rows in each plane or layer, and so many of these.
	row, rows, planes uint64
}

// imageObject is a texture or surface object.
type imageObject struct {
	ctx      *context
	handle   uintptr
	resource driver.ResourceDesc
	texture  driver.TextureDesc
	view     driver.ResourceViewDesc
	object   texture.Object // what kernels use
	// endsAt is the number of the first launch that comes after its destruction, or 0.
	endsAt atomic.Uint64
}

// kernelMemory is the memory for kernels in PTX of a context.
type kernelMemory struct {
	d   *Driver
	ctx *context
}
