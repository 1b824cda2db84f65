package cu

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/driver"
)

// quickEvents is a software driver of events that cost nothing: they are pending, all of
// them, or complete.
type quickEvents struct {
	driver.Software
	pending atomic.Bool
	events  atomic.Uintptr
	streams atomic.Uintptr
}

func (*quickEvents) DriverGetVersion(*driver.Thread) (int32, driver.Result) { return 13000, 0 }
func (*quickEvents) Init(*driver.Thread, uint32) driver.Result              { return 0 }
func (*quickEvents) DeviceGet(_ *driver.Thread, n int32) (driver.Device, driver.Result) {
	return driver.Device(n), 0
}
func (*quickEvents) DevicePrimaryCtxRetain(*driver.Thread, driver.Device) (driver.Context, driver.Result) {
	return 1, 0
}
func (*quickEvents) DevicePrimaryCtxRelease(*driver.Thread, driver.Device) driver.Result { return 0 }
func (*quickEvents) CtxGetId(*driver.Thread, driver.Context) (uint64, driver.Result)     { return 1, 0 }
func (*quickEvents) CtxPushCurrent(*driver.Thread, driver.Context) driver.Result         { return 0 }
func (*quickEvents) CtxPopCurrent(*driver.Thread) (driver.Context, driver.Result)        { return 1, 0 }
func (*quickEvents) ThreadExchangeStreamCaptureMode(*driver.Thread, int32) (int32, driver.Result) {
	return 0, 0
}

func (q *quickEvents) StreamCreate(*driver.Thread, uint32) (driver.Stream, driver.Result) {
	return driver.Stream(100 + q.streams.Add(1)), 0
}

func (*quickEvents) StreamCreateWithPriority(*driver.Thread, uint32, int32) (driver.Stream, driver.Result) {
	return 0, driver.ResultNotSupported
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
	drv := must(Open(WithSoftware(soft)))(b)
	gpu := must(must(drv.Device(0))(b).PrimaryContext())(b)
	defer gpu.Close()
	var streams []*Stream
	for range of {
		streams = append(streams, must(gpu.NewStream(StreamNonBlocking))(b))
	}
	events := make([]*Event, waiters)
	for i := range events {
		events[i] = must(gpu.NewEvent(EventDisableTiming))(b)
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
		for drv.watch.waiters.Load() != waiters {
			time.Sleep(time.Millisecond)
		}
		drv.watch.mu.Lock()
		begin = time.Now()
		drv.watch.mu.Unlock()
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
