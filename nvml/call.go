package nvml

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// words are the numbers of a call: its arguments, of which a is the handle, or its results.
type words struct{ a, b, c, d uint64 }

// A rawCall makes one call of the library. It refers to no variable of the method that makes the call, because it may
// last longer than the method, and because a function that refers to none is not allocated.
type rawCall func(*raw.Library, words) (words, raw.Return)

// object is what a call is about: a device, or a thing that belongs to one, or the library.
type object struct {
	lib    *library
	handle uint64
	lane   *lane
	name   string // in errors, such as "device 0"
	bound  bound
	// instance is what all objects of one MIG instance share. It is nil for an object of another kind.
	instance *migInstance
}

// bound limits how long a call may take. The zero bound is no limit.
type bound struct {
	ctx     context.Context // or nil; it can end
	timeout time.Duration   // or 0; if it is negative, the time is over
}

// with returns the object with another bound.
func (o object) with(b bound) object {
	if b.ctx != nil && b.ctx.Done() == nil {
		b.ctx = nil // such a call would hold the lane of the GPU for as long as it likes
	}
	o.bound = b
	return o
}

// ended returns the channel that is closed when the context of the bound ends, or nil.
func (b *bound) ended() <-chan struct{} {
	if b.ctx == nil {
		return nil
	}
	return b.ctx.Done()
}

// over reports whether the bound has ended for a call that began at a time.
func (b *bound) over(began time.Time) bool {
	return b.ctx != nil && b.ctx.Err() != nil || b.timeout < 0 || b.timeout > 0 && time.Since(began) >= b.timeout
}

// part returns the object of a handle that belongs to the same GPU.
func (o *object) part(handle uint64, name string) object {
	p := *o
	p.handle, p.name, p.instance = handle, name, nil
	return p
}

// call makes a call whose first argument is the handle of o.
func (o *object) call(op string, w words, f rawCall) (words, error) {
	if o == nil {
		return words{}, nilError(op)
	}
	if err := o.lib.refs.Enter(o.lib, op); err != nil {
		return words{}, err
	}
	w.a = o.handle
	if o.instance != nil {
		f = o.instance.guard(f)
	}
	if o.bound != (bound{}) {
		return o.callBounded(op, w, f)
	}
	w, r := f(o.lib.raw, w)
	o.lib.refs.Release(o.lib)
	if r != raw.NVML_SUCCESS {
		return words{}, o.fail(op, r)
	}
	return w, nil
}

// get makes a call whose result is no number. f must not change variables of its caller, as it may last longer.
func get[T any](o *object, op string, f func(l *raw.Library, handle uint64) (T, raw.Return)) (v T, err error) {
	if o == nil {
		return v, nilError(op)
	}
	if err := o.lib.refs.Enter(o.lib, op); err != nil {
		return v, err
	}
	if o.bound == (bound{}) && o.instance == nil {
		v, r := f(o.lib.raw, o.handle)
		o.lib.refs.Release(o.lib)
		if r != raw.NVML_SUCCESS {
			var none T
			return none, o.fail(op, r)
		}
		return v, nil
	}
	result := new(T)
	call := func(l *raw.Library, w words) (_ words, r raw.Return) {
		*result, r = f(l, w.a)
		return words{}, r
	}
	if o.instance != nil {
		call = o.instance.guard(call)
	}
	if o.bound == (bound{}) {
		_, r := call(o.lib.raw, words{a: o.handle})
		o.lib.refs.Release(o.lib)
		if r != raw.NVML_SUCCESS {
			return v, o.fail(op, r)
		}
		return *result, nil
	}
	_, err = o.callBounded(op, words{a: o.handle}, call)
	if err != nil {
		return v, err // the call may be setting the result yet
	}
	return *result, nil
}

// lane makes the bounded calls that are about one GPU, one at a time. So a GPU that does not answer holds one thread,
// however often the program asks.
type lane struct {
	turn chan struct{} // has an element during a call
	job  *job          // belongs to the caller that has the turn

	instances migInstances // of the GPU

	mu    sync.Mutex
	op    string // the call that is made, or ""
	since time.Time
}

func newLane() *lane { return &lane{turn: make(chan struct{}, 1)} }

// begin notes which call is made. The caller has the turn.
func (l *lane) begin(op string, since time.Time) {
	l.mu.Lock()
	l.op, l.since = op, since
	l.mu.Unlock()
}

// end lets another call begin.
func (l *lane) end() {
	l.mu.Lock()
	l.op = ""
	l.mu.Unlock()
	<-l.turn
}

// silent returns the call that is made, and for how long NVML has not answered it. op is "" if none is made.
func (l *lane) silent() (op string, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.op == "" {
		return "", 0
	}
	return l.op, time.Since(l.since)
}

// job is a call that its own goroutine makes.
type job struct {
	lane  *lane
	lib   *library
	f     rawCall
	w     words
	r     raw.Return
	state atomic.Int32
	done  chan struct{} // gets an element at the end, unless the job was abandoned
	timer *time.Timer
	start func() // run, as a value that is not allocated for each call
}

// The states of a job.
const (
	jobRuns = iota
	jobDone
	jobAbandoned
)

// run makes the call.
func (j *job) run() {
	j.w, j.r = j.f(j.lib.raw, j.w)
	if j.state.CompareAndSwap(jobRuns, jobDone) {
		j.done <- struct{}{}
		return
	}
	// Nobody waits for the result. As soon as the turn ends, the next caller uses j, but not its lib.
	j.f = nil
	j.lane.end()
	j.lib.refs.Release(j.lib)
}

// next returns a job that can be started. The caller has the turn.
func (l *lane) next(lib *library) *job {
	if l.job == nil {
		j := &job{lane: l, lib: lib, done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
		j.start = j.run
		j.timer.Stop()
		l.job = j
	}
	l.job.state.Store(jobRuns)
	return l.job
}

// callBounded makes a call on another goroutine, and waits for it until the bound ends. The caller is counted as a user
// of the library. If the bound ends before NVML is called, NVML is not called.
func (o *object) callBounded(op string, w words, f rawCall) (words, error) {
	l := o.lane
	began := time.Now()
	if !o.takeTurn(began) {
		o.lib.refs.Release(o.lib)
		return words{}, o.exceeded(op)
	}
	l.begin(op, time.Now())
	j := l.next(o.lib)
	j.f, j.w = f, w
	var expired <-chan time.Time
	if o.bound.timeout > 0 {
		j.timer.Reset(o.bound.timeout - time.Since(began))
		expired = j.timer.C
	}
	go j.start()
	select {
	case <-j.done:
	case <-expired:
		if j.abandon() {
			return words{}, o.exceeded(op)
		}
	case <-o.bound.ended():
		if j.abandon() {
			return words{}, o.exceeded(op)
		}
	}
	j.timer.Stop()
	w, r := j.w, j.r
	j.f = nil
	l.end()
	o.lib.refs.Release(o.lib)
	if r != raw.NVML_SUCCESS {
		return words{}, o.fail(op, r)
	}
	return w, nil
}

// takeTurn waits until no other bounded call is made about the GPU. It reports false if the caller's bound ends before,
// or if the other call has lasted as long as the caller would wait.
func (o *object) takeTurn(began time.Time) bool {
	if o.bound.over(began) {
		return false
	}
	select {
	case o.lane.turn <- struct{}{}:
		return true
	default:
	}
	var expired <-chan time.Time
	if limit := o.bound.timeout; limit > 0 {
		if _, lasts := o.lane.silent(); lasts >= limit {
			return false
		}
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case o.lane.turn <- struct{}{}:
		if !o.bound.over(began) {
			return true
		}
		<-o.lane.turn
	case <-expired:
	case <-o.bound.ended():
	}
	return false
}

// abandon leaves a job to its goroutine, which keeps the turn until the call returns. It reports false if the job is
// done.
func (j *job) abandon() bool {
	if j.state.CompareAndSwap(jobRuns, jobAbandoned) {
		return true
	}
	<-j.done
	return false
}

// lacks reports whether a library does not have a function, or not this version of it, so that an older one is tried.
func lacks(r raw.Return) bool {
	function, _ := r.Missing()
	return function != "" || r == raw.NVML_ERROR_FUNCTION_NOT_FOUND || r == raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
}
