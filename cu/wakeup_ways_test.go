//go:build linux

package cu_test

import (
	"context"
	"errors"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
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
	for _, t := range w.timelines {
		n += core.Of(w.r.gpu).Context.Drv.Watch.Number(&TimelineState(t).Waits)
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

// wordWaits are for words in the host's memory that streams raise, as for timelines. One goroutine looks at all of
// them and does nothing else: what is left is what the GPU takes, for such writes.
type wordWaits struct {
	*timelineWaits
	seen []time.Time
}

func openWords(r *wakeRig, waits, streams int) (wakeWaits, error) {
	w, err := openTimelines(r, waits, streams)
	if err != nil {
		return nil, err
	}
	return &wordWaits{w.(*timelineWaits), make([]time.Time, waits)}, nil
}

func (w *wordWaits) wait(ctx context.Context, i int) error {
	if i != 0 {
		return nil
	}
	next := make([][]int, len(w.timelines)) // the waits of each stream that are not over, in order
	for i, on := range w.on {
		next[on] = append(next[on], i)
	}
	for left := len(w.on); left > 0; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for s, t := range w.timelines {
			for len(next[s]) > 0 && t.Value() >= w.values[next[s][0]] {
				w.seen[next[s][0]] = time.Now()
				next[s] = next[s][1:]
				left--
			}
		}
	}
	return nil
}

func (w *wordWaits) times() []time.Time { return w.seen }

// waiting returns how many wait, as far as it matters.
func (w *wordWaits) waiting() int { return len(w.on) }

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
