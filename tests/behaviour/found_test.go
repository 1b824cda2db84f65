package behaviour

import (
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/internal/driver"
)

// foundTSV is what an H200 answered to the cases of foundCases.
//
//go:embed testdata/h200-cuda13.0-found.tsv
var foundTSV string

// record names a file to write the table of found behaviours to, as a driver answers.
var record = flag.String("behaviour.record", "", "write what the GPU, or else cusim, answers in the found cases to this `file`")

// suiteFound are behaviours that nobody told us, through driver.Table.
const suiteFound suiteName = "found"

// A family is what behaviours are about.
type family string

const (
	famRecord   family = "record and re-record"
	famWait     family = "waits"
	famThread   family = "capture and threads"
	famJoin     family = "capture: joins and merges"
	famExternal family = "external events"
	famContext  family = "contexts and their destruction"
	famDefault  family = "default streams"
	famIPC      family = "other processes"
	famGraph    family = "graphs"
	famSticky   family = "sticky errors"
)

// A found is a behaviour that the documentation does not tell, and which users' bugs
// knowing it prevents.
type found struct {
	family   family
	name     string
	prevents string
	run      func(*raw)
}

// executesPTX names the behaviours of kernels, which the software driver does not execute.
var executesPTX = []string{"trap", "misaligned"}

// foundBehaviours returns all of them.
func foundBehaviours() []found {
	return slices.Concat(foundEvents(), foundCaptures(), foundContexts(), foundOthers())
}

// foundCases returns the cases of the suite.
func foundCases() []testCase {
	var list []testCase
	for _, f := range foundBehaviours() {
		list = append(list, testCase{f.name, func(j job, rep *reporter) {
			t, err := j.Target.open()
			if err != nil {
				rep.fatal("%v", err)
			}
			f.run(newRaw(j, rep, t))
		}})
	}
	return list
}

// TestFound makes the steps of the behaviours that were found.
func TestFound(t *testing.T) {
	if *record != "" {
		recordFound(t)
		return
	}
	rows, err := parseTable(foundTSV)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Skip("nothing has been recorded: run with -behaviour.record on a GPU")
	}
	for _, tg := range targets(t) {
		if tg.NoDevice {
			continue
		}
		t.Run(tg.Name, func(t *testing.T) {
			for _, f := range foundBehaviours() {
				t.Run(f.name, func(t *testing.T) {
					of := rowsOf(rows, suiteFound, f.name)
					if len(of) == 0 {
						t.Fatal("the table has no such case: record it")
					}
					runCase(t, of, job{Suite: suiteFound, Case: f.name, Target: tg})
				})
			}
		})
	}
}

// TestFoundCovers looks that there are enough behaviours in each family, which say what
// they are good for.
func TestFoundCovers(t *testing.T) {
	count := map[family]int{}
	seen := map[string]bool{}
	for _, f := range foundBehaviours() {
		count[f.family]++
		if f.prevents == "" || seen[f.name] {
			t.Errorf("%s is there twice, or nobody knows what for", f.name)
		}
		seen[f.name] = true
	}
	for _, f := range []family{famRecord, famWait, famThread, famJoin, famExternal, famContext, famDefault, famIPC, famGraph, famSticky} {
		if count[f] < 6 {
			t.Errorf("%s: %d behaviours", f, count[f])
		}
	}
}

// What recording takes: how often a case is recorded, to see what varies, how long it
// may take, and how many are recorded at a time.
const (
	times       = 3
	recordLimit = 15 * time.Second
	recorders   = 8
)

// recordFound writes the table anew. What cannot be recorded, as the process died or
// time was over, keeps the rows that it had.
func recordFound(t *testing.T) {
	list := targets(t)
	tg := list[len(list)-1] // the GPU, if there is one
	before, err := parseTable(foundTSV)
	if err != nil {
		t.Fatal(err)
	}
	end, limited := t.Deadline()
	all := foundBehaviours()
	runs := make([][times][]report, len(all))
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	slots := make(chan struct{}, recorders)
	for i, f := range all {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for k := range times {
				if limited && time.Until(end) < recordLimit+5*time.Second {
					errs[i] = errors.New("there was no time left")
				}
				if errs[i] == nil {
					runs[i][k], errs[i] = launch(t, job{Suite: suiteFound, Case: f.name, Target: tg}, recordLimit)
				}
			}
		})
	}
	wg.Wait()
	var b strings.Builder
	fmt.Fprintf(&b, "# Behaviours that were found by asking, beyond h200-cuda13.0.tsv, whose columns these are. Written by the test with -behaviour.record:\n"+
		"# each case was run %d times. Above each stands what it is about, and which bug it prevents to know it.\n", times)
	for i, f := range all {
		fmt.Fprintf(&b, "#\n# %s: %s\n", f.family, f.prevents)
		rows, err := recorded(f, runs[i][:])
		if err = errors.Join(errs[i], err); err != nil {
			t.Errorf("%s: %v", f.name, err)
			rows = rowsOf(before, suiteFound, f.name)
		}
		for _, r := range rows {
			asserted := string(r.asserted)
			if r.note != "" {
				asserted += ": " + r.note
			}
			fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\t%s\n", r.name, r.step, r.answer, r.constant, asserted, r.cu)
		}
	}
	if err := os.WriteFile(*record, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recorded returns the rows of a case that was run several times.
func recorded(f found, runs [][]report) (rows []row, err error) {
	answers := map[string][]string{} // by step
	for k, run := range runs {
		for _, rep := range run {
			switch {
			case rep.Kind == skipped, rep.Kind == failed, rep.Kind == missing, rep.Kind == left:
				return nil, fmt.Errorf("%s %s: %s", rep.Kind, rep.Step, rep.Text)
			case rep.Kind != answer:
				continue
			case k == 0:
				r := row{name: f.name, step: rep.Step, answer: rep.Answer, constant: noConstant, asserted: always, cu: cuNone}
				if slices.Contains(executesPTX, f.name) {
					r.asserted, r.note = onLibrary, "a software driver does not execute PTX"
				}
				var code driver.Result
				if n, err := fmt.Sscanf(rep.Answer, "%d", &code); n == 1 && err == nil {
					r.constant = code.Name()
				}
				rows = append(rows, r)
			}
			if !slices.Contains(answers[rep.Step], rep.Answer) {
				answers[rep.Step] = append(answers[rep.Step], rep.Answer)
			}
		}
	}
	for i, r := range rows {
		if a := answers[r.step]; len(a) > 1 {
			rows[i].asserted, rows[i].note = never, "it varies: "+strings.Join(a, ", ")
		}
	}
	return rows, nil
}

// A gate holds streams up until it is opened: it is a word that they wait for.
type gate struct {
	c    *raw
	host driver.HostPtr
	dev  driver.DevicePtr
}

// gate returns a closed gate, of the current context.
func (c *raw) gate() *gate {
	host, res := c.MemHostAlloc(c.at, 4096, driver.CU_MEMHOSTALLOC_PORTABLE|driver.CU_MEMHOSTALLOC_DEVICEMAP)
	c.must("cuMemHostAlloc", res)
	g := &gate{c: c, host: host}
	g.dev, res = c.MemHostGetDevicePointer(c.at, host, 0)
	c.must("cuMemHostGetDevicePointer", res)
	g.word().Store(0)
	return g
}

func (g *gate) word() *atomic.Uint32 {
	return *(**atomic.Uint32)(unsafe.Pointer(&g.host)) // written this way because the address comes as a number
}

// hold makes a stream wait for the gate.
func (g *gate) hold(s driver.Stream) { g.holdAt(g.c, s) }

func (g *gate) holdAt(c *raw, s driver.Stream) {
	c.must("cuStreamWaitValue32", c.StreamWaitValue32(c.at, s, g.dev, 1, driver.CU_STREAM_WAIT_VALUE_GEQ))
}

func (g *gate) open() { g.word().Store(1) }

// held returns a stream that a gate holds.
func (c *raw) held(flags uint32) (driver.Stream, *gate) {
	s, g := c.stream(flags), c.gate()
	g.hold(s)
	return s, g
}

// settled returns what a query of an event answers when what can be done is done.
func (c *raw) settled(e driver.Event) (res driver.Result) {
	for end := time.Now().Add(c.patience()); ; time.Sleep(100 * time.Microsecond) {
		if res = c.EventQuery(c.at, e); res != driver.ResultNotReady || time.Now().After(end) {
			return res
		}
	}
}

// patience is how long to wait for what may never come.
func (c *raw) patience() time.Duration {
	if c.Software() {
		return 5 * time.Millisecond
	}
	return 50 * time.Millisecond
}

// reached reports what a query answers of an event that is recorded on a stream now.
func (c *raw) reached(s driver.Stream) driver.Result {
	e := c.event(untimed)
	c.record(e, s)
	return c.settled(e)
}

// bare is res for a call that also returns a value.
func bare[T any](_ T, res driver.Result) driver.Result { return res }

// hear waits, in a second process, for something that the first tells.
func (c *raw) hear(v any) {
	c.send(report{Kind: ready})
	if err := json.NewDecoder(os.Stdin).Decode(v); err != nil {
		c.fatal("the first process says nothing more: %v", err)
	}
}

// say tells the second process something, when it is ready to hear that, and waits
// until it is ready for more, or has ended.
func (s *second) say(v any) {
	if err := json.NewEncoder(s.in).Encode(v); err != nil {
		s.rep.fatal("the second process does not listen: %v", err)
	}
	s.forward()
}

// end waits until the second process has ended.
func (s *second) end() {
	if err := s.cmd.Wait(); err != nil {
		s.rep.fatal("the second process ended early: %v", err)
	}
}
