package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purecu/purecu/cu"
)

func timeCommand() command {
	return command{
		name:  "time",
		short: "measure kernels, copies and calls, by events and by the host's clock",
		long: `It measures kernels that spin for a given time, copies from and to pinned memory and
within the memory of the device, and the calls that enqueue them. Before, the GPU runs
kernels for 0.4 s, so that it leaves its power-saving states, and each row has a
warm-up. Kernels spin by the GPU's timer, so its clocks do not change their times.
Another kernel holds the stream until the work and the events around it are enqueued,
so that the times of the events do not include the host's work. "host" is the same
interval by the host's clock, which polls for both ends, and the last column is the
difference. GB/s counts the copied bytes, with 10^9 bytes for a GB. A copy within the
device reads and writes each byte. In the rows of calls the times are the host's, for
one call.

Below the table are hints about inaccurate measurements. Without -spin, -copy and
-calls it measures everything, which takes about ten seconds. With one of them it
measures only the named rows.

An interrupt ends the measurement. The results so far are printed, and the exit status
is 1.

Fields with -json: driver, device, measurements (name, kind: spin, copy, gpu or
call, askedNS, bytes, direction, events and host: samples, minNS, medianNS, p95NS,
maxNS, madNS, deviation, gbPerSecond, notHeld, hints: code, text), skipped (name,
reason), interrupted, and error if there was one. The kind call has no events, and
host is for one call.`,
		define: func(fs *flag.FlagSet) func(*call) error {
			p := &plan{}
			fs.Func("spin", "measure kernels that spin for each duration of the `LIST`, such as 1ms,10ms",
				func(s string) (err error) {
					p.spins, err = parseList(s, parseSpin)
					return err
				})
			fs.Func("copy", "measure copies of each size of the `LIST`, such as 4KiB,16MiB (4K is 4KiB)",
				func(s string) (err error) {
					p.copies, err = parseList(s, parseSize)
					return err
				})
			fs.BoolVar(&p.calls, "calls", false, "measure the calls that launch, record, query and measure")
			fs.BoolVar(&p.quick, "quick", false, "take about two seconds")
			fs.Func("n", "take `N` samples of each row (default up to 50, in up to a second)",
				parseCount("samples", &p.samples))
			return p.run
		},
	}
}

// plan says what to measure.
type plan struct {
	spins   []time.Duration
	copies  []uint64
	calls   bool
	quick   bool
	samples int // 0 for a number that the program chooses

	warmUp, atLeast, atMost int
	budget                  time.Duration               // for one row; 0 if there is none
	watch                   func() func() time.Duration // reads the clock of the budget; nil for the host's

	l2 uint64 // the size of the device's L2 cache, or 0 if it is not known
}

// warmUp is how long the GPU runs kernels before the first measurement.
const warmUp = 400 * time.Millisecond

// complete sets the options that the user has not set.
func (p *plan) complete() {
	if p.spins == nil && p.copies == nil && !p.calls {
		for d := time.Microsecond; d <= 100*time.Millisecond; d *= 10 {
			p.spins = append(p.spins, d)
		}
		p.copies = []uint64{4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20}
		if p.quick {
			p.spins, p.copies = p.spins[:5], p.copies[:4]
		}
		p.calls = true
	}
	p.warmUp, p.atLeast, p.atMost, p.budget = 2, 10, 50, time.Second
	if p.quick {
		p.warmUp, p.atLeast, p.atMost, p.budget = 1, fewSamples, 15, 100*time.Millisecond
	}
	if p.samples > 0 {
		p.atLeast, p.atMost = p.samples, p.samples
	}
}

// parseList parses a list with commas in between.
func parseList[T any](text string, parse func(string) (T, error)) ([]T, error) {
	var list []T
	for _, item := range strings.Split(text, ",") {
		v, err := parse(strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// maxSpin limits how long a kernel may spin, because only the end of the process, or the watchdog
// of a display, can stop it.
const maxSpin = 10 * time.Second

func parseSpin(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Nanosecond || d > maxSpin {
		return 0, fmt.Errorf("%q is no duration from 1ns to %v, such as 10ms", s, maxSpin)
	}
	return d, nil
}

// parseCount returns the function of a flag that sets n to a number of things.
func parseCount(things string, n *int) func(string) error {
	return func(s string) error {
		v, err := strconv.ParseUint(s, 10, 31)
		if err != nil || v == 0 {
			return fmt.Errorf("the number of %s is a whole number from 1", things)
		}
		*n = int(v)
		return nil
	}
}

// maxSize limits the size of copies.
const maxSize = 64 << 30

func parseSize(s string) (uint64, error) {
	factor, number := uint64(1), strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s), "IB"), "B")
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(number, u.name[:1]); ok {
			number, factor = rest, u.bytes
		}
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n == 0 || n > maxSize/factor {
		return 0, fmt.Errorf("%q is no size from 1B to %s, such as 4KiB or 16MiB", s, size(maxSize))
	}
	return n * factor, nil
}

// The kinds of measurements.
const (
	kindSpin = "spin" // a kernel that spins
	kindCopy = "copy"
	kindGPU  = "gpu"  // the overhead of the GPU
	kindCall = "call" // the host's time for a call
)

// measurement is a row of the table.
type measurement struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Asked is the requested duration of a kernel.
	Asked time.Duration `json:"askedNS,omitempty"`
	// Bytes is the size of a copy, and Direction its direction: h2d, d2h or d2d.
	Bytes     uint64 `json:"bytes,omitempty"`
	Direction string `json:"direction,omitempty"`
	// Events are times by events. Host are the same intervals by the host's clock, or the times of
	// a call.
	Events *stats `json:"events,omitempty"`
	Host   *stats `json:"host,omitempty"`
	// Deviation is the relative difference of the host's median from the events' median.
	Deviation   float64 `json:"deviation"`
	GBPerSecond float64 `json:"gbPerSecond,omitempty"`
	// NotHeld counts the samples that began on the GPU before all their work was enqueued.
	NotHeld int    `json:"notHeld"`
	Hints   []hint `json:"hints"`
}

// timeReport contains the results of cuprobe time.
type timeReport struct {
	Driver       driverInfo     `json:"driver"`
	Device       deviceInfo     `json:"device"`
	Measurements []*measurement `json:"measurements"`
	ends
}

// run makes all measurements. Without -json it prints each row at once.
func (p *plan) run(c *call) (err error) {
	p.complete()
	drv, dev, err := c.openDevice()
	if err != nil {
		return err
	}
	r := &timeReport{Measurements: []*measurement{}, ends: ends{Skipped: []skipped{}}}
	if r.Driver, err = c.driverInfo(drv); err != nil {
		return err
	}
	if r.Device, err = newDeviceInfo(dev); err != nil {
		return err
	}
	return c.measured(r, func(ctx context.Context, w io.Writer) error {
		r.Driver.text(w)
		r.Device.text(w)
		return p.measure(ctx, dev, r, w)
	})
}

// measure fills the report.
func (p *plan) measure(ctx context.Context, dev *cu.Device, r *timeReport, w io.Writer) (err error) {
	rig, err := newRig(dev)
	if err != nil {
		return err
	}
	defer rig.closeAfter(&err)
	t, err := newTimer(ctx, rig)
	if err != nil {
		return err
	}
	if err := t.warm(warmUp); err != nil {
		return err
	}
	// A driver need not know the size.
	l2, err := dev.Attribute(cu.DeviceAttributeL2CacheSize)
	if err := optional(err); err != nil {
		return err
	}
	p.l2 = uint64(max(l2, 0))
	var head []string
	for _, row := range p.rows(t, r) {
		m, err := row()
		if m != nil {
			r.Measurements = append(r.Measurements, m)
			if h := heads(m.Kind); !slices.Equal(h, head) {
				head = h
				fmt.Fprintf(w, "\n%s\n", strings.Join(h, "\n"))
			}
			fmt.Fprintln(w, m.row())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rows returns a function for each row. For a row that cannot be measured, the function notes this
// in the report, and returns nil, nil.
func (p *plan) rows(t *timer, r *timeReport) []func() (*measurement, error) {
	var rows []func() (*measurement, error)
	for _, d := range p.spins {
		rows = append(rows, func() (*measurement, error) {
			m := &measurement{Name: "spin " + shortDuration(d), Kind: kindSpin, Asked: d}
			return p.sample(t, m, func() error { return t.rig.launch(t.stream, d) })
		})
	}
	for _, direction := range []string{"h2d", "d2h", "d2d"} {
		for _, n := range p.copies {
			rows = append(rows, func() (*measurement, error) { return p.copy(t, r, direction, n) })
		}
	}
	if p.calls {
		rows = append(rows, p.callRows(t)...)
	}
	return rows
}

// copy measures copies of n bytes.
func (p *plan) copy(t *timer, r *timeReport, direction string, n uint64) (m *measurement, err error) {
	m = &measurement{Name: direction + " " + size(n), Kind: kindCopy, Bytes: n, Direction: direction}
	dst, src, release, err := t.rig.buffers(t.stream, direction, n)
	if errors.Is(err, cu.ResultOutOfMemory) {
		r.Skipped = append(r.Skipped, skipped{m.Name, "there is too little memory, " + outOfMemory(err)})
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := errors.Join(t.stream.Synchronize(), release()); err == nil {
			err = e
		}
	}()
	m, err = p.sample(t, m, func() error { return t.stream.Copy(dst, src) })
	if m != nil && m.Events.Median > 0 {
		m.GBPerSecond = float64(n) / float64(m.Events.Median)
	}
	return m, err
}

// outOfMemory says which allocation has failed.
func outOfMemory(err error) string {
	var e *cu.Error
	if errors.As(err, &e) && e.Op == "cuMemHostAlloc" {
		return "pinned on the host (cuMemHostAlloc)"
	}
	return "on the device (cuMemAlloc)"
}

// buffers allocates the memory for a copy on the stream.
func (r *rig) buffers(s *cu.Stream, direction string, n uint64) (dst, src cu.Memory, release func() error, err error) {
	to, err := r.alloc(s, n, direction == "d2h")
	if err != nil {
		return nil, nil, nil, err
	}
	from, err := r.alloc(s, n, direction == "h2d")
	if err != nil {
		return nil, nil, nil, errors.Join(err, to.Close())
	}
	return to, from, func() error { return errors.Join(to.Close(), from.Close()) }, nil
}

// buffer is memory of one end of a copy.
type buffer interface {
	cu.Memory
	io.Closer
}

// alloc allocates pinned memory of the host, or memory of the device, and writes all of it.
func (r *rig) alloc(s *cu.Stream, n uint64, host bool) (buffer, error) {
	if host {
		m, err := r.gpu.AllocHost(n, cu.HostDefault)
		if err != nil {
			return nil, err
		}
		if err := m.View(func(b []byte) error { clear(b); return nil }); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	}
	m, err := r.gpu.Alloc(n)
	if err != nil {
		return nil, err
	}
	if err := s.Memset(m, 0); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// sample takes the samples of a row that is measured on the GPU.
func (p *plan) sample(t *timer, m *measurement, work func() error) (*measurement, error) {
	var events, host []time.Duration
	err := p.repeat(t.ctx, func(keep bool) error {
		s, err := t.time(work)
		if err == nil && keep {
			events, host = append(events, s.events), append(host, s.host)
			if !s.held {
				m.NotHeld++
			}
		}
		return err
	})
	if len(events) == 0 {
		return nil, err
	}
	e, h := summarize(events), summarize(host)
	m.Events, m.Host = &e, &h
	m.Deviation = deviation(h.Median, e.Median)
	m.Hints = judge(m.Kind, events, host, m.NotHeld)
	if h, cached := p.cached(m); cached {
		m.Hints = append(m.Hints, h)
	}
	return m, err
}

// cached returns a hint if the source and the destination of a copy within the device fit into its
// L2 cache.
func (p *plan) cached(m *measurement) (hint, bool) {
	if m.Direction != "d2d" || m.Bytes >= 2*p.l2 {
		return hint{}, false
	}
	return hint{hintCache, fmt.Sprintf("the L2 cache has %s MiB", decimal(float64(p.l2)/(1<<20), 3))}, true
}

// sampleCall takes the samples of a row of calls. take returns the time of one call, and whether
// the stream was held during the call.
func (p *plan) sampleCall(t *timer, m *measurement, take func() (time.Duration, bool, error)) (*measurement, error) {
	var host []time.Duration
	err := p.repeat(t.ctx, func(keep bool) error {
		d, held, err := take()
		if err == nil && keep {
			host = append(host, d)
			if !held {
				m.NotHeld++
			}
		}
		return err
	})
	if len(host) == 0 {
		return nil, err
	}
	h := summarize(host)
	m.Host = &h
	m.Hints = judge(m.Kind, host, nil, m.NotHeld)
	return m, err
}

// repeat takes the samples of a row, after a warm-up whose samples are discarded.
func (p *plan) repeat(ctx context.Context, sample func(keep bool) error) error {
	for range p.warmUp {
		if err := sample(false); err != nil {
			return err
		}
	}
	begin := p.watch
	if begin == nil {
		begin = watch
	}
	elapsed := begin()
	for i := range p.atMost {
		if i >= p.atLeast && elapsed() > p.budget {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := sample(true); err != nil {
			return err
		}
	}
	return nil
}

// heads returns the header lines of a kind.
func heads(kind string) []string {
	if kind == kindCall {
		return []string{
			"host, for one call",
			fmt.Sprintf("%-14s %4s %9s %9s %9s", "", "n", "min", "median", "p95"),
		}
	}
	return []string{
		fmt.Sprintf("%-14s %4s %9s %9s %9s  %9s", "", "", "events", "", "", "host"),
		fmt.Sprintf("%-14s %4s %9s %9s %9s  %9s %9s %8s", "", "n", "min", "median", "p95", "median", "deviates",
			"GB/s"),
	}
}

// row returns the measurement's line in the table.
func (m *measurement) row() string {
	s := m.Events
	if s == nil {
		s = m.Host
	}
	line := fmt.Sprintf("%-14s %4d %9s %9s %9s", m.Name, s.Samples, duration(s.Min), duration(s.Median),
		duration(s.P95))
	if m.Events != nil {
		rate := ""
		if m.Kind == kindCopy {
			rate = decimal(m.GBPerSecond, 5)
		}
		line += fmt.Sprintf("  %9s %+8.2f%% %8s", duration(m.Host.Median), 100*m.Deviation, rate)
	}
	return strings.TrimRight(line+" "+mark(m.Hints), " ")
}

func (m *measurement) hinted() (string, []hint) { return m.Name, m.Hints }

// mark returns the reference to hints, if there are any.
func mark(hints []hint) string {
	if len(hints) > 0 {
		return "*"
	}
	return ""
}

// textEnd prints the text below the table.
func (r *timeReport) textEnd(w io.Writer) { r.ends.text(w, explainHints(r.Measurements, 80)) }
