//go:build !explore

package watch

import (
	"runtime"
	"testing"
	"time"
)

// goexitLine is a counter whose Works calls runtime.Goexit, as a tracer may do within it.
type goexitLine struct {
	*fakeLine
	asked chan struct{}
}

func (l goexitLine) Works() error {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	runtime.Goexit()
	return nil
}

// TestWorksEndsGoroutine checks that a counter is released, and checked again later, if its Works
// ends the goroutine.
func TestWorksEndsGoroutine(t *testing.T) {
	d := device(t)
	l := goexitLine{d.line(), make(chan struct{}, 1)}
	l.c.Init(l, &d.domain)
	of := start(func() error { return l.wait(1, nil) })
	<-l.asked
	l.set(1)
	d.ends(t, "raised", of, nil)
	for range 200 {
		if s := d.w.State(); s.Late == 0 && l.refs.Load() == 0 && !l.c.checking.Load() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("late is %d, the counter is retained %d times, and being checked: %v", d.w.State().Late, l.refs.Load(),
		l.c.checking.Load())
}
