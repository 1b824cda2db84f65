package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/clock"
)

func demoCommand() command {
	return command{
		name:  "demo",
		short: "run two streams, one of which waits for the other, and draw their work",
		long: `Four kernels run on two streams. Kernel C, on stream 2, waits on the GPU for the
event that follows kernel A on stream 1. The host enqueues all work before it starts,
and then only polls. The drawing is to scale, from the times of the events.

It takes less than a second, most of which is the start of the driver. Without a driver
or a device, cuprobe without a command runs it on the software driver; cuprobe demo
does not.

Fields with -json: driver, device, compileNS, lanes (name, spans: name, fromNS,
toNS, waiting), waitNS (from the end of A to the beginning of C), polls (pending, complete),
held (all work was enqueued before it began), eventsNS, hostNS (the same
interval by the GPU's and the host's clock).`,
		define: func(*flag.FlagSet) func(*invocation) error { return runDemo },
	}
}

func runDemo(c *invocation) error {
	drv, dev, err := c.openDevice()
	r := &demoReport{width: c.columns()}
	if c.mayUseSoftware(err) {
		r.openErr = err
		fmt.Fprintf(c.out, "no GPU here: %s; running on the software driver\n", whyNone(err))
		c.driver, c.namedBy = softDriver, ""
		drv, dev, err = c.openDevice()
	}
	if err != nil {
		return err
	}
	r.software = c.software()
	if r.Driver, err = c.driverInfo(drv); err != nil {
		return err
	}
	if r.Device, err = newDeviceInfo(dev); err != nil {
		return err
	}
	if err := r.demo(dev, c.ctx.Err); err != nil {
		return err
	}
	if r.openErr != nil {
		r.verdict = c.diagnose(r.openErr).Verdict().Title
	}
	if err := c.show(r); err != nil {
		return err
	}
	return r.check()
}

// whyNone says in a few words why the driver could not be opened.
func whyNone(err error) string {
	if errors.Is(err, cu.ErrNoDevice) {
		return "the CUDA driver sees no device"
	}
	return "no CUDA driver could be loaded"
}

// demoReport contains the results of the demo.
type demoReport struct {
	Driver  driverInfo    `json:"driver"`
	Device  deviceInfo    `json:"device"`
	Compile time.Duration `json:"compileNS"`
	Lanes   []lane        `json:"lanes"`
	// Wait is the time from the end of A to the beginning of C, which waits for A.
	Wait  time.Duration `json:"waitNS"`
	Polls polls         `json:"polls"`
	// Held says that the GPU began after everything was enqueued.
	Held bool `json:"held"`
	// Events and Host are the time from the beginning of A to the end of the last kernel, by the
	// GPU's and by the host's clock.
	Events time.Duration `json:"eventsNS"`
	Host   time.Duration `json:"hostNS"`

	width    int
	software bool   // the demo ran on the software driver
	openErr  error  // why the software driver was used unasked, or nil
	verdict  string // the doctor's verdict about the machine in this case
}

// The durations of the demo's kernels.
const (
	demoA = 12 * time.Millisecond
	demoB = 18 * time.Millisecond
	demoC = 9 * time.Millisecond
	demoD = 6 * time.Millisecond
)

// demo runs the kernels, and repeats this with a longer lead if they began too early.
func (r *demoReport) demo(dev *cu.Device, done func() error) (err error) {
	rig, err := newRig(dev)
	if err != nil {
		return err
	}
	defer rig.closeAfter(&err)
	r.Compile = rig.compiled
	d, err := newDemoRun(rig)
	if err != nil {
		return err
	}
	// The first launch of a kernel loads it, which may wait for the GPU.
	for _, s := range d.streams {
		if err := rig.launch(s, time.Microsecond); err != nil {
			return err
		}
		if err := s.Synchronize(); err != nil {
			return err
		}
	}
	for lead := 2 * time.Millisecond; lead <= 50*time.Millisecond && !r.Held; lead *= 5 {
		if err := d.run(r, lead, done); err != nil {
			return err
		}
	}
	return nil
}

// demoRun contains the objects of the demo. The events mark the beginning, the end of each kernel,
// and the beginning and the end of the wait of stream 2.
type demoRun struct {
	rig                         *rig
	streams                     [2]*cu.Stream
	begin, a, b, wait, c0, c, d *cu.Event
}

func newDemoRun(rig *rig) (*demoRun, error) {
	d := &demoRun{rig: rig}
	var err error
	for i := range d.streams {
		if d.streams[i], err = rig.stream(); err != nil {
			return nil, err
		}
	}
	for _, e := range []**cu.Event{&d.begin, &d.a, &d.b, &d.wait, &d.c0, &d.c, &d.d} {
		if *e, err = rig.event(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// run enqueues the work behind a kernel that takes lead, and polls the events.
func (d *demoRun) run(r *demoReport, lead time.Duration, done func() error) error {
	s1, s2 := d.streams[0], d.streams[1]
	kernel := func(s *cu.Stream, t time.Duration) func() error {
		return func() error { return d.rig.launch(s, t) }
	}
	record := func(e *cu.Event, s *cu.Stream) func() error { return func() error { return e.Record(s) } }
	waitFor := func(s *cu.Stream, e *cu.Event) func() error { return func() error { return s.WaitEvent(e) } }
	for _, step := range []func() error{
		kernel(s1, lead), record(d.begin, s1), waitFor(s2, d.begin), record(d.wait, s2), // both wait for the lead
		kernel(s1, demoA), record(d.a, s1),
		waitFor(s2, d.a), record(d.c0, s2),
		kernel(s1, demoB), record(d.b, s1),
		kernel(s2, demoC), record(d.c, s2),
		kernel(s2, demoD), record(d.d, s2),
	} {
		if err := step(); err != nil {
			return err
		}
	}
	st, err := d.begin.Query()
	if err != nil {
		return err
	}
	r.Held = st == cu.Pending
	r.Polls = polls{}
	if r.Held {
		r.Polls.Pending = 1
	}
	if err := r.Polls.await(d.begin, done); err != nil {
		return err
	}
	began := clock.Start()
	for _, e := range []*cu.Event{d.wait, d.a, d.c0, d.c, d.d, d.b} { // in the order in which they should complete
		if err := r.Polls.await(e, done); err != nil {
			return err
		}
	}
	r.Host = began.Elapsed()
	return r.read(d)
}

// read fills the report with the times of the events.
func (r *demoReport) read(d *demoRun) error {
	var at [6]time.Duration
	for i, e := range []*cu.Event{d.a, d.b, d.wait, d.c0, d.c, d.d} {
		t, st, err := e.Since(d.begin)
		if err != nil {
			return err
		}
		if st != cu.Complete {
			return errors.New("the driver reports an event as pending after a later event of the stream was complete")
		}
		at[i] = t
	}
	a, b, wait, c0, c, end := at[0], at[1], at[2], at[3], at[4], at[5]
	r.Lanes = []lane{
		{"stream 1", []span{{Name: "A", From: 0, To: a}, {Name: "B", From: a, To: b}}},
		{"stream 2", []span{{From: wait, To: c0, Waiting: true}, {Name: "C", From: c0, To: c},
			{Name: "D", From: c, To: end}}},
	}
	r.Wait = c0 - a
	r.Events = max(b, end)
	return nil
}

// check returns an error if the streams did not keep the order of the work.
func (r *demoReport) check() error {
	if r.Wait < -2*resolution { // the times of two events are rounded
		return fmt.Errorf("kernel C began %s before kernel A ended, though its stream has to wait for A's event",
			duration(-r.Wait))
	}
	return nil
}

func (r *demoReport) text(w io.Writer) {
	r.Driver.text(w)
	r.Device.text(w)
	compiled := "compiled from PTX"
	if r.software {
		compiled = "modelled in Go, its PTX read"
	}
	fmt.Fprintf(w, "kernel   spin, %s in %s\n\n", compiled, roundDuration(r.Compile, 3))
	links := []link{{r.Lanes[1].Spans[1].From - r.Wait, r.Lanes[1].Spans[1].From, "C waits for A's event"}}
	for _, line := range timeline(r.width, r.Lanes, links) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "\nwait     C began %s after A ended\n", duration(r.Wait))
	// An error would have ended the demo.
	fmt.Fprintf(w, "polls    %d times pending (C: CUDA_ERROR_NOT_READY), never an error\n", r.Polls.Pending)
	fmt.Fprintf(w, "events   %s\n", duration(r.Events))
	fmt.Fprintf(w, "host     %s (%+.2f %%)\n", duration(r.Host), 100*deviation(r.Host, r.Events))
	hint := func(text string) {
		fmt.Fprintln(w, strings.Join(wrap("hint     "+text, "         ", r.width), "\n"))
	}
	switch {
	case r.Held:
	case r.software:
		hint("the software driver began before everything was enqueued, so the times include time of the host: the " +
			"machine is busy")
	default:
		hint("the GPU began before everything was enqueued, so the times include time of the host; is " +
			"CUDA_LAUNCH_BLOCKING set?")
	}
	if r.openErr != nil {
		hint("these times are a model's, not a GPU's. Verdict: " + sentence(oneLine(r.verdict)) +
			"For more run: cuprobe doctor")
	}
}
