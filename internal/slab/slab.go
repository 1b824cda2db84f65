// Package slab provides memory for counters that the host and GPUs share.
//
// A slab is memory that is registered in one CUDA context. It consists of cells; each has room for
// a counter and for some more words. A context has its slabs, and their free cells, in [Cells]. A
// slab that no context has is in the [Pool] of its driver: it may still be registered, and serves
// another context, or the same one again.
//
// The package does not know timelines, nor when the work with a cell or in a context is done. It
// calls the driver only to register memory, for which a [Context] says how, and to get its addresses.
// It never waits for the GPU. See docs/design/waiting.md.
package slab

import (
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

const (
	// CellSize is the size of a cell in bytes: two cache lines, because processors fetch pairs of
	// them.
	CellSize = 128
	// CellWords is the number of 64-bit words in a cell.
	CellWords = CellSize / 8

	// A context's first slab has minSize bytes. Each further slab is as large as all slabs before,
	// at most maxSize.
	minSize = 64 << 10
	maxSize = 1 << 20
)

// Slab is memory that is registered in one CUDA context. It stays mapped while something refers to
// it, so that a late read does not fault.
type Slab struct {
	memory
	raw driver.DevicePtr // the address in the context in which it is registered
	// addresses has the addresses in other contexts (a driver.DevicePtr by the context).
	addresses sync.Map
}

// Raw returns the slab's address in the context in which it is registered.
func (s *Slab) Raw() driver.DevicePtr { return s.raw }

// memory is the memory of a slab: a mapping by the operating system, or of the Go heap. Heap memory
// is for software drivers, so that the race detector sees the order that the counters establish.
type memory struct {
	mem []byte
	// mapping keeps the memory mapped. It is nil for memory of the Go heap.
	mapping *mapping
}

// mapping is memory that the operating system has mapped for a slab.
type mapping struct{ mem []byte }

// Addr returns the address of the memory.
func (m memory) Addr() driver.HostPtr { return addr(m.mem) }

func addr(mem []byte) driver.HostPtr { return driver.HostPtr(unsafe.Pointer(unsafe.SliceData(mem))) }

// newMemory returns zeroed, page-aligned memory: of the Go heap if heap is set, else a new mapping.
func newMemory(size int, heap bool) (m memory, err error) {
	page := os.Getpagesize()
	size = (size + page - 1) &^ (page - 1)
	if heap {
		mem := make([]byte, size+page)
		off := int(-uintptr(addr(mem)) & uintptr(page-1))
		return memory{mem: mem[off : off+size]}, nil
	}
	p, err := mapMemory(size)
	if err != nil {
		return m, err
	}
	mem := unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), size) // go vet refuses a conversion of p, which is a uintptr
	return memory{mem, &mapping{mem}}, nil
}

// Cell is a part of a slab.
type Cell struct {
	slab *Slab
	at   int // in bytes
}

// Word returns word i of the cell.
func (x Cell) Word(i int) *atomic.Uint64 {
	// The conversion is valid: neither a mapping nor memory of the Go heap moves, and both are
	// page-aligned.
	return (*atomic.Uint64)(unsafe.Pointer(&x.slab.mem[x.at+8*i]))
}

// Clear sets all words to 0.
func (x Cell) Clear() {
	for i := range CellWords {
		x.Word(i).Store(0)
	}
}

// Raw returns the cell's address in the context in which the slab is registered.
func (x Cell) Raw() driver.DevicePtr { return x.slab.raw + driver.DevicePtr(x.at) }

// Address returns the cell's address in another context, if Map has found it before. The context
// is any comparable value that stands for it: see [Cells.Forget].
func (x Cell) Address(context any) (p driver.DevicePtr, known bool) {
	a, known := x.slab.addresses.Load(context)
	if !known {
		return 0, false
	}
	return a.(driver.DevicePtr) + driver.DevicePtr(x.at), true
}

// Map asks the driver for the cell's address in another context, which at makes current
// (cuMemHostGetDevicePointer).
func (x Cell) Map(context any, table *driver.Table, at driver.At) (driver.DevicePtr, driver.Result) {
	p, res := table.MemHostGetDevicePointer(at, x.slab.Addr(), 0)
	if res != driver.ResultSuccess {
		return 0, res
	}
	x.slab.addresses.Store(context, p)
	return p + driver.DevicePtr(x.at), res
}
