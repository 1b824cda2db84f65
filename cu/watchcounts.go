package cu

// waitCounts says what waits need.
type waitCounts struct {
	// waits are the interests in outcomes: a goroutine's in Wait, a ticket's, and one for each event in WaitAll
	// and WaitAny that is pending.
	waits int
	// wakeups are the streams that have yet to wake the watcher. After a sticky error they never do.
	wakeups int
	// descriptors and pages are the file descriptors that are open, and the pages that are mapped, for this.
	descriptors, pages int
}

// counts returns what the driver's waits need at the moment.
func (w *watcher) counts() waitCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := waitCounts{waits: int(w.waiters.Load()) + w.others}
	if b := w.bell; b != nil {
		heard := b.Notified() // first: a stream that has rung was told to before
		n.wakeups = max(0, int(b.told.Load()-heard))
		n.descriptors, n.pages = b.Holds()
	}
	return n
}
