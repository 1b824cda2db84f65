package sim

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/sim/engine"
	"github.com/purecu/purecu/internal/sim/mem"
)

// execution is a launch of a kernel that is executed, or was.
type execution struct {
	engine.Execution
	vm.Stop
	fault *vm.Fault
	room  mem.Room
}

// KernelLimit is cusim.KernelLimit.
func KernelLimit(limit time.Duration) Option { return func(d *Driver) { d.kernelLimit = limit } }

// The model of the time of a kernel, for virtual time: so much for its launch, and a nanosecond for
// each instruction of a warp, as if each multiprocessor executed one at a time. In addition it takes
// the time for which it has waited by reading a clock.
func modelled(stats vm.Stats, blocks uint64, v *device) int64 {
	return int64(kernelTime) + int64(stats.Instructions/min(max(blocks, 1), uint64(v.Multiprocessors))) + stats.Waited
}

// ptxLaunch is a launch of a kernel in PTX. It is in one piece, as launches are frequent.
type ptxLaunch struct {
	op
	execution
	vm.Launch
	of     Launch
	f      *function
	number uint64 // of nextLaunch
	order  uint64 // among all launches: kernels that are enqueued still read an image that is destroyed meanwhile
}

// opOfPTXKernel returns the operation of a launch of a kernel in PTX. A goroutine executes it outside of
// the driver's lock. It ends if the driver has a sticky error.
func (d *Driver) opOfPTXKernel(f *function, l Launch) *op {
	d.objects.images.launches++
	p := &ptxLaunch{op: op{Outside: true, Visible: true}, of: l, f: f, number: d.nextLaunch(l.Name),
		order: d.objects.images.launches}
	p.execution.Kernel = l.Name
	p.op.Begin = p.begin
	p.op.Dropped = func() {
		p.Stop.Stop(&vm.Fault{Code: vm.LaunchFailed, Reason: "it was stopped after an error"})
	}
	p.op.Effect = func() {
		if p.fault != nil {
			d.reportFault(p.fault)
			d.poison(driver.Result(p.fault.Code))
		}
	}
	return &p.op
}

// begin begins to execute the kernel. The driver is locked.
func (p *ptxLaunch) begin() {
	l, d, f, c := &p.of, p.of.d, p.f, p.f.module.ctx
	program := f.linked()
	p.Launch = vm.Launch{
		Kernel: program.Kernel, Constants: program.Constants, Params: l.args.Bytes,
		Shape: vm.Shape{Grid: l.Grid, Block: l.Block, Dynamic: l.SharedMem},
		Device: vm.Device{Memory: c.kernelMemory(d), Images: kernelImages{c.kernelMemory(d), p.order},
			Multiprocessors: uint32(c.dev.Multiprocessors),
			Warps:           uint32(c.dev.Threads / 32), SharedUnit: uint32(c.dev.SharedUnit),
			Clock: d.readClock, Virtual: d.engine.Clock.Virtual, Print: d.print,
			Wide: &d.space.wide},
		Room:     &p.room,
		Workers:  runtime.GOMAXPROCS(0),
		Resident: int(max(f.Active(int32(l.Block.Count()), uint64(l.SharedMem)), 1)) * int(c.dev.Multiprocessors),
		Checks:   d.checksOf(),
		Watch:    d.watchOf(l, program.Kernel, p.number),
	}
	p.room.Budget = &d.space.budget
	fails := func(reason string) {
		d.reportFault(&vm.Fault{Code: vm.LaunchFailed, Kernel: l.Name, Reason: reason})
		d.poison(driver.ResultLaunchFailed)
	}
	if b := f.module.constants; b != nil {
		m, begin := b.memory()
		if p.Const = m.Contiguous(begin, b.size); p.Const == nil {
			fails("the machine has no memory left for the variables in constant memory")
			return
		}
	}
	if l.clustered {
		p.Cluster = l.Cluster
	}
	if l.values != nil {
		p.Condition = l.values.Set
	}
	if program.Kernel.Allocates {
		p.Heap = d.heap(c)
	}
	if l.cooperative {
		if p.Workspace = d.workspace(c); p.Workspace == 0 {
			fails("no memory is left for the barrier of the cooperative grid")
			return
		}
	}
	d.ids.launch++
	p.ID = d.ids.launch
	d.engine.NoteExecution(&p.op, &p.execution.Execution)
	go p.run()
}

// run executes the launch, and completes its operation. The driver is not locked.
func (p *ptxLaunch) run() {
	l, d, c, x := &p.of, p.of.d, p.f.module.ctx, &p.execution
	var timer *time.Timer
	if d.kernelLimit > 0 {
		timer = time.AfterFunc(d.kernelLimit, func() {
			x.Stop.Stop(&vm.Fault{Code: int(driver.ResultLaunchTimeout), Reason: fmt.Sprintf("it was executed "+
				"for longer than %v, as cusim.KernelLimit or CUSIM_KERNEL_LIMIT says", d.kernelLimit)})
		})
	}
	d.watchBegins(&p.Launch, p.number)
	stats, fault := p.Execute(&x.Stop)
	x.room.Give()
	d.watchEnded(p.f, &p.Launch)
	if timer != nil {
		timer.Stop()
	}
	found := d.describeFound(stats.Findings)
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.cooperative && !c.destroyed {
		c.workspaces = append(c.workspaces, p.Workspace)
	}
	x.fault, p.Launch = fault, vm.Launch{}
	for _, text := range found {
		d.misuse("cuLaunchKernel", 0, text, nil)
	}
	d.reportEnded(x)
	d.instructions[l.Name] += stats.Instructions
	d.ptxEnded(&p.op, x, stats, l.Grid.Count(), c.dev)
	p.of, p.f = Launch{}, nil // the stream may keep the operation
}

// Instructions is cusim.Driver.Instructions.
func (d *Driver) Instructions(kernel string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.instructions[kernel]
}

// GoLaunches is cusim.Driver.GoLaunches.
func (d *Driver) GoLaunches(kernel string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.goLaunches[kernel]
}

// ptxEnded completes a kernel at its time. A fault is reported a little later, so that work that a
// program enqueues at once is still accepted.
func (d *Driver) ptxEnded(o *op, x *execution, stats vm.Stats, blocks uint64, v *device) {
	e := &d.engine
	e.End(&x.Execution)
	defer e.Changed.Broadcast()
	e.FinishAt(o, func() int64 {
		at := e.Clock.At()
		if e.Clock.Virtual {
			at = engine.Later(o.Began(), modelled(stats, blocks, v))
		}
		if x.fault != nil {
			at = engine.Later(at, int64(faultTime))
		}
		return at
	})
}

// reportEnded reports a kernel that Finish has ended.
func (d *Driver) reportEnded(x *execution) {
	if !x.Ended || x.fault == nil {
		return
	}
	at := ""
	if x.fault.Instruction != "" {
		at = ". Then it was at " + faultPlace(x.fault)
	}
	d.misuse("cuLaunchKernel", 0, fmt.Sprintf("kernel %q has not ended for %v, and was ended, as nothing else is "+
		"left to do: it may wait for memory that the program has to write%s", x.Kernel,
		time.Since(x.Begun).Round(time.Millisecond), at), nil)
}

// reportFault explains a fault in the log. A wrong access is also a misuse, as a panic of a kernel in
// Go is.
func (d *Driver) reportFault(f *vm.Fault) {
	r := driver.Result(f.Code)
	var b strings.Builder
	fmt.Fprintf(&b, "kernel %q ends with %s", f.Kernel, r.Name())
	if f.Instruction != "" {
		b.WriteString(": " + faultPlace(f))
	} else {
		b.WriteString(accessText(f))
	}
	var freed []uintptr
	if f.Access {
		if f.Code == vm.IllegalAddress {
			if old := d.space.freed.At(f.Address); old != nil && d.space.ForKernels(f.Address) == nil {
				fmt.Fprintf(&b, "; this was in memory of %d bytes at %#x, which is freed", old.Size, old.Addr)
				freed = old.By
			}
			b.WriteString(d.nearest(f))
		}
	}
	if f.Reason != "" {
		fmt.Fprintf(&b, ": %s", f.Reason)
	}
	d.explain("", b.String(), r) // the next call that looks returns it
	if f.Access || f.Reason != "" && f.Code != vm.AssertFailed {
		d.misuse("cuLaunchKernel", 0, b.String(), freed)
	}
}

// nearest describes where a wrong access is: the state space, or the nearest memory.
func (d *Driver) nearest(f *vm.Fault) string {
	addr, n := f.Address, f.Size
	if space := spaceOf(f); space != "" {
		return ", in " + space
	}
	below, from := d.space.Split(addr)
	text, least := "; no memory is allocated", uint64(1<<64-1)
	if len(below) > 0 {
		b := below[len(below)-1]
		least = addr - b.end()
		text = fmt.Sprintf("; the nearest memory is %d bytes at %#x, which ends %d bytes before", b.size, b.addr, least)
	}
	if len(from) > 0 {
		switch b := from[0]; {
		case b.addr <= addr && n <= b.end()-addr: // the device has no such access, or the memory is not allocated now
			text = fmt.Sprintf("; the memory of %d bytes at %#x does not allow the access", b.size, b.addr)
		case b.addr <= addr:
			text = fmt.Sprintf("; the memory of %d bytes at %#x ends within the access", b.size, b.addr)
		case b.addr-addr < least:
			text = fmt.Sprintf("; the nearest memory is %d bytes at %#x, which begins %d bytes later", b.size, b.addr,
				b.addr-addr)
		}
	}
	return text
}

// spaceOf returns the state space of a wrong access that is not one to global memory, or "". The address may be
// one in the window of the space, or, if the instruction names the space, an address of 32 bits in it.
func spaceOf(f *vm.Fault) string {
	window := f.Address &^ (vm.WindowSize - 1)
	words := strings.FieldsFunc(f.Instruction, func(r rune) bool { return r == '.' || r == ':' })
	for _, s := range []struct {
		word, name string
		window     uint64
	}{
		{"shared", "shared memory", vm.SharedWindow}, {"local", "local memory", vm.LocalWindow},
		{"param", "the parameters", vm.ParamWindow}, {"const", "constant memory", vm.ConstWindow},
	} {
		if window == s.window || f.Address < 1<<32 && slices.Contains(words, s.word) {
			return s.name
		}
	}
	return ""
}
