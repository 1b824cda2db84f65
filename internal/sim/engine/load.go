package engine

import "time"

// Load is how long a device has worked. Kernels count, and other operations that take time.
type Load struct {
	Changed func() // called when the device begins or ends to work; may be nil

	running int    // operations that are executed
	since   int64  // when the first of them began
	busy    int64  // how long the device has worked before, in nanoseconds
	recent  []span // when that was, as far as it is less than LoadWindow ago
}

// span is a time in which the device worked.
type span struct{ begin, end int64 }

// LoadWindow is how far [Load.Share] looks back.
const LoadWindow = time.Second

// mostSpans is how many spans are kept. Of more, neighbours become one.
const mostSpans = 1024

func (l *Load) begin(at int64) {
	if l.running++; l.running > 1 {
		return
	}
	l.since = at
	if n := len(l.recent); n > 0 { // operations are noted when they have ended, so that this one may have begun before
		l.since = max(at, l.recent[n-1].end)
	}
	if l.Changed != nil {
		l.Changed()
	}
}

func (l *Load) end(at int64) {
	if l.running--; l.running > 0 {
		return
	}
	if at > l.since {
		l.add(at)
	}
	if l.Changed != nil {
		l.Changed()
	}
}

// add adds the time in which the device has worked until at.
func (l *Load) add(at int64) {
	l.busy += at - l.since
	old := 0
	for old < len(l.recent) && l.recent[old].end < at-int64(LoadWindow) {
		old++
	}
	l.recent = append(l.recent[:0], l.recent[old:]...)
	if n := len(l.recent); n > 0 && (l.recent[n-1].end >= l.since || n == mostSpans) {
		l.recent[n-1].end = at
		return
	}
	l.recent = append(l.recent, span{l.since, at})
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

// Share returns the share of the last second in which the device worked, or of the time since 0 if that is shorter.
func (l *Load) Share(now int64) float64 {
	window := min(int64(LoadWindow), now)
	if window <= 0 {
		return 0
	}
	var busy int64
	for _, s := range l.recent {
		busy += max(min(s.end, now)-max(s.begin, now-window), 0)
	}
	if l.running > 0 {
		busy += max(now-max(l.since, now-window), 0)
	}
	return min(float64(busy)/float64(window), 1)
}
