package engine

// Op is a piece of work on a stream.
type Op struct {
	Calls
	Duration int64 // the time that it takes, in nanoseconds
	Visible  bool  // the effect is visible without a call of the driver
	Outside  bool  // a goroutine that Begin has started completes it

	stream *Stream
	after  int    // number of operations that have to complete before
	next   []*Op  // operations that wait for this one
	first  [1]*Op // where next begins: most often there is one
	began  int64  // the earliest time at which it may begin
	done   bool
	loads  bool  // the device works for the operation
	at     int64 // the time of its completion

	execution *Execution // by a goroutine, or nil
	place
}

// Calls are the functions of an operation. Each may be nil. They are called with the driver locked.
type Calls struct {
	Begin   func()      // when it begins
	Ready   func() bool // reports whether it may complete; nil if it waits for operations only
	Effect  func()      // when it completes
	Apart   func() bool // makes a goroutine do what has an effect, and then complete it, if it returns true
	Dropped func()      // if it will never run
	Provide func() bool // for the caller of Enqueue: reports whether the machine has memory for what is written
	Over    func()      // at the end, also if it has not run
}

// Stream is a queue of operations.
type Stream struct {
	Pending *Pending // the list of its context
	Owner   any      // the caller's stream
	tail    *Op      // the newest operation
	held    bool
	parked  []*Op // operations that could begin if the stream were not held
}

// Tail returns the newest operation, or nil.
func (s *Stream) Tail() *Op { return s.tail }

// Follow makes the first operation of a new stream come after the work of another stream.
func (s *Stream) Follow(other *Stream) { s.tail = other.tail }

// Idle reports whether all work on the stream is complete.
func (s *Stream) Idle() bool { return s.tail == nil || s.tail.done }

// Held reports whether the stream is held, and Parked returns the operations that could begin otherwise.
func (s *Stream) Held() bool { return s.held }

// Parked returns the operations that could begin if the stream were not held.
func (s *Stream) Parked() []*Op { return s.parked }

// Hold stops the stream until Release: operations that have not begun stay pending.
func (s *Stream) Hold() { s.held = true }

// Stream returns the stream on which the operation is.
func (o *Op) Stream() *Stream { return o.stream }

// Done reports whether the operation is complete, or was dropped.
func (o *Op) Done() bool { return o.done }

// At returns the time of the completion.
func (o *Op) At() int64 { return o.at }

// Began returns the earliest time at which the operation may begin.
func (o *Op) Began() int64 { return o.began }

// Awaited reports whether other operations wait for this one.
func (o *Op) Awaited() bool { return len(o.next) > 0 }

// Moving reports whether a goroutine moves the bytes of the operation.
func (o *Op) Moving() bool { return o.execution != nil && o.execution.Kind == Move }

// Execution returns what a goroutine does for the operation, or nil.
func (o *Op) Execution() *Execution { return o.execution }

// Follow makes the operation wait for another one, which may be nil.
func (o *Op) Follow(other *Op) {
	if other != nil && !other.done && other != o {
		o.after++
		if other.next == nil {
			other.next = other.first[:0]
		}
		other.next = append(other.next, o)
	}
}

// WhenOver calls a function when the operation is done, or will never run: at once if it is nil.
func (o *Op) WhenOver(f func()) {
	if o == nil || o.done {
		f()
		return
	}
	and := func(before func()) func() {
		return func() {
			if before != nil {
				before()
			}
			f()
		}
	}
	o.Effect, o.Dropped = and(o.Effect), and(o.Dropped)
}
