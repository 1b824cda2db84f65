package core

// WaitCounts are the resources of a driver's waits.
type WaitCounts struct {
	// Waits are the waits in progress: one for each goroutine in Wait, for each ticket, and for
	// each pending event in WaitAll and WaitAny.
	Waits int
	// Wakeups are the wake-ups left to streams. After a sticky error they are never made.
	Wakeups int
	// Descriptors and Pages are the open file descriptors and mapped pages of the waits.
	Descriptors, Pages int
}

// WaitCounts returns the present resources of the driver's waits.
func (d *Driver) WaitCounts() WaitCounts {
	d.Watch.Tidy()
	s := d.Watch.State()
	c := WaitCounts{Waits: s.Waiters + s.Others}
	if n := d.notifier.Load(); n != nil {
		notified := n.Notified() // loaded first, so that it is not above armed
		c.Wakeups = max(0, int(n.armed.Load()-notified))
		c.Descriptors, c.Pages = n.Holds()
	}
	return c
}
