package sim

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
)

// nodeType is the type of a node: CUgraphNodeType.
type nodeType int32

const (
	kernelNode      nodeType = 0
	memcpyNode      nodeType = 1
	memsetNode      nodeType = 2
	hostNode        nodeType = 3
	childNode       nodeType = 4
	emptyNode       nodeType = 5
	eventWaitNode   nodeType = 6
	eventRecordNode nodeType = 7
	signalNode      nodeType = 8
	waitNode        nodeType = 9
	allocNode       nodeType = 10
	freeNode        nodeType = 11
	batchMemOpNode  nodeType = 12
	conditionalNode nodeType = 13
)

// graph is a CUgraph.
type graph struct {
	handle driver.Graph
	shape
	d *Driver
	// execs is how many executable graphs of the graph there are.
	execs int
	// allocating is how many executable graphs there are that got nodes from the graph when it allocated memory.
	allocating int
	// copies is how many clones of the graph there are, and nodes with a copy of it that the program has added.
	copies int
	// of is the graph that this one is a clone of, or nil.
	of *graph
	// handles is how many handles of values were created for the graph.
	handles int
	// tooLarge says that memory could not be allocated for a node of the graph.
	tooLarge bool
	// parent is the conditional node that the graph is a body of, or nil.
	parent *node
	// references are those to user objects that the graph has, without those of child graphs.
	references references
	// owner is the node that runs the graph as its child graph, and owns it, or nil.
	owner *node
}

// shape is the nodes of a graph, or of a body of an executable graph.
type shape struct {
	nodes []*node // in the order of their creation
	// sinks are those that no other node comes after. As on an H200, a node that becomes one is the last one.
	sinks []*node
	added int // how many nodes were ever added, also to the graph that this one is a clone of
}

// node is a node of a graph.
type node struct {
	handle       driver.GraphNode
	graph        *graph
	work         work
	ctx          *context // that the work is done in; nil for that of the launch
	dependencies []*node  // the nodes that it comes after
	dependents   []*node  // the nodes that come after it, in the order in which the edges were added
	// data has what is not a full dependency of the edges from its dependencies.
	data map[*node]driver.GraphEdgeData
	// number says how many nodes were added before, also to the graph that this one is a clone of.
	number int
	// original is the node that this one, of a clone, is a copy of, or nil.
	original *node
	// child is the child graph of the node, if the program has asked for it, or nil. The program may
	// change it.
	child *graph
	// references are those to user objects of the child graph of the node's work, which child has if it is not nil.
	references references
	// disabled says that the node of an executable graph does nothing.
	disabled bool
}

// capture is a capture that is under way: of one stream, and of those that joined.
type capture struct {
	id          uint64
	mode        int32
	thread      *thread // that began it
	osThread    int     // the operating system's number of that thread if a goroutine is locked to it, else 0
	origin      *stream
	streams     []*stream
	events      []*event // whose newest record is part of it
	graph       *graph
	invalidated bool
	lost        []edge // from the ends of streams that were destroyed
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
	owner  *graph // has the node
	params driver.MemAllocNodeParams
	access []driver.MemAccessDesc
	// freers are the graphs that have a node that frees the memory.
	freers []*graph
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
	of   *graph
	size uint64
}

// kernelAttributes are the attributes of a kernel node that were set. They never change.
type kernelAttributes map[int32]driver.LaunchAttributeValue

// condition is what a handle of a value stands for.
type condition struct {
	graph    *graph // the outermost one
	first    uint32 // the value at the beginning of each launch if assigned is set
	assigned bool
	node     *node // that reads the value, or nil
	number   int   // of handles that the graph had before
}

// conditionValues are the values of an executable graph.
type conditionValues map[driver.GraphConditionalHandle]*conditionValue

type conditionValue struct {
	condition
	atomic.Uint32
}

// set sets a value, if the executable graph has it.
func (v conditionValues) set(h uint64, value uint32) bool {
	if c := v[driver.GraphConditionalHandle(h)]; c != nil {
		c.Store(value)
		return true
	}
	return false
}

type edge struct {
	from, to *node
	data     driver.GraphEdgeData
}

// userObject is a CUuserObject.
type userObject struct {
	handle  driver.UserObject
	destroy driver.Callback
	own     uint64 // references of the program
	all     uint64 // those of graphs and executable graphs included
}

// references are numbers of references to user objects.
type references map[*userObject]uint64

// work is something to be done on a stream: now, or, if the stream is being captured, whenever the graph runs. It does
// not change after a node has it, except for kernelWork.pointers. There is one type for each kind of work.
type work interface {
	// nodeType returns the type of a node with the work.
	nodeType() nodeType
	// context returns the context in which a node does the work, or nil if that is the context of the launch.
	context() *context
	// op returns the operation that does the work. A kernel of an executable graph can set the values.
	op(values conditionValues) *op
	// updatable reports whether an update of an executable graph can replace the work by other work of the same type.
	updatable(other work) bool
	// replaceable is updatable for a function that sets the parameters of one node.
	replaceable(other work) bool
	// references returns the references to user objects of the graphs in the work.
	references() references
}
