package sim

import (
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/internal/sim/code"
	"github.com/purecu/purecu/internal/sim/engine"
	"github.com/purecu/purecu/internal/sim/graph"
	"github.com/purecu/purecu/internal/simnvml"
)

// This file, state_graph.go and state_memory.go have the types that refer to each other: what a driver consists of.
// The other files build on them, and on each other in few cycles. Files of the same name with _calls have functions of
// the API that no other file needs.

// Driver is a software driver. It is safe for concurrent use, and need not be closed. One lock
// guards all its parts, because a call may change several of them at once.
type Driver struct {
	driver.Unimplemented // the functions that it lacks: docs/software-functions.md

	// mu is not locked while functions of the program are called, and while something may take long, such as a file
	// system that allocates or frees memory that processes share: see unlocked.
	mu sync.Mutex

	machine
	reports
	engine     engine.Engine // and the clock
	objects    objects
	space      addressSpace
	threads    threads
	semaphores map[fileID]*ExternalSemaphore
	graphs
	kernelTable
	failures
	waiting
	files
	// ids are the last assigned numbers, by kind.
	ids struct{ context, stream, event, capture, thread, split, launch, condition uint64 }
}

// machine is the computer: its devices and processes, and the version and the settings of the driver.
type machine struct {
	version    int32
	ready      bool                                           // cuInit was called
	opens      int                                            // successful calls of cuInit, less those of Closed
	polls      bool                                           // Go's poller has been started: see startPoller
	installed  []*device                                      // those of the machine
	devices    []*device                                      // those of them that the program sees, by their ordinals
	pools      []*memPool                                     // of no device
	standing   map[poolPlace]*standingPools                   // of what is not memory of a device alone
	lookup     func(variable string) (value string, set bool) // nil: there are no variables
	disordered bool                                           // cuInit has read an order that does not exist
	attributes map[int32]int32                                // the attributes that DeviceAttribute has set
	// descriptors are those of parts of devices, by their content.
	descriptors map[resourceDescriptor]driver.DevResourceDesc
	// processes are the states of other processes that are not running.
	processes map[int32]int32
	shared
}

// shared is what processes may share of a machine.
type shared struct {
	folder   string                   // of the files of the processes that share the devices, or ""
	ledger   *ledger                  // this process's, or nil
	settings map[int]simnvml.Settings // that somebody has changed, by the device's place, if there is no folder
}

// reports are what the program and its tests get to know.
type reports struct {
	misuses []Misuse
	report  io.Writer // nil without Report
	log     errorLog
}

// graphs are what belongs to no single graph.
type graphs struct {
	captures   []*capture       // the captures in progress
	conditions graph.Conditions // those of all graphs
}

// files are functions for files that processes share, which tests replace: reserveFile, what gives a part of a file
// back, what closes a file, and newIPCFile.
type files struct {
	allocateFile func(f *os.File, offset, n uint64) error
	punchFile    func(f *memoryFile, offset, n uint64) bool
	closeFile    func(f *memoryFile)
	newIPCFile   func(named bool) (*ipcFile, error)
}

// Option configures the driver that [New] returns.
type Option func(*Driver)

// Misuse is a cusim.Misuse.
type Misuse struct {
	Op        string
	Handle    uintptr
	What      string
	Destroyed string
	Count     int
}

const ok = driver.ResultSuccess

// unlocked calls f, which may take long, while the driver is unlocked. Other calls may change what
// the caller has looked at before.
func (d *Driver) unlocked(f func()) {
	d.mu.Unlock()
	defer d.mu.Lock()
	f()
}

// numbers are those of a device. index is its place on the machine, which decides on its UUID and its PCI bus ID.
// ordinal is its number in this process.
type numbers struct{ index, ordinal int }

// device is a GPU.
type device struct {
	*profile.GPU
	numbers

	primary  *context
	retained int    // how many use the primary context: the program, and green contexts
	greens   int    // the green contexts among them
	flags    uint32 // flags of the primary context
	contexts []*context
	usage
	standing  standingPools // of its memory, which cuMemAllocAsync allocates; nil before the first use
	pools     []*memPool    // all that are not destroyed
	noContext *context      // of memory that belongs to no context: see nowhere
	graphs    graphMemory
}

// The priorities of streams on an H200.
const (
	leastPriority    = 0
	greatestPriority = -5
)

// context is a CUDA context. A primary context that is released and retained again
// is a new one, with the same handle.
type context struct {
	handle       driver.Context
	id           uint64
	dev          *device
	flags        uint32
	primary      bool
	leaving      bool // a call waits for its work, to destroy it
	destroyed    bool
	pending      engine.Pending
	streams      []*stream
	legacy       *stream
	hiddenStream *stream // for records and waits of the whole context
	barrier      *op     // all later work waits for it; may be nil
	peers        map[*context]bool
	imported     []*externalMemory
	contextKernels
}

// contextKernels is what a context has for kernels.
type contextKernels struct {
	limits      map[int32]uint64
	cacheConfig int32
	memory      *kernelMemory // nil before the first launch
	heap        *code.Heap    // nil before the first launch of one that allocates
	workspaces  []uint64      // unused places of workspaceSize bytes
}

// streamOrigin says how a stream was created.
type streamOrigin uint8

const (
	createdStream streamOrigin = iota
	legacyStream
	perThreadStream
)

// stream is a queue of operations.
type stream struct {
	handle   driver.Stream
	id       uint64
	ctx      *context
	kind     streamOrigin
	flags    uint32
	priority int32

	engine.Stream
	owner *thread       // the thread whose default stream it is, or nil
	green *greenContext // the green context that it belongs to, or nil

	attributes kernelAttributes // those that were set, but for the priority

	capture   *capture         // the capture in progress, or nil
	deps      []graph.Edge     // the edges to the next node of the capture, which is not there yet
	depArrays dependencyArrays // of deps
}

// op is an operation on a stream, and opCalls are its functions.
type (
	op      = engine.Op
	opCalls = engine.Calls
)

// eventState says what an event stands for.
type eventState uint8

const (
	empty    eventState = iota // the event was never recorded, and is complete
	recorded                   // a point in a stream's work
	captured                   // a point in a capture
	invalid                    // nothing, as the capture has ended
)

// point is a point in a stream's work. A wait copies it, as the event may be recorded again during
// the wait.
type point struct {
	op *op     // the operation that completes there; nil if it was complete at the record
	at int64   // the time at which it was reached, if op is nil
	on *stream // the stream, or nil
}

// event is a CUevent.
type event struct {
	handle driver.Event
	id     uint64
	ctx    *context
	flags  uint32
	state  eventState
	point  point

	capture *capture     // the capture that contains the newest record
	deps    []graph.Edge // what it stands for there: edges to the next node

	ipc    *ipcEvent // the state that processes share, or nil
	orphan bool      // it was opened after the shared event was gone
}

// hostCall is a running host function.
type hostCall struct {
	op    *op     // the operation that completes when the function returns, or nil
	apart bool    // the function may make all calls
	waits []*wait // what the function waits for, all of it
}

// hostThreads are the threads that host functions may block.
type hostThreads struct {
	begin func() bool // takes one, if there is one; nil if there always is
	end   func()      // gives one back
	next  []func()    // functions that wait for a thread
}

// waiting contains the calls that wait, and the running host functions, which may make such calls.
type waiting struct {
	waits  []*wait
	asking int               // calls of Blocked that want to know the callers of waits
	hosts  map[int]*hostCall // the running host functions, by thread

	hostThreads hostThreads
}

// wait is a call that waits.
type wait struct {
	engine.Wait
	name   string    // of the C function
	handle uintptr   // the handle in its arguments, or 0
	host   *hostCall // the host function that makes the call, or nil
	begun  time.Time
	caller []uintptr // nil until a call of Blocked asks
}

// module is a CUmodule.
type module struct {
	handle    driver.Module
	ctx       *context
	functions map[string]*function
	variables map[string]variable
	constants *block // the variables in constant memory, or nil
	unloaded  bool
	library   *library // or nil
}

// function is a CUfunction: a kernel of a module.
type function struct {
	code.Function
	handle driver.Function // 0 until cuModuleGetFunction
	module *module
}

// variable is a variable of a module: where it is in a block.
type variable struct {
	block    *block
	at, size uint64
}

// library is a CUlibrary: code for all contexts. It becomes a module of a context when it is first
// used there.
type library struct {
	handle  driver.LibraryHandle
	code    map[*profile.GPU]*libraryCode
	problem driver.Result    // of the image on all GPUs, which is not read before the code is needed
	kernels []*libraryKernel // of the first GPU that can have the code
	modules map[*context]*module
	managed map[string]*block // the managed variables, which exist when the library was used in a context
}

// libraryCode is the code of a library on GPUs of a kind, or why they cannot have it.
type libraryCode struct {
	text    *code.Text
	problem driver.Result
	// attributes are those of its kernels as the code has them.
	attributes map[string]map[int32]int32
}

// libraryKernel is a CUkernel.
type libraryKernel struct {
	*code.Kernel
	handle  driver.Kernel
	library *library
	err     error // why it cannot be executed
	// attributes has those that were set, by device, and caches the configurations of the cache.
	attributes map[*device]map[int32]int32
	caches     map[*device]int32
}

// Kernel is a cusim.Kernel.
type Kernel struct {
	Time func(l *Launch) time.Duration
	Run  func(l *Launch)
}

// kernelTable contains the kernels with an implementation, and the launched kernels without one.
type kernelTable struct {
	kernels      map[string]Kernel
	unknown      unknownKernels
	instructions map[string]uint64 // of warps, by the name of the kernel
	goLaunches   map[string]uint64 // launches of functions in Go, by the name of the kernel
	checks       Checks            // of kernels in PTX
	kernelLimit  time.Duration     // after which a kernel in PTX is ended, or 0
	found        func(text string) // is called for what they find; may be nil
	watching     watching
	blockSizes   func(f uintptr, threads int32) uint64
	room         func(n uint64) bool // nil if memory has no limit
	printer      printer
	// readClock and print are functions for each launch of a kernel in PTX.
	readClock func() int64
	print     func(text []byte, failed bool)
}

// Dim3 is a number of blocks or threads in three dimensions.
type Dim3 = code.Dim3

// Launch is a cusim.Launch.
type Launch struct {
	Name        string
	Grid, Block Dim3
	SharedMem   uint32
	Cluster     Dim3 // the size of the clusters, 1 without any

	d      *Driver
	module *module
	args   code.Arguments
	code   driver.Result
	// gathered has copies of memory that is mapped in several parts: see mapped.
	gathered []gathered
	locked   bool // ask has locked the driver

	cooperative bool
	clustered   bool // the launch or the kernel has a size of clusters
	values      graph.Values
}

// unknownKernels are kernels without an implementation that were launched.
type unknownKernels struct {
	accepted   bool // modules with them are loaded
	notify     func(name string, why error)
	unreported []unknownKernel // kernels for which notify still has to be called
	misuses    map[string]int  // the index of each kernel's misuse, or -1 if there are too many misuses
}

// unknownKernel is a kernel, and why its PTX cannot be executed.
type unknownKernel struct {
	name string
	why  error
}

// Checks are a cusim.Checks.
type Checks uint

// The checks of package cusim.
const (
	CheckMemory Checks = 1 << iota
	CheckRaces
	CheckBarriers
	CheckAll = CheckMemory | CheckRaces | CheckBarriers
)

// printer is where the output of kernels goes.
type printer struct {
	mu  sync.Mutex
	out io.Writer // nil for the standard output, and for the standard error if an assertion fails
}

// externalMemory is a CUexternalMemory.
type externalMemory struct {
	handle driver.ExternalMemory
	ctx    *context
	file   *memoryFile
	size   uint64 // that can be mapped
	// dedicated memory is of one buffer: a mapping begins where it begins.
	dedicated bool
}

// ExternalSemaphore is cusim.ExternalSemaphore. The driver's lock guards it.
type ExternalSemaphore struct {
	d        *Driver
	timeline bool
	value    uint64 // of a timeline; a binary semaphore has 1 if it is signalled, and else 0
	changed  chan struct{}
	file     *memoryFile // an empty one, or nil after Close
	id       fileID
}

// fileID identifies a file while it is open.
type fileID struct{ device, number uint64 }

// greenContext is a CUgreenCtx: a share of a device's multiprocessors, and its streams. Everything
// else belongs to the primary context, which it retains. In this model the number of
// multiprocessors does not change how long work takes.
//
// After cuStreamGetCtx of one of its streams, its handle can be used as that of a context. As the
// current context it means the primary context.
type greenContext struct {
	handle       driver.GreenCtx
	id           uint64 // the result of cuCtxGetId
	asked        bool   // cuStreamGetCtx has returned its handle
	ctx          *context
	share        share
	queues       workQueues
	hiddenStream *stream // for records and waits of the whole green context
	barrier      *op     // all later work waits for it; may be nil
	destroyed    bool
}

// share is a part of a device's multiprocessors.
type share struct {
	dev   int
	count uint32
	split uint64 // the number of its split, from 1, or 0 if it may still be split
	index uint64 // its index in the split
	sets  uint32 // how many multiprocessors each of its sets has, for a part of cuDevSmResourceSplit
	left  bool   // it is what cuDevSmResourceSplit has left, which may be split by that function
	green uint64 // the number of the green context of which it is a part, or 0
}

// workQueues is the configuration of a green context's work queues, which CUDA 13.1 introduced. In
// this model each stream has a queue of its own, so it changes nothing.
type workQueues = driver.DevWorkqueueConfigResource

// resourceDescriptor is a CUdevResourceDesc. CUDA has no function that destroys one, so those with the same content
// are one.
type resourceDescriptor struct {
	share
	queues workQueues
}

// Fault is a cusim.Fault.
type Fault struct {
	Function string
	Nth      int
	Every    bool
	Code     int
	Slow     time.Duration
	Log      string
}

// fault contains the faults of a function.
type fault struct {
	calls []*pendingFault
	rates []*faultRate
}

// pendingFault is a Fault with the number of calls that come before it.
type pendingFault struct {
	Fault
	before int
	over   bool
}

// faultRate makes calls fail at random.
type faultRate struct {
	random *rand.Rand
	p      float64
	code   driver.Result
}

// failures contains the reasons for which calls fail.
type failures struct {
	faults      map[string]*fault // by the name of the function; "" is for all functions
	lost        driver.Result     // the first sticky error, after which all calls fail
	unreachable bool              // objects can no longer be destroyed: see Census
}

// errorLog is the log in which the driver explains errors. It has the messages of faults, and the
// driver's own complaints.
type errorLog struct {
	lines []string
	first uint32 // the position of lines[0]
}

// thread is the driver's state of a thread.
type thread struct {
	d     *Driver
	id    uint64 // no other thread has it; 0 for none
	stack []namedContext
	mode  int32 // the capture mode
	own   map[*context]*stream
	// anyThread says that the call is not made on a pinned thread.
	anyThread bool
}

// threads has states of threads.
type threads struct {
	none  thread    // of calls without a pinned thread; it has no state
	ended sync.Pool // of *thread: states of threads that have ended, for others
}

// namedContext is a current context: a context, or a green context that means its primary context.
type namedContext struct {
	*context
	green *greenContext
}
