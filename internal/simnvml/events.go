package simnvml

import (
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// eventSet is what a program waits for, with what has happened.
type eventSet struct {
	kinds map[*gpu]uint64
	queue []raw.EventData
}

// mostEvents is how many events a set keeps. Further ones are lost.
const mostEvents = 4096

// happens adds an event to the sets that want it. The caller holds mu.
func (s *state) happens(g *gpu, kind, data uint64) {
	for _, set := range s.sets {
		if set.kinds[g]&kind != 0 && len(set.queue) < mostEvents {
			set.queue = append(set.queue, raw.EventData{Device: g.handle, EventType: kind, EventData: data,
				GpuInstanceId: none, ComputeInstanceId: none})
		}
	}
	s.broadcast()
}

// XID reports an error of a GPU with its number.
func (n *model) XID(index int, number uint64) {
	n.at(index, func(g *gpu) { n.happens(g, raw.EventTypeXidCriticalError, number) })
}

// EventSetCreate makes a set of events.
func (n *model) EventSetCreate(set *raw.EventSet) raw.Return {
	if set == nil {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	*set = raw.EventSet(n.newHandle())
	n.sets[*set] = &eventSet{kinds: map[*gpu]uint64{}}
	return raw.NVML_SUCCESS
}

// EventSetFree frees a set of events.
func (n *model) EventSetFree(set raw.EventSet) raw.Return {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sets[set] == nil {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	delete(n.sets, set)
	n.broadcast()
	return raw.NVML_SUCCESS
}

// DeviceRegisterEvents adds kinds of events of a GPU to a set.
func (n *model) DeviceRegisterEvents(device raw.Device, kinds uint64, set raw.EventSet) raw.Return {
	var supported uint64
	if r := n.DeviceGetSupportedEventTypes(device, &supported); r != raw.NVML_SUCCESS {
		return r
	}
	switch {
	case kinds&^supported != 0:
		return raw.NVML_ERROR_NOT_SUPPORTED
	case kinds == 0 && set != 0: // then the set does not matter
		return raw.NVML_SUCCESS
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	g, s := n.find(device), n.sets[set]
	if g == nil || s == nil {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	s.kinds[g] |= kinds
	return raw.NVML_SUCCESS
}

// EventSetWait waits for an event.
func (n *model) EventSetWait(set raw.EventSet, data *raw.EventData, timeout uint32) raw.Return {
	return n.wait(set, data, timeout)
}

// EventSetWaitV2 waits for an event.
func (n *model) EventSetWaitV2(set raw.EventSet, data *raw.EventData, timeout uint32) raw.Return {
	return n.wait(set, data, timeout)
}

// wait waits for an event. It waits for some milliseconds of the CUDA driver's time, and no longer than that by the
// machine's: a program that polls must not need a test that advances the time.
func (n *model) wait(set raw.EventSet, data *raw.EventData, timeout uint32) raw.Return {
	if data == nil {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	return n.await(timeout, func() raw.Return {
		s := n.sets[set]
		switch {
		case s == nil:
			return raw.NVML_ERROR_INVALID_ARGUMENT
		case len(s.queue) == 0:
			return raw.NVML_ERROR_TIMEOUT
		}
		*data = s.queue[0]
		s.queue = s.queue[1:]
		return raw.NVML_SUCCESS
	})
}

// await calls a function, with mu locked, until its result is not NVML_ERROR_TIMEOUT, or the time is over.
func (n *model) await(timeout uint32, try func() raw.Return) raw.Return {
	clock, limit := n.machine.Clock(), time.Duration(timeout)*time.Millisecond
	end := clock.Now().Add(limit)
	patience := time.NewTimer(limit)
	defer patience.Stop()
	for {
		next := n.catchUp()
		n.mu.Lock()
		r, changed := try(), n.changed
		n.mu.Unlock()
		left := end.Sub(clock.Now())
		if r != raw.NVML_ERROR_TIMEOUT || left <= 0 {
			return r
		}
		if !next.IsZero() {
			left = max(min(left, next.Sub(clock.Now())), 0)
		}
		timer := clock.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C():
		case <-patience.C:
			end = clock.Now()
		}
		timer.Stop()
	}
}
