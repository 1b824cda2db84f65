package entries

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var within = flag.Duration("entries.for", 10*time.Minute, "after which time TestStates makes no more calls")

// asker makes calls in a process, and begins another one if it dies.
type asker struct {
	name    string // of the library
	all     bool   // the process has all contexts, of two devices, if there are two
	until   time.Time
	cmd     *exec.Cmd
	in      io.WriteCloser
	lines   chan string
	errText *bytes.Buffer
	two     bool // there are two devices
}

// start begins a process.
func (a *asker) start() error {
	a.errText = new(bytes.Buffer)
	a.cmd = exec.Command(os.Args[0])
	a.cmd.Env = append(os.Environ(), stateEnv+"=all", driverEnv+"="+a.name, "CUSIM_DEVICES=2", "GOTRACEBACK=none")
	if !a.all { // the process begins faster
		a.cmd.Env = append(a.cmd.Env, stateEnv+"=one", "CUDA_VISIBLE_DEVICES=0")
	}
	a.cmd.Stderr = a.errText
	in, err := a.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := a.cmd.Start(); err != nil {
		return err
	}
	a.in, a.lines = in, make(chan string, 8)
	go func(lines chan string) {
		defer close(lines)
		s := bufio.NewScanner(out)
		for s.Scan() {
			lines <- s.Text()
		}
	}(a.lines)
	line, alive := a.line(starting)
	if !alive {
		a.stop()
		return fmt.Errorf("a process has not begun: %.500s", a.errText)
	}
	a.two = line == "ready true"
	return nil
}

// line returns the next line of the process, or false if it has ended, or has said nothing for some time.
func (a *asker) line(within time.Duration) (string, bool) {
	select {
	case l, alive := <-a.lines:
		return l, alive
	case <-time.After(min(within, time.Until(a.until)+slow)):
		return "HANG", false
	}
}

// stop ends the process.
func (a *asker) stop() {
	if a.cmd == nil {
		return
	}
	_ = a.in.Close()
	_ = a.cmd.Process.Kill()
	for range a.lines {
	}
	_ = a.cmd.Wait()
	a.cmd = nil
}

// slow is how long a call may take. NVIDIA's driver creates contexts, and compiles, in some of them.
const slow = 10 * time.Second

// ask makes a call. It returns a cell, CRASH or HANG, or "" where there is only one device and the call
// needs two.
func (a *asker) ask(in situation) (string, error) {
	if a.cmd == nil {
		if err := a.start(); err != nil {
			return "", err
		}
	}
	if places[in.place].two() && !a.two {
		return "", nil
	}
	if _, err := fmt.Fprintln(a.in, in); err != nil {
		return "", err
	}
	said := ""
	for {
		limit := slow
		if said != "" {
			limit = starting // contexts may be created anew
		}
		line, alive := a.line(limit)
		if !alive {
			a.stop()
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
			a.stop()
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
	processes := 4 // they hinder each other where they create contexts
	if all {
		processes = 2
	}
	for range processes {
		wg.Go(func() {
			a := &asker{name: q.name, all: all, until: q.deadline}
			defer a.stop()
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

// hopeless reports whether a call is not made: the driver has died in the same call in the usual state, or whenever it
// got such a handle.
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
	return in.change.handle() && q.deaths[what] >= 2 && q.lives[what] == 0
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
// It returns all answers.
func inquire(t *testing.T, name string, known map[string]string) map[string]string {
	t.Helper()
	list, err := functions()
	if err != nil {
		t.Fatal(err)
	}
	q := &inquiry{name: name, deadline: time.Now().Add(*within), cells: known,
		deaths: map[string]int{}, lives: map[string]int{}}
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
	if time.Now().After(q.deadline) {
		t.Error("there was no time for all calls")
	}
	return q.cells
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
