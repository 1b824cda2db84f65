package entries

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/loader"
)

var (
	record = flag.String("entries.record", "", "write what the driver answers to this `file`")
	target = flag.String("entries.driver", "", "the `driver` to record: cusim, or gpu")
	rest   = flag.Bool("entries.missing", false, "record only what is missing in the file, and copy the rest")
	most   = flag.Int("entries.most", 40, "how `many` differences to show")
)

// These are the environment variables of the processes that make the calls.
const (
	sceneEnv  = "PURECU_ENTRIES_SCENE"  // the number of the scene
	driverEnv = "PURECU_ENTRIES_DRIVER" // cusim, or a path, or 1
	fromEnv   = "PURECU_ENTRIES_FROM"   // the first call
	restEnv   = "PURECU_ENTRIES_REST"   // whether only unrecorded calls are made
)

// child makes the calls of a scene. It writes a line with the number of a call before each call,
// and a line with the result after it.
func child() int {
	n, _ := strconv.Atoi(os.Getenv(sceneEnv))
	from, _ := strconv.Atoi(os.Getenv(fromEnv))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	b, err := openDriver(os.Getenv(driverEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer b.close()
	sc := scenes()[n]
	i := 0
	tell := func(ask func() string) {
		if i++; i <= from {
			return
		}
		fmt.Fprintf(out, "%d\n", i-1)
		out.Flush()
		fmt.Fprintf(out, "=%s\n", ask())
	}
	subjects := asked(sc, os.Getenv(restEnv) != "")
	if sc.kind == poisoned {
		b.askAll(sc, subjects, tell)
		return 0
	}
	for _, sub := range subjects {
		for _, v := range sc.views() {
			tell(func() string { return b.ask(sc, v, sub) })
		}
	}
	return 0
}

// openDriver opens the software driver, or one in C.
func openDriver(name string) (*base, error) {
	if name == "cusim" {
		sim := cusim.New(cusim.VirtualTime())
		return open(driver.NewSoftware(sim.Software()), func() { sim.Advance(10 * time.Millisecond) }, 1)
	}
	if name == "1" {
		name = ""
	}
	lib, err := loader.Open(name)
	if err != nil {
		return nil, err
	}
	return open(driver.New(lib), func() { time.Sleep(pause) }, 5)
}

// These are the times that a process may take to start, and a call may take.
const (
	starting = time.Minute
	stuck    = 10 * time.Second
)

// asked returns the calls that are made in a scene: all, or those that are unrecorded.
func asked(sc scene, rest bool) []subject {
	list := sc.subjects()
	if rest {
		list = slices.DeleteFunc(list, func(s subject) bool { return !slices.Contains(unrecorded, s.call.name) })
	}
	return list
}

// run makes calls of a scene in processes of their own. If a process dies, the next one continues.
// It returns the cells of each subject.
func run(t *testing.T, scene int, name string, rest bool) ([][]string, error) {
	t.Helper()
	sc := scenes()[scene]
	subjects := asked(sc, rest)
	views := len(sc.views())
	cells := make([]string, 0, len(subjects)*views)
	total := cap(cells)
	unborn := 0
	for deaths := 0; len(cells) < total; deaths++ {
		if deaths > 40 {
			return nil, fmt.Errorf("%v: the process has died %d times", sc, deaths)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), sceneEnv+"="+strconv.Itoa(scene), driverEnv+"="+name, fromEnv+"="+strconv.Itoa(len(cells)))
		if rest {
			cmd.Env = append(cmd.Env, restEnv+"=1")
		}
		var errText strings.Builder
		cmd.Stderr = &errText
		pipe, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			cancel()
			return nil, err
		}
		watch := time.AfterFunc(starting, cancel)
		lines := bufio.NewScanner(pipe)
		begun := -1
		for lines.Scan() {
			watch.Reset(stuck)
			if text, is := strings.CutPrefix(lines.Text(), "="); is {
				cells = append(cells, text)
			} else {
				begun, _ = strconv.Atoi(lines.Text())
			}
		}
		_, _ = io.Copy(io.Discard, pipe)
		err = cmd.Wait()
		hung := !watch.Stop()
		cancel()
		switch {
		case err == nil:
		case begun < 0:
			// Other programs may have used up what the driver needs for a context: try again, when they may have ended.
			if unborn++; unborn == 3 {
				return nil, fmt.Errorf("%v: the process has made no call in %d attempts; do other programs use the GPU? %w: %s",
					sc, unborn, err, errText.String())
			}
			t.Logf("%v: the process has made no call: %v: %.300s", sc, err, errText.String())
			time.Sleep(2 * time.Second)
		default:
			// Results that were not flushed are lost with the process, and their calls are made
			// again.
			what := "CRASH"
			if hung {
				what = "HANG"
			}
			for begun == len(cells) || len(cells)%views != 0 {
				cells = append(cells, what) // from the other views, the call would crash or hang, too
			}
			t.Logf("%s: %s: %v: %.300s", sc.key(subjects[begun/views]), what, err, errText.String())
		}
	}
	rows := make([][]string, 0, len(cells)/views)
	for c := range slices.Chunk(cells, views) {
		rows = append(rows, c)
	}
	return rows, nil
}

// runAll makes all calls, or those that are unrecorded. It returns the cells of each call in each scene.
func runAll(t *testing.T, name string, rest bool) map[string][]string {
	t.Helper()
	all, errs := make([][][]string, len(scenes())), make([]error, len(scenes()))
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(1, runtime.NumCPU()/2))
	for i := range all {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			all[i], errs[i] = run(t, i, name, rest)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err) // the other scenes have their answers
	}
	rows := make(map[string][]string)
	for i, sc := range scenes() {
		for j, sub := range asked(sc, rest) {
			if all[i] != nil {
				rows[sc.key(sub)] = all[i][j]
			}
		}
	}
	return rows
}

// golden has the answers of an H200.
const golden = "testdata/h200-cuda13.0.tsv"

// head explains the file.
const head = `# What each function does in each situation of captures, as %s answered. Written by the test with -entries.record.
#
# First come the patterns, each with a number and what came of a call in 18 views, separated by bars: for a capture in global mode,
# by the capturing thread in global, thread-local and relaxed mode, then by another thread in the three modes; then the same six for a
# capture in thread-local mode, then for a relaxed one. Where nothing is being captured there are three, the caller's modes. Where the
# context is poisoned there are two: the capturing thread and another one; the calls are made one after the other, on the same objects. One alone stands for all views.
#
# What came of a call is its result; each stream that is being captured another way now: n not, a actively, i invalidated; e and
# what cuEventQuery answers of the event now, where that is not what it was; end: and what cuStreamEndCapture answered at the end, if
# that was not 0 for an active and 901 for an invalidated capture.
#
# Then come the calls: scene, function, the number of a pattern, and for which operands it holds: a stream and an event, each.
`

// write writes a file of answers.
func write(w io.Writer, who string, all map[string][]string) {
	numbers := map[string]int{}
	type group struct {
		scene scene
		call  string
		n     int
	}
	operands := map[group][]string{}
	var groups []group
	var patterns, rows strings.Builder
	for _, sc := range scenes() {
		for _, sub := range sc.subjects() {
			cells := all[sc.key(sub)]
			if cells == nil {
				continue // the scene has failed
			}
			if len(slices.Compact(slices.Clone(cells))) == 1 {
				cells = cells[:1]
			}
			pattern := strings.Join(cells, "|")
			n, found := numbers[pattern]
			if !found {
				n = len(numbers)
				numbers[pattern] = n
				fmt.Fprintf(&patterns, "%d\t%s\n", n, pattern)
			}
			g := group{sc, sub.call.name, n}
			if operands[g] == nil {
				groups = append(groups, g)
			}
			operands[g] = append(operands[g], fmt.Sprintf("%v/%v", sub.stream, sub.event))
		}
	}
	for _, g := range groups {
		fmt.Fprintf(&rows, "%v\t%s\t%d\t%s\n", g.scene, g.call, g.n, strings.Join(operands[g], " "))
	}
	fmt.Fprintf(w, head, who)
	fmt.Fprint(w, patterns.String(), rows.String())
}

// read reads a file of answers: the cells of each scene and subject.
func read(text string) (map[string][]string, error) {
	patterns := map[string]string{}
	rows := map[string][]string{}
	for n, line := range strings.Split(text, "\n") {
		f := strings.Split(line, "\t")
		switch {
		case line == "" || line[0] == '#':
		case len(f) == 2:
			patterns[f[0]] = f[1]
		case len(f) == 4:
			p, found := patterns[f[2]]
			if !found {
				return nil, fmt.Errorf("line %d: there is no pattern %s", n+1, f[2])
			}
			for _, o := range strings.Fields(f[3]) {
				rows[f[0]+"\t"+f[1]+"\t"+o] = strings.Split(p, "|")
			}
		default:
			return nil, fmt.Errorf("line %d has %d columns", n+1, len(f))
		}
	}
	return rows, nil
}

// unrecorded are the names of calls that no GPU has been asked about, such as "cuMemAlloc".
// When the file has their answers, they are removed here.
var unrecorded []string

func names(calls []call) (list []string) {
	for _, c := range calls {
		list = append(list, c.name)
	}
	return list
}

// TestEntries makes all calls on every driver of this machine.
func TestEntries(t *testing.T) {
	if *record != "" {
		who := map[string]string{"cusim": "the software driver", "gpu": "libcuda 580 (CUDA 13.0) on an H200"}[*target]
		if who == "" {
			t.Fatal("-entries.driver is cusim or gpu")
		}
		all := runAll(t, strings.NewReplacer("gpu", gpu()).Replace(*target), *rest)
		if *rest {
			maps.Copy(all, recorded(t))
		}
		var b strings.Builder
		write(&b, who, all)
		if err := os.WriteFile(*record, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := recorded(t)
	t.Run("cusim", func(t *testing.T) { compare(t, want, runAll(t, "cusim", false), false) })
	if gpu() != "" {
		t.Run("gpu", func(t *testing.T) { compare(t, want, runAll(t, gpu(), false), true) })
	}
}

// recorded returns what the file has.
func recorded(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := read(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func gpu() string { return os.Getenv("PURECU_TEST_GPU") }

// TestNames checks that no two calls have the same rows of the file.
func TestNames(t *testing.T) {
	list := names(calls())
	slices.Sort(list)
	for i, name := range list[1:] {
		if name == list[i] {
			t.Errorf("two calls are named %s", name)
		}
	}
}

// wellFormed reports whether a cell can be an answer: the call was made, its result is documented, and
// nothing else has failed.
func wellFormed(cell string) bool {
	res, _, _ := strings.Cut(cell, " ")
	n, err := strconv.ParseInt(res, 10, 32)
	return err == nil && driver.Result(n).Name() != "" && !strings.Contains(cell, "(") || cell == "gone"
}

func TestWellFormed(t *testing.T) {
	for cell, want := range map[string]bool{
		"0": true, "900 origin:i joined:i": true, "0 e907": true, "gone": true,
		"": false, "CRASH": false, "HANG": false, "missing": false, "-5": false, "123456": false,
		"not built (cuMemAlloc: 2)": false, "0 (undo: CUDA_ERROR_INVALID_VALUE)": false,
	} {
		if got := wellFormed(cell); got != want {
			t.Errorf("%q: %v", cell, got)
		}
	}
}

// sameButTime reports whether two answers of a function differ at most in whether work was complete, which on a GPU
// depends on time. Functions that ask for this return 600 or 0. After others an event may be incomplete. Of one that is
// complete e0 is said if it was not complete before, and else nothing.
func sameButTime(function, a, b string) bool {
	complete := func(answer string) string {
		if rest, pending := strings.CutPrefix(answer, "600"); pending && asksWhether.MatchString(function) {
			answer = "0" + rest
		}
		fields := strings.Fields(answer)
		return strings.Join(slices.DeleteFunc(fields, func(f string) bool { return f == "e600" || f == "e0" }), " ")
	}
	return complete(a) == complete(b)
}

// asksWhether matches the functions that ask whether work is complete.
var asksWhether = regexp.MustCompile(`^cu(Event|Stream)Query|^cuEventElapsedTime`)

func TestSameButTime(t *testing.T) {
	for _, tt := range []struct {
		function, a, b string
		want           bool
	}{
		{"cuEventQuery", "600", "0", true}, {"cuEventElapsedTime_v2 end", "600 origin:i", "0 origin:i", true},
		{"cuEventQuery", "600!", "0!", true}, {"cuStreamQuery", "600", "900", false}, {"cuStreamQuery", "600", "0 e600", true},
		{"cuMemAlloc", "600", "0", false}, {"cuMemcpyAsync", "0 e600", "0", true}, {"cuMemcpyAsync", "0 e600", "0 e0", true},
		{"cuMemcpyAsync", "0 e600", "0 e1", false},
		{"cuMemcpyAsync", "0 e0", "0", true}, {"cuMemcpyAsync", "0 e0 end:0", "0 end:600", false},
		{"cuMemcpyAsync", "0 end:600", "0 end:0", false},
	} {
		if got := sameButTime(tt.function, tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %q and %q: %t", tt.function, tt.a, tt.b, got)
		}
	}
}

// compare compares answers with the file. There it finds no answers of calls that are unrecorded.
func compare(t *testing.T, want, all map[string][]string, onGPU bool) {
	type difference struct{ what, golden, got string }
	counts := map[difference]int{}
	examples := map[difference]string{}
	cells, wrong, asked := 0, 0, map[string]bool{}
	for _, sc := range scenes() {
		for _, sub := range sc.subjects() {
			key := sc.key(sub)
			w, found := want[key]
			switch waits := slices.Contains(unrecorded, sub.call.name); {
			case found && waits:
				t.Errorf("%s: the file has the answer: remove the call from unrecorded", key)
			case !found && !waits:
				t.Errorf("%s: the file has no answer: record it, or list the call in unrecorded", key)
			}
			if !found {
				for k, got := range all[key] {
					if !wellFormed(got) {
						t.Errorf("%s, %v: %s", key, sc.views()[k], got)
					}
				}
				continue
			}
			asked[key] = true
			for k, got := range all[key] {
				cells++
				g := w[min(k, len(w)-1)]
				if g == got || onGPU && sameButTime(sub.call.name, g, got) {
					continue
				}
				wrong++
				d := difference{sub.call.name, g, got}
				if counts[d]++; counts[d] == 1 {
					examples[d] = fmt.Sprintf("%v, %v %v, %v", sc, sub.stream, sub.event, sc.views()[k])
				}
			}
		}
	}
	t.Logf("%d calls, %d of them answered otherwise", cells, wrong)
	for key := range want {
		if !asked[key] {
			t.Errorf("%s: there is no such call any more", key)
		}
	}
	var lines []string
	for d, n := range counts {
		lines = append(lines, fmt.Sprintf("%s: %q, not %q: %d times, first in %s", d.what, d.got, d.golden, n, examples[d]))
	}
	slices.Sort(lines)
	for i, l := range lines {
		if i == *most {
			t.Errorf("and %d more; -entries.most shows more", len(lines)-i)
			break
		}
		t.Error(l)
	}
}
