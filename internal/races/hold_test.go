package races

import (
	"testing"
	"time"
)

// TestGoingOn looks at stacks of goroutines.
func TestGoingOn(t *testing.T) {
	const (
		own      = "goroutine 1 [running]:\nmain.main()\n\t/src/main.go:3\n"
		library  = "github.com/purecu/purecu/internal/core.(*hostCalls).run(0x1)\n\t/lib/internal/core/hostcalls.go:5\n"
		by       = "created by github.com/purecu/purecu/internal/core.(*hostCalls).add in goroutine 1\n\t/lib/internal/core/hostcalls.go:9\n"
		program  = "main.f()\n\t/src/main.go:9\n"
		byOther  = "created by main.main in goroutine 1\n\t/src/main.go:8\n"
		sleeping = "time.Sleep(0x1)\n\t/go/time/sleep.go:4\n"
	)
	for name, tt := range map[string]struct {
		state, frames string
		want          progress
	}{
		"a receiver":                            {"chan receive, 2 minutes", program + byOther, waiting},
		"a sleeper":                             {"sleep", sleeping + program + byOther, running},
		"a call of the library":                 {"select", library + program + byOther, calling},
		"the library's goroutine":               {"runnable", library + by, waiting},
		"the library's goroutine, which sleeps": {"sleep", sleeping + library + by, waiting},
		"a host function that sleeps":           {"sleep", sleeping + program + library + by, running},
		"a host function that receives":         {"chan receive", program + library + by, waiting},
		"a host function that calls":            {"select", library + program + library + by, calling},
		"a function of Notify that runs":        {"runnable", program + by, running},
	} {
		got := goingOn([]byte(own + "\ngoroutine 7 [" + tt.state + "]:\n" + tt.frames))
		if got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// TestLongDump has more goroutines than a dump can show. Then some count as going on.
func TestLongDump(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	for range maxDump / 100 {
		go func() { <-end }()
	}
	if _, whole := dump(); whole {
		t.Error("the dump is whole")
	}
	if got := others(); got != running {
		t.Errorf("the goroutines' progress is %d", got)
	}
}

// TestTurns looks at the times for which functions are held, and at which of them may go on.
func TestTurns(t *testing.T) {
	d := New(func(Race) {})
	first, second := &held{made: 1}, &held{made: 2, behind: gate()}
	d.held = append(d.held, second, first)
	if d.turn(first).last || !d.turn(second).last {
		t.Error("the one that was enqueued first goes on first")
	}
	if d.turn(second).over {
		t.Error("the program waits for something else")
	}
	if d.need(second.behind); !d.turn(second).over || d.turn(first).over {
		t.Error("the program waits for what is behind the second one")
	}
	sum := time.Duration(0)
	for d.impatience = range 100 {
		if d.stills = d.impatience; d.turn(first).patience < leastPatience {
			t.Fatalf("the time after %d holds is %v", d.impatience, d.turn(first).patience)
		}
		sum += d.turn(first).stillness
	}
	if sum > 2*stillness || d.turn(first).patience != leastPatience {
		t.Errorf("functions are held for %v, and each for %v", sum, d.turn(first).patience)
	}
	if d.Stop(); !d.turn(first).over {
		t.Error("a function is held after Stop")
	}
}

// TestNothingHeld checks that nothing is left of holds.
func TestNothingHeld(t *testing.T) {
	d := New(func(Race) {})
	d.Hold()
	if len(d.held) != 0 || d.freed != 1 {
		t.Errorf("%d are held, %d were let go", len(d.held), d.freed)
	}
}
