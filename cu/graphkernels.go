package cu

import (
	"runtime"
	"slices"

	"github.com/purecu/purecu/driver"
)

// This file replaces the work of many kernel nodes of an executable graph.

// KernelUpdate is the new work of a kernel node, for [GraphExec.SetKernels].
type KernelUpdate struct {
	Node   GraphNode
	Kernel *Function
	Config LaunchConfig
	Args   []Arg
}

// SetKernels replaces the kernels, configurations and arguments of kernel nodes for later launches, in
// order: see [GraphExec.SetKernel]. It takes less time than a call for each node, because one
// transition into C replaces the work of up to 64 nodes. If some updates fail, the error is a
// [*BatchError], and the others are made. SetKernels allocates nothing unless a node uses other objects
// than before, or an update fails (cuGraphExecKernelNodeSetParams).
func (x *GraphExec) SetKernels(updates ...KernelUpdate) error {
	op := kernelNodes.execSet
	if x == nil || x.core == nil {
		return errNil(op, "executable graph")
	}
	d := x.core.ctx.drv
	b, _ := d.kernelBatches.Get().(*kernelBatch)
	if b == nil {
		b = new(kernelBatch)
	}
	errs := batchErrors{op: op, items: len(updates)}
	for done := 0; done < len(updates); {
		done += b.replace(x, updates[done:], &errs, done)
	}
	d.kernelBatches.Put(b)
	runtime.KeepAlive(updates) // these have the kernels and the owners of memory
	return errs.err()
}

// kernelBatch holds the calls of one transition into C.
type kernelBatch struct {
	begun  int // so many of the calls have to be ended
	n      int // so many have to be made
	calls  [batchSize]nodeCall
	nodes  [batchSize]driver.GraphNode
	params [batchSize]*driver.KernelNodeParams
	// results are the driver's answers.
	results [batchSize]driver.Result
}

// replace makes some of the updates, from the first one on, and returns how many. These are of one
// graph, and no two of one node, because a call has to know what its node used before. first is the
// place of the first update in errs.
func (b *kernelBatch) replace(x *GraphExec, updates []KernelUpdate, errs *batchErrors, first int) (n int) {
	g := updates[0].Node.graph
	if g == nil {
		errs.add(first, errNil(errs.op, "graph node"))
		return 1
	}
	if _, err := x.enter(errs.op); err != nil {
		errs.add(first, err)
		return 1
	}
	gc, err := g.enter(errs.op)
	if err != nil {
		x.leave()
		errs.add(first, err)
		return 1
	}
	for n < min(len(updates), batchSize) && err == nil {
		u := &updates[n]
		if u.Node.graph != g || slices.Contains(b.nodes[:b.n], u.Node.raw) {
			break
		}
		err = b.add(x, gc, u)
		errs.add(first+n, err)
		n++
	}
	b.call(x, updates, errs, first)
	defer b.end() // also if a tracer panics
	x.leave()     // before the end of the call on the graph: see GraphNode.finish
	g.leave()
	return n
}

// end ends the calls. The caller holds no lock.
func (b *kernelBatch) end() {
	each(b.begun, func(i int) { b.calls[i].finish() })
	b.begun, b.n = 0, 0
}

// add prepares the call for an update.
func (b *kernelBatch) add(x *GraphExec, gc *graphCore, u *KernelUpdate) error {
	op := kernelNodes.execSet
	if err := x.owns(u.Node, op); err != nil {
		return err
	}
	if u.Kernel == nil || u.Kernel.mod == nil {
		return errNil(op, "function")
	}
	if err := u.Node.there(op); err != nil {
		return err
	}
	c := &b.calls[b.begun]
	b.begun++
	c.gc, c.xc, c.op = gc, x.core, op
	err := c.find(u.Node.raw)
	if err == nil {
		err = c.is(GraphNodeTypeKernel)
	}
	if err == nil {
		err = u.Kernel.nodeWork(c, &u.Config, u.Args)
	}
	if err != nil {
		return err
	}
	b.nodes[b.n], b.params[b.n] = c.node, &c.kernel
	b.n++
	return nil
}

// call makes the calls: one transition into C for those in a row that are made in the same context.
func (b *kernelBatch) call(x *GraphExec, updates []KernelUpdate, errs *batchErrors, first int) {
	t := x.core.ctx.drv.table()
	for i, end := 0, 0; i < b.n; {
		at := b.calls[i].at()
		for end = i + 1; end < b.n && b.calls[end].at() == at; end++ {
		}
		res := t.GraphExecKernelNodeSetParamsAll(at, x.core.raw, b.nodes[i:end], b.params[i:end], b.results[i:end])
		for ; i < end; i++ {
			errs.add(first+i, b.finish(i, res, &updates[i]))
		}
	}
}

// finish notes what the i-th call has done. res is the result of the steps before and after all calls.
func (b *kernelBatch) finish(i int, res driver.Result, u *KernelUpdate) error {
	c, own := &b.calls[i], b.results[i]
	drv := c.gc.ctx.drv
	if res != driver.ResultSuccess && (!happened(res) || own == driver.ResultSuccess) {
		own = res
	}
	if own < 0 && drv.table().Missing(own) != nil { // before CUDA 12.0
		own = c.setExec()
	}
	c.done = happened(own)
	err := c.finishSet(own)
	if err == nil && drv.observer() != nil {
		c.observeSet(u.Kernel.observed(u.Args))
	}
	return u.Kernel.explain(err, &u.Config)
}
