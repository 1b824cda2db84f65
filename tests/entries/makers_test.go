package entries

import (
	"fmt"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/descriptor"
)

// stage is what the calls of TestStates share in a process: a driver in C, and a thread.
type stage struct {
	*driver.Table
	symbol func(name string) (uintptr, error)
	at     A
	homes  [homes]*home
	stale  uint64 // a context that was destroyed
	two    bool   // there are two devices
	all    bool   // all contexts are created at the beginning
	idle   uint64 // a function in C that does nothing
	keep   []any  // memory that the driver may use
}

// homeName is a context that objects belong to.
type homeName uint8

const (
	primary homeName = iota // the primary context of the first device
	second                  // another context of the first device
	abroad                  // the primary context of the second device
	homes
)

// home is a context, with the objects that all calls share.
type home struct {
	ctx    driver.Context
	dev    driver.Device
	shared map[string]uint64
}

// home returns a context. It is created when it is first needed.
func (s *stage) home(name homeName) (*home, error) {
	if s.homes[name] != nil {
		return s.homes[name], nil
	}
	h := &home{shared: map[string]uint64{}}
	var r R
	switch name {
	case second:
		h.ctx, r = s.CtxCreateV2(s.at, 0, 0)
	case abroad:
		h.dev = 1
		fallthrough
	default:
		h.ctx, r = s.DevicePrimaryCtxRetain(s.at, h.dev)
	}
	if r != ok {
		return nil, fmt.Errorf("context %d: %v", name, r)
	}
	s.homes[name] = h
	return h, nil
}

// setting is what one call needs. Its objects belong to one context, which is current while they are made.
type setting struct {
	*stage
	*home
	reusable map[string]uint64 // objects of this call that several arguments refer to
	after    []func()          // frees what must not be left
	errs     []error
}

func (s *setting) must(what string, r R) {
	if r != ok {
		s.errs = append(s.errs, fmt.Errorf("%s: %v", what, r))
	}
}

// maker makes an argument. It also returns a function that destroys it, or nil if there is none.
type maker func(s *setting) (uint64, func())

// made is the result of a function of driver.Table that creates something.
func made[T ~uintptr | ~uint64](s *setting, what string) func(v T, r R) T {
	return func(v T, r R) T {
		s.must(what, r)
		return v
	}
}

// reused returns an object that several arguments of a call refer to.
func (s *setting) reused(name string, create func() uint64) uint64 {
	v, found := s.reusable[name]
	if !found {
		v = create()
		s.reusable[name] = v
	}
	return v
}

// share returns an object that all calls refer to.
func (s *setting) share(name string, create func() uint64) uint64 {
	v, found := s.shared[name]
	if !found {
		v = create()
		s.shared[name] = v
	}
	return v
}

// ours returns the graph to which a call, or its arguments, add nodes.
func (s *setting) ours() driver.Graph {
	return driver.Graph(s.reused("graph", func() uint64 {
		return uint64(made[driver.Graph](s, "cuGraphCreate")(s.GraphCreate(s.at, 0)))
	}))
}

func (s *setting) stream() driver.Stream { return driver.Stream(s.common("stream")) }
func (s *setting) event() driver.Event   { return driver.Event(s.common("event")) }
func (s *setting) mem() driver.DevicePtr { return driver.DevicePtr(s.common("mem")) }

// common returns an object of a kind that all calls refer to.
func (s *setting) common(kind string) uint64 {
	return s.share(kind, func() uint64 { v, _ := makers[kind](s); return v })
}

// node returns a kind of nodes.
func node(add func(s *setting, g driver.Graph) (driver.GraphNode, R)) maker {
	return func(s *setting) (uint64, func()) {
		n := made[driver.GraphNode](s, "a node")(add(s, s.ours()))
		return uint64(n), func() { s.GraphDestroyNode(s.at, n) }
	}
}

// page returns a page of memory that the driver does not know.
func (s *setting) page() driver.HostPtr {
	b := make([]byte, 8192)
	s.keep = append(s.keep, b)
	return driver.HostPtr((uintptr(unsafe.Pointer(&b[0])) + 4095) &^ 4095)
}

// location is the memory of the device.
func (h *home) location() driver.MemLocation {
	return driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: int32(h.dev)}
}

func (h *home) access() driver.MemAccessDesc {
	return driver.MemAccessDesc{Location: h.location(), Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}
}

func (h *home) physical(handle int32) driver.MemAllocationProp {
	return driver.MemAllocationProp{Type: driver.CU_MEM_ALLOCATION_TYPE_PINNED, Location: h.location(),
		RequestedHandleTypes: handle}
}

func (h *home) poolProps(handle int32) driver.MemPoolProps {
	return driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED, Location: h.location(),
		HandleTypes: handle}
}

const byFile = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

// exported returns a new file descriptor of memory.
func (s *setting) exported() uint64 {
	h := made[driver.MemGenericAllocationHandle](s, "cuMemCreate")(s.MemCreate(s.at, pages, s.physical(byFile), 0))
	e, r := s.MemExportToShareableHandle(s.at, h, byFile, 0)
	s.must("cuMemExportToShareableHandle", r)
	s.must("cuMemRelease", s.MemRelease(s.at, h))
	fd := e.FD()
	s.after = append(s.after, func() { descriptor.Close(fd) })
	return uint64(fd)
}

// multiprocessors returns all multiprocessors of the device.
func (s *setting) multiprocessors() *driver.DevResource {
	v, r := s.DeviceGetDevResource(s.at, s.dev, driver.CU_DEV_RESOURCE_TYPE_SM)
	s.must("cuDeviceGetDevResource", r)
	return &v
}

// addresses reserves addresses.
func (s *setting) addresses() (driver.DevicePtr, func()) {
	p := made[driver.DevicePtr](s, "cuMemAddressReserve")(s.MemAddressReserve(s.at, pages, 0, 0, 0))
	return p, func() { s.MemAddressFree(s.at, p, pages) }
}

// makers make the arguments that are handles or addresses, by their names in the table of functions.
var makers map[string]maker

func init() {
	graph := func(s *setting) (uint64, func()) {
		g := made[driver.Graph](s, "cuGraphCreate")(s.GraphCreate(s.at, 0))
		return uint64(g), func() { s.GraphDestroy(s.at, g) }
	}
	module := func(s *setting) (driver.Module, func()) {
		m := made[driver.Module](s, "cuModuleLoadData")(s.ModuleLoadData(s.at, []byte(variables)))
		return m, func() { s.ModuleUnload(s.at, m) }
	}
	function := func(s *setting) (uint64, func()) {
		m, unload := module(s)
		return uint64(made[driver.Function](s, "cuModuleGetFunction")(s.ModuleGetFunction(s.at, m, kernelName))), unload
	}
	library := func(s *setting) (driver.LibraryHandle, func()) {
		l := made[driver.LibraryHandle](s, "cuLibraryLoadData")(
			s.LibraryLoadData(s.at, []byte(variables), nil, nil, nil, nil))
		return l, func() { s.LibraryUnload(s.at, l) }
	}
	pool := func(handle int32) maker {
		return func(s *setting) (uint64, func()) {
			p := made[driver.MemoryPool](s, "cuMemPoolCreate")(s.MemPoolCreate(s.at, s.poolProps(handle)))
			return uint64(p), func() { s.MemPoolDestroy(s.at, p) }
		}
	}
	physical := func(handle int32) maker {
		return func(s *setting) (uint64, func()) {
			h := made[driver.MemGenericAllocationHandle](s, "cuMemCreate")(s.MemCreate(s.at, pages, s.home.physical(handle), 0))
			return uint64(h), func() { s.MemRelease(s.at, h) }
		}
	}
	mem := func(s *setting) (uint64, func()) {
		p := made[driver.DevicePtr](s, "cuMemAlloc")(s.MemAlloc(s.at, 65536))
		s.must("cuMemsetD8", s.MemsetD8(s.at, p, 0, 65536)) // work may wait for values
		s.must("cuCtxSynchronize", s.CtxSynchronize(s.at))
		return uint64(p), func() { s.MemFree(s.at, p) }
	}
	event := func(flags uint32) maker {
		return func(s *setting) (uint64, func()) {
			e := made[driver.Event](s, "cuEventCreate")(s.EventCreate(s.at, flags))
			s.must("cuEventRecord", s.EventRecord(s.at, e, s.stream()))
			s.must("cuEventSynchronize", s.EventSynchronize(s.at, e))
			return uint64(e), func() { s.EventDestroy(s.at, e) }
		}
	}
	stream := func(s *setting) (uint64, func()) {
		h := made[driver.Stream](s, "cuStreamCreate")(s.StreamCreate(s.at, driver.CU_STREAM_NON_BLOCKING))
		return uint64(h), func() { s.StreamDestroy(s.at, h) }
	}
	green := func(s *setting) (uint64, func()) {
		d, _ := makers["desc"](s)
		g := made[driver.GreenCtx](s, "cuGreenCtxCreate")(s.GreenCtxCreate(s.at, driver.DevResourceDesc(d), s.dev,
			driver.CU_GREEN_CTX_DEFAULT_STREAM))
		return uint64(g), func() { s.GreenCtxDestroy(s.at, g) }
	}
	user := func(s *setting) (uint64, func()) {
		o := made[driver.UserObject](s, "cuUserObjectCreate")(s.UserObjectCreate(s.at,
			driver.Callback{Addr: uintptr(s.idle)}, 1, driver.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))
		return uint64(o), func() { s.UserObjectRelease(s.at, o, 1) }
	}
	makers = map[string]maker{
		"ctx": func(s *setting) (uint64, func()) {
			return uint64(s.ctx), nil
		},
		"other": func(s *setting) (uint64, func()) {
			h, err := s.stage.home(second)
			if err != nil {
				s.errs = append(s.errs, err)
				return 0, nil
			}
			s.must("cuCtxSetCurrent", s.CtxSetCurrent(s.at, s.ctx))
			return uint64(h.ctx), nil
		},
		"stream": stream,
		"begin": func(s *setting) (uint64, func()) {
			h, destroy := stream(s)
			s.after = append(s.after, func() { s.StreamEndCapture(s.at, driver.Stream(h)) })
			return h, destroy
		},
		"capturing": func(s *setting) (uint64, func()) {
			h, destroy := stream(s)
			s.must("cuStreamBeginCapture", s.StreamBeginCapture(s.at, driver.Stream(h), relaxed))
			s.after = append(s.after, func() { s.StreamEndCapture(s.at, driver.Stream(h)) })
			return h, func() { s.StreamEndCapture(s.at, driver.Stream(h)); destroy() }
		},
		"event":       event(0),
		"sharedevent": event(driver.CU_EVENT_INTERPROCESS | driver.CU_EVENT_DISABLE_TIMING),
		"graph": func(s *setting) (uint64, func()) {
			if g := s.ours(); s.reusable["taken"] == 0 {
				s.reusable["taken"] = 1
				return uint64(g), func() { s.GraphDestroy(s.at, g) }
			}
			return graph(s)
		},
		"child": graph,
		"graphofnodes": func(s *setting) (uint64, func()) {
			g := s.ours()
			makers["node.second"](s)
			return uint64(g), func() { s.GraphDestroy(s.at, g) }
		},
		"clone": func(s *setting) (uint64, func()) {
			g := made[driver.Graph](s, "cuGraphClone")(s.GraphClone(s.at, s.ours()))
			return uint64(g), func() { s.GraphDestroy(s.at, g) }
		},
		"exec": func(s *setting) (uint64, func()) {
			x := made[driver.GraphExec](s, "cuGraphInstantiateWithFlags")(s.GraphInstantiateWithFlags(s.at, s.ours(), 0))
			return uint64(x), func() { s.GraphExecDestroy(s.at, x) }
		},
		"node.kernel": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			return s.GraphAddKernelNode(s.at, g, nil, s.kernelParams())
		}),
		"node.first": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			n, r := s.GraphAddKernelNode(s.at, g, nil, s.kernelParams())
			s.must("cuGraphAddKernelNode", r)
			_, r = s.GraphAddEmptyNode(s.at, g, []driver.GraphNode{n})
			return n, r
		}),
		"node.second": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			n, r := s.GraphAddEmptyNode(s.at, g, nil)
			s.must("cuGraphAddEmptyNode", r)
			return s.GraphAddEmptyNode(s.at, g, []driver.GraphNode{n})
		}),
		"node.copy": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			return s.GraphAddMemcpyNode(s.at, g, nil, s.copy3D(), s.ctx)
		}),
		"node.set": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			return s.GraphAddMemsetNode(s.at, g, nil, s.setParams(), s.ctx)
		}),
		"node.host": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			return s.GraphAddHostNode(s.at, g, nil, driver.Callback{Addr: uintptr(s.idle)})
		}),
		"node.child": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			c, _ := graph(s)
			return s.GraphAddChildGraphNode(s.at, g, nil, driver.Graph(c))
		}),
		"node.record": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			return s.GraphAddEventRecordNode(s.at, g, nil, s.event())
		}),
		"node.wait": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			return s.GraphAddEventWaitNode(s.at, g, nil, s.event())
		}),
		"node.ops": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			return s.GraphAddBatchMemOpNode(s.at, g, nil, s.operations())
		}),
		"node.signal": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			return s.GraphAddExternalSemaphoresSignalNode(s.at, g, nil, s.signals())
		}),
		"node.await": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			return s.GraphAddExternalSemaphoresWaitNode(s.at, g, nil, s.awaits())
		}),
		"node.alloc": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			n, p, r := s.GraphAddMemAllocNode(s.at, g, nil, s.allocParams())
			s.reusable["allocated"], s.reusable["allocation"] = uint64(p.Dptr), uint64(n)
			return n, r
		}),
		"node.free": node(func(s *setting, g driver.Graph) (driver.GraphNode, R) {
			n, p, r := s.GraphAddMemAllocNode(s.at, g, nil, s.allocParams())
			s.must("cuGraphAddMemAllocNode", r)
			return s.GraphAddMemFreeNode(s.at, g, []driver.GraphNode{n}, p.Dptr)
		}),
		"allocated": func(s *setting) (uint64, func()) { // a node allocates it, which an input has added
			return s.reused("allocated", func() uint64 { makers["node.alloc"](s); return s.reusable["allocated"] }), nil
		},
		"user": user,
		"owned": func(s *setting) (uint64, func()) {
			o, _ := user(s)
			s.must("cuGraphRetainUserObject", s.GraphRetainUserObject(s.at, s.ours(), driver.UserObject(o), 1, 0))
			return o, nil
		},
		"module":   func(s *setting) (uint64, func()) { m, unload := module(s); return uint64(m), unload },
		"function": function,
		"shaped": func(s *setting) (uint64, func()) {
			f, unload := function(s)
			s.must("cuFuncSetBlockShape", s.FuncSetBlockShape(s.at, driver.Function(f), 1, 1, 1))
			s.must("cuParamSetSize", s.ParamSetSize(s.at, driver.Function(f), 8))
			return f, unload
		},
		"library": func(s *setting) (uint64, func()) { l, unload := library(s); return uint64(l), unload },
		"kernel": func(s *setting) (uint64, func()) {
			l, unload := library(s)
			return uint64(made[driver.Kernel](s, "cuLibraryGetKernel")(s.LibraryGetKernel(s.at, l, kernelName))), unload
		},
		"linker": func(s *setting) (uint64, func()) {
			l := made[driver.LinkState](s, "cuLinkCreate")(s.LinkCreate(s.at, nil, nil))
			s.must("cuLinkAddData", s.LinkAddData(s.at, l, driver.CU_JIT_INPUT_PTX, []byte(firstInput), "first", nil, nil))
			return uint64(l), func() { s.LinkDestroy(s.at, l) }
		},
		"mem":  mem,
		"mem2": mem,
		"managed": func(s *setting) (uint64, func()) {
			p := made[driver.DevicePtr](s, "cuMemAllocManaged")(s.MemAllocManaged(s.at, 65536, driver.CU_MEM_ATTACH_GLOBAL))
			return uint64(p), func() { s.MemFree(s.at, p) }
		},
		"host": func(s *setting) (uint64, func()) {
			p := made[driver.HostPtr](s, "cuMemHostAlloc")(s.MemHostAlloc(s.at, 4096, 0))
			return uint64(p), func() { s.MemFreeHost(s.at, p) }
		},
		"own": func(s *setting) (uint64, func()) { return uint64(s.page()), nil },
		"registered": func(s *setting) (uint64, func()) {
			p := s.page()
			s.must("cuMemHostRegister", s.MemHostRegister(s.at, p, 4096, 0))
			return uint64(p), func() { s.MemHostUnregister(s.at, p) }
		},
		"pool":       pool(0),
		"sharedpool": pool(byFile),
		"defaultpool": func(s *setting) (uint64, func()) {
			return uint64(made[driver.MemoryPool](s, "cuDeviceGetDefaultMemPool")(s.DeviceGetDefaultMemPool(s.at, s.dev))), nil
		},
		"sharedblock": func(s *setting) (uint64, func()) {
			p := made[driver.DevicePtr](s, "cuMemAllocFromPoolAsync")(s.MemAllocFromPoolAsync(s.at, 256,
				driver.MemoryPool(s.common("sharedpool")), s.stream()))
			s.must("cuStreamSynchronize", s.StreamSynchronize(s.at, s.stream()))
			return uint64(p), func() { s.MemFree(s.at, p) }
		},
		"poolfile": func(s *setting) (uint64, func()) {
			p, _ := makers["sharedpool"](s)
			e, r := s.MemPoolExportToShareableHandle(s.at, driver.MemoryPool(p), byFile, 0)
			s.must("cuMemPoolExportToShareableHandle", r)
			fd := e.FD()
			return uint64(fd), nil
		},
		"file":     func(s *setting) (uint64, func()) { return s.exported(), nil },
		"physical": physical(0),
		"shared":   physical(byFile),
		"reserved": func(s *setting) (uint64, func()) { p, free := s.addresses(); return uint64(p), free },
		"mapped": func(s *setting) (uint64, func()) {
			p, free := s.addresses()
			h, release := physical(0)(s)
			s.must("cuMemMap", s.MemMap(s.at, p, pages, 0, driver.MemGenericAllocationHandle(h), 0))
			s.must("cuMemSetAccess", s.MemSetAccess(s.at, p, pages, []driver.MemAccessDesc{s.access()}))
			return uint64(p), func() { s.MemUnmap(s.at, p, pages); free(); release() }
		},
		"desc": func(s *setting) (uint64, func()) {
			return uint64(made[driver.DevResourceDesc](s, "cuDevResourceGenerateDesc")(s.DevResourceGenerateDesc(s.at,
				[]driver.DevResource{*s.multiprocessors()}))), nil
		},
		"green": green,
		"extmem": func(s *setting) (uint64, func()) {
			d := s.memoryDesc()
			m := made[driver.ExternalMemory](s, "cuImportExternalMemory")(s.ImportExternalMemory(s.at, *d))
			return uint64(m), func() { s.DestroyExternalMemory(s.at, m) }
		},
		"extsem": func(s *setting) (uint64, func()) {
			d := s.semaphoreDesc()
			m := made[driver.ExternalSemaphore](s, "cuImportExternalSemaphore")(s.ImportExternalSemaphore(s.at, *d))
			return uint64(m), func() { s.DestroyExternalSemaphore(s.at, m) }
		},
	}
}
