package entries

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	within  = flag.Duration("entries.for", 10*time.Minute, "after which time TestStates makes no more calls")
	journal = flag.String("entries.answers", "",
		"a `file` of answers that TestStates takes as recorded, and to which it appends each one at once")
)

// process is a process that makes calls.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	lines   chan string
	errText bytes.Buffer
	two     bool // there are two devices
	err     error
}

// asker makes calls in a process, and begins another one if it dies.
type asker struct {
	name  string // of the library
	all   bool   // the process has all contexts, of two devices, if there are two
	spare bool   // the next process begins while this one is used, as processes often die and take long to begin
	until time.Time
	*process
	next chan *process
}

// begin begins a process, and sends it when it is ready.
func (a *asker) begin() chan *process {
	ready := make(chan *process, 1)
	go func() {
		p := &process{lines: make(chan string, 8)}
		p.err = p.start(a.name, a.all)
		if p.err == nil {
			line, alive := p.line(min(starting, time.Until(a.until)+slow))
			if !alive {
				p.stop()
				p.err = fmt.Errorf("a process has not begun: %.500s", &p.errText)
			}
			p.two = line == "ready true"
		}
		ready <- p
	}()
	return ready
}

func (p *process) start(name string, all bool) error {
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), stateEnv+"=all", driverEnv+"="+name, "CUSIM_DEVICES=2", "GOTRACEBACK=none")
	if !all { // the process begins faster
		p.cmd.Env = append(p.cmd.Env, stateEnv+"=one", "CUDA_VISIBLE_DEVICES=0")
	}
	p.cmd.Stderr = &p.errText
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.in = in
	go func() {
		defer close(p.lines)
		s := bufio.NewScanner(out)
		for s.Scan() {
			p.lines <- s.Text()
		}
	}()
	return nil
}

// line returns the next line of the process, or false if it has ended, or has said nothing for some time.
func (p *process) line(within time.Duration) (string, bool) {
	select {
	case l, alive := <-p.lines:
		return l, alive
	case <-time.After(within):
		return "HANG", false
	}
}

// stop ends the process.
func (p *process) stop() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	for range p.lines {
	}
	_ = p.cmd.Wait()
}

// end ends the process that makes calls.
func (a *asker) end() {
	if a.process != nil {
		a.stop()
		a.process = nil
	}
}

// close ends all processes.
func (a *asker) close() {
	a.end()
	if a.next != nil {
		if p := <-a.next; p.err == nil {
			p.stop()
		}
	}
}

// ready makes sure that there is a process.
func (a *asker) ready() error {
	if a.process != nil {
		return nil
	}
	if a.next == nil {
		a.next = a.begin()
	}
	p := <-a.next
	if a.next = nil; p.err != nil {
		return p.err
	}
	if a.process = p; a.spare {
		a.next = a.begin()
	}
	return nil
}

// slow is how long a call may take. NVIDIA's driver creates contexts, and compiles, in some of them.
const slow = 10 * time.Second

// ask makes a call. It returns a cell, CRASH or HANG, or "" where there is only one device and the call
// needs two.
func (a *asker) ask(in situation) (string, error) {
	if err := a.ready(); err != nil {
		return "", err
	}
	// That function is about two devices in each state.
	if (places[in.place].two() || in.function == "cuDeviceGetP2PAttribute") && !a.two {
		return "", nil
	}
	if _, err := fmt.Fprintln(a.in, in); err != nil {
		a.end()
		return "", err
	}
	said := ""
	for {
		line, alive := a.line(min(slow, time.Until(a.until)+slow))
		if !alive {
			a.end()
			if line != "HANG" {
				line = "CRASH"
			} else if time.Now().After(a.until) {
				return "", nil // it is not known whether it hangs
			}
			if said != "" {
				line = said + ">" + line // of what came after the call
			}
			return line, nil
		}
		what, cell, _ := strings.Cut(line, " ")
		switch what {
		case "done":
			return cell, nil
		case "end":
			a.end()
			return cell, nil
		}
		said = strings.TrimPrefix(line, "=")
	}
}

// twice makes a call twice if its answer may depend on what happens to be in memory.
func (a *asker) twice(in situation) (string, error) {
	cell, err := a.ask(in)
	if err != nil || !in.change.handle() || broken(cell) || strings.Contains(cell, ">") {
		return cell, err
	}
	if second, err := a.ask(in); err != nil || second != "" && second != cell {
		return "VARIES", err
	}
	return cell, nil
}

// broken reports whether a driver has died in a call, or after it.
func broken(cell string) bool {
	return strings.Contains(cell, "CRASH") || strings.Contains(cell, "HANG")
}

// inquiry asks a driver.
type inquiry struct {
	name     string // of the library
	deadline time.Time
	journal  io.Writer // if not nil, gets each answer as a line

	mu    sync.Mutex
	cells map[string]string // by situation
	errs  []error
	// deaths and lives count the calls with a handle of a wrong kind, or a destroyed one, by the kind of
	// argument and what it is instead.
	deaths, lives map[string]int
}

// ask makes some calls of each function, several functions at a time, in processes that have all contexts or one.
func (q *inquiry) ask(list []function, all bool, of func(f function) []situation) {
	work := make(chan function)
	var wg sync.WaitGroup
	processes := 5 // they hinder each other where they create contexts
	if all {
		processes = 3
	}
	for range processes {
		wg.Go(func() {
			a := &asker{name: q.name, all: all, spare: *target == "gpu", until: q.deadline}
			defer a.close()
			for f := range work {
				for _, in := range of(f) {
					if time.Now().After(q.deadline) || q.known(in) || q.hopeless(f, in) {
						continue
					}
					cell, err := a.twice(in)
					q.note(f, in, cell, err)
				}
			}
		})
	}
	for _, f := range list {
		work <- f
	}
	close(work)
	wg.Wait()
}

// known reports whether a call was made.
func (q *inquiry) known(in situation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cells[in.String()] != ""
}

// hopeless reports whether a call is not made: the driver has died in the same call in the usual state, or mostly
// when it got such a handle.
func (q *inquiry) hopeless(f function, in situation) bool {
	if !in.changed {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	usual := in
	usual.place, usual.capturing = 0, false
	if c := q.cells[usual.String()]; broken(c) || strings.Contains(c, ">") {
		return true
	}
	what := f.args[in.change.arg] + " " + in.change.what
	return in.change.handle() && q.deaths[what] >= 2+q.lives[what]
}

// note keeps the answer of a call.
func (q *inquiry) note(f function, in situation, cell string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.errs = append(q.errs, fmt.Errorf("%v: %w", in, err))
		return
	}
	if cell == "" {
		return
	}
	q.cells[in.String()] = cell
	if q.journal != nil {
		if _, err := fmt.Fprintf(q.journal, "%v\t%s\n", in, cell); err != nil {
			q.errs = append(q.errs, err)
		}
	}
	q.count(f, in, cell)
}

// count counts what became of a process that has got a handle.
func (q *inquiry) count(f function, in situation, cell string) {
	if in.change.handle() {
		what := f.args[in.change.arg] + " " + in.change.what
		if broken(cell) {
			q.deaths[what]++
		} else {
			q.lives[what]++
		}
	}
}

// inquire makes all calls on a driver that are not in known, the most important ones first.
// It returns all answers, and whether there was time for all calls.
func inquire(t *testing.T, name string, known map[string]string) (cells map[string]string, whole bool) {
	t.Helper()
	list, err := functions()
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(*within)
	if end, limited := t.Deadline(); limited && end.Add(-2*slow).Before(until) {
		until = end.Add(-2 * slow) // the last calls may hang
	}
	q := &inquiry{name: name, deadline: until, cells: known,
		deaths: map[string]int{}, lives: map[string]int{}}
	if *journal != "" {
		f, err := openJournal(*journal, q.cells)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		q.journal = f
	}
	for _, f := range list {
		for _, g := range f.groups() {
			for _, in := range g.list {
				if c := q.cells[in.String()]; c != "" {
					q.count(f, in, c)
				}
			}
		}
	}
	only := func(keep func(in situation) bool) func(f function) []situation {
		return func(f function) (some []situation) {
			for _, g := range f.groups() {
				for _, in := range g.list {
					if keep(in) {
						some = append(some, in)
					}
				}
			}
			return some
		}
	}
	// What changes the contexts comes later, as new contexts take long.
	slices.SortStableFunc(list, func(a, b function) int { return boolean(a.slow()) - boolean(b.slow()) })
	q.ask(list, true, only(func(in situation) bool { return !in.changed }))
	q.ask(list, false, only(func(in situation) bool { return in.changed && !in.change.handle() && !in.change.large() }))
	q.ask(list, false, only(func(in situation) bool { return in.changed && !in.change.handle() }))
	q.ask(list, false, only(func(in situation) bool { return in.changed && in.place == 0 && !in.capturing }))
	q.ask(list, false, only(func(in situation) bool { return in.changed }))
	if err := errors.Join(q.errs...); err != nil {
		t.Error(err)
	}
	return q.cells, time.Now().Before(q.deadline)
}

// openJournal opens a file of answers to append others, and adds those that it has to cells. It removes the last line if
// that has no end, as the process that wrote it was killed.
func openJournal(path string, cells map[string]string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	if err = errors.Join(err, f.Truncate(int64(len(text)))); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for line := range strings.Lines(string(text)) {
		if in, cell, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); found && !unbuilt(cell) {
			cells[in] = cell
		}
	}
	return f, nil
}

// TestJournal opens a journal whose last line was cut, twice.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "answers")
	if err := os.WriteFile(path, []byte("cuOne\t900!\ncuTwo\tnot built\ncuThree\t90"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []map[string]string{{"cuOne": "900!"}, {"cuOne": "900!", "cuThree": "900"}} {
		cells := map[string]string{}
		f, err := openJournal(path, cells)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(cells, want) {
			t.Errorf("%q, want %q", cells, want)
		}
		if _, err := f.WriteString("cuThree\t900\n"); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
