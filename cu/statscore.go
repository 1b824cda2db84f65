package cu

// waitCounts are the resources of a driver's waits.
type waitCounts struct {
	// waits are the waits in progress: one for each goroutine in Wait, for each ticket, and for
	// each pending event in WaitAll and WaitAny.
	waits int
	// wakeups are the wake-ups left to streams. After a sticky error they are never made.
	wakeups int
	// descriptors and pages are the open file descriptors and mapped pages of the waits.
	descriptors, pages int
}

// waitCounts returns the present resources of the driver's waits.
func (d *driverCore) waitCounts() waitCounts {
	d.watch.Tidy()
	s := d.watch.State()
	c := waitCounts{waits: s.Waiters + s.Others}
	if n := d.notifier.Load(); n != nil {
		notified := n.Notified() // loaded first, so that it is not above armed
		c.wakeups = max(0, int(n.armed.Load()-notified))
		c.descriptors, c.pages = n.Holds()
	}
	return c
}

// timelineCounts returns the numbers of the driver.
func (d *driverCore) timelineCounts() (n timelineCounts) {
	n.mappings = d.slabs.Mapped()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.contexts {
		c.cells.mu.Lock()
		n.open += c.cells.open
		n.unfinished += c.cells.unfinished
		c.cells.mu.Unlock()
	}
	return n
}

// timelineCounts has the number of slabs, and how many timelines are open, or closed and still in
// use.
type timelineCounts struct{ mappings, open, unfinished int }
