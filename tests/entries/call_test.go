package entries

import "github.com/purecu/purecu/driver"

// These are the types of the functions that make calls.
type (
	W = *world
	A = driver.At
	S = driver.Stream
	E = driver.Event
	R = driver.Result
)

// onStream returns a call that takes a stream.
func onStream(name string, f func(w W, at A, s S) R) call {
	return call{name: name, stream: true, make: func(w W, at A, s S, _ E) R { return f(w, at, s) }}
}

// onEvent returns a call that takes an event.
func onEvent(name string, f func(w W, at A, e E) R) call {
	return call{name: name, event: true, make: func(w W, at A, _ S, e E) R { return f(w, at, e) }}
}

// both returns a call that takes a stream and an event.
func both(name string, f func(w W, at A, s S, e E) R) call {
	return call{name: name, stream: true, event: true, make: f}
}

// alone returns a call that takes neither.
func alone(name string, f func(w W, at A) R) call {
	return call{name: name, make: func(w W, at A, _ S, _ E) R { return f(w, at) }}
}

func waits(c call) call    { c.waits = true; return c }
func own(c call) call      { c.own = true; return c }
func destroys(c call) call { c.destroys = true; return c }
func refused(c call) call  { c.refused = true; return c }

// with returns calls that need objects, and are made in few scenes.
func with(needs objects, list ...call) []call {
	for i := range list {
		list[i].needs, list[i].few = needs, true
	}
	return list
}
