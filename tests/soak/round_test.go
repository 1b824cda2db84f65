package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/purecu/purecu/cu"
)

// worker is a goroutine that does one round after the other.
type worker struct {
	*soak
	rnd *rand.Rand
	// closes is set if the worker's rounds close all their objects.
	closes bool
}

// round has some objects, their uses and the way in which they end. References to the objects end
// with it.
type round struct {
	*worker
	kind, way string
	gpu       *cu.Context
	stream    *cu.Stream
	// own is set if the context belongs to the round.
	own bool
	// legacy is set if the stream is the legacy default stream.
	legacy bool
	// private is set if only this goroutine may use the stream, which is its per-thread default
	// stream.
	private bool
	// objects are to be closed or abandoned. uses are their uses, by several goroutines at a time.
	objects []io.Closer
	uses    []func()
	// closed are objects that are always closed.
	closed []io.Closer
	// waits wait for the enqueued work, or until ctx ends.
	waits []func(ctx context.Context) error
	// release releases the held stream.
	release func()
	// failing says that calls of the driver fail on purpose.
	failing bool
}

// closing ends an object that has no method Close.
type closing func() error

func (f closing) Close() error { return f() }

// way is a way in which objects end.
type way struct {
	name string
	end  func(r *round)
}

// ways are all ways.
var ways = []way{
	{"closed when done", func(r *round) {
		// A context that others use is synchronized like a stream.
		if !r.own && !r.without.MatchString("Context.Synchronize") {
			r.ok("Context.Synchronize", r.gpu.Synchronize())
		}
		r.ok("Stream.Synchronize", r.stream.Synchronize())
		slices.Reverse(r.objects)
		r.closeAll(r.objects)
	}},
	{"closed in use, in any order", func(r *round) {
		r.shuffle()
		r.closeAll(r.objects)
	}},
	{"closed twice by several", func(r *round) {
		r.shuffle()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { r.closeAll(r.objects) })
		}
		wg.Wait()
	}},
	{"closed during calls", func(r *round) {
		r.shuffle()
		if r.private {
			r.closeAll(r.objects)
			return
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for _, use := range r.uses {
					use()
				}
			})
		}
		wg.Go(func() { r.closeAll(r.objects) })
		wg.Wait()
	}},
	{"some closed, some abandoned", func(r *round) {
		r.shuffle()
		n := len(r.objects) / 2
		r.closeAll(r.objects[:n])
		r.abandon(len(r.objects) - n)
	}},
	{"abandoned", func(r *round) { r.abandon(len(r.objects)) }},
}

// abandoning is the index of the first way that leaves objects to the garbage collector.
var abandoning = slices.IndexFunc(ways, func(w way) bool { return strings.Contains(w.name, "abandoned") })

// round runs one round.
func (w *worker) round() {
	r := &round{worker: w, gpu: w.gpus[w.rnd.IntN(len(w.gpus))]}
	w.rounds.Add(1)
	switch n := w.rnd.IntN(20); {
	case n < 2 && w.without.MatchString("a context of its own"):
	case n < 2 && (!w.slow || w.rnd.IntN(200) == 0): // with a context of its own
		dev := r.gpu.Device()
		open := func() (*cu.Context, error) { return dev.NewContext(0) }
		if n == 0 {
			open = dev.PrimaryContext
		}
		gpu, err := open()
		if !r.ok("a context", err) {
			return
		}
		r.gpu, r.own = gpu, true
		r.add(gpu)
	case n <= 2:
		r.gpu = w.beside
	case n == 3 && w.without.MatchString("a driver of its own"):
	case n == 3:
		drv, err := w.openAnother()
		if !r.ok("Open", err) {
			return
		}
		if w.rnd.IntN(2) == 0 {
			r.trace(drv)
		}
		r.add(drv)
		dev, err := drv.Device(w.rnd.IntN(len(w.gpus)))
		if !r.ok("Driver.Device", err) {
			return
		}
		if r.gpu, err = dev.PrimaryContext(); !r.ok("PrimaryContext, of another driver", err) {
			return
		}
		r.own = true
		r.add(r.gpu)
	}
	if r.rnd.IntN(16) == 0 && !r.without.MatchString("Context.Do") {
		r.ok("Context.Do", r.gpu.Do(func(t *cu.Thread) (err error) {
			r.private = true
			if r.stream, err = t.DefaultStream(); err == nil {
				r.run()
			}
			return err
		}))
		return
	}
	if r.stream = r.newStream(); r.stream != nil {
		r.run()
	}
}

// run runs the rest of a round after its stream was created.
func (r *round) run() {
	way := ways[r.rnd.IntN(len(ways))]
	if r.closes {
		way = ways[r.rnd.IntN(abandoning)]
	}
	if r.without.MatchString(way.name) {
		way = ways[0]
	}
	for range 1 + r.rnd.IntN(3) {
		k := kinds[r.rnd.IntN(len(kinds))]
		if r.without.MatchString(k.name) {
			continue
		}
		r.kind, r.way = k.name, way.name
		r.soak.count("used: " + k.name)
		r.soak.count("ended: " + way.name)
		k.make(r)
	}
	var held bool
	if r.rnd.IntN(3) == 0 && !r.without.MatchString("hold a stream") {
		held = r.hold()
	}
	for _, use := range r.uses {
		use()
	}
	waited := r.wait(held)
	if held && r.rnd.IntN(2) == 0 {
		r.release() // otherwise the hold ends later
	}
	if r.private && held {
		r.release()
	}
	way.end(r)
	waited()
	r.closeAll(r.closed)
}

// hold holds the stream for at most some milliseconds.
func (r *round) hold() bool {
	line, err := r.gpu.NewTimeline(0)
	if !r.ok("NewTimeline, to hold a stream", err) {
		return false
	}
	if !r.ok("Timeline.Block, to hold a stream", line.Block(r.stream, 1)) {
		r.ok("Timeline.Close", line.Close())
		return false
	}
	abandon := r.rnd.IntN(4) == 0 && !r.legacy && !r.closes
	release := sync.OnceFunc(func() {
		r.ok("Timeline.Set, to let a stream go", line.Set(1))
		if abandon {
			r.abandoned.Add(1)
		} else {
			r.ok("Timeline.Close", line.Close())
		}
		line = nil
	})
	r.release = release
	time.AfterFunc(time.Duration(1+r.rnd.IntN(5))*time.Millisecond, release)
	return true
}

// wait starts goroutines that wait for the enqueued work, with deadlines that come before its end
// or never. The returned function waits for these goroutines.
func (r *round) wait(held bool) func() {
	var wg sync.WaitGroup
	for _, wait := range r.waits {
		short := r.rnd.IntN(2) == 0
		wg.Go(func() {
			limit := time.Minute
			if short {
				limit = 500 * time.Microsecond
			}
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			err := wait(ctx)
			if errors.Is(err, context.DeadlineExceeded) && !short {
				r.fail(r.kind+": a wait", fmt.Errorf("it took a minute, held: %v: %w", held, err))
				return
			}
			r.ok("a wait", err)
		})
	}
	r.waits = nil
	return wg.Wait
}

// add adds an object.
func (r *round) add(objects ...io.Closer) { r.objects = append(r.objects, objects...) }

// use adds a use of the objects, and makes it once.
func (r *round) use(what string, f func() error) {
	if !r.without.MatchString(what) {
		r.uses = append(r.uses, func() { r.ok(what, f()) })
	}
}

// addTimeline adds a timeline. If a timeline is abandoned after it was used on the legacy stream,
// its memory stays in use until the context ends: see [cu.Timeline.Close].
func (r *round) addTimeline(line *cu.Timeline) {
	if r.legacy {
		r.closed = append(r.closed, line)
		return
	}
	r.add(line)
}

func (r *round) shuffle() {
	r.rnd.Shuffle(len(r.objects), func(i, j int) { r.objects[i], r.objects[j] = r.objects[j], r.objects[i] })
}

func (r *round) closeAll(objects []io.Closer) {
	for _, o := range objects {
		r.ok(fmt.Sprintf("%T.Close", o), o.Close())
	}
}

// abandon removes all references to n objects.
func (r *round) abandon(n int) {
	if before := r.abandoned.Add(int64(n)) - int64(n); before/mostAbandoned != (before+int64(n))/mostAbandoned {
		runtime.GC()
	}
}

// expected are errors that calls may return because others close or capture the objects, or because
// of green contexts or old drivers.
var expected = []error{
	errors.ErrUnsupported,
	cu.ErrClosed, cu.ErrReleased, cu.ErrNotRecorded, context.DeadlineExceeded,
	cu.ResultStreamCaptureUnsupported, cu.ResultStreamCaptureImplicit, cu.ResultStreamCaptureInvalidated,
	cu.ResultStreamCaptureWrongThread, cu.ResultStreamCaptureIsolation, cu.ResultCapturedEvent,
}

// ok reports whether err is nil. An unexpected error fails the test.
func (r *round) ok(what string, err error) bool {
	if err == nil {
		return true
	}
	if r.failing {
		return false
	}
	for _, f := range expected {
		if errors.Is(err, f) {
			r.soak.count("returned: " + what + ": " + f.Error())
			return false
		}
	}
	r.fail(r.kind+", "+r.way+": "+what, err)
	return false
}
