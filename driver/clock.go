package driver

import "time"

// Clock returns the time and makes timers. A software driver may have its own, for example a
// virtual time that only tests advance.
type Clock interface {
	// Now returns the present time.
	Now() time.Time
	// NewTimer returns a timer that fires once after d.
	NewTimer(d time.Duration) Timer
}

// Timer fires once.
type Timer interface {
	// C returns the channel on which the timer fires.
	C() <-chan time.Time
	// Reset makes the timer fire after d from now. It is for timers that have
	// fired or were stopped.
	Reset(d time.Duration)
	// Stop keeps the timer from firing.
	Stop()
}

// systemClock is the machine's clock.
type systemClock struct{}

// Now is time.Now.
func (systemClock) Now() time.Time { return time.Now() }

// NewTimer is time.NewTimer.
func (systemClock) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

// systemTimer is a timer of the machine's clock.
type systemTimer struct{ t *time.Timer }

// C is the timer's channel.
func (t systemTimer) C() <-chan time.Time { return t.t.C }

// Reset is the timer's Reset.
func (t systemTimer) Reset(d time.Duration) { t.t.Reset(d) }

// Stop is the timer's Stop.
func (t systemTimer) Stop() { t.t.Stop() }
