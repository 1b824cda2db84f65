package engine

import (
	"slices"
	"time"
)

// waiting is about the calls that wait.
type waiting struct {
	// LastMove is the last event that could end one of the waits.
	LastMove time.Time
	waits    int // how many calls wait
}

// Moved notes an event that may end a wait.
func (e *Engine) Moved() {
	if e.waits > 0 {
		e.LastMove = time.Now()
	}
}

// Wait is a wait for operations, or for all operations of a list up to a number.
type Wait struct {
	Ops  []*Op
	Any  bool // one of Ops is enough
	List *Pending
	Last uint64
}

// WaitFor returns a wait for operations, which may be nil.
func WaitFor(ops ...*Op) Wait { return Wait{Ops: ops} }

// Over reports whether the wait has ended.
func (w *Wait) Over() bool {
	if w.List != nil {
		return w.List.None() || w.List.oldest.number > w.Last
	}
	return !slices.ContainsFunc(w.Ops, func(o *Op) bool { return o != nil && !o.done })
}

// Needs reports whether an operation has to complete before the wait can end.
func (w *Wait) Needs(o *Op) bool {
	if w.Any {
		return !slices.ContainsFunc(w.Ops, func(one *Op) bool { return !(&Wait{Ops: []*Op{one}}).Needs(o) })
	}
	seen := make(map[*Op]bool)
	for list := []*Op{o}; len(list) > 0; {
		o, list = list[len(list)-1], list[:len(list)-1]
		switch {
		case o.done || seen[o]:
			continue
		case w.awaits(o):
			return true
		}
		seen[o] = true
		list = append(list, o.next...)
	}
	return false
}

// behind adds to found the operations that have to complete after an operation before the wait can end, and reports
// whether it is for the operation. How long they take is not known before they begin.
func (w *Wait) behind(o *Op, found map[*Op]bool) bool {
	if is, known := found[o]; known {
		return is
	}
	is := w.awaits(o)
	found[o] = is
	for _, n := range o.next {
		is = w.behind(n, found) || is
	}
	found[o] = is
	return is
}

// awaits reports whether the wait is for the operation itself.
func (w *Wait) awaits(o *Op) bool {
	if w.List != nil {
		return o.stream.Pending == w.List && o.number <= w.Last
	}
	return slices.Contains(w.Ops, o)
}

// Due returns the time of the last running operation that has to complete before a wait can end, or -1, and how many
// operations come behind those that run.
func (e *Engine) Due(w *Wait) (last int64, more int) {
	last = -1
	found := map[*Op]bool{}
	for _, o := range e.running {
		if w.behind(o, found) {
			last, more = max(last, o.at), more-1
		}
	}
	for _, is := range found {
		if is {
			more++
		}
	}
	return last, more
}

// Wait returns when a wait has ended, or after Poison. The driver is unlocked meanwhile; woken is called each time when
// it is locked again.
func (e *Engine) Wait(w *Wait, woken func()) {
	e.waits++
	for !w.Over() && !e.poisoned {
		e.Arm()
		e.Changed.Wait()
		woken()
		e.CatchUp()
	}
	e.waits--
}
