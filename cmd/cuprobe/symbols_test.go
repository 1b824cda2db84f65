package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/cu"
)

func TestSymbols(t *testing.T) {
	f := newFake(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"EVENTELAPSED"}, `driver   PATH, CUDA 12.8

cuEventElapsedTime  cuEventElapsedTime         2.0  found
cuEventElapsedTime  cuEventElapsedTime_v2 *   12.8  found

2 interfaces of the driver API of CUDA 13.0: 2 found, 0 missing; the driver is for CUDA 12.8
`},
		{[]string{"cuctxsynchronize"}, `driver   PATH, CUDA 12.8

cuCtxSynchronize     cuCtxSynchronize *       2.0  found
cuCtxSynchronize_v2  cuCtxSynchronize_v2 *   13.0  missing: the driver is older

2 interfaces of the driver API of CUDA 13.0: 1 found, 1 missing; the driver is for CUDA 12.8
`},
		{[]string{"-missing", "cuctxsynchronize"}, `driver   PATH, CUDA 12.8

cuCtxSynchronize_v2  cuCtxSynchronize_v2 *   13.0  missing: the driver is older

2 interfaces of the driver API of CUDA 13.0: 1 found, 1 missing; the driver is for CUDA 12.8
`},
		{[]string{"cuMemAllocManaged"}, `driver   PATH, CUDA 12.8

cuMemAllocManaged  cuMemAllocManaged *    6.0  missing: the driver does not know cuMemAllocManaged

1 interface of the driver API of CUDA 13.0: 0 found, 1 missing; the driver is for CUDA 12.8
`},
		{[]string{"EventElapsed", "-missing"}, `driver   PATH, CUDA 12.8

2 interfaces of the driver API of CUDA 13.0: 2 found, 0 missing; the driver is for CUDA 12.8
`},
	} {
		r := f.run(append([]string{"symbols"}, tt.args...)...)
		if diff := cmp.Diff(tt.want, strings.ReplaceAll(r.stdout, f.path, "PATH")); diff != "" || r.status != exitOK ||
			r.stderr != "" {
			t.Errorf("%q: exit status %d, %q (-want +got):\n%s", tt.args, r.status, r.stderr, diff)
		}
	}
	r := f.run("symbols", "cuNothing")
	if r.status != exitFailure || !strings.Contains(r.stderr, `has "cuNothing" in its name`) {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

func TestSymbolsJSON(t *testing.T) {
	f := newFake(t)
	r := f.run("symbols", "-json", "cuCtxSynchronize")
	var got symbolsReport
	decode(t, r, &got)
	documented(t, "symbols", r.stdout)
	want := symbolsReport{
		Driver: driverInfo{Library: f.path, Version: 12080, CUDA: "12.8"},
		Symbols: []symbolInfo{
			{Symbol: cu.Symbol{Name: "cuCtxSynchronize", Export: "cuCtxSynchronize", Since: 2000, Current: true}, Found: true},
			{Symbol: cu.Symbol{Name: "cuCtxSynchronize_v2", Export: "cuCtxSynchronize_v2", Since: 13000, Current: true}, Reason: "the driver is older"},
		},
		Found: 1, Missing: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}

	r = f.run("symbols", "-json")
	got = symbolsReport{}
	decode(t, r, &got)
	if n := len(got.Symbols); n < 600 || n != got.Found+got.Missing || got.Found < 80 || got.Missing < 80 {
		t.Errorf("%d symbols, %d found, %d missing", n, got.Found, got.Missing)
	}
	r = f.run("symbols", "-json", "-missing")
	missing := symbolsReport{}
	decode(t, r, &missing)
	if len(missing.Symbols) != got.Missing || missing.Found != got.Found || missing.Missing != got.Missing {
		t.Errorf("-missing lists %d of %d", len(missing.Symbols), got.Missing)
	}
	for _, s := range missing.Symbols {
		if s.Found || s.Reason == "" {
			t.Errorf("-missing lists %+v", s)
		}
	}
}

// realLibraries returns NVIDIA's driver libraries, which are older than CUDA 12.8, or skips the
// test.
func realLibraries(t *testing.T) []string {
	t.Helper()
	paths := filepath.SplitList(os.Getenv("PURECU_TEST_LIBCUDA"))
	if len(paths) == 0 {
		t.Skip("PURECU_TEST_LIBCUDA is not set: this needs a real driver library (see tests/libcuda/fetch)")
	}
	return paths
}
