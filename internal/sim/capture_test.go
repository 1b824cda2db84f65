package sim

import (
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestCapturedGraphStays destroys a graph, and a node of it, during a capture into the graph. CUDA forbids both.
func TestCapturedGraphStays(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, res := r.GraphAddEmptyNode(r.th, g, nil)
	r.must(res)
	r.must(r.StreamBeginCaptureToGraph(r.th, s, g, []driver.GraphNode{n}, nil, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	r.want("destroy the node", invalidValue, r.GraphDestroyNode(r.th, n))
	r.want("destroy the graph", invalidValue, r.GraphDestroy(r.th, g))
	p := r.alloc("a")
	r.must(r.MemsetD8Async(r.th, p, 'b', 1, s))
	got, res := r.StreamEndCapture(r.th, s)
	if r.must(res); got != g {
		t.Errorf("the capture returns another graph")
	}
	if n := r.takeMisuses(); n != 2 {
		t.Errorf("%d misuses, not 2", n)
	}
	r.must(r.GraphDestroyNode(r.th, n))
	r.must(r.GraphDestroy(r.th, g))
}
