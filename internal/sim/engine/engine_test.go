package engine

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newEngine returns an engine with virtual time, whose lock is held until the end of the test, and a stream.
func newEngine(t *testing.T) (*Engine, *Stream) {
	e := new(Engine)
	lock := new(sync.Mutex)
	e.Clock.Virtual = true
	e.Init(lock)
	lock.Lock()
	t.Cleanup(lock.Unlock)
	return e, &Stream{Pending: new(Pending)}
}

// TestPoisonBeginsNothing poisons an engine. No work begins afterwards, and each dropped operation is notified once.
func TestPoisonBeginsNothing(t *testing.T) {
	for name, first := range map[string]func(e *Engine) *Op{
		"from outside": func(e *Engine) *Op { return &Op{Duration: 1} },
		"by the end of an operation": func(e *Engine) *Op {
			return &Op{Calls: Calls{Effect: func() { e.Poison(nil) }}}
		},
		"by the beginning of an operation": func(e *Engine) *Op {
			return &Op{Duration: 1, Calls: Calls{Begin: func() { e.Poison(nil) }}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, s := newEngine(t)
			began, dropped := 0, 0
			e.Enqueue(s, &Op{Duration: 1})
			o := first(e)
			e.Enqueue(s, o)
			for range 2 {
				e.Enqueue(s, &Op{Calls: Calls{Begin: func() { began++ }, Dropped: func() { dropped++ }}})
			}
			if name != "from outside" {
				e.Pass(1)
			}
			e.Poison(nil)
			if _, runs := e.Next(); began != 0 || dropped != 2 || !o.Done() || !s.Pending.None() || runs {
				t.Errorf("%d began, %d were dropped, an operation runs: %v", began, dropped, runs)
			}
		})
	}
}

// TestFinishOutside lets virtual time pass while a goroutine executes an operation. That has taken no time.
func TestFinishOutside(t *testing.T) {
	e, s := newEngine(t)
	o, next := &Op{Outside: true}, &Op{Duration: 2}
	e.Enqueue(s, &Op{Duration: 5})
	e.Enqueue(s, o)
	e.Enqueue(s, next)
	e.Pass(10)
	e.Finish(o)
	if o.At() != 5 || next.Began() != 5 {
		t.Errorf("it completed at %d, and the next began at %d", o.At(), next.Began())
	}
}

// TestHold holds a stream. What comes after its work waits, and the times count from the release.
func TestHold(t *testing.T) {
	e, held := newEngine(t)
	other := &Stream{Pending: held.Pending}
	held.Hold()
	first, last := &Op{Duration: 5}, &Op{Duration: 2}
	e.Enqueue(held, first)
	e.Enqueue(other, last, []*Op{first})
	w := WaitFor(last)
	if e.Pass(10); !w.Needs(first) || w.Over() || len(held.Parked()) != 1 {
		t.Errorf("the wait needs the first operation: %v, is over: %v, and %d are parked", w.Needs(first), w.Over(),
			len(held.Parked()))
	}
	e.Release(held)
	if at, more := e.Due(&w); at != 15 || more != 1 {
		t.Errorf("the running operation ends at %d, and %d come behind", at, more)
	}
	if e.Pass(7); !w.Over() || first.At() != 15 || last.At() != 17 {
		t.Errorf("the wait is over: %v, after operations at %d and %d", w.Over(), first.At(), last.At())
	}
}

// TestPending adds operations, and removes them in another order.
func TestPending(t *testing.T) {
	var p Pending
	ops := make([]Op, 4)
	for i := range ops {
		p.add(&ops[i])
	}
	for _, step := range []struct {
		remove int
		want   []uint64
	}{{1, []uint64{1, 3, 4}}, {0, []uint64{3, 4}}, {3, []uint64{3}}, {2, nil}} {
		p.remove(&ops[step.remove])
		var got, back []uint64
		for o := p.oldest; o != nil; o = o.newer {
			got = append(got, o.number)
		}
		for o := p.newest; o != nil; o = o.older {
			back = append([]uint64{o.number}, back...)
		}
		if diff := cmp.Diff([][]uint64{step.want, step.want}, [][]uint64{got, back}); diff != "" {
			t.Errorf("without %d, from either end (-want +got):\n%s", step.remove, diff)
		}
	}
	if !p.None() || p.newest != nil {
		t.Error("there are some left")
	}
}
