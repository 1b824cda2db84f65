package graph

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/valuename"
)

// UpdateReason says why the driver did not update an executable graph
// (CUgraphExecUpdateResult).
type UpdateReason int32

// The reasons. A driver without cuGraphExecUpdate_v2 (CUDA 12.0) also reports another number of nodes
// as UpdateNotSupported.
const (
	UpdateFailed                    UpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR
	UpdateTopologyChanged           UpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
	UpdateNodeTypeChanged           UpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED
	UpdateFunctionChanged           UpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED
	UpdateParametersChanged         UpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
	UpdateNotSupported              UpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED
	UpdateUnsupportedFunctionChange UpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
	UpdateAttributesChanged         UpdateReason = driver.CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED
)

var namesUpdateReason = [...]valuename.Name{
	{Value: int32(UpdateFailed), Name: "the driver says no more"},
	{Value: int32(UpdateTopologyChanged), Name: "the graphs have different nodes or dependencies"},
	{Value: int32(UpdateNodeTypeChanged), Name: "a node has another type"},
	{Value: int32(UpdateFunctionChanged), Name: "a node runs another kernel, which this driver cannot update"},
	{Value: int32(UpdateParametersChanged), Name: "a node's parameters differ in a way that cannot be updated"},
	{Value: int32(UpdateNotSupported), Name: "a property of a node cannot be updated"},
	{Value: int32(UpdateUnsupportedFunctionChange), Name: "a node runs another kernel, with which it cannot be updated"},
	{Value: int32(UpdateAttributesChanged), Name: "a node's attributes differ in a way that cannot be updated"},
}

// String returns what the reason means, in a few words.
func (r UpdateReason) String() string { return valuename.Of(namesUpdateReason[:], int32(r)) }

// UpdateError says why [Exec.Update] was refused: errors.As finds it in the [*cu.Error]
// (CUgraphExecUpdateResultInfo).
type UpdateError struct {
	Reason UpdateReason
	// Node is the node of the new graph that differs. It is the zero Node if the driver names none,
	// or one of a graph within the graph.
	Node Node
	// From is the node before Node from which the edge comes that differs. It is the zero Node if
	// the reason is another one, or unless the driver names an edge (CUDA 12.0).
	From Node

	node, from string
}

// Error returns the reason, and the nodes by their place in [Graph.Nodes] and their type.
func (e *UpdateError) Error() string {
	switch {
	case e == nil:
		return "graph: no error"
	case e.node == "":
		return e.Reason.String()
	case e.from == "":
		return e.Reason.String() + ": " + e.node
	}
	return fmt.Sprintf("%v: %s, whose edge from %s differs", e.Reason, e.node, e.from)
}

// updateError returns why an update with the graph was refused. The caller has entered the graph.
func (g *Graph) updateError(info driver.GraphExecUpdateResultInfo) *UpdateError {
	e := &UpdateError{Reason: UpdateReason(info.Result)}
	e.Node, e.node = g.named(info.ErrorNode)
	e.From, e.from = g.named(info.ErrorFromNode)
	return e
}

// named returns a node that the driver has named, and its description.
func (g *Graph) named(raw driver.GraphNode) (Node, string) {
	if raw == 0 {
		return Node{}, ""
	}
	if name := g.core.describe(raw, "the new graph"); name != "" {
		return g.node(raw), name
	}
	return Node{}, fmt.Sprintf("node %#x, of a graph within the new graph", raw)
}
