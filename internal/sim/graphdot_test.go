package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// drawn returns what cuGraphDebugDotPrint writes.
func (r *lab) drawn(g driver.Graph, flags uint32) string {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "graph.dot")
	r.must(r.GraphDebugDotPrint(r.th, g, path, flags))
	text, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// TestGraphDot writes a graph with a conditional node and an edge with data.
func TestGraphDot(t *testing.T) {
	r := newConditions(t)
	k := r.kernelNode(r.g, r.adds, [][]byte{u64(uint64(r.p))})
	_, res := r.GraphAddEmptyNode(r.th, r.g, []driver.GraphNode{k})
	r.must(res)
	bodies := r.mustAdd(r.g, r.handle(1, 1), driver.CU_GRAPH_COND_TYPE_IF, 1, k)
	r.write(bodies[0], 0, 7)
	other := r.kernelNode(r.g, r.adds, [][]byte{u64(uint64(r.p))})
	r.must(r.GraphAddDependenciesV2(r.th, r.g, []driver.GraphNode{k}, []driver.GraphNode{other},
		[]driver.GraphEdgeData{graph.LaunchOrder}))
	want := fmt.Sprintf(`digraph {
	node [shape=box]
	subgraph cluster_0 {
		label="graph 0"
		graph_0_node_0 [label="0 KERNEL\ninc"]
		graph_0_node_1 [label="1 EMPTY"]
		graph_0_node_2 [label="2 CONDITIONAL"]
		graph_0_node_3 [label="3 KERNEL\ninc"]
		graph_0_node_0 -> graph_0_node_1
		graph_0_node_0 -> graph_0_node_2
		graph_0_node_0 -> graph_0_node_3 [label="port %d to 0, type 0"]
		subgraph cluster_1 {
			label="body 0 of graph_0_node_2: 1"
			graph_1_node_0 [label="0 MEMSET"]
		}
	}
}
`, graph.LaunchOrder.FromPort)
	if got := r.drawn(r.g, 0); got != want {
		t.Errorf("the text is\n%s\nwant\n%s", got, want)
	}
	all := r.drawn(r.g, driver.CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)
	for _, part := range []string{fmt.Sprintf(`label="graph 0\n%#x"`, uintptr(r.g)),
		fmt.Sprintf(`"0 KERNEL\n%#x\ninc\n`,
			uintptr(k)), `\ngrid [1 1 1], block [1 1 1], shared 0"`, `\nIF, handle `, fmt.Sprintf(
			`\n%#x, pitch 0: 1 x 1 elements of 1 bytes, value 7"`, uint64(r.p))} {
		if !strings.Contains(all, part) {
			t.Errorf("the text does not contain %s:\n%s", part, all)
		}
	}
}

// TestGraphDotOfNodes writes nodes of other types, with what one flag asks for.
func TestGraphDotOfNodes(t *testing.T) {
	r := newLab(t)
	g, _, p := r.graphWith(true)
	e, res := r.EventCreate(r.th, 0)
	r.must(res)
	_, res = r.GraphAddEventRecordNode(r.th, g, nil, e)
	r.must(res)
	_, res = r.GraphAddHostNode(r.th, g, nil, driver.Callback{Addr: 77, Data: 5, Go: func() {}})
	r.must(res)
	_, res = r.GraphAddMemcpyNode(r.th, g, nil, &driver.Memcpy3D{SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE,
		DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: p, DstDevice: p + 32, WidthInBytes: 8, Height: 1, Depth: 1}, r.ctx)
	r.must(res)
	child, res := r.GraphCreate(r.th, 0)
	r.must(res)
	_, res = r.GraphAddEmptyNode(r.th, child, nil)
	r.must(res)
	_, res = r.GraphAddChildGraphNode(r.th, g, nil, child)
	r.must(res)
	for flag, want := range map[uint32]string{
		driver.CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS: fmt.Sprintf(`0 MEM_ALLOC\n64 bytes at %#x"`, uint64(p)),
		driver.CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS: fmt.Sprintf(
			`1 MEMSET\n%#x, pitch 0: 64 x 1 elements of 1 bytes, value 42"`, uint64(p)),
		driver.CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS: fmt.Sprintf(`2 MEM_FREE\n%#x"`, uint64(p)),
		driver.CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS:    fmt.Sprintf(`3 EVENT_RECORD\nevent %#x"`, uintptr(e)),
		driver.CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS:     `4 HOST\nfunction 0x4d, data 0x5"`,
		driver.CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS: fmt.Sprintf(
			`5 MEMCPY\n8 x 1 x 1 bytes, from %#x to %#x"`, uint64(p), uint64(p+32)),
		0: `label="graph of graph_0_node_6: 1"`,
	} {
		if text := r.drawn(g, flag); !strings.Contains(text, want) {
			t.Errorf("flag %#x: the text does not contain %s:\n%s", flag, want, text)
		}
	}
	lost := filepath.Join(t.TempDir(), "folder", "graph.dot")
	r.want("a folder that does not exist", driver.ResultOperatingSystem, r.GraphDebugDotPrint(r.th, g, lost, 0))
	r.want("no path", driver.ResultInvalidValue, r.GraphDebugDotPrint(r.th, g, "", 0))
	r.must(r.GraphDestroy(r.th, child))
	r.must(r.GraphDestroy(r.th, g))
	r.want("a graph that is destroyed", driver.ResultInvalidValue, r.GraphDebugDotPrint(r.th, g, lost, 0))
	r.takeMisuses()
	r.must(r.EventDestroy(r.th, e))
}
