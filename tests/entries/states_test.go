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
	// ends says that the contexts are others after the call, and green that there is a green context before it.
	ends, green bool
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
		flags := strings.Fields(f[2])
		row := function{name: f[0], args: strings.Fields(f[1]), ends: slices.Contains(flags, "ends"),
			green: slices.Contains(flags, "green")}
		if len(flags) != boolean(row.ends)+boolean(row.green) {
			return nil, fmt.Errorf("line %d: %q", n+1, f[2])
		}
		list = append(list, row)
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

// destroys reports whether the function destroys something. A driver that has done so with a wrong handle may have no
// valid state any more.
func (f function) destroys() bool { return destroying.MatchString(f.name) }

var destroying = regexp.MustCompile("Destroy|Free|Unload|Release|Unmap|Unregister|Detach|Close")

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
		cells, whole := inquire(t, name, known)
		if !whole {
			t.Error("there was no time for all calls")
		}
		var b bytes.Buffer
		if err := writeStates(&b, who, cells); err != nil {
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
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil { // only the tests are there
		t.Skip(err)
	}
	dir := t.TempDir()
	cmd := exec.Command("go", "run", "./cusim/libcuda/build", "-o", dir)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return filepath.Join(dir, "libcuda.so.1")
}

// comparable reports whether another driver must give the same answer: not where a driver has crashed, or gives
// another answer each time.
func comparable(answer string) bool {
	return answer != "" && !broken(answer) && answer != "VARIES" && !unbuilt(answer)
}

// unbuilt reports whether the call was not made, as the driver did not do what the state needs.
func unbuilt(answer string) bool { return strings.HasPrefix(answer, "not built") }

// likewise reports whether a driver treats a handle of no existing object as another one does. It must refuse what the
// other one did not notice, and need not write what the other one wrote when it failed. NVIDIA's driver reads the memory
// of an object of another kind, so what it finds there says which error it returns.
func likewise(want, got string, onGPU bool, what string) bool {
	if onGPU && what == "wrong" && !strings.HasPrefix(want, "0") {
		res, _, _ := strings.Cut(strings.TrimRight(got, "w-"), ">")
		return !strings.HasPrefix(got, "0") && !broken(got) && !strings.ContainsAny(got, ">!") && wellFormed(res)
	}
	if strings.HasPrefix(want, "0") {
		return !strings.HasPrefix(got, "0") && !strings.ContainsAny(got, ">!")
	}
	return strings.TrimSuffix(want, "w") == strings.TrimSuffix(got, "w")
}

// compareStates compares the answers of a driver.
func compareStates(t *testing.T, want map[string]string, name string) {
	list, err := functions()
	if err != nil {
		t.Fatal(err)
	}
	const skipped = "-"
	onGPU := name == gpu() && name != os.Getenv("PURECU_TEST_SOFTLIB") // else it is the software driver all the same
	asked := map[string]string{}
	if onGPU { // what is not compared may crash there, and what was destroyed may be used again
		for _, f := range list {
			for _, g := range f.groups() {
				for _, in := range g.list {
					if !comparable(want[in.String()]) || in.change.what == "gone" {
						asked[in.String()] = skipped
					}
				}
			}
		}
	}
	got, whole := inquire(t, name, asked)
	if !whole && !onGPU { // a GPU takes longer: what was asked counts
		t.Error("there was no time for all calls")
	}
	cells, wrong := 0, 0
	var unmade []string // calls whose state the GPU's driver has not built
	needed := map[string]bool{}
	for _, f := range list {
		for _, g := range f.groups() {
			var lines []string
			for i, in := range g.list {
				w, a := want[in.String()], got[in.String()]
				if a == "" || a == skipped {
					continue
				}
				cells++
				why := ""
				if onGPU && (unbuilt(a) || sameButTime(f.name, w, a)) {
					if unbuilt(a) {
						unmade = append(unmade, in.String())
					}
					continue
				}
				if !onGPU {
					why = reason(f.name, g.name, g.says[i])
				}
				switch {
				case broken(w) && (in.change.handle() || in.change.what == "null") && strings.HasPrefix(a, "0"):
					lines = append(lines, fmt.Sprintf("%s: %s, where another driver has died", g.says[i], a))
				case !comparable(w):
					if res, _, _ := strings.Cut(strings.TrimRight(a, "w-!"), ">"); !wellFormed(res) {
						lines = append(lines, fmt.Sprintf("%s: %s", g.says[i], a))
					}
				case in.changed && in.change.handle() && likewise(w, a, onGPU, in.change.what):
				case w != a && why != "":
					needed[why] = true
				case w != a:
					lines = append(lines, fmt.Sprintf("%s: %s, not %s", g.says[i], a, w))
				}
			}
			if wrong += len(lines); len(lines) > 0 {
				t.Errorf("%s, %s: %s", f.name, g.name, strings.Join(lines, "; "))
			}
		}
	}
	for key := range otherwise {
		if whole && !onGPU && !needed[key] {
			t.Errorf("%q: nothing differs: remove it from otherwise", key)
		}
	}
	t.Logf("%d calls, %d of them answered otherwise; all calls were made: %t", cells, wrong, whole)
	if len(unmade) > 0 {
		t.Logf("the state of %d calls was not built: %.2000s", len(unmade), strings.Join(unmade, ", "))
	}
	if len(unmade) > cells/50 {
		t.Error("more than one call in fifty was not made")
	}
}

// otherwise are answers that the software driver does not give, each with the reason. After a function come the name of
// a cell, such as "2:huge" or "usual", or the beginning of the row's name.
var otherwise = map[string]string{
	"cuDevSmResourceSplitByCount\targuments": "without a place for parts, it also writes what would remain",
	"cuStreamGetCaptureInfo_v3\targuments":   "it does not refuse a place for the data of edges without one for nodes",
	"cuMemcpyBatchAsync\tlegacy":             failedIndex,
	"cuMemcpyBatchAsync\t8:zero":             failedIndex,
	"cuMemcpy3DBatchAsync\tlegacy":           failedIndex,
	"cuMemcpy3DBatchAsync\t4:zero":           failedIndex,
	"cuMemPoolExportPointer\tcontext": "the H200 refused memory of a pool whose own handle had not been exported; " +
		"that this was the reason is not known",
	"cuMemPoolImportPointer\tcontext":        "it does not write NULL where it fails",
	"cuFuncSetBlockShape\tcontext":           oldLaunch,
	"cuFuncSetSharedSize\tcontext":           oldLaunch,
	"cuParamSetSize\tcontext":                oldLaunch,
	"cuParamSeti\tcontext":                   oldLaunch,
	"cuParamSetf\tcontext":                   oldLaunch,
	"cuParamSetv\tcontext":                   oldLaunch,
	"cuLaunchGridAsync\tcontext":             oldLaunch,
	"cuLaunchGridAsync\t3:wrong":             oldLaunch,
	"cuParamSetSize\t1:huge":                 "it has no place for 4 GiB of arguments",
	"cuMemAllocManaged\t1:large":             "the machine has less memory, and could not provide what a program writes",
	"cuDeviceGetName\t1:huge":                "the length is -1",
	"cuDeviceGetPCIBusId\t1:huge":            "it does not write where it fails",
	"cuMemsetD32_v2\t2:huge":                 overflow,
	"cuMemsetD32Async\t2:huge":               overflow,
	"cuMemsetD2D32_v2\t3:huge":               overflow,
	"cuMemsetD2D32_v2\t4:huge":               overflow,
	"cuMemsetD2D32Async\t3:huge":             overflow,
	"cuMemsetD2D32Async\t4:huge":             overflow,
	"cuLibraryGetKernel\t1:gone":             freed,
	"cuLibraryGetManaged\t2:gone":            freed,
	"cuLibraryGetUnifiedFunction\t1:gone":    freed,
	"cuLinkAddData_v2\t0:gone":               freed,
	"cuLinkAddFile_v2\t0:gone":               freed,
	"cuLinkComplete\t0:gone":                 freed,
	"cuLinkComplete\t0:wrong":                freed,
	"cuGraphKernelNodeSetParams_v2\t0:wrong": freed,
	"cuGraphNodeSetParams\t0:wrong":          freed,
}

const (
	oldLaunch   = "functions of CUDA 3 keep what they are given until a launch, and do not ask for the kernel's context"
	failedIndex = "it writes the index of the copy also where the stream is refused"
	overflow    = "the number of bytes has more than 64 bits; the H200 sets nothing and reports success"
	freed       = "the H200 reads memory of no such object"
)

// reason returns the key of otherwise that excuses an answer, or "".
func reason(function, row, cell string) string {
	for key := range otherwise {
		of, what, _ := strings.Cut(key, "\t")
		if of == function && (what == strings.TrimSuffix(cell, "+capture") || strings.HasPrefix(row, what)) {
			return key
		}
	}
	return ""
}
