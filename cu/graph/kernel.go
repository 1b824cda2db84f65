package graph

import (
	"fmt"
	"math"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/launch"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/races"
	"github.com/purecu/purecu/internal/subject"
)

// This file has the nodes of a graph that run kernels.

var kernelRow = &nodeRow{
	typ: NodeTypeKernel,
	add: "cuGraphAddKernelNode", set: "cuGraphKernelNodeSetParams", execSet: "cuGraphExecKernelNodeSetParams",
}

// kernelWork runs a kernel.
type kernelWork struct {
	params driver.KernelNodeParams
	args   core.KernelArgs
	used   int // how many of args this call, and those before it in a kernelBatch, use
	// cooperative says that the kernel has to be launched cooperatively from now on, and attrs are its attributes.
	cooperative bool
	attrs       *cu.LaunchAttributes
}

func (w *Kernel) row() *nodeRow { return rowIf(w != nil, kernelRow) }

func (w *Kernel) prepare(c *nodeCall) error {
	if w.function() == nil {
		return drivercall.NilError(c.op, "function")
	}
	c.work = &c.kernel
	return c.prepareKernel(w, &c.kernel.params)
}

// function returns the kernel, or nil if there is none.
func (w *Kernel) function() *launch.Function {
	if fn := subject.Function(w.Function); fn != nil && fn.Mod != nil {
		return fn
	}
	return nil
}

// arg returns the state of an argument.
func (w *Kernel) arg(i int) *launch.Arg { return subject.Arg(&w.Args[i]) }

func (w *kernelWork) add(c *nodeCall, deps []driver.GraphNode) (n driver.GraphNode, res driver.Result) {
	t := c.table()
	n, res = t.GraphAddKernelNode(c.at(), c.gc.raw, deps, &w.params)
	if t.Missing(res) != nil { // before CUDA 12.0
		n, res = t.GraphAddKernelNodeV1(c.at(), c.gc.raw, deps, &w.params)
	}
	if res == driver.ResultSuccess && (w.cooperative || w.attrs != nil) {
		c.node, c.did = n, true
		res = w.setAttributes(c)
	}
	return n, res
}

// set removes the attributes that the node of a graph had before the configuration changes, and sets new ones
// afterwards, so that neither contradicts the other on the way. If the configuration is refused, the old
// attributes are set again. If a new attribute is refused, the node has the new kernel without it.
func (w *kernelWork) set(c *nodeCall) (res driver.Result) {
	op, t := c.op, c.table()
	if c.xc != nil {
		res = t.GraphExecKernelNodeSetParams(c.at(), c.xc.raw, c.node, &w.params)
		if res < 0 && t.Missing(res) != nil { // before CUDA 12.0
			res = t.GraphExecKernelNodeSetParamsV1(c.at(), c.xc.raw, c.node, &w.params)
		}
		return res
	}
	if res = w.resetAttributes(c); res != driver.ResultSuccess {
		w.restoreAttributes(c)
		return res
	}
	c.op = op
	res = t.GraphKernelNodeSetParams(c.at(), c.node, &w.params)
	if t.Missing(res) != nil { // before CUDA 12.0
		res = t.GraphKernelNodeSetParamsV1(c.at(), c.node, &w.params)
	}
	if c.did = drivercall.TookEffect(res); !c.did {
		w.restoreAttributes(c)
		c.op = op
		return res
	}
	if res == driver.ResultSuccess {
		res = w.setAttributes(c)
	}
	if res == driver.ResultSuccess {
		c.op = op
		return res
	}
	w.withoutAttributes(c, "the node has the new kernel and arguments, but no attributes")
	return res
}

func (*kernelWork) seen(c *nodeCall, w Work) races.NodeWork {
	k := w.(*Kernel)
	return races.NodeWork{Call: c.op, Detail: "kernel " + k.Function.Name(), Uses: launch.Uses(len(k.Args), k.arg)}
}

func (w *kernelWork) done(c *nodeCall) { c.use.cooperative, c.use.attrs = w.cooperative, w.attrs }

func (w *kernelWork) explain(c *nodeCall, e *cu.Error) {
	if p := &w.params; e.Err == nil && e.Result == cu.ResultInvalidValue {
		e.Detail = drivercall.JoinText(e.Detail, launch.ExceededDimension(c.ctx,
			launch.Dim{X: p.GridDimX, Y: p.GridDimY, Z: p.GridDimZ},
			launch.Dim{X: p.BlockDimX, Y: p.BlockDimY, Z: p.BlockDimZ}))
	}
}

// prepareKernel makes the node run the kernel of k. p gets the parameters for the driver.
func (c *nodeCall) prepareKernel(k *Kernel, p *driver.KernelNodeParams) error {
	f, cfg := k.function(), subject.LaunchConfig(&k.Config)
	mc := f.Mod
	if mc.Ctx.Drv != c.gc.Ctx.Drv {
		return core.MixedError(c.op, f.Object(), c.gc)
	}
	if !keep(c, &mc.Resource, mc) {
		return mc.Refused(c.op)
	}
	if err := f.Check(&cfg, len(k.Args), k.arg); err != nil {
		return c.rename(err)
	}
	w := &c.kernel
	first := w.used
	w.used += len(k.Args)
	w.args.Grow(w.used) // those before keep the arrays that they refer to
	values := w.args.Values[first:w.used]
	for i := range k.Args {
		a := k.arg(i)
		values[i] = a.Bits
		if m := a.Mem.Current(); m != nil {
			if m.Ctx != mc.Ctx && !memstate.CanAccess(mc.Ctx, m) || !keep(c, &m.Resource, m) {
				return c.rename(f.BadMemory(&cfg, i, mc.Ctx, m))
			}
		} else if a.Ref != nil {
			if err := a.SetIn(&w.args, first+i); err != nil {
				return c.rename(f.BadArg(&cfg, i, err))
			}
		}
	}
	g, b := cfg.Grid, cfg.Block
	c.ctx, p.Func, p.KernelParams = mc.Ctx, f.Raw, w.args.From(first)
	p.GridDimX, p.GridDimY, p.GridDimZ = g.X, g.Y, g.Z
	p.BlockDimX, p.BlockDimY, p.BlockDimZ = b.X, b.Y, b.Z
	p.SharedMemBytes = cfg.SharedMem
	if c.node != 0 && cfg.Cooperative() {
		if err := c.fitsTogether(f, &cfg); err != nil {
			return err
		}
	}
	return w.setFlags(c, cfg.Cooperative(), k.Config.Attributes)
}

// fitsTogether checks that all blocks fit on the device at once, before the node changes.
func (c *nodeCall) fitsTogether(f *launch.Function, cfg *launch.Config) error {
	threads, blocks := cfg.Block.Size(), cfg.Grid.Size()
	if threads > math.MaxInt32 {
		return nil // the driver refuses the block
	}
	n, res := c.table().OccupancyMaxActiveBlocksPerMultiprocessor(c.at(), f.Raw, int32(threads), uint64(cfg.SharedMem))
	if res != driver.ResultSuccess {
		return nil // the same
	}
	sms, err := subject.DeviceOf(f.Mod.Ctx).Attribute(cu.DeviceAttributeMultiprocessorCount)
	if err != nil || blocks <= uint64(n)*uint64(sms) {
		return nil
	}
	return &cu.Error{Op: c.op, Result: cu.ResultCooperativeLaunchTooLarge, Handle: uintptr(c.node),
		Err: drivercall.ErrInvalid,
		Detail: fmt.Sprintf("kernel %s: %d blocks do not fit on the device at once, which holds %d: "+
			"see Function.MaxActiveBlocks",
			f.Name, blocks, uint64(n)*uint64(sms))}
}

// setAttribute sets an attribute of the node.
func (c *nodeCall) setAttribute(id int32, v *driver.LaunchAttributeValue) driver.Result {
	c.op = "cuGraphKernelNodeSetAttribute"
	return c.table().GraphKernelNodeSetAttribute(c.at(), c.node, id, v)
}

// setAttributes sets the attributes of the node that it has from now on.
func (w *kernelWork) setAttributes(c *nodeCall) driver.Result {
	list := subject.LaunchAttributes(w.attrs).List(false)
	for i := range list {
		if res := c.setAttribute(list[i].ID, &list[i].Value); res != driver.ResultSuccess {
			return res
		}
	}
	if w.cooperative != c.use.cooperative {
		return c.setAttribute(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, launch.CooperativeValue(w.cooperative))
	}
	return driver.ResultSuccess
}

// resetAttributes removes the attributes that the node does not have any more, and those that the new
// configuration may contradict: the driver compares each with the other.
func (w *kernelWork) resetAttributes(c *nodeCall) driver.Result {
	list := subject.LaunchAttributes(c.use.attrs).List(false)
	for i := range list {
		if res := c.setAttribute(list[i].ID, launch.Unset(list[i].ID)); res != driver.ResultSuccess {
			return res
		}
	}
	if c.use.cooperative && !w.cooperative {
		return c.setAttribute(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, launch.CooperativeValue(false))
	}
	return driver.ResultSuccess
}

// setFlags says whether the node has to launch its kernel cooperatively, and with which attributes.
func (w *kernelWork) setFlags(c *nodeCall, cooperative bool, attrs *cu.LaunchAttributes) error {
	w.cooperative = cooperative
	switch list := subject.LaunchAttributes(attrs); {
	case list != nil && list.OnlyLaunches() != "":
		return drivercall.BadValue(c.op, c.gc, "a node of a graph cannot have "+list.OnlyLaunches()+
			": capture a launch with it instead")
	case c.xc == nil:
		w.attrs = attrs
		return nil
	case cooperative != c.use.cooperative:
		return drivercall.BadValue(c.op, c.gc, "an executable graph cannot change whether a node launches its kernel "+
			"cooperatively: change the node of the graph, and call graph.Exec.Update")
	case list != nil && !list.Equal(subject.LaunchAttributes(c.use.attrs)):
		return drivercall.BadValue(c.op, c.gc, "an executable graph cannot change the attributes of a node: leave "+
			"Attributes nil to keep them, or change the node of the graph, and instantiate it again")
	}
	w.attrs = c.use.attrs // the node keeps its own
	return nil
}

// stays leaves the node that was added in the graph, without attributes, after the call has failed.
func (w *kernelWork) stays(c *nodeCall) {
	if w.cooperative || w.attrs != nil {
		w.withoutAttributes(c, c.partly+", without attributes")
	}
}

// withoutAttributes removes the attributes that a call has set before it failed. It leaves the node as
// partly says.
func (w *kernelWork) withoutAttributes(c *nodeCall, partly string) {
	failed := c.op
	c.partly, w.attrs, w.cooperative, c.use.attrs, c.use.cooperative = partly, nil, false, w.attrs, w.cooperative
	w.resetAttributes(c)
	c.op = failed
}

// restoreAttributes sets the attributes that the node had.
func (w *kernelWork) restoreAttributes(c *nodeCall) {
	list := subject.LaunchAttributes(c.use.attrs).List(false)
	for i := range list {
		c.setAttribute(list[i].ID, &list[i].Value)
	}
	if c.use.cooperative && !w.cooperative {
		c.setAttribute(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, launch.CooperativeValue(true))
	}
}

// readKernel returns the work of a node that runs a kernel.
func (c *nodeCall) readKernel() (*Kernel, error) {
	t, at := c.gc.Ctx.Drv.Table(), c.at()
	p, res := t.GraphKernelNodeGetParams(at, c.node)
	if t.Missing(res) != nil { // before CUDA 12.0
		var old driver.KernelNodeParamsV1
		old, res = t.GraphKernelNodeGetParamsV1(at, c.node)
		p = driver.KernelNodeParams{
			Func: old.Func, GridDimX: old.GridDimX, GridDimY: old.GridDimY, GridDimZ: old.GridDimZ,
			BlockDimX: old.BlockDimX, BlockDimY: old.BlockDimY, BlockDimZ: old.BlockDimZ,
			SharedMemBytes: old.SharedMemBytes, KernelParams: old.KernelParams, Extra: old.Extra,
		}
	}
	if err := c.got("cuGraphKernelNodeGetParams", res); err != nil {
		return nil, err
	}
	k := &Kernel{
		Config: cu.LaunchConfig{
			Grid:      cu.Dim3{X: p.GridDimX, Y: p.GridDimY, Z: p.GridDimZ},
			Block:     cu.Dim3{X: p.BlockDimX, Y: p.BlockDimY, Z: p.BlockDimZ},
			SharedMem: p.SharedMemBytes, Attributes: c.use.attrs,
		},
		Params: &KernelParams{Function: uintptr(p.Func), Kernel: uintptr(p.Kern)},
	}
	if c.use.cooperative {
		k.Config.Flags |= cu.LaunchCooperative
	}
	name, sizes, known, err := c.askKernel(at, &p)
	if err != nil {
		return nil, err
	}
	if k.Params.Name = name; known && (p.KernelParams != nil || len(sizes) == 0) {
		k.Params.Args = core.ArgBytes(p.KernelParams, sizes)
	}
	return k, nil
}

// askKernel returns the name of the kernel of a node, and the sizes of its parameters if the driver can say
// them.
func (c *nodeCall) askKernel(at driver.At, p *driver.KernelNodeParams) (name string, sizes []uint64, known bool,
	err error) {
	t := c.gc.Ctx.Drv.Table()
	var res driver.Result
	op := "cuFuncGetName"
	if p.Func != 0 {
		name, res = t.FuncGetName(at, p.Func)
	} else {
		name, res = t.KernelGetName(at, p.Kern)
	}
	if res != driver.ResultSuccess && t.Missing(res) == nil {
		return "", nil, false, c.got(op, res)
	}
	op = "cuFuncGetParamInfo"
	for i := range uint64(launch.MaxParamBytes) {
		var size uint64
		if p.Func != 0 {
			_, size, res = t.FuncGetParamInfo(at, p.Func, i)
		} else {
			_, size, res = t.KernelGetParamInfo(at, p.Kern, i)
		}
		switch {
		case res == driver.ResultInvalidValue: // i is the number of parameters
			return name, sizes, true, nil
		case t.Missing(res) != nil: // before CUDA 12.4
			return name, nil, false, nil
		case res != driver.ResultSuccess:
			return "", nil, false, c.got(op, res)
		}
		sizes = append(sizes, size)
	}
	return name, nil, false, nil
}
