package driver

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/purecu/purecu/internal/ccall"
)

// library is a Library with addresses that are never called.
type library struct {
	version int
	procs   map[string]uintptr // by name, version and stream: "cuEventRecord 2000 false"
	exports map[string]uintptr

	mu    sync.Mutex
	asked []string
	fails error // returned by all lookups, unless nil
}

var errLookup = errors.New("not found")

func (l *library) Version() int { return l.version }

func (l *library) Proc(name string, version int, perThread bool) (uintptr, error) {
	return l.lookup(l.procs, fmt.Sprintf("%s %d %v", name, version, perThread))
}

func (l *library) Symbol(export string) (uintptr, error) { return l.lookup(l.exports, export) }

func (l *library) lookup(m map[string]uintptr, key string) (uintptr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails != nil {
		return 0, l.fails
	}
	l.asked = append(l.asked, key)
	if p, ok := m[key]; ok {
		return p, nil
	}
	return 0, errLookup
}

func symbol(t *testing.T, export string) Symbol {
	t.Helper()
	s, ok := FindExport(export)
	if !ok {
		t.Fatalf("no symbol %s", export)
	}
	return s
}

// TestResolve looks symbols up by all rules, twice. The second time the library is not asked again.
func TestResolve(t *testing.T) {
	for _, c := range []struct {
		name    string
		version int
		procs   map[string]uintptr
		exports map[string]uintptr
		symbol  string
		asked   []string
		want    uintptr
		missing *MissingError
	}{
		{"by the name to ask for, at its version", 13000, map[string]uintptr{"cuEventElapsedTime 12080 false": 7, "cuEventElapsedTime 2000 false": 6}, nil,
			"cuEventElapsedTime_v2", []string{"cuEventElapsedTime 12080 false"}, 7, nil},
		{"the older interface", 13000, map[string]uintptr{"cuEventElapsedTime 12080 false": 7, "cuEventElapsedTime 2000 false": 6}, nil,
			"cuEventElapsedTime", []string{"cuEventElapsedTime 2000 false"}, 6, nil},
		{"per-thread streams", 13000, map[string]uintptr{"cuEventRecord 7000 true": 5}, nil,
			"cuEventRecord_ptsz", []string{"cuEventRecord 7000 true"}, 5, nil},
		{"refused: the driver would return the older interface", 12050, map[string]uintptr{"cuEventElapsedTime 12080 false": 6},
			map[string]uintptr{"cuEventElapsedTime_v2": 6}, "cuEventElapsedTime_v2", nil, 0,
			&MissingError{Symbol: "cuEventElapsedTime_v2", Since: 12080, Driver: 12050}},
		{"a symbol that is only exported", 13000, map[string]uintptr{"cuGetProcAddress 12000 false": 1}, map[string]uintptr{"cuGetProcAddress_v2": 4},
			"cuGetProcAddress_v2", []string{"cuGetProcAddress_v2"}, 4, nil},
		{"an export after cuGetProcAddress has failed", 13000, nil, map[string]uintptr{"cuEventQuery": 3},
			"cuEventQuery", []string{"cuEventQuery 2000 false", "cuEventQuery"}, 3, nil},
		{"missing", 13000, nil, nil, "cuEventQuery", []string{"cuEventQuery 2000 false", "cuEventQuery"}, 0,
			&MissingError{Symbol: "cuEventQuery", Since: 2000, Driver: 13000, Err: errLookup}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib := &library{version: c.version, procs: c.procs, exports: c.exports}
			tab := New(lib)
			s := symbol(t, c.symbol)
			for range 2 {
				p, err := tab.Resolve(s)
				if p != c.want {
					t.Errorf("address %d, want %d", p, c.want)
				}
				var missing *MissingError
				if err != nil && (!errors.As(err, &missing) || !errors.Is(err, errors.ErrUnsupported)) {
					t.Errorf("error %v", err)
				}
				if (missing == nil) != (c.missing == nil) {
					t.Errorf("missing: %v", missing)
				} else if missing != nil {
					if diff := cmp.Diff(*c.missing, *missing, cmpopts.EquateErrors()); diff != "" {
						t.Errorf("missing symbols (-want +got):\n%s", diff)
					}
				}
			}
			if diff := cmp.Diff(c.asked, lib.asked); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMissingCalls calls functions that an old driver lacks.
func TestMissingCalls(t *testing.T) {
	lib := &library{version: 9000}
	tab := New(lib)
	for range 2 {
		_, res := tab.EventElapsedTimeV2(At{}, 1, 2)
		if m := tab.Missing(res); m == nil || m.Symbol != "cuEventElapsedTime_v2" {
			t.Errorf("%v: %v", res, m)
		}
	}
	if r := tab.EventQueryAll(At{}, []Event{1}, make([]Result, 1)); tab.Missing(r) == nil {
		t.Errorf("EventQueryAll: %v", r)
	}
	if r := tab.EventRecordAll(At{}, []Event{1}, []Stream{1}, make([]Result, 1)); tab.Missing(r) == nil {
		t.Errorf("EventRecordAll: %v", r)
	}
	if r := tab.StreamWaitEventAll(At{Relaxed: true}, 1, []Event{1}, make([]Result, 1)); tab.Missing(r) == nil {
		t.Errorf("StreamWaitEventAll: %v", r)
	}
	if _, r := tab.CallSymbol(At{}, symEventElapsedTime_v2); tab.Missing(r) == nil {
		t.Errorf("CallSymbol: %v", r)
	}
	tab.procs[symEventQuery].Store(1)
	if r := tab.EventQuery(At{Context: 1}, 1); tab.Missing(r) == nil || tab.Missing(r).Symbol != "cuCtxPushCurrent_v2" {
		t.Errorf("a context, without cuCtxPushCurrent: %v", r)
	}
	if _, r := tab.CallSymbol(At{}, symEventQuery, make([]uintptr, 15)...); r != ResultInvalidValue {
		t.Errorf("fifteen words: %v", r)
	}
	for _, r := range []Result{0, 1, 600, missing(numSymbols), -1 << 31} {
		if m := tab.Missing(r); m != nil {
			t.Errorf("Missing(%d) = %v", r, m)
		}
	}
}

// TestResolveWithoutThread makes lookups fail for a while, as if no thread could be created. The
// symbols must not count as missing.
func TestResolveWithoutThread(t *testing.T) {
	lib := &library{version: 13000, procs: map[string]uintptr{"cuEventQuery 2000 false": 3}, exports: map[string]uintptr{"cuEventQuery": 4},
		fails: fmt.Errorf("shortage: %w", ccall.ErrNoThread)}
	tab := New(lib)
	if p, err := tab.Resolve(symEventQuery); p != 0 || !errors.Is(err, ccall.ErrNoThread) || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Resolve = %d, %v", p, err)
	}
	known := New(lib)
	known.procs[symEventQuery].Store(1) // not a function: the call must not be made
	for what, res := range map[string]Result{
		"a call":              tab.EventQuery(At{}, 1),
		"a call in a context": known.EventQuery(At{Context: 1}, 1),
		"a relaxed call":      known.EventQuery(At{Relaxed: true}, 1),
	} {
		if res != ResultOperatingSystem {
			t.Errorf("%s: %v", what, res)
		}
	}
	lib.fails = nil
	if p, err := tab.Resolve(symEventQuery); p != 3 || err != nil {
		t.Errorf("Resolve, afterwards = %d, %v", p, err)
	}
}

// TestResolveConcurrently resolves a symbol for the first time in many goroutines at once.
func TestResolveConcurrently(t *testing.T) {
	lib := &library{version: 13000, exports: map[string]uintptr{"cuEventQuery": 3}}
	tab := New(lib)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 16 {
		wg.Go(func() {
			<-start
			for _, c := range []struct {
				s    Symbol
				want uintptr
			}{{symEventQuery, 3}, {symEventCreate, 0}} {
				if p, err := tab.Resolve(c.s); p != c.want || (err == nil) != (c.want != 0) {
					t.Errorf("%d, %v; want %d", p, err, c.want)
				}
			}
		})
	}
	close(start)
	wg.Wait()
}

// TestSymbols checks the generated table as a whole.
func TestSymbols(t *testing.T) {
	for i := range Symbol(NumSymbols) {
		f := i.Info()
		if s, ok := FindExport(f.Export); !ok || s != i {
			t.Errorf("FindExport(%s) = %d, %v; want %d", f.Export, s, ok, i)
		}
		if f.Current && !f.PerThread {
			if s, ok := FindSymbol(f.Base); !ok || s != i {
				t.Errorf("FindSymbol(%s) = %d, %v; want %s", f.Base, s, ok, f.Export)
			}
		}
		if f.Version < 2000 || f.Version > newest || f.Ask == "" || !strings.HasPrefix(f.Export, "cu") ||
			!strings.HasPrefix(f.Base, "cu") || i.class() > ccall.Blocking {
			t.Errorf("%+v", f)
		}
		if next := i + 1; next < NumSymbols && f.Export >= next.Info().Export {
			t.Errorf("%s comes before %s", f.Export, next.Info().Export)
		}
	}
	for name, want := range map[string]string{
		"cuMemAlloc":               "cuMemAlloc_v2",
		"cuCtxCreate":              "cuCtxCreate_v4",
		"cuCtxCreate_v2":           "cuCtxCreate_v2",
		"cuGraphInstantiate":       "cuGraphInstantiateWithFlags",
		"cuEventElapsedTime":       "cuEventElapsedTime_v2",
		"cuEventRecord_ptsz":       "cuEventRecord_ptsz",
		"cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRetain",
		"cuLaunchHostFunc":         "cuLaunchHostFunc",
		"cuLaunchHostFunc_v2":      "cuLaunchHostFunc_v2",
	} {
		if s, ok := FindSymbol(name); !ok || s.Info().Export != want {
			t.Errorf("FindSymbol(%s) = %s, %v; want %s", name, s.Info().Export, ok, want)
		}
	}
	if _, ok := FindSymbol("cuNothing"); ok {
		t.Error("FindSymbol(cuNothing) found something")
	}
}

func TestMissingError(t *testing.T) {
	for _, c := range []struct {
		err  MissingError
		want string
	}{
		{MissingError{Symbol: "cuEventRecordWithFlags", Since: 11010, Driver: 11000}, "cuEventRecordWithFlags needs a driver for CUDA 11.1 or newer; this one is for CUDA 11.0"},
		{MissingError{Symbol: "cuEventQuery", Since: 2000, Driver: 12080, Err: errLookup}, "cuEventQuery is missing from a driver for CUDA 12.8, though CUDA 2.0 introduced it: not found"},
		{MissingError{Symbol: "cuEventQuery", Since: 2000, Driver: 13000, Software: true}, "the software driver has no cuEventQuery"},
		{MissingError{Symbol: "cuFuncGetParamInfo", Since: 12040, Driver: 12000, Software: true}, "cuFuncGetParamInfo needs a driver for CUDA 12.4 or newer; this one is for CUDA 12.0"},
		{MissingError{Symbol: "cuNothing"}, "cuNothing is not a function of the CUDA driver API"},
	} {
		if diff := cmp.Diff(c.want, c.err.Error()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !errors.Is(&c.err, errors.ErrUnsupported) {
			t.Errorf("%v does not match errors.ErrUnsupported", &c.err)
		}
		if c.err.Err != nil && !errors.Is(&c.err, c.err.Err) {
			t.Errorf("%v does not match its cause", &c.err)
		}
	}
}

func TestVersion(t *testing.T) {
	for v, want := range map[Version]string{
		2000: "2.0", 11080: "11.8", 12080: "12.8", 13000: "13.0", 13010: "13.1", 14120: "14.12",
	} {
		if got := v.String(); got != want {
			t.Errorf("%d: %q, want %q", v, got, want)
		}
	}
}

// TestResults compares the generated results with the recorded descriptions of a driver.
func TestResults(t *testing.T) {
	f, err := os.Open("../tools/gen-symbols/results.tsv")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the sources of the generated files are not present")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	known := make(map[Result]bool)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") || lines.Text() == "" {
			continue
		}
		fields := strings.Split(lines.Text(), "\t")
		code, err := strconv.Atoi(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		r := Result(code)
		known[r] = true
		if r.Name() != fields[1] || r.Text() != fields[2] || r.String() != fields[1] {
			t.Errorf("%d: %q, %q; want %q, %q", code, r.Name(), r.Text(), fields[1], fields[2])
		}
		if len(fields) > 3 && fields[3] == "sticky" && !r.Sticky() {
			t.Errorf("%v is not sticky", r)
		}
	}
	for _, r := range []Result{ResultMulticastResourceFull, ResultInsufficientLoaderVersion, ResultStreamDetached,
		ResultGraphRecaptureFailure, ResultFabricNotReady} { // newer than the driver of the texts
		known[r] = true
		if r.Text() == "" || !strings.HasPrefix(r.Name(), "CUDA_ERROR_") {
			t.Errorf("%d: %q, %q", int(r), r.Name(), r.Text())
		}
	}
	for code := Result(-5); code < 2000; code++ {
		if known[code] {
			continue
		}
		if code.Name() != "" || code.Text() != "" || code.Sticky() || code.String() != strconv.Itoa(int(code)) {
			t.Errorf("%d: %q, %q, %v, %v", int(code), code.Name(), code.Text(), code.Sticky(), code)
		}
	}
	for _, r := range []Result{ResultIllegalAddress, ResultLaunchFailed, ResultLaunchTimeout, ResultAssert, ResultIllegalInstruction} {
		if !r.Sticky() {
			t.Errorf("%v is not sticky", r)
		}
	}
	for _, r := range []Result{ResultSuccess, ResultNotReady, ResultInvalidHandle, ResultOutOfMemory, ResultUnknown, ResultLaunchOutOfResources} {
		if r.Sticky() {
			t.Errorf("%v is sticky", r)
		}
	}
}

// TestSystemClock checks the clock of drivers without a clock of their own.
func TestSystemClock(t *testing.T) {
	c := New(&library{}).Clock()
	before := time.Now()
	if c.Now().Before(before) {
		t.Error("the clock is slow")
	}
	timer := c.NewTimer(time.Hour)
	timer.Stop()
	timer.Reset(time.Nanosecond)
	<-timer.C()
}
