//go:build explore

package explore

import (
	"slices"
	"strings"
	"testing"
)

// programs are correct and faulty programs, with the failure that Check has to find.
var programs = []struct {
	name    string
	fails   string // part of the failure; "" for a program that is right
	program func(r *Run)
}{
	{"an addition is atomic", "", func(r *Run) {
		var x Uint64
		add := func() { x.Add(1) }
		r.Go(add)
		r.Go(add)
		r.Go(add)
		r.Finally(func() {
			if x.Load() != 3 {
				r.Fail("an addition was lost")
			}
		})
	}},
	{"a load and a store are not atomic", "an addition was lost", func(r *Run) {
		var x Int32
		add := func() { x.Store(x.Load() + 1) }
		r.Go(add)
		r.Go(add)
		r.Finally(func() {
			if x.Load() != 2 {
				r.Fail("an addition was lost")
			}
		})
	}},
	{"a mutex excludes", "", func(r *Run) {
		var mu Mutex
		var x Int64
		add := func() {
			mu.Lock()
			defer mu.Unlock()
			x.Store(x.Load() + 1)
		}
		r.Go(add)
		r.Go(add)
		r.Finally(func() {
			if x.Load() != 2 {
				r.Fail("an addition was lost")
			}
		})
	}},
	{"two locks in two orders", "no goroutine can continue", func(r *Run) {
		var a, b Mutex
		r.Go(func() { a.Lock(); b.Lock(); b.Unlock(); a.Unlock() })
		r.Go(func() { b.Lock(); a.Lock(); a.Unlock(); b.Unlock() })
	}},
	{"a signal before the wait is lost", "goroutine 0: receive", func(r *Run) {
		wake := make(chan struct{}, 1)
		var waits, done Bool
		r.Go(func() {
			if !done.Load() {
				waits.Store(true)
				Receive(wake)
			}
		})
		r.Go(func() {
			done.Store(true)
			if waits.Load() {
				TrySend(wake, struct{}{})
			}
		})
	}},
	{"a waiter that checks again is woken", "", func(r *Run) {
		wake := make(chan struct{}, 1)
		var waits, done Bool
		r.Go(func() {
			waits.Store(true)
			if !done.Load() {
				Receive(wake)
			}
		})
		r.Go(func() {
			done.Store(true)
			if waits.Load() {
				TrySend(wake, struct{}{})
			}
		})
	}},
	{"a closed channel wakes all goroutines", "", func(r *Run) {
		over, never := make(chan struct{}), make(chan int)
		var n Int32
		r.Go(func() { Either(over, never); n.Add(1) })
		r.Go(func() { Receive(over); n.Add(1) })
		r.Go(func() { Close(over) })
		r.Finally(func() {
			if n.Load() != 2 {
				r.Fail("%d were woken", n.Load())
			}
		})
	}},
	{"a loop waits for another goroutine", "", func(r *Run) {
		var on Bool
		r.Go(func() {
			for !on.Load() {
				Gosched()
			}
		})
		r.Go(func() { on.Store(true) })
	}},
	{"a loop without an end", "does not end", func(r *Run) {
		var on Bool
		r.Go(func() {
			for !on.Load() {
				Gosched()
			}
		})
	}},
	{"a goroutine starts another", "the second was first", func(r *Run) {
		var first Bool
		r.Go(func() {
			Go(func() {
				if !first.Load() {
					r.Fail("the second was first")
				}
			})
			first.Store(true)
		})
	}},
	{"a panic", "panic: an accident", func(r *Run) {
		var x Pointer[int]
		r.Go(func() {
			if x.Load() != nil {
				panic("an accident")
			}
		})
		r.Go(func() { x.Store(new(int)) })
	}},
	{"all choices are explored", "both are 1", func(r *Run) {
		r.Go(func() {
			if Choose(2)+Choose(2) == 2 {
				r.Fail("both are 1")
			}
		})
	}},
	{"an abandoned goroutine unlocks", "no goroutine can continue", func(r *Run) {
		var mu Mutex
		r.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			Await("a condition that stays false", func() bool { return false })
		})
	}},
	{"a second unlock", "unlock of an unlocked Mutex", func(r *Run) {
		var mu Mutex
		r.Go(func() { mu.Unlock() })
	}},
	{"three preemptions are one too many", "", threePreemptions},
}

// threePreemptions fails only if the first goroutine is preempted at three places.
func threePreemptions(r *Run) {
	var x, y Int32
	r.Go(func() {
		a := y.Load()
		b := y.Load()
		c := y.Load()
		d := y.Load()
		if a == 0 && b == 1 && c == 2 && d == 3 {
			r.Fail("preempted three times")
		}
	})
	r.Go(func() {
		for range 3 {
			x.Load() // a place where it has to be preempted, too
			y.Add(1)
			x.Load()
		}
	})
}

func TestExplore(t *testing.T) {
	for _, p := range programs {
		t.Run(strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) {
			n, failed := explore(p.program, 2, 0, 1)
			switch {
			case failed == nil && p.fails != "":
				t.Fatalf("%d schedules found no fault", n)
			case failed == nil:
				t.Logf("%d schedules", n)
				return
			case p.fails == "" || !strings.Contains(failed.failure, p.fails):
				t.Fatal(failed.failure)
			}
			schedule := format(failed.decisions)
			decisions, err := parse(schedule)
			if err != nil {
				t.Fatal(err)
			}
			if r := again(p.program, decisions); r.failure != failed.failure {
				t.Errorf("schedule %s failed: %s\nWhen it was run again: %q, after\n%s",
					schedule, failed.failure, r.failure, strings.Join(r.trace, "\n"))
			}
		})
	}
}

func TestBounds(t *testing.T) {
	if n, failed := explore(threePreemptions, 6, 0, 1); failed == nil {
		t.Errorf("%d schedules found no fault with up to 6 preemptions", n)
	}
	if n, failed := explore(threePreemptions, 0, 20000, 1); failed == nil {
		t.Errorf("%d schedules found no fault at random", n)
	}
	// Two goroutines of two steps each. The first step is made before the choice, so that without a
	// preemption they run one after the other.
	two := func(r *Run) {
		var x Int32
		for range 2 {
			r.Go(func() { x.Add(1); x.Add(1) })
		}
	}
	for bound, want := range []int{2, 4, 6, 6} {
		if n, _ := explore(two, bound, 0, 1); n != want {
			t.Errorf("%d schedules with up to %d preemptions, want %d", n, bound, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, test := range []struct {
		decisions []int
		want      string
	}{
		{nil, "0"},
		{[]int{0, 0}, "0"},
		{[]int{0, 0, 0, 1, 2, 2, 0}, "3*0 1 2*2"},
	} {
		got := format(test.decisions)
		if got != test.want {
			t.Errorf("format(%v) = %q, want %q", test.decisions, got, test.want)
		}
		back, err := parse(got)
		for len(back) < len(test.decisions) {
			back = append(back, 0)
		}
		if err != nil || !slices.Equal(back[:len(test.decisions)], test.decisions) {
			t.Errorf("parse(%q) = %v, %v", got, back, err)
		}
	}
	for _, s := range []string{"x", "2*", "*1", "-1"} {
		if _, err := parse(s); err == nil {
			t.Errorf("parse(%q) succeeded", s)
		}
	}
}

// TestOutside uses the types outside of a run, where they behave like the standard types.
func TestOutside(t *testing.T) {
	var mu Mutex
	var n Int64
	done := make(chan struct{}, 4)
	for range 4 {
		Go(func() {
			for range 1000 {
				mu.Lock()
				n.Store(n.Load() + 1)
				mu.Unlock()
				Gosched()
			}
			Send(done, struct{}{})
		})
	}
	for range 4 {
		Receive(done)
	}
	if n.Load() != 4000 || Choose(3) != 0 {
		t.Errorf("n = %d", n.Load())
	}
}
