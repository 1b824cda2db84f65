package sim

import (
	"fmt"
	"io"
	"os"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/code"
)

// heap returns the heap of a context, whose size does not change any more. The driver is locked.
func (d *Driver) heap(c *context) *code.Heap {
	if c.heap == nil {
		size, set := c.limits[driver.CU_LIMIT_MALLOC_HEAP_SIZE]
		if !set {
			size = c.dev.limits()[driver.CU_LIMIT_MALLOC_HEAP_SIZE]
		}
		c.heap = code.NewHeap(size, func(size uint64) uint64 {
			d.mu.Lock()
			defer d.mu.Unlock()
			b, r := d.newDeviceBlock(c, size, moduleBlock)
			if r != ok {
				return 0
			}
			return b.addr
		})
	}
	return c.heap
}

// workspaceSize is the size of the memory for the barrier of a cooperative grid, in bytes.
const workspaceSize = 64

// workspace returns the address of memory that is zero, for the barrier of a cooperative grid, or 0 if
// there is none. The driver is locked. The caller appends it to c.workspaces after the launch.
func (d *Driver) workspace(c *context) uint64 {
	if len(c.workspaces) == 0 {
		b, r := d.newDeviceBlock(c, 64*workspaceSize, moduleBlock)
		if r != ok {
			return 0
		}
		for at := uint64(0); at < b.size; at += workspaceSize {
			c.workspaces = append(c.workspaces, b.addr+at)
		}
	}
	n := len(c.workspaces) - 1
	at := c.workspaces[n]
	c.workspaces = c.workspaces[:n]
	b := d.space.At(at)
	span{b, 0, b.size}.Clear(at-b.addr, workspaceSize)
	return at
}

// Output is cusim.Output.
func Output(w io.Writer) Option {
	return func(d *Driver) {
		if w == nil {
			w = io.Discard
		}
		d.printer.out = w
	}
}

// output writes what a kernel prints. Kernels call it without the driver's lock. The writer is called on a
// goroutine of its own, as one of a test may end it (testing.T.FailNow): the kernel goes on.
func (d *Driver) output(text []byte, failed bool) {
	p := &d.printer
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.out != nil:
	case failed:
		_, _ = os.Stderr.Write(text) // there is nobody to tell about an error
		return
	default:
		_, _ = os.Stdout.Write(text)
		return
	}
	written, problem := make(chan struct{}), any("the writer ended its goroutine")
	go func() {
		defer close(written)
		defer func() {
			if e := recover(); e != nil {
				problem = e
			}
		}()
		_, err := p.out.Write(text)
		problem = err
	}()
	if <-written; problem != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.misuse("cusim.Output", 0, fmt.Sprintf("what a kernel has printed is lost: %v", problem), nil)
	}
}
