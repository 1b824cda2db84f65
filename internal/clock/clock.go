// Package clock measures times as short as a call of a driver. On Windows time.Now
// goes in steps of half a millisecond and more, so that most calls would take none.
package clock

import "time"

// Watch is a moment from which time is measured.
type Watch struct {
	began time.Time
	count int64 // of the counter at this moment, 0 where time.Now serves
}

// Start returns the present moment.
func Start() Watch {
	if n := count(); n != 0 {
		return Watch{count: n}
	}
	return Watch{began: time.Now()}
}

// Elapsed returns how much time has passed since the moment.
func (w Watch) Elapsed() time.Duration {
	if w.count != 0 {
		return length(count()-w.count, frequency())
	}
	return time.Since(w.began)
}

// length returns how long a counter of so many steps a second takes for n of them.
func length(n, frequency int64) time.Duration {
	// The product of all of n and a second would overflow within minutes.
	const second = int64(time.Second)
	return time.Duration(n/frequency*second + n%frequency*second/frequency)
}
