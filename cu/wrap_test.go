package cu_test

import (
	"errors"
	"math"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/eventpool"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestRecordsWrap records an event as often as its slot can count: a pending record is never
// taken for one that has completed.
func TestRecordsWrap(t *testing.T) {
	for name, c := range map[string]struct {
		records uint64 // so far
		known   bool
	}{
		"half of what can be counted":      {records: 1<<39 - 1},
		"all, and others know the CUevent": {records: 1<<40 - 1, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			held := r.stream(r.gpu)
			e := r.event(r.gpu, EventDisableTiming)
			r.ok(e.Record(r.s))
			r.status(e, Complete)
			first := EventOf(e).Slot.Load()
			if c.known {
				e.Handle()
			}
			first.Skip(c.records - first.Gen().Count())
			r.hold(held)
			for range 3 {
				r.ok(e.Record(held))
				r.status(e, Pending)
				r.ok(waitEnds(e))
				r.ok(errors.Join(RecordAll([]*Event{e}, []*Stream{held}), e.RecordWithFlags(held, RecordDefault)))
				r.status(e, Pending)
			}
			if now := EventOf(e).Slot.Load(); c.known != (now == first) {
				t.Errorf("the event is on its first slot: %v", now == first)
			}
			r.release(held)
			r.ok(e.Wait(r.patient()))
		})
	}
}

// TestSequenceWraps has a record under way while 65,536 others are, and a stream that has had more
// records than 48 bits can count.
func TestSequenceWraps(t *testing.T) {
	_, drv, gpu := simWaits(t)
	core.Of(drv).Sequenced.Store(true)
	s, e := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewEvent(EventDisableTiming))(t)
	sl := EventOf(e).Slot.Load()
	core.Of(s).Retain()
	sl.Begin(sl)
	sl.NoteStream(core.Of(s))
	noted := sl.NoteSequence(core.Of(s))
	if noted == 0 {
		t.Fatal("a record that is alone has no sequence number")
	}
	for range 1 << 16 {
		sl.Begin(sl)
		sl.End(sl)
	}
	sl.Confirm(noted, driver.ResultSuccess)
	sl.End(sl)
	core.Of(s).EndCall()
	if n := sequenceOf(e); n != 0 {
		t.Errorf("the record is number %d, and others came between", n)
	}

	core.Of(s).Records = 1<<48 - 2
	for range 3 {
		before := sequenceOf(e)
		if err := e.Record(s); err != nil {
			t.Fatal(err)
		}
		if n := sequenceOf(e); n <= before {
			t.Errorf("a record is number %d, after number %d", n, before)
		}
	}
	closeAll(t, []*Event{e})
	closeAll(t, []*Stream{s})
}

// TestPoolIsFull asks a pool for an event that has no room for it.
func TestPoolIsFull(t *testing.T) {
	r := NewSoft(t)
	pool := Need(r.GPU.EventPool())(t)
	cc := PoolShare(pool).Pool
	e := Need(pool.Acquire())(t)
	entries := cc.Entries.Load()
	full := make([]*eventpool.Entry, eventpool.MaxEntries)
	cc.Entries.Store(&full)
	_, err := pool.Acquire(EventBlockingSync)
	r.Is(err, ResultOutOfMemory)
	cc.Entries.Store(entries)
	r.OK(e.Release())
	r.OK(pool.Close())
}

// TestListsCount puts entries on a list, and takes them, while its count of changes wraps.
func TestListsCount(t *testing.T) {
	pool, list := new(eventpool.Pool), new(eventpool.FreeList)
	entries := []*eventpool.Entry{{Index: 0}, {Index: 1}}
	pool.Entries.Store(&entries)
	list.Head.Store(math.MaxUint64 - eventpool.PlaceMask)
	for range 3 {
		for _, en := range entries {
			pool.Push(list, en)
		}
		for i := range entries {
			if en := pool.Pop(list); en != entries[len(entries)-1-i] {
				t.Fatalf("entry %v was taken", en)
			}
		}
		if en := pool.Pop(list); en != nil {
			t.Fatalf("the list has entry %d twice", en.Index)
		}
	}
}
