package cu

import "github.com/purecu/purecu/driver"

// wakeUps are streams of a context that the library has for itself: each waits for a record that a goroutine has
// waited for long, and then wakes the watcher. The driver may wait for the GPU before it creates a stream, and lets
// nobody else enqueue work meanwhile. So they are made only where the program makes a stream, which may wait just
// as well. Where there is none left, the watcher polls. The context's mutex guards them.
type wakeUps struct {
	free []driver.Stream
	made int
	// wanted says that there was none when one was needed.
	wanted bool
}

// A context has a wake-up stream for each of the program's first streams, and up to maxWakeUps where they were not
// enough: too many would take the program's place, as there are only so many streams before the driver waits.
const (
	firstWakeUps = 4
	maxWakeUps   = 16
)

// addWakeUp makes one more wake-up stream if it is due. The caller, who is a user of the context, has just made a
// stream for the program.
func (c *contextCore) addWakeUp() {
	w := &c.wakeUps
	c.mu.Lock()
	due := w.made < min(firstWakeUps, len(c.parts)) || w.wanted && w.made < maxWakeUps
	if due {
		w.made++ // also if it fails: it is not tried for ever
		w.wanted = false
	}
	c.mu.Unlock()
	if !due {
		return
	}
	s, err := c.createStream("cuStreamCreateWithPriority", func() (driver.Stream, driver.Result) {
		return c.drv.table.StreamCreateWithPriority(driver.At{Context: c.raw, Relaxed: true}, uint32(StreamNonBlocking), -1<<31)
	})
	if err == nil {
		w.put(c, s)
	}
}

// takeWakeUp returns a wake-up stream on which nothing is enqueued, if there is one.
func (c *contextCore) takeWakeUp() (driver.Stream, bool) {
	w := &c.wakeUps
	for range maxWakeUps {
		c.mu.Lock()
		if len(w.free) == 0 {
			w.wanted = true
			c.mu.Unlock()
			return 0, false
		}
		s := w.free[0]
		w.free = w.free[1:]
		c.mu.Unlock()
		// Whoever was interested in the last record may have lost interest before it completed.
		if c.drv.table.StreamQuery(driver.At{Relaxed: true, NoWait: true}, s) == driver.ResultSuccess {
			return s, true
		}
		w.put(c, s)
	}
	return 0, false
}

// put takes a wake-up stream back.
func (w *wakeUps) put(c *contextCore, s driver.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.free = append(w.free, s)
}

// endWakeUps destroys the wake-up streams, when the context is given up.
func (c *contextCore) endWakeUps(at driver.At) {
	free := c.wakeUps.free
	each(len(free), func(i int) {
		if res := c.destroyStream(free[i], at); res != driver.ResultSuccess {
			h := uintptr(free[i])
			c.drv.leak(Leak{Kind: "stream", Handle: h, Err: c.failed("cuStreamDestroy", h, res)})
		}
	})
}

// countWakeUps returns how many wake-up streams the context has.
func (c *contextCore) countWakeUps() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wakeUps.made
}
