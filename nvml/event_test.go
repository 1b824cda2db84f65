package nvml_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// none is the number of no instance.
const none = ^uint32(0)

// eventful is an NVML with events. It reports mistakes in its use.
type eventful struct {
	raw.Unimplemented
	t      testing.TB
	queue  chan raw.EventData
	old    bool          // there is no nvmlEventSetWait_v2
	early  bool          // waits end at once
	result raw.Return    // of waits, unless it is success
	hang   chan struct{} // waits do not end before it is closed
	create chan struct{} // nvmlEventSetCreate does not end before it is closed

	supported  nvml.EventType
	registered atomic.Uint64
	sets       atomic.Int32 // that are not freed
	inCall     atomic.Int32
	waits      atomic.Int32
	shutdowns  atomic.Int32
}

func (e *eventful) InitV2() raw.Return { return raw.NVML_SUCCESS }

func (e *eventful) Shutdown() raw.Return {
	if e.sets.Load() != 0 {
		e.t.Error("NVML was shut down before the sets were freed")
	}
	e.shutdowns.Add(1)
	return raw.NVML_SUCCESS
}

func (e *eventful) DeviceGetHandleByIndexV2(index uint32, d *raw.Device) raw.Return {
	*d = raw.Device(index + 1)
	return raw.NVML_SUCCESS
}

func (e *eventful) EventSetCreate(set *raw.EventSet) raw.Return {
	if e.create != nil {
		<-e.create
	}
	e.sets.Add(1)
	*set = 77
	return raw.NVML_SUCCESS
}

func (e *eventful) EventSetFree(set raw.EventSet) raw.Return {
	if e.inCall.Load() != 0 || e.sets.Add(-1) < 0 || set != 77 || e.shutdowns.Load() != 0 {
		e.t.Error("a set was freed twice, during a call, or after nvmlShutdown")
	}
	return raw.NVML_SUCCESS
}

func (e *eventful) DeviceGetSupportedEventTypes(d raw.Device, kinds *uint64) raw.Return {
	*kinds = uint64(e.supported)
	return raw.NVML_SUCCESS
}

func (e *eventful) DeviceRegisterEvents(d raw.Device, kinds uint64, set raw.EventSet) raw.Return {
	e.use(set)
	defer e.inCall.Add(-1)
	if kinds&^uint64(e.supported) != 0 {
		return raw.NVML_ERROR_NOT_SUPPORTED
	}
	e.registered.Or(kinds)
	return raw.NVML_SUCCESS
}

func (e *eventful) use(set raw.EventSet) {
	e.inCall.Add(1)
	if e.sets.Load() <= 0 || set != 77 {
		e.t.Error("a set was used that does not exist")
	}
}

func (e *eventful) EventSetWaitV2(set raw.EventSet, data *raw.EventData, ms uint32) raw.Return {
	if e.old {
		return e.Unimplemented.EventSetWaitV2(set, data, ms)
	}
	return e.EventSetWait(set, data, ms)
}

func (e *eventful) EventSetWait(set raw.EventSet, data *raw.EventData, ms uint32) raw.Return {
	e.use(set)
	defer e.inCall.Add(-1)
	e.waits.Add(1)
	if ms > 100 {
		e.t.Errorf("a call waits for %d ms", ms)
	}
	if e.hang != nil {
		<-e.hang
	}
	if e.result != raw.NVML_SUCCESS {
		return e.result
	}
	if e.early {
		return raw.NVML_ERROR_TIMEOUT
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case ev := <-e.queue:
		if e.old {
			ev.GpuInstanceId, ev.ComputeInstanceId = data.GpuInstanceId, data.ComputeInstanceId
		}
		*data = ev
		return raw.NVML_SUCCESS
	case <-timer.C:
		return raw.NVML_ERROR_TIMEOUT
	}
}

// happen makes events with the given numbers come.
func (e *eventful) happen(d raw.Device, xids ...uint64) {
	for _, x := range xids {
		e.queue <- raw.EventData{Device: d, EventType: uint64(nvml.EventXIDCritical), EventData: x,
			GpuInstanceId: none, ComputeInstanceId: none}
	}
}

// stage returns a set on an NVML with events, which prepare changes.
func stage(t *testing.T, prepare func(e *eventful), opts ...nvml.Option) (*eventful, *nvml.Library, *nvml.EventSet) {
	t.Helper()
	e := &eventful{t: t, queue: make(chan raw.EventData, 100),
		supported: nvml.EventXIDCritical | nvml.EventDoubleBitECC | nvml.EventClockChange}
	if prepare != nil {
		prepare(e)
	}
	lib, err := nvml.Open(append(opts, nvml.WithSoftware(e))...)
	if err != nil {
		t.Fatal(err)
	}
	set, err := lib.NewEventSet()
	if err != nil {
		t.Fatal(err)
	}
	return e, lib, set
}

// finish closes the library, and checks that everything was freed within a slice of a wait.
func (e *eventful) finish(lib *nvml.Library) {
	e.t.Helper()
	began := time.Now()
	if err := lib.Close(); err != nil {
		e.t.Error(err)
	}
	took(e.t.(*testing.T), began, 0)
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
	if e.sets.Load() != 0 || e.shutdowns.Load() != 1 {
		e.t.Errorf("%d sets are left, and nvmlShutdown was called %d times", e.sets.Load(), e.shutdowns.Load())
	}
}

func TestEvent(t *testing.T) {
	for _, old := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e, lib, set := stage(t, func(e *eventful) { e.old = old })
			dev, err := lib.Device(3)
			if err != nil {
				t.Fatal(err)
			}
			if err := set.Add(dev, nvml.EventXIDCritical|nvml.EventClockChange); err != nil {
				t.Error(err)
			}
			if k := nvml.EventType(e.registered.Load()); k != nvml.EventXIDCritical|nvml.EventClockChange {
				t.Errorf("%v are registered", k)
			}
			time.AfterFunc(time.Second, func() {
				e.queue <- raw.EventData{Device: 4, EventType: uint64(nvml.EventXIDCritical), EventData: 79,
					GpuInstanceId: 2, ComputeInstanceId: 0}
			})
			began := time.Now()
			ev, err := set.Wait(t.Context())
			took(t, began, time.Second)
			if err != nil || ev.Device != dev || ev.Type != nvml.EventXIDCritical || ev.Data != 79 {
				t.Errorf("%+v, %v", ev, err)
			}
			if x, ok := ev.XID(); !ok || x != 79 {
				t.Error(x, ok)
			}
			gi, hasGI := ev.GPUInstance()
			ci, hasCI := ev.ComputeInstance()
			text := "device 3: XID 79: the GPU has fallen off the bus, GPU instance 2, compute instance 0"
			if old {
				text, _, _ = strings.Cut(text, ", GPU")
				if hasGI || hasCI {
					t.Error(gi, ci)
				}
			} else if gi != 2 || !hasGI || ci != 0 || !hasCI {
				t.Error(gi, hasGI, ci, hasCI)
			}
			if s := ev.String(); s != text {
				t.Error(s)
			}

			e.queue <- raw.EventData{Device: 9, EventType: uint64(nvml.EventClockChange), GpuInstanceId: none, ComputeInstanceId: none}
			e.queue <- raw.EventData{EventType: 1 << 40, GpuInstanceId: none, ComputeInstanceId: none}
			if ev, err := set.Wait(t.Context()); err != nil || ev.String() != "the device with handle 0x9: EventClockChange" {
				t.Error(ev, err)
			}
			ev, err = set.Wait(nil) //nolint:staticcheck // as no context
			if _, ok := ev.XID(); err != nil || ok || ev.String() != "no device: 0x10000000000" {
				t.Error(ev, err)
			}
			e.finish(lib)
		})
	}
}

func TestEventTypeNames(t *testing.T) {
	all := nvml.EventType(raw.EventTypeAll)
	if s := all.String(); strings.Contains(s, "0x") || strings.Count(s, "|") != 13 ||
		!strings.HasPrefix(s, "EventSingleBitECC|EventDoubleBitECC|EventPState|EventXIDCritical|EventClockChange|EventPowerSource|") ||
		!strings.HasSuffix(s, "|EventGPUUnavailable|EventGPURecoveryAction") {
		t.Error(s)
	}
	if s := (nvml.EventXIDCritical | 0x60).String(); s != "EventXIDCritical|0x60" || nvml.EventType(0).String() != "none" {
		t.Error(s)
	}
}

func TestEventSetMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, lib, set := stage(t, nil)
		dev, _ := lib.Device(0)
		err := set.Add(dev, nvml.EventXIDCritical|nvml.EventPState)
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "does not report EventPState: it reports EventDoubleBitECC|") {
			t.Error(err)
		}
		if err := set.Add(nil, nvml.EventXIDCritical); !errors.Is(err, nvml.ErrNil) {
			t.Error(err)
		}
		if err := set.Add(dev, 0); !errors.Is(err, nvml.ErrInvalidArgument) {
			t.Error(err)
		}
		e2, lib2, set2 := stage(t, nil)
		if err := set2.Add(dev, nvml.EventXIDCritical); !errors.Is(err, nvml.ErrInvalidArgument) {
			t.Error(err)
		}
		e2.finish(lib2)

		var no *nvml.EventSet
		var noLib *nvml.Library
		_, errWait := no.Wait(t.Context())
		_, errNew := noLib.NewEventSet()
		_, errSystem := noLib.NewSystemEventSet(nvml.SystemEventDriverBind)
		for _, err := range []error{no.Add(dev, 1), no.Close(), errWait, errNew, errSystem} {
			if !errors.Is(err, nvml.ErrNil) {
				t.Error(err)
			}
		}
		n := 0
		for _, err := range no.All(t.Context()) {
			n++
			if !errors.Is(err, nvml.ErrNil) {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Errorf("%d errors", n)
		}

		if err := set.Close(); err != nil || e.sets.Load() != 0 {
			t.Error(err, e.sets.Load())
		}
		_, errWait = set.Wait(t.Context())
		for _, err := range []error{errWait, set.Add(dev, nvml.EventXIDCritical)} {
			if !errors.Is(err, nvml.ErrClosed) || !strings.Contains(err.Error(), "the set of events was closed") {
				t.Error(err)
			}
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
		e.finish(lib)
		if _, err := lib.NewEventSet(); !errors.Is(err, nvml.ErrClosed) {
			t.Error(err)
		}
	})
}

// A wait ends when its context does, and an event that comes then is returned by the next wait.
func TestNoEventIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, lib, set := stage(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := set.Wait(ctx)
		took(t, began, 30*time.Millisecond)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nvml.ErrTimeout) || lib.Exceeded() != 0 {
			t.Error(err)
		}
		e.happen(1, 13, 31)
		time.Sleep(time.Second) // C has returned the first one
		if _, err := set.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if n := len(e.queue); n != 1 {
			t.Errorf("%d events are left in the queue", n)
		}
		for _, want := range []uint64{13, 31} {
			began := time.Now()
			if ev, err := set.Wait(t.Context()); ev.Data != want || err != nil {
				t.Error(ev, err)
			}
			took(t, began, 0)
		}
		waits := e.waits.Load()
		time.Sleep(time.Hour)
		if e.waits.Load() > waits+1 {
			t.Error("C is called although nobody waits")
		}
		e.finish(lib)
	})
}

func TestSeveralWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, lib, set := stage(t, nil)
		var seen sync.Map
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				ev, err := set.Wait(t.Context())
				if _, twice := seen.LoadOrStore(ev.Data, true); err != nil || twice {
					t.Error(ev, err)
				}
			})
		}
		time.Sleep(time.Second)
		if n := e.inCall.Load(); n != 1 {
			t.Errorf("%d calls wait", n)
		}
		for x := range uint64(20) {
			e.happen(1, x)
		}
		wg.Wait()
		e.finish(lib)
	})
}

func TestCloseEndsWaits(t *testing.T) {
	for _, byLibrary := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e, lib, set := stage(t, nil)
			var wg sync.WaitGroup
			began := time.Now()
			for range 3 {
				wg.Go(func() {
					_, err := set.Wait(t.Context())
					if !errors.Is(err, nvml.ErrClosed) || strings.Contains(err.Error(), "Library") != byLibrary {
						t.Error(err)
					}
				})
				wg.Go(func() {
					for ev, err := range set.All(t.Context()) {
						t.Error(ev, err)
					}
				})
			}
			time.Sleep(1050 * time.Millisecond)
			closing := set.Close
			if byLibrary {
				closing = lib.Close
			}
			if err := closing(); err != nil {
				t.Error(err)
			}
			wg.Wait()
			took(t, began, 1050*time.Millisecond)
			if e.sets.Load() != 1 || e.inCall.Load() != 1 {
				t.Errorf("there are %d sets and %d calls", e.sets.Load(), e.inCall.Load())
			}
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
			if e.sets.Load() != 0 || (e.shutdowns.Load() == 1) != byLibrary {
				t.Errorf("there are %d sets, and nvmlShutdown was called %d times", e.sets.Load(), e.shutdowns.Load())
			}
			e.finish(lib)
		})
	}
}

// Neither errors nor waits that end at once keep a processor busy.
func TestNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, lib, set := stage(t, func(e *eventful) { e.early = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for ev, err := range set.All(ctx) {
			t.Error(ev, err)
		}
		if n := e.waits.Load(); n > 101 {
			t.Errorf("%d calls in a second", n)
		}
		e.finish(lib)
	})
	synctest.Test(t, func(t *testing.T) {
		e, lib, set := stage(t, func(e *eventful) { e.result = raw.NVML_ERROR_GPU_IS_LOST })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n := 0
		for _, err := range set.All(ctx) {
			n++
			if !errors.Is(err, nvml.ErrGPULost) {
				t.Error(err)
			}
		}
		if n < 9 || n > 11 {
			t.Errorf("%d errors in a second", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		e.result = raw.NVML_SUCCESS // the set goes on
		e.happen(1, 94)
		for ev, err := range set.All(t.Context()) {
			if ev.Data != 94 || err != nil {
				t.Error(ev, err)
			}
			break
		}
		e.finish(lib)
	})
}

// Waits end in time also if NVML does not return, and say so.
func TestWaitHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, lib, set := stage(t, func(e *eventful) { e.hang = make(chan struct{}) }, nvml.WithTimeout(2*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := set.Wait(ctx)
		took(t, began, time.Second)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nvmlEventSetWait_v2 has not returned for 1s") {
			t.Error(err)
		}
		_, err = set.Wait(t.Context())
		took(t, began, 3100*time.Millisecond)
		if !errors.Is(err, nvml.ErrTimeout) || !strings.Contains(err.Error(), "nvmlEventSetWait_v2 has not returned for 3.1s") || lib.Exceeded() != 1 {
			t.Error(err, lib.Exceeded())
		}
		ctx, cancel2 := context.WithCancel(t.Context())
		cancel2()
		if _, err := set.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		began = time.Now()
		lib.Close()
		took(t, began, 0)
		if e.sets.Load() != 1 || e.shutdowns.Load() != 0 {
			t.Error("the set was freed during a call")
		}
		close(e.hang)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if e.sets.Load() != 0 || e.shutdowns.Load() != 1 {
			t.Error("the set was not freed after the call")
		}
	})
}

// A set that C creates after NewEventSet has returned is freed.
func TestCreateHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &eventful{t: t, create: make(chan struct{})}
		lib, err := nvml.Open(nvml.WithSoftware(e), nvml.WithTimeout(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lib.NewEventSet(); !errors.Is(err, nvml.ErrTimeout) {
			t.Error(err)
		}
		close(e.create)
		synctest.Wait()
		e.finish(lib)
	})
}

// The context of the library ends waits, too.
func TestWaitWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, lib, other := stage(t, nil)
		other.Close()
		ctx, cancel := context.WithCancel(t.Context())
		set, err := lib.WithContext(ctx).NewEventSet()
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, cancel)
		for ev, err := range set.All(t.Context()) {
			t.Error(ev, err)
		}
		if _, err := set.Wait(t.Context()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		e.finish(lib)
	})
}

// A set that nobody refers to is freed, but not during a wait.
func TestUnusedSetIsFreed(t *testing.T) {
	e, lib, set := stage(t, nil)
	e.happen(1, 1)
	go func() {
		for range 5 {
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
		e.happen(1, 2)
	}()
	if ev, err := set.Wait(t.Context()); ev.Data != 1 || err != nil {
		t.Error(ev, err)
	}
	if ev, err := set.Wait(t.Context()); ev.Data != 2 || err != nil { // the last use of set
		t.Error(ev, err)
	}
	eventually(t, "nvmlEventSetFree", func() bool {
		runtime.GC()
		return e.sets.Load() == 0
	})
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "nvmlShutdown", func() bool { return e.shutdowns.Load() == 1 })
}

// Every event reaches one waiter, whatever waits do meanwhile, and Close ends everything.
func TestEventsRace(t *testing.T) {
	const events = 2000
	e, lib, set := stage(t, nil)
	dev, _ := lib.Device(0)
	var seen [events]atomic.Int32
	var left atomic.Int32
	left.Store(events)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(200))*time.Microsecond)
				ev, err := set.Wait(ctx)
				cancel()
				switch {
				case err == nil:
					if seen[ev.Data].Add(1); left.Add(-1) == 0 {
						lib.Close()
					}
				case errors.Is(err, nvml.ErrClosed):
					return
				case !errors.Is(err, context.DeadlineExceeded):
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for !errors.Is(set.Add(dev.WithTimeout(time.Millisecond), nvml.EventXIDCritical), nvml.ErrClosed) {
			time.Sleep(time.Millisecond)
		}
	})
	wg.Go(func() {
		for x := range uint64(events) {
			e.happen(1, x)
			if x%50 == 0 {
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			}
		}
	})
	wg.Wait()
	for x := range seen {
		if n := seen[x].Load(); n != 1 {
			t.Errorf("event %d was returned %d times", x, n)
		}
	}
	eventually(t, "nvmlShutdown", func() bool { return e.shutdowns.Load() == 1 })
}

// Sets that are made while the library is closed do not outlive it.
func TestNewEventSetRacesWithClose(t *testing.T) {
	for range 300 {
		e := &eventful{t: t, queue: make(chan raw.EventData)}
		lib, err := nvml.Open(nvml.WithSoftware(e))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				set, err := lib.NewEventSet()
				if err == nil {
					set.Close()
				} else if !errors.Is(err, nvml.ErrClosed) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() { lib.Close() })
		wg.Wait()
		eventually(t, "nvmlShutdown", func() bool { return e.sets.Load() == 0 && e.shutdowns.Load() == 1 })
	}
}
