package cu

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
)

// This file is the protocol of work on several pieces of memory that one call of the driver enqueues.
// The driver may do the parts of such work in any order, and at the same time. So work whose parts
// overlap is enqueued one by one, and the order never matters. For the same reason a call that fails
// may be followed by one call for each part, also if the driver has enqueued some of them: that has the
// same effect, and shows which part the driver refuses.

// rowRange is memory that a part of the work uses: rows of width bytes, or one row with a pitch of 0.
type rowRange struct {
	from, to     uint64 // the addresses of the first byte and of the one after the last
	width, pitch uint64
	write        bool
}

// apart reports whether two ranges whose rows lie between each other have no byte in common. a
// begins first.
func (a *rowRange) apart(b *rowRange) bool {
	if a.pitch == 0 || a.pitch != b.pitch {
		return false
	}
	x := (b.from - a.from) % a.pitch
	return x >= a.width && x+b.width <= a.pitch
}

// mostCompared limits the time that overlap takes.
const mostCompared = 100_000

// overlap reports whether some range is written of which another has a byte. It sorts the list.
func overlap(list []rowRange) bool {
	slices.SortFunc(list, func(a, b rowRange) int { return cmp.Compare(a.from, b.from) })
	compared := 0
	var before [2][]*rowRange // reads and writes that begin before the one that is looked at
	meets := func(kind int, b *rowRange) bool {
		before[kind] = slices.DeleteFunc(before[kind], func(a *rowRange) bool { return a.to <= b.from })
		compared += len(before[kind])
		return compared > mostCompared || slices.ContainsFunc(before[kind],
			func(a *rowRange) bool { return !a.apart(b) })
	}
	for i := range list {
		b, kind := &list[i], 0
		if b.write {
			kind = 1
		}
		if meets(1, b) || b.write && meets(0, b) {
			return true
		}
		before[kind] = append(before[kind], b)
	}
	return false
}

// rows returns the memory of the region, for the calls that take addresses of the host and of
// devices alike.
func (r *region) rows(write bool) rowRange {
	return rowRange{from: r.unified(), to: r.unified() + r.size, width: r.size, write: write}
}

// unified returns the region's address for calls that take addresses of the host and of devices alike.
func (r *region) unified() uint64 { return uint64(r.mem.handle()) + r.off }

// together enqueues work on several regions by one call. If it reports false, the work has to be
// enqueued one by one, which also finds the mistake if there is one.
func (sc *streamCore) enqueueBatch(f workFunction, regions []region, call func(*streamCore) driver.Result) bool {
	if sc.at != (driver.At{}) {
		return false // the driver refuses the legacy default stream
	}
	for i := range regions {
		if m := regions[i].mem; m.ctx != sc.ctx && (m.ctx.drv != sc.ctx.drv || !m.everywhere()) {
			return false
		}
	}
	w, err := sc.beginEnqueue(f.op())
	if err != nil {
		return false
	}
	ok := w.capture == nil // no capture accepts such work
	for i := 0; ok && i < len(regions); i++ {
		r := &regions[i]
		ok = r.check(f.op()) == nil && (w.kept(&r.mem.resource) || w.use(&r.mem.resource, r.mem))
	}
	if ok {
		sc.beginLegacy()
		ok = call(sc) == driver.ResultSuccess
		sc.endLegacy()
	}
	w.end()
	return ok
}
