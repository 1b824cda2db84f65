package vm

import "testing"

// TestManyOrders makes strong writes to many addresses after a fence. Each of them orders what comes after
// a read of it and a fence, and what a block knows of them is bounded.
func TestManyOrders(t *testing.T) {
	const many = 5 * mostOrders
	r := newRaces(Lanes, 0)
	r.reset()
	w := &Warp{Active: 1}
	own := r.threads[0].own
	r.fence(w)
	for i := range uint64(many) {
		r.order(w, 0, i*4, reads|writes|strong)
	}
	if n := len(r.orders); n > mostOrders+1 {
		t.Errorf("%d addresses are known", n)
	}
	for lane, addr := range map[int]uint64{1: 0, 2: many*4 - 4} {
		if r.ordered(touch{time: own}, lane) {
			t.Errorf("thread %d sees the write without a read", lane)
		}
		r.order(w, lane, addr, reads|strong)
		r.fence(&Warp{Active: 1 << lane})
		if !r.ordered(touch{time: own}, lane) {
			t.Errorf("a read of %#x does not order the write", addr)
		}
	}
}
