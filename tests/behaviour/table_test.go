package behaviour

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/driver"
)

//go:embed testdata/h200-cuda13.0.tsv
var tableTSV string

// A row is one step of a case, and what is known about it. The head of the table's file explains
// the columns.
type row struct {
	name, step string // the case and the step
	answer     string // a result's number, or "=" and a value
	constant   string
	asserted   condition
	note       string
	cu         string
}

// A condition says on which drivers a row is asserted.
type condition string

// These are the conditions in the table.
const (
	always     condition = "yes"
	never      condition = "no"
	onLibrary  condition = "library"
	onNVIDIA   condition = "NVIDIA"
	onSoftware condition = "software"
	onCUDA13   condition = "CUDA 13.0"
)

// These are other words in the table.
const (
	columns    = 6
	noConstant = "-"     // of a value
	cuSame     = "-"     // package cu answers the same
	cuNone     = "none"  // package cu has no such call, or is not compared
	crash      = "CRASH" // the end of the C program, or the answer of a dared step
	hang       = "HANG"  // the answer of a step that did not return
)

// cuda13 is the version of the driver on which the table was recorded.
const cuda13 = 13000

// holds reports whether rows with the condition are asserted on a driver.
func (c condition) holds(d driverInfo) bool {
	switch c {
	case always:
		return true
	case onLibrary:
		return !d.Software
	case onNVIDIA:
		return !d.Software && !d.Cusim
	case onSoftware:
		return d.Software || d.Cusim
	case onCUDA13:
		return d.Version == cuda13
	}
	return false
}

// parseTable reads a table.
func parseTable(tsv string) ([]row, error) {
	var rows []row
	for n, line := range strings.Split(tsv, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != columns {
			return nil, fmt.Errorf("line %d has %d columns, not %d", n+1, len(f), columns)
		}
		asserted, note, _ := strings.Cut(f[4], ": ")
		r := row{name: f[0], step: f[1], answer: f[2], constant: f[3], asserted: condition(asserted), note: note, cu: f[5]}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// check reports what is wrong with a row by itself.
func (r row) check() error {
	switch r.asserted {
	case always:
	case never, onLibrary, onNVIDIA, onSoftware, onCUDA13:
		if r.note == "" {
			return fmt.Errorf("%s %s is not always asserted, and no reason is given", r.name, r.step)
		}
	default:
		return fmt.Errorf("%s %s: asserted is %q", r.name, r.step, r.asserted)
	}
	switch {
	case r.step == crash:
		if r.asserted != never {
			return fmt.Errorf("%s: no crash is asserted", r.name)
		}
	case r.answer == crash || r.answer == hang:
		if r.asserted != never || r.constant != noConstant {
			return fmt.Errorf("%s %s: %s is asserted, or has a constant", r.name, r.step, r.answer)
		}
	case strings.HasPrefix(r.answer, "="):
		if r.constant != noConstant {
			return fmt.Errorf("%s %s is a value and has a constant", r.name, r.step)
		}
	default:
		code, err := strconv.Atoi(r.answer)
		if err != nil {
			return fmt.Errorf("%s %s: the answer is %q", r.name, r.step, r.answer)
		}
		if want := driver.Result(code).Name(); r.constant != want {
			return fmt.Errorf("%s %s: %d is %q, not %s", r.name, r.step, code, want, r.constant)
		}
	}
	if r.cu == "" || r.cu == r.answer {
		return fmt.Errorf("%s %s: the column cu is %q; %s says that it is the same", r.name, r.step, r.cu, cuSame)
	}
	return nil
}

// want returns the answer that a suite must have for the row. ok is false if the suite does not
// make the step.
func (r row) want(s suiteName) (answer string, ok bool) {
	if s != suiteCu || r.cu == cuSame {
		return r.answer, true
	}
	return r.cu, r.cu != cuNone
}

// holds reports whether the row is asserted, in a suite, on a driver. Answers that package cu gives
// without the driver are asserted on every driver.
func (r row) holds(s suiteName, d driverInfo) bool {
	if s == suiteCu && r.cu != cuSame {
		return true
	}
	return r.asserted.holds(d)
}

// rowsOf returns the steps of a suite in a case.
func rowsOf(rows []row, s suiteName, name string) []row {
	var of []row
	for _, r := range rows {
		if _, ok := r.want(s); ok && r.name == name {
			of = append(of, r)
		}
	}
	return of
}

// caseNames returns the cases of a suite in the table's order. A case in two pieces is in the list
// twice.
func caseNames(rows []row, s suiteName) []string {
	var names []string
	last := ""
	for _, r := range rows {
		if _, ok := r.want(s); ok && r.name != last {
			names = append(names, r.name)
			last = r.name
		}
	}
	return names
}

// table returns the table.
func table(t *testing.T) []row {
	t.Helper()
	rows, err := parseTable(tableTSV)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestTable checks that every row belongs to a case, and that every case has rows.
func TestTable(t *testing.T) {
	rows := table(t)
	for _, s := range []suiteName{suiteRaw, suiteCu} {
		var have []string
		for _, c := range suites()[s] {
			have = append(have, c.name)
		}
		if diff := cmp.Diff(caseNames(rows, s), have); diff != "" {
			t.Errorf("%s: cases (-of the table +of the suite):\n%s", s, diff)
		}
	}
	seen := map[string]bool{}
	for _, r := range rows {
		key := r.name + " " + r.step
		if seen[key] {
			t.Errorf("%s stands in the table twice: answers are told apart by the step", key)
		}
		seen[key] = true
	}
	if len(rows) == 0 {
		t.Error("the table is empty")
	}
}

// TestParseTable checks that a malformed table is rejected.
func TestParseTable(t *testing.T) {
	line := func(cells ...string) string { return strings.Join(cells, "\t") }
	for _, tt := range []struct{ line, want string }{
		{line("a", "s", "0", "CUDA_SUCCESS", "yes"), "5 columns"},
		{line("a", "s", "0", "CUDA_SUCCESS", "no", "-"), "no reason"},
		{line("a", "s", "0", "CUDA_SUCCESS", "library", "-"), "no reason"},
		{line("a", "s", "0", "CUDA_SUCCESS", "sometimes: it rains", "-"), `asserted is "sometimes"`},
		{line("a", "s", "0", "CUDA_ERROR_INVALID_VALUE", "yes", "-"), `0 is "CUDA_SUCCESS"`},
		{line("a", "s", "zero", "CUDA_SUCCESS", "yes", "-"), `the answer is "zero"`},
		{line("a", "s", "=1", "CUDA_SUCCESS", "yes", "-"), "has a constant"},
		{line("a", "s", "0", "CUDA_SUCCESS", "yes", "0"), "the same"},
		{line("a", "s", "0", "CUDA_SUCCESS", "yes", ""), "the same"},
		{line("a", crash, "sig11", "-", "yes", "-"), "no crash is asserted"},
		{line("a", "s", hang, "-", "yes", "-"), "HANG is asserted"},
	} {
		if rows, err := parseTable("# a comment\n" + tt.line + "\n"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, %v; want an error with %q", tt.line, rows, err, tt.want)
		}
	}
	rows, err := parseTable("a\ts\t=x\t-\tsoftware: why\tPending\n")
	want := []row{{name: "a", step: "s", answer: "=x", constant: "-", asserted: onSoftware, note: "why", cu: "Pending"}}
	if diff := cmp.Diff(want, rows, cmp.AllowUnexported(row{})); err != nil || diff != "" {
		t.Errorf("%v; rows (-want +got):\n%s", err, diff)
	}
}

// TestConditions checks which rows are asserted on which drivers.
func TestConditions(t *testing.T) {
	library, soft := driverInfo{Version: 12040}, driverInfo{Version: 13000, Software: true}
	both := driverInfo{Version: 12040, Cusim: true} // a library that is a software driver
	for _, tt := range []struct {
		r                          row
		library, soft, both, viaCu bool // through the table on drivers, and through cu on the library
	}{
		{row{asserted: always, cu: cuSame}, true, true, true, true},
		{row{asserted: never, cu: cuSame}, false, false, false, false},
		{row{asserted: never, cu: "ErrClosed 400"}, false, false, false, true},
		{row{asserted: onLibrary, cu: cuSame}, true, false, true, true},
		{row{asserted: onNVIDIA, cu: cuSame}, true, false, false, true},
		{row{asserted: onSoftware, cu: cuSame}, false, true, true, false},
		{row{asserted: onCUDA13, cu: cuSame}, false, true, false, false},
	} {
		got := []bool{tt.r.holds(suiteRaw, library), tt.r.holds(suiteRaw, soft), tt.r.holds(suiteRaw, both), tt.r.holds(suiteCu, library)}
		if want := []bool{tt.library, tt.soft, tt.both, tt.viaCu}; !slices.Equal(got, want) {
			t.Errorf("%+v: asserted %v, want %v", tt.r, got, want)
		}
	}
}
