package cutest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// listener is a testing.TB that records logs and errors.
type listener struct {
	testing.TB
	mu           sync.Mutex
	logs, errors []string
}

func (l *listener) Logf(f string, args ...any) { l.note(&l.logs, f, args) }

func (l *listener) Errorf(f string, args ...any) { l.note(&l.errors, f, args) }

func (l *listener) note(list *[]string, f string, args []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, fmt.Sprintf(f, args...))
}

// stuck returns a function that closes memory whose work waits for a held stream or for virtual
// time.
func stuck(t *testing.T, hold bool, opts ...cusim.Option) (sim *cusim.Driver, stream uintptr, closeAll func() error) {
	sim = cusim.New(opts...)
	drv, err := cu.Open(cu.WithSoftware(sim))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gpu.Close() })
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := gpu.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if hold {
		sim.Hold(s.Handle())
	}
	if err := s.Memset(mem, 1); err != nil {
		t.Fatal(err)
	}
	return sim, s.Handle(), func() error {
		defer s.Close()
		return mem.Close()
	}
}

// TestStuckClose closes memory, and the call waits for something that only the test can do.
func TestStuckClose(t *testing.T) {
	for name, tt := range map[string]struct {
		hold bool
		opts []cusim.Option
		says string
	}{
		"held":    {true, nil, "is held, and goes on with Release(0x"},
		"virtual": {false, []cusim.Option{cusim.VirtualTime()}, "the virtual time stands still, and work ends with Advance("},
	} {
		t.Run(name, func(t *testing.T) {
			sim, _, closeAll := stuck(t, tt.hold, tt.opts...)
			l := &listener{TB: t}
			w := watchSoft(l, sim, 2*lookEvery, 4*lookEvery)
			if err := closeAll(); err != nil { // would wait forever
				t.Error(err)
			}
			w.stop()
			for what, list := range map[string][]string{"log": l.logs, "error": l.errors} {
				if len(list) != 1 || !strings.Contains(list[0], tt.says) ||
					!strings.Contains(list[0], "cuMemFree(0x") || !strings.Contains(list[0], "TestStuckClose") {
					t.Errorf("%s: %q", what, list)
				}
			}
		})
	}
}

// TestNotStuck releases the stream on another goroutine after the wait was reported.
func TestNotStuck(t *testing.T) {
	sim, stream, closeAll := stuck(t, true)
	l := &listener{TB: t}
	w := watchSoft(l, sim, lookEvery, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for {
			l.mu.Lock()
			n := len(l.logs)
			l.mu.Unlock()
			if n > 0 {
				sim.Release(stream)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := closeAll(); err != nil {
		t.Error(err)
	}
	<-ctx.Done()
	w.stop()
	if len(l.errors) != 0 {
		t.Errorf("errors: %q", l.errors)
	}
}
