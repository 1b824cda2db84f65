package graph

// Type is the type of a node: CUgraphNodeType.
type Type int32

// The types of nodes.
const (
	KernelNode      Type = 0
	MemcpyNode      Type = 1
	MemsetNode      Type = 2
	HostNode        Type = 3
	ChildNode       Type = 4
	EmptyNode       Type = 5
	EventWaitNode   Type = 6
	EventRecordNode Type = 7
	SignalNode      Type = 8
	WaitNode        Type = 9
	AllocNode       Type = 10
	FreeNode        Type = 11
	BatchMemOpNode  Type = 12
	ConditionalNode Type = 13
)

// Work is what a node does. It does not change after a node has it. There is one type for each kind of work.
type Work interface {
	// Type returns the type of a node with the work.
	Type() Type
	// Updatable reports whether an update of an executable graph can replace the work by other work of the same type.
	Updatable(other Work) bool
	// Replaceable is Updatable for a function that sets the parameters of one node. other is of the same type.
	Replaceable(other Work) bool
	// References returns the references to user objects of the graphs in the work.
	References() References
}

// Common has what most kinds of work have in common.
type Common struct{}

// Updatable implements [Work].
func (Common) Updatable(Work) bool { return true }

// Replaceable implements [Work].
func (Common) Replaceable(Work) bool { return true }

// References implements [Work].
func (Common) References() References { return nil }
