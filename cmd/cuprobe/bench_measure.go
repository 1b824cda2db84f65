package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// The parts of a bench.
const (
	partPinned   = "pinned"
	partPageable = "pageable"
	partPeer     = "peer"
	partLatency  = "latency"
)

func benchParts() []string { return []string{partPinned, partPageable, partPeer, partLatency} }

// bench says what to measure, and has what is needed for it.
type bench struct {
	ordinals []int // nil for the first two devices
	faulty   []int // devices that are not measured, even if they are chosen
	all      bool  // all devices
	sizes    []uint64
	parts    []string // nil for all
	samples  int      // 0 for a number that the program chooses
	batch    int      // 0 for a number that the program chooses
	budget   time.Duration

	ctx      context.Context
	waiter   *waiter // ends the wait for a call that hangs; nil for no end
	sampling sampling
	sim      *cusim.Driver // the software driver with virtual time, or nil
	targets  []*target
	report   *benchReport
	progress progress
}

// target is a device that is measured.
type target struct {
	dev   *cu.Device
	rig   *rig
	timer *timer
	other *cu.Stream // for copies at the same time as those on the timer's stream
}

// A sample has as many copies as take copiesFor, but at most maxCopies, which fit into a stream's
// queue.
const (
	copiesFor = 200 * time.Microsecond
	maxCopies = 64
)

// watch returns a function that says how much time has passed, by the clock of the driver.
func (b *bench) watch() func() time.Duration {
	if b.sim == nil {
		return watch()
	}
	now := b.sim.Software().Clock().Now
	began := now()
	return func() time.Duration { return now().Sub(began) }
}

// wait is called while work is pending. Virtual time has to be advanced then.
func (b *bench) wait() error {
	if b.sim != nil {
		b.sim.Finish()
	}
	return b.ctx.Err()
}

// buffers has the memory of the copies of a row. An interrupt does not make a row fail whose samples have been taken.
func (b *bench) buffers() *buffers {
	return &buffers{wait: func() error { b.wait(); return nil }}
}

// measure fills the report.
func (b *bench) measure(ctx context.Context, devs []*cu.Device, w io.Writer) (err error) {
	b.ctx = ctx
	defer b.progress.clear()
	defer func() { // the newest first, and after their work
		if errors.Is(err, errHangs) {
			return // closing would hang, too
		}
		b.wait() // the error of the context is known
		for _, t := range slices.Backward(b.targets) {
			t.rig.closeAfter(&err)
		}
	}()
	for _, dev := range devs {
		if err := b.within(fmt.Sprintf("device %d", dev.Ordinal()), func() error { return b.open(dev) }); err != nil {
			return err
		}
	}
	if err := b.checkLoad("before"); err != nil {
		return err
	}
	rows, steps := table{w: w}, b.steps()
	for i, s := range steps {
		b.progress.show(i, len(steps), s.row.Name)
		err := b.within(s.row.Name, func() error { return s.take(s.row) })
		b.progress.clear()
		if errors.Is(err, errHangs) {
			return err // the call that hangs may still change the row
		}
		if reason, ok := outOfRoom(err); ok {
			b.report.Skipped = append(b.report.Skipped, skipped{s.row.Name, reason})
			continue
		}
		if s.row.Time.Samples > 0 {
			b.report.Measurements = append(b.report.Measurements, s.row)
			rows.print(s.row.head(), s.row.text())
		}
		if err != nil {
			return err
		}
	}
	return b.checkLoad("after")
}

// within calls f. If there is a waiter, it returns an error if f hangs.
func (b *bench) within(what string, f func() error) error {
	if b.waiter == nil {
		return f()
	}
	_, err := within(b.waiter, what, func() (struct{}, error) { return struct{}{}, f() })
	if errors.Is(err, errHangs) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// open prepares a device.
func (b *bench) open(dev *cu.Device) error {
	rig, err := newRig(dev)
	if err != nil {
		return err
	}
	t := &target{dev: dev, rig: rig}
	b.targets = append(b.targets, t)
	if t.timer, err = newTimer(b.ctx, rig); err != nil {
		return err
	}
	t.timer.watch, t.timer.wait = b.watch, b.wait
	t.timer.single = t.timer.batches // a sample is a batch of copies, too
	if t.other, err = rig.stream(); err != nil {
		return err
	}
	if err := b.checkMemory(t); err != nil {
		return err
	}
	return t.timer.warm()
}

// The kinds of warnings.
const (
	warnBusy   = "busy"
	warnMemory = "memory-in-use"
)

// The limits of a device that nothing else uses. A context takes a few hundred megabytes.
const (
	loadSpin      = time.Millisecond
	loadSamples   = 20
	loadDeviation = 0.05
	usedPart      = 10 // a tenth of the memory
	usedLeast     = 2 << 30
)

func (b *bench) warn(t *target, code, format string, args ...any) {
	w := benchWarning{t.dev.Ordinal(), hint{code, fmt.Sprintf(format, args...)}}
	b.report.Warnings = append(b.report.Warnings, w)
}

// checkMemory warns if much of the device's memory is in use before anything is allocated.
func (b *bench) checkMemory(t *target) error {
	free, total, err := t.rig.gpu.MemInfo()
	if err != nil {
		return err
	}
	if used := total - min(free, total); used > max(total/usedPart, usedLeast) {
		b.warn(t, warnMemory, "%s of %s GiB of the memory are in use: other programs may use the GPU, see nvidia-smi",
			gibibytes(used), gibibytes(total))
	}
	return nil
}

// checkLoad warns if kernels that spin for a fixed time take longer. They spin by the GPU's timer, so
// that clocks do not matter: the GPU does something else in between.
func (b *bench) checkLoad(when string) error {
	for _, t := range b.targets {
		var took []time.Duration
		err := b.within(fmt.Sprintf("kernels on device %d", t.dev.Ordinal()), func() error {
			for range loadSamples {
				s, err := t.timer.time(func() error { return t.rig.launch(t.timer.stream, loadSpin) })
				if err != nil {
					return err
				}
				took = append(took, s.events)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if s := summarize(took); deviation(s.P95, loadSpin) > loadDeviation {
			b.warn(t, warnBusy, "%s the measurement, kernels of %s took up to %s (95th percentile of %d): "+
				"something else uses the GPU, see nvidia-smi", when, shortDuration(loadSpin),
				duration(s.P95), s.Samples)
		}
	}
	return nil
}

// step is a row, and the function that measures it.
type step struct {
	row  *benchRow
	take func(*benchRow) error
}

// wants reports whether a part is to be measured.
func (b *bench) wants(part string) bool { return b.parts == nil || slices.Contains(b.parts, part) }

// steps returns what is to be measured.
func (b *bench) steps() []step {
	var steps []step
	for _, t := range b.targets {
		for _, memory := range []string{partPinned, partPageable} {
			if !b.wants(memory) {
				continue
			}
			for _, direction := range []string{"h2d", "d2h", "both"} {
				for _, n := range b.sizes {
					row := copyRow(t, b.prefix(t)+memory+" "+direction, memory, direction, n)
					take := func(r *benchRow) error { return b.pinned(t, r) }
					if memory == partPageable {
						row.Clock = clockHost
						take = func(r *benchRow) error { return b.pageable(t, r) }
					}
					steps = append(steps, step{row, take})
				}
			}
		}
	}
	if b.wants(partPeer) {
		steps = append(steps, b.peerSteps()...)
	}
	if b.wants(partLatency) {
		for _, t := range b.targets {
			steps = append(steps, b.latencySteps(t)...)
		}
	}
	return steps
}

// prefix returns the begin of the names of a device's rows: its ordinal, if there are several devices.
func (b *bench) prefix(t *target) string {
	if len(b.targets) == 1 {
		return ""
	}
	return fmt.Sprintf("%d: ", t.dev.Ordinal())
}

// copyRow returns the row for copies of n bytes, without results.
func copyRow(t *target, name, memory, direction string, n uint64) *benchRow {
	r := &benchRow{
		Name: name + " " + size(n), Kind: kindCopy, Device: t.dev.Ordinal(), Memory: memory, Direction: direction,
		Bytes: n, Batch: 1, Clock: clockEvents,
	}
	if direction == "both" {
		r.Bytes *= 2
	}
	return r
}

// peerSteps returns the steps for copies between devices: for each pair both ways, and both at once.
func (b *bench) peerSteps() []step {
	var steps []step
	for i, from := range b.targets {
		for _, to := range b.targets[i+1:] {
			for _, way := range []struct {
				from, to *target
				sign     string
			}{{from, to, ">"}, {to, from, ">"}, {from, to, "<>"}} {
				direction := "peer"
				if way.sign == "<>" {
					direction = "both"
				}
				for _, n := range b.sizes {
					other := way.to.dev.Ordinal()
					name := fmt.Sprintf("peer %d%s%d", way.from.dev.Ordinal(), way.sign, other)
					row := copyRow(way.from, name, "device", direction, n)
					row.Peer = &other
					steps = append(steps, step{row, func(r *benchRow) error { return b.peers(way.from, way.to, r) }})
				}
			}
		}
	}
	return steps
}

// latencySteps returns the steps for the calls on a device.
func (b *bench) latencySteps(t *target) []step {
	var steps []step
	for _, call := range []struct {
		name  string
		batch int
		take  func() (time.Duration, bool, error)
	}{
		{"launch", batch, t.timer.launchCalls},
		{"launch to completion", 1, t.timer.roundTrip},
		{"record", batch, t.timer.recordCalls},
		{"query", batch, t.timer.queryCalls},
		{"record to Wait", 1, func() (time.Duration, bool, error) { return b.recordToWait(t) }},
	} {
		row := &benchRow{Name: b.prefix(t) + call.name, Kind: kindCall, Device: t.dev.Ordinal(), Batch: call.batch,
			Clock: clockHost}
		steps = append(steps, step{row, func(r *benchRow) error { return b.sample(r, call.take) }})
	}
	return steps
}

// recordToWait returns the time from before the record of an event on an idle stream until
// Event.Wait returns.
func (b *bench) recordToWait(t *target) (d time.Duration, held bool, err error) {
	elapsed := b.watch()
	if err := t.timer.record(); err != nil {
		return 0, false, err
	}
	if b.sim != nil {
		b.sim.Finish() // Wait does not advance the time
	}
	err = t.timer.start.Wait(b.ctx)
	return elapsed(), true, err
}

// pinned measures copies from or to pinned memory.
func (b *bench) pinned(t *target, r *benchRow) (err error) {
	s := b.buffers()
	defer s.close(&err)
	up := s.pair(t.timer, false, t.timer, true, r.size())
	down := up
	if r.Direction == "both" {
		down = s.pair(t.timer, true, t.timer, false, r.size())
	} else if r.Direction == "d2h" {
		up.dst, up.src = up.src, up.dst
	}
	if s.err != nil {
		return s.err
	}
	return b.events(t, r, up, t.other, down)
}

// peers measures copies between devices.
func (b *bench) peers(from, to *target, r *benchRow) (err error) {
	access, err := connect(from, to)
	if err != nil {
		return err
	}
	r.staged = !access
	s := b.buffers()
	defer s.close(&err)
	forward := s.pair(to.timer, false, from.timer, false, r.size())
	backward := forward
	if r.Direction == "both" {
		backward = s.pair(from.timer, false, to.timer, false, r.size())
	}
	if s.err != nil {
		return s.err
	}
	return b.events(from, r, forward, to.other, backward)
}

// connect lets two devices access each other's memory, if they can.
func connect(x, y *target) (bool, error) {
	for _, way := range [][2]*target{{x, y}, {y, x}} {
		can, err := way[0].dev.CanAccessPeer(way[1].dev)
		if err != nil || !can {
			return false, err
		}
		if err := way[0].rig.gpu.EnablePeerAccess(way[1].rig.gpu); err != nil {
			return false, err
		}
	}
	return true, nil
}

// events measures copies by events on the target's stream. If the row's direction is both, the stream
// other makes the copy back at the same time.
func (b *bench) events(t *target, r *benchRow, forward transfer, other *cu.Stream, backward transfer) error {
	s := t.timer.stream
	work := func() error {
		for range r.Batch {
			if err := s.Copy(forward.dst, forward.src); err != nil {
				return err
			}
		}
		return nil
	}
	if r.Direction == "both" {
		one := work
		work = func() error { return t.atOnce(one, other, r.Batch, backward) }
	}
	take := func() (time.Duration, bool, error) {
		s, err := t.timer.time(work)
		return s.events, s.held, err
	}
	if r.Batch = b.batch; r.Batch == 0 {
		r.Batch = 1
		for range b.sampling.warmUp { // the first copies may be slow
			took, _, err := take()
			if err != nil {
				return err
			}
			r.Batch = int(min(max(copiesFor*time.Duration(r.Batch)/max(took, 1), 1), maxCopies))
		}
	}
	return b.sample(r, take)
}

// atOnce enqueues work on the timer's stream and copies on another stream, which may be of another
// device. Both begin after the event start, and the timer's stream waits for both.
func (t *target) atOnce(work func() error, other *cu.Stream, batch int, c transfer) error {
	if err := other.WaitEvent(t.timer.start); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	for range batch {
		if err := other.Copy(c.dst, c.src); err != nil {
			return err
		}
	}
	return t.timer.stream.WaitStream(other)
}

// pageable measures copies from or to ordinary memory. The calls return after the copy.
func (b *bench) pageable(t *target, r *benchRow) (err error) {
	s := b.buffers()
	defer s.close(&err)
	up, _ := s.alloc(t.timer, r.size(), false).(*cu.DeviceMem)
	down := up
	if r.Direction == "both" {
		down, _ = s.alloc(t.timer, r.size(), false).(*cu.DeviceMem)
	}
	if s.err != nil {
		return s.err
	}
	src, dst := make([]byte, r.size()), make([]byte, r.size())
	for i := range src { // the system provides memory when it is written
		src[i], dst[i] = 1, 1
	}
	return b.sample(r, func() (time.Duration, bool, error) {
		elapsed := b.watch()
		var err error
		switch r.Direction {
		case "h2d":
			err = up.CopyFrom(src)
		case "d2h":
			err = down.CopyTo(dst)
		default:
			other := make(chan error, 1)
			go func() { other <- up.CopyFrom(src) }()
			err = down.CopyTo(dst)
			err = errors.Join(err, <-other)
		}
		return elapsed(), true, err
	})
}

// sample takes the samples of a row, and summarizes them. take returns the time of a sample, and
// whether the stream was held while its work was enqueued.
func (b *bench) sample(r *benchRow, take func() (time.Duration, bool, error)) error {
	took, notHeld, err := b.sampling.take(b.ctx, func() (time.Duration, bool, error) {
		d, held, err := take()
		if b.waiter != nil {
			b.waiter.heartbeats.Add(1)
		}
		return d, held, err
	})
	r.NotHeld = notHeld
	kind := kindCopy
	if r.Clock == clockHost {
		kind = kindCall
	}
	r.Hints = judge(kind, took, nil, r.NotHeld)
	r.Time = summarize(took)
	if r.Clock == clockEvents { // calls are divided already
		n := time.Duration(r.Batch)
		for _, t := range []*time.Duration{&r.Time.Min, &r.Time.Median, &r.Time.P95, &r.Time.Max, &r.Time.MAD} {
			*t /= n
		}
	}
	if r.Kind == kindCall {
		r.Distribution = distribution(took)
	}
	r.rate()
	return err
}

// rate sets the row's bytes per second, and adds the hints that judge does not know.
func (r *benchRow) rate() {
	if r.Time.Median == 0 && r.Time.Samples > 0 {
		r.Hints = []hint{{hintNoTime, "the median is 0ns"}}
	} else if r.Bytes > 0 && r.Time.Samples > 0 {
		r.BytesPerSecond = float64(r.Bytes) / r.Time.Median.Seconds()
	}
	if r.staged {
		r.Hints = append(r.Hints, hint{hintStaged, "there is no peer access"})
	}
}
