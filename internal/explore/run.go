//go:build explore

package explore

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
)

// maxSteps is how many steps a schedule may have. A program that needs more never ends.
const maxSteps = 5000

// current is the run that is under way. The explored types have no other way to find it: they have the
// methods of the standard types, and their zero values are ready for use.
var current *Run

// Run is one run of a program, under one schedule.
type Run struct {
	strategy   strategy
	goroutines []*goroutine
	// running is the goroutine that makes the present step. It is nil while the program is set up, and in Finally.
	running *goroutine
	// next is the goroutine that makes the next step; nil if none can.
	next        *goroutine
	finally     []func()
	steps       int
	preemptions int
	// decisions are the options that were chosen where there was more than one.
	decisions []int
	failure   string
	// abandoned says that the goroutines that are left have to end.
	abandoned bool
	// trace holds a line for each step, if traced is set.
	traced bool
	trace  []string
}

// goroutine is one that the scheduler controls. It is a coroutine, as only one of them runs at a time.
type goroutine struct {
	id      int
	resume  func() (struct{}, bool)
	stop    func()
	suspend func(struct{}) bool
	// started is set when it has reached its first scheduling point.
	started, done bool
	op            string
	ready         func() bool // nil if it can make its next step
}

// unwind is the panic that ends a goroutine of a run that is over.
type unwind struct{}

// strategy decides on the schedule.
type strategy interface {
	// pick returns an option from 0 to n-1. Where preempting is set, each but 0 is a preemption.
	pick(r *Run, n int, preempting bool) int
}

// Go starts a goroutine of the program.
func (r *Run) Go(f func()) { r.start(f) }

// Finally has f called when all goroutines have returned, before the functions that were passed
// earlier. What it does is no step of a schedule.
func (r *Run) Finally(f func()) { r.finally = append(r.finally, f) }

// Fail reports that the program went wrong, and ends the run.
func (r *Run) Fail(format string, args ...any) {
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
	panic(unwind{})
}

// start starts a goroutine, and runs it up to its first scheduling point: nobody sees what it does before.
func (r *Run) start(f func()) {
	g := &goroutine{id: len(r.goroutines)}
	r.goroutines = append(r.goroutines, g)
	g.resume, g.stop = iter.Pull(func(yield func(struct{}) bool) {
		g.suspend = yield
		defer func() { g.done = true }()
		defer r.caught()
		f()
	})
	before := r.running
	r.running = g
	g.resume()
	r.running = before
}

// caught recovers from a panic, and takes it for a failure unless it only ends the run.
func (r *Run) caught() {
	switch e := recover().(type) {
	case nil, unwind:
	default:
		if r.failure == "" {
			r.failure = fmt.Sprintf("panic: %v", e)
		}
	}
}

// do runs the program.
func (r *Run) do(program func(*Run)) {
	current = r
	defer func() { current = nil }()
	r.set(func() { program(r) })
	if r.failure == "" {
		r.next = r.choose(nil, false)
	}
	for r.next != nil && r.failure == "" {
		g := r.next
		r.running = g
		g.resume()
		if g.done && r.failure == "" {
			r.next = r.choose(nil, false)
		}
	}
	r.running = nil
	if r.failure == "" {
		r.failure = r.stuck()
	}
	r.abandoned = true
	for _, g := range r.goroutines {
		r.running = g
		g.stop()
	}
	r.running = nil
	for _, f := range slices.Backward(r.finally) {
		if r.failure == "" {
			r.set(f)
		}
	}
}

// set runs a part of the program that is no goroutine.
func (r *Run) set(f func()) {
	defer r.caught()
	f()
}

// stuck describes the goroutines that cannot go on; "" if all have returned.
func (r *Run) stuck() string {
	var all []string
	for _, g := range r.goroutines {
		if !g.done {
			all = append(all, fmt.Sprintf("goroutine %d: %s", g.id, g.op))
		}
	}
	if all == nil {
		return ""
	}
	return "no goroutine can go on: a deadlock, or a lost wake-up: " + strings.Join(all, ", ")
}

// choose returns the goroutine that makes the next step, nil if none can. present is the one that has made the last
// step, unless it has returned. yields says that another one should make the next.
func (r *Run) choose(present *goroutine, yields bool) *goroutine {
	if r.steps++; r.steps > maxSteps {
		r.failure = fmt.Sprintf("the program does not end: it has made %d steps", maxSteps)
		return nil
	}
	var options [8]*goroutine
	able := options[:0]
	canGoOn := present != nil && (present.ready == nil || present.ready())
	if canGoOn && !yields {
		able = append(able, present)
	}
	for _, g := range r.goroutines {
		if g != present && !g.done && (g.ready == nil || g.ready()) {
			able = append(able, g)
		}
	}
	switch {
	case len(able) == 0 && canGoOn:
		return present
	case len(able) == 0:
		return nil
	}
	i := r.decide(len(able), canGoOn && !yields)
	if canGoOn && !yields && i > 0 {
		r.preemptions++
	}
	return able[i]
}

// decide returns one of n options.
func (r *Run) decide(n int, preempting bool) int {
	if n == 1 {
		return 0
	}
	i := r.strategy.pick(r, n, preempting)
	r.decisions = append(r.decisions, i)
	return i
}

// point is a scheduling point before an operation of the running goroutine. The goroutine makes no step while ready
// reports false.
func (r *Run) point(op string, ready func() bool, yields bool) {
	g := r.running
	if r.abandoned {
		if ready != nil {
			panic(unwind{})
		}
		return
	}
	g.op, g.ready = op, ready
	if g.started {
		r.next = r.choose(g, yields)
	} else {
		g.started = true
		r.next = nil
	}
	if r.next != g && !g.suspend(struct{}{}) {
		panic(unwind{})
	}
	g.ready = nil
	if r.traced {
		r.trace = append(r.trace, fmt.Sprintf("goroutine %d: %-24s %s", g.id, op, caller()))
	}
}

// caller returns where the running goroutine is, outside of this package's own code.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		own := strings.Contains(f.File, "internal/explore/") && !strings.HasSuffix(f.File, "_test.go")
		if !own || !more {
			return fmt.Sprintf("%s:%d", f.File[strings.LastIndex(f.File, "/")+1:], f.Line)
		}
	}
}

// step is a scheduling point. It reports false where no program runs.
func step(op string) bool {
	r := current
	if r == nil || r.running == nil {
		return false
	}
	r.point(op, nil, false)
	return true
}

// wait is a step that is made when ready reports true.
func wait(op string, ready func() bool) bool {
	r := current
	if r == nil || r.running == nil {
		return false
	}
	r.point(op, ready, false)
	return true
}

func yield() {
	if r := current; r != nil && r.running != nil {
		r.point("Gosched", nil, true)
		return
	}
	runtime.Gosched()
}

// fail reports that the running program has misused a type of this package.
func fail(what string) {
	if r := current; r != nil && !r.abandoned {
		r.Fail("%s", what)
	}
}

// Await waits until a condition holds that steps of other goroutines bring about. It is for the programs of tests.
func Await(what string, holds func() bool) { wait(what, holds) }

// Choose returns a number from 0 to n-1: Check tries all of them. It is for the programs of tests, such as for what a
// device answers.
func Choose(n int) int {
	if r := current; r != nil && !r.abandoned {
		return r.decide(n, false)
	}
	return 0
}

// Peek returns a value without a step. It is for the checks of tests.
func Peek[T any](x interface{ peek() T }) T { return x.peek() }
