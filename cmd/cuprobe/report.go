package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/loader"
)

func reportCommand() command {
	return command{
		name:  "report",
		short: "write one HTML file with the findings, the devices, plots and a timeline",
		long: `The file is for a ticket. It has what doctor, devices and bench say, plots of bandwidth
over sizes and of latencies, and a timeline of the host's calls and the GPU's work: a
pipeline of three streams, on the first device. It needs no other file and no network.
The same data are in it as JSON, in the element with the id cuprobe. Home folders and
user names in paths are replaced, as in the bundle of doctor. Still, read the file
before you send it.

The file appears when it is complete, and replaces a file with its name. By default its
name has the host and the time. With -o - the page goes to standard output, and nothing
else does.

If there is no driver, or something fails or hangs, the file is written all the same, and
says what is missing and why. A device that the doctor finds faulty is not measured. An
interrupt ends the measurement, and the file has the results so far. The exit status is
that of doctor. It is 1 if something is missing or the file cannot be written.

The measurements are those of bench, and it has the same flags. Run it on an idle GPU.
With -driver soft the devices are simulated, and the page says so.

Fields with -json, and of the JSON in the file: file, host, created, cuprobe (module,
version, revision, modified, go, platform), simulated (the devices are those of the
software driver), doctor, devices and bench (the objects that these commands print),
trace (a trace for ui.perfetto.dev), missing (name, reason). What is missing is null.`,
		define: func(fs *flag.FlagSet) func(*invocation) error {
			// Each size is four times the previous one.
			p := &reporter{now: time.Now, hostname: os.Hostname, bench: bench{budget: 50 * time.Millisecond}}
			for n := uint64(4 << 10); n <= 64<<20; n *= 4 {
				p.bench.sizes = append(p.bench.sizes, n)
			}
			fs.StringVar(&p.path, "o", "", "write this `FILE`; - is standard output (default cuprobe-HOST-TIME.html)")
			p.bench.define(fs)
			return p.run
		},
	}
}

// reporter is a run of cuprobe report.
type reporter struct {
	path     string
	bench    bench
	now      func() time.Time
	hostname func() (string, error)
}

func (p *reporter) run(c *invocation) (err error) {
	if err := p.bench.check(c, "report"); err != nil {
		return err
	}
	if p.path == "-" && c.json {
		return usage("-o - and -json both use standard output: name a file, or leave out -json; see cuprobe report -h")
	}
	r := p.newReport()
	var file *newFile
	if p.path != "-" {
		r.File = p.path
		if r.File == "" {
			r.File = defaultName(r.Host, r.Created)
		}
		// Fail before the measurement if the file cannot be written.
		if file, err = createFile(r.File); err != nil {
			return err
		}
		defer file.discard()
	}
	ctx, stop := c.untilInterrupt()
	defer stop()
	openErr := p.measure(ctx, c, r)
	if r, err = r.anonymous(c.env); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := r.page(&page); err != nil {
		return err
	}
	if file == nil {
		c.out.write(c.out.w, page.Bytes()) // c.out keeps the error
	} else if err := file.commit(page.Bytes()); err != nil {
		return err
	} else if err := c.show(r); err != nil {
		return err
	}
	if s := r.status(openErr); s != exitOK {
		return reported(s)
	}
	return nil
}

// newReport returns a report without results.
func (p *reporter) newReport() *nodeReport {
	host, err := p.hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return &nodeReport{
		Host: host, Created: p.now().UTC().Truncate(time.Second), Cuprobe: programVersion(), Missing: []skipped{},
	}
}

// defaultName returns the name of the file if the user names none. Anything can be in a host's name.
func defaultName(host string, t time.Time) string {
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, host)
	return fmt.Sprintf("cuprobe-%.64s-%s.html", host, t.Format("20060102T150405Z"))
}

// The parts that a report may lack.
const (
	partDevices  = "the list of devices"
	partTimeline = "the timeline"
	partSpeed    = "bandwidth and latency"
)

// measure fills the report. It returns the error of opening the driver.
func (p *reporter) measure(ctx context.Context, c *invocation, r *nodeReport) (openErr error) {
	p.bench.progress = newProgress(c.err)
	w := &waiter{after: c.after, messages: &p.bench.progress}
	r.Doctor, openErr = c.doctor(w, func(*loader.Report) {})
	r.Simulated = c.software() || r.Doctor.Report != nil && r.Doctor.Report.Library != nil &&
		r.Doctor.Report.Library.Simulated
	p.bench.waiter, p.bench.faulty = w, r.Doctor.faulty()
	for _, n := range p.bench.faulty {
		r.Missing = append(r.Missing, skipped{fmt.Sprintf("measurements of device %d", n),
			"the doctor finds it faulty"})
	}
	for _, part := range []struct {
		name string
		take func() error
	}{
		{partDevices, func() (err error) {
			r.Devices, err = within(w, partDevices, func() (*devicesReport, error) { return c.listDevices(false) })
			return err
		}},
		{partTimeline, func() (err error) {
			r.Trace, err = within(w, partTimeline, func() (json.RawMessage, error) { return p.trace(ctx, c) })
			return err
		}},
		{partSpeed, func() (err error) {
			r.Bench, err = p.speed(ctx, c)
			return err
		}},
	} {
		if why := whyNot(ctx, w, r.Doctor, openErr); why != "" {
			r.Missing = append(r.Missing, skipped{part.name, why})
		} else if err := part.take(); err != nil {
			r.Missing = append(r.Missing, skipped{part.name, oneLine(err.Error())})
		}
	}
	return openErr
}

// whyNot says why no part can be measured any more, or returns "".
func whyNot(ctx context.Context, w *waiter, doctor *doctorReport, openErr error) string {
	switch {
	case openErr != nil:
		return "the driver could not be opened: " + oneLine(doctor.Verdict.Title)
	case len(doctor.Devices) == 0: // -device names a device that does not exist, or queries fail
		return oneLine(doctor.Verdict.Title)
	case w.hung:
		return "a call of the driver hangs, and further calls could hang, too"
	case ctx.Err() != nil:
		return "the run was interrupted"
	}
	return ""
}

// errFaulty is the error if the doctor finds all chosen devices faulty.
var errFaulty = errors.New("no device is left: the doctor finds those that were chosen faulty")

// trace returns the trace of a pipeline on the first device that is measured.
func (p *reporter) trace(ctx context.Context, c *invocation) (json.RawMessage, error) {
	drv, err := c.open()
	if err != nil {
		return nil, err
	}
	devs, err := p.bench.devices(drv, c.device)
	if err != nil {
		return nil, err
	}
	if len(devs) == 0 {
		return nil, errFaulty
	}
	return tracePipeline(ctx, devs[0])
}

// speed makes the measurements of cuprobe bench. If it returns an error, the report has the results
// so far.
func (p *reporter) speed(ctx context.Context, c *invocation) (*benchReport, error) {
	b := &p.bench
	devs, err := within(b.waiter, partSpeed, func() ([]*cu.Device, error) { return b.prepare(c) })
	if err != nil {
		return nil, err
	}
	if len(devs) == 0 {
		return nil, errFaulty
	}
	err = b.measure(ctx, devs, io.Discard)
	if b.report.Interrupted = err != nil && errors.Is(err, ctx.Err()); b.report.Interrupted {
		err = errors.New("the run was interrupted: the rest was not measured")
	} else if err != nil {
		b.report.Error = c.failure(err)
	}
	return b.report, err
}

// anonymous returns the report without home folders, and without user names in paths.
func (r *nodeReport) anonymous(env func(string) (string, bool)) (*nodeReport, error) {
	tree, err := anonymize(r, env)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	clean := new(nodeReport)
	if err := json.Unmarshal(text, clean); err != nil {
		return nil, err
	}
	clean.File = r.File
	return clean, nil
}

// status returns the exit status for the report.
func (r *nodeReport) status(openErr error) int {
	if s := r.Doctor.status(openErr); s != exitOK || len(r.Missing) == 0 {
		return s
	}
	return exitFailure
}

func (r *nodeReport) text(w io.Writer) {
	line := textLine(w)
	if r.Simulated {
		line("driver", "%s", simulatedNote)
	}
	r.Doctor.textVerdict(w)
	for _, text := range r.MissingLines() {
		line("missing", "%s", text)
	}
	line("report", "%s", r.File)
}

// newFile is a file that gets its name when it is complete.
type newFile struct {
	path string
	f    *os.File // nil after the end
}

// createFile creates a file beside the place where it will be.
func createFile(path string) (*newFile, error) {
	const remedy = "name another file with -o, or - for standard output"
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the report cannot be written: %s is not a regular file: %s", path, remedy)
	}
	dir, name := filepath.Split(path)
	name = filepath.Join(dir, fmt.Sprintf(".%s.%d", name, os.Getpid()))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("the report cannot be written: %w: %s", err, remedy)
	}
	return &newFile{path, f}, nil
}

// commit writes the content, and gives the file its name.
func (n *newFile) commit(content []byte) error {
	_, err := n.f.Write(content)
	if e := n.f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(n.f.Name(), n.path)
	}
	if err != nil {
		return fmt.Errorf("the report could not be written: %w", err)
	}
	n.f = nil
	return nil
}

// discard removes the file if it is not complete.
func (n *newFile) discard() {
	if n.f != nil {
		n.f.Close() // an error, or a second close, does not matter to a file that is removed
		os.Remove(n.f.Name())
	}
}
