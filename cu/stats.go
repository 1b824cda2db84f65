package cu

// Stats says what the library holds for a driver at the moment, beside the objects that the program has open: what
// a program may want to watch that runs for months. Each number goes back to where it was when what it counts is
// over.
type Stats struct {
	// Waits are the waits under way: a goroutine's in [Event.Wait], [Stream.Wait] or [Timeline.Wait], that of a ticket
	// whose Done or Notify was called, and one for each pending event of [WaitAll] and [WaitAny].
	Waits int `json:"waits"`
	// WakeUpStreams are streams of the library's own, which wake the goroutines of long waits. A context has up to 16.
	WakeUpStreams int `json:"wakeUpStreams"`
	// WakeUps are those that streams were told of and that are still to come.
	WakeUps int `json:"wakeUps"`
	// DeferredObjects are objects that were forgotten, or closed while they were in use, and that the next call which may
	// wait for the GPU frees: see [Driver.Close]. DeferredBytes is how much memory is among them.
	DeferredObjects int    `json:"deferredObjects"`
	DeferredBytes   uint64 `json:"deferredBytes"`
	// AbandonedContexts are CUDA contexts that nothing here uses any more, and that such a call releases.
	AbandonedContexts int `json:"abandonedContexts"`
	// Timelines are those that are open, and UnfinishedTimelines those that are closed while work with them is not
	// known to be done.
	Timelines           int `json:"timelines"`
	UnfinishedTimelines int `json:"unfinishedTimelines"`
	// Mappings are what the library has mapped into the address space: memory of timelines, and a page for each driver
	// whose streams have yet to wake a goroutine.
	Mappings int `json:"mappings"`
	// FileDescriptors are the files that are open.
	FileDescriptors int `json:"fileDescriptors"`
}

// Stats returns what the library holds for the driver. It asks the driver nothing. The numbers are of about the
// same moment.
func (d *Driver) Stats() Stats {
	if !d.open() {
		return Stats{}
	}
	waits := d.waitCounts()
	lines := d.timelineCounts()
	s := Stats{
		Waits:               waits.waits,
		WakeUps:             waits.wakeups,
		Timelines:           lines.open,
		UnfinishedTimelines: lines.unfinished,
		Mappings:            waits.pages + lines.mappings,
		FileDescriptors:     waits.descriptors,
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.AbandonedContexts = len(d.abandoned)
	for _, c := range d.contexts {
		n, bytes := c.deferred.size()
		s.DeferredObjects += n
		s.DeferredBytes += bytes
		s.WakeUpStreams += c.wakeUps.count()
	}
	return s
}
