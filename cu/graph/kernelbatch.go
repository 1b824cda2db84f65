package graph

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// This file replaces the work of many kernel nodes of an executable graph.

// kernel returns the work if it runs a kernel, or nil.
func (u *NodeUpdate) kernel() *Kernel {
	k, _ := u.Work.(*Kernel)
	return k
}

// kernelBatch holds the calls of one transition into C.
type kernelBatch struct {
	// c is the call about each node in turn: it stays in the processor's caches. It keeps the arguments
	// and the calls in flight of all nodes until the end.
	c       nodeCall
	n       int // so many calls have to be made
	nodes   [drivercall.BatchSize]driver.GraphNode
	kernels [drivercall.BatchSize]driver.KernelNodeParams
	params  [drivercall.BatchSize]*driver.KernelNodeParams // the addresses of kernels
	results [drivercall.BatchSize]driver.Result            // the driver's answers
	// changed says that a node will use other objects than before. objects are these.
	changed [drivercall.BatchSize]bool
	objects [drivercall.BatchSize][]core.Holder
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
func (b *kernelBatch) replace(x *Exec, updates []NodeUpdate, errs *drivercall.BatchErrors, first int) (n int) {
	g, c, op := updates[0].Node.graph, &b.c, kernelRow.execSet
	if g == nil {
		errs.Add(first, drivercall.NilError(op, "graph node"))
		return 1
	}
	if _, err := x.enter(op); err != nil {
		errs.Add(first, err)
		return 1
	}
	gc, err := g.enter(op)
	if err != nil {
		x.leave()
		errs.Add(first, err)
		return 1
	}
	c.gc, c.xc, c.op = gc, x.core, op
	ctx := updates[0].kernel().function().Context()
	for again := false; n < min(len(updates), drivercall.BatchSize) && err == nil; n++ {
		u := &updates[n]
		k := u.kernel()
		if k == nil || u.Node.graph != g || k.function().Context() != ctx {
			break
		}
		if again, err = b.add(x, u.Node, k); again {
			break
		}
		errs.Add(first+n, err)
	}
	b.call(updates, errs, first)
	defer b.end() // also if a tracer panics
	x.leave()     // both locks before an end that may destroy events: see nodeCall.leave
	g.leave()
	return n
}

// end ends the calls. The caller holds no lock.
func (b *kernelBatch) end() {
	b.n = 0
	b.c.finish()
}

// add prepares the call for an update. again says that there is one for the node: then it prepares none.
func (b *kernelBatch) add(x *Exec, node Node, k *Kernel) (again bool, err error) {
	c, i := &b.c, b.n
	if i == 0 || len(c.gc.removed) != 0 { // all nodes are of one graph
		if err = x.owns(node, c.op); err == nil {
			err = node.there(c.op)
		}
		if err != nil {
			return false, err
		}
	}
	if k.function() == nil {
		return false, drivercall.NilError(c.op, "function")
	}
	if err = b.find(node.raw); err != nil {
		return false, err
	}
	if p := int(c.use.place); p < i && b.nodes[p] == c.node {
		return true, nil
	}
	if c.use.typ != NodeTypeKernel {
		return false, c.is(NodeTypeKernel)
	}
	acquired := len(c.acquired)
	c.objects = c.objects[:0]
	if err = c.prepareKernel(k, &b.kernels[i]); err != nil {
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
func (b *kernelBatch) call(updates []NodeUpdate, errs *drivercall.BatchErrors, first int) {
	if b.n == 0 {
		return
	}
	c, n := &b.c, b.n
	drv := c.gc.Ctx.Drv
	res := drv.Table().GraphExecKernelNodeSetParamsAll(c.at(), c.xc.raw, b.nodes[:n], b.params[:n], b.results[:n])
	all := res != driver.ResultSuccess || drv.Observer() != nil
	for i := range n {
		if all || b.changed[i] || b.results[i] != driver.ResultSuccess { // else there is nothing to note
			errs.Add(first+i, b.finish(i, res, updates[i].kernel()))
		}
	}
}

// finish notes what the i-th call has done. res is the result of the steps before and after all calls.
func (b *kernelBatch) finish(i int, res driver.Result, k *Kernel) error {
	c, own := &b.c, b.results[i]
	drv := c.gc.Ctx.Drv
	if err := c.find(b.nodes[i]); err != nil {
		return err
	}
	objects := c.use.objects
	if b.changed[i] {
		objects = b.objects[i]
	}
	c.objects = append(c.objects[:0], objects...)
	told := &c.kernel
	c.work = told
	told.params, told.cooperative, told.attrs = b.kernels[i], c.use.cooperative, c.use.attrs
	if res != driver.ResultSuccess && (!drivercall.TookEffect(res) || own == driver.ResultSuccess) {
		own = res
	}
	if own < 0 && drv.Table().Missing(own) != nil { // before CUDA 12.0
		own = told.set(c)
	}
	c.did = false // of the call before
	return c.finishSet(kernelRow, k, own)
}
