package sim

import (
	"encoding/binary"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// manyBlocks has kernels of which each block writes one word, and some that do not let it. Those named
// cluster need clusters.
const manyBlocks = ".version 8.0\n.target sm_90\n.address_size 64\n" + `
.visible .entry mark(.param .u64 p) {
	.reg .b32 b; .reg .b64 a;
	ld.param.u64 a, [p];
	mov.u32 b, %ctaid.x;
	mad.wide.u32 a, b, 4, a;
	add.u32 b, b, 1;
	st.global.u32 [a], b;
	ret;
}
.visible .entry cluster(.param .u64 p) .reqnctapercluster 4 {
	.reg .b32 b; .reg .b64 a;
	ld.param.u64 a, [p];
	barrier.cluster.arrive; barrier.cluster.wait;
	mov.u32 b, %ctaid.x;
	mad.wide.u32 a, b, 4, a;
	add.u32 b, b, 1;
	st.global.u32 [a], b;
	ret;
}
.visible .entry endless(.param .u64 p) {
	.reg .b32 b; .reg .b64 a; .reg .pred q;
	ld.param.u64 a, [p];
	mov.u32 b, %ctaid.x;
	mad.wide.u32 a, b, 4, a;
	add.u32 b, b, 1;
	st.global.u32 [a], b;
	and.b32 b, b, 1;
	setp.eq.u32 q, b, 0;
again:	@q bra again;
	ret;
}
`

// manyLaunch is a launch of one of these kernels.
type manyLaunch struct {
	kernel      string
	blocks      uint32
	cooperative bool
	graph       bool // it is a node
	virtual     bool // with virtual time
	fails       bool // with any limit
}

// TestExecuteAllBlocks launches kernels of many short blocks with limits of time, some of which are over
// before a block has begun. Either all blocks have run, or the launch has failed and a report says so.
func TestExecuteAllBlocks(t *testing.T) {
	const blocks = 1 << 14
	for name, h := range map[string]manyLaunch{
		"blocks":                               {kernel: "mark", blocks: blocks},
		"one block":                            {kernel: "mark", blocks: 1},
		"clusters":                             {kernel: "cluster", blocks: blocks},
		"cooperative":                          {kernel: "mark", cooperative: true, blocks: 1000},
		"graph":                                {kernel: "mark", graph: true, blocks: blocks},
		"virtual time":                         {kernel: "mark", virtual: true, blocks: blocks},
		"endless":                              {kernel: "endless", blocks: 100, fails: true},
		"endless, in a graph and virtual time": {kernel: "endless", graph: true, virtual: true, blocks: 100, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			cut := 0
			for _, limit := range []time.Duration{1, time.Microsecond, 100 * time.Microsecond, time.Millisecond,
				5 * time.Millisecond} {
				cut += h.run(t, limit)
			}
			if h.fails && cut != 5 || !h.fails && h.blocks == blocks && cut == 0 {
				t.Errorf("%d of 5 launches have failed", cut)
			}
		})
	}
}

// run makes the launch with a limit, and returns 1 if it has failed.
func (h manyLaunch) run(t *testing.T, limit time.Duration) int {
	t.Helper()
	blocks := h.blocks
	opts := []Option{KernelLimit(limit)}
	if h.virtual {
		opts = append(opts, VirtualTime())
	}
	r := newLab(t, opts...)
	host, p := r.pinned(strings.Repeat("\x00", int(4*blocks)))
	f, res := r.ModuleGetFunction(r.th, r.load(manyBlocks), h.kernel)
	r.must(res)
	s := r.newStream()
	if h.graph {
		g, res := r.GraphCreate(r.th, 0)
		r.must(res)
		args := params(uint64(p))
		_, res = r.GraphAddKernelNode(r.th, g, nil, &driver.KernelNodeParams{Func: f, GridDimX: blocks, GridDimY: 1,
			GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1, KernelParams: unsafe.Pointer(&args.Ptrs[0])})
		r.must(res)
		x := r.instance(g, 0)
		r.must(r.GraphLaunch(r.th, x, s))
		t.Cleanup(func() { r.GraphExecDestroy(r.th, x) })
		r.must(r.GraphDestroy(r.th, g))
	} else if h.cooperative {
		r.must(r.LaunchCooperativeKernel(r.th, f, blocks, 1, 1, 1, 1, 1, 0, s, params(uint64(p))))
	} else {
		r.must(r.LaunchKernel(r.th, f, blocks, 1, 1, 1, 1, 1, 0, s, params(uint64(p))))
	}
	if h.virtual {
		r.Advance(time.Hour)
	}
	switch res = r.StreamSynchronize(r.th, s); res {
	case ok:
		for i := range blocks {
			if binary.LittleEndian.Uint32(host[4*i:]) != i+1 {
				t.Fatalf("with a limit of %v the launch has succeeded, but block %d has not run", limit, i)
			}
		}
		return 0
	case driver.ResultLaunchTimeout:
		list := r.Misuses()
		if len(list) != 1 || !strings.Contains(list[0].What, "of "+strconv.Itoa(int(blocks))+" blocks have run to their end") {
			t.Errorf("with a limit of %v the report is %v", limit, list)
		}
		r.takeMisuses()
		return 1
	}
	t.Fatalf("with a limit of %v: %v", limit, res)
	return 0
}

// TestExecuteNodeLater launches graphs with a kernel node that does not fit any more, with the results of an H200
// (driver 580).
func TestExecuteNodeLater(t *testing.T) {
	const width, height, depth = driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
		driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH
	for name, tt := range map[string]struct {
		change func(r *lab, m driver.Module, f driver.Function, n, other driver.GraphNode)
		want   driver.Result
		text   string // of the report
	}{
		"attributes of another node": {func(r *lab, _ driver.Module, _ driver.Function, n, other driver.GraphNode) {
			r.want("copy attributes", driver.ResultInvalidValue, r.GraphKernelNodeCopyAttributes(r.th, n, other))
			v, res := r.GraphKernelNodeGetAttribute(r.th, n, driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			r.must(res)
			if v != (driver.LaunchAttributeValue{}) {
				r.t.Errorf("the node has clusters: %v", v)
			}
		}, ok, ""},
		"required clusters": {func(r *lab, _ driver.Module, f driver.Function, _, _ driver.GraphNode) {
			for i, attribute := range []int32{width, height, depth} {
				r.must(r.FuncSetAttribute(r.th, f, attribute, []int32{2, 1, 1}[i]))
			}
		}, ok, ""},
		"unloaded": {func(r *lab, m driver.Module, _ driver.Function, _, _ driver.GraphNode) {
			r.must(r.ModuleUnload(r.th, m))
		}, driver.ResultIllegalAddress, "the graph runs a kernel of a module that was unloaded"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			m, _, res := r.ModuleLoadLog(r.th, []byte(manyBlocks), nil)
			r.must(res)
			f, res := r.ModuleGetFunction(r.th, m, "mark")
			r.must(res)
			out, p := r.pinned(strings.Repeat("\x00", 64))
			args := params(uint64(p))
			add := func(blocks uint32) (driver.Graph, driver.GraphNode) {
				g, res := r.GraphCreate(r.th, 0)
				r.must(res)
				t.Cleanup(func() { r.GraphDestroy(r.th, g) })
				n, res := r.GraphAddKernelNode(r.th, g, nil, &driver.KernelNodeParams{Func: f, GridDimX: blocks, GridDimY: 1,
					GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1, KernelParams: unsafe.Pointer(&args.Ptrs[0])})
				r.must(res)
				return g, n
			}
			_, other := add(4)
			g, n := add(3)
			r.must(r.GraphKernelNodeSetAttribute(r.th, other, driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
				&driver.LaunchAttributeValue{0: 4, 4: 1, 8: 1}))
			x := r.instance(g, 0)
			defer func() { r.GraphExecDestroy(r.th, x) }()
			tt.change(r, m, f, n, other)
			s := r.newStream()
			r.must(r.GraphLaunch(r.th, x, s))
			r.want("the launch", tt.want, r.StreamSynchronize(r.th, s))
			if tt.want == ok {
				r.must(r.ModuleUnload(r.th, m))
				if got := string(out[:16]); got != series(4, func(i int) uint32 { return uint32((i + 1) % 4) }) {
					t.Errorf("the blocks have written %q", got)
				}
			} else if list := r.Misuses(); len(list) != 1 || !strings.HasSuffix(list[0].What, ": "+tt.text) {
				t.Errorf("the report is %v", list)
			}
			r.takeMisuses()
		})
	}
}
