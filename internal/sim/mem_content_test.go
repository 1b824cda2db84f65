package sim

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purecu/purecu/driver"
)

// backed returns how much memory of the machine the driver uses, after it has given back what it can.
func (r *lab) backed() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine.Quiet()
	r.reclaim()
	return r.space.budget.used
}

// inPieces makes a content one of which each granule has a place of its own.
func inPieces(c *content) *content {
	l := c.reserve()
	l.whole, l.pieces = nil, make([]atomic.Pointer[byte], l.granules)
	c.layout.Store(l)
	return c
}

// TestContent compares random accesses with those of a slice, in one piece and in several.
func TestContent(t *testing.T) {
	const size = 9*granule + 12345
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, pieces := range []bool{false, true} {
		all := &budget{most: 7 * granule}
		c := newContent(all, size)
		if pieces {
			inPieces(c)
		}
		s, want := span{&block{size: size, mem: c}, 0, size}, make([]byte, size)
		there := map[uint64]bool{}
		for range 400 {
			off := rnd.Uint64N(size)
			n := min(1+rnd.Uint64N(1<<rnd.UintN(23)), size-off)
			need := uint64(0)
			for i := off / granule; i <= (off+n-1)/granule; i++ {
				if !there[i] {
					need += c.sizeOf(i)
				}
			}
			fits := need <= all.most-all.used
			switch rnd.IntN(5) {
			case 0:
				data := bytes.Repeat([]byte{byte(rnd.Uint32())}, int(n))
				if s.put(off, data) != fits {
					t.Fatalf("pieces %v: a write of %d bytes at %d with %d bytes left: %v", pieces, n, off,
						all.most-all.used, !fits)
				}
				if fits {
					copy(want[off:], data)
				}
			case 1:
				s.clear(off, n)
				clear(want[off : off+n])
				continue
			case 2:
				at := rnd.Uint64N(size - n + 1)
				if at < off+n && off < at+n || !fits {
					continue
				}
				if !s.copyFrom(off, s, at, n) {
					t.Fatalf("pieces %v: a copy of %d bytes fails", pieces, n)
				}
				copy(want[off:off+n], want[at:at+n])
				for i := off / granule; i <= (off+n-1)/granule; i++ { // a copy of what is not there is nothing
					there[i] = c.layout.Load().has(i)
				}
				fits = false
			case 3:
				write := rnd.IntN(2) == 0
				begin, data := c.window(off, write)
				if data == nil {
					if c.lacks(off, 1) <= all.most-all.used {
						t.Fatalf("pieces %v: there is no window", pieces)
					}
					continue
				}
				if off < begin || off >= begin+uint64(len(data)) || data[off-begin] != want[off] {
					t.Fatalf("pieces %v: the window of %d is %d bytes at %d", pieces, off, len(data), begin)
				}
				if write {
					for _, at := range []uint64{begin, begin + uint64(len(data)) - 1} {
						if c.lacks(at, 1) > 0 {
							t.Fatalf("pieces %v: the window of %d has what is not there", pieces, off)
						}
					}
				}
				for i := range c.layout.Load().granules {
					there[i] = c.layout.Load().has(i)
				}
				continue
			default:
				got := make([]byte, n)
				for at := uint64(0); at < n; {
					data, length := s.part(off+at, n-at)
					copy(got[at:at+length], data)
					at += length
				}
				if !bytes.Equal(got, want[off:off+n]) {
					t.Fatalf("pieces %v: %d bytes at %d differ", pieces, n, off)
				}
				continue
			}
			if fits {
				for i := off / granule; i <= (off+n-1)/granule; i++ {
					there[i] = true
				}
			}
			used := uint64(0)
			for i, is := range there {
				if is {
					used += c.sizeOf(i)
				}
			}
			if used != all.used || used != c.charged {
				t.Fatalf("pieces %v: %d bytes are in use, not %d", pieces, all.used, used)
			}
		}
		c.release()
		if all.used != 0 {
			t.Errorf("pieces %v: %d bytes are left", pieces, all.used)
		}
		if s.put(0, []byte{1}) {
			t.Errorf("pieces %v: a released content can be written", pieces)
		}
	}
}

// TestContentBeside writes to one content from several goroutines, which need the same granules.
func TestContentBeside(t *testing.T) {
	for _, pieces := range []bool{false, true} {
		all := &budget{most: 8 * granule}
		c := newContent(all, 8*granule)
		if pieces {
			inPieces(c)
		}
		var done sync.WaitGroup
		for i := range uint64(4) {
			done.Go(func() {
				for g := range uint64(8) {
					if _, data := c.window(g*granule+i, true); data == nil {
						t.Error("there is no memory")
					} else {
						begin, data := c.window(g*granule+i, true)
						data[g*granule+i-begin] = byte(i)
					}
				}
			})
		}
		done.Wait()
		for g := range uint64(8) {
			if data, _ := c.part(g*granule, 4); !bytes.Equal(data, []byte{0, 1, 2, 3}) {
				t.Errorf("granule %d has %d", g, data)
			}
		}
		if all.used != all.most {
			t.Errorf("%d bytes are in use", all.used)
		}
		c.release()
	}
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

// TestSlots takes and gives back small memory of several sizes in a random order. Each piece is zero, and no other has
// its bytes. In the end no more than one mapping for each size is left.
func TestSlots(t *testing.T) {
	type piece struct {
		memory []byte
		of     *slab
		value  byte
	}
	var b budget
	var list []piece
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 6000 {
		if n := len(list); n > 0 && (i >= 4000 || rng.IntN(5) < 2) {
			at := rng.IntN(n)
			p := list[at]
			if slices.ContainsFunc(p.memory, func(v byte) bool { return v != p.value }) {
				t.Fatalf("%d bytes have changed", len(p.memory))
			}
			b.giveSlot(p.memory, p.of)
			list = slices.Delete(list, at, at+1)
			continue
		}
		p := piece{value: byte(i)}
		p.memory, p.of = b.takeSlot(1 + rng.Uint64N(1<<(1+rng.IntN(mostSlot))))
		if p.memory == nil || slices.ContainsFunc(p.memory, func(v byte) bool { return v != 0 }) {
			t.Fatalf("%d bytes are not zero", len(p.memory))
		}
		for j := range p.memory {
			p.memory[j] = p.value
		}
		list = append(list, p)
	}
	for _, p := range list {
		b.giveSlot(p.memory, p.of)
	}
	if n := b.mappings.Load(); n > mostSlot-leastSlot+1 {
		t.Errorf("%d mappings are left", n)
	}
}

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
				if b := r.space.at(uint64(p)); pieces {
					for b := b; b != nil; b = r.space.at(b.end()) {
						c, _ := b.memory()
						inPieces(c)
					}
				}
				before := r.backed()

				const far, other = size - 8, size / 2
				r.must(r.MemsetD32Async(r.th, p, 0, size/4, s)) // needs nothing
				r.must(r.StreamSynchronize(r.th, s))
				r.must(r.MemcpyHtoD(r.th, p+far, []byte("abcd")))
				r.must(r.MemsetD8Async(r.th, p+other-2, 'x', 4, s))
				r.must(r.launchOn(s, f, 1, params(p+other+granule, uint32('y'))))
				r.must(r.launchOn(s, read, 1, params(p+other+granule+4, p+64<<10)))
				r.must(r.StreamSynchronize(r.th, s))
				if got := r.read(p+far-2, 8); got != "\x00\x00abcd\x00\x00" {
					t.Errorf("the end has %q", got)
				}
				if got := r.read(p+other-3, 6); got != "\x00xxxx\x00" {
					t.Errorf("the middle has %q", got)
				}
				if got := r.read(p+other+granule, 8); got != "y\x00\x00\x00\x00\x00\x00\x00" {
					t.Errorf("the kernel has written %q", got)
				}
				used := r.backed()
				if used-before > 6*granule {
					t.Errorf("%d bytes are in use", used-before)
				}

				const full = driver.ResultOutOfMemory
				r.want("a set", full, r.MemsetD8(r.th, p, 1, size))
				r.want("a set on a stream", full, r.MemsetD32Async(r.th, p, 1, size/4, s))
				r.want("a set of rows", full, r.MemsetD2D8Async(r.th, p, granule, 1, 8, size/granule, s))
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
					Width: most + granule, Height: 1}, r.ctx)
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
	r := newLab(t, BackedMemory(3*granule))
	m := r.load(storeText)
	f, res := r.ModuleGetFunction(r.th, m, "store")
	r.must(res)
	p, res := r.MemAlloc(r.th, 1<<30)
	r.must(res)
	for i := range driver.DevicePtr(3) {
		r.must(r.launchOn(0, f, 1, params(p+i*granule, uint32(i))))
		r.must(r.CtxSynchronize(r.th))
	}
	r.must(r.launchOn(0, f, 1, params(p+5*granule, uint32(1))))
	r.want("the kernel", driver.ResultLaunchFailed, r.CtxSynchronize(r.th))
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("there are %d reports", n)
	}
	r.want("free", driver.ResultLaunchFailed, r.MemFree(r.th, p))
}
