package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestThreadElsewhere uses the default stream of Do's thread on other goroutines, where it would be another stream.
func TestThreadElsewhere(t *testing.T) {
	r := NewSoft(t)
	if driver.CurrentThread() == 0 {
		t.Skip("this platform does not tell threads apart")
	}
	e := r.Event(EventDefault)
	r.OK(r.GPU.Do(func(th *Thread) error {
		s := Need(th.DefaultStream())(t)
		r.OK(e.Record(s))
		elsewhere := make(chan map[string]error)
		go func() {
			_, query := s.Query()
			elsewhere <- map[string]error{
				"Record": e.Record(s), "WaitEvent": s.WaitEvent(e), "Query": query, "Synchronize": s.Synchronize(),
				"Launch": r.Spin.Launch(s, OneThread, U64(0)), "HostFunc": s.HostFunc(func() { t.Error("it was called") }),
			}
		}()
		for op, err := range <-elsewhere {
			if !errors.Is(err, core.ErrThread) {
				t.Errorf("%s on another goroutine: %v", op, err)
			}
		}
		return s.Synchronize()
	}))
}
