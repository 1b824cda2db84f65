package memstate

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// This file is the protocol of work on several pieces of memory that one call of the driver enqueues.
// The driver may do the parts of such work in any order, and at the same time. So work whose parts
// overlap is enqueued one by one, and the order never matters. For the same reason a call that fails
// may be followed by one call for each part, also if the driver has enqueued some of them: that has the
// same effect, and shows which part the driver refuses.

// RowRange is memory that a part of the work uses: rows of Width bytes, or one row with a Pitch of 0.
type RowRange struct {
	From, To     uint64 // the addresses of the first byte and of the one after the last
	Width, Pitch uint64
	Write        bool
}

// apart reports whether two ranges whose rows lie between each other have no byte in common. a
// begins first.
func (a *RowRange) apart(b *RowRange) bool {
	if a.Pitch == 0 || a.Pitch != b.Pitch {
		return false
	}
	x := (b.From - a.From) % a.Pitch
	return x >= a.Width && x+b.Width <= a.Pitch
}

// mostCompared limits the time that Overlap takes.
const mostCompared = 100_000

// Overlap reports whether some range is written of which another has a byte. It sorts the list.
func Overlap(list []RowRange) bool {
	slices.SortFunc(list, func(a, b RowRange) int { return cmp.Compare(a.From, b.From) })
	compared := 0
	var before [2][]*RowRange // reads and writes that begin before the one that is looked at
	meets := func(kind int, b *RowRange) bool {
		before[kind] = slices.DeleteFunc(before[kind], func(a *RowRange) bool { return a.To <= b.From })
		compared += len(before[kind])
		return compared > mostCompared || slices.ContainsFunc(before[kind],
			func(a *RowRange) bool { return !a.apart(b) })
	}
	for i := range list {
		b, kind := &list[i], 0
		if b.Write {
			kind = 1
		}
		if meets(1, b) || b.Write && meets(0, b) {
			return true
		}
		before[kind] = append(before[kind], b)
	}
	return false
}

// Rows returns the memory of the region, for the calls that take addresses of the host and of
// devices alike.
func (r *Region) Rows(write bool) RowRange {
	return RowRange{From: r.Unified(), To: r.Unified() + r.Size, Width: r.Size, Write: write}
}

// Unified returns the region's address for calls that take addresses of the host and of devices alike.
func (r *Region) Unified() uint64 { return uint64(r.Mem.Handle()) + r.Off }

// EnqueueBatch enqueues work on several regions by one call. If it reports false, the work has to be
// enqueued one by one, which also finds the mistake if there is one. sc may be nil.
func EnqueueBatch(sc *core.Stream, f core.WorkFunction, regions []Region, call func(*core.Stream) driver.Result) bool {
	if sc == nil || sc.At != (driver.At{}) {
		return false // the driver refuses the legacy default stream
	}
	for i := range regions {
		if m := regions[i].Mem; m.Ctx != sc.Ctx && (m.Ctx.Drv != sc.Ctx.Drv || !m.Everywhere()) {
			return false
		}
	}
	w, err := sc.BeginEnqueue(f.Op())
	if err != nil {
		return false
	}
	ok := !w.Captured() // no capture accepts such work
	for i := 0; ok && i < len(regions); i++ {
		r := &regions[i]
		ok = r.Check(f.Op()) == nil && (w.Kept(&r.Mem.Resource) || w.Use(&r.Mem.Resource, r.Mem))
	}
	if ok {
		sc.EnterGate()
		ok = call(sc) == driver.ResultSuccess
		sc.LeaveGate()
	}
	w.End()
	return ok
}
