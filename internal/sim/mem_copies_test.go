package sim

import (
	"testing"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// TestPointerAttributes compares attributes in one call with single ones, as an H200 answers.
func TestPointerAttributes(t *testing.T) {
	rig := newRig(t)
	d, th := rig.tab, rig.in
	p, r := d.MemAlloc(th, 100)
	rig.ok(r)
	for attribute := range int32(25) {
		v := [2]uint64{7, 7}
		data := []unsafe.Pointer{unsafe.Pointer(&v)}
		r := d.PointerGetAttributes(th, []int32{attribute}, data, p+5)
		one, single := d.PointerGetAttribute(th, attribute, p+5)
		known := attribute >= 1 && attribute <= 21 && attribute != driver.CU_POINTER_ATTRIBUTE_P2P_TOKENS
		if known != (r == ok) || r != ok && r != driver.ResultInvalidValue {
			t.Errorf("attribute %d: %v", attribute, r)
		}
		if PointerAttributeSize(attribute) == 4 {
			v[0] = uint64(uint32(v[0]))
		}
		if single == ok && r == ok && v[0] != one[0] {
			t.Errorf("attribute %d is %#x, alone %#x", attribute, v[0], one[0])
		}
	}
	kind, device, host, start := uint32(7), int32(7), uint64(7), uint64(7)
	rig.ok(d.PointerGetAttributes(th, []int32{driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		driver.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, driver.CU_POINTER_ATTRIBUTE_HOST_POINTER,
		driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR},
		[]unsafe.Pointer{unsafe.Pointer(&kind), unsafe.Pointer(&device), unsafe.Pointer(&host), unsafe.Pointer(&start)}, 1<<50))
	if kind != 0 || device != -2 || host != 1<<50 || start != 7 {
		t.Errorf("of an unknown address: type %d, device %d, host %#x, start %#x", kind, device, host, start)
	}
	if r := d.PointerGetAttributes(th, nil, nil, p); r != driver.ResultInvalidValue {
		t.Errorf("no attributes: %v", r)
	}
}

// TestCopiesRefused finds what was copied before the copy that is refused, as by an H200.
func TestCopiesRefused(t *testing.T) {
	rig := newRig(t)
	d, at := rig.tab, rig.in
	s := rig.stream(1)
	a, r := d.MemAlloc(at, 4)
	rig.ok(r)
	b, r := d.MemAlloc(at, 4)
	rig.ok(r)
	inOrder := []driver.MemcpyAttributes{{SrcAccessOrder: driver.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}}
	reset := func() ([]driver.DevicePtr, []driver.DevicePtr, []uint64) {
		rig.ok(d.MemsetD8(at, a, 1, 4))
		rig.ok(d.MemsetD8(at, b, 0, 4))
		return []driver.DevicePtr{b, b + 1, b + 2, b + 3}, []driver.DevicePtr{a, a + 1, a + 2, a + 3}, []uint64{1, 1, 1, 1}
	}
	made := func(want int) {
		t.Helper()
		rig.ok(d.StreamSynchronize(at, s))
		got := make([]byte, 4)
		rig.ok(d.MemcpyDtoH(at, got, b))
		for i, v := range got {
			if (v == 1) != (i < want) {
				t.Errorf("%d, want %d copies", got, want)
			}
		}
	}
	to, from, sizes := reset()
	rig.ok(d.MemcpyBatchAsync(at, to, from, sizes, inOrder, []uint64{0}, s))
	made(4)
	to, from, sizes = reset()
	from[2] = 0
	failed, r := d.MemcpyBatchAsyncV1(at, to, from, sizes, inOrder, []uint64{0}, s)
	rig.want(driver.ResultInvalidValue, r)
	made(2)
	to, from, sizes = reset()
	_, r = d.MemcpyBatchAsyncV1(at, to, from, sizes, inOrder, []uint64{1}, s)
	rig.want(driver.ResultInvalidValue, r)
	made(0)
	if failed != 2 {
		t.Errorf("copy %d was refused", failed)
	}
	// As for an H200, the index depends on the name of the default stream.
	for h, want := range map[driver.Stream]uint64{0: 0, driver.CU_STREAM_LEGACY: noCopy} {
		failed, r := d.MemcpyBatchAsyncV1(at, to, from, sizes, inOrder, []uint64{0}, h)
		box, q := d.Memcpy3DBatchAsyncV1(at, make([]driver.Memcpy3DBatchOp, 1), 0, h)
		if failed != want || box != want || r != driver.ResultInvalidValue || q != r {
			t.Errorf("on stream %d: copy %d, %v, and box %d, %v; want %d", h, failed, r, box, q, want)
		}
	}
	rig.ok(d.StreamBeginCapture(at, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	rig.want(driver.ResultStreamCaptureUnsupported, d.MemcpyBatchAsync(at, to, from, sizes, inOrder, []uint64{0}, s))
	g, r := d.StreamEndCapture(at, s)
	rig.ok(r)
	rig.ok(d.GraphDestroy(at, g))
	made(0)
}

// TestListsOfOtherLengths passes lists to calls for several pieces of memory that do not fit together.
func TestListsOfOtherLengths(t *testing.T) {
	r := newLab(t)
	s, p := r.newStream(), r.alloc("abcd")
	m, res := r.MemAllocManaged(r.th, 4, driver.CU_MEM_ATTACH_GLOBAL)
	r.must(res)
	defer r.MemFree(r.th, m)
	two, one, first := []driver.DevicePtr{p, p + 1}, []driver.DevicePtr{p}, []uint64{0}
	attrs := []driver.MemcpyAttributes{{SrcAccessOrder: driver.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}}
	for i, res := range []driver.Result{
		r.MemcpyBatchAsync(r.th, two, one, []uint64{1, 1}, attrs, first, s),
		r.MemcpyBatchAsync(r.th, one, one, []uint64{1, 1}, attrs, first, s),
		r.MemcpyBatchAsync(r.th, two, two, []uint64{1}, attrs, first, s),
		r.MemcpyBatchAsync(r.th, one, one, []uint64{1}, nil, first, s),
		r.MemDiscardBatchAsync(r.th, []driver.DevicePtr{m, m}, []uint64{4}, 0, s),
		r.MemPrefetchBatchAsync(r.th, []driver.DevicePtr{m}, []uint64{4}, nil, first, 0, s),
		r.PointerGetAttributes(r.th, []int32{driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE}, nil, p),
	} {
		r.want("call "+string(rune('0'+i)), driver.ResultInvalidValue, res)
	}
}
