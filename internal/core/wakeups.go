package core

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// wakeUpStream is a stream of the library. It waits for a record that goroutines have waited for a
// long time, and then notifies the watcher. No other work is enqueued on it.
type wakeUpStream struct {
	ctx  *Context
	Raw  driver.Stream
	call driver.Callback // notifies the watcher
}

// wakeUpAt says how calls on wake-up streams are made: in the background.
var wakeUpAt = BackgroundAt()

// Start enqueues the host function that notifies the watcher. If other calls wait for the GPU in
// the driver, Start waits for them.
func (s *wakeUpStream) Start() watch.ArmResult {
	d := s.ctx.Drv
	res := d.Table().LaunchHostFunc(wakeUpAt, s.Raw, s.call)
	if res != driver.ResultSuccess {
		d.notifier.Load().armed.Add(^uint64(0))
	}
	return d.armResult(res)
}

// Return returns the stream to the pool.
func (s *wakeUpStream) Return() {
	w := &s.ctx.WakeUps
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Free = append(w.Free, s)
}

// wakeUpPool holds the wake-up streams of a context. The driver may wait for the GPU before it
// creates a stream, and blocks other calls that enqueue work meanwhile. So a wake-up stream is
// created only in a call that creates a stream for the program, which may wait anyway. If the pool
// is empty, the watcher polls.
type wakeUpPool struct {
	Mu   lock.Mutex[lock.WakeUps]
	Free []*wakeUpStream
	made int
	// Wanted says that the pool was empty when a wake-up stream was needed.
	Wanted bool
}

// A context has a wake-up stream for each of the program's first streams, and up to MaxWakeUps if
// these were not enough. More would take queues of the GPU from the program's streams.
const (
	FirstWakeUps = 4
	MaxWakeUps   = 16
)

// due reports whether a wake-up stream must be created. The program has this number of streams.
func (w *wakeUpPool) due(streams int) bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	due := w.made < min(FirstWakeUps, streams) || w.Wanted && w.made < MaxWakeUps
	if due {
		w.made++ // also if the creation fails: it is not repeated for ever
		w.Wanted = false
	}
	return due
}

// take returns the wake-up stream that was returned first.
func (w *wakeUpPool) take() *wakeUpStream {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if len(w.Free) == 0 {
		w.Wanted = true
		return nil
	}
	s := w.Free[0]
	w.Free = w.Free[1:]
	return s
}

// Count returns the number of wake-up streams of the context.
func (w *wakeUpPool) Count() int {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.made
}

// AddWakeUp creates a wake-up stream if one is due. The caller is a user of the context, and has
// just created a stream for the program.
func (c *Context) AddWakeUp() {
	c.Mu.Lock()
	streams := len(c.SharedStates)
	c.Mu.Unlock()
	if !c.WakeUps.due(streams) {
		return
	}
	raw, err := c.createStream("cuStreamCreateWithPriority", func() (driver.Stream, driver.Result) {
		at := driver.At{Context: c.Raw, Relaxed: true}
		return c.Drv.Table().StreamCreateWithPriority(at, driver.CU_STREAM_NON_BLOCKING, -1<<31)
	})
	if err == nil {
		(&wakeUpStream{ctx: c, Raw: raw}).Return()
	}
}

// TakeWakeUp returns a wake-up stream with no work, or false.
func (c *Context) TakeWakeUp() (*wakeUpStream, bool) {
	for range MaxWakeUps {
		s := c.WakeUps.take()
		if s == nil {
			return nil, false
		}
		// The last wait on this stream may have been canceled before its record completed.
		if c.Drv.Table().StreamQuery(wakeUpAt, s.Raw) == driver.ResultSuccess {
			return s, true
		}
		s.Return()
	}
	return nil, false
}

// endWakeUps destroys the wake-up streams when the context is released.
func (c *Context) endWakeUps(at driver.At) {
	free := c.WakeUps.Free
	drivercall.EachDespitePanic(len(free), func(i int) {
		if res := c.destroyStream(free[i].Raw, at); res != driver.ResultSuccess {
			h := uintptr(free[i].Raw)
			c.Drv.Leak(drivercall.LeakReport{Kind: "stream", Handle: h, Err: c.BackgroundError("cuStreamDestroy", h, res)})
		}
	})
}

// notifier is a driver's notifier, with the number of streams armed so far. It has a file
// descriptor while the watcher's goroutine runs.
type notifier struct {
	*driver.Notifier
	armed atomic.Uint64
}

// Close closes the descriptor.
func (n *notifier) Close() bool { return n.Notifier.Close(n.armed.Load()) }

// armResult converts a driver's result of an arming call.
func (d *Driver) armResult(res driver.Result) watch.ArmResult {
	switch {
	case res == driver.ResultSuccess:
		return watch.Armed
	case res == driver.ResultNotSupported, d.Table().Missing(res) != nil:
		return watch.Unsupported
	}
	return watch.Failed
}
