//go:build explore

package handle

import "github.com/purecu/purecu/internal/explore"

// keeper is an object, such as a stream, that keeps the objects that its calls use.
type keeper struct {
	object
	Refs
	kept   Kept[keepable, *keepable]
	device explore.Int32
}

// keepable is an object that a keeper may keep. number is its number in each Kept.
type keepable struct {
	counted
	number uint8
	// users are the keepers that may keep the object, in the order in which they are noted.
	users [2]explore.Pointer[keeper]
	// dropped says that a close has returned.
	dropped bool
}

func (o *keepable) Leave() { o.Release(o) }

func newKeeper(r *explore.Run) *keeper {
	k := &keeper{object: object{r: r}}
	r.Finally(func() {
		k.close()
		k.check()
		if w := k.word.Load(); w != refClosed|refGone {
			r.Fail("the word is %b at the end", w)
		}
		for n := k.kept.dropped.Load(); n != nil; n = n.next {
			if n.handle.Load() != nil {
				r.Fail("a handle is not released")
			}
		}
	})
	return k
}

func newKeepable(r *explore.Run, number uint8) *keepable {
	o := &keepable{counted: counted{object: object{r: r}}, number: number}
	r.Finally(func() {
		for i := range o.users {
			if k := o.users[i].Load(); k != nil {
				k.close()
			}
		}
		o.check()
		if o.closed && o.firsts != 1 || o.CallsInFlight() != 0 {
			r.Fail("%d closes were the first, and %d calls are left", o.firsts, o.CallsInFlight())
		}
	})
	return o
}

func (k *keeper) Last(later bool) { k.destroy() }

func (k *keeper) destroy() {
	k.kept.DropAll()
	k.object.destroy()
}

// close reports whether it has destroyed the keeper.
func (k *keeper) close() (last bool) {
	k.closed = true
	if _, last = k.Close(); last {
		k.destroy()
	}
	return last
}

// note notes that the keeper may keep the object from now on.
func (o *keepable) note(k *keeper) {
	for i := range o.users {
		if o.users[i].Load() == k || o.users[i].CompareAndSwap(nil, k) {
			return
		}
	}
	o.r.Fail("there is no room for the keeper")
}

// close closes the object as package cu does: a call of its own is in flight until the object is
// dropped, so that the close can destroy the object. It reports whether it was the first, and whether
// it has destroyed the object.
func (o *keepable) close() (first, last bool) {
	o.closed = true
	if !o.CloseAndRetain() {
		return false, false
	}
	o.firsts++
	for i := range o.users {
		if k := o.users[i].Load(); k != nil {
			k.kept.Drop(&k.Refs, o, o.number)
		}
	}
	o.dropped = true
	if last = o.ReleaseLast(); last {
		o.destroy()
	}
	return true, last
}

// call makes a call that uses some objects, and reports how many of them were in the set.
func (k *keeper) call(objects ...*keepable) (kept int) {
	turn := k.kept.BeginTurn(&k.Refs)
	if !turn && !k.Acquire(k) {
		return 0
	}
	k.enter()
	var used, counted []*keepable
	for _, o := range objects {
		late := o.dropped
		switch {
		case turn && k.kept.Has(o, o.number):
			kept++
		case !o.Acquire(o):
			continue
		default:
			o.note(k)
			if turn && k.kept.Add(&k.Refs, o, o.number) {
				o.Release(o)
			} else {
				counted = append(counted, o)
			}
		}
		if late {
			k.r.Fail("a call uses an object after its close")
		}
		o.enter()
		used = append(used, o)
	}
	k.device.Add(1)
	for _, o := range used {
		o.leave()
	}
	for _, o := range counted {
		o.Release(o)
	}
	k.leave()
	if turn {
		k.kept.EndTurn(&k.Refs, k)
	} else {
		k.Release(k)
	}
	return kept
}

// callGated makes a gated call, which uses no object.
func (k *keeper) callGated() {
	if !k.AcquireGated(k) {
		return
	}
	k.enter()
	k.leave()
	if !k.Gated() {
		k.r.Fail("the call is not gated at its end")
	}
	k.ReleaseGated(k)
}

var keptPrograms = []program{
	{"a kept object is not counted again", func(r *explore.Run) {
		k, o, p := newKeeper(r), newKeepable(r, 1), newKeepable(r, 1+KeptPlaces)
		r.Go(func() {
			if k.call(o) != 0 || k.call(o) != 1 || o.CallsInFlight() != 1 {
				r.Fail("the object is not kept")
			}
			if k.call(p, p) != 0 || k.call(o) != 1 {
				r.Fail("another object has taken the place")
			}
			for range keptPatience {
				k.call(p)
			}
			if k.call(p) != 1 || k.call(o) != 0 || o.CallsInFlight() != 0 {
				r.Fail("the other object has not taken the place")
			}
		})
	}},
	{"two calls, and a close of the object", func(r *explore.Run) {
		k, o := newKeeper(r), newKeepable(r, 1)
		r.Go(func() { k.call(o); k.call(o) })
		r.Go(func() { o.close() })
	}},
	{"a call with a kept object, and its close", func(r *explore.Run) {
		k, o := newKeeper(r), newKeepable(r, 1)
		k.call(o)
		r.Go(func() { k.call(o) })
		r.Go(func() { o.close() })
	}},
	{"two goroutines that call, and a close of the object", func(r *explore.Run) {
		k, o := newKeeper(r), newKeepable(r, 1)
		k.call(o)
		r.Go(func() { k.call(o) })
		r.Go(func() { k.call(o) })
		r.Go(func() { o.close() })
	}},
	{"a call that adds an object, and two closes", func(r *explore.Run) {
		k, o := newKeeper(r), newKeepable(r, 1)
		r.Go(func() { k.call(o) })
		r.Go(func() { o.close() })
		r.Go(func() { o.close() })
	}},
	{"calls with two kept objects, and their closes", func(r *explore.Run) {
		k, o, p := newKeeper(r), newKeepable(r, 1), newKeepable(r, 2)
		k.call(o, p)
		r.Go(func() { k.call(o, p); k.call(p) })
		r.Go(func() { o.close() })
		r.Go(func() { p.close() })
	}},
	{"calls with kept objects that are closed one after the other", func(r *explore.Run) {
		k, o, p := newKeeper(r), newKeepable(r, 1), newKeepable(r, 2)
		k.call(o, p)
		r.Go(func() { k.call(o); k.call(p) })
		r.Go(func() { o.close(); p.close() })
	}},
	{"three objects that are closed during a call", func(r *explore.Run) {
		k, o, p, q := newKeeper(r), newKeepable(r, 1), newKeepable(r, 2), newKeepable(r, 3)
		k.call(o, p, q)
		r.Go(func() { k.call(q) })
		r.Go(func() { o.close(); q.close() })
		r.Go(func() { p.close() })
	}},
	{"an object takes the place of another one, and closes of both", func(r *explore.Run) {
		k, o, p := newKeeper(r), newKeepable(r, 1), newKeepable(r, 1)
		k.call(o)
		k.kept.misses = keptPatience - 1
		r.Go(func() { k.call(o, p); k.call(p) })
		r.Go(func() { o.close() })
		r.Go(func() { p.close() })
	}},
	{"three objects that have one place, in a call", func(r *explore.Run) {
		k, o, p, q := newKeeper(r), newKeepable(r, 1), newKeepable(r, 1), newKeepable(r, 1)
		k.call(o)
		k.kept.misses = keptPatience - 1
		r.Go(func() {
			k.call(o, p)
			k.kept.misses = keptPatience - 1
			k.call(p, q)
		})
		r.Go(func() { o.close() })
		r.Go(func() { k.call(q) })
	}},
	{"two objects that would take a place in one turn", func(r *explore.Run) {
		k := newKeeper(r)
		var objects []*keepable
		for range keptPatience + 2 {
			objects = append(objects, newKeepable(r, 1))
		}
		k.call(objects[0])
		k.kept.misses = keptPatience - 1
		r.Go(func() { k.call(objects[1:]...) })
	}},
	{"a close of the keeper, a call, and a close of the object", func(r *explore.Run) {
		k, o := newKeeper(r), newKeepable(r, 1)
		k.call(o)
		r.Go(func() { k.close() })
		r.Go(func() { k.call(o) })
		r.Go(func() { o.close() })
	}},
	{"a gated call on the keeper, a call, and a close of the object", func(r *explore.Run) {
		k, o := newKeeper(r), newKeepable(r, 1)
		k.call(o)
		r.Go(k.callGated)
		r.Go(func() { k.call(o) })
		r.Go(func() { o.close() })
	}},
	{"a close of the keeper, a gated call, and a call", func(r *explore.Run) {
		k, o := newKeeper(r), newKeepable(r, 1)
		k.call(o)
		r.Go(func() { k.close() })
		r.Go(k.callGated)
		r.Go(func() { k.call(o) })
	}},
	{"two keepers of an object, and its close", func(r *explore.Run) {
		k, l, o := newKeeper(r), newKeeper(r), newKeepable(r, 1)
		k.call(o)
		r.Go(func() { l.call(o); l.call(o) })
		r.Go(func() { k.call(o) })
		r.Go(func() { o.close() })
	}},
	{"a close during a call that counts the object", func(r *explore.Run) {
		k, o, p := newKeeper(r), newKeepable(r, 1), newKeepable(r, 1)
		k.call(p)
		r.Go(func() { k.call(o) })
		r.Go(func() { o.close() })
	}},
	{"a close of the object while the keeper is closed", func(r *explore.Run) {
		k, o := newKeeper(r), newKeepable(r, 1)
		k.call(o)
		r.Go(func() {
			if !k.close() {
				r.Fail("the close of an object is a call on its keeper")
			}
		})
		r.Go(func() { o.close() })
	}},
	{"two closes of a kept object", func(r *explore.Run) {
		k, o := newKeeper(r), newKeepable(r, 1)
		k.call(o)
		for range 2 {
			r.Go(func() {
				if first, last := o.close(); first != last {
					r.Fail("the first close has not destroyed the object")
				}
			})
		}
	}},
	{"a close whose call is the last one", func(r *explore.Run) {
		o := newKeepable(r, 1)
		r.Go(func() { o.close() })
		r.Go(func() { o.close() })
		r.Go(func() { o.call() })
	}},
}
