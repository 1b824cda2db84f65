package cu

import (
	"runtime"

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
		b = newKernelBatch()
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
	// c is the call about each node in turn: it stays in the processor's caches. It keeps the arguments
	// and the calls in flight of all nodes until the end.
	c       nodeCall
	n       int // so many calls have to be made
	nodes   [batchSize]driver.GraphNode
	kernels [batchSize]driver.KernelNodeParams
	params  [batchSize]*driver.KernelNodeParams // the addresses of kernels
	results [batchSize]driver.Result            // the driver's answers
	// changed says that a node will use other objects than before. objects are these.
	changed [batchSize]bool
	objects [batchSize][]holder
}

func newKernelBatch() *kernelBatch {
	b := new(kernelBatch)
	for i := range b.params {
		b.params[i] = &b.kernels[i]
	}
	return b
}

// replace makes some of the updates, from the first one on, and returns how many. These are of one
// graph, and of kernels of one context, and no two of one node, because a call has to know what its
// node used before. first is the place of the first update in errs.
func (b *kernelBatch) replace(x *GraphExec, updates []KernelUpdate, errs *batchErrors, first int) (n int) {
	g, c := updates[0].Node.graph, &b.c
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
	c.gc, c.xc, c.op = gc, x.core, errs.op
	ctx := updates[0].Kernel.context()
	for again := false; n < min(len(updates), batchSize) && err == nil; n++ {
		u := &updates[n]
		if u.Node.graph != g || u.Kernel.context() != ctx {
			break
		}
		if again, err = b.add(x, u); again {
			break
		}
		errs.add(first+n, err)
	}
	b.call(updates, errs, first)
	defer b.end() // also if a tracer panics
	x.leave()     // before the end of the call on the graph: see GraphNode.finish
	g.leave()
	return n
}

// end ends the calls. The caller holds no lock.
func (b *kernelBatch) end() {
	b.n = 0
	b.c.finish()
}

// add prepares the call for an update. again says that there is one for the node: then it prepares none.
func (b *kernelBatch) add(x *GraphExec, u *KernelUpdate) (again bool, err error) {
	c, i := &b.c, b.n
	if i == 0 || len(c.gc.removed) != 0 { // all nodes are of one graph
		if err = x.owns(u.Node, c.op); err == nil {
			err = u.Node.there(c.op)
		}
		if err != nil {
			return false, err
		}
	}
	if u.Kernel == nil || u.Kernel.mod == nil {
		return false, errNil(c.op, "function")
	}
	if err = b.find(u.Node.raw); err != nil {
		return false, err
	}
	if p := int(c.use.place); p < i && b.nodes[p] == c.node {
		return true, nil
	}
	if c.use.typ != GraphNodeTypeKernel {
		return false, c.is(GraphNodeTypeKernel)
	}
	acquired := len(c.acquired)
	c.objects = c.objects[:0]
	if err = u.Kernel.nodeWork(c, &b.kernels[i], &u.Config, u.Args); err != nil {
		return false, err
	}
	b.nodes[i], c.use.place = c.node, uint8(i)
	b.changed[i] = len(c.acquired) != acquired || len(c.objects) != len(c.use.objects)
	if b.changed[i] {
		b.objects[i] = append(b.objects[i][:0], c.objects...)
	}
	b.n++
	return false, nil
}

// find is nodeCall.find. It first looks at the node that came after the one before the last time.
func (b *kernelBatch) find(n driver.GraphNode) error {
	c, last := &b.c, b.c.use
	if last != nil && last.next != nil && last.next.node == n {
		c.node, c.use = n, last.next
		return nil
	}
	err := c.find(n)
	if err == nil && last != nil {
		last.next = c.use
	}
	return err
}

// call makes the calls, in one transition into C.
func (b *kernelBatch) call(updates []KernelUpdate, errs *batchErrors, first int) {
	if b.n == 0 {
		return
	}
	c, n := &b.c, b.n
	drv := c.gc.ctx.drv
	res := drv.table().GraphExecKernelNodeSetParamsAll(c.at(), c.xc.raw, b.nodes[:n], b.params[:n], b.results[:n])
	all := res != driver.ResultSuccess || drv.observer() != nil
	for i := range n {
		if all || b.changed[i] || b.results[i] != driver.ResultSuccess { // else there is nothing to note
			errs.add(first+i, b.finish(i, res, &updates[i]))
		}
	}
}

// finish notes what the i-th call has done. res is the result of the steps before and after all calls.
func (b *kernelBatch) finish(i int, res driver.Result, u *KernelUpdate) error {
	c, own := &b.c, b.results[i]
	drv := c.gc.ctx.drv
	if err := c.find(b.nodes[i]); err != nil {
		return err
	}
	objects := c.use.objects
	if b.changed[i] {
		objects = b.objects[i]
	}
	c.objects = append(c.objects[:0], objects...)
	c.kernel, c.cooperative, c.attrs = b.kernels[i], c.use.cooperative, c.use.attrs
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

// context returns the kernel's context, or nil for no kernel.
func (f *Function) context() *contextCore {
	if f == nil || f.mod == nil {
		return nil
	}
	return f.mod.core.ctx
}
