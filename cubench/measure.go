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
	samples []float64 // ns for each operation
}

func newMeasurement(ctx context.Context, gpu *cu.Context, op func(s *cu.Stream) error, o options) (m *measurement, err error) {
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

// close closes all objects, the newest first.
func (m *measurement) close() (err error) {
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

// warmUp takes samples until the time is stable, and chooses the number of operations in a sample.
func (m *measurement) warmUp() error {
	const least, most, stable = 3, 50, 0.05
	before := math.Inf(1)
	for i := range most {
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
	if err != nil {
		return err
	}
	per := float64(took)/float64(m.operations) - m.launch*float64(m.opts.kernels)
	m.samples = append(m.samples, max(per, 0))
	return nil
}

// sample returns how long the GPU takes for m.operations operations. If they do not fit into the
// stream's queue, it reduces their number.
func (m *measurement) sample() (time.Duration, error) {
	for {
		held, err := m.enqueue()
		if err == nil {
			err = m.wait()
		}
		if err != nil {
			return 0, err
		}
		if held || m.operations == 1 {
			took, _, err := m.stop.Since(m.start)
			return took, err
		}
		m.operations = (m.operations + 1) / 2
		m.opts.operations = m.operations // for later samples, too
	}
}

// enqueue enqueues a sample's work while the stream is held. It reports false if the stream had to
// go on earlier, because the queue was full.
func (m *measurement) enqueue() (held bool, err error) {
	m.turn++
	if err := m.gate.Block(m.s, m.turn); err != nil {
		return false, err
	}
	enqueued, timedOut := make(chan struct{}), make(chan bool)
	go func() {
		patience := time.NewTimer(m.opts.patience)
		defer patience.Stop()
		select {
		case <-enqueued:
			timedOut <- false
		case <-patience.C:
			m.gate.Set(m.turn) // Set fails only if the gate is closed, and then nothing is held
			timedOut <- true
		}
	}()
	err = m.start.Record(m.s)
	for i := 0; i < m.operations && err == nil; i++ {
		err = m.op(m.s)
	}
	if err == nil {
		err = m.stop.Record(m.s)
	}
	close(enqueued)
	held = !<-timedOut
	return held, errors.Join(err, m.gate.Set(m.turn))
}

// wait waits for the sample's work.
func (m *measurement) wait() error {
	if m.opts.clock == nil {
		return m.stop.Wait(m.ctx)
	}
	for step := time.Microsecond; ; step = min(2*step, time.Second) {
		if status, err := m.stop.Query(); err != nil || status == cu.Complete {
			return err
		}
		if err := m.ctx.Err(); err != nil {
			return err
		}
		m.opts.clock.Advance(step)
	}
}

// precise reports whether the relative error is small enough.
func (m *measurement) precise() bool {
	return sorted(m.samples).relativeError() <= m.opts.precision
}
