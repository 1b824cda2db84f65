package sim

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/engine"
	"github.com/purecu/purecu/internal/sim/mem"
)

// WithKernel is cusim.WithKernel, which lists the kernels that the driver knows.
func WithKernel(name string, k Kernel) Option {
	return func(d *Driver) { d.kernels[name] = k }
}

// Threads returns how many threads the launch has.
func (l *Launch) Threads() uint64 {
	n := l.Grid.Count()
	if b := l.Block.Count(); n <= math.MaxUint64/b {
		return n * b
	}
	return math.MaxUint64
}

// Args returns how many arguments there are.
func (l *Launch) Args() int { return l.args.Len() }

// Bytes returns the value of argument i, counted from 0. It panics if there is no such argument.
func (l *Launch) Bytes(i int) []byte { return l.args.At(i) }

// U32 returns argument i, of 32 bits.
func (l *Launch) U32(i int) uint32 { return binary.LittleEndian.Uint32(l.args.At(i)) }

// U64 returns argument i, of 64 bits, such as an address.
func (l *Launch) U64(i int) uint64 { return binary.LittleEndian.Uint64(l.args.At(i)) }

// F32 returns argument i, a 32-bit float.
func (l *Launch) F32(i int) float32 { return math.Float32frombits(l.U32(i)) }

// F64 returns argument i, a 64-bit float.
func (l *Launch) F64(i int) float64 { return math.Float64frombits(l.U64(i)) }

// Mem returns the memory from the address in argument i to the end of its allocation. The device has a
// fault, and Mem returns nil, if the address is invalid, or the machine has no memory for all of this.
func (l *Launch) Mem(i int) []byte {
	addr := l.U64(i)
	b := l.memory(addr)
	if b == nil {
		l.Fault(int(driver.ResultIllegalAddress)) // unless it has a fault
		return nil
	}
	b.defined.Set(addr-b.addr, b.size) // up to the end, as nobody knows what the function writes
	return l.contiguous(b, addr-b.addr, math.MaxUint64)
}

// lock locks the driver, unless ask has done so.
func (l *Launch) lock() (unlock func()) {
	if l.locked {
		return func() {}
	}
	l.d.mu.Lock()
	return l.d.mu.Unlock
}

// memory returns the block with an address, or nil.
func (l *Launch) memory(addr uint64) *block {
	unlock := l.lock()
	b := l.d.space.ForKernels(addr)
	if b != nil && b.kind == mappedBlock {
		s := l.mapped(addr)
		unlock()
		return l.gather(s)
	}
	defer unlock()
	if b == nil || b.asleep {
		return nil
	}
	return b
}

// contiguous returns a block's memory at an offset, no more than a number of bytes.
func (l *Launch) contiguous(b *block, off, most uint64) []byte {
	n := min(most, b.size-off)
	for {
		unlock := l.lock()
		m, begin := b.memory()
		unlock()
		switch data := m.Contiguous(begin+off, n); {
		case data != nil:
			return data
		case !m.Released(): // otherwise the block has another content by now
			l.lacks(n)
			return nil
		}
	}
}

// lacks makes the launch fail, as the machine has no memory for the kernel.
func (l *Launch) lacks(n uint64) {
	defer l.lock()()
	l.d.explain("", fmt.Sprintf("kernel %q, a Go function, asks for %d bytes of memory, and the machine has too "+
		"little memory, or the process too few addresses", l.Name, n), driver.ResultLaunchFailed)
	l.Fault(int(driver.ResultLaunchFailed))
}

// Global returns the memory of a variable of the kernel's module. If there is no such variable, the
// device has a fault, and Global returns nil.
func (l *Launch) Global(name string) []byte {
	v, there := l.module.variables[name]
	if !there {
		l.Fault(int(driver.ResultIllegalAddress))
		return nil
	}
	return l.contiguous(v.block, v.at, v.size)
}

// Fault makes the launch fail with a code. Only the first call has an effect.
func (l *Launch) Fault(code int) {
	if l.code == ok {
		l.code = driver.Result(code)
	}
}

// SetConditional sets a value that conditional nodes of the graph read.
func (l *Launch) SetConditional(handle uint64, value uint32) {
	if !l.values.Set(handle, value) {
		l.Fault(int(driver.ResultIllegalAddress))
	}
}

// ask calls f, which says how long the kernel takes, while the driver is locked: what the program sees of the kernel must
// not depend on the machine's speed.
func (l *Launch) ask(f func()) {
	ended := make(chan struct{})
	l.locked = true
	go l.call(f, func(failed func()) {
		failed()
		close(ended)
	})
	<-ended
	l.locked = false
}

// outside calls f, which does the kernel's work, on a new goroutine, and then completes the operation, which may have
// been dropped meanwhile.
func (l *Launch) outside(o *op, f func()) {
	d, e := l.d, &l.d.engine
	x := &engine.Execution{Kind: engine.KernelInGo, Kernel: l.Name}
	e.NoteExecution(o, x)
	go l.call(f, func(failed func()) {
		d.mu.Lock()
		defer d.mu.Unlock()
		failed()
		e.End(x)
		e.Finish(o)
		e.Changed.Broadcast()
	})
}

// call calls f, a part of a kernel, and then ended, also if f ends the goroutine (testing.T.FailNow). ended calls failed
// with the driver locked: a panic or an end of the goroutine becomes a misuse.
func (l *Launch) call(f func(), ended func(failed func())) {
	returned := false
	defer func() {
		fault, what := driver.ResultLaunchFailed, ""
		switch p := recover().(type) {
		case nil:
			if !returned {
				what = "the kernel ended its goroutine"
			}
		case runtime.Error:
			fault, what = driver.ResultIllegalAddress, fmt.Sprintf("the kernel panicked: %v", p)
		default:
			what = fmt.Sprintf("the kernel panicked: %v", p)
		}
		stored := l.store()
		ended(func() {
			switch {
			case what != "":
				l.Fault(int(fault))
				l.d.misuse(l.Name, 0, what, nil)
			case !stored:
				l.Fault(int(driver.ResultLaunchFailed))
			}
		})
	}()
	// Other code may have unmapped its memory.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	f()
	returned = true
}

// kernelTime is the duration of a kernel without a Time.
const kernelTime = 5 * time.Microsecond

// faultTime is the duration of a kernel with a fault. A GPU reports a fault some time after the
// launch, so that work that a program enqueues at once is still accepted.
const faultTime = time.Millisecond

// gather copies the content of a block that stands for neighbours to one piece. It reports false if the machine
// has too little memory.
func (b *block) gather(all *mem.Budget) (g gathered, there bool) {
	b.mem = mem.New(all, b.size)
	g = gathered{b, mem.New(all, b.size)}
	is, was := b.mem.Contiguous(0, b.size), g.was.Contiguous(0, b.size)
	if is == nil || was == nil {
		g.release()
		return g, false
	}
	span{&block{size: b.size, mem: b.mem}, 0, b.size}.copyFrom(0, span{b, 0, b.size}, 0, b.size)
	copy(was, is)
	return g, true
}

// mapped returns the memory from an address in a mapping up to the next address that is not mapped, or that the device
// may not write, or nil if the device may not access the address. The driver is locked.
func (l *Launch) mapped(addr uint64) *block {
	a, v := &l.d.space, l.module.ctx.dev
	end := addr
	_, from := a.Split(addr)
	for _, b := range from {
		if b.kind != mappedBlock || b.addr > end || !b.allows(v, driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
			break
		}
		end = b.end()
	}
	if end == addr {
		return nil
	}
	s, r := a.across(addr, end-addr)
	switch {
	case r != ok:
		return nil
	case len(s.parts) == 1:
		return s.parts[0].block
	}
	return s.block
}

// gather returns a block in one piece: the block itself, or a copy, if it stands for neighbours. What the kernel
// writes to a copy is stored when it has run. It returns nil if the machine has too little memory.
func (l *Launch) gather(b *block) *block {
	if b == nil || b.parts == nil {
		return b
	}
	for _, g := range l.gathered {
		if b.addr-g.addr < g.size {
			return g.block
		}
	}
	g, there := b.gather(&l.d.space.budget)
	if !there {
		l.lacks(b.size)
		return nil
	}
	l.gathered = append(l.gathered, g)
	return g.block
}

// store stores what the kernel has written to copies of memory. It reports false if the machine has too little memory.
func (l *Launch) store() (stored bool) {
	stored = true
	for _, g := range l.gathered {
		stored = g.store() && stored
		g.release()
	}
	l.gathered = nil
	return stored
}
