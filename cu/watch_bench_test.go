package cu_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// quickEvents is a software driver of events that cost nothing: they are pending, all of
// them, or complete.
type quickEvents struct {
	driver.Unimplemented
	pending atomic.Bool
	events  atomic.Uintptr
	streams atomic.Uintptr
}

func (*quickEvents) DriverGetVersion(*driver.Thread) (int32, driver.Result) { return 13000, 0 }
func (*quickEvents) Init(*driver.Thread, uint32) driver.Result              { return 0 }
func (*quickEvents) DeviceGet(_ *driver.Thread, n int32) (driver.Device, driver.Result) {
	return driver.Device(n), 0
}
func (*quickEvents) DeviceGetCount(*driver.Thread) (int32, driver.Result) { return 1 << 20, 0 }
func (*quickEvents) DevicePrimaryCtxRetain(_ *driver.Thread, d driver.Device) (driver.Context, driver.Result) {
	return 1 + driver.Context(d), 0
}
func (*quickEvents) DevicePrimaryCtxRelease(*driver.Thread, driver.Device) driver.Result { return 0 }
func (*quickEvents) CtxGetId(_ *driver.Thread, c driver.Context) (uint64, driver.Result) {
	return uint64(c), 0
}
func (*quickEvents) CtxPushCurrent(*driver.Thread, driver.Context) driver.Result  { return 0 }
func (*quickEvents) CtxPopCurrent(*driver.Thread) (driver.Context, driver.Result) { return 1, 0 }
func (*quickEvents) ThreadExchangeStreamCaptureMode(*driver.Thread, int32) (int32, driver.Result) {
	return 0, 0
}

func (q *quickEvents) StreamCreate(*driver.Thread, uint32) (driver.Stream, driver.Result) {
	return driver.Stream(100 + q.streams.Add(1)), 0
}

func (*quickEvents) StreamCreateWithPriority(*driver.Thread, uint32, int32) (driver.Stream, driver.Result) {
	return 0, driver.ResultNotSupported
}
func (*quickEvents) StreamIsCapturing(*driver.Thread, driver.Stream) (int32, driver.Result) {
	return 0, 0
}
func (*quickEvents) StreamDestroy(*driver.Thread, driver.Stream) driver.Result { return 0 }

func (q *quickEvents) EventCreate(*driver.Thread, uint32) (driver.Event, driver.Result) {
	return driver.Event(q.events.Add(1)), 0
}
func (*quickEvents) EventDestroy(*driver.Thread, driver.Event) driver.Result { return 0 }
func (*quickEvents) EventRecord(*driver.Thread, driver.Event, driver.Stream) driver.Result {
	return 0
}

func (q *quickEvents) EventQuery(*driver.Thread, driver.Event) driver.Result {
	if q.pending.Load() {
		return driver.ResultNotReady
	}
	return 0
}

// BenchmarkWatcher lets ten thousand goroutines wait for events of 16 streams, which
// complete at the same moment, on a driver that costs nothing: what is left is the watcher and
// Go's scheduler.
func BenchmarkWatcher(b *testing.B) {
	const waiters, of = 10_000, 16
	soft := new(quickEvents)
	drv := Need(Open(WithSoftware(driver.Provide(soft))))(b)
	gpu := Need(Need(drv.Device(0))(b).PrimaryContext())(b)
	defer gpu.Close()
	var streams []*Stream
	for range of {
		streams = append(streams, Need(gpu.NewStream(StreamNonBlocking))(b))
	}
	events := make([]*Event, waiters)
	for i := range events {
		events[i] = Need(gpu.NewEvent(EventDisableTiming))(b)
	}
	// Each has a context of its own: they would fight over the lock of one.
	ctxs := make([]context.Context, waiters)
	for i := range ctxs {
		var cancel context.CancelFunc
		ctxs[i], cancel = context.WithCancel(b.Context())
		defer cancel()
	}
	var all, sum time.Duration
	took, errs := make([]time.Duration, waiters), make([]error, waiters)
	for b.Loop() {
		soft.pending.Store(true)
		var wg sync.WaitGroup
		var begin time.Time
		for i, e := range events {
			if err := e.Record(streams[i%of]); err != nil {
				b.Fatal(err)
			}
			wg.Go(func() {
				errs[i] = e.Wait(ctxs[i])
				took[i] = time.Since(begin)
			})
		}
		for core.Of(drv).Watch.Waiters() != waiters {
			time.Sleep(time.Millisecond)
		}
		core.Of(drv).Watch.State() // nobody else is adding a wait
		begin = time.Now()
		soft.pending.Store(false)
		wg.Wait()
		all += time.Since(begin)
		for _, d := range took {
			sum += d
		}
		if err := errors.Join(errs...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(all.Microseconds())/float64(b.N), "µs-all")
	b.ReportMetric(float64(sum.Microseconds())/float64(b.N)/waiters, "µs-mean")
	closeAll(b, events)
	closeAll(b, streams)
}

// ticketsOf records n times on the stream, and has a ticket of each record tell of it before the next is made: all
// of them of one event, or each of one of its own. It returns their channels.
func ticketsOf(tb testing.TB, gpu *Context, s *Stream, n int, oneEvent bool) (events []*Event, done []<-chan struct{}) {
	tb.Helper()
	for i := range n {
		if i == 0 || !oneEvent {
			events = append(events, Need(gpu.NewEvent(EventDisableTiming))(tb))
		}
		e := events[len(events)-1]
		if err := e.Record(s); err != nil {
			tb.Fatal(err)
		}
		done = append(done, Need(e.Ticket())(tb).Done())
	}
	return events, done
}

// BenchmarkPendingRecords adds waits for 32,000 pending records, which complete at the same moment: of one event,
// and of as many.
func BenchmarkPendingRecords(b *testing.B) {
	const records = 32_000
	for name, oneEvent := range map[string]bool{"one-event": true, "events": false} {
		b.Run(name, func(b *testing.B) {
			soft := new(quickEvents)
			drv := Need(Open(WithSoftware(driver.Provide(soft))))(b)
			gpu := Need(Need(drv.Device(0))(b).PrimaryContext())(b)
			defer gpu.Close()
			s := Need(gpu.NewStream(StreamNonBlocking))(b)
			var add, complete time.Duration
			for b.Loop() {
				soft.pending.Store(true)
				begin := time.Now()
				events, done := ticketsOf(b, gpu, s, records, oneEvent)
				add += time.Since(begin)
				begin = time.Now()
				soft.pending.Store(false)
				for _, c := range done {
					<-c
				}
				complete += time.Since(begin)
				closeAll(b, events)
			}
			b.ReportMetric(float64(add.Microseconds())/float64(b.N), "µs-add")
			b.ReportMetric(float64(complete.Microseconds())/float64(b.N), "µs-complete")
			closeAll(b, []*Stream{s})
		})
	}
}

// BenchmarkClosingWakes closes what is waited for while there are 32,000 waits: a thousand streams, and a thousand
// contexts of one stream each.
func BenchmarkClosingWakes(b *testing.B) {
	const closed, each = 1000, 32
	for _, contexts := range []int{1, closed} {
		b.Run(map[bool]string{true: "streams", false: "contexts"}[contexts == 1], func(b *testing.B) {
			soft := new(quickEvents)
			soft.pending.Store(true)
			drv := Need(Open(WithSoftware(driver.Provide(soft))))(b)
			var took time.Duration
			for b.Loop() {
				var gpus []*Context
				for i := range contexts {
					gpus = append(gpus, Need(Need(drv.Device(i))(b).PrimaryContext())(b))
				}
				var streams []*Stream
				var wg sync.WaitGroup
				errs := make([]error, closed*each)
				for i := range closed {
					s := Need(gpus[i%contexts].NewStream(StreamNonBlocking))(b)
					streams = append(streams, s)
					for k := range each {
						wg.Go(func() { errs[i*each+k] = s.Wait(b.Context()) })
					}
				}
				for watches(core.Of(drv)) != closed*each {
					time.Sleep(time.Millisecond)
				}
				begin := time.Now()
				if contexts == 1 {
					closeAll(b, streams)
				} else {
					closeAll(b, gpus)
				}
				took += time.Since(begin)
				wg.Wait()
				for _, err := range errs {
					if !errors.Is(err, ErrClosed) {
						b.Fatalf("a wait ends with %v", err)
					}
				}
				if contexts == 1 {
					closeAll(b, gpus)
				} else {
					closeAll(b, streams)
				}
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs-closing")
		})
	}
}
