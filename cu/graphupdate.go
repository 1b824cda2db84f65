package cu

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// GraphUpdateReason says why the driver did not update an executable graph
// (CUgraphExecUpdateResult).
type GraphUpdateReason int32

// The reasons. A driver without cuGraphExecUpdate_v2 (CUDA 12.0) also reports another number of nodes
// as GraphUpdateNotSupported.
const (
	GraphUpdateFailed                    GraphUpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR
	GraphUpdateTopologyChanged           GraphUpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
	GraphUpdateNodeTypeChanged           GraphUpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED
	GraphUpdateFunctionChanged           GraphUpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED
	GraphUpdateParametersChanged         GraphUpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
	GraphUpdateNotSupported              GraphUpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED
	GraphUpdateUnsupportedFunctionChange GraphUpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
	GraphUpdateAttributesChanged         GraphUpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED
)

var namesGraphUpdateReason = [...]core.ValueName{
	{Value: int32(GraphUpdateFailed), Name: "the driver says no more"},
	{Value: int32(GraphUpdateTopologyChanged), Name: "the graphs have different nodes or dependencies"},
	{Value: int32(GraphUpdateNodeTypeChanged), Name: "a node has another type"},
	{Value: int32(GraphUpdateFunctionChanged), Name: "a node runs another kernel, which this driver cannot update"},
	{Value: int32(GraphUpdateParametersChanged), Name: "a node's parameters differ in a way that cannot be updated"},
	{Value: int32(GraphUpdateNotSupported), Name: "a property of a node cannot be updated"},
	{Value: int32(GraphUpdateUnsupportedFunctionChange), Name: "a node runs another kernel, with which it cannot be updated"},
	{Value: int32(GraphUpdateAttributesChanged), Name: "a node's attributes differ in a way that cannot be updated"},
}

// String returns what the reason means, in a few words.
func (r GraphUpdateReason) String() string { return core.NameOf(namesGraphUpdateReason[:], int32(r)) }

// GraphUpdateError says why [GraphExec.Update] was refused: errors.As finds it in the [*Error]
// (CUgraphExecUpdateResultInfo).
type GraphUpdateError struct {
	Reason GraphUpdateReason
	// Node is the node of the new graph that differs. It is the zero GraphNode if the driver names none,
	// or one of a graph within the graph.
	Node GraphNode
	// From is the node before Node from which the edge comes that differs. It is the zero GraphNode if
	// the reason is another one, or unless the driver names an edge (CUDA 12.0).
	From GraphNode

	node, from string
}

// Error returns the reason, and the nodes by their place in [Graph.Nodes] and their type.
func (e *GraphUpdateError) Error() string {
	switch {
	case e == nil:
		return "cu: no error"
	case e.node == "":
		return e.Reason.String()
	case e.from == "":
		return e.Reason.String() + ": " + e.node
	}
	return fmt.Sprintf("%v: %s, whose edge from %s differs", e.Reason, e.node, e.from)
}

// updateError returns why an update with the graph was refused. The caller has entered the graph.
func (g *Graph) updateError(info driver.GraphExecUpdateResultInfo) *GraphUpdateError {
	e := &GraphUpdateError{Reason: GraphUpdateReason(info.Result)}
	e.Node, e.node = g.named(info.ErrorNode)
	e.From, e.from = g.named(info.ErrorFromNode)
	return e
}

// named returns a node that the driver has named, and its description.
func (g *Graph) named(raw driver.GraphNode) (GraphNode, string) {
	if raw == 0 {
		return GraphNode{}, ""
	}
	if name := g.core.describe(raw, "the new graph"); name != "" {
		return g.node(raw), name
	}
	return GraphNode{}, fmt.Sprintf("node %#x, of a graph within the new graph", raw)
}
