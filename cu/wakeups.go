package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// wakeUpStream is a stream of the library's own. It waits for a record for which goroutines have
// waited for long, and then notifies the watcher. Nothing else is enqueued on it.
type wakeUpStream struct {
	ctx  *contextCore
	raw  driver.Stream
	call driver.Callback // notifies the watcher
}

// wakeUpAt is how calls about wake-up streams are made: they run in the background.
var wakeUpAt = background()

// Start has the stream notify the watcher. While other calls wait for the GPU, this one waits for
// them.
func (s *wakeUpStream) Start() watch.ArmResult {
	d := s.ctx.drv
	res := d.table.LaunchHostFunc(wakeUpAt, s.raw, s.call)
	if res != driver.ResultSuccess {
		d.source.notifier.Load().armed.Add(^uint64(0))
	}
	return d.armResult(res)
}

// Return gives the stream back.
func (s *wakeUpStream) Return() {
	w := &s.ctx.wakeUps
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, s)
}

// wakeUpPool holds the wake-up streams of a context. The driver may wait for the GPU before it
// creates a stream, and lets nobody else enqueue work meanwhile. So a wake-up stream is made only
// where the program makes a stream, which may wait just as well. Where none is left, the watcher
// polls.
type wakeUpPool struct {
	mu   lock.Mutex[lock.WakeUps]
	free []*wakeUpStream
	made int
	// wanted says that there was none when one was needed.
	wanted bool
}

// A context has a wake-up stream for each of the program's first streams, and up to maxWakeUps
// where they were not enough: too many would take the program's place, as there are only so many
// streams before the driver waits.
const (
	firstWakeUps = 4
	maxWakeUps   = 16
)

// due reports whether one more wake-up stream is to be made, in a context with so many streams of
// the program's.
func (w *wakeUpPool) due(streams int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := w.made < min(firstWakeUps, streams) || w.wanted && w.made < maxWakeUps
	if due {
		w.made++ // also if it fails: it is not tried for ever
		w.wanted = false
	}
	return due
}

// take takes the wake-up stream that was returned first.
func (w *wakeUpPool) take() *wakeUpStream {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.free) == 0 {
		w.wanted = true
		return nil
	}
	s := w.free[0]
	w.free = w.free[1:]
	return s
}

// count returns how many wake-up streams the context has.
func (w *wakeUpPool) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.made
}

// addWakeUp makes one more wake-up stream if it is due. The caller, who is a user of the context,
// has just made a stream for the program.
func (c *contextCore) addWakeUp() {
	c.mu.Lock()
	streams := len(c.parts)
	c.mu.Unlock()
	if !c.wakeUps.due(streams) {
		return
	}
	raw, err := c.createStream("cuStreamCreateWithPriority", func() (driver.Stream, driver.Result) {
		return c.drv.table.StreamCreateWithPriority(driver.At{Context: c.raw, Relaxed: true}, uint32(StreamNonBlocking), -1<<31)
	})
	if err == nil {
		(&wakeUpStream{ctx: c, raw: raw}).Return()
	}
}

// takeWakeUp returns a wake-up stream on which nothing is enqueued, if there is one.
func (c *contextCore) takeWakeUp() (*wakeUpStream, bool) {
	for range maxWakeUps {
		s := c.wakeUps.take()
		if s == nil {
			return nil, false
		}
		// Whoever was interested in the last record may have lost interest before it completed.
		if c.drv.table.StreamQuery(wakeUpAt, s.raw) == driver.ResultSuccess {
			return s, true
		}
		s.Return()
	}
	return nil, false
}

// endWakeUps destroys the wake-up streams, when the context is released.
func (c *contextCore) endWakeUps(at driver.At) {
	free := c.wakeUps.free
	each(len(free), func(i int) {
		if res := c.destroyStream(free[i].raw, at); res != driver.ResultSuccess {
			h := uintptr(free[i].raw)
			c.drv.leak(Leak{Kind: "stream", Handle: h, Err: c.failed("cuStreamDestroy", h, res)})
		}
	})
}
