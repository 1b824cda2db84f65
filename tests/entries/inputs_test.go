package entries

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/descriptor"
)

// duplicate returns a descriptor of exported memory that the driver takes over.
func (s *setting) duplicate() int32 {
	fd, err := descriptor.Duplicate(int32(s.exported()))
	if err != nil {
		s.errs = append(s.errs, err)
	}
	return fd
}

func (s *setting) memoryDesc() *driver.ExternalMemoryHandleDesc {
	d := &driver.ExternalMemoryHandleDesc{Type: driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, Size: pages}
	*d.Handle.Fd() = s.duplicate()
	return d
}

func (s *setting) semaphoreDesc() *driver.ExternalSemaphoreHandleDesc {
	d := &driver.ExternalSemaphoreHandleDesc{Type: driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD}
	*d.Handle.Fd() = s.duplicate()
	return d
}

func (s *setting) kernelParams() *driver.KernelNodeParams {
	return &driver.KernelNodeParams{Func: driver.Function(s.common("function")), GridDimX: 1, GridDimY: 1, GridDimZ: 1,
		BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1, KernelParams: s.arguments()}
}

func (s *setting) copy3D() *driver.Memcpy3D { return s.asBase().copyParams() }
func (s *setting) setParams() *driver.MemsetNodeParams {
	return s.asBase().setParams()
}

func (s *setting) allocParams() driver.MemAllocNodeParams {
	return driver.MemAllocNodeParams{Bytesize: 64, PoolProps: s.poolProps(0)}
}

// asBase returns what the calls of other tests use.
func (s *setting) asBase() *base {
	return &base{ctx: s.ctx, memory: s.mem(), device: s.mem(), writes: s.writes(),
		function: driver.Function(s.common("function"))}
}

func (s *setting) writes() *driver.StreamBatchMemOpParams {
	p := new(driver.StreamBatchMemOpParams)
	*p.WriteValue() = driver.StreamMemOpWriteValueParams{Operation: driver.CU_STREAM_MEM_OP_WRITE_VALUE_32,
		Address: s.mem() + 48}
	return p
}

func (s *setting) operations() driver.BatchMemOpNodeParams { return s.asBase().operations() }
func (s *setting) signals() driver.ExtSemSignalNodeParams  { return s.asBase().signals() }
func (s *setting) awaits() driver.ExtSemWaitNodeParams     { return s.asBase().awaits() }
func (s *setting) nodeArray(n driver.GraphNode) unsafe.Pointer {
	return unsafe.Pointer(&[1]driver.GraphNode{n})
}

// arguments returns the array of a kernel's arguments.
func (s *setting) arguments() unsafe.Pointer {
	value := new(uint64)
	s.keep = append(s.keep, value)
	return unsafe.Pointer(&[1]unsafe.Pointer{unsafe.Pointer(value)})
}

// cText returns a string for C.
func cText(text string) unsafe.Pointer { return unsafe.Pointer(&append([]byte(text), 0)[0]) }

func ptr[T any](v T) unsafe.Pointer { return unsafe.Pointer(&v) }

// inputs is the memory that functions read, by its name in the table of functions.
var inputs = map[string]func(s *setting) unsafe.Pointer{
	"zero":  func(*setting) unsafe.Pointer { return ptr([8]uint64{}) },
	"zeros": func(*setting) unsafe.Pointer { return ptr([64]uint64{}) },
	"one":   func(*setting) unsafe.Pointer { return ptr([2]int32{1}) },
	"four":  func(*setting) unsafe.Pointer { return ptr([2]uint64{4}) },
	"mode":  func(*setting) unsafe.Pointer { return ptr([2]int32{global}) },
	"bus": func(s *setting) unsafe.Pointer {
		var b [32]byte
		s.must("cuDeviceGetPCIBusId", s.DeviceGetPCIBusId(s.at, b[:], s.dev))
		return ptr(b)
	},
	"atomics":         func(*setting) unsafe.Pointer { return ptr([2]int32{}) },
	"multiprocessors": func(s *setting) unsafe.Pointer { return unsafe.Pointer(s.multiprocessors()) },
	"image":           func(*setting) unsafe.Pointer { return cText(variables[:len(variables)-1]) },
	"input":           func(*setting) unsafe.Pointer { return cText(secondInput[:len(secondInput)-1]) },
	"kernelfile": func(s *setting) unsafe.Pointer {
		path := s.file("kernel.ptx")
		if err := os.WriteFile(path, []byte(thirdInput), 0o600); err != nil {
			s.errs = append(s.errs, err)
		}
		return cText(path)
	},
	"logfile":      func(s *setting) unsafe.Pointer { return cText(s.file("log")) },
	"writes":       func(s *setting) unsafe.Pointer { return unsafe.Pointer(s.writes()) },
	"arguments":    func(s *setting) unsafe.Pointer { return s.arguments() },
	"launch":       func(s *setting) unsafe.Pointer { c := oneThread; c.Stream = s.stream(); return ptr(c) },
	"kernelparams": func(s *setting) unsafe.Pointer { return unsafe.Pointer(s.kernelParams()) },
	"copy2d":       func(s *setting) unsafe.Pointer { return ptr(s.asBase().copy2D()) },
	"copy3d":       func(s *setting) unsafe.Pointer { return unsafe.Pointer(s.copy3D()) },
	"copypeer":     func(s *setting) unsafe.Pointer { return ptr(s.asBase().copyBetween()) },
	"copyop":       func(s *setting) unsafe.Pointer { return ptr(s.asBase().copyInBatch()) },
	"setparams":    func(s *setting) unsafe.Pointer { return unsafe.Pointer(s.setParams()) },
	"hostparams":   func(s *setting) unsafe.Pointer { return ptr(driver.HostNodeParams{Fn: uintptr(s.idle)}) },
	"opsparams":    func(s *setting) unsafe.Pointer { return ptr(s.operations()) },
	"allocparams":  func(s *setting) unsafe.Pointer { return ptr(s.allocParams()) },
	"signalparams": func(s *setting) unsafe.Pointer { return ptr(s.signals()) },
	"waitparams":   func(s *setting) unsafe.Pointer { return ptr(s.awaits()) },
	"nodeparams": func(s *setting) unsafe.Pointer {
		p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_KERNEL}
		*p.Kernel() = driver.KernelNodeParamsV3(*s.kernelParams())
		return ptr(p)
	},
	"instantiation": func(*setting) unsafe.Pointer { return ptr(driver.GraphInstantiateParams{}) },
	"dependency":    anEmptyNode,
	"from":          anEmptyNode,
	"to":            anEmptyNode,
	"allocation": func(s *setting) unsafe.Pointer {
		n := s.reused("allocation", func() uint64 { v, _ := makers["node.alloc"](s); return v })
		return s.nodeArray(driver.GraphNode(n))
	},
	"linkedfrom":   func(s *setting) unsafe.Pointer { return s.nodeArray(driver.GraphNode(s.linked("first"))) },
	"linkedto":     func(s *setting) unsafe.Pointer { return s.nodeArray(driver.GraphNode(s.linked("last"))) },
	"edges":        func(*setting) unsafe.Pointer { return ptr([1]driver.GraphEdgeData{}) },
	"destinations": func(s *setting) unsafe.Pointer { return ptr([1]driver.DevicePtr{s.mem()}) },
	"sources":      func(s *setting) unsafe.Pointer { return ptr([1]driver.DevicePtr{s.mem() + 64}) },
	"sizes":        func(*setting) unsafe.Pointer { return ptr([1]uint64{16}) },
	"inorder":      func(*setting) unsafe.Pointer { return unsafe.Pointer(&inOrder[0]) },
	"attribute":    func(*setting) unsafe.Pointer { return ptr([1]int32{driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE}) },
	"results": func(s *setting) unsafe.Pointer {
		v := new([8]uint64)
		s.keep = append(s.keep, v)
		return ptr([1]unsafe.Pointer{unsafe.Pointer(v)})
	},
	"managed":   func(s *setting) unsafe.Pointer { return ptr([1]uint64{s.common("managed")}) },
	"pagesize":  func(*setting) unsafe.Pointer { return ptr([1]uint64{65536}) },
	"location":  func(s *setting) unsafe.Pointer { return ptr(s.location()) },
	"poolprops": func(s *setting) unsafe.Pointer { return ptr(s.poolProps(0)) },
	"access":    func(s *setting) unsafe.Pointer { return ptr(s.access()) },
	"exported": func(s *setting) unsafe.Pointer {
		d, r := s.MemPoolExportPointer(s.at, driver.DevicePtr(s.common("sharedblock")))
		s.must("cuMemPoolExportPointer", r)
		return ptr(d)
	},
	"physical":      func(s *setting) unsafe.Pointer { return ptr(s.home.physical(0)) },
	"memoryfile":    func(s *setting) unsafe.Pointer { return unsafe.Pointer(s.memoryDesc()) },
	"semaphorefile": func(s *setting) unsafe.Pointer { return unsafe.Pointer(s.semaphoreDesc()) },
	"buffer":        func(*setting) unsafe.Pointer { return ptr(driver.ExternalMemoryBufferDesc{Size: 64}) },
	"semaphore": func(s *setting) unsafe.Pointer {
		return ptr([1]driver.ExternalSemaphore{driver.ExternalSemaphore(s.common("extsem"))})
	},
}

// anEmptyNode returns an array of one node.
func anEmptyNode(s *setting) unsafe.Pointer {
	return s.nodeArray(made[driver.GraphNode](s, "cuGraphAddEmptyNode")(s.GraphAddEmptyNode(s.at, s.ours(), nil)))
}

// linked returns one of two nodes with an edge between them.
func (s *setting) linked(which string) uint64 {
	return s.reused(which, func() uint64 {
		a := made[driver.GraphNode](s, "cuGraphAddEmptyNode")(s.GraphAddEmptyNode(s.at, s.ours(), nil))
		b := made[driver.GraphNode](s, "cuGraphAddEmptyNode")(s.GraphAddEmptyNode(s.at, s.ours(), []driver.GraphNode{a}))
		s.reusable["first"], s.reusable["last"] = uint64(a), uint64(b)
		return s.reusable[which]
	})
}

// file returns a path in a folder of the process.
func (s *stage) file(name string) string {
	return os.TempDir() + fmt.Sprintf("/purecu-states-%d-%s", os.Getpid(), name)
}

// passedWhole are the words of a handle that is passed by value: on the stack, or by its address.
func passedWhole(handle *[8]uint64) (inRegister []uintptr, onStack []uintptr) {
	if runtime.GOARCH != "amd64" {
		return []uintptr{uintptr(unsafe.Pointer(handle))}, nil
	}
	for _, w := range handle {
		onStack = append(onStack, uintptr(w))
	}
	return nil, onStack
}
