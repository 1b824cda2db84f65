package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// capture is a capture that is under way: of one stream, and of those that joined.
type capture struct {
	id          uint64
	mode        int32
	thread      uint64 // the id of the thread that began it
	osThread    int    // the operating system's number of that thread if a goroutine is locked to it, else 0
	origin      *stream
	streams     []*stream
	events      []*event // whose newest record is part of it
	graph       *graph.Graph
	invalidated bool
	lost        []graph.Edge // from the ends of streams that were destroyed
	// taken is set when the capture ends without an error, so that the program gets the graph.
	taken bool
}

// dependencyArrays are arrays that the driver gives a program, which may read them until its next call on the stream.
type dependencyArrays struct {
	nodes []driver.GraphNode
	data  []driver.GraphEdgeData
}

// graphAlloc is the memory of a node that allocates. It has its address as long as its graph and the
// graph's executable graph exist, or it is allocated.
type graphAlloc struct {
	block  *block
	owner  *graph.Graph // has the node
	params driver.MemAllocNodeParams
	access []driver.MemAccessDesc
	// freers are the graphs that have a node that frees the memory.
	freers []*graph.Graph
	// allocated says that a launch has allocated the memory, and no later call has freed it.
	allocated bool
	// instantiated says that the graph had an executable graph before a node of it freed the memory.
	instantiated bool
	// refs counts the graph and its executable graph.
	refs int
}

// graphMemory is the memory that a device has for graphs. It stays until it is trimmed.
type graphMemory struct {
	used         highWater // and reserved: a driver reports the same
	reservedHigh uint64
	parts        []graphPart
}

// graphPart is the memory for the nodes of a graph.
type graphPart struct {
	of   *graph.Graph
	size uint64
}

// kernelAttributes are the attributes of a kernel node that were set. They never change.
type kernelAttributes map[int32]driver.LaunchAttributeValue

// work is something to be done on a stream: now, or, if the stream is being captured, whenever the graph runs. It does
// not change after a node has it, except for kernelWork.pointers. All work of nodes is of this type, except for a
// graph.Child and a graph.Conditional, which runNode executes.
type work interface {
	graph.Work
	// context returns the context in which a node does the work, or nil if that is the context of the launch.
	context() *context
	// op returns the operation that does the work. A kernel of an executable graph can set the values.
	op(values graph.Values) *op
}

// exec is a CUgraphExec.
type exec struct {
	handle driver.GraphExec
	ctx    *context
	flags  uint64
	graph.Exec
	newest *op // the last operation of the newest launch
}
