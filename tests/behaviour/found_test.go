package behaviour

import (
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// foundTSV is what an H200 answered to the cases of foundCases.
//
//go:embed testdata/h200-cuda13.0-found.tsv
var foundTSV string

// record is the name of a file to which the answers of a driver are written as a table of found
// behaviours.
var record = flag.String("behaviour.record", "", "write the answers of the GPU, or of cusim without one, in the found cases to this `file`")

// foundPart selects a part of the cases, for machines on which all of them take too long.
var foundPart = flag.String("behaviour.part", "", "run the I-th of N `parts` of the cases in TestFound: I/N")

// These flags say what is recorded, and how many cases at a time.
var (
	recordMissing = flag.Bool("behaviour.missing", false, "with -behaviour.record, keep cases that are already recorded")
	recorders     = flag.Int("behaviour.recorders", 8, "with -behaviour.record, how many `cases` are recorded at a time")
	recordTimes   = flag.Int("behaviour.times", 3, "with -behaviour.record, how often a case is run, to find answers that vary")
)

// suiteFound has behaviours that are not documented, through driver.Table.
const suiteFound suiteName = "found"

// A family is a topic of behaviours.
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
	famVirtual  family = "virtual memory"
	famAddress  family = "addresses"
	famBatches  family = "copies and moves in one call"
	famLibrary  family = "libraries"
	famPool     family = "pools of memory of the host"
)

// A found is a behaviour that is not documented, with the mistakes that users avoid if they know it.
type found struct {
	family   family
	name     string
	prevents string
	run      func(*raw)
}

// unlike returns, by case and step, why steps are asserted on NVIDIA's driver only.
func unlike() map[string]string {
	const kinder = "a software driver gives handles again as late as it can"
	return map[string]string{"handle-comes-again same-handle": kinder, "handle-comes-again same-stream-handle": kinder}
}

// foundBehaviours returns all behaviours.
func foundBehaviours() []found {
	return slices.Concat(foundEvents(), foundCaptures(), foundContexts(), foundIPC(), foundGraphs(), foundGraphNodes(),
		foundGraphEdges(), foundUserObjects(), foundGraphConds(), foundGraphAllocs(), foundOthers(), foundSticky(),
		foundVirtual(), foundBatches(), foundLibraries(), foundAddresses(), foundGraphRows(),
		foundFunctions(), foundExternal(), foundArguments(), foundPools())
}

// foundCases returns the cases of the suite.
func foundCases() []testCase {
	var list []testCase
	for _, f := range foundBehaviours() {
		list = append(list, testCase{f.name, onTable(f.run)})
	}
	return list
}

// partOf returns a function that selects the cases of a part, by their indexes. The part 2/3 is the
// second of three parts, and "" is all cases.
func partOf(part string) (mine func(i int) bool, err error) {
	if part == "" {
		return func(int) bool { return true }, nil
	}
	number, of, slash := strings.Cut(part, "/")
	k, err1 := strconv.Atoi(number)
	n, err2 := strconv.Atoi(of)
	if !slash || err1 != nil || err2 != nil || k < 1 || k > n {
		return nil, fmt.Errorf("-behaviour.part %s: want I/N, with 1 <= I <= N", part)
	}
	return func(i int) bool { return i%n == k-1 }, nil
}

// TestParts checks that each case is in exactly one part.
func TestParts(t *testing.T) {
	for _, part := range []string{"1", "/", "0/2", "3/2", "a/2", "1/b", "-1/-1"} {
		if _, err := partOf(part); err == nil {
			t.Errorf("%s is a part", part)
		}
	}
	for _, parts := range [][]string{{""}, {"1/1"}, {"1/3", "2/3", "3/3"}} {
		var of [7]int
		for _, part := range parts {
			mine, err := partOf(part)
			if err != nil {
				t.Fatal(err)
			}
			for i := range of {
				if mine(i) {
					of[i]++
				}
			}
		}
		if of != [7]int{1, 1, 1, 1, 1, 1, 1} {
			t.Errorf("%q: the cases are in so many: %v", parts, of)
		}
	}
}

// TestFound makes the steps of the found behaviours. It asserts the answers that were recorded.
func TestFound(t *testing.T) {
	if *record != "" {
		recordFound(t)
		return
	}
	mine, err := partOf(*foundPart)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parseTable(foundTSV)
	if err != nil {
		t.Fatal(err)
	}
	for _, tg := range targets(t) {
		if tg.NoDevice {
			continue
		}
		t.Run(tg.Name, func(t *testing.T) {
			for i, f := range foundBehaviours() {
				if !mine(i) {
					continue
				}
				t.Run(f.name, func(t *testing.T) {
					t.Parallel()
					j := job{Suite: suiteFound, Case: f.name, Target: tg}
					if of := rowsOf(rows, suiteFound, f.name); len(of) > 0 {
						runCase(t, of, j)
						return
					}
					// The case has no recorded answers. It must end without a failure, at least.
					reports, err := launch(t, j, caseLimit)
					if err != nil {
						t.Fatal(err)
					}
					made, err := recorded(f, [][]report{reports})
					if errors.Is(err, errSkipped) {
						t.Skip("it needs two devices")
					}
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("%d steps made, and none asserted: no GPU answers were recorded", len(made))
				})
			}
		})
	}
}

// TestFoundCovers checks that each family has enough behaviours, and that each behaviour says which
// bugs it prevents.
func TestFoundCovers(t *testing.T) {
	count := map[family]int{}
	seen := map[string]bool{}
	for _, f := range foundBehaviours() {
		count[f.family]++
		if f.prevents == "" || seen[f.name] {
			t.Errorf("%s is there twice, or does not say what it prevents", f.name)
		}
		seen[f.name] = true
	}
	for _, f := range []family{famRecord, famWait, famThread, famJoin, famExternal, famContext, famDefault, famIPC, famGraph, famSticky} {
		if count[f] < 6 {
			t.Errorf("%s: %d behaviours", f, count[f])
		}
	}
}

// recordLimit is how long a case may take when it is recorded. It is longer than the time after
// which a step counts as hanging.
const recordLimit = 40 * time.Second

// recordFound rewrites the table. Cases that cannot be recorded, because the process ended or the
// time was over, keep their rows.
func recordFound(t *testing.T) {
	list := targets(t)
	tg := list[len(list)-1] // the GPU, if there is one
	before, err := parseTable(foundTSV)
	if err != nil {
		t.Fatal(err)
	}
	end, limited := t.Deadline()
	all := foundBehaviours()
	runs := make([][][]report, len(all))
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	slots := make(chan struct{}, *recorders)
	for i, f := range all {
		if *recordMissing && len(rowsOf(before, suiteFound, f.name)) > 0 {
			errs[i] = errKept
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for range *recordTimes {
				limit := recordLimit
				if limited {
					limit = min(limit, time.Until(end)-time.Second)
				}
				if limit < recordLimit/4 {
					errs[i] = errors.New("there was no time left")
				}
				if errs[i] == nil {
					var reports []report
					reports, errs[i] = launch(t, job{Suite: suiteFound, Case: f.name, Target: tg}, limit)
					runs[i] = append(runs[i], reports)
				}
			}
		})
	}
	wg.Wait()
	var b strings.Builder
	b.WriteString("# Undocumented behaviours, in addition to h200-cuda13.0.tsv, with the same columns. The test writes this file with -behaviour.record.\n" +
		"# Each case was run several times. The comment above a case has its topic, and a mistake that users avoid if they know the behaviour.\n" +
		"# CRASH: the call killed the process. HANG: the call did not return.\n")
	for i, f := range all {
		fmt.Fprintf(&b, "#\n# %s: %s\n", f.family, f.prevents)
		rows, err := recorded(f, runs[i])
		if errs[i] != nil {
			err = errs[i]
		}
		switch {
		case err == errKept:
			rows = rowsOf(before, suiteFound, f.name)
		case err == errSkipped:
			t.Logf("%s was skipped: %v", f.name, runs[i][0])
			rows = rowsOf(before, suiteFound, f.name)
		case err != nil:
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

// errSkipped is for cases that cannot run here. errKept is for cases that keep their rows.
var (
	errSkipped = errors.New("skipped")
	errKept    = errors.New("recorded already")
)

// recorded returns the rows of a case from several runs.
func recorded(f found, runs [][]report) (rows []row, err error) {
	answers := map[string][]string{} // by step
	for k, run := range runs {
		n, risky := 0, false
		for _, rep := range run {
			switch {
			case rep.Kind == skipped:
				return nil, errSkipped
			case rep.Kind == failed, rep.Kind == missing, rep.Kind == left:
				return nil, fmt.Errorf("%s %s: %s", rep.Kind, rep.Step, rep.Text)
			case rep.Kind != answer:
				risky = rep.Kind == dared
				continue
			case k == 0:
				r := row{name: f.name, step: rep.Step, answer: rep.Answer, constant: noConstant, asserted: always, cu: cuNone}
				var code driver.Result
				if n, err := fmt.Sscanf(rep.Answer, "%d", &code); n == 1 && err == nil {
					r.constant = code.Name()
				}
				if risky {
					r.asserted, r.note = never, "it is use of what was destroyed, or as dangerous: the next driver may crash"
				}
				risky = false
				rows = append(rows, r)
			case n >= len(rows) || rows[n].step != rep.Step:
				return nil, fmt.Errorf("run %d has a step %s, where the first one has another", k+1, rep.Step)
			}
			n++
			if !slices.Contains(answers[rep.Step], rep.Answer) {
				answers[rep.Step] = append(answers[rep.Step], rep.Answer)
			}
		}
		if n < len(rows) {
			return nil, fmt.Errorf("run %d has no step %s", k+1, rows[n].step)
		}
	}
	kinder := unlike()
	for i := range rows {
		r := &rows[i]
		switch a := answers[r.step]; {
		case len(a) > 1:
			r.asserted, r.note = never, "it varies: "+strings.Join(a, ", ")
			if r.answer == crash || r.answer == hang {
				r.constant = noConstant
			}
		case r.answer == crash:
			r.asserted, r.note = never, "the driver in C crashes"
		case r.answer == hang:
			r.asserted, r.note = never, "the driver in C does not come back"
		case kinder[f.name+" "+r.step] != "":
			r.asserted, r.note = onNVIDIA, kinder[f.name+" "+r.step]
		}
		if err := r.check(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// TestRecorded checks the rows that recorded makes from reports.
func TestRecorded(t *testing.T) {
	says := func(step, a string) report { return report{Kind: answer, Step: step, Answer: a} }
	for _, tt := range []struct {
		name string
		runs [][]report
		want []string // lines without the case and package cu, or an error
		err  string
	}{
		{"the same", [][]report{{says("one", "0"), says("two", "=1")}, {says("one", "0"), says("two", "=1")}},
			[]string{"one 0 CUDA_SUCCESS yes: ", "two =1 - yes: "}, ""},
		{"not the same", [][]report{{says("one", "0")}, {says("one", "600")}},
			[]string{"one 0 CUDA_SUCCESS no: it varies: 0, 600"}, ""},
		{"deaths", [][]report{{says("one", hang), says("two", crash)}},
			[]string{"one HANG - no: the driver in C does not come back", "two CRASH - no: the driver in C crashes"}, ""},
		{"a danger", [][]report{{{Kind: dared, Step: "one"}, says("one", "0"), says("two", "0")}},
			[]string{"one 0 CUDA_SUCCESS no: it is use of what was destroyed, or as dangerous: the next driver may crash", "two 0 CUDA_SUCCESS yes: "}, ""},
		{"a step more", [][]report{{says("one", "0")}, {says("one", "0"), says("two", "0")}}, nil, "run 2 has a step two"},
		{"a step less", [][]report{{says("one", "0"), says("two", "0")}, {says("one", "0")}}, nil, "run 2 has no step two"},
		{"another step", [][]report{{says("one", "0")}, {says("two", "0")}}, nil, "run 2 has a step two"},
		{"a skip", [][]report{{{Kind: skipped, Text: "one device"}}}, nil, "skipped"},
		{"not made", [][]report{{{Kind: left, Step: "one", Text: "for a reason"}}}, nil, "left one: for a reason"},
		{"not an answer", [][]report{{says("one", "nonsense")}}, nil, `the answer is "nonsense"`},
	} {
		rows, err := recorded(found{name: "a"}, tt.runs)
		var got []string
		for _, r := range rows {
			got = append(got, fmt.Sprintf("%s %s %s %s: %s", r.step, r.answer, r.constant, r.asserted, r.note))
		}
		if !slices.Equal(got, tt.want) || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q, %v; want %q, %q", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// A gate holds streams until it is opened. It is a word in memory that the streams wait for.
type gate struct {
	c    *raw
	host driver.HostPtr
	dev  driver.DevicePtr
}

// mostGates is the largest number of gates of a case.
const mostGates = 64

// gates are the gates of a case. Their memory is allocated before the first gate holds a stream,
// because allocating memory may wait for the GPU.
type gates struct {
	host  driver.HostPtr
	dev   driver.DevicePtr
	count int
}

// gate returns a closed gate, for streams of all contexts. Its memory belongs to the context that
// was current when the first gate was made.
func (c *raw) gate() *gate {
	if c.gates.count == 0 {
		var res driver.Result
		c.gates.host, res = c.MemHostAlloc(c.at, 4*mostGates, driver.CU_MEMHOSTALLOC_PORTABLE|driver.CU_MEMHOSTALLOC_DEVICEMAP)
		c.must("cuMemHostAlloc", res)
		c.gates.dev, res = c.MemHostGetDevicePointer(c.at, c.gates.host, 0)
		c.must("cuMemHostGetDevicePointer", res)
	}
	if c.gates.count == mostGates {
		c.fatal("there are more than %d gates", mostGates)
	}
	at := 4 * c.gates.count
	c.gates.count++
	g := &gate{c: c, host: c.gates.host + driver.HostPtr(at), dev: c.gates.dev + driver.DevicePtr(at)}
	g.word().Store(0)
	return g
}

func (g *gate) word() *atomic.Uint32 {
	return *(**atomic.Uint32)(unsafe.Pointer(&g.host)) // the driver returns the address as a number
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

// until repeats ask until the result differs from not, or the time is over.
func (c *raw) until(not driver.Result, ask func() driver.Result) (res driver.Result) {
	for end := time.Now().Add(c.patience()); ; time.Sleep(100 * time.Microsecond) {
		if res = ask(); res != not || time.Now().After(end) {
			return res
		}
	}
}

// settled returns the result of querying an event after all possible work has been done.
func (c *raw) settled(e driver.Event) driver.Result {
	return c.until(driver.ResultNotReady, func() driver.Result { return c.query(e) })
}

// drained is like settled, for a stream.
func (c *raw) drained(s driver.Stream) driver.Result {
	return c.until(driver.ResultNotReady, func() driver.Result { return c.streamQuery(s) })
}

// patience is how long to wait for something that may never happen. On the software driver it happens when the machine
// has a processor for it.
func (c *raw) patience() time.Duration {
	if c.Software() {
		return 200 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// reached records an event on a stream, and reports the result of querying the event.
func (c *raw) reached(s driver.Stream) driver.Result {
	e := c.event(untimed)
	c.record(e, s)
	return c.settled(e)
}

// bare returns the result of a call that also returns a value.
func bare[T any](_ T, res driver.Result) driver.Result { return res }

// receive waits, in a second process, for a value that the first process sends.
func (c *raw) receive(v any) {
	c.send(report{Kind: ready})
	c.receiveNext(v)
}

// receiveNext reads the value. The process has already reported that it is ready.
func (c *raw) receiveNext(v any) {
	if err := json.NewDecoder(os.Stdin).Decode(v); err != nil {
		c.fatal("the first process says nothing more: %v", err)
	}
}

// send sends a value to the second process. It waits until the process is ready for more, or has
// ended.
func (s *second) send(v any) {
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
