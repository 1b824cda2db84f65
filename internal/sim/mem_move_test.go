package sim

import (
	"bytes"
	"cmp"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/engine"
)

// slowMoves makes all moves of many bytes wait until goOn is called. begun waits until one has begun.
func (r *lab) slowMoves() (begun, goOn func()) {
	r.t.Helper()
	first, wait := make(chan struct{}, 100), make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine.BeforeMove = func() {
		first <- struct{}{}
		<-wait
	}
	return func() {
		for range 10_000 {
			select {
			case <-first:
				return
			case <-time.After(time.Millisecond):
				_ = r.Census() // any call begins the work that is due
			}
		}
		r.t.Error("no bytes are moved")
	}, func() { close(wait) }
}

// meanwhile makes a call that moves many bytes, and calls on another thread and another stream while they are moved. It
// returns when all bytes are moved.
func (r *lab) meanwhile(call func() driver.Result) {
	r.t.Helper()
	th, other, small := r.otherThread(), r.newStream(), r.alloc("small")
	begun, goOn := r.slowMoves()
	done := make(chan driver.Result)
	go func() { done <- call() }()
	begun()
	r.want("the query of another stream", ok, r.StreamQuery(th, other))
	r.must(r.MemsetD8Async(th, small, 'S', 1, other))
	r.must(r.StreamSynchronize(th, other))
	q, res := r.MemAlloc(th, 64)
	r.must(res)
	_, _, res = r.MemGetInfo(th)
	r.must(res)
	r.spin(other, time.Microsecond)
	r.must(r.StreamSynchronize(th, other))
	free := make(chan driver.Result)
	go func() { free <- r.MemFree(th, q) }() // waits for all work of the context
	goOn()
	r.must(<-done)
	r.must(<-free)
	r.must(r.CtxSynchronize(r.th))
	if got := r.read(small, 5); got != "Small" {
		r.t.Errorf("the other memory has %q", got)
	}
}

// TestMovesUnlocked makes calls while another one moves many bytes.
func TestMovesUnlocked(t *testing.T) {
	const n = 1 << 20
	for name, enqueue := range map[string]func(r *lab, p driver.DevicePtr, s driver.Stream) driver.Result{
		"a set": func(r *lab, p driver.DevicePtr, s driver.Stream) driver.Result {
			return r.MemsetD8Async(r.th, p, 'x', n, s)
		},
		"a set of words": func(r *lab, p driver.DevicePtr, s driver.Stream) driver.Result {
			return r.MemsetD32Async(r.th, p, 0x78787878, n/4, s)
		},
		"a set of rows": func(r *lab, p driver.DevicePtr, s driver.Stream) driver.Result {
			return r.MemsetD2D8Async(r.th, p, 1024, 'x', 1024, n/1024, s)
		},
		"a set that waits": func(r *lab, p driver.DevicePtr, _ driver.Stream) driver.Result {
			return r.MemsetD8(r.th, p, 'x', n)
		},
		"a copy from the host": func(r *lab, p driver.DevicePtr, _ driver.Stream) driver.Result {
			return r.MemcpyHtoD(r.th, p, bytes.Repeat([]byte{'x'}, n))
		},
		"a copy of memory that is not pinned": func(r *lab, p driver.DevicePtr, s driver.Stream) driver.Result {
			b := bytes.Repeat([]byte{'x'}, n)
			res := r.MemcpyHtoDAsync(r.th, p, driver.HostPtr(sliceAddress(b)), n, s)
			clear(b) // the copy has taken what was there
			return res
		},
		"a copy of rows": func(r *lab, p driver.DevicePtr, s driver.Stream) driver.Result {
			r.must(r.MemsetD8(r.th, p+n, 'x', 8<<10))
			return r.Memcpy2DAsync(r.th, driver.Memcpy2D{DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: p,
				DstPitch: 1024, SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: p + n, SrcPitch: 1024,
				WidthInBytes: 1000, Height: n / 1024}, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			s := r.newStream()
			p, res := r.MemAlloc(r.th, 2*n)
			r.must(res)
			r.meanwhile(func() driver.Result { return enqueue(r, p, s) })
			if got := r.read(p, 1000) + r.read(p+8<<10-24-1000, 1000); name != "a copy of rows" &&
				got != string(bytes.Repeat([]byte{'x'}, 2000)) || got[:1000] != string(bytes.Repeat([]byte{'x'}, 1000)) {
				t.Errorf("the memory has %q", got)
			}
			r.must(r.MemFree(r.th, p))
		})
	}
}

// TestCopiesUnlocked is TestMovesUnlocked for copies between all kinds of memory, and for nodes of graphs. In each
// one the first bytes are "marker".
func TestCopiesUnlocked(t *testing.T) {
	const n = 1 << 20
	rows := func(p, q driver.DevicePtr) driver.Memcpy3D {
		return driver.Memcpy3D{DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: p, DstPitch: 1024, DstHeight: 32,
			SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: q, SrcPitch: 1024, SrcHeight: 32, WidthInBytes: 1000,
			Height: 30, Depth: 32}
	}
	launch := func(r *lab, s driver.Stream, add func(g driver.Graph) driver.Result) driver.Result {
		g, res := r.GraphCreate(r.th, 0)
		r.must(res)
		r.must(add(g))
		x, res := r.GraphInstantiateWithFlags(r.th, g, 0)
		r.must(res)
		r.t.Cleanup(func() { r.must(cmp.Or(r.GraphExecDestroy(r.th, x), r.GraphDestroy(r.th, g))) })
		return r.GraphLaunch(r.th, x, s)
	}
	for name, call := range map[string]func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result{
		"to the host": func(r *lab, p, q driver.DevicePtr, _ driver.Stream) driver.Result {
			b := make([]byte, n)
			res := r.MemcpyDtoH(r.th, b, q)
			return cmp.Or(res, r.MemcpyHtoD(r.th, p, b))
		},
		"to pinned memory and back": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			_, h := r.pinned(string(make([]byte, n)))
			return cmp.Or(r.MemcpyDtoHAsync(r.th, h, q, n, s), r.MemcpyHtoDAsync(r.th, p, h, n, s))
		},
		"within the device": func(r *lab, p, q driver.DevicePtr, _ driver.Stream) driver.Result {
			return r.MemcpyDtoD(r.th, p, q, n)
		},
		"in a stream": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			return r.MemcpyDtoDAsync(r.th, p, q, n, s)
		},
		"between addresses": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			return r.MemcpyAsync(r.th, p, q, n, s)
		},
		"between contexts": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			return r.MemcpyPeerAsync(r.th, p, r.ctx, q, r.ctx, n, s)
		},
		"to another device and back": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			c, th := r.primary(1), new(driver.Thread)
			r.t.Cleanup(func() { r.must(r.DevicePrimaryCtxRelease(nil, 1)) }) // frees the memory
			r.must(r.CtxSetCurrent(th, c))
			far, res := r.MemAlloc(th, n)
			return cmp.Or(res, r.MemcpyPeerAsync(r.th, far, c, q, r.ctx, n, s), r.MemcpyPeerAsync(r.th, p, r.ctx, far, c, n, s))
		},
		"of planes": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			return r.Memcpy3DAsync(r.th, rows(p, q), s)
		},
		"through memory of a pool": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			pooled, res := r.MemAllocAsync(r.th, n, s)
			return cmp.Or(res, r.MemcpyDtoDAsync(r.th, pooled, q, n, s), r.MemcpyDtoDAsync(r.th, p, pooled, n, s),
				r.MemFreeAsync(r.th, pooled, s))
		},
		"through managed memory": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			m, res := r.MemAllocManaged(r.th, n, driver.CU_MEM_ATTACH_GLOBAL)
			r.t.Cleanup(func() { r.must(r.MemFree(r.th, m)) })
			return cmp.Or(res, r.MemPrefetchAsync(r.th, m, n, driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}, 0, s),
				r.MemcpyDtoDAsync(r.th, m, q, n, s), r.MemcpyDtoDAsync(r.th, p, m, n, s))
		},
		"through memory in two mappings": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			m := r.addresses(2 * granularity)
			for _, at := range []driver.DevicePtr{m, m + granularity} {
				h := r.physical(granularity)
				r.must(cmp.Or(r.MemMap(r.th, at, granularity, 0, h, 0), r.MemRelease(r.th, h)))
			}
			r.must(r.access(m, 2*granularity, driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
			m += granularity - n/2
			return cmp.Or(r.MemcpyDtoDAsync(r.th, m, q, n, s), r.MemcpyDtoDAsync(r.th, p, m, n, s))
		},
		"in a graph": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			return launch(r, s, func(g driver.Graph) driver.Result {
				c := rows(p, q)
				_, res := r.GraphAddMemcpyNode(r.th, g, nil, &c, r.ctx)
				return res
			})
		},
		"behind a set in a graph": func(r *lab, p, q driver.DevicePtr, s driver.Stream) driver.Result {
			return launch(r, s, func(g driver.Graph) driver.Result {
				set, res := r.GraphAddMemsetNode(r.th, g, nil, &driver.MemsetNodeParams{Dst: p, ElementSize: 1, Width: n,
					Height: 1, Value: 'x'}, r.ctx)
				c := rows(p, q)
				_, res2 := r.GraphAddMemcpyNode(r.th, g, []driver.GraphNode{set}, &c, r.ctx)
				return cmp.Or(res, res2)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, Devices(2))
			p, res := r.MemAlloc(r.th, n)
			r.must(res)
			q, res := r.MemAlloc(r.th, n)
			r.must(res)
			r.must(r.MemcpyHtoD(r.th, q, []byte("marker")))
			s := r.newStream()
			r.meanwhile(func() driver.Result { return call(r, p, q, s) })
			r.must(r.StreamSynchronize(r.th, s))
			if got := r.read(p, 6); got != "marker" {
				t.Errorf("the memory has %q", got)
			}
			r.must(cmp.Or(r.MemFree(r.th, p), r.MemFree(r.th, q)))
		})
	}
}

// TestMoveOfMemoryThatEnds moves bytes of memory that ends meanwhile: it is unmapped, its pool is gone, its context is
// destroyed, or there is a sticky error.
func TestMoveOfMemoryThatEnds(t *testing.T) {
	const n = 4 << 20
	t.Run("unmapped", func(t *testing.T) {
		r := newLab(t)
		s, p := r.newStream(), r.addresses(n)
		h := r.physical(n)
		r.must(r.MemMap(r.th, p, n, 0, h, 0))
		r.must(r.MemRelease(r.th, h))
		r.must(r.access(p, n, driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
		begun, goOn := r.slowMoves()
		r.must(r.MemsetD8Async(r.th, p, 1, n, s))
		begun()
		r.must(r.MemUnmap(r.th, p, n))
		if r.space.budget.Used() == 0 {
			t.Error("the memory is given back while it is used")
		}
		goOn()
		r.must(r.StreamSynchronize(r.th, s))
	})
	t.Run("a pool", func(t *testing.T) {
		r := newLab(t)
		s := r.newStream()
		p, res := r.MemAllocAsync(r.th, n, s)
		r.must(res)
		begun, goOn := r.slowMoves()
		r.must(r.MemsetD8Async(r.th, p, 1, n, s))
		begun()
		r.must(r.MemFree(r.th, p)) // does not wait
		pool, res := r.DeviceGetDefaultMemPool(r.th, 0)
		r.must(res)
		r.must(r.MemPoolTrimTo(r.th, pool, 0))
		if r.space.budget.Used() == 0 {
			t.Error("the memory is given back while it is used")
		}
		goOn()
		r.must(r.StreamSynchronize(r.th, s))
	})
	for name, end := range map[string]func(r *lab, c driver.Context){
		"a sticky error": func(r *lab, _ driver.Context) { r.Poison(int(driver.ResultLaunchFailed)) },
		"the context":    func(r *lab, c driver.Context) { r.must(r.CtxDestroy(new(driver.Thread), c)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			c, res := r.CtxCreate(r.th, nil, 0, 0)
			r.must(res)
			s, res := r.StreamCreate(r.th, 0)
			r.must(res)
			p, res := r.MemAlloc(r.th, n)
			r.must(res)
			begun, goOn := r.slowMoves()
			r.must(r.MemsetD8Async(r.th, p, 1, n, s))
			begun()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				end(r, c)
			}()
			goOn()
			<-ended
			if name == "a sticky error" {
				r.want("a wait", driver.ResultLaunchFailed, r.CtxSynchronize(r.th))
				r.must(r.CtxDestroy(r.th, c))
			}
			if n := r.backed(); n != 0 {
				t.Errorf("%d bytes are in use", n)
			}
		})
	}
}

// TestMovesInVirtualTime moves many bytes in virtual time: after Advance, all is moved that has to be.
func TestMovesInVirtualTime(t *testing.T) {
	r := newLab(t, VirtualTime())
	const n = 1 << 20
	s := r.newStream()
	p, res := r.MemAlloc(r.th, n)
	r.must(res)
	b, host := r.pinned(string(make([]byte, n)))
	r.mu.Lock()
	r.engine.BeforeMove = func() { time.Sleep(10 * time.Millisecond) }
	r.mu.Unlock()
	begin := r.engine.Clock.At()
	r.must(r.MemsetD8Async(r.th, p, 'a', n, s))
	r.must(r.MemcpyDtoHAsync(r.th, host, p, n, s))
	r.Advance(time.Duration(duration(n, deviceBlock)))
	r.want("before the copy", driver.ResultNotReady, r.StreamQuery(r.th, s))
	if b[0] != 0 {
		t.Error("the copy is made too early")
	}
	r.Advance(time.Duration(duration(n, pinnedBlock)) - 1)
	r.want("shortly before its end", driver.ResultNotReady, r.StreamQuery(r.th, s))
	r.Advance(1)
	r.must(r.StreamQuery(r.th, s))
	if b[0] != 'a' || b[n-1] != 'a' {
		t.Errorf("the copy has %q and %q", b[0], b[n-1])
	}
	if took := r.engine.Clock.At() - begin; took != duration(n, deviceBlock)+duration(n, pinnedBlock) {
		t.Errorf("it took %v", time.Duration(took))
	}
	r.must(r.MemsetD8(r.th, p, 'b', n)) // takes no time
	r.must(r.StreamQuery(r.th, driver.CU_STREAM_LEGACY))
	r.Hold(uintptr(s))
	r.must(r.MemsetD8Async(r.th, p, 'c', n, s))
	r.Finish()
	r.must(r.StreamQuery(r.th, s))
	if got := r.read(p, 1); got != "c" {
		t.Errorf("at the end it has %q", got)
	}
	r.must(r.MemFree(r.th, p))
}

// TestFinishMoves ends the work of a stream by the clock of the machine: a kernel behind a slow copy ends by itself.
func TestFinishMoves(t *testing.T) {
	r := newLab(t)
	f, res := r.ModuleGetFunction(r.th, r.load(storeText), "store")
	r.must(res)
	s := r.newStream()
	p, res := r.MemAlloc(r.th, 1<<20)
	r.must(res)
	begun, goOn := r.slowMoves()
	r.must(r.MemsetD8Async(r.th, p, 1, 1<<20, s))
	r.must(r.launchOn(s, f, 1, params(p, uint32(7))))
	begun()
	time.AfterFunc(100*time.Millisecond, goOn)
	r.Finish()
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.read(p, 5); got != "\x07\x00\x00\x00\x01" {
		t.Errorf("the memory has %q", got)
	}
	r.must(r.MemFree(r.th, p))
}

// TestReclaimBesideKernel frees memory again and again while a kernel that began before is executed, and
// another that began later. What is retired waits only for the first.
func TestReclaimBesideKernel(t *testing.T) {
	r := newLab(t, BackedMemory(64<<20))
	r.mu.Lock()
	first, second := &engine.Execution{}, &engine.Execution{}
	r.engine.Begin(first)
	r.mu.Unlock()
	s := r.newStream()
	churn := func() {
		p, res := r.MemAllocAsync(r.th, 16<<20, s)
		r.must(res)
		r.must(r.MemsetD8(r.th, p, 1, 16<<20))
		r.must(r.MemFree(r.th, p))
	}
	churn()
	churn()
	r.mu.Lock()
	r.engine.Begin(second)
	r.engine.End(first)
	r.mu.Unlock()
	churn()
	churn()
	r.must(r.StreamQuery(r.th, s))
	if n := r.space.budget.Used(); n != 32<<20 {
		t.Errorf("%d bytes are in use", n)
	}
	r.mu.Lock()
	r.engine.End(second)
	r.mu.Unlock()
}
