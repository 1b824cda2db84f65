package sim

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/sim/code"
	"github.com/purecu/purecu/internal/sim/graph"
)

// LaunchKernel is cuLaunchKernel.
func (d *Driver) LaunchKernel(th *driver.Thread, f driver.Function, gx, gy, gz, bx, by, bz, shared uint32, h driver.Stream, p driver.KernelParams) driver.Result {
	c := driver.LaunchConfig{GridX: gx, GridY: gy, GridZ: gz, BlockX: bx, BlockY: by, BlockZ: bz,
		SharedMemBytes: shared, Stream: h}
	return d.launch("cuLaunchKernel", th, f, &c, launchOptions{}, p)
}

// LaunchCooperativeKernel is cuLaunchCooperativeKernel: all blocks have to fit on the device at the
// same time.
func (d *Driver) LaunchCooperativeKernel(th *driver.Thread, f driver.Function, gx, gy, gz, bx, by, bz, shared uint32, h driver.Stream, p driver.KernelParams) driver.Result {
	c := driver.LaunchConfig{GridX: gx, GridY: gy, GridZ: gz, BlockX: bx, BlockY: by, BlockZ: bz,
		SharedMemBytes: shared, Stream: h}
	return d.launch("cuLaunchCooperativeKernel", th, f, &c, launchOptions{Options: code.Options{Cooperative: true}}, p)
}

// LaunchKernelEx is cuLaunchKernelEx.
func (d *Driver) LaunchKernelEx(th *driver.Thread, c *driver.LaunchConfig, f driver.Function,
	p driver.KernelParams) driver.Result {
	if c == nil {
		defer d.mu.Unlock()
		if r := d.begin("cuLaunchKernelEx"); r != ok {
			return r
		}
		return driver.ResultInvalidValue
	}
	return d.launch("cuLaunchKernelEx", th, f, c, launchOptions{}, p)
}

func (d *Driver) launch(name string, th *driver.Thread, h driver.Function, c *driver.LaunchConfig, o launchOptions,
	p driver.KernelParams) driver.Result {
	defer d.reportUnknown()
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return r
	}
	var f *function
	k, r := d.kernelOf(h), ok
	if k == nil {
		if f, r = d.function(name, h); r != ok {
			return r
		}
	}
	s, r := d.streamForWork(name, d.thread(th), c.Stream)
	if k != nil && r == ok {
		if f, r = d.functionOf(k, s.ctx); r == ok {
			h = d.functionHandle(f)
		}
	}
	switch {
	case r != ok:
		return r
	case f.module.ctx != s.ctx:
		return driver.ResultInvalidHandle
	}
	grid, block := Dim3{c.GridX, c.GridY, c.GridZ}, Dim3{c.BlockX, c.BlockY, c.BlockZ}
	if block == (Dim3{1, 1, 1}) && f.Block != (Dim3{}) { // the kernel's text says it
		block = f.Block
	}
	// Attributes that an H200 refuses leave a capture valid.
	if r = f.FitsThreads(block); r == ok {
		if r := d.launchAttributes(name, s, c, &o); r != ok {
			return r
		}
		shape := code.LaunchShape{Grid: grid, Block: block, Shared: c.SharedMemBytes, Options: o.Options}
		r = f.FitsRest(shape, s.capture != nil)
	}
	if r != ok {
		if s.capture != nil {
			d.invalidate(s.capture, ok)
		}
		return r
	}
	args, r := d.arguments(name, h, f, p)
	if r == ok {
		r = d.canRun(name, f)
	}
	switch {
	case r == driver.ResultLaunchOutOfResources && s.capture != nil:
		return driver.ResultInvalidValue // as on an H100, and the capture stays valid
	case r != ok:
		return r
	}
	w := kernelWork{kernel: f, handle: h, attributes: o.attributes(s), launch: Launch{Name: f.Name, Grid: grid,
		Block: block, SharedMem: c.SharedMemBytes, d: d, module: f.module, args: args}}
	if f.Loaded = true; s.capture == nil { // w stays on the stack
		w.launch.Cluster, w.launch.clustered = f.BlocksOf(o.Cluster)
		w.launch.cooperative = o.Cooperative
		_, r = d.enqueueOp(s, w.op(nil))
	} else {
		node := w
		r = d.submit(s, &node)
	}
	if r == ok && o.programmatic && s.capture != nil {
		s.deps[0].From.MayOverlap()
	}
	for _, e := range o.events {
		if r == ok {
			r = d.recordEvent(e, s)
		}
	}
	return r
}

// kernelWork launches a kernel.
type kernelWork struct {
	commonWork
	kernel     *function
	handle     driver.Function
	launch     Launch // each launch of a graph is done with a copy of it
	attributes kernelAttributes
	pointers   []address // of the arguments, for C code; nil if it has not asked
}

// Type implements graph.Work.
func (*kernelWork) Type() graph.Type { return graph.KernelNode }

func (w *kernelWork) context() *context { return w.kernel.module.ctx }

// Replaceable implements graph.Work: the kernel must be of the same context.
func (w *kernelWork) Replaceable(other graph.Work) bool {
	return w.context() == other.(*kernelWork).context()
}

func (w *kernelWork) op(values graph.Values) *op {
	d, f, l := w.launch.d, w.kernel, w.launch
	l.values = values
	if l.Cluster == (Dim3{}) { // it is a node
		if f.module.unloaded { // as on an H200
			return &op{Calls: opCalls{Effect: func() {
				d.reportFault(&vm.Fault{Code: vm.IllegalAddress, Kernel: f.Name,
					Reason: "the graph runs a kernel of a module that was unloaded"})
				d.poison(driver.ResultIllegalAddress)
			}}}
		}
		o := w.attributes.options()
		if l.Cluster, l.clustered = f.BlocksOf(o.Cluster); !l.Grid.DivisibleBy(l.Cluster) {
			// The kernel has required clusters since the node was made. All blocks run, as in a graph that an
			// H200 has instantiated before.
			l.Cluster, l.clustered = Dim3{1, 1, 1}, false
		}
		l.cooperative = o.Cooperative
	}
	if !f.Idle && !d.replacedByGo(f.Name) && f.linked().Err == nil {
		return d.opOfPTXKernel(f, l)
	}
	return d.opOfGoKernel(l)
}

// arguments copies the values of a launch's arguments. NVIDIA's driver knows only their addresses.
// It reads invalid memory if an argument is missing or too short.
func (d *Driver) arguments(name string, h driver.Function, f *function,
	p driver.KernelParams) (args code.Arguments, r driver.Result) {
	if p.Extra != nil {
		data, r := unpack(p.Extra)
		switch other := p.Array != nil || len(p.Ptrs) > 0; {
		case r != ok:
			return args, r
		case other && data.size > 0:
			return args, driver.ResultInvalidValue
		case !other && data != packed{}:
			return f.unpacked(data)
		}
	}
	if p.Array != nil {
		p.Ptrs = pointers(p.Array, len(f.Params))
	}
	if len(p.Ptrs) < len(f.Params) {
		d.misuse(name, uintptr(h), fmt.Sprintf("kernel %s takes %d arguments, and was given %d",
			f.Name, len(f.Params), len(p.Ptrs)), nil)
		return args, driver.ResultInvalidValue
	}
	args = f.NewArguments()
	for i, param := range f.Params {
		if p.Ptrs[i] == nil {
			d.misuse(name, uintptr(h), fmt.Sprintf("kernel %s: argument %d is NULL", f.Name, i), nil)
			return args, driver.ResultInvalidValue
		}
		if i < len(p.Sizes) && p.Sizes[i] != 0 && uint64(p.Sizes[i]) < param.Size {
			d.misuse(name, uintptr(h), fmt.Sprintf("kernel %s: argument %d has %d bytes, and the parameter %d",
				f.Name, i, p.Sizes[i], param.Size), nil)
			return args, driver.ResultInvalidValue
		}
		copyArgument(args.At(i), p.Ptrs[i])
	}
	return args, ok
}

// unpacked returns the values of arguments in one buffer. Missing bytes at the end are zero. The
// buffer must not be longer than the parameters, not even by padding.
func (f *function) unpacked(data packed) (args code.Arguments, r driver.Result) {
	args = f.NewArguments()
	want := uint64(len(args.Bytes))
	switch {
	case data.size > code.MostArguments, data.size > 0 && data.data == nil, data.size == 0 && want > 0:
		return args, driver.ResultInvalidValue
	case data.size > want:
		return args, driver.ResultLaunchOutOfResources
	}
	if data.size > 0 {
		copyArgument(args.Bytes[:data.size], data.data)
	}
	return args, ok
}

// opOfGoKernel returns the operation of a launch of a function in Go, or of a kernel that does nothing. A goroutine
// does its work without the driver's lock.
func (d *Driver) opOfGoKernel(launch Launch) *op {
	l := &launch
	k, written := d.kernels[l.Name]
	o := &op{Visible: k.Run != nil, Duration: int64(kernelTime)} // Run may have an effect outside of the driver
	if k.Time != nil {
		o.Begin = func() { l.ask(func() { o.Duration = int64(max(k.Time(l), 0)) }) }
	}
	if k.Run != nil {
		o.Apart = func() bool {
			if l.code != ok {
				return false
			}
			l.outside(o, func() { k.Run(l) })
			return true
		}
	}
	o.Effect = func() {
		if written {
			d.goLaunches[l.Name]++
		}
		if l.code != ok {
			d.explain("", fmt.Sprintf("kernel %q, whose PTX a function in Go replaces, ends with %s", l.Name,
				l.code.Name()), l.code)
			d.poison(l.code)
		}
	}
	return o
}
