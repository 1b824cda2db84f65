package cu

import "github.com/purecu/purecu/internal/timelines"

// Stats are the resources that the library holds for a driver, in addition to the program's open
// objects. A program that runs for months may watch them. Each number falls to its earlier value
// when the counted objects are released.
type Stats struct {
	// Waits are the waits in progress: one for each goroutine in [Event.Wait], [Stream.Wait] or
	// [Timeline.Wait], for each ticket whose Done or Notify was called, and for each pending event
	// of [WaitAll] and [WaitAny].
	Waits int `json:"waits"`
	// WakeUpStreams are the library's streams that end long waits. Each context has up to 16.
	WakeUpStreams int `json:"wakeUpStreams"`
	// WakeUps are the wake-ups that are enqueued on streams and have not happened yet.
	WakeUps int `json:"wakeUps"`
	// DeferredObjects are objects that were abandoned, or closed while they were in use. The next
	// freeing call frees them: see docs/blocking.md. DeferredBytes is their memory.
	DeferredObjects int    `json:"deferredObjects"`
	DeferredBytes   uint64 `json:"deferredBytes"`
	// EndedMappings are mappings of virtual memory that the program has ended, and that are not
	// unmapped: work may use them, or the driver has failed to unmap them. EndedBytes is their size.
	EndedMappings int    `json:"endedMappings"`
	EndedBytes    uint64 `json:"endedBytes"`
	// AbandonedContexts are CUDA contexts that the library no longer uses, and has not released:
	// see [Context.Close].
	AbandonedContexts int `json:"abandonedContexts"`
	// Timelines are the open timelines. UnfinishedTimelines are closed, and their work is not known
	// to be done.
	Timelines           int `json:"timelines"`
	UnfinishedTimelines int `json:"unfinishedTimelines"`
	// Mappings are the library's mappings of memory: the memory of timelines, and one page for each
	// driver whose streams have wake-ups left.
	Mappings int `json:"mappings"`
	// FileDescriptors are the open file descriptors of the library.
	FileDescriptors int `json:"fileDescriptors"`
}

// Stats returns the resources that the library holds for the driver. It makes no driver call. The
// numbers are of about the same moment.
func (d *Driver) Stats() Stats {
	if !d.open() {
		return Stats{}
	}
	waits := d.core.WaitCounts()
	lines := timelines.CountsOf(&d.core)
	s := Stats{
		Waits:               waits.Waits,
		WakeUps:             waits.Wakeups,
		Timelines:           lines.Open,
		UnfinishedTimelines: lines.Unfinished,
		Mappings:            waits.Pages + lines.Mappings,
		FileDescriptors:     waits.Descriptors,
	}
	d.core.Mu.Lock()
	defer d.core.Mu.Unlock()
	s.AbandonedContexts = len(d.core.Abandoned)
	s.DeferredObjects, _ = d.core.Libraries.Size()
	for _, c := range d.core.Contexts {
		n, bytes := c.Deferred.Size()
		s.DeferredObjects += n
		s.DeferredBytes += bytes
		s.EndedMappings += int(c.Unmapping.Load())
		s.EndedBytes += uint64(c.UnmappingBytes.Load())
		s.WakeUpStreams += c.WakeUps.Count()
	}
	return s
}
