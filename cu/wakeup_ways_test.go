//go:build linux

package cu

import (
	"context"
	"errors"
	"time"
)

type hostFuncWaits struct {
	r     *wakeRig
	done  []chan struct{}
	funcs []func()
}

func openHostFuncs(r *wakeRig, waits, _ int) (wakeWaits, error) {
	w := &hostFuncWaits{r: r}
	for range waits {
		done := make(chan struct{}, 1)
		w.done = append(w.done, done)
		w.funcs = append(w.funcs, func() { done <- struct{}{} })
	}
	return w, nil
}

func (w *hostFuncWaits) arm(i, stream int) error { return w.r.streams[stream].HostFunc(w.funcs[i]) }

func (w *hostFuncWaits) wait(ctx context.Context, i int) error {
	select {
	case <-w.done[i]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type timelineWaits struct {
	r         *wakeRig
	timelines []*Timeline // one a stream
	last      []uint64    // the value of each that was signaled last
	on        []int       // the stream of each wait
	values    []uint64    // the value that each wait is for
}

func openTimelines(r *wakeRig, waits, streams int) (wakeWaits, error) {
	w := &timelineWaits{r: r, last: make([]uint64, streams), on: make([]int, waits), values: make([]uint64, waits)}
	for range streams {
		t, err := r.gpu.NewTimeline(0)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.timelines = append(w.timelines, t)
	}
	return w, nil
}

func (w *timelineWaits) arm(i, stream int) error {
	w.last[stream]++
	w.on[i], w.values[i] = stream, w.last[stream]
	return w.timelines[stream].Signal(w.r.streams[stream], w.values[i])
}

func (w *timelineWaits) wait(ctx context.Context, i int) error {
	return w.timelines[w.on[i]].Wait(ctx, w.values[i])
}

// waiting returns how many are the watcher's.
func (w *timelineWaits) waiting() (n int) {
	watch := &w.r.gpu.own.core.drv.watch
	watch.mu.Lock()
	defer watch.mu.Unlock()
	for _, t := range w.timelines {
		n += len(t.core.waiting)
	}
	return n
}

func (w *timelineWaits) Close() error {
	var errs []error
	for _, t := range w.timelines {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

func (r *wakeRig) timelineReads() {
	const part, reads = "reads", 1_000_000
	if !r.wants(part, "timeline") {
		return
	}
	t, err := r.gpu.NewTimeline(1)
	if err != nil {
		r.note("%s: FAILED: %v", part, err)
		return
	}
	var sum uint64
	t0 := time.Now()
	for range reads {
		sum += t.Value()
	}
	ms := float64(time.Since(t0).Nanoseconds()) / 1e6
	if err := t.Close(); err != nil || sum != reads {
		r.note("%s: FAILED: the sum of %d reads of 1 is %d; %v", part, reads, sum, err)
		return
	}
	r.put(part, "timeline", 1, 1, "1,000,000 reads, ms", ms)
}
