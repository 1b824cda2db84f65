package cubench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/purecu/purecu/cu"
)

// emptyPTX has a kernel that does nothing.
const emptyPTX = `
.version 6.0
.target sm_50
.address_size 64
.visible .entry cubench_empty()
{
	ret;
}
`

// measurement takes samples of the GPU's time for an operation.
type measurement struct {
	ctx         context.Context
	opts        options
	op          func(s *cu.Stream) error
	s           *cu.Stream
	start, stop *cu.Event
	gate        *cu.Timeline
	turn        uint64 // how often gate has been raised
	closers     []func() error
	operations  int // in a sample
	// launch is the time of an empty kernel in ns, or 0.
	launch  float64
	samples []float64 // ns for each operation, with its launches
}

func newMeasurement(ctx context.Context, gpu *cu.Context, op func(s *cu.Stream) error,
	o options) (m *measurement, err error) {
	if o.kernels < 0 {
		return nil, fmt.Errorf("WithoutLaunches(%d): an operation launches no kernel, or some", o.kernels)
	}
	if op == nil {
		return nil, errors.New("the operation is nil: pass a function that enqueues work on the stream")
	}
	m = &measurement{ctx: ctx, opts: o, op: op, operations: 1}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if m.s, err = gpu.NewStream(cu.StreamNonBlocking); err != nil {
		return m, err
	}
	m.closers = append(m.closers, m.s.Close)
	if m.gate, err = gpu.NewTimeline(0); err != nil {
		return m, fmt.Errorf("the stream cannot be held while work is enqueued: %w", err)
	}
	m.closers = append(m.closers, m.gate.Close)
	for _, e := range []**cu.Event{&m.start, &m.stop} {
		if *e, err = gpu.NewEvent(cu.EventDefault); err != nil {
			return m, err
		}
		m.closers = append(m.closers, (*e).Close)
	}
	if o.kernels > 0 {
		err = m.measureLaunch(gpu)
	}
	return m, err
}

// close waits for the stream's work, and closes all objects, the newest first.
func (m *measurement) close() (err error) {
	if m.stop != nil { // what the caller closes next may be in use by work of a sample that failed
		ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), 10*time.Second)
		err = errors.Join(m.stop.Record(m.s), m.waitFor(ctx))
		cancel()
	}
	for i := len(m.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, m.closers[i]())
	}
	m.closers = nil
	return err
}

// measureLaunch sets launch.
func (m *measurement) measureLaunch(gpu *cu.Context) error {
	mod, err := gpu.LoadModule([]byte(emptyPTX))
	if err != nil {
		return err
	}
	m.closers = append(m.closers, mod.Close)
	empty, err := mod.Function("cubench_empty")
	if err != nil {
		return err
	}
	one := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	op := m.op
	m.op = func(s *cu.Stream) error { return empty.Launch(s, one) }
	if err := m.warmUp(); err != nil {
		return err
	}
	const samples = 51
	for range samples {
		if err := m.add(); err != nil {
			return err
		}
	}
	m.launch = sorted(m.samples).quantile(0.5)
	m.op, m.samples, m.operations = op, nil, 1
	return nil
}

// launches is what is subtracted for each operation, in ns.
func (m *measurement) launches() float64 { return m.launch * float64(m.opts.kernels) }

// warmUp takes samples until the time is stable, and chooses the number of operations in a sample.
func (m *measurement) warmUp() error {
	const least, most, stable = 3, 50, 0.05
	begin, before := time.Now(), math.Inf(1)
	for i := 0; i < least || i < most && time.Since(begin) < m.opts.longest; i++ {
		took, err := m.sample()
		if err != nil {
			return err
		}
		per := float64(took) / float64(m.operations)
		if i >= least && math.Abs(per-before) <= stable*before {
			return nil
		}
		before = per
		if per > 0 {
			m.operations = min(m.opts.operations, max(1, int(float64(m.opts.target)/per)))
		}
	}
	return nil
}

// add takes a sample.
func (m *measurement) add() error {
	took, err := m.sample()
	if err == nil {
		m.samples = append(m.samples, float64(took)/float64(m.operations))
	}
	return err
}

// errNotHeld is the error of an operation that cannot be measured while the stream is held.
var errNotHeld = errors.New("the operation waits for its own work, or has more calls than fit into the " +
	"stream's queue: let it only enqueue work, at most some hundred calls")

// sample returns how long the GPU takes for m.operations operations. If they do not fit into the
// stream's queue, it reduces their number.
func (m *measurement) sample() (time.Duration, error) {
	for again := false; ; {
		held, err := m.enqueue()
		if err == nil {
			err = m.wait()
		}
		if err != nil {
			return 0, err
		}
		if held {
			took, _, err := m.stop.Since(m.start)
			return took, err
		}
		// Once may be a pause of this program, such as the compilation of a kernel.
		if again && m.operations == 1 {
			return 0, errNotHeld
		}
		if again {
			m.operations = (m.operations + 1) / 2
			m.opts.operations = m.operations // for later samples, too
		}
		again = !again
	}
}

// enqueue enqueues a sample's work while the stream is held. It reports false if the stream had to
// go on earlier, because enqueuing took too long: perhaps the queue was full. The stream goes on also
// if the operation panics, or ends the benchmark.
func (m *measurement) enqueue() (held bool, err error) {
	m.turn++
	if err := m.gate.Block(m.s, m.turn); err != nil {
		return false, err
	}
	enqueued, timedOut := make(chan struct{}), make(chan bool, 1)
	go m.release(enqueued, timedOut)
	defer func() {
		close(enqueued)
		held = !<-timedOut
		err = errors.Join(err, m.gate.Set(m.turn))
	}()
	err = m.start.Record(m.s)
	for i := 0; i < m.operations && err == nil; i++ {
		err = m.op(m.s)
	}
	if err == nil {
		err = m.stop.Record(m.s)
	}
	return held, err
}

// release lets the stream go on if the work is not enqueued in time, and reports whether it did. In
// virtual time it advances the time until the work is enqueued.
func (m *measurement) release(enqueued <-chan struct{}, timedOut chan<- bool) {
	patience := time.NewTimer(m.opts.patience)
	defer patience.Stop()
	select {
	case <-enqueued:
		timedOut <- false
		return
	case <-patience.C:
	}
	m.gate.Set(m.turn) // fails only if the gate is closed, which it is after this function
	for m.opts.clock != nil {
		select {
		case <-enqueued:
			timedOut <- true
			return
		case <-time.After(time.Millisecond):
			m.opts.clock.Advance(time.Millisecond)
		}
	}
	timedOut <- true
}

// wait waits for the sample's work.
func (m *measurement) wait() error { return m.waitFor(m.ctx) }

func (m *measurement) waitFor(ctx context.Context) error {
	if m.opts.clock == nil {
		return m.stop.Wait(ctx)
	}
	for step := time.Microsecond; ; step = min(2*step, time.Second) {
		if status, err := m.stop.Query(); err != nil || status == cu.Complete {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		m.opts.clock.Advance(step)
	}
}

// precise reports whether the relative error is small enough.
func (m *measurement) precise() bool {
	return sorted(m.samples).relativeError(m.launches()) <= m.opts.precision
}
