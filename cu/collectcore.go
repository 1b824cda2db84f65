package cu

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
)

// This file lets Go's garbage collector find abandoned memory when an allocation finds too little. The collector does
// not know how much memory of a GPU or of the driver a small Go value stands for, so it may run too late by itself. It
// runs in the program's own call, which may wait, and never in the background. It costs nothing while there is memory.
//
// Collecting takes time of the host, whatever clock the driver has. So all times here are of Go's own clock.

// collector is a driver's use of Go's garbage collector.
type collector struct {
	// found counts the objects that the program has abandoned, and bytes is the size of the memory among them.
	found, bytes atomic.Uint64
	// ending counts the goroutines that free abandoned memory when its work is done.
	ending atomic.Int32
	// now is the collection that is in progress, or nil, and last the one before.
	now, last atomic.Pointer[collection]
}

// collection is one run of the garbage collector.
type collection struct {
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
// reports whether it has found any. Goroutines that call it at a time share a collection, unless it began before.
func (c *collector) collect() (found bool) {
	called := time.Now()
	own := &collection{done: make(chan struct{})}
	for !c.now.CompareAndSwap(nil, own) {
		if other := c.now.Load(); other != nil {
			if <-other.done; other.begun.After(called) {
				return other.found > 0
			}
		}
	}
	defer func() {
		c.last.Store(own)
		c.now.Store(nil)
		close(own.done)
	}()
	if last := c.last.Load(); last != nil && last.found == 0 {
		time.Sleep(min(restFactor*last.took, maxRest) - time.Since(last.ended))
	}
	own.begun = time.Now()
	found0, bytes0 := c.found.Load(), c.bytes.Load()
	runtime.GC()
	own.took = time.Since(own.begun)
	awaitCleanups()
	c.awaitEndings()
	own.found, own.bytes, own.ended = c.found.Load()-found0, c.bytes.Load()-bytes0, time.Now()
	return own.found > 0
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
	until(maxEndings, func() bool { return c.ending.Load() == 0 })
}

// until waits for a condition, but no longer than the limit.
func until(limit time.Duration, condition func() bool) {
	begun := time.Now()
	for wait := 10 * time.Microsecond; !condition() && time.Since(begun) < limit; wait = min(2*wait, time.Millisecond) {
		time.Sleep(wait)
	}
}

// abandoned notes an object whose owner is abandoned, and that has so much memory.
func (c *collector) abandoned(bytes uint64) {
	c.found.Add(1)
	c.bytes.Add(bytes)
}

// said is what the error of an allocation says after a collection.
func (c *collector) said() string {
	last := c.last.Load()
	switch {
	case last == nil:
		return ""
	case last.found == 0:
		return "the garbage collector has run, and has found no abandoned object"
	}
	return fmt.Sprintf("the garbage collector has run, and has found abandoned objects (%d, with %d bytes of memory): "+
		"close what is not needed any more", last.found, last.bytes)
}

// allocate makes a call that allocates. If there is too little memory, it frees the deferred objects of the device, for
// which it waits, and makes the call again. If there is still too little, it does the same with memory that the program
// has abandoned and the garbage collector has not found yet.
func (d *driverCore) allocate(dev driver.Device, call func() driver.Result) driver.Result {
	res := call()
	if res != driver.ResultOutOfMemory {
		return res
	}
	d.freeDeferred(dev)
	if res = call(); res == driver.ResultOutOfMemory && d.collector.collect() {
		d.freeDeferred(dev)
		res = call()
	}
	return res
}
