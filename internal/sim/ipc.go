package sim

import (
	"errors"
	"hash/fnv"
	"slices"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/sim/engine"
)

// Processes share an event through two numbers in memory that all of them have mapped: the number
// of the newest record, and the number of the newest completed record. A process that records the
// event raises the first number when it enqueues the record, and the second one when the stream
// reaches the record. Records complete in their order. The event is complete when the numbers are
// equal.
//
// A process is not notified when a record of another process completes. It polls the numbers, in
// real time even if its own time is virtual, as other processes do not know that time. A record
// that never runs, because its process died or its device has a sticky error, stays pending for all
// processes, and so do all later records.

// ipcSlot is the state of an event that processes share. Bit 31 of the state says that the event
// can be opened. The bits below count the events, of all processes, that use the slot. The bits
// above are the slot's generation: how often it was assigned to an event.
type ipcSlot struct {
	state    atomic.Uint64
	issued   atomic.Uint64
	complete atomic.Uint64
	_        [5]uint64 // padding: slots do not share cache lines
}

const (
	ipcOpen       = 1 << 31
	ipcUsers      = ipcOpen - 1
	ipcGeneration = 32
)

// reached reports whether a record is complete.
func (s *ipcSlot) reached(record uint64) bool { return s.complete.Load() >= record }

// ipcPage is the layout of a file of slots.
type ipcPage struct {
	magic   uint64
	version uint64
	id      ipcID
	_       [4]uint64
	slots   [255]ipcSlot
}

// ipcID is the unique identifier of a file.
type ipcID [16]byte

const (
	ipcMagic   = 0x7665_7563_6572_7570 // "purecuev" in memory
	ipcVersion = 1
)

// errNoIPCFile is the error for a file that does not exist, or has another identifier.
var errNoIPCFile = errors.New("there is no such file of shared events")

// ipcFile is a mapped file of slots.
type ipcFile struct {
	*ipcMapping
	page *ipcPage
	mine bool // this driver has created the file
	used int  // number of slots that this driver's events use
	next int  // where the search for a free slot begins
}

// ipcEvent connects an event with its slot.
type ipcEvent struct {
	d          *Driver
	e          *event
	file       *ipcFile
	slot       *ipcSlot
	index      int
	generation uint32
	known      uint64 // the number of the record that the event's point stands for
	relays     []ipcRelay
	uses       int // the event itself, and its pending operations

	timer *time.Timer
	armed bool
	every time.Duration
}

// ipcRelay is an operation that represents a record of another process. It is on no stream.
// Operations of this process wait for it, and it completes when the other process's record has.
type ipcRelay struct {
	op    *op
	until uint64
}

// release ends one use of the slot.
func (v *ipcEvent) release() {
	if v.uses--; v.uses > 0 {
		return
	}
	if v.timer != nil {
		v.timer.Stop()
	}
	v.slot.state.Add(^uint64(0))
	v.slot = nil
	if v.file.used--; v.file.used == 0 {
		v.file.close()
	}
}

// destroy ends the event's own use of the slot. If this event has exported the handles, they cannot
// be opened any more. Processes that have opened them keep the slot.
func (v *ipcEvent) destroy() {
	if v.file.mine {
		v.slot.state.And(^uint64(ipcOpen))
	}
	if len(v.d.waits) == 0 { // a waiting call may wait for any relay
		v.relays = slices.DeleteFunc(v.relays, func(r ipcRelay) bool {
			unused := !r.op.Awaited()
			if unused {
				v.release()
			}
			return unused
		})
	}
	v.release()
}

// sync updates the event's point from the slot, as other processes may have recorded or completed
// the event.
func (v *ipcEvent) sync() {
	v.completeReached()
	newest := v.slot.issued.Load()
	if newest == v.known {
		return
	}
	v.known = newest
	v.e.state, v.e.point = recorded, point{at: v.d.engine.Clock.At()}
	if !v.slot.reached(newest) {
		v.e.point = point{op: v.relay(newest)}
	}
}

// relay returns an operation that completes when a record is complete.
func (v *ipcEvent) relay(until uint64) *op {
	o := &op{}
	v.relays = append(v.relays, ipcRelay{o, until})
	v.uses++
	v.every = engine.PollEvery
	v.arm()
	return o
}

// completeReached completes the relays whose records are complete.
func (v *ipcEvent) completeReached() {
	var reached []*op
	v.relays = slices.DeleteFunc(v.relays, func(r ipcRelay) bool {
		if !v.slot.reached(r.until) {
			return false
		}
		reached = append(reached, r.op)
		v.uses-- // not the last use: see the callers
		return true
	})
	v.d.engine.Reached(reached)
}

// issue makes an operation the newest record of the event for all processes. It returns the
// operation that it has to follow, or nil. sync has updated the event's point before.
func (v *ipcEvent) issue(o *op) (after *op) {
	record := v.slot.issued.Add(1)
	switch {
	case v.slot.reached(record - 1):
	case v.known == record-1:
		after = v.e.point.op
	default: // another process was faster
		after = v.relay(record - 1)
	}
	v.known = record
	v.completes(o, record)
	return after
}

// completes makes the operation complete a record. If the operation never runs, the record stays
// pending.
func (v *ipcEvent) completes(o *op, record uint64) {
	v.uses++
	effect := o.Effect
	o.Visible = true
	o.Effect = func() {
		if effect != nil {
			effect()
		}
		v.slot.complete.Store(record)
		v.release()
	}
	o.Dropped = v.release
}

// pollMost is the longest interval between two polls of another process's record. The first
// interval is engine.PollEvery.
const pollMost = time.Millisecond

// arm starts the timer that polls records of other processes.
func (v *ipcEvent) arm() {
	switch {
	case v.armed:
		return
	case v.timer == nil:
		v.timer = time.AfterFunc(v.every, v.fire)
	default:
		v.timer.Reset(v.every)
	}
	v.armed = true
}

// fire is the function of the timer.
func (v *ipcEvent) fire() {
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	v.armed = false
	if len(v.relays) == 0 {
		return
	}
	v.d.engine.CatchUp()
	v.uses++ // until completeReached has returned
	v.completeReached()
	if len(v.relays) > 0 {
		v.every = min(2*v.every, pollMost)
		v.arm()
	}
	v.release()
}

// The handle of an event, in bytes:
//
//	 0  8  magic
//	 8  4  version
//	12  4  slot
//	16  4  the slot's generation
//	20  4  process
//	24  4  the file's descriptor in that process, -1 if the file has a name
//	28  4  0
//	32  8  what the process's number is valid in, as far as that is known
//	40 16  id of the file
//	56  8  FNV-1a of all that
type ipcHandle struct {
	slot, generation uint32
	pid              uint32
	fd               int32
	namespace        uint64
	file             ipcID
}

// ipcSum returns the sum at the end of a handle.
func ipcSum(b []byte) uint64 {
	f := fnv.New64a()
	f.Write(b)
	return f.Sum64()
}

// ipcMemHandle is the handle of memory, in bytes:
//
//	 0  8  magic
//	 8  4  version
//	12  4  process
//	16  8  what the process's number is valid in, as far as that is known
//	24  4  the file's descriptor in that process
//	28  4  0
//	32  8  size of the memory
//	40 16  id of the file
//	56  8  FNV-1a of all that
type ipcMemHandle struct {
	pid       uint32
	fd        int32
	namespace uint64
	size      uint64
	file      ipcID
}
