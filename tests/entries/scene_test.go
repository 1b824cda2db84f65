package entries

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// kind says what a scene captures.
type kind uint8

const (
	nothing       kind = iota // no stream is being captured
	fromBlocking              // a blocking stream, which a non-blocking one has joined
	fromOther                 // a non-blocking stream, which a blocking one has joined
	fromPerThread             // the default stream of the capturing thread
	two                       // like fromBlocking, and a second thread captures a stream
	poisoned                  // like fromOther; then a kernel wrote to an illegal address
	kinds
)

func (k kind) String() string {
	return [...]string{"nothing", "blocking", "nonblocking", "perthread", "two", "poisoned"}[k]
}

// scene is a situation: what is being captured, and whether the capture is invalidated.
type scene struct {
	kind        kind
	invalidated bool
	objects     objects // of the calls of a poisoned scene
}

func (s scene) String() string {
	if s.invalidated {
		return s.kind.String() + "-invalidated"
	}
	return s.kind.String()
}

func scenes() []scene {
	list := []scene{{kind: nothing}}
	for k := fromBlocking; k < poisoned; k++ {
		list = append(list, scene{kind: k}, scene{kind: k, invalidated: true})
	}
	// What cannot be built for some calls must not keep others from being made.
	for _, c := range calls() {
		if sc := (scene{kind: poisoned, objects: c.needs}); !slices.Contains(list, sc) {
			list = append(list, sc)
		}
	}
	return list
}

// few reports whether the scene is one of the few in which some calls are made.
func (s scene) few() bool { return s.kind == nothing || s.kind == fromBlocking || s.kind == poisoned }

// A view says who makes the call, and in which mode the capture is.
type view struct {
	capture int32 // the capture's mode
	other   bool  // the caller is not the thread that captures
	mode    int32 // the caller's mode
}

func (v view) String() string {
	who := "same"
	if v.other {
		who = "other"
	}
	return fmt.Sprintf("%c/%s/%c", "gtr"[v.capture], who, "gtr"[v.mode])
}

// views returns all views, in the order of a row's cells.
func (s scene) views() []view {
	var list []view
	for c := range int32(3) {
		for _, other := range []bool{false, true} {
			for m := range int32(3) {
				list = append(list, view{c, other, m})
			}
		}
	}
	switch s.kind {
	case nothing:
		return list[:3]
	case poisoned:
		return []view{list[0], list[3]} // the capturing thread and another
	}
	return list
}

// streamOperand is a stream argument of a call.
type streamOperand uint8

const (
	noStream streamOperand = iota
	legacy
	perThread
	origin      // of the capture
	joined      // has joined the capture
	elsewhere   // is captured by the second thread
	blocking    // is not being captured
	nonBlocking // is not being captured
	streamOperands
)

func (s streamOperand) String() string {
	return [...]string{"-", "legacy", "perthread", "origin", "joined", "elsewhere", "blocking", "nonblocking"}[s]
}

// eventOperand is an event argument of a call.
type eventOperand uint8

const (
	noEvent eventOperand = iota
	empty
	complete
	pending
	captured
	capturedElsewhere // by the second thread
	invalid
	interprocess // never recorded
	eventOperands
)

func (e eventOperand) String() string {
	return [...]string{"-", "empty", "complete", "pending", "captured", "elsewhere", "invalid", "interprocess"}[e]
}

// has reports whether the scene has the operands.
func (s scene) has(st streamOperand, e eventOperand) bool {
	switch st {
	case origin, joined:
		if s.kind == nothing {
			return false
		}
	case elsewhere:
		if s.kind != two {
			return false
		}
	}
	switch e {
	case pending:
		return s.kind != poisoned
	case captured:
		return s.kind != nothing
	case capturedElsewhere:
		return s.kind == two
	}
	return true
}

// subject is one call, with its operands.
type subject struct {
	call   call
	stream streamOperand
	event  eventOperand
}

// subjects returns all calls in a scene.
func (s scene) subjects() []subject {
	var list []subject
	for _, c := range calls() {
		if c.few && !s.few() || s.kind == poisoned && c.needs != s.objects {
			continue
		}
		streams, events := []streamOperand{noStream}, []eventOperand{noEvent}
		if c.stream {
			streams = nil
			for st := legacy; st < streamOperands; st++ {
				streams = append(streams, st)
			}
		}
		if c.event {
			events = nil
			for e := empty; e < eventOperands; e++ {
				events = append(events, e)
			}
		}
		for _, st := range streams {
			for _, e := range events {
				switch {
				case !s.has(st, e):
				case c.waits && e == pending: // would wait forever
				case c.own && (st <= perThread || st == origin && s.kind == fromPerThread): // a default stream
				default:
					list = append(list, subject{c, st, e})
				}
			}
		}
	}
	if s.kind == poisoned {
		// All subjects have the same objects.
		slices.SortStableFunc(list, func(a, b subject) int {
			switch {
			case a.call.destroys == b.call.destroys:
				return 0
			case a.call.destroys:
				return 1
			}
			return -1
		})
	}
	return list
}

// key names a call in a scene.
func (s scene) key(sub subject) string {
	return fmt.Sprintf("%v\t%s\t%v/%v", s, sub.call.name, sub.stream, sub.event)
}

// call is a function with one set of arguments besides the operands.
type call struct {
	name          string
	stream, event bool // the operands that it takes
	waits         bool // waits for its operands
	own           bool // needs a stream other than a default stream
	destroys      bool // destroys its operand
	few           bool // made only in some scenes, see scene.few
	refused       bool // in every scene
	needs         objects
	make          func(w *world, at driver.At, s driver.Stream, e driver.Event) driver.Result
}

func calls() []call {
	return slices.Concat(captureCalls(),
		nodeCalls(), memoryNodeCalls(), semaphoreCalls(),
		poolCalls(),
		copyCalls(), registeredCalls(), managedCalls(),
		libraryCalls(), loadedLibraryCalls(), functionCalls(), linkerCalls(),
		virtualCalls(), shareableCalls(), externalCalls(),
		streamCalls(), contextCalls(), userObjectCalls(), dependencyCalls(),
		firstValueCalls(), otherCalls())
}

// captureCalls are calls about streams, events and captures, and some of every other kind.
func captureCalls() []call {
	record := func(flags uint32) func(w W, at A, s S, e E) R {
		return func(w W, at A, s S, e E) R { return w.EventRecordWithFlags(at, e, s, flags) }
	}
	wait := func(flags uint32) func(w W, at A, s S, e E) R {
		return func(w W, at A, s S, e E) R { return w.StreamWaitEvent(at, s, e, flags) }
	}
	begin := func(mode int32) func(w W, at A, s S) R {
		return func(w W, at A, s S) R {
			r := w.StreamBeginCapture(at, s, mode)
			if r == ok {
				w.begun = s
			}
			return r
		}
	}
	beginInto := func(mode int32) func(w W, at A, s S) R {
		return func(w W, at A, s S) R {
			r := w.StreamBeginCaptureToGraph(at, s, w.graph, nil, nil, mode)
			if r == ok {
				w.begun = s
			}
			return r
		}
	}
	return []call{
		onEvent("cuEventQuery", func(w W, at A, e E) R { return w.EventQuery(at, e) }),
		waits(onEvent("cuEventSynchronize", func(w W, at A, e E) R { return w.EventSynchronize(at, e) })),
		destroys(onEvent("cuEventDestroy", func(w W, at A, e E) R {
			r := w.EventDestroy(at, e)
			w.destroyed(uintptr(e))
			return r
		})),
		onEvent("cuEventElapsedTime start", func(w W, at A, e E) R { _, r := w.EventElapsedTime(at, e, w.mark); return r }),
		onEvent("cuEventElapsedTime end", func(w W, at A, e E) R { _, r := w.EventElapsedTime(at, w.mark, e); return r }),
		onEvent("cuEventElapsedTime_v2 start", func(w W, at A, e E) R { _, r := w.EventElapsedTimeV2(at, e, w.mark); return r }),
		onEvent("cuEventElapsedTime_v2 end", func(w W, at A, e E) R { _, r := w.EventElapsedTimeV2(at, w.mark, e); return r }),
		onEvent("cuIpcGetEventHandle", func(w W, at A, e E) R { _, r := w.IpcGetEventHandle(at, e); return r }),
		onEvent("cuCtxRecordEvent", func(w W, at A, e E) R { return w.CtxRecordEvent(at, w.ctx, e) }),
		onEvent("cuCtxWaitEvent", func(w W, at A, e E) R { return w.CtxWaitEvent(at, w.ctx, e) }),
		onEvent("cuGraphAddEventRecordNode", func(w W, at A, e E) R { _, r := w.GraphAddEventRecordNode(at, w.graph, nil, e); return r }),
		onEvent("cuGraphAddEventWaitNode", func(w W, at A, e E) R { _, r := w.GraphAddEventWaitNode(at, w.graph, nil, e); return r }),

		both("cuEventRecord", func(w W, at A, s S, e E) R { return w.EventRecord(at, e, s) }),
		both("cuEventRecordWithFlags default", record(0)),
		both("cuEventRecordWithFlags external", record(driver.CU_EVENT_RECORD_EXTERNAL)),
		both("cuStreamWaitEvent default", wait(0)),
		both("cuStreamWaitEvent external", wait(driver.CU_EVENT_WAIT_EXTERNAL)),

		onStream("cuStreamQuery", func(w W, at A, s S) R { return w.StreamQuery(at, s) }),
		onStream("cuStreamSynchronize", func(w W, at A, s S) R { return w.StreamSynchronize(at, s) }),
		destroys(own(onStream("cuStreamDestroy", func(w W, at A, s S) R {
			r := w.StreamDestroy(at, s)
			w.destroyed(uintptr(s))
			return r
		}))),
		onStream("cuStreamGetCtx", func(w W, at A, s S) R { _, r := w.StreamGetCtx(at, s); return r }),
		onStream("cuStreamGetFlags", func(w W, at A, s S) R { _, r := w.StreamGetFlags(at, s); return r }),
		onStream("cuStreamGetPriority", func(w W, at A, s S) R { _, r := w.StreamGetPriority(at, s); return r }),
		onStream("cuStreamGetId", func(w W, at A, s S) R { _, r := w.StreamGetId(at, s); return r }),
		onStream("cuStreamGetDevice", func(w W, at A, s S) R { _, r := w.StreamGetDevice(at, s); return r }),
		onStream("cuStreamIsCapturing", func(w W, at A, s S) R { _, r := w.StreamIsCapturing(at, s); return r }),
		onStream("cuStreamGetCaptureInfo_v2", func(w W, at A, s S) R { _, _, _, _, _, r := w.StreamGetCaptureInfoV2(at, s); return r }),
		onStream("cuStreamGetCaptureInfo_v3", func(w W, at A, s S) R { _, _, _, _, _, _, r := w.StreamGetCaptureInfoV3(at, s); return r }),
		onStream("cuStreamBeginCapture global", begin(driver.CU_STREAM_CAPTURE_MODE_GLOBAL)),
		onStream("cuStreamBeginCapture thread-local", begin(driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)),
		onStream("cuStreamBeginCapture relaxed", begin(driver.CU_STREAM_CAPTURE_MODE_RELAXED)),
		onStream("cuStreamBeginCapture 3", begin(3)),
		onStream("cuStreamBeginCaptureToGraph global", beginInto(driver.CU_STREAM_CAPTURE_MODE_GLOBAL)),
		onStream("cuStreamBeginCaptureToGraph thread-local", beginInto(driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)),
		onStream("cuStreamBeginCaptureToGraph relaxed", beginInto(driver.CU_STREAM_CAPTURE_MODE_RELAXED)),
		onStream("cuStreamBeginCaptureToGraph 3", beginInto(3)),
		onStream("cuStreamEndCapture", func(w W, at A, s S) R {
			g, r := w.StreamEndCapture(at, s)
			if r == ok {
				w.captured(g)
			}
			return r
		}),
		onStream("cuStreamWaitValue32", func(w W, at A, s S) R {
			return w.StreamWaitValue32(at, s, w.device, 0, driver.CU_STREAM_WAIT_VALUE_GEQ)
		}),
		onStream("cuStreamWriteValue32", func(w W, at A, s S) R { return w.StreamWriteValue32(at, s, w.device+4, 1, 0) }),
		onStream("cuMemsetD8Async", func(w W, at A, s S) R { return w.MemsetD8Async(at, w.memory, 1, 4, s) }),
		onStream("cuMemcpyHtoDAsync", func(w W, at A, s S) R { return w.MemcpyHtoDAsync(at, w.memory, w.page, 4, s) }),
		onStream("cuMemcpyDtoHAsync", func(w W, at A, s S) R { return w.MemcpyDtoHAsync(at, w.page+8, w.memory, 4, s) }),
		onStream("cuMemcpyDtoDAsync", func(w W, at A, s S) R { return w.MemcpyDtoDAsync(at, w.memory, w.memory+8, 4, s) }),
		onStream("cuMemcpyBatchAsync", func(w W, at A, s S) R {
			return w.MemcpyBatchAsync(at, []driver.DevicePtr{w.memory, driver.DevicePtr(w.page + 8)},
				[]driver.DevicePtr{w.memory + 8, w.memory + 16}, []uint64{4, 4}, inOrder, []uint64{0}, s)
		}),
		onStream("cuMemcpy3DBatchAsync", func(w W, at A, s S) R {
			op := driver.Memcpy3DBatchOp{Extent: driver.Extent3D{Width: 4, Height: 1, Depth: 1},
				SrcAccessOrder: driver.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}
			op.Dst.Type, op.Src.Type = driver.CU_MEMCPY_OPERAND_TYPE_POINTER, driver.CU_MEMCPY_OPERAND_TYPE_POINTER
			op.Dst.Op.Ptr().Ptr, op.Src.Op.Ptr().Ptr = w.memory, w.memory+8
			return w.Memcpy3DBatchAsync(at, []driver.Memcpy3DBatchOp{op}, 0, s)
		}),
		onStream("cuMemPrefetchAsync", func(w W, at A, s S) R {
			return w.MemPrefetchAsync(at, w.managed, 4096, onHost, 0, s)
		}),
		onStream("cuMemPrefetchBatchAsync", func(w W, at A, s S) R {
			return w.MemPrefetchBatchAsync(at, []driver.DevicePtr{w.managed}, []uint64{4096}, []driver.MemLocation{onHost},
				[]uint64{0}, 0, s)
		}),
		onStream("cuMemDiscardBatchAsync", func(w W, at A, s S) R {
			return w.MemDiscardBatchAsync(at, []driver.DevicePtr{w.managed}, []uint64{4096}, 0, s)
		}),
		onStream("cuMemDiscardAndPrefetchBatchAsync", func(w W, at A, s S) R {
			return w.MemDiscardAndPrefetchBatchAsync(at, []driver.DevicePtr{w.managed}, []uint64{4096},
				[]driver.MemLocation{onHost}, []uint64{0}, 0, s)
		}),
		onStream("cuLaunchKernel", func(w W, at A, s S) R {
			return w.LaunchKernel(at, w.function, 1, 1, 1, 1, 1, 1, 0, s, driver.KernelParams{})
		}),
		onStream("cuGraphLaunch", func(w W, at A, s S) R { return w.GraphLaunch(at, w.exec, s) }),
		onStream("cuGraphUpload", func(w W, at A, s S) R { return w.GraphUpload(at, w.exec, s) }),

		alone("cuCtxSynchronize", func(w W, at A) R { return w.CtxSynchronize(at) }),
		alone("cuCtxGetCurrent", func(w W, at A) R { _, r := w.CtxGetCurrent(at); return r }),
		alone("cuCtxGetDevice", func(w W, at A) R { _, r := w.CtxGetDevice(at); return r }),
		alone("cuCtxGetId", func(w W, at A) R { _, r := w.CtxGetId(at, w.ctx); return r }),
		alone("cuCtxGetLimit", func(w W, at A) R { _, r := w.CtxGetLimit(at, 0); return r }),
		alone("cuCtxGetStreamPriorityRange", func(w W, at A) R { _, _, r := w.CtxGetStreamPriorityRange(at); return r }),
		alone("cuCtxPushCurrent, cuCtxPopCurrent", func(w W, at A) R {
			if r := w.CtxPushCurrent(at, w.ctx); r != ok {
				return r
			}
			_, r := w.CtxPopCurrent(at)
			return r
		}),
		alone("cuCtxSetCurrent", func(w W, at A) R { return w.CtxSetCurrent(at, w.ctx) }),
		alone("cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease", func(w W, at A) R {
			if _, r := w.DevicePrimaryCtxRetain(at, 0); r != ok {
				return r
			}
			return w.DevicePrimaryCtxRelease(at, 0)
		}),
		alone("cuDevicePrimaryCtxGetState", func(w W, at A) R { _, _, r := w.DevicePrimaryCtxGetState(at, 0); return r }),
		alone("cuThreadExchangeStreamCaptureMode", func(w W, at A) R {
			old, r := w.ThreadExchangeStreamCaptureMode(at, driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
			if r == ok {
				_, r = w.ThreadExchangeStreamCaptureMode(at, old)
			}
			return r
		}),
		alone("cuEventCreate", func(w W, at A) R {
			e, r := w.EventCreate(at, 0)
			return w.later(r, func(at A) R { return w.EventDestroy(at, e) })
		}),
		alone("cuStreamCreate blocking", func(w W, at A) R {
			s, r := w.StreamCreate(at, 0)
			return w.later(r, func(at A) R { return w.StreamDestroy(at, s) })
		}),
		alone("cuStreamCreate non-blocking", func(w W, at A) R {
			s, r := w.StreamCreate(at, driver.CU_STREAM_NON_BLOCKING)
			return w.later(r, func(at A) R { return w.StreamDestroy(at, s) })
		}),
		alone("cuMemAlloc", func(w W, at A) R {
			p, r := w.MemAlloc(at, 16)
			return w.later(r, func(at A) R { return w.MemFree(at, p) })
		}),
		destroys(alone("cuMemFree", func(w W, at A) R { return w.MemFree(at, w.spare) })),
		alone("cuMemAddressReserve", func(w W, at A) R {
			p, r := w.MemAddressReserve(at, pages, 0, 0, 0)
			return w.later(r, func(at A) R { return w.MemAddressFree(at, p, pages) })
		}),
		alone("cuMemCreate", func(w W, at A) R {
			h, r := w.MemCreate(at, pages, physical(), 0)
			return w.later(r, func(at A) R { return w.MemRelease(at, h) })
		}),
		alone("cuMemMap, cuMemSetAccess, cuMemUnmap", func(w W, at A) R { return w.mapped(at) }),
		alone("cuMemHostAlloc", func(w W, at A) R {
			p, r := w.MemHostAlloc(at, 16, 0)
			return w.later(r, func(at A) R { return w.MemFreeHost(at, p) })
		}),
		destroys(alone("cuMemFreeHost", func(w W, at A) R { return w.MemFreeHost(at, w.spareHost) })),
		alone("cuMemHostGetDevicePointer", func(w W, at A) R { _, r := w.MemHostGetDevicePointer(at, w.page, 0); return r }),
		alone("cuMemHostGetFlags", func(w W, at A) R { _, r := w.MemHostGetFlags(at, w.page); return r }),
		alone("cuMemGetInfo", func(w W, at A) R { _, _, r := w.MemGetInfo(at); return r }),
		alone("cuPointerGetAttributes", func(w W, at A) R {
			v := new(uint64)
			return w.PointerGetAttributes(at, []int32{driver.CU_POINTER_ATTRIBUTE_BUFFER_ID},
				[]unsafe.Pointer{unsafe.Pointer(v)}, w.memory)
		}),
		alone("cuPointerGetAttribute", func(w W, at A) R {
			_, r := w.PointerGetAttribute(at, driver.CU_POINTER_ATTRIBUTE_BUFFER_ID, w.memory)
			return r
		}),
		alone("cuCtxGetExecAffinity", func(w W, at A) R { _, r := w.CtxGetExecAffinity(at, 0); return r }),
		alone("cuMemHostRegister", func(w W, at A) R {
			r := w.MemHostRegister(at, w.own, 4096, 0)
			return w.later(r, func(at A) R { return w.MemHostUnregister(at, w.own) })
		}),
		alone("cuMemcpyHtoD", func(w W, at A) R { return w.MemcpyHtoD(at, w.memory, make([]byte, 4)) }),
		alone("cuMemcpyDtoH", func(w W, at A) R { return w.MemcpyDtoH(at, make([]byte, 4), w.memory) }),
		alone("cuMemcpyDtoD", func(w W, at A) R { return w.MemcpyDtoD(at, w.memory, w.memory+8, 4) }),
		alone("cuMemsetD8", func(w W, at A) R { return w.MemsetD8(at, w.memory, 1, 4) }),
		alone("cuModuleLoadData", func(w W, at A) R {
			m, r := w.ModuleLoadData(at, image())
			return w.later(r, func(at A) R { return w.ModuleUnload(at, m) })
		}),
		destroys(alone("cuModuleUnload", func(w W, at A) R {
			r := w.ModuleUnload(at, w.spareModule)
			if r == ok {
				w.spareModule = 0
			}
			return r
		})),
		alone("cuModuleGetFunction", func(w W, at A) R { _, r := w.ModuleGetFunction(at, w.module, kernelName); return r }),
		alone("cuFuncGetAttribute", func(w W, at A) R { _, r := w.FuncGetAttribute(at, 0, w.function); return r }),
		alone("cuOccupancyMaxActiveBlocksPerMultiprocessor", func(w W, at A) R {
			_, r := w.OccupancyMaxActiveBlocksPerMultiprocessor(at, w.function, 32, 0)
			return r
		}),
		alone("cuLibraryLoadData", func(w W, at A) R {
			l, r := w.LibraryLoadData(at, image(), nil, nil, nil, nil)
			return w.later(r, func(at A) R { return w.LibraryUnload(at, l) })
		}),
		destroys(alone("cuLibraryUnload", func(w W, at A) R {
			r := w.LibraryUnload(at, w.library)
			if r == ok {
				w.library = 0
			}
			return r
		})),
		alone("cuLibraryGetKernel", func(w W, at A) R {
			_, r := w.LibraryGetKernel(at, w.library, kernelName)
			return r
		}),
		alone("cuLibraryGetModule", func(w W, at A) R { _, r := w.LibraryGetModule(at, w.library); return r }),
		alone("cuKernelGetFunction", func(w W, at A) R { _, r := w.KernelGetFunction(at, w.kernel); return r }),
		alone("cuKernelGetAttribute", func(w W, at A) R { _, r := w.KernelGetAttribute(at, 0, w.kernel, 0); return r }),
		alone("cuGraphCreate", func(w W, at A) R {
			g, r := w.GraphCreate(at, 0)
			return w.later(r, func(at A) R { return w.GraphDestroy(at, g) })
		}),
		alone("cuGraphClone", func(w W, at A) R {
			g, r := w.GraphClone(at, w.graph)
			return w.later(r, func(at A) R { return w.GraphDestroy(at, g) })
		}),
		alone("cuGraphAddEmptyNode", func(w W, at A) R { _, r := w.GraphAddEmptyNode(at, w.graph, nil); return r }),
		alone("cuGraphAddKernelNode", func(w W, at A) R {
			_, r := w.GraphAddKernelNode(at, w.graph, nil, &driver.KernelNodeParams{
				Func: w.function, GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1,
			})
			return r
		}),
		alone("cuGraphAddMemcpyNode", func(w W, at A) R {
			_, r := w.GraphAddMemcpyNode(at, w.graph, nil, &driver.Memcpy3D{
				SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: w.device, SrcPitch: 4, SrcHeight: 1,
				DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: w.device + 4, DstPitch: 4, DstHeight: 1,
				WidthInBytes: 4, Height: 1, Depth: 1,
			}, w.ctx)
			return r
		}),
		alone("cuGraphAddMemsetNode", func(w W, at A) R {
			_, r := w.GraphAddMemsetNode(at, w.graph, nil,
				&driver.MemsetNodeParams{Dst: w.device, ElementSize: 1, Width: 4, Height: 1}, w.ctx)
			return r
		}),
		alone("cuGraphAddMemAllocNode", func(w W, at A) R {
			g, r := w.GraphCreate(at, 0)
			w.must("cuGraphCreate", r)
			p := driver.MemAllocNodeParams{Bytesize: 64, PoolProps: driver.MemPoolProps{
				AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
				Location:  driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}}}
			_, _, r = w.GraphAddMemAllocNode(at, g, nil, p)
			w.must("cuGraphDestroy", w.GraphDestroy(at, g))
			return r
		}),
		alone("cuDeviceGetGraphMemAttribute", func(w W, at A) R {
			_, r := w.DeviceGetGraphMemAttribute(at, 0, driver.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)
			return r
		}),
		alone("cuDeviceGraphMemTrim", func(w W, at A) R { return w.DeviceGraphMemTrim(at, 0) }),
		alone("cuGraphDestroyNode", func(w W, at A) R {
			n, r := w.GraphAddEmptyNode(at, w.graph, nil)
			w.must("cuGraphAddEmptyNode", r)
			return w.GraphDestroyNode(at, n)
		}),
		alone("cuGraphInstantiateWithParams", func(w W, at A) R {
			x, _, r := w.GraphInstantiateWithParams(at, w.graph, driver.GraphInstantiateParams{})
			return w.later(r, func(at A) R { return w.GraphExecDestroy(at, x) })
		}),
		alone("cuGraphGetEdges", func(w W, at A) R { _, r := w.GraphGetEdges(at, w.graph, nil, nil); return r }),
		alone("cuGraphExecUpdate", func(w W, at A) R { _, _, r := w.GraphExecUpdate(at, w.exec, w.graph); return r }),
		alone("cuGraphInstantiateWithFlags", func(w W, at A) R {
			x, r := w.GraphInstantiateWithFlags(at, w.graph, 0)
			return w.later(r, func(at A) R { return w.GraphExecDestroy(at, x) })
		}),
		destroys(alone("cuGraphExecDestroy", func(w W, at A) R {
			r := w.GraphExecDestroy(at, w.exec)
			w.exec = 0
			return r
		})),
	}
}

// inOrder are the attributes of copies in the order of a stream.
var inOrder = []driver.MemcpyAttributes{{SrcAccessOrder: driver.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}}

// onHost is where managed memory is prefetched to.
var onHost = driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_HOST}

// kernelName is the name of an empty kernel.
const kernelName = "nothing"

// poisonName is the name of a kernel that writes to an illegal address.
const poisonName = "illegal_address"

func image() []byte {
	return []byte(`.version 6.0
.target sm_50
.address_size 64
.visible .entry ` + kernelName + `() { ret; }
.visible .entry ` + poisonName + `()
{
	.reg .u64 %where;
	mov.u64 %where, 16;
	st.global.u32 [%where], 1;
	ret;
}
` + "\x00")
}
