package sim

import (
	"runtime"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// backed returns how much memory of the machine the driver uses, after it has given back what it can.
func (r *lab) backed() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine.Quiet()
	r.reclaim()
	return r.space.budget.Used()
}

const storeText = `.version 7.0
.target sm_70
.address_size 64
.global .align 8 .b8 large[1073741824];
.visible .entry store(.param .u64 p, .param .u32 v)
{
	.reg .u64 %a;
	.reg .u32 %v;
	ld.param.u64 %a, [p];
	ld.param.u32 %v, [v];
	st.global.u32 [%a], %v;
	ret;
}
.visible .entry copy(.param .u64 p, .param .u64 from)
{
	.reg .u64 %a, %b;
	.reg .u32 %v;
	ld.param.u64 %a, [p];
	ld.param.u64 %b, [from];
	ld.global.u32 %v, [%b];
	st.global.u32 [%a], %v;
	ret;
}
`

// TestSparseMemory writes to a few pages of memory that is larger than what the driver may use, by copies, sets and
// kernels. What would need more memory than there is fails, and changes nothing.
func TestSparseMemory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("memory is provided as a whole on Windows")
	}
	const most, size = 32 << 20, 1 << 30
	for name, alloc := range map[string]func(r *lab, s driver.Stream) (driver.DevicePtr, func()){
		"device memory": func(r *lab, _ driver.Stream) (driver.DevicePtr, func()) {
			p, res := r.MemAlloc(r.th, size)
			r.must(res)
			return p, func() { r.must(r.MemFree(r.th, p)) }
		},
		"nearly all of the device": func(r *lab, _ driver.Stream) (driver.DevicePtr, func()) {
			p, res := r.MemAlloc(r.th, mostFree/10*9)
			r.must(res)
			return p, func() { r.must(r.MemFree(r.th, p)) }
		},
		"a pool": func(r *lab, s driver.Stream) (driver.DevicePtr, func()) {
			p, res := r.MemAllocAsync(r.th, size, s)
			r.must(res)
			return p, func() { r.must(r.MemFreeAsync(r.th, p, s)) }
		},
		"physical memory": func(r *lab, _ driver.Stream) (driver.DevicePtr, func()) {
			h := r.physical(size)
			p := r.addresses(size)
			r.must(r.MemMap(r.th, p, size, 0, h, 0))
			r.must(r.MemRelease(r.th, h))
			r.must(r.access(p, size, driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
			return p, func() { r.must(r.MemUnmap(r.th, p, size)) }
		},
		"two mappings": func(r *lab, _ driver.Stream) (driver.DevicePtr, func()) {
			p := r.addresses(size)
			for off := uint64(0); off < size; off += size / 2 {
				h := r.physical(size / 2)
				r.must(r.MemMap(r.th, p+driver.DevicePtr(off), size/2, 0, h, 0))
				r.must(r.MemRelease(r.th, h))
			}
			r.must(r.access(p, size, driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
			return p, func() { r.must(r.MemUnmap(r.th, p, size)) }
		},
		"a variable": func(r *lab, _ driver.Stream) (driver.DevicePtr, func()) {
			p, _, res := r.ModuleGetGlobal(r.th, r.load(storeText), "large")
			r.must(res)
			return p, func() {}
		},
		"managed memory": func(r *lab, _ driver.Stream) (driver.DevicePtr, func()) {
			p, res := r.MemAllocManaged(r.th, deviceMemory/2, driver.CU_MEM_ATTACH_GLOBAL)
			r.must(res)
			return p, func() { r.must(r.MemFree(r.th, p)) }
		},
		"pinned memory": func(r *lab, _ driver.Stream) (driver.DevicePtr, func()) {
			p, res := r.MemHostAlloc(r.th, size, 0)
			r.must(res)
			return driver.DevicePtr(p), func() { r.must(r.MemFreeHost(r.th, p)) }
		},
	} {
		for _, pieces := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				if pieces && (strings.HasPrefix(name, "managed") || strings.HasPrefix(name, "pinned")) {
					t.Skip("such memory is always in one piece")
				}
				r := newLab(t, BackedMemory(most))
				s := r.newStream()
				store := r.load(storeText)
				f, res := r.ModuleGetFunction(r.th, store, "store")
				r.must(res)
				read, res := r.ModuleGetFunction(r.th, store, "copy")
				r.must(res)
				p, free := alloc(r, s)
				if pieces { // as the process has too few addresses when they are reserved
					r.space.budget.Mappings.Add(mem.MostMappings())
					for b := r.space.At(uint64(p)); b != nil; b = r.space.At(b.end()) {
						c, begin := b.memory()
						if _, data := c.Window(begin, false); data != nil {
							t.Errorf("%d bytes are in one piece", len(data))
						}
					}
					r.space.budget.Mappings.Add(-mem.MostMappings())
				}
				before := r.backed()

				const far, other = size - 8, size / 2
				r.must(r.MemsetD32Async(r.th, p, 0, size/4, s)) // needs nothing
				r.must(r.StreamSynchronize(r.th, s))
				r.must(r.MemcpyHtoD(r.th, p+far, []byte("abcd")))
				r.must(r.MemsetD8Async(r.th, p+other-2, 'x', 4, s))
				r.must(r.launchOn(s, f, 1, params(p+other+mem.Granule, uint32('y'))))
				r.must(r.launchOn(s, read, 1, params(p+other+mem.Granule+4, p+64<<10)))
				r.must(r.StreamSynchronize(r.th, s))
				if got := r.read(p+far-2, 8); got != "\x00\x00abcd\x00\x00" {
					t.Errorf("the end has %q", got)
				}
				if got := r.read(p+other-3, 6); got != "\x00xxxx\x00" {
					t.Errorf("the middle has %q", got)
				}
				if got := r.read(p+other+mem.Granule, 8); got != "y\x00\x00\x00\x00\x00\x00\x00" {
					t.Errorf("the kernel has written %q", got)
				}
				used := r.backed()
				if used-before > 6*mem.Granule {
					t.Errorf("%d bytes are in use", used-before)
				}

				const full = driver.ResultOutOfMemory
				r.want("a set", full, r.MemsetD8(r.th, p, 1, size))
				r.want("a set on a stream", full, r.MemsetD32Async(r.th, p, 1, size/4, s))
				r.want("a set of rows", full, r.MemsetD2D8Async(r.th, p, mem.Granule, 1, 8, size/mem.Granule, s))
				large := make([]byte, most+1)
				r.want("a copy", full, r.MemcpyHtoD(r.th, p, append([]byte{1}, large...)))
				r.want("a copy on a stream", full, r.MemcpyHtoDAsync(r.th, p, driver.HostPtr(sliceAddress(large)),
					uint64(len(large)), s))
				if n := r.backed(); n != used {
					t.Errorf("what has failed uses %d bytes", n-used)
				}
				if got := r.read(p, 4) + r.read(p+far-2, 8); got != "\x00\x00\x00\x00\x00\x00abcd\x00\x00" {
					t.Errorf("what has failed has written %q", got)
				}
				r.must(r.StreamSynchronize(r.th, s))
				r.must(r.MemsetD8Async(r.th, p+far, 2, 1, s))

				g, res := r.GraphCreate(r.th, 0)
				r.must(res)
				_, res = r.GraphAddMemsetNode(r.th, g, nil, &driver.MemsetNodeParams{Dst: p, ElementSize: 1, Value: 3,
					Width: most + mem.Granule, Height: 1}, r.ctx)
				r.must(res)
				x := r.instance(g, 0)
				r.want("a graph", full, r.GraphLaunch(r.th, x, s))
				r.must(r.GraphExecDestroy(r.th, x))
				r.must(r.GraphDestroy(r.th, g))

				free()
				r.must(r.StreamSynchronize(r.th, s))
				r.must(r.CtxSynchronize(r.th))
				if n := r.backed(); n > before && name != "a variable" {
					t.Errorf("%d bytes are in use after the memory was freed", n-before)
				}
			})
		}
	}
}

// TestNoMemoryForKernel makes a kernel write more than the driver may use. That is a sticky error, which the log
// explains.
func TestNoMemoryForKernel(t *testing.T) {
	r := newLab(t, BackedMemory(3*mem.Granule))
	m := r.load(storeText)
	f, res := r.ModuleGetFunction(r.th, m, "store")
	r.must(res)
	p, res := r.MemAlloc(r.th, 1<<30)
	r.must(res)
	for i := range driver.DevicePtr(3) {
		r.must(r.launchOn(0, f, 1, params(p+i*mem.Granule, uint32(i))))
		r.must(r.CtxSynchronize(r.th))
	}
	r.must(r.launchOn(0, f, 1, params(p+5*mem.Granule, uint32(1))))
	r.want("the kernel", driver.ResultLaunchFailed, r.CtxSynchronize(r.th))
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("there are %d reports", n)
	}
	r.want("free", driver.ResultLaunchFailed, r.MemFree(r.th, p))
}
