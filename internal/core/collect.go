package core

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
)

// This file lets Go's garbage collector find abandoned memory when a call of the program finds too little. The
// collector does not know how much memory of a GPU or of the driver a small Go value stands for, so it may run too
// late by itself. It runs in the program's own call, which may wait, and never in the background. It costs nothing
// while there is memory.
//
// Collecting takes time of the host, whatever clock the driver has. So all times here are of Go's own clock.

// collector is a driver's use of Go's garbage collector.
type collector struct {
	// found counts the objects that the program has abandoned, and bytes is the size of the memory among them.
	found, bytes atomic.Uint64
	// freeing counts the goroutines that free abandoned memory when its work is done.
	freeing atomic.Int32
	// hostFuncs counts the host functions that run.
	hostFuncs atomic.Int32
	// now is the collection that is in progress, or nil, and last the one before.
	now, last atomic.Pointer[Collection]
}

// Collection is one run of the garbage collector.
type Collection struct {
	begun time.Time
	// done is closed at the end. The other fields are set before, and do not change afterwards.
	done         chan struct{}
	found, bytes uint64
	took         time.Duration
	ended        time.Time
}

// A collection that follows one that found nothing waits before: restFactor times as long as that one took, but at most
// maxRest. So a program that tries again and again to allocate memory of a full GPU spends little of its time on
// collections, and still gets all that it has abandoned before the call.
const (
	restFactor = 10
	maxRest    = time.Second
)

// collect runs the garbage collector, and waits until the abandoned objects that it has found are freed or deferred. It
// returns the collection. Goroutines that call it at a time share a collection, unless it began before.
func (c *collector) collect() *Collection {
	called := time.Now()
	collection := &Collection{done: make(chan struct{})}
	for !c.now.CompareAndSwap(nil, collection) {
		if other := c.now.Load(); other != nil {
			if <-other.done; other.begun.After(called) {
				return other
			}
		}
	}
	defer func() {
		c.last.Store(collection)
		c.now.Store(nil)
		close(collection.done)
	}()
	if last := c.last.Load(); last != nil && last.found == 0 {
		time.Sleep(min(restFactor*last.took, maxRest) - time.Since(last.ended))
	}
	collection.begun = time.Now()
	found0, bytes0 := c.found.Load(), c.bytes.Load()
	runtime.GC()
	collection.took = time.Since(collection.begun)
	awaitCleanups()
	c.awaitEndings()
	collection.found, collection.bytes, collection.ended = c.found.Load()-found0, c.bytes.Load()-bytes0, time.Now()
	return collection
}

// Cleanups take microseconds each. But the program may have cleanups that wait for something, and memory of pools is
// freed when the work that uses it is done: so no wait is without an end.
const maxCleanups, maxEndings = time.Second, 100 * time.Millisecond

// awaitCleanups waits until the cleanups have run that the garbage collector has queued.
func awaitCleanups() {
	s := []metrics.Sample{{Name: "/gc/cleanups/queued:cleanups"}, {Name: "/gc/cleanups/executed:cleanups"}}
	metrics.Read(s)
	queued := s[0].Value.Uint64()
	until(maxCleanups, func() bool { metrics.Read(s[1:]); return s[1].Value.Uint64() >= queued })
}

// awaitEndings waits until memory is freed that goroutines free.
func (c *collector) awaitEndings() {
	until(maxEndings, func() bool { return c.freeing.Load() == 0 })
}

// until waits for a condition, but no longer than the limit.
func until(limit time.Duration, condition func() bool) {
	begun := time.Now()
	for wait := 10 * time.Microsecond; !condition() && time.Since(begun) < limit; wait = min(2*wait, time.Millisecond) {
		time.Sleep(wait)
	}
}

// NoteAbandoned notes an object whose owner is abandoned, and that has so much memory.
func (d *Driver) NoteAbandoned(bytes uint64) {
	c := &d.collector
	c.found.Add(1)
	c.bytes.Add(bytes)
}

// Explain makes the error of a call say what the collection has found. Without a collection it changes nothing.
func (c *Collection) Explain(e *cuerror.Error) *cuerror.Error {
	if c == nil || e.Result != driver.ResultOutOfMemory {
		return e
	}
	found := "no abandoned memory"
	if c.bytes > 0 {
		found = fmt.Sprintf("%d bytes of abandoned memory: close memory that is not needed any more", c.bytes)
	}
	e.Detail = drivercall.JoinText("the garbage collector has run, and has found "+found, e.Detail)
	return e
}

// Allocate makes a call that allocates. If there is too little memory, it frees the deferred objects of the device, for
// which it waits, and makes the call again. If there is still too little, it does the same with memory that the program
// has abandoned and the garbage collector has not found yet. It returns the collection, or nil if there was none.
//
// The caller holds no lock.
func (d *Driver) Allocate(dev driver.Device, call func() driver.Result) (driver.Result, *Collection) {
	res := call()
	if res != driver.ResultOutOfMemory {
		return res, nil
	}
	collection := d.makeRoom(dev, func() bool { res = call(); return res == driver.ResultOutOfMemory })
	return res, collection
}

// makeRoom frees the deferred objects of a device, and then those that the garbage collector finds. After each step
// that has freed something it calls lacks, which makes a call again and reports whether there is still too little
// memory.
func (d *Driver) makeRoom(dev driver.Device, lacks func() bool) *Collection {
	found := d.collector.found.Load()
	if d.FreeDeferred(dev) && !lacks() {
		return nil
	}
	collection := d.collector.collect()
	if d.collector.found.Load() != found { // by this collection, or by one that another goroutine began before
		d.FreeDeferred(dev)
		lacks()
	}
	return collection
}

// Allocate is Driver.Allocate for the device of the context.
func (c *Context) Allocate(call func() driver.Result) (driver.Result, *Collection) {
	return c.Drv.Allocate(c.Dev, call)
}

// FreeAndRetry is Allocate for a call that does not only allocate, and that holds locks or is counted while the driver
// is called. err is the error of the first attempt of op, and call makes a further one. There is no further attempt
// while a host function runs: the call may be made by the function, and what is freed may be in use behind it.
//
// The caller holds no lock.
func (c *Context) FreeAndRetry(op string, err error, call func() error) error {
	e := LacksMemory(op, err)
	if e == nil || c.Drv.collector.hostFuncs.Load() > 0 {
		return err
	}
	collection := c.Drv.makeRoom(c.Dev, func() bool {
		err = call()
		e = LacksMemory(op, err)
		return e != nil
	})
	if e != nil {
		collection.Explain(e)
	}
	return err
}

// FreedDetail says what to do after a call that is not repeated.
const FreedDetail = "abandoned memory is freed: call again, if it does no harm that a part of this call may be done"

// LacksMemory returns err if it is the driver's answer to op that there is too little memory, or nil.
func LacksMemory(op string, err error) *cuerror.Error {
	if e, ok := err.(*cuerror.Error); ok && e.Op == op && e.Result == driver.ResultOutOfMemory && e.Err == nil {
		return e
	}
	return nil
}

// Allocated is Context.Allocate for a call that creates an object.
func Allocated[T any](
	c *Context, call func() (T, driver.Result),
) (object T, res driver.Result, collection *Collection) {
	res, collection = c.Allocate(func() (res driver.Result) {
		object, res = call()
		return res
	})
	return object, res, collection
}

// FreeAndRetry is Context.FreeAndRetry for a call that enqueues work on the stream. If the stream is being captured,
// also by other code, it frees nothing: the failed attempt may have invalidated the capture, whose error would hide the
// lack of memory. sc may be nil if err is no lack of memory.
func (sc *Stream) FreeAndRetry(op string, err error, call func() error) error {
	if LacksMemory(op, err) == nil || sc.Captured(op) {
		return err
	}
	return sc.Ctx.FreeAndRetry(op, err, call)
}

// FreeOnly is FreeAndRetry without a further attempt, which would be wrong after a first one that has done a part. If
// it has freed something, the error says that the program may repeat the call.
func (sc *Stream) FreeOnly(op string, err error) error {
	e := LacksMemory(op, err)
	if e == nil || sc.Captured(op) || sc.Ctx.Drv.collector.hostFuncs.Load() > 0 {
		return err
	}
	freed := false
	collection := sc.Ctx.Drv.makeRoom(sc.Ctx.Dev, func() bool { freed = true; return true })
	collection.Explain(e)
	if freed {
		e.Detail = drivercall.JoinText(FreedDetail, e.Detail)
	}
	return err
}

// CallWithRetry is FreeAndRetry with the first attempt. sc may be nil if call then returns another error.
func (sc *Stream) CallWithRetry(op string, call func() error) error {
	return sc.FreeAndRetry(op, call(), call)
}

// CallHostFunc calls a function for a stream: FreeAndRetry frees nothing meanwhile.
func (d *Driver) CallHostFunc(f func()) {
	d.collector.hostFuncs.Add(1)
	defer d.collector.hostFuncs.Add(-1)
	f()
}
