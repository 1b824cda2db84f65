package ptxrandom

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	from    = flag.Uint64("ptx.from", 1, "the first `seed`: from 4398046511104 on the programs are short")
	to      = flag.Uint64("ptx.to", mostSeed, "the last `seed`")
	during  = flag.Duration("ptx.for", 0, "how `long` to go on at most: then the seed to resume from is logged")
	workers = flag.Int("ptx.workers", runtime.NumCPU(), "how `many` processes share the work")
	folder  = flag.String("ptx.out", "", "the `folder` for tables of what was found")
	silence = flag.Duration("ptx.silence", 30*time.Second, "how `long` a process may say nothing")
)

// batchSize is the number of programs of a module.
const batchSize = 32

// message is a line that a worker writes.
type message struct {
	Begin  uint64 `json:",omitempty"` // the program that is executed next
	Report *report
	Error  string `json:",omitempty"`
}

// How a worker executes programs.
const (
	together = iota
	singly
	onlyMutants
)

// work is the main function of a worker. It reads the seeds of batches, and writes messages.
func work(in io.Reader, out io.Writer) int {
	runtime.LockOSThread()
	enc := json.NewEncoder(out)
	fail := func(err error) int {
		enc.Encode(message{Error: err.Error()})
		return 1
	}
	pr := &pairOf{known: make(map[verdict]string), begin: func(seed uint64) { enc.Encode(message{Begin: seed}) }}
	var err error
	if pr.sim, err = simulated(); err != nil {
		return fail(err)
	}
	switch path := os.Getenv(workerEnv); path {
	case "cusim":
		pr.gpu, err = simulated()
	case "cusim-faults": // some programs end the context
		if pr.gpu, err = simulated(); err == nil {
			pr.gpu.change = func(text string) string { return strings.ReplaceAll(text, "@%pn trap", "@%p1 trap") }
		}
	case "cusim-hangs":
		if pr.gpu, err = simulated(); err == nil {
			pr.gpu.change = func(text string) string { return strings.ReplaceAll(text, "@%pn trap;", "X: bra X;") }
		}
	default:
		pr.gpu, err = machineOf(path)
	}
	if err != nil {
		return fail(err)
	}
	dec := json.NewDecoder(in)
	for {
		var ask [3]uint64 // the first seed, the one behind the last, and how
		if dec.Decode(&ask) != nil {
			return 0
		}
		var rep report
		if ask[2] == onlyMutants {
			rep = pr.mutants(ask[0], ask[1])
		} else {
			rep = pr.run(ask[0], ask[1], ask[2] == singly)
		}
		for what, share := range rep.Worst { // JSON has no infinity
			rep.Worst[what] = min(share, math.MaxFloat32)
		}
		if enc.Encode(message{Report: &rep}) != nil || rep.Died {
			return 0
		}
	}
}

// pool gives batches to workers, and collects what they say.
type pool struct {
	t    *testing.T
	env  string
	mu   sync.Mutex
	next uint64
	last uint64
	end  time.Time

	programs    int
	families    map[*family]int // how many programs
	uses        map[string]int
	worst       map[string]float64
	differences []difference
	mutants     [2]int
	hashes      map[uint64][2]uint32
	restarts    int
}

// take returns the seeds of a batch.
func (p *pool) take() (from, to uint64, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next > p.last || !p.end.IsZero() && time.Now().After(p.end) {
		return 0, 0, false
	}
	from, to = p.next, min(p.next+batchSize, p.last+1)
	if last := familyOf(from).last; from <= last { // a module has one target
		to = min(to, last+1)
	}
	p.next = to
	return from, to, true
}

// add adds what a worker has found.
func (p *pool) add(rep *report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, h := range rep.Hashes {
		if h != [2]uint32{} {
			p.hashes[rep.From+uint64(i)] = h
		}
		p.families[familyOf(rep.From+uint64(i))]++
	}
	p.programs += len(rep.Hashes)
	for row, n := range rep.Uses {
		p.uses[row] += n
	}
	for what, share := range rep.Worst {
		p.worst[what] = max(p.worst[what], share)
	}
	p.differences = append(p.differences, rep.Differences...)
	p.mutants[0] += rep.Mutants[0]
	p.mutants[1] += rep.Mutants[1]
}

// worker is a process.
type worker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func (p *pool) start() (*worker, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+p.env, "CUDA_CACHE_DISABLE=1", "CUDA_DEVICE_MAX_CONNECTIONS=1",
		"GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: cmd, in: in, lines: bufio.NewScanner(out)}
	w.lines.Buffer(nil, 64<<20)
	return w, cmd.Start()
}

func (w *worker) stop() {
	w.in.Close()
	w.cmd.Process.Kill()
	w.cmd.Wait()
}

// serve gives batches to processes, one after the other.
func (p *pool) serve() error {
	var w *worker
	defer func() {
		if w != nil {
			w.stop()
		}
	}()
	failed := 0
	for {
		from, to, more := p.take()
		if !more {
			return nil
		}
		how, begin := together, from
		for from < to {
			if w == nil {
				var err error
				if w, err = p.start(); err != nil {
					return err
				}
			}
			fmt.Fprintf(w.in, "[%d,%d,%d]\n", from, to, how)
			rep, at, err := w.answer()
			if rep != nil && !rep.Again {
				p.add(rep)
				if from = max(rep.To, from+1); rep.Died {
					w.stop()
					w = nil
				}
				failed = 0
				if from >= to && how != onlyMutants {
					from, how = begin, onlyMutants
				}
				continue
			}
			w.stop()
			w = nil
			switch {
			case rep != nil || how == together && at != 0: // a program has failed, or hangs
				how = singly
				continue
			case at == 0: // before any program
				if failed++; failed > 3 {
					return fmt.Errorf("programs %d to %d: %w", from, to-1, err)
				}
				at = from + batchSize/4 // another part of the batch may be possible
			}
			p.mu.Lock()
			p.restarts++
			what := "a whole program"
			if how == onlyMutants {
				what = "a mutant"
			}
			p.differences = append(p.differences, difference{Seed: at, Item: -2, Form: what, Text: generate(at).forms(nil),
				Why: "the process ended: " + err.Error()})
			p.mu.Unlock()
			// Those before it are executed again.
			if at > from && at < to {
				p.retry(from, at, how)
			}
			if from = at + 1; from >= to && how != onlyMutants {
				from, how = begin, onlyMutants
			}
		}
	}
}

// retry executes programs in a process of their own.
func (p *pool) retry(from, to uint64, how int) {
	w, err := p.start()
	if err != nil {
		return
	}
	defer w.stop()
	fmt.Fprintf(w.in, "[%d,%d,%d]\n", from, to, how)
	if rep, _, _ := w.answer(); rep != nil {
		p.add(rep)
	}
}

// answer reads messages until there is a report. Otherwise it returns the program that was executed.
func (w *worker) answer() (rep *report, at uint64, err error) {
	timer := time.AfterFunc(*silence, func() { w.cmd.Process.Kill() })
	defer timer.Stop()
	for w.lines.Scan() {
		timer.Reset(*silence)
		var m message
		if err := json.Unmarshal(w.lines.Bytes(), &m); err != nil {
			fmt.Fprintf(os.Stderr, "%s\n", w.lines.Bytes())
			continue
		}
		switch {
		case m.Error != "":
			return nil, at, fmt.Errorf("%s", m.Error)
		case m.Report != nil:
			return m.Report, at, nil
		}
		at = m.Begin
	}
	w.cmd.Wait()
	return nil, at, fmt.Errorf("it hangs, or ended: %v", w.cmd.ProcessState)
}

// TestGPU executes random programs on the software driver and on NVIDIA's driver, if PURECU_TEST_GPU is
// set. "cusim" is another software driver.
func TestGPU(t *testing.T) {
	path := os.Getenv("PURECU_TEST_GPU")
	if path == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	p := &pool{t: t, env: path, next: *from, last: *to, uses: make(map[string]int), worst: make(map[string]float64),
		hashes: make(map[uint64][2]uint32), families: make(map[*family]int)}
	begun := time.Now()
	if *during > 0 {
		p.end = begun.Add(*during)
	}
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() {
			if err := p.serve(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d programs in %.0f s, %d differences, %d mutants that both reject and %d that both accept, "+
		"%d processes ended; to go on from here: -ptx.from=%d", p.programs, time.Since(begun).Seconds(),
		len(p.differences), p.mutants[0], p.mutants[1], p.restarts, p.next)
	p.write()
	p.show()
	rare := 0
	for _, row := range rowsUsed() {
		family := ownerOf(row)
		if family == nil {
			family = ordinaryFamily
		}
		if p.uses[row] < p.families[family]/100 {
			rare++
			t.Logf("%d uses of %.150s", p.uses[row], row)
		}
	}
	if rare > 0 {
		t.Errorf("%d rows of the table are used by less than one of 100 programs", rare)
	}
}

// key groups differences.
func (d *difference) key() string {
	if d.Item == -3 {
		why, _, _ := strings.Cut(d.Why, ";")
		return "a mutant " + why
	}
	why, _, _ := strings.Cut(d.Why, ":")
	return d.Form + " [" + d.Shape + "] " + why
}

// show reports the kinds of differences.
func (p *pool) show() {
	slices.SortFunc(p.differences, func(a, b difference) int { return int(int64(a.Seed) - int64(b.Seed)) })
	groups := make(map[string][]difference)
	var order []string
	for _, d := range p.differences {
		k := d.key()
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], d)
	}
	slices.SortStableFunc(order, func(a, b string) int { return len(groups[b]) - len(groups[a]) })
	for i, k := range order {
		if i == 60 {
			p.t.Errorf("and %d other kinds of differences", len(order)-i)
			break
		}
		d := groups[k][0]
		p.t.Errorf("%d times %s: seed %d, thread %d: %.200s; %s: GPU %x, software %x %.200s", len(groups[k]), k, d.Seed,
			d.Thread, d.Text, d.Operands, d.GPU, d.Sim, d.Why)
	}
	var worst []string
	for what := range p.worst {
		worst = append(worst, what)
	}
	slices.Sort(worst)
	for _, what := range worst {
		p.t.Logf("largest difference, as a part of what is allowed or in ulps: %9.3g %s", p.worst[what], what)
	}
}

// write writes the tables.
func (p *pool) write() {
	if *folder == "" {
		return
	}
	put := func(name string, f func(w io.Writer)) {
		file, err := os.Create(filepath.Join(*folder, fmt.Sprintf("ptx-%s-%d.tsv", name, *from)))
		if err != nil {
			p.t.Error(err)
			return
		}
		defer file.Close()
		w := bufio.NewWriter(file)
		defer w.Flush()
		f(w)
	}
	put("differences", func(w io.Writer) {
		for _, d := range p.differences {
			fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\t%d\t%x\t%x\t%d\t%s\n", d.Seed, d.Item, d.Form, d.Shape, d.Text,
				d.Operands, d.Thread, d.GPU, d.Sim, d.Threads, strings.ReplaceAll(d.Why, "\n", " | "))
		}
	})
	put("uses", func(w io.Writer) {
		for _, row := range rowsUsed() {
			fmt.Fprintf(w, "%d\t%s\n", p.uses[row], row)
		}
	})
	put("worst", func(w io.Writer) {
		for what, share := range p.worst {
			fmt.Fprintf(w, "%g\t%s\n", share, what)
		}
	})
	put("hashes", func(w io.Writer) {
		for seed := *from; seed < p.next; seed++ {
			if h, is := p.hashes[seed]; is {
				fmt.Fprintf(w, "%d\t%08x\t%08x\n", seed, h[0], h[1])
			}
		}
	})
}
