package entries

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/functions.tsv
var functionsText string

// function is a row of testdata/functions.tsv.
type function struct {
	name string
	args []string
	ends bool // the contexts are others after the call
}

func functions() (list []function, err error) {
	for n, line := range strings.Split(functionsText, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		f := append(strings.Split(line, "\t"), "", "")
		if f[1] == "-" {
			continue
		}
		if f[2] != "" && f[2] != "ends" {
			return nil, fmt.Errorf("line %d: %q", n+1, f[2])
		}
		list = append(list, function{f[0], strings.Fields(f[1]), f[2] == "ends"})
	}
	return list, nil
}

// place says which context is current, and which one the objects belong to.
type place struct {
	name    string
	none    bool // no context is current
	current homeName
	objects homeName
}

var places = []place{
	{name: "usual"},
	{name: "none", none: true},
	{name: "other", current: second},
	{name: "device", current: abroad},
	{name: "other's", current: second, objects: second},
	{name: "device's", current: abroad, objects: abroad},
}

// two reports whether the place needs a second device.
func (p place) two() bool { return p.current == abroad || p.objects == abroad }

// change is another argument than the usual one: which one, and what instead.
type change struct {
	arg  int
	what string
}

func (c change) String() string { return fmt.Sprintf("%d:%s", c.arg, c.what) }

// handle reports whether the argument is no handle of an existing object.
func (c change) handle() bool { return c.what == "gone" || c.what == "wrong" }

// large reports whether the argument is a size that is too large.
func (c change) large() bool { return c.what == "large" || c.what == "huge" }

// slow reports whether calls create contexts.
func (f function) slow() bool { return f.ends || slices.Contains(f.args, "out.ctx") }

// changes returns the changes of a function's arguments.
func (f function) changes() (list []change) {
	for i, a := range f.args {
		var whats []string
		switch {
		case strings.HasPrefix(a, "out"), a[0] == '&', a[0] == '"':
			whats = []string{"null"}
		case a[0] == '*':
			whats = []string{"null", "zero"}
		case a == "@":
			whats = []string{"minus", "99"}
		case a[0] == '%':
			whats = []string{"zero", "gone", "wrong"}
			if slices.Contains(lasting, strings.TrimSuffix(a[1:], "!")) {
				whats = []string{"zero", "wrong"}
			}
		case strings.HasPrefix(a, "#z"):
			whats = []string{"zero"}
		case strings.HasPrefix(a, "#h"), strings.HasPrefix(a, "#u"):
			whats = []string{"zero", "huge"}
		case a[0] == '#':
			whats = []string{"zero", "large", "huge"}
		}
		for _, w := range whats {
			list = append(list, change{i, w})
		}
	}
	return list
}

// lasting are the kinds of arguments of which none can be destroyed.
var lasting = []string{"owned", "allocated", "own", "defaultpool", "poolfile", "file", "desc"}

// situation is one call of a function.
type situation struct {
	function  string
	place     int
	capturing bool // a stream of the first device is being captured, by this thread, in global mode
	legacy    bool // its streams are the legacy default stream
	changed   bool
	change    change
}

// These functions write a situation as a line, and read one.
func (s situation) String() string {
	return fmt.Sprintf("%s %d %t %t %t %d %s", s.function, s.place, s.capturing, s.legacy, s.changed,
		s.change.arg, s.change.what)
}

func parseSituation(line string) (s situation, err error) {
	_, err = fmt.Sscanf(line, "%s %d %t %t %t %d %s", &s.function, &s.place, &s.capturing, &s.legacy, &s.changed,
		&s.change.arg,
		&s.change.what)
	return s, err
}

// group is a row: situations of one function, that are named alike.
type group struct {
	name string
	list []situation
	says []string // what each cell is called
}

// groups returns the rows of a function.
func (f function) groups() []group {
	var all []group
	around := func(name string, legacy bool) {
		g := group{name: name}
		for _, capturing := range []bool{false, true} {
			for i, p := range places {
				what := p.name
				if capturing {
					what += "+capture"
				}
				g.says = append(g.says, what)
				g.list = append(g.list, situation{function: f.name, place: i, capturing: capturing, legacy: legacy,
					change: change{0, "-"}})
			}
		}
		all = append(all, g)
	}
	around("context", false)
	for _, a := range f.args {
		if a == "%stream" {
			around("legacy", true)
			break
		}
	}
	for _, in := range []situation{{}, {place: 1}, {capturing: true}} {
		g := group{name: "arguments"}
		if in.place == 1 {
			g.name = "arguments without context"
		} else if in.capturing {
			g.name = "arguments while capturing"
		}
		for _, c := range f.changes() {
			in.function, in.changed, in.change = f.name, true, c
			g.list = append(g.list, in)
			g.says = append(g.says, c.String())
		}
		if len(g.list) > 0 {
			all = append(all, g)
		}
	}
	return all
}

// number returns the number of an argument such as "#u64" or "-1".
func number(arg string) (uint64, error) {
	text := strings.TrimLeft(arg, "#*uhz")
	if arg == "-" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return uint64(n), err
}

// TestFunctions checks that the table has every function of the software driver, with as many arguments as it has.
func TestFunctions(t *testing.T) {
	root := filepath.Join("..", "..")
	doc, err := os.ReadFile(filepath.Join(root, "docs", "software-functions.md"))
	if err != nil {
		t.Fatal(err)
	}
	has, _, _ := strings.Cut(string(doc), "## What it lacks")
	if _, has, _ = strings.Cut(has, "## What it has\n"); has == "" {
		t.Fatal("docs/software-functions.md has no list of functions")
	}
	manifest, err := os.ReadFile(filepath.Join(root, "tools", "gen-symbols", "manifest", "cuda-13.0.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	parameters := map[string]int{"cuProfilerStart": 0, "cuProfilerStop": 0}
	for line := range strings.Lines(string(manifest)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); f[0] == "func" {
			parameters[f[1]] = len(f) - 8
		}
	}
	inTable := map[string]bool{}
	for line := range strings.Lines(functionsText) {
		name, _, isRow := strings.Cut(line, "\t")
		if isRow && inTable[name] {
			t.Errorf("%s is there twice", name)
		}
		inTable[name] = true
	}
	for _, m := range regexp.MustCompile("`(cu[A-Za-z0-9_]+)`").FindAllStringSubmatch(has, -1) {
		if _, of13 := parameters[m[1]]; of13 && !inTable[m[1]] {
			t.Errorf("testdata/functions.tsv lacks %s", m[1])
		}
	}
	list, err := functions()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if n, found := parameters[f.name]; !found || n != len(f.args) {
			t.Errorf("%s has %d arguments in the table, and %d parameters", f.name, len(f.args), n)
		}
		for _, a := range f.args {
			name := strings.TrimSuffix(a[1:], "!")
			if _, known := makers[name]; a[0] == '%' && !known {
				t.Errorf("%s: nothing makes %s", f.name, a)
			}
			if _, known := inputs[name]; a[0] == '&' && !known {
				t.Errorf("%s: nothing makes %s", f.name, a)
			}
		}
	}
}

// TestStates makes all calls on every driver in C.
func TestStates(t *testing.T) {
	known, err := readStates(recordedStates)
	if err != nil {
		t.Fatal(err)
	}
	if *record != "" {
		name := map[string]string{"cusim": "", "gpu": gpu()}[*target]
		who := map[string]string{"cusim": "the software driver", "gpu": "libcuda 580 (CUDA 13.0) on two H200s"}[*target]
		if *target == "cusim" {
			name = softlib(t)
		}
		if !*rest {
			known = map[string]string{}
		}
		var b bytes.Buffer
		if err := writeStates(&b, who, inquire(t, name, known)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(*record, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Run("cusim", func(t *testing.T) { compareStates(t, known, softlib(t)) })
	if gpu() != "" {
		t.Run("gpu", func(t *testing.T) { compareStates(t, known, gpu()) })
	}
}

// softlib returns the path of the software driver as a library in C, which it builds unless PURECU_TEST_SOFTLIB is
// one.
func softlib(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("PURECU_TEST_SOFTLIB"); path != "" {
		return path
	}
	if runtime.GOOS != "linux" || !slices.Contains([]string{"amd64", "arm64"}, runtime.GOARCH) {
		t.Skip("the library is for Linux on amd64 and arm64")
	}
	for _, tool := range []string{"go", cmp.Or(os.Getenv("CC"), "cc")} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command("go", "run", "./cusim/libcuda/build", "-o", dir)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return filepath.Join(dir, "libcuda.so.1")
}

// comparable reports whether another driver must give the same answer: not where a driver has crashed, or gives
// another answer each time.
func comparable(answer string) bool {
	return answer != "" && !broken(answer) && answer != "VARIES" && !strings.HasPrefix(answer, "not built")
}

// compareStates compares the answers of a driver.
func compareStates(t *testing.T, want map[string]string, name string) {
	list, err := functions()
	if err != nil {
		t.Fatal(err)
	}
	const skipped = "-"
	asked := map[string]string{}
	if name == gpu() { // what is not compared may crash there
		for _, f := range list {
			for _, g := range f.groups() {
				for _, in := range g.list {
					if !comparable(want[in.String()]) {
						asked[in.String()] = skipped
					}
				}
			}
		}
	}
	got := inquire(t, name, asked)
	cells, wrong := 0, 0
	for _, f := range list {
		for _, g := range f.groups() {
			var lines []string
			same := true
			for i, in := range g.list {
				w, a := want[in.String()], got[in.String()]
				if a == "" || a == skipped {
					continue
				}
				cells++
				same = same && (w == a || !comparable(w))
				switch {
				case !comparable(w):
					if res, _, _ := strings.Cut(strings.TrimRight(a, "w-!"), ">"); !wellFormed(res) {
						lines = append(lines, fmt.Sprintf("%s: %s", g.says[i], a))
					}
				case w != a && (name == gpu() || !excused(f.name, g.name)):
					lines = append(lines, fmt.Sprintf("%s: %s, not %s", g.says[i], a, w))
				}
			}
			if _, listed := otherwise[f.name+"\t"+g.name]; listed && same && name != gpu() {
				lines = append(lines, "nothing differs: remove it from otherwise")
			}
			if wrong += len(lines); len(lines) > 0 {
				t.Errorf("%s, %s: %s", f.name, g.name, strings.Join(lines, "; "))
			}
		}
	}
	t.Logf("%d calls, %d of them answered otherwise", cells, wrong)
}

// otherwise are rows of which the software driver gives other answers, each with the reason. After a function comes
// the beginning of the row's name, if only some are meant.
var otherwise = map[string]string{
	"cuDevSmResourceSplitByCount\targuments": "without a place for parts, it also writes what would remain",
	"cuStreamGetCaptureInfo_v3\targuments":   "it does not refuse a place for the data of edges without one for nodes",
	"cuMemcpyBatchAsync\tlegacy":             "it writes the index of the copy also where the stream is refused",
	"cuMemcpy3DBatchAsync\tlegacy":           "it writes the index of the copy also where the stream is refused",
	"cuMemPoolExportPointer\tcontext": "the H200 refused memory of a pool whose own handle had not been exported; " +
		"that this was the reason is not known",
	"cuMemPoolImportPointer\tcontext": "it does not write NULL where it fails",
	"cuFuncSetBlockShape\tcontext":    oldLaunch,
	"cuFuncSetSharedSize\tcontext":    oldLaunch,
	"cuParamSetSize\tcontext":         oldLaunch,
	"cuParamSeti\tcontext":            oldLaunch,
	"cuParamSetf\tcontext":            oldLaunch,
	"cuParamSetv\tcontext":            oldLaunch,
	"cuLaunch\tcontext":               oldLaunch,
	"cuLaunchGrid\tcontext":           oldLaunch,
	"cuLaunchGridAsync\t":             oldLaunch,
}

const oldLaunch = "launches of CUDA 3 are made of cuLaunchKernel in C, and keep arguments without asking the driver"

// excused reports whether the software driver need not give the answers of a row.
func excused(function, row string) bool {
	for name := range otherwise {
		if strings.HasPrefix(function+"\t"+row, name) {
			return true
		}
	}
	return false
}
