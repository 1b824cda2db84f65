package capturegate

import (
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purecu/purecu/driver"
)

// clock is the clock of the tests. In a bubble of synctest its time is virtual.
var clock = driver.New(nil).Clock()

// TestShut makes calls wait at one gate, and not at another.
func TestShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Context
		open := Shut([]*Gate{&c.Legacy}, clock)
		if c.Legacy.TryBegin() {
			t.Error("a call begins at a gate that is shut")
		}
		c.Whole.Begin(clock)
		c.Whole.End()
		var begun atomic.Int32
		for range 3 {
			go func() {
				c.Legacy.Begin(clock)
				begun.Add(1)
			}()
		}
		time.Sleep(time.Minute)
		if n := begun.Load(); n != 0 {
			t.Errorf("%d calls have begun at a gate that is shut", n)
		}
		open()
		time.Sleep(time.Second)
		if n := begun.Load(); n != 3 || !c.Legacy.Busy() {
			t.Errorf("%d calls have begun at the open gate; busy: %v", n, c.Legacy.Busy())
		}
		for range 3 {
			c.Legacy.End()
		}
		if c.Legacy.Busy() || c.Whole.Busy() {
			t.Error("calls are counted that have ended")
		}
	})
}

// TestShutWaits shuts a gate during a call.
func TestShutWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		g.Begin(clock)
		var ended atomic.Bool
		time.AfterFunc(Patience/2, func() {
			ended.Store(true)
			g.End()
		})
		open := Shut([]*Gate{&g}, clock)
		if !ended.Load() {
			t.Error("Shut has returned before the call")
		}
		open()
	})
}

// TestJoin shuts a gate during a call that is counted elsewhere.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		var calls, other marks
		g.AddCounter(&calls)
		g.AddCounter(&other)
		if calls.n.Add(1); g.IsShut() || !g.Busy() {
			t.Errorf("during a call shut: %v, busy: %v", g.IsShut(), g.Busy())
		}
		time.AfterFunc(Patience/2, func() {
			if !g.IsShut() {
				t.Error("the gate is open while Shut waits")
			}
			calls.n.Add(-1)
		})
		open := Shut([]*Gate{&g}, clock)
		if calls.n.Load() != 0 {
			t.Error("Shut has returned before the call")
		}
		open()
		calls.n.Add(1)
		if g.RemoveCounter(&calls); g.Busy() {
			t.Error("calls are counted elsewhere after RemoveCounter")
		}
		if other.n.Add(1); !g.Busy() {
			t.Error("RemoveCounter has undone another AddCounter")
		}
	})
}

// marks are marked calls.
type marks struct{ n atomic.Int32 }

func (m *marks) Gated() bool { return m.n.Load() != 0 }

// TestLongCalls shuts gates during a call that waits for the GPU: the first time this takes as long
// as Shut waits, and then no time, until another such call begins.
func TestLongCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		shut := func(waits bool) {
			t.Helper()
			begun := time.Now()
			Shut([]*Gate{&g}, clock)()
			if took := time.Since(begun); (took >= Patience) != waits {
				t.Errorf("Shut took %v", took)
			}
		}
		first := g.BeginLong(clock)
		shut(true)
		shut(false)
		second := g.BeginLong(clock)
		shut(true)
		g.EndLong(first)
		shut(false)
		if third := g.BeginLong(clock); third != first || second == first {
			t.Errorf("the calls are at places %d, %d and %d", first, second, third)
		}
		g.EndLong(second)
		shut(true)
		shut(false)
		g.EndLong(first)
		if g.Busy() {
			t.Error("calls are counted that have ended")
		}
	})
}

// TestShutYields has captures follow each other: a call between them begins all the same.
func TestShutYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		open := Shut([]*Gate{&g}, clock)
		var begun atomic.Bool
		go func() {
			g.Begin(clock)
			begun.Store(true)
			g.End()
		}()
		for range 100 {
			time.Sleep(time.Millisecond)
			open()
			open = Shut([]*Gate{&g}, clock)
		}
		if !begun.Load() {
			t.Error("captures keep a call from beginning")
		}
		open()
		time.Sleep(time.Second) // the call ends, also if the test has failed
	})
}

// TestOf gets the gates of contexts, which exist as long as somebody refers to them.
func TestOf(t *testing.T) {
	type key struct{ id int }
	count := func() int {
		contexts.mu.Lock()
		defer contexts.mu.Unlock()
		return len(contexts.m)
	}
	one := Of(key{1})
	for i := range 10 {
		Of(key{i})
	}
	deadline := time.Now().Add(10 * time.Second)
	for count() != 1 && time.Now().Before(deadline) {
		runtime.GC()
		runtime.Gosched()
	}
	if n := count(); n != 1 {
		t.Errorf("%d contexts have gates, want 1", n)
	}
	forget(key{1}) // as if the cleanup of earlier gates came late
	if Of(key{1}) != one || Of(key{2}) == one {
		t.Error("equal keys have different gates, or different keys the same")
	}
}

// TestInlined checks that the compiler can inline the functions that calls use.
func TestInlined(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain found")
	}
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, f := range []string{"(*Gate).TryBegin", "(*Gate).End", "(*Gate).IsShut"} {
		if !strings.Contains(string(out), "can inline "+f+"\n") {
			t.Errorf("%s is not inlined", f)
		}
	}
}
