package sim

import (
	"fmt"
	"os"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/dot"
	"github.com/purecu/purecu/internal/sim/graph"
)

// picture draws a graph with what the flags of cuGraphDebugDotPrint ask for. Names of nodes have the numbers of their
// graphs and of the nodes, so that equal graphs have the same text, unless the flags ask for addresses.
type picture struct {
	*dot.Picture
	flags  uint32
	graphs int
}

// nodeNames are the names of the types of nodes, by type.
var nodeNames = [...]string{"KERNEL", "MEMCPY", "MEMSET", "HOST", "GRAPH", "EMPTY", "EVENT_WAIT", "EVENT_RECORD",
	"EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE", "BATCH_MEM_OP", "CONDITIONAL"}

// GraphDebugDotPrint is cuGraphDebugDotPrint. The text is not that of a GPU's driver, but tells the same.
func (d *Driver) GraphDebugDotPrint(_ *driver.Thread, h driver.Graph, path string, flags uint32) driver.Result {
	const name = "cuGraphDebugDotPrint"
	defer d.mu.Unlock()
	g, r := d.graphOf(name, h)
	switch {
	case r != ok:
		return r
	case path == "":
		return driver.ResultInvalidValue
	}
	p := &picture{dot.New(), flags, 0}
	p.graph(g.Nodes, "graph", h)
	p.End()
	var err error
	d.unlocked(func() { err = os.WriteFile(path, p.Bytes(), 0o666) })
	if err != nil {
		return driver.ResultOperatingSystem
	}
	return ok
}

// has reports whether one of the flags is set, or that for all.
func (p *picture) has(flag uint32) bool {
	return p.flags&(flag|driver.CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE) != 0
}

// graph draws nodes in a frame.
func (p *picture) graph(nodes []*graph.Node, what string, h driver.Graph) {
	number := p.graphs
	p.graphs++
	title := fmt.Sprint(what, " ", number)
	if p.has(driver.CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES) && h != 0 {
		title += fmt.Sprintf("\n%#x", uintptr(h))
	}
	p.Begin(fmt.Sprint(number), title)
	names := make(map[*graph.Node]string, len(nodes))
	for i, n := range nodes {
		names[n] = fmt.Sprintf("graph_%d_node_%d", number, i)
		lines := append([]string{fmt.Sprint(i, " ", nodeNames[n.Work.Type()])}, p.details(n)...)
		p.Node(names[n], strings.Join(lines, "\n"))
	}
	for _, n := range nodes {
		for _, e := range n.EdgesTo() {
			label := ""
			if !graph.IsFull(e.Data) {
				label = fmt.Sprintf("port %d to %d, type %d", e.Data.FromPort, e.Data.ToPort, e.Data.Type)
			}
			p.Edge(names[e.From], names[n], label)
		}
	}
	for _, n := range nodes {
		switch w := n.Current().(type) {
		case *graph.Child:
			p.graph(w.Nodes, "graph of "+names[n]+":", 0)
		case *graph.Conditional:
			for i, b := range w.Bodies {
				var h driver.Graph
				if i < len(w.Handles) {
					h = w.Handles[i]
				}
				p.graph(b.Nodes, fmt.Sprintf("body %d of %s:", i, names[n]), h)
			}
		}
	}
	p.End()
}

// details returns lines about a node.
func (p *picture) details(n *graph.Node) (lines []string) {
	add := func(flag uint32, format string, args ...any) {
		if p.has(flag) {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	add(driver.CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES, "%#x", uintptr(n.Handle))
	switch w := n.Work.(type) {
	case *kernelWork:
		lines = append(lines, w.kernel.Name)
		add(driver.CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS, "grid %v, block %v, shared %d", w.launch.Grid,
			w.launch.Block, w.launch.SharedMem)
	case *copyWork:
		m := w.params
		add(driver.CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS, "%d x %d x %d bytes, from %s to %s", m.WidthInBytes,
			m.Height, m.Depth, side(m.SrcMemoryType, m.SrcHost, m.SrcDevice, m.SrcArray),
			side(m.DstMemoryType, m.DstHost, m.DstDevice, m.DstArray))
	case *setWork:
		s := w.params
		add(driver.CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS,
			"%#x, pitch %d: %d x %d elements of %d bytes, value %d", uint64(s.Dst), s.Pitch, s.Width, s.Height,
			s.ElementSize, s.Value)
	case *hostWork:
		add(driver.CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS, "function %#x, data %#x", w.function.Addr,
			w.function.Data)
	case *eventWork:
		add(driver.CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS, "event %#x", uintptr(w.event.handle))
	case *semaphoreOps:
		flag := uint32(driver.CU_GRAPH_DEBUG_DOT_FLAGS_EXT_SEMAS_SIGNAL_NODE_PARAMS)
		if w.typ == graph.WaitNode {
			flag = driver.CU_GRAPH_DEBUG_DOT_FLAGS_EXT_SEMAS_WAIT_NODE_PARAMS
		}
		add(flag, "semaphores %#x", w.handles)
	case *allocWork:
		add(driver.CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS, "%d bytes at %#x", w.params.Bytesize, w.block.addr)
	case *freeWork:
		add(driver.CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS, "%#x", w.block.addr)
	case *memOps:
		add(driver.CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS, "%d operations", len(w.list))
	case *graph.Conditional:
		add(driver.CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS, "%s, handle %#x, %d bodies",
			[...]string{"IF", "WHILE", "SWITCH"}[w.Kind], uint64(w.Handle), len(w.Bodies))
	}
	return lines
}

// side returns where a copy is from, or where it is to.
func side(memoryType int32, host driver.HostPtr, device driver.DevicePtr, array driver.Array) string {
	switch memoryType {
	case driver.CU_MEMORYTYPE_HOST:
		return fmt.Sprintf("the host's %#x", uintptr(host))
	case driver.CU_MEMORYTYPE_ARRAY:
		return fmt.Sprintf("array %#x", uintptr(array))
	}
	return fmt.Sprintf("%#x", uint64(device))
}
