package sim

import (
	"math"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestStreamAttributes sets attributes of streams, and compares the results with those of an H200.
func TestStreamAttributes(t *testing.T) {
	r := newLab(t)
	s, other := r.newStream(), r.newStream()
	has := map[int32]bool{1: true, 3: true, 8: true, 9: true, 10: true}
	for _, h := range []driver.Stream{s, 0, driver.CU_STREAM_LEGACY, driver.CU_STREAM_PER_THREAD} {
		for id := int32(-1); id < 19; id++ {
			want := driver.ResultInvalidValue
			if has[id] {
				want = ok
			}
			_, res := r.StreamGetAttribute(r.th, h, id)
			r.want("get", want, res)
			if id == driver.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY { // 0 is no policy
				want = driver.ResultInvalidValue
			}
			r.want("set", want, r.StreamSetAttribute(r.th, h, id, driver.LaunchAttributeValue{}))
		}
	}
	one, half := math.Float32bits(1), math.Float32bits(0.5)
	for _, tt := range []struct {
		name string
		id   int32
		list []uint32
		want driver.Result
	}{
		{"policy", 3, []uint32{4}, ok}, {"policy 5", 3, []uint32{5}, driver.ResultInvalidValue},
		{"domain", 10, []uint32{1}, ok}, {"domain 2", 10, []uint32{2}, driver.ResultInvalidValue},
		{"map", 9, []uint32{0x0303}, ok}, {"map 4", 9, []uint32{0x0400}, driver.ResultInvalidValue},
		{"window", 1, []uint32{0x1000, 0, 4096, 0, half, 2, 1}, ok},
		{"the largest window", 1, []uint32{0, 0, 134217728, 0, one, 2, 1}, ok},
		{"a larger window", 1, []uint32{0, 0, 134217729, 0, one, 2, 1}, driver.ResultInvalidValue},
		{"ratio", 1, []uint32{0, 0, 1, 0, math.Float32bits(1.1), 2, 1}, driver.ResultInvalidValue},
		{"hit 3", 1, []uint32{0, 0, 1, 0, one, 3, 1}, ok}, {"miss 3", 1, []uint32{0, 0, 1, 0, one, 2, 3}, ok},
		{"misses that persist", 1, []uint32{0, 0, 1, 0, one, 2, 2}, driver.ResultInvalidValue},
	} {
		r.want(tt.name, tt.want, r.StreamSetAttribute(r.th, s, tt.id, words(tt.id, tt.list...).Value))
	}
	for set, want := range map[uint32]int32{0xfffffff9: -5, 0xfffffffe: -2, 7: 0} {
		r.must(r.StreamSetAttribute(r.th, s, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY, words(8, set).Value))
		if p, res := r.StreamGetPriority(r.th, s); p != want || res != ok {
			t.Errorf("priority %d became %d, %v", int32(set), p, res)
		}
	}
	r.must(r.StreamCopyAttributes(r.th, other, s))
	if v, _ := r.StreamGetAttribute(r.th, other, 9); v[0] != 3 || v[1] != 3 {
		t.Errorf("the copied map is %d, %d", v[0], v[1])
	}
	th := new(driver.Thread)
	c, res := r.CtxCreate(th, nil, 0, 0)
	r.must(res)
	far, res := r.StreamCreate(th, 0)
	r.must(res)
	r.want("another context", driver.ResultInvalidValue, r.StreamCopyAttributes(r.th, far, s))
	r.must(r.CtxResetPersistingL2Cache(r.th))
	for set, want := range map[uint64]uint64{0: 0, 1: 3932160, 20000000: 23592960, 39321600: 39321600} {
		r.must(r.CtxSetLimit(r.th, driver.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, set))
		if n, res := r.CtxGetLimit(r.th, driver.CU_LIMIT_PERSISTING_L2_CACHE_SIZE); n != want || res != ok {
			t.Errorf("limit %d became %d, %v", set, n, res)
		}
	}
	r.want("too much", driver.ResultInvalidValue, r.CtxSetLimit(r.th, driver.CU_LIMIT_PERSISTING_L2_CACHE_SIZE,
		39321601))
	r.must(r.StreamDestroy(th, far))
	r.must(r.CtxDestroy(th, c))
}
