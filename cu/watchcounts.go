package cu

// waitCounts says what waits need.
type waitCounts struct {
	// waits are the interests in outcomes: a goroutine's in Wait, a ticket's, and one for each event in WaitAll
	// and WaitAny that is pending.
	waits int
	// wakeups are those that streams have yet to make. After a sticky error they never do.
	wakeups int
	// descriptors and pages are the file descriptors that are open, and the pages that are mapped, for this.
	descriptors, pages int
}

// waitCounts returns what the driver's waits need at the moment.
func (d *Driver) waitCounts() waitCounts {
	s := d.watch.State()
	c := waitCounts{waits: s.Waiters + s.Others}
	if n := d.source.notifier.Load(); n != nil {
		notified := n.Notified() // first: a stream that has notified was told to before
		c.wakeups = max(0, int(n.armed.Load()-notified))
		c.descriptors, c.pages = n.Holds()
	}
	return c
}
