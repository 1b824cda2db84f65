package main

import (
	"context"
	"flag"
	"fmt"
	"io"
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
		define: func(fs *flag.FlagSet) func(*invocation) error {
			p := &plan{}
			// Only the end of the process, or the watchdog of a display, can stop a kernel that spins.
			fs.Func("spin", "measure kernels that spin for each duration of the `LIST`, such as 1ms,10ms",
				set(&p.spins, listOf(durationWithin(time.Nanosecond, 10*time.Second, "10ms"))))
			fs.Func("copy", "measure copies of each size of the `LIST`, such as 4KiB,16MiB (4K is 4KiB)",
				set(&p.copies, listOf(parseSize)))
			fs.BoolVar(&p.calls, "calls", false, "measure the calls that launch, record, query and measure")
			fs.BoolVar(&p.quick, "quick", false, "take about two seconds")
			fs.Func("n", "take `N` samples of each row (default up to 50, in up to a second)",
				set(&p.samples, countOf("samples")))
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
	sampling

	l2 uint64 // the size of the device's L2 cache, or 0 if it is not known
}

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
	p.sampling = sampling{warmUp: 2, atLeast: 10, atMost: 50, budget: time.Second}
	if p.quick {
		p.sampling = sampling{warmUp: 1, atLeast: fewSamples, atMost: 15, budget: 100 * time.Millisecond}
	}
	if p.samples > 0 {
		p.atLeast, p.atMost = p.samples, p.samples
	}
}

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
func (p *plan) run(c *invocation) (err error) {
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
	if err := t.warm(); err != nil {
		return err
	}
	// A driver need not know the size.
	l2, err := dev.Attribute(cu.DeviceAttributeL2CacheSize)
	if err := optional(err); err != nil {
		return err
	}
	p.l2 = uint64(max(l2, 0))
	rows := table{w: w}
	for _, row := range p.rows(t, r) {
		m, err := row()
		if m != nil {
			r.Measurements = append(r.Measurements, m)
			rows.print(m.head(), m.row())
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

// callRows returns the rows for the overhead of the GPU and of the host.
func (p *plan) callRows(t *timer) []func() (*measurement, error) {
	gpu := func(name string, work func() error) func() (*measurement, error) {
		return func() (*measurement, error) { return p.sample(t, &measurement{Name: name, Kind: kindGPU}, work) }
	}
	host := func(name string, take func() (time.Duration, bool, error)) func() (*measurement, error) {
		return func() (*measurement, error) { return p.sampleCall(t, &measurement{Name: name, Kind: kindCall}, take) }
	}
	return []func() (*measurement, error){
		gpu("two records", nothing),
		gpu("empty kernel", t.empty),
		host("launch", t.launchCalls),
		host("record", t.recordCalls),
		host("query", t.queryCalls),
		host("since", t.sinceCalls),
		host("round trip", t.roundTrip),
	}
}

// copy measures copies of n bytes.
func (p *plan) copy(t *timer, r *timeReport, direction string, n uint64) (m *measurement, err error) {
	m = &measurement{Name: direction + " " + size(n), Kind: kindCopy, Bytes: n, Direction: direction}
	s := &buffers{wait: t.stream.Synchronize}
	defer s.close(&err)
	c := s.pair(t, direction == "d2h", t, direction == "h2d", n)
	if reason, ok := outOfRoom(s.err); ok {
		r.Skipped = append(r.Skipped, skipped{m.Name, reason})
		return nil, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	m, err = p.sample(t, m, func() error { return t.stream.Copy(c.dst, c.src) })
	if m != nil && m.Events.Median > 0 {
		m.GBPerSecond = float64(n) / float64(m.Events.Median)
	}
	return m, err
}

// sample takes the samples of a row that is measured on the GPU.
func (p *plan) sample(t *timer, m *measurement, work func() error) (*measurement, error) {
	var host []time.Duration
	events, notHeld, err := p.take(t.ctx, func() (time.Duration, bool, error) {
		s, err := t.time(work)
		if err == nil {
			host = append(host, s.host)
		}
		return s.events, s.held, err
	})
	if len(events) == 0 {
		return nil, err
	}
	host = host[len(host)-len(events):] // without the warm-up
	e, h := summarize(events), summarize(host)
	m.Events, m.Host, m.NotHeld = &e, &h, notHeld
	m.Deviation = deviation(h.Median, e.Median)
	m.Hints = judge(m.Kind, events, host, notHeld)
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

// sampleCall takes the samples of a row of calls.
func (p *plan) sampleCall(t *timer, m *measurement, take func() (time.Duration, bool, error)) (*measurement, error) {
	host, notHeld, err := p.take(t.ctx, take)
	if len(host) == 0 {
		return nil, err
	}
	h := summarize(host)
	m.Host, m.NotHeld, m.Hints = &h, notHeld, judge(m.Kind, host, nil, notHeld)
	return m, err
}

// head returns the header lines of the measurement's table.
func (m *measurement) head() string {
	if m.Kind == kindCall {
		return fmt.Sprintf("host, for one call\n%-14s %4s %9s %9s %9s", "", "n", "min", "median", "p95")
	}
	return fmt.Sprintf("%-14s %4s %9s %9s %9s  %9s\n%-14s %4s %9s %9s %9s  %9s %9s %8s", "", "", "events", "", "", "host",
		"", "n", "min", "median", "p95", "median", "deviates", "GB/s")
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
	return strings.TrimRight(line+" "+hintMark(m.Hints), " ")
}

func (m *measurement) hinted() (string, []hint) { return m.Name, m.Hints }

// textEnd prints the text below the table.
func (r *timeReport) textEnd(w io.Writer) { r.ends.text(w, explainHints(r.Measurements, 80)) }
