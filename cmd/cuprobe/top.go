package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/purecu/purecu/nvml"
)

func topCommand() command {
	return command{
		name:  "top",
		short: "show what the GPUs do and who uses them, again each second",
		long: `It shows all GPUs that NVML sees, or the one whose number -device has: utilization, memory,
temperature, power and its limit, the clock of the multiprocessors, and the processes with
the memory that they use. In a terminal each round replaces the one before. The number is
that of nvidia-smi, and not CUDA's. What a GPU lacks is "?". A GPU that does not answer is
reported, and delays no other. With -driver soft it shows the devices of the software
driver. Only this process uses them, unless CUSIM_MACHINE is set.

It ends after the rounds of -n, or by an interrupt. Then the exit status is 0, too.

With -json it prints a line with one object for each round. Fields: time, and gpus
(index, name, uuid, memoryTotalBytes, memoryUsedBytes, temperatureCelsius, powerMilliwatts,
powerLimitMilliwatts, smClockMHz, busyPercent, memoryBusyPercent, processes: pid, name,
memoryUsedBytes, error), without what a GPU lacks.`,
		define: func(fs *flag.FlagSet) func(*invocation) error {
			p := &top{every: time.Second, now: time.Now}
			fs.Func("every", "begin a round every `TIME` (default 1s)",
				set(&p.every, durationWithin(100*time.Millisecond, time.Hour, "1s")))
			fs.Func("n", "end after `COUNT` rounds (default: go on)", set(&p.rounds, countOf("rounds")))
			return p.run
		},
	}
}

// top is a run of cuprobe top.
type top struct {
	every  time.Duration
	rounds int // 0 is no end
	now    func() time.Time

	lib     *nvml.Library
	watched []*watchedGPU
}

// watchedGPU is a GPU that is read in each round, unless a read of an earlier round goes on.
type watchedGPU struct {
	index   int
	dev     *nvml.Device    // nil if it must be found
	shown   topGPU          // what was read last
	reading chan watchedGPU // gets what is read; nil if nothing is
	late    bool            // it has not answered in the last round
}

// topRound is what one round shows.
type topRound struct {
	Time time.Time `json:"time"`
	GPUs []topGPU  `json:"gpus"`
}

// topGPU is a GPU in a round.
type topGPU struct {
	Index       int       `json:"index"`
	Name        string    `json:"name,omitempty"`
	UUID        nvml.UUID `json:"uuid,omitempty"`
	MemoryTotal *uint64   `json:"memoryTotalBytes,omitempty"`
	nvmlFacts
}

func (p *top) run(c *invocation) error {
	if !c.asksNVML() {
		return usage("top asks NVML, which %s does not have: use -driver auto or soft; see cuprobe top -h", c.driver)
	}
	ctx, stop := c.untilInterrupt()
	defer stop()
	lib, err := c.openNVML()
	if err != nil {
		return err
	}
	defer lib.Close()
	p.lib = lib
	if err := p.find(c.device); err != nil {
		return err
	}
	return p.show(ctx, c, progressOf(c.out.w) != nil)
}

// find finds the GPUs that are shown: all, or one.
func (p *top) find(only int) error {
	n, err := p.lib.DeviceCount()
	switch {
	case err != nil:
		return err
	case only >= n:
		return fmt.Errorf("there is no GPU %d: NVML sees %s", only, count(n, "GPU"))
	case n == 0:
		return errors.New("NVML sees no GPU")
	}
	for i := range n {
		if only == anyDevice || only == i {
			p.watched = append(p.watched, &watchedGPU{index: i, shown: topGPU{Index: i}})
		}
	}
	return nil
}

// show shows rounds until the context ends. If the output is live, each round replaces the one before.
func (p *top) show(ctx context.Context, c *invocation, live bool) error {
	for n := 1; ; n++ {
		began := p.now()
		r := p.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var b strings.Builder
		switch {
		case c.json:
			line, err := json.Marshal(r)
			if err != nil {
				return err
			}
			c.out.write(c.out.w, append(line, '\n')) // c.out keeps the error
		case live:
			r.text(&b, c.columns())
			c.out.write(c.out.w, []byte(overwrite(b.String(), n == 1)))
		default:
			r.text(&b, math.MaxInt)
			if n > 1 {
				fmt.Fprintln(c.out)
			}
			io.WriteString(c.out, b.String())
		}
		if c.out.err != nil || n == p.rounds {
			return c.out.err
		}
		select {
		case <-c.after(p.every - p.now().Sub(began)):
		case <-ctx.Done():
			return nil
		}
	}
}

// overwrite returns what replaces a terminal's screen by a text. The screen is not cleared before, as that flickers.
func overwrite(text string, first bool) string {
	const home, clear, clearLine, clearBelow = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
	var safe strings.Builder
	terminal{&safe}.Write([]byte(text)) // a Builder returns no error
	begin := home
	if first {
		begin = clear + home
	}
	return begin + strings.ReplaceAll(safe.String(), "\n", clearLine+"\n") + clearBelow
}

// round reads the GPUs. It waits for half a round at most, and not for a GPU that was late before.
func (p *top) round(ctx context.Context) *topRound {
	r := &topRound{Time: p.now()}
	for _, g := range p.watched {
		g.begin(p.lib)
	}
	limit, cancel := context.WithTimeout(ctx, min(p.every/2, nvmlAnswers))
	defer cancel()
	for _, g := range p.watched {
		r.GPUs = append(r.GPUs, g.take(limit))
	}
	return r
}

// begin reads the GPU in the background, unless it is being read. What was read after the last round is too old.
func (g *watchedGPU) begin(lib *nvml.Library) {
	select {
	case now := <-g.reading:
		g.took(now)
	default:
	}
	if g.reading != nil {
		return
	}
	reading, now := make(chan watchedGPU, 1), *g
	g.reading = reading
	go func() {
		now.read(lib)
		reading <- now
	}()
}

// take returns what was read. If the GPU does not answer until ctx ends, it returns that.
func (g *watchedGPU) take(ctx context.Context) topGPU {
	if !g.late {
		select {
		case now := <-g.reading:
			return g.took(now)
		case <-ctx.Done():
		}
	}
	select {
	case now := <-g.reading:
		return g.took(now)
	default:
	}
	g.late = true
	silent := g.shown.identity()
	silent.err, silent.Error = nvml.ErrTimeout, nvml.ErrTimeout.Error()
	return silent
}

// took keeps what was read, and returns what is shown.
func (g *watchedGPU) took(now watchedGPU) topGPU {
	*g = now
	g.late, g.reading = errors.Is(g.shown.err, nvml.ErrTimeout), nil
	return g.shown
}

// identity returns what does not change.
func (t topGPU) identity() topGPU { return topGPU{Index: t.Index, Name: t.Name, UUID: t.UUID} }

// read reads the GPU. What it was is kept if that cannot be read any more.
func (g *watchedGPU) read(lib *nvml.Library) {
	t := g.shown.identity()
	f := &t.nvmlFacts
	if g.dev == nil {
		// Limited calls that no device is known for wait for each other.
		if dev := ask(f, func() (*nvml.Device, error) { return lib.WithTimeout(0).Device(g.index) }); dev != nil {
			g.dev = (*dev).WithTimeout(nvmlAnswers)
		}
	}
	if dev := g.dev; dev != nil {
		t.Name = *cmp.Or(ask(f, dev.Name), &t.Name)
		t.UUID = *cmp.Or(ask(f, dev.UUID), &t.UUID)
		f.askLoad(dev)
		if m := ask(f, dev.Memory); m != nil {
			f.MemoryUsed, t.MemoryTotal = &m.Used, &m.Total
		}
		f.askProcesses(dev)
	}
	for i := range f.Processes {
		f.Processes[i].Name, _ = lib.ProcessName(f.Processes[i].PID) // "" if others may not know it
	}
	if failsNVML(f.err) {
		g.dev = nil // it may have another handle after a reset
	}
	g.shown = t
}

// text prints the tables of GPUs and of processes, in lines of at most width columns.
func (r *topRound) text(w io.Writer, width int) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Time.Format(time.DateTime))
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "#\tNAME\tBUSY\tMEMORY GIB\tTEMP\tPOWER W\tSM CLOCK")
	for _, t := range r.GPUs {
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s/%s\t%s\t%s/%s\t%s\n", t.Index, orUnknown(t.Name), known(t.Busy, "%v"),
			knownGiB(t.MemoryUsed), knownGiB(t.MemoryTotal), known(t.Temperature, "%d C"), watts(t.Power), watts(t.PowerLimit),
			known(t.SMClock, "%v"))
	}
	tw.Flush()
	for i, line := range r.wrong() {
		if i == 0 {
			fmt.Fprintln(&b)
		}
		fmt.Fprintln(&b, line)
	}
	head := "\n#\tPID\tMEMORY GIB\tPROCESS\n"
	for _, t := range r.GPUs {
		for _, q := range t.Processes {
			fmt.Fprintf(tw, "%s%d\t%d\t%s\t%s\n", head, t.Index, q.PID, usedGiB(q.MemoryUsed), orUnknown(oneLine(q.Name)))
			head = ""
		}
	}
	tw.Flush()
	for line := range strings.Lines(b.String()) {
		io.WriteString(w, cut(strings.TrimRight(line, " \n"), width)+"\n")
	}
}

// wrong says what is wrong with GPUs.
func (r *topRound) wrong() (lines []string) {
	for _, t := range r.GPUs {
		what := ": " + oneLine(t.Error)
		switch {
		case t.Error == "":
			continue
		case errors.Is(t.err, nvml.ErrTimeout):
			what = " does not answer"
		case errors.Is(t.err, nvml.ErrGPULost):
			what = " is lost: it has fallen off the bus"
		case errors.Is(t.err, nvml.ErrResetRequired):
			what = " must be reset"
		}
		lines = append(lines, fmt.Sprintf("GPU %d%s", t.Index, what))
	}
	return lines
}

// known returns a value as text, or a question mark if the GPU lacks it.
func known[T any](v *T, format string) string {
	if v == nil {
		return "?"
	}
	return fmt.Sprintf(format, *v)
}

func knownGiB(n *uint64) string {
	if n == nil {
		return "?"
	}
	return gibibytes(*n)
}

// usedGiB returns the memory of a process, of which 0 says that it is not known.
func usedGiB(n uint64) string {
	if n == 0 {
		return "?"
	}
	return gibibytes(n)
}

func watts(p *nvml.Power) string {
	if p == nil {
		return "?"
	}
	return fmt.Sprintf("%.0f", p.Watts())
}

// cut returns a line of at most width characters.
func cut(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-3]) + "..."
}
