package graph

import (
	"github.com/purecu/purecu/cu"
)

// Work is what a node of a graph does: a pointer to one of the types of this package that have work, such
// as [*Kernel]. [Graph.Add] makes a node of it, [Node.Set] and [Exec.Set] replace the work of a
// node, and [Node.Work] returns it. They copy the value: the program may change it afterwards, and use
// it again.
//
// Fields that only [Node.Work] sets are ignored by the others. Addresses and handles in them are numbers,
// which keep nothing: see memory.PointerInfoOf.
type Work interface {
	// row returns what all values of the type have in common, or nil for a nil pointer.
	row() *nodeRow
	// prepare checks the value, makes the call keep what the work uses, and sets what the driver is told. The
	// caller holds the locks of the call.
	prepare(c *nodeCall) error
}

// Kernel runs a kernel: see [cu.Function.Launch] for the arguments. The kernel may be of another context than
// the graph. In an executable graph the new kernel must be of the context of the old one, and both or neither
// must be launched cooperatively (cuGraphAddKernelNode, cuGraphKernelNodeSetParams,
// cuGraphExecKernelNodeSetParams).
type Kernel struct {
	Function *cu.Function
	// Config is the configuration. [Node.Work] returns the attributes that the node was given, and none
	// of a captured launch.
	Config cu.LaunchConfig
	Args   []cu.Arg
	// Params is set by [Node.Work], which sets Config too, but neither Function nor Args.
	Params *KernelParams
}

// KernelParams says which kernel a node runs, and with which arguments (cuGraphKernelNodeGetParams).
type KernelParams struct {
	// Name is the kernel's name, "" if the driver is older than CUDA 12.3.
	Name string
	// Function is the CUfunction, as [cu.Function.Handle] returns it. Kernel is the CUkernel, as
	// [library.Kernel.Handle] returns it, if the kernel is one of a library and the driver says so. One of them
	// may be 0.
	Function, Kernel uintptr
	// Args has the bytes of each argument. It is nil if they are not known: the driver is older than
	// CUDA 12.4, or other code has passed all arguments in one buffer.
	Args [][]byte
}

// Copy copies Src to the beginning of Dst: see [cu.Stream.Copy]. Without bytes to copy, Add makes an empty
// node (cuGraphAddMemcpyNode, cuGraphMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams).
//
// In an executable graph the memory must be of the same contexts as before, and not empty, and a copy of
// several rows cannot be replaced: change the graph's node, and instantiate the graph again.
type Copy struct {
	Dst, Src cu.Memory
	// Box makes the node copy a box, or a rectangle: see [cu.Stream.Copy3D]. Then both ends are of one context, or
	// one of them is on the host.
	Box *Box
	// DstAddr and SrcAddr are set by [Node.Work], which sets Box too. They are the addresses of the first
	// bytes, 0 for an array.
	DstAddr, SrcAddr uint64
}

// Box is the shape of a copy: Depth planes of Height rows of Width bytes. Set Depth to 1 for a
// rectangle: a box without planes is empty.
type Box struct {
	Width, Height, Depth uint64
	// The pitches are the numbers of bytes from the beginning of a row to the beginning of the next one, and
	// the heights the numbers of rows from the beginning of a plane to the beginning of the next one. 0 means
	// that there is nothing between them. They mean nothing if there is only one row, or one plane.
	DstPitch, DstHeight, SrcPitch, SrcHeight uint64
}

// Memset sets the elements of memory to a value: see [cu.Stream.Memset]. Without elements, Add makes an empty
// node (cuGraphAddMemsetNode, cuGraphMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams).
//
// In an executable graph the memory must be of the same context as before, and not empty. If there are several
// rows, now or before, only the address and the value can change there. Fewer than 8 elements of 2 bytes of
// managed memory are refused if the two bytes of the value differ: driver 580 mixes them up if the node was
// instantiated with memory of another kind. [Exec.Update] does not find this out.
type Memset struct {
	Dst   cu.Memory
	Value uint32
	// ElementSize is the size of an element in bytes: 1, 2 or 4. 0 means 1.
	ElementSize uint32
	// Rect makes the node set a rectangle: see [cu.Stream.Memset2D].
	Rect *Rect
	// Addr is set by [Node.Work], which sets Rect too. It is the address of the first element.
	Addr uint64
}

// Rect is the shape of a memset: Height rows of Width elements.
type Rect struct {
	Width, Height uint64
	// Pitch is the number of bytes from the beginning of a row to the beginning of the next one. 0 means that
	// there are no bytes between the rows. It means nothing if there is only one row.
	Pitch uint64
}

// HostFunc calls a function: see [cu.Stream.HostFunc] for what it may do. Executable graphs that run at the same
// time may call it at the same time. The graph, and executable graphs made from it, keep the function. So a
// graph that the function refers to is never collected: close it (cuGraphAddHostNode,
// cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams).
type HostFunc struct {
	// Func is nil in the result of [Node.Work] if other code has given the function to the driver.
	Func func()
}

// Record records an event whenever the graph runs. From now on the event's completion is not remembered,
// and a wait is for its newest record: see [cu.RecordExternal] (cuGraphAddEventRecordNode,
// cuGraphEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, CUDA 11.1).
type Record struct {
	// Event may be released, or closed, at once: the graph keeps what it uses.
	Event cu.AnyEvent
	// Handle is set by [Node.Work]. It is the CUevent, as [cu.Event.Handle] returns it.
	Handle uintptr
}

// Wait waits for an event's newest record at the time of the launch (cuGraphAddEventWaitNode,
// cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, CUDA 11.1).
type Wait struct {
	// Event may be released, or closed, at once: the graph keeps what it uses.
	Event cu.AnyEvent
	// Handle is set by [Node.Work]. It is the CUevent, as [cu.Event.Handle] returns it.
	Handle uintptr
}

// Child does the work of another graph as it is when the value is used. Later changes of that graph do not
// affect the node. From then on calls on one of the two graphs wait for calls on the other. In an executable
// graph the new graph must have the same nodes and edges as the old one (cuGraphAddChildGraphNode,
// cuGraphExecChildGraphNodeSetParams; cuGraphNodeSetParams, CUDA 12.2).
type Child struct {
	// Graph is a copy in the result of [Node.Work]: close it like other graphs. If a graph has conditions,
	// the driver copies no child graph in it or in one of its bodies, and the error matches
	// [cu.ResultNotSupported].
	Graph *Graph
}

// Alloc allocates device memory whenever the graph runs (cuGraphAddMemAllocNode, CUDA 11.4). The memory has
// one address for the life of the graph. Only nodes of this graph can use it, and each must come after the new
// node, and before the node that frees the memory. It may have been used before, and is not cleared. If there
// is too little memory, Add may wait for the GPU, as [cu.Context.Alloc] does: see docs/blocking.md.
//
// # Lifetime
//
// Memory that a node frees can be used by nothing outside of the graph. Other memory stays allocated
// after a launch: see [Exec.Take]. Close of the DeviceMem frees nothing. It ends the program's use;
// nodes that use the memory keep it.
//
// # Limits
//
// The driver refuses to clone a graph with such nodes, to make it a child graph, to remove its nodes
// and edges, and to instantiate it while an executable graph of it is open, or one that
// [Exec.Update] has given its work. The errors match [cu.ResultNotSupported].
type Alloc struct {
	Size uint64
	// Mem is set by [Graph.Add].
	Mem *cu.DeviceMem
	// Addr is set by [Node.Work], which sets Size too.
	Addr uint64
}

// Free frees memory that an [Alloc], or [cu.Stream.Alloc] in a capture, has allocated in the graph. It must
// come after all nodes that use the memory, which one node can free (cuGraphAddMemFreeNode, CUDA 11.4).
type Free struct {
	Mem *cu.DeviceMem
	// Addr is set by [Node.Work].
	Addr uint64
}

// MemOps does operations on words of memory in their order: see [cu.Stream.BatchMemOps]. In an executable graph
// they must be as many as before, each of the same kind (cuGraphAddBatchMemOpNode,
// cuGraphBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, CUDA 11.7).
type MemOps struct {
	Ops []cu.MemOp
	// Params is set by [Node.Work]. Operations that are neither waits nor writes, which only code outside of
	// this package adds, are left out.
	Params []MemOpParams
}

// MemOpParams is one operation of a node with memory operations.
type MemOpParams struct {
	// Addr is the address of the word, and Size its size: 4 or 8 bytes.
	Addr uint64
	Size int
	// Waits says that the operation waits for Value, in the sense of Until. Otherwise it writes Value.
	Waits bool
	Value uint64
	Until cu.WaitFor
}

// ExternalSignal signals semaphores of other APIs: see interop.Signal. In an executable graph their number
// must be the same as before (cuGraphAddExternalSemaphoresSignalNode,
// cuGraphExternalSemaphoresSignalNodeSetParams, cuGraphExecExternalSemaphoresSignalNodeSetParams, CUDA 11.2).
type ExternalSignal struct {
	Ops []cu.ExternalOp
	// Params is set by [Node.Work].
	Params []ExternalOpParams
}

// ExternalWait waits for semaphores of other APIs: see interop.Wait. In an executable graph their
// number must be the same as before (cuGraphAddExternalSemaphoresWaitNode,
// cuGraphExternalSemaphoresWaitNodeSetParams, cuGraphExecExternalSemaphoresWaitNodeSetParams, CUDA 11.2).
type ExternalWait struct {
	Ops []cu.ExternalOp
	// Params is set by [Node.Work].
	Params []ExternalOpParams
}

// ExternalOpParams is a signal of a semaphore of another API by a node, or a wait for it.
type ExternalOpParams struct {
	// Semaphore is the CUexternalSemaphore, as interop.Semaphore.Handle returns it.
	Semaphore uintptr
	Value     uint64
}

// If does the work of Then if a condition is not 0, and that of Else otherwise (cuGraphAddNode, CUDA 12.3).
//
// # Bodies
//
// The graphs whose work the node does are its bodies. [Graph.Add] makes them, without nodes: add nodes to them,
// or capture into them. A body is part of the graph, is instantiated and closed with it, and keeps it. It can
// have kernels, copies, sets, graphs, nodes without work, and conditional nodes. If a capture into a body fails,
// the whole graph is closed, and the driver's memory for it is lost, because drivers crash when they free it.
// [Node.Work] returns the same bodies. It does not know conditional nodes that code outside of this package
// has added.
//
// # Limits
//
// The driver refuses to clone a graph with conditions, to make it a child graph, and to instantiate it
// while an executable graph of it is open. The errors match [cu.ResultNotSupported].
type If struct {
	Condition Condition
	// HasElse asks for a body Else (CUDA 12.8). Without it there is none.
	HasElse bool
	// Then and Else are set by [Graph.Add] and [Node.Work].
	Then, Else *Graph
}

// While does the work of its body again and again while a condition is not 0. A kernel of the body has to set
// it to 0. See [If] for bodies and limits (cuGraphAddNode, CUDA 12.3).
type While struct {
	Condition Condition
	// Body is set by [Graph.Add] and [Node.Work].
	Body *Graph
}

// Switch does the work of the body whose number a condition is, counted from 0, or nothing if there is none.
// See [If] for bodies and limits (cuGraphAddNode, CUDA 12.8).
type Switch struct {
	Condition Condition
	// Cases is the number of bodies, from 1 to 65536.
	Cases int
	// Bodies is set by [Graph.Add] and [Node.Work].
	Bodies []*Graph
}

// Empty does nothing: it comes after nodes, and others can come after it (cuGraphAddEmptyNode).
type Empty struct{}
