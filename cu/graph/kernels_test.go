package graph_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// kernelsBench is a graph of kernels one after the other, each of which adds a number to four floats.
type kernelsBench struct {
	*nodeBench
	nodes []graph.Node
	x     *graph.Exec
}

func newKernelsBench(t *testing.T, n int) *kernelsBench {
	b := &kernelsBench{nodeBench: newNodeBench(t)}
	g := Need(graph.New(b.gpu))(t)
	last := Need(g.Add(&graph.Memset{Dst: b.mem, Value: 0}))(t)
	for range n {
		last = Need(g.Add(&graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(1)}}, last))(t)
		b.nodes = append(b.nodes, last)
	}
	Need(g.Add(&graph.Copy{Dst: b.out, Src: b.mem}, last))(t)
	b.x = Need(g.Instantiate())(t)
	t.Cleanup(func() { b.ok(errors.Join(b.s.Synchronize(), b.x.Close(), g.Close())) })
	return b
}

// update makes a node add a number.
func (b *kernelsBench) update(i int, v float32) graph.NodeUpdate {
	return graph.NodeUpdate{Node: b.nodes[i], Work: &graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(v)}}}
}

// TestGPUSetAll replaces the arguments of more nodes than one transition into C takes, of one node twice, and of
// nodes of which some are refused.
func TestGPUSetAll(t *testing.T) {
	const n = drivercall.BatchSize + 6
	b := newKernelsBench(t, n)
	b.runs("before", b.x, n)
	var list []graph.NodeUpdate
	for i := range n {
		list = append(list, b.update(i, float32(i)))
	}
	b.ok(b.x.SetAll(list...))
	b.runs("all replaced", b.x, n*(n-1)/2)
	b.ok(b.x.SetAll(b.update(1, 100), b.update(2, 5), b.update(1, 3)))
	b.runs("one replaced twice", b.x, n*(n-1)/2-1-2+5+3)
	b.ok(b.x.SetAll())

	wide := b.update(4, 9)
	graph.UpdatedKernel(&wide).Config.Block = Dim3{X: 4096}
	err := b.x.SetAll(b.update(0, 1), wide, graph.NodeUpdate{}, b.update(2, 6))
	var batch *BatchError
	if !errors.As(err, &batch) || len(batch.Errs) != 4 || batch.Errs[0] != nil || batch.Errs[3] != nil {
		t.Fatal(err)
	}
	if !errors.Is(batch.Errs[1], ResultInvalidValue) || !strings.Contains(batch.Errs[1].Error(), "4096") {
		t.Errorf("a block of 4096 threads: %v", batch.Errs[1])
	}
	if !errors.Is(batch.Errs[2], ErrNil) {
		t.Errorf("no node: %v", batch.Errs[2])
	}
	b.runs("two of four replaced", b.x, n*(n-1)/2-1-2+5+3+1+1)
}

// TestSetAllRefused passes updates that are refused before the driver is called, among others.
func TestSetAllRefused(t *testing.T) {
	b := newKernelsBench(t, 3)
	other := Need(graph.New(b.gpu))(t)
	defer other.Close()
	foreign := Need(other.Add(&graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(1)}}))(t)
	removed := Need(b.nodes[0].Graph().Add(&graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(1)}}))(t)
	b.ok(removed.Remove())
	closed := Need(b.gpu.Alloc(16))(t)
	b.ok(closed.Close())
	good := b.update(0, 7)
	with := func(f func(u *graph.NodeUpdate)) graph.NodeUpdate {
		u := b.update(1, 1)
		f(&u)
		return u
	}
	for _, c := range []struct {
		name string
		bad  graph.NodeUpdate
		want error
	}{
		{"no node", with(func(u *graph.NodeUpdate) { u.Node = graph.Node{} }), ErrNil},
		{"no kernel", with(func(u *graph.NodeUpdate) { graph.UpdatedKernel(u).Function = nil }), ErrNil},
		{"node of another graph", with(func(u *graph.NodeUpdate) { u.Node = foreign }), ResultInvalidValue},
		{"removed node", with(func(u *graph.NodeUpdate) { u.Node = removed }), ErrClosed},
		{"node that sets memory", with(func(u *graph.NodeUpdate) { u.Node = b.set }), ResultInvalidValue},
		{"no arguments", with(func(u *graph.NodeUpdate) { graph.UpdatedKernel(u).Args = nil }), ResultInvalidValue},
		{"closed memory", with(func(u *graph.NodeUpdate) { graph.UpdatedKernel(u).Args[0] = Ptr(closed) }), ErrClosed},
		{"cooperative", with(func(u *graph.NodeUpdate) { graph.UpdatedKernel(u).Config.Flags = LaunchCooperative }), ResultInvalidValue},
	} {
		for _, list := range [][]graph.NodeUpdate{{c.bad, good}, {good, c.bad}, {good, c.bad, b.update(2, 7)}} {
			b.ok(b.x.SetAll(b.update(0, 1), b.update(2, 1)))
			err := b.x.SetAll(list...)
			var batch *BatchError
			if !errors.As(err, &batch) || len(batch.Unwrap()) != 1 || !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
			b.runs(c.name, b.x, float32(7+1+6*(len(list)-2)+1))
		}
	}
	for _, x := range []*graph.Exec{nil, {}} {
		if err := x.SetAll(good); !errors.Is(err, ErrNil) {
			t.Error(err)
		}
	}
	b.ok(b.x.Close())
	if err := b.x.SetAll(good, good); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestSetAllObjects replaces the memory of nodes: the executable graph keeps what it uses, and nothing else.
func TestSetAllObjects(t *testing.T) {
	for _, version := range []int{11080, 13000} { // before CUDA 12.0 each node is a call of its own
		r := NewSoft(t, cusim.Version(version))
		add := Need(Need(r.GPU.LoadModule([]byte(SpinPTX)))(t).Function("add"))(t)
		memory := func(want int) {
			t.Helper()
			r.OK(r.GPU.Synchronize())
			if n := r.Sim.Census()["device memory"]; n != want {
				t.Errorf("%d pieces of memory, want %d", n, want)
			}
		}
		var mem []*DeviceMem
		for range 3 {
			mem = append(mem, Need(r.GPU.Alloc(16))(t))
		}
		to := func(n graph.Node, m *DeviceMem) graph.NodeUpdate {
			return graph.NodeUpdate{Node: n, Work: &graph.Kernel{Function: add, Config: FourThreads, Args: []Arg{Ptr(m), U32(4), F32(1)}}}
		}
		g := Need(graph.New(r.GPU))(t)
		first := Need(g.Add(&graph.Kernel{Function: add, Config: FourThreads, Args: to(graph.Node{}, mem[0]).Work.(*graph.Kernel).Args}))(t)
		second := Need(g.Add(&graph.Kernel{Function: add, Config: FourThreads, Args: to(graph.Node{}, mem[0]).Work.(*graph.Kernel).Args}, first))(t)
		x := Need(g.Instantiate())(t)
		r.OK(x.SetAll(to(first, mem[1]), to(second, mem[2])))
		r.OK(x.SetAll(to(first, mem[0]), to(first, mem[1]))) // at the end as before
		r.OK(x.SetAll(to(first, mem[1]), to(first, mem[2]))) // at the end as the other node
		r.OK(x.SetAll(to(second, mem[1])))
		r.OK(errors.Join(g.Close(), mem[0].Close(), mem[1].Close(), mem[2].Close()))
		memory(2)
		r.OK(errors.Join(x.Launch(r.S), r.S.Synchronize()))
		r.OK(x.Close())
		memory(0)
	}
}

// TestSetAllOfBody replaces the arguments of nodes of a graph and of the body of a condition.
func TestSetAllOfBody(t *testing.T) {
	b := newNodeBench(t)
	args := func(v float32) []Arg { return []Arg{Ptr(b.mem), U32(4), F32(v)} }
	g := Need(graph.New(b.gpu))(t)
	set := Need(g.Add(&graph.Memset{Dst: b.mem, Value: 0}))(t)
	own := Need(g.Add(&graph.Kernel{Function: b.add, Config: FourThreads, Args: args(1)}, set))(t)
	n, body, err := AddIf(g, Need(g.NewConditionAt(1))(t), own)
	b.ok(err)
	inner := Need(body.Add(&graph.Kernel{Function: b.add, Config: FourThreads, Args: args(1)}))(t)
	Need(g.Add(&graph.Copy{Dst: b.out, Src: b.mem}, n))(t)
	x := Need(g.Instantiate())(t)
	update := func(n graph.Node, v float32) graph.NodeUpdate {
		return graph.NodeUpdate{Node: n, Work: &graph.Kernel{Function: b.add, Config: FourThreads, Args: args(v)}}
	}
	b.ok(x.SetAll(update(own, 10), update(inner, 20), update(own, 30)))
	b.runs("nodes of a graph and of a body", x, 50)
	b.ok(errors.Join(b.s.Synchronize(), x.Close(), g.Close()))
}

// TestGPUSetAllOrder replaces the work of nodes in many orders, by arguments in and outside of Arg, and by other
// memory. Between the calls the executable graph is updated, and a node is removed.
func TestGPUSetAllOrder(t *testing.T) {
	const n = 8
	b := newKernelsBench(t, n)
	values, random := make([]float32, n), rand.New(rand.NewPCG(1, 2))
	for i := range values {
		values[i] = 1
	}
	for round := range 30 {
		var list []graph.NodeUpdate
		for _, i := range random.Perm(2 * n)[:n+n/2] {
			i %= n
			u, v := b.update(i, float32(round+i)), float32(round+i)
			switch random.IntN(3) {
			case 0:
				graph.UpdatedKernel(&u).Args[2] = Value(v)
			case 1:
				graph.UpdatedKernel(&u).Args[0], v = Ptr(b.other), 0
			}
			values[i], list = v, append(list, u)
		}
		b.ok(b.x.SetAll(list...))
		if round%10 == 9 { // the nodes of the graph have the first arguments
			if round == 19 {
				b.ok(Need(b.nodes[0].Graph().Add(&graph.Kernel{Function: b.add, Config: FourThreads, Args: b.update(0, 1).Work.(*graph.Kernel).Args}))(t).Remove())
			}
			b.ok(b.x.Update(b.nodes[0].Graph()))
			for i := range values {
				values[i] = 1
			}
		}
		sum := float32(0)
		for _, v := range values {
			sum += v
		}
		b.runs("nodes in any order", b.x, sum)
	}
}

// contextOfSet is a software driver that notes in which context it replaces the work of each node.
type contextOfSet struct {
	Software driver.Software
	in       map[driver.GraphNode]driver.Context
}

func (d *contextOfSet) GraphExecKernelNodeSetParams(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p *driver.KernelNodeParams) (res driver.Result) {
	if d.in[n], res = d.Software.CtxGetCurrent(th); res != driver.ResultSuccess {
		return res
	}
	return d.Software.GraphExecKernelNodeSetParams(th, x, n, p)
}

// TestSetAllContexts replaces the arguments of kernels of two GPUs that are nodes of one graph.
func TestSetAllContexts(t *testing.T) {
	soft := cusim.New(cusim.Devices(2))
	sim := &contextOfSet{soft.Software(), make(map[driver.GraphNode]driver.Context)}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(sim)))))(t)
	var gpus []*Context
	var mods []*Module
	var mem []*DeviceMem
	var add []*Function
	for i := range 2 {
		gpu := Need(Need(drv.Device(i))(t).PrimaryContext())(t)
		m := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
		gpus, mods, add = append(gpus, gpu), append(mods, m), append(add, Need(m.Function("add"))(t))
	}
	g, s := Need(graph.New(gpus[0]))(t), Need(gpus[0].NewStream(0))(t)
	var updates []graph.NodeUpdate
	for i := range 4 {
		m := Need(gpus[i/2].Alloc(16))(t)
		n := Need(g.Add(&graph.Kernel{Function: add[i/2], Config: FourThreads, Args: []Arg{Ptr(m), U32(4), F32(0)}}))(t)
		u := graph.NodeUpdate{Node: n, Work: &graph.Kernel{Function: add[i/2], Config: FourThreads, Args: []Arg{Ptr(m), U32(4), F32(float32(i + 1))}}}
		mem, updates = append(mem, m), append(updates, u)
	}
	x := Need(g.Instantiate())(t)
	for _, order := range [...][4]int{{0, 1, 2, 3}, {0, 2, 1, 3}} {
		list := make([]graph.NodeUpdate, len(order))
		for i, j := range order {
			list[i] = updates[j]
			NoErr(t, mem[j].Memset(0))
		}
		clear(sim.in)
		NoErr(t, x.SetAll(list...))
		NoErr(t, errors.Join(x.Launch(s), s.Synchronize()))
		for i, m := range mem {
			got := make([]byte, 16)
			NoErr(t, m.CopyTo(got))
			if v := math.Float32frombits(binary.LittleEndian.Uint32(got)); v != float32(i+1) {
				t.Errorf("order %v: kernel %d has added %v", order, i, v)
			}
			if in := uintptr(sim.in[graph.RawNode(updates[i].Node)]); in != gpus[i/2].Handle() {
				t.Errorf("order %v: node %d is replaced in context %#x, want %#x", order, i, in, gpus[i/2].Handle())
			}
		}
	}
	NoErr(t, errors.Join(x.Close(), g.Close(), s.Close()))
	for _, m := range mem {
		NoErr(t, m.Close())
	}
	for i := range gpus {
		NoErr(t, errors.Join(mods[i].Close(), gpus[i].Close()))
	}
	NoErr(t, drv.Close())
	soft.Check(t)
}
