package graph

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// EdgeKind says what the later node of an edge waits for. In bits 0 to 7 it has the port of the earlier
// node, in bits 8 to 15 the port of the later one, and in bits 16 to 23 the type (CUgraphEdgeData).
type EdgeKind uint32

const (
	// EdgeFull waits until the earlier node is done. The later one sees what it has written.
	EdgeFull EdgeKind = 0
	// EdgeProgrammatic, between two kernels, waits until each block of the earlier one has executed
	// griddepcontrol.launch_dependents, or has ended. The later one must execute griddepcontrol.wait
	// before it uses what the earlier one writes.
	EdgeProgrammatic EdgeKind = driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC | programmatic
	// EdgeLaunchOrder, from a kernel, waits until all blocks of the kernel have begun. The order says
	// nothing about memory.
	EdgeLaunchOrder EdgeKind = driver.CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER
	// EdgeLaunchOrderProgrammatic, between two kernels, is EdgeLaunchOrder, and the later kernel may
	// execute griddepcontrol.wait as for EdgeProgrammatic.
	EdgeLaunchOrderProgrammatic EdgeKind = EdgeLaunchOrder | programmatic

	programmatic = driver.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC << 16
)

// String returns the kind's name in lower case.
func (k EdgeKind) String() string {
	switch k {
	case EdgeFull:
		return "full"
	case EdgeProgrammatic:
		return "programmatic"
	case EdgeLaunchOrder:
		return "launch_order"
	case EdgeLaunchOrderProgrammatic:
		return "launch_order_programmatic"
	}
	return fmt.Sprintf("EdgeKind(%#x)", uint32(k))
}

// data returns what the driver is told.
func (k EdgeKind) data() driver.GraphEdgeData {
	return driver.GraphEdgeData{FromPort: uint8(k), ToPort: uint8(k >> 8), Type: uint8(k >> 16)}
}

// edge says that node to comes after node from.
type edge struct {
	from, to driver.GraphNode
	kind     EdgeKind
}

// edges returns the graph's edges, within a call.
func (gc *graphCore) edges() ([]edge, error) {
	const op = "cuGraphGetEdges"
	t := gc.Ctx.Drv.Table()
	n, res := t.GraphGetEdges(driver.At{}, gc.raw, nil, nil)
	if res != driver.ResultSuccess || n == 0 {
		return nil, gc.check(op, res)
	}
	from, to, data := make([]driver.GraphNode, n), make([]driver.GraphNode, n), make([]driver.GraphEdgeData, n)
	n, res = t.GraphGetEdgesV2(driver.At{}, gc.raw, from, to, data)
	if t.Missing(res) != nil { // before CUDA 12.3
		n, res = t.GraphGetEdges(driver.At{}, gc.raw, from, to)
	}
	if res != driver.ResultSuccess {
		return nil, gc.callError(op, res)
	}
	edges := make([]edge, 0, len(from))
	for i := range min(n, uint64(len(from))) {
		d := data[i]
		kind := EdgeKind(d.FromPort) | EdgeKind(d.ToPort)<<8 | EdgeKind(d.Type)<<16
		edges = append(edges, edge{from[i], to[i], kind})
	}
	return edges, nil
}

// reaches reports whether a path of edges leads from a node to another one.
func reaches(edges []edge, from, to driver.GraphNode) bool {
	after := make(map[driver.GraphNode][]driver.GraphNode)
	for _, e := range edges {
		after[e.from] = append(after[e.from], e.to)
	}
	seen := map[driver.GraphNode]bool{from: true}
	for list := []driver.GraphNode{from}; len(list) > 0; list = list[1:] {
		if list[0] == to {
			return true
		}
		for _, n := range after[list[0]] {
			if !seen[n] {
				seen[n] = true
				list = append(list, n)
			}
		}
	}
	return false
}
