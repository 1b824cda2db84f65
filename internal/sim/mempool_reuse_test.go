package sim

import (
	"bytes"
	"testing"

	"github.com/purecu/purecu/driver"
)

// writePTX has a kernel that sets n bytes of memory, by one thread, from the last to the first.
const writePTX = header + `.visible .entry write(.param .u64 p, .param .u32 n, .param .u32 v) {
	.reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %q;
	ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [v];
	cvt.u64.u32 %rd2, %r1;
again:
	add.u64 %rd2, %rd2, -1;
	add.u64 %rd3, %rd1, %rd2;
	st.global.u8 [%rd3], %r2;
	setp.ne.u64 %q, %rd2, 0;
	@%q bra again;
	ret; }
`

// writer returns the kernel of writePTX.
func (r *lab) writer() driver.Function {
	r.t.Helper()
	f, res := r.ModuleGetFunction(r.th, r.load(writePTX), "write")
	r.must(res)
	return f
}

// TestPoolReuse enqueues work with memory of a pool, its free, and an allocation that gets the same address, in all
// kinds of pools, before anything runs. The earlier work uses the whole memory although the later is smaller.
func TestPoolReuse(t *testing.T) {
	const n = 300 << 10
	sizes := []uint64{n, n, n / 3, 1000} // each has the address of the one before
	pools := map[string]driver.MemPoolProps{
		"private": poolProps(0), "limited": poolProps(0), "shared": poolProps(0),
		"pinned": propsOf(pinnedType, onHost), "managed": propsOf(managedType, onDevice),
	}
	limited, shared := pools["limited"], pools["shared"]
	limited.MaxSize, shared.HandleTypes = n, driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	pools["limited"], pools["shared"] = limited, shared
	if !canShareMemory {
		delete(pools, "shared")
	}
	for name, props := range pools {
		for _, goKernel := range []bool{false, true} {
			for _, streams := range []int{1, 2} {
				t.Run(name, func(t *testing.T) {
					r := newLab(t)
					p, res := r.MemPoolCreate(r.th, props)
					r.must(res)
					if name == "pinned" {
						r.must(r.MemPoolSetAccess(r.th, p, []driver.MemAccessDesc{{Location: poolProps(0).Location,
							Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}}))
					}
					r.reuse(p, sizes, streams, goKernel)
					r.must(r.CtxSynchronize(r.th))
					r.must(r.MemPoolDestroy(r.th, p))
				})
			}
		}
	}
}

// reuse does the work of TestPoolReuse on streams that take turns, ordered by events.
func (r *lab) reuse(p driver.MemoryPool, sizes []uint64, streams int, goKernel bool) {
	r.t.Helper()
	write, fill := r.writer(), r.kernel("fill", ".param .u64 p, .param .u32 v, .param .u32 n")
	list := []driver.Stream{r.newStream(), r.newStream()}[:streams]
	copies := make([][]byte, len(sizes))
	before, res := r.MemAllocFromPoolAsync(r.th, sizes[0], p, list[0])
	r.must(res)
	r.must(r.MemFreeAsync(r.th, before, list[0]))
	r.Hold(uintptr(list[0]))
	for i, n := range sizes {
		s := list[i%streams]
		m, res := r.MemAllocFromPoolAsync(r.th, n, p, s)
		r.must(res)
		if m != before {
			r.t.Fatalf("allocation %d has another address", i)
		}
		v := uint32(i+1) * 0x01010101
		if goKernel {
			r.must(r.launchOn(s, fill, 1, params(m, v, uint32(n/4))))
		} else {
			r.must(r.launchOn(s, write, 1, params(m, uint32(n), v)))
		}
		r.must(r.MemsetD8Async(r.th, m+driver.DevicePtr(n/2), uint8(v), n-n/2, s))
		to, host := r.pinned(string(make([]byte, n)))
		copies[i] = to
		r.must(r.MemcpyAsync(r.th, driver.DevicePtr(host), m, n, s))
		r.must(r.MemFreeAsync(r.th, m, s))
		r.must(r.MemPoolTrimTo(r.th, p, 0))
		e, res := r.EventCreate(r.th, driver.CU_EVENT_DISABLE_TIMING)
		r.must(res)
		r.must(r.EventRecord(r.th, e, s))
		r.must(r.StreamWaitEvent(r.th, list[(i+1)%streams], e, 0))
		r.must(r.EventDestroy(r.th, e))
	}
	r.Release(uintptr(list[0]))
	r.must(r.CtxSynchronize(r.th))
	for i, b := range copies {
		if want := bytes.Repeat([]byte{byte(i + 1)}, len(b)); !bytes.Equal(b, want) {
			r.t.Errorf("copy %d has %d in byte 0, and %d in the last", i, b[0], b[len(b)-1])
		}
	}
	if n := r.space.Covered(); n != 0 {
		r.t.Errorf("%d freed blocks are left", n)
	}
}

// TestGraphMemoryReuse launches a graph that allocates memory, uses the memory, and frees it, twice before anything
// runs. The second time the graph itself frees it.
func TestGraphMemoryReuse(t *testing.T) {
	const n = 100 << 10
	for _, frees := range []bool{false, true} {
		r := newLab(t)
		s, write := r.newStream(), r.writer()
		g, res := r.GraphCreate(r.th, 0)
		r.must(res)
		a, p, res := r.GraphAddMemAllocNode(r.th, g, nil, allocParams(n))
		r.must(res)
		if frees {
			to, host := r.pinned(string(make([]byte, n)))
			defer func() {
				if to[n-1] != 7 {
					t.Errorf("the graph has copied %d", to[n-1])
				}
			}()
			c, res := r.GraphAddMemcpyNode(r.th, g, []driver.GraphNode{a}, &driver.Memcpy3D{
				SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: p.Dptr, SrcPitch: n, SrcHeight: 1,
				DstMemoryType: driver.CU_MEMORYTYPE_HOST, DstHost: host, DstPitch: n, DstHeight: 1,
				WidthInBytes: n, Height: 1, Depth: 1}, r.ctx)
			r.must(res)
			_, res = r.GraphAddMemFreeNode(r.th, g, []driver.GraphNode{c}, p.Dptr)
			r.must(res)
			set, res := r.GraphAddMemsetNode(r.th, g, []driver.GraphNode{a},
				&driver.MemsetNodeParams{Dst: p.Dptr, Value: 7, ElementSize: 1, Width: n, Height: 1}, r.ctx)
			r.must(res)
			r.must(r.GraphAddDependencies(r.th, g, []driver.GraphNode{set}, []driver.GraphNode{c}))
		}
		x := r.instance(g, 0)
		r.Hold(uintptr(s))
		var copies [2][]byte
		for i := range copies {
			r.must(r.GraphLaunch(r.th, x, s))
			to, host := r.pinned(string(make([]byte, n)))
			if copies[i] = to; !frees {
				r.must(r.launchOn(s, write, 1, params(p.Dptr, uint32(n), uint32(i+1))))
				r.must(r.MemcpyDtoHAsync(r.th, host, p.Dptr, n, s))
				r.must(r.MemFreeAsync(r.th, p.Dptr, s))
			}
		}
		r.Release(uintptr(s))
		r.must(r.StreamSynchronize(r.th, s))
		for i, b := range copies {
			if !frees && !bytes.Equal(b, bytes.Repeat([]byte{byte(i + 1)}, n)) {
				t.Errorf("copy %d has %d in byte 0, and %d in the last", i, b[0], b[n-1])
			}
		}
		r.must(r.GraphExecDestroy(r.th, x))
		r.must(r.GraphDestroy(r.th, g))
		r.must(r.DeviceGraphMemTrim(r.th, 0))
	}
}

// TestGraphMemoryTrim gives the memory of a graph back to the machine. The graph can be launched again.
func TestGraphMemoryTrim(t *testing.T) {
	r := newLab(t)
	g, _, _ := r.graphWith(true)
	x := r.instance(g, 0)
	before := r.backed()
	for range 2 {
		r.must(r.GraphLaunch(r.th, x, driver.CU_STREAM_LEGACY))
		r.must(r.CtxSynchronize(r.th))
		if r.backed() == before {
			t.Error("the graph has used no memory")
		}
		r.must(r.DeviceGraphMemTrim(r.th, 0))
		if n := r.backed() - before; n != 0 {
			t.Errorf("%d bytes are in use after the memory was trimmed", n)
		}
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
}
