package cu

import (
	"maps"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// This file counts the openings of memory of imported pools. The driver does not count them: all have
// the same address, and one free ends them all. So the memory is freed by the DeviceMem that is closed
// last, after the work of all. That may be long after its Close. If the memory is opened again
// meanwhile, it is not freed.
//
// The driver is called without a lock. It must not free the memory of an address that it returns to an
// opening at the same time. So no free begins while memory is being opened. An opening that gets an
// address whose free began before does not know what the address stands for: it waits for the end of the
// free, and opens the memory again.

// openings are the memory of imported pools that is open.
type openings struct {
	mu lock.Mutex[lock.Openings]
	at map[driver.DevicePtr]*openedMemory
	// begun is the number of calls that are opening memory. unfreed has the memory that was to be freed
	// meanwhile.
	begun   int
	unfreed []*openedMemory
	// freeing has a channel for each address whose memory is being freed. It is closed afterwards.
	freeing map[driver.DevicePtr]chan struct{}
}

// openedMemory is memory that DeviceMems have opened at one address. openings.mu guards it.
type openedMemory struct {
	raw  driver.DevicePtr
	size uint64
	open int // the number of DeviceMems that are not closed
	// last is the memory that frees it, if open is 0. It is nil if the memory is unfreed.
	last *memCore
	// used are the streams on which closed DeviceMems have used the memory.
	used streamSet
	// pool is the pool, with a call in flight, if the memory is unfreed.
	pool *memPoolCore
}

// open opens the memory that data of its exporter names. The caller has a call in flight on the pool.
func (o *openings) open(mc *memCore, data driver.MemPoolPtrExportData) driver.Result {
	for {
		freed, res := o.tryOpen(mc, data)
		if freed == nil {
			return res
		}
		<-freed
	}
}

// tryOpen is one try of open. If freed is not nil, open has to wait for it, and try again.
func (o *openings) tryOpen(mc *memCore, data driver.MemPoolPtrExportData) (freed chan struct{}, res driver.Result) {
	o.mu.Lock()
	o.begun++
	freeing := maps.Clone(o.freeing)
	o.mu.Unlock()
	defer o.tried() // also if a tracer panics
	raw, res := mc.ctx.drv.table().MemPoolImportPointer(driver.At{Context: mc.ctx.raw}, mc.pool.raw, data)
	if res != driver.ResultSuccess || freeing[raw] != nil {
		return freeing[raw], res
	}
	mc.raw = raw
	observeOpened(mc, struct {
		pool driver.MemoryPool
		data driver.MemPoolPtrExportData
	}{mc.pool.raw, data})
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.at[raw]
	if x == nil {
		if o.at == nil {
			o.at = make(map[driver.DevicePtr]*openedMemory)
		}
		x = &openedMemory{raw: raw, size: mc.size}
		o.at[raw] = x
	}
	x.open++
	x.last, mc.opening = nil, x.count(mc)
	return nil, res
}

// tried ends a call that is opening memory. The last one frees what was to be freed meanwhile, unless it
// is open again.
func (o *openings) tried() {
	o.mu.Lock()
	var late []*memCore
	var pools []*memPoolCore
	if o.begun--; o.begun == 0 {
		for _, x := range o.unfreed {
			if x.open == 0 && x.last == nil {
				late = append(late, x.rest())
			} else {
				pools = append(pools, x.pool)
			}
			x.pool = nil
		}
		o.unfreed = nil
	}
	o.mu.Unlock()
	for _, p := range pools {
		p.leave()
	}
	each(len(late), func(i int) {
		late[i].begin(late[i], late[i].pool.ctx)
		late[i].close()
		late[i].destroyLate(false)
	})
}

// rest returns new memory that is to free the opening.
func (x *openedMemory) rest() *memCore {
	mc := &memCore{is: pooledMemory, raw: x.raw, size: x.size, capacity: x.size, pool: x.pool, opened: true,
		left: true}
	mc.opening = x.count(mc)
	mc.usedStreams = new(streamSet)
	mc.usedStreams.noteAll(&x.used)
	x.last = mc
	return mc
}

// count returns what to do with memory that is an opening.
func (x *openedMemory) count(mc *memCore) *countedOpening {
	return &countedOpening{
		leave:     func() (last bool) { return x.leave(mc) },
		beginFree: func() (end func(), may bool) { return x.beginFree(mc) },
	}
}

func (x *openedMemory) leave(mc *memCore) (last bool) {
	if !mc.left {
		mc.observeGone()
	}
	o := &mc.ctx.drv.openings
	o.mu.Lock()
	defer o.mu.Unlock()
	if !mc.left {
		mc.left = true
		x.used.noteAll(mc.usedStreams)
		if x.open--; x.open == 0 {
			mc.usedStreams.noteAll(&x.used)
			x.last = mc
		}
	}
	return x.last == mc
}

func (x *openedMemory) beginFree(mc *memCore) (end func(), may bool) {
	o := &mc.ctx.drv.openings
	o.mu.Lock()
	defer o.mu.Unlock()
	if x.last != mc || o.begun != 0 {
		if x.last == mc {
			x.last = nil
			if x.pool == nil {
				x.pool, mc.pool = mc.pool, nil
				o.unfreed = append(o.unfreed, x)
			}
		}
		return func() {}, false
	}
	delete(o.at, x.raw)
	freed := make(chan struct{})
	if o.freeing == nil {
		o.freeing = make(map[driver.DevicePtr]chan struct{})
	}
	o.freeing[x.raw] = freed
	return func() {
		o.mu.Lock()
		delete(o.freeing, x.raw)
		o.mu.Unlock()
		close(freed)
	}, true
}
