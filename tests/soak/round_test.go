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
	// closes says that its rounds close all that they make.
	closes bool
}

// round is some objects, what is done with them, and how they end. What refers to the objects is
// gone with it.
type round struct {
	*worker
	kind, way string
	gpu       *cu.Context
	stream    *cu.Stream
	// own says that the context is the round's.
	own bool
	// legacy says that the stream is the legacy one.
	legacy bool
	// private says that only this goroutine may use the stream, which is its thread's.
	private bool
	// objects are to be closed or abandoned, and uses are what is done with them, by several goroutines at once.
	objects []io.Closer
	uses    []func()
	// closed are what is closed in any case.
	closed []io.Closer
	// waits wait until ctx ends for what is enqueued.
	waits []func(ctx context.Context) error
	// letGo raises what holds the stream.
	letGo func()
}

// closing is what ends an object that has no method Close.
type closing func() error

func (f closing) Close() error { return f() }

// way is one in which objects end.
type way struct {
	name string
	end  func(r *round)
}

// ways are all of them.
var ways = []way{
	{"closed when done", func(r *round) {
		// A context that others hold is synchronized as well as a stream.
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

// abandoning is the first of the ways that leave objects to the garbage collector.
var abandoning = slices.IndexFunc(ways, func(w way) bool { return strings.Contains(w.name, "abandoned") })

// round does one round.
func (w *worker) round() {
	r := &round{worker: w, gpu: w.gpus[w.rnd.IntN(len(w.gpus))]}
	w.rounds.Add(1)
	switch n := w.rnd.IntN(20); {
	case n < 2 && w.without.MatchString("a context of its own"):
	case n < 2 && (!w.slow || w.rnd.IntN(200) == 0): // a context of its own
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

// run does what a round does when it has a stream.
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
		r.letGo() // else after a while
	}
	if r.private && held {
		r.letGo()
	}
	way.end(r)
	waited()
	r.closeAll(r.closed)
}

// hold holds the stream, for some milliseconds at most.
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
	letGo := sync.OnceFunc(func() {
		r.ok("Timeline.Set, to let a stream go", line.Set(1))
		if abandon {
			r.abandoned.Add(1)
		} else {
			r.ok("Timeline.Close", line.Close())
		}
		line = nil
	})
	r.letGo = letGo
	time.AfterFunc(time.Duration(1+r.rnd.IntN(5))*time.Millisecond, letGo)
	return true
}

// wait has goroutines wait for what is enqueued: with a deadline that comes before, or one that does not come.
// What it returns waits for them.
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

// use adds what is done with the objects, and does it.
func (r *round) use(what string, f func() error) {
	if !r.without.MatchString(what) {
		r.uses = append(r.uses, func() { r.ok(what, f()) })
	}
}

// addTimeline adds a timeline. The memory of one that was abandoned after it was used on the legacy stream stays in
// use until the context ends: see [cu.Timeline.Close].
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

// abandon forgets n objects.
func (r *round) abandon(n int) {
	if before := r.abandoned.Add(int64(n)) - int64(n); before/mostAbandoned != (before+int64(n))/mostAbandoned {
		runtime.GC()
	}
}

// fine are the errors that calls may return when others close what they use, or capture, and on streams of green
// contexts or old drivers.
var fine = []error{
	errors.ErrUnsupported,
	cu.ErrClosed, cu.ErrReleased, cu.ErrNotRecorded, context.DeadlineExceeded,
	cu.ResultStreamCaptureUnsupported, cu.ResultStreamCaptureImplicit, cu.ResultStreamCaptureInvalidated,
	cu.ResultStreamCaptureWrongThread, cu.ResultStreamCaptureIsolation, cu.ResultCapturedEvent,
}

// ok reports whether err is nil. If it is not one that is to be expected it fails the test.
func (r *round) ok(what string, err error) bool {
	if err == nil {
		return true
	}
	for _, f := range fine {
		if errors.Is(err, f) {
			r.soak.count("returned: " + what + ": " + f.Error())
			return false
		}
	}
	r.fail(r.kind+", "+r.way+": "+what, err)
	return false
}
