package engine

import "time"

// Load is how long a device has worked. Kernels count, and other operations that take time.
type Load struct {
	Changed func() // called when the device begins or ends to work; may be nil

	running int   // operations that are executed
	since   int64 // when the first of them began
	until   int64 // until when the device had worked before
	busy    int64 // how long the device has worked before, in nanoseconds
	// slots has how long the device has worked in each hundredth of a second, and which one that was, by its number
	// modulo the length.
	slots [loadSlots]loadSlot
}

// LoadWindow is how far [Load.Share] looks back.
const LoadWindow = time.Second

const (
	slotTime  = int64(10 * time.Millisecond)
	loadSlots = int(int64(LoadWindow)/slotTime) + 1
)

type loadSlot struct{ number, busy int64 }

// begin and end note an operation. They are called in the order of times, but for operations that are noted when they
// have ended: these may have begun before.
func (l *Load) begin(at int64) {
	if l.running++; l.running > 1 {
		return
	}
	l.since = max(at, l.until)
	l.changed()
}

func (l *Load) end(at int64) {
	if l.running--; l.running > 0 {
		return
	}
	if at > l.since {
		l.busy += at - l.since
		l.until = at
		l.eachSlot(max(l.since, at-int64(LoadWindow)), at, func(number, busy int64) {
			s := &l.slots[number%int64(loadSlots)]
			if s.number != number {
				*s = loadSlot{number: number}
			}
			s.busy += busy
		})
	}
	l.changed()
}

func (l *Load) changed() {
	if l.Changed != nil {
		l.Changed()
	}
}

// eachSlot calls f with the slots of a time, and how much of it is in each.
func (l *Load) eachSlot(begin, end int64, f func(number, time int64)) {
	for begin < end {
		number := begin / slotTime
		next := min((number+1)*slotTime, end)
		f(number, next-begin)
		begin = next
	}
}

// Working reports whether the device works.
func (l *Load) Working() bool { return l.running > 0 }

// Busy returns how long the device has worked until now.
func (l *Load) Busy(now int64) time.Duration {
	busy := l.busy
	if l.running > 0 {
		busy += max(now-l.since, 0)
	}
	return time.Duration(busy)
}

// Share returns the share of the last second in which the device worked. It did not before the time 0.
func (l *Load) Share(now int64) float64 {
	from := max(now-int64(LoadWindow), 0)
	busy := float64(0)
	l.eachSlot(from, now, func(number, part int64) {
		if s := l.slots[number%int64(loadSlots)]; s.number == number {
			busy += float64(min(s.busy, part)) // of the oldest slot, only a part is in the window
		}
	})
	if l.running > 0 {
		busy += float64(max(now-max(l.since, from), 0))
	}
	return min(busy/float64(LoadWindow), 1)
}
