package nvml_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// sick is an NVML whose calls about some devices do not return before they are released. The device with index n has
// handle n+1.
type sick struct {
	raw.Unimplemented
	mu        sync.Mutex
	hangs     map[raw.Device]chan struct{}
	hung      map[raw.Device]int // the calls that hang now
	most      map[raw.Device]int // the most that hung at one time
	init      chan struct{}      // nvmlInit returns when it is closed
	initFails bool
	shut      chan struct{} // nvmlShutdown returns when it is closed
	calls     atomic.Int32  // of DeviceGetName
	shutdowns atomic.Int32
}

// hang makes calls about a device hang until the result is called.
func (s *sick) hang(d raw.Device) (release func()) {
	ch := make(chan struct{})
	s.mu.Lock()
	s.hangs[d] = ch
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		delete(s.hangs, d)
		s.mu.Unlock()
		close(ch)
	}
}

func (s *sick) about(d raw.Device) {
	s.mu.Lock()
	ch := s.hangs[d]
	s.hung[d]++
	s.most[d] = max(s.most[d], s.hung[d])
	s.mu.Unlock()
	if ch != nil {
		<-ch
	}
	s.mu.Lock()
	s.hung[d]--
	s.mu.Unlock()
}

func (s *sick) mostHung(d raw.Device) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most[d]
}

func (s *sick) InitV2() raw.Return {
	if s.init != nil {
		<-s.init
	}
	if s.initFails {
		return raw.NVML_ERROR_UNKNOWN
	}
	return raw.NVML_SUCCESS
}

func (s *sick) Shutdown() raw.Return {
	s.shutdowns.Add(1)
	if s.shut != nil {
		<-s.shut
	}
	return raw.NVML_SUCCESS
}

func (s *sick) DeviceGetHandleByIndexV2(index uint32, d *raw.Device) raw.Return {
	*d = raw.Device(index + 1)
	return raw.NVML_SUCCESS
}

func (s *sick) DeviceGetIndex(d raw.Device, index *uint32) raw.Return {
	s.about(d)
	*index = uint32(d) - 1
	return raw.NVML_SUCCESS
}

func (s *sick) DeviceGetName(d raw.Device, name []byte) raw.Return {
	s.calls.Add(1)
	s.about(d)
	copy(name, fmt.Sprintf("GPU %d\x00", d-1))
	return raw.NVML_SUCCESS
}

// ward returns a library on a sick NVML, and its first devices.
func ward(t *testing.T, n int, opts ...nvml.Option) (*sick, *nvml.Library, []*nvml.Device) {
	s := &sick{hangs: map[raw.Device]chan struct{}{}, hung: map[raw.Device]int{}, most: map[raw.Device]int{}}
	lib, err := nvml.Open(append(opts, nvml.WithSoftware(s))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lib.Close() })
	devs := make([]*nvml.Device, n)
	for i := range devs {
		if devs[i], err = lib.Device(i); err != nil {
			t.Fatal(err)
		}
	}
	return s, lib, devs
}

// took fails the test unless a time has passed since began.
func took(t *testing.T, began time.Time, want time.Duration) {
	t.Helper()
	if d := time.Since(began); d != want {
		t.Errorf("it took %v instead of %v", d, want)
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, lib, devs := ward(t, 2)
		release := s.hang(1)
		dev := devs[0].WithTimeout(2 * time.Second)
		began := time.Now()
		name, err := dev.Name()
		took(t, began, 2*time.Second)
		var e *nvml.Error
		if !errors.Is(err, nvml.ErrTimeout) || !errors.As(err, &e) || e.Op != "nvmlDeviceGetName" || e.Device != "device 0" || name != "" {
			t.Errorf("%q, %v", name, err)
		}
		if errors.Is(err, context.DeadlineExceeded) || lib.Exceeded() != 1 {
			t.Errorf("%v; %d calls were too late", err, lib.Exceeded())
		}

		// NVML has been silent for as long as the next call would wait.
		began = time.Now()
		_, err = dev.Index()
		took(t, began, 0)
		if !errors.Is(err, nvml.ErrTimeout) || !strings.Contains(err.Error(), "nvmlDeviceGetName has not returned for 2s") {
			t.Error(err)
		}
		_, err = dev.WithTimeout(3 * time.Second).Index()
		took(t, began, 3*time.Second)
		if !errors.Is(err, nvml.ErrTimeout) || !strings.Contains(err.Error(), "nvmlDeviceGetName has not returned for 5s") {
			t.Error(err)
		}
		if lib.Exceeded() != 3 {
			t.Errorf("%d calls were too late", lib.Exceeded())
		}

		began = time.Now()
		if i, err := devs[1].WithTimeout(time.Second).Index(); i != 1 || err != nil {
			t.Error(i, err)
		}
		took(t, began, 0)

		// A call waits for the one before, and then is made.
		time.AfterFunc(time.Minute, release)
		if i, err := dev.WithTimeout(time.Hour).Index(); i != 0 || err != nil {
			t.Error(i, err)
		}
		took(t, began, time.Minute)
		if name, err := dev.Name(); name != "GPU 0" || err != nil {
			t.Error(name, err)
		}
		if s.mostHung(1) != 1 || lib.Exceeded() != 3 {
			t.Errorf("%d calls hung at one time; %d calls were too late", s.mostHung(1), lib.Exceeded())
		}
	})
}

// An error names the call that holds the GPU also if that one is not too late yet.
func TestTimeoutBehindLongerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, devs := ward(t, 1)
		release := s.hang(1)
		go devs[0].WithTimeout(time.Hour).Name()
		synctest.Wait()
		began := time.Now()
		_, err := devs[0].WithTimeout(time.Second).Index()
		took(t, began, time.Second)
		if !errors.Is(err, nvml.ErrTimeout) || !strings.Contains(err.Error(), "nvmlDeviceGetName has not returned for 1s") {
			t.Error(err)
		}
		release()
	})
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, lib, devs := ward(t, 1)
		release := s.hang(1)
		defer release()
		dev := devs[0]

		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the program ends")
		time.AfterFunc(time.Second, func() { cancel(cause) })
		began := time.Now()
		_, err := dev.WithContext(ctx).Name()
		took(t, began, time.Second)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || errors.Is(err, nvml.ErrTimeout) || lib.Exceeded() != 0 {
			t.Errorf("%v; %d calls were too late", err, lib.Exceeded())
		}
		if _, err := dev.WithContext(ctx).Name(); !errors.Is(err, context.Canceled) || s.calls.Load() != 1 {
			t.Errorf("%v; %d calls", err, s.calls.Load())
		}

		ctx, stop := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer stop()
		began = time.Now()
		_, err = dev.WithTimeout(time.Hour).WithContext(ctx).Index()
		took(t, began, time.Second)
		if !errors.Is(err, nvml.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cause) || lib.Exceeded() != 1 {
			t.Errorf("%v; %d calls were too late", err, lib.Exceeded())
		}
		ctx, stop = context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		began = time.Now()
		_, err = lib.WithTimeout(time.Minute).WithContext(ctx).Device(0)
		if err != nil {
			t.Error(err)
		}
		_, err = dev.WithContext(ctx).WithTimeout(time.Minute).Index()
		took(t, began, time.Minute)
		if !errors.Is(err, nvml.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// Bounds that have ended keep NVML from being called, and a context that cannot end is no bound.
func TestOddBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, lib, devs := ward(t, 1)
		if _, err := devs[0].WithTimeout(-1).Name(); !errors.Is(err, nvml.ErrTimeout) || s.calls.Load() != 0 {
			t.Errorf("%v; %d calls", err, s.calls.Load())
		}
		if lib.Exceeded() != 1 {
			t.Errorf("%d calls were too late", lib.Exceeded())
		}
		release := s.hang(1)
		go devs[0].WithTimeout(time.Hour).Name()
		go devs[0].WithTimeout(time.Hour).WithTimeout(0).WithContext(context.Background()).Index()
		synctest.Wait()
		if s.mostHung(1) != 2 {
			t.Errorf("%d calls hang", s.mostHung(1))
		}
		release()
		var none *nvml.Device
		if _, err := none.WithTimeout(1).WithContext(t.Context()).Name(); !errors.Is(err, nvml.ErrNil) {
			t.Error(err)
		}
	})
}

// quietly is a context that ends without a signal.
type quietly struct {
	context.Context
	ended atomic.Bool
}

func (q *quietly) Done() <-chan struct{} { return make(chan struct{}) }

func (q *quietly) Err() error {
	if q.ended.Load() {
		return context.Canceled
	}
	return nil
}

// If the turn comes at the moment when the bound ends, NVML is not called.
func TestTurnAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, devs := ward(t, 1)
		release := s.hang(1)
		go devs[0].WithTimeout(time.Hour).Index()
		synctest.Wait()
		ctx := &quietly{Context: t.Context()}
		time.AfterFunc(time.Second, func() {
			ctx.ended.Store(true)
			release()
		})
		if _, err := devs[0].WithContext(ctx).Name(); !errors.Is(err, context.Canceled) || s.calls.Load() != 0 {
			t.Errorf("%v; %d calls", err, s.calls.Load())
		}
		if i, err := devs[0].WithTimeout(time.Second).Index(); i != 0 || err != nil {
			t.Error(i, err)
		}
		_, err := devs[0].WithTimeout(-1).Index()
		if err == nil || strings.Contains(err.Error(), "has not returned") {
			t.Error(err)
		}
	})
}

// However many goroutines ask a GPU that does not answer, one thread is held, and other GPUs are not delayed.
func TestOneCallPerGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, lib, devs := ward(t, 2, nvml.WithTimeout(time.Second))
		release := s.hang(1)
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range 10 {
					if _, err := devs[0].Name(); !errors.Is(err, nvml.ErrTimeout) {
						t.Error(err)
					}
					began := time.Now()
					if i, err := devs[1].Index(); i != 1 || err != nil {
						t.Error(i, err)
					}
					took(t, began, 0)
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		if s.mostHung(1) != 1 || s.calls.Load() != 1 || lib.Exceeded() != 320 {
			t.Errorf("%d calls hung at one time, %d were made, %d were too late", s.mostHung(1), s.calls.Load(), lib.Exceeded())
		}
		release()
		synctest.Wait()
		if name, err := devs[0].Name(); name != "GPU 0" || err != nil {
			t.Error(name, err)
		}
	})
}

func TestCloseDuringHungCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, lib, devs := ward(t, 1, nvml.WithTimeout(time.Second))
		release := s.hang(1)
		if _, err := devs[0].Name(); !errors.Is(err, nvml.ErrTimeout) {
			t.Error(err)
		}
		began := time.Now()
		if err := lib.Close(); err != nil {
			t.Error(err)
		}
		took(t, began, 0)
		synctest.Wait()
		if s.shutdowns.Load() != 0 {
			t.Error("NVML was shut down during a call")
		}
		for _, d := range []*nvml.Device{devs[0], devs[0].WithTimeout(0)} {
			if _, err := d.Name(); !errors.Is(err, nvml.ErrClosed) {
				t.Error(err)
			}
		}
		release()
		synctest.Wait()
		if err := lib.Close(); err != nil || s.shutdowns.Load() != 1 {
			t.Errorf("%v; NVML was shut down %d times", err, s.shutdowns.Load())
		}
	})
}

// Close keeps its limit, and a call does not wait for the shutdown that follows it.
func TestShutdownHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sick{shut: make(chan struct{})}
		lib, err := nvml.Open(nvml.WithTimeout(time.Second), nvml.WithSoftware(s))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		err = lib.WithContext(ctx).Close()
		took(t, began, time.Second)
		if !errors.Is(err, nvml.ErrTimeout) || errors.Is(err, context.Canceled) || s.shutdowns.Load() != 1 {
			t.Error(err)
		}
		close(s.shut)
	})
	synctest.Test(t, func(t *testing.T) {
		s, lib, devs := ward(t, 1, nvml.WithTimeout(time.Minute))
		s.shut = make(chan struct{})
		release := s.hang(1)
		time.AfterFunc(time.Second, func() {
			lib.Close()
			release()
		})
		began := time.Now()
		if name, err := devs[0].Name(); name != "GPU 0" || err != nil {
			t.Error(name, err)
		}
		took(t, began, time.Second)
		synctest.Wait()
		if s.shutdowns.Load() != 1 {
			t.Error("NVML was not shut down")
		}
		close(s.shut)
	})
}

// If nvmlInit succeeds after Open has returned, it is undone. If it fails, there is nothing to undo: nvmlShutdown would
// end the use of another user of the process.
func TestOpenHangs(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &sick{init: make(chan struct{}), initFails: fails}
			lib, err := nvml.Open(nvml.WithTimeout(time.Second), nvml.WithSoftware(s))
			if lib != nil || !errors.Is(err, nvml.ErrTimeout) {
				t.Error(lib, err)
			}
			synctest.Wait()
			if s.shutdowns.Load() != 0 {
				t.Error("NVML was shut down during nvmlInit")
			}
			close(s.init)
			synctest.Wait()
			if n := s.shutdowns.Load(); (n == 0) != fails {
				t.Errorf("nvmlInit fails: %v; NVML was shut down %d times", fails, n)
			}
		})
	}
}

// slow is an NVML whose answers need about as long as the bounds of the calls.
type slow struct{ sick }

func (s *slow) DeviceGetIndex(d raw.Device, index *uint32) raw.Return {
	time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
	*index = uint32(d)
	return raw.NVML_SUCCESS
}

func (s *slow) DeviceGetMinorNumber(d raw.Device, number *uint32) raw.Return {
	time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
	*number = uint32(d) + 1000
	return raw.NVML_SUCCESS
}

// A result is that of its own call, also if calls end at the moment of their bounds.
func TestBoundsRace(t *testing.T) {
	s := &slow{}
	lib, err := nvml.Open(nvml.WithSoftware(s))
	if err != nil {
		t.Fatal(err)
	}
	rounds := 2000
	if testing.Short() || raceEnabled {
		rounds = 300
	}
	var wg sync.WaitGroup
	var answers, late atomic.Int32
	for g := range 8 {
		dev, err := lib.Device(g % 2)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for i := range rounds {
				d := dev.WithTimeout(time.Duration(rand.IntN(500)) * time.Microsecond)
				ask, want := d.Index, int(dev.Handle())
				if i%2 == 0 {
					ask, want = d.MinorNumber, want+1000
				}
				switch got, err := ask(); {
				case errors.Is(err, nvml.ErrTimeout):
					late.Add(1)
				case err != nil || got != want:
					t.Errorf("%d instead of %d, %v", got, want, err)
				default:
					answers.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if answers.Load() == 0 || late.Load() == 0 || uint64(late.Load()) != lib.Exceeded() {
		t.Errorf("%d calls were answered, %d were not, %d exceeded", answers.Load(), late.Load(), lib.Exceeded())
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "nvmlShutdown", func() bool { return s.shutdowns.Load() == 1 })
}
