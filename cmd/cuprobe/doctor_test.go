package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/loader"
)

// TestNoDriver checks the error without a driver: one paragraph with the libraries that were tried,
// the problem, and the advice.
func TestNoDriver(t *testing.T) {
	dir := t.TempDir()
	absent, text := filepath.Join(dir, "libcuda.so.1"), filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("this is no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{absent, text, dir} {
		for _, command := range []string{"demo", "time", "devices", "symbols"} {
			t.Setenv(loader.Environment, "")
			r := probe{}.run(command, "-driver", path)
			if r.status != exitNoDriver || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 ||
				strings.Count(r.stderr, path) < 2 ||
				!strings.Contains(r.stderr, "Verdict: the library that -driver names cannot be used") ||
				!strings.Contains(r.stderr, "Fix: cuprobe doctor") {
				t.Errorf("%s -driver %s: exit status %d\n%s%s", command, path, r.status, r.stdout, r.stderr)
			}
			j := probe{}.run(command, "-json", "-driver", path)
			var v struct{ Error failure }
			decode(t, j, &v)
			want := failure{
				Op:      "Open",
				Doc:     "docs/errors.md#errnodriver",
				Message: strings.TrimSpace(strings.TrimPrefix(r.stderr, "cuprobe: ")),
				Fix:     "cuprobe doctor -driver auto # searches for NVIDIA's library",
			}
			if diff := cmp.Diff(want, v.Error); diff != "" || j.status != exitNoDriver {
				t.Errorf("%s -json -driver %s: exit status %d (-want +got):\n%s", command, path, j.status, diff)
			}

			t.Setenv(loader.Environment, path)
			r = probe{}.run(command)
			if r.status != exitNoDriver || !strings.Contains(r.stderr, loader.Environment) ||
				!strings.Contains(r.stderr, path) ||
				!strings.Contains(r.stderr, "Fix: ") {
				t.Errorf("%s=%s cuprobe %s: exit status %d\n%s", loader.Environment, path, command, r.status, r.stderr)
			}
		}
	}
}

// TestNamedByVariable checks that the fix for a wrong PURECU_DRIVER also helps while it is set.
func TestNamedByVariable(t *testing.T) {
	for name, fix := range map[string]string{
		filepath.Join(t.TempDir(), "libcuda.so.1"): "cuprobe doctor -driver auto # ",
		"sift": "let PURECU_DRIVER name auto, cuda, soft, or the path of a library",
	} {
		r := probe{env: map[string]string{driverVariable: name}}.run("devices")
		want := "Verdict: the library that PURECU_DRIVER names cannot be used: " + name + " does not exist. Fix: " + fix
		if r.status != exitNoDriver || !strings.Contains(r.stderr, want) {
			t.Errorf("PURECU_DRIVER=%s: exit status %d\n%s%s", name, r.status, r.stdout, r.stderr)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		report loader.Report
		want   string
	}{
		{"no platform", loader.Report{Platform: "plan9/amd64", Findings: []loader.Finding{{Severity: loader.Fault, Title: "no driver.", Fix: "none"}}},
			"NVIDIA ships no CUDA driver for plan9/amd64. Verdict: no driver. Fix: none. For more run: cuprobe doctor"},
		{"a search", loader.Report{
			Candidates: []loader.CandidateFacts{
				{Name: "libcuda.so.1", Source: "the system", Problem: loader.Absent, Error: "it is not there"},
				{Name: "/a/libcuda.so.1", Source: "A", Problem: loader.Absent, Error: "no file"},
				{Name: "/b/libcuda.so.1", Source: "B", Problem: loader.Stub, Error: "a\n\tstub"},
				{Name: "/c/libcuda.so.1", Source: "C", Problem: loader.Absent, Error: "no file"},
			}, Findings: []loader.Finding{{Severity: loader.Fault, Title: "it is a stub", Fix: "rm it"}},
		}, "no CUDA driver library could be loaded. Tried libcuda.so.1 (the system): it is not there; " +
			"/b/libcuda.so.1 (B): a stub; and 2 folders of other systems, which do not have it. " +
			"Verdict: it is a stub. Fix: rm it. For more run: cuprobe doctor"},
		{"one that was named", loader.Report{
			Candidates: []loader.CandidateFacts{{Name: "/a", Source: "A", Problem: loader.Absent, Error: "no file"}},
		}, "no CUDA driver library could be loaded. Tried /a (A): no file. For more run: cuprobe doctor"},
		{"cuInit", loader.Report{
			Library: &loader.LibraryFacts{Name: "/a", Version: 13000}, Init: &loader.InitResult{Code: 999},
			Candidates: []loader.CandidateFacts{{Name: "/a", Source: "A"}},
		}, "/a is a driver for CUDA 13.0, and its cuInit fails. For more run: cuprobe doctor"},
	} {
		if diff := cmp.Diff(tt.want, explain(&tt.report, "cuInit fails")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestNoDevice runs the commands on a real driver without a device.
func TestNoDevice(t *testing.T) {
	for _, path := range realLibraries(t) {
		for _, command := range []string{"demo", "time", "devices"} {
			r := probe{}.run(command, "-driver", path)
			if r.status != exitNoDevice || r.stdout != "" ||
				!strings.Contains(r.stderr, "cuInit fails with CUDA_ERROR_NO_DEVICE (100)") ||
				strings.Count(r.stderr, "\n") != 1 ||
				!strings.Contains(r.stderr, "Fix: ") {
				t.Errorf("%s: %s: exit status %d\n%s%s", path, command, r.status, r.stdout, r.stderr)
			}
			r = probe{}.run(command, "-json", "-driver", path)
			var v struct{ Error failure }
			decode(t, r, &v)
			if r.status != exitNoDevice || v.Error.Code != 100 || v.Error.Op != "cuInit" ||
				v.Error.Doc != "docs/errors.md#errnodevice" ||
				v.Error.Fix == "" {
				t.Errorf("%s: %s: exit status %d, %+v", path, command, r.status, v)
			}
		}
		// Symbols needs a driver, and no device.
		r := probe{}.run("-driver", path, "symbols", "cuEvent")
		if r.status != exitOK ||
			!regexp.MustCompile(`(?m)^cuEventRecord +cuEventRecord \* +2\.0  found$`).MatchString(r.stdout) ||
			!regexp.MustCompile(`(?m)^cuEventElapsedTime +cuEventElapsedTime_v2 \* +12\.8  missing: the driver is older$`).
				MatchString(r.stdout) {
			t.Errorf("%s: symbols: exit status %d\n%s%s", path, r.status, r.stdout, r.stderr)
		}
		r = probe{}.run("doctor", "-driver", path)
		if r.status != exitNoDevice || r.stderr != "" || !strings.Contains(r.stdout, "taken        "+path) ||
			!strings.Contains(r.stdout, "cuInit       CUDA_ERROR_NO_DEVICE (100)\n") || !endsWithVerdict(r.stdout) {
			t.Errorf("%s: doctor: exit status %d\n%s%s", path, r.status, r.stdout, r.stderr)
		}
		r = probe{}.run("doctor", "-json", "-driver", path)
		var v doctorReport
		decode(t, r, &v)
		if r.status != exitNoDevice || v.Driver != nil || v.Error == nil || v.Error.Code != 100 ||
			v.Error.Fix != v.Verdict.Fix ||
			v.Verdict.Severity != loader.Fault ||
			len(v.Missing) == 0 ||
			v.Report.Library.Release == "" {
			t.Errorf("%s: doctor -json: exit status %d\n%s", path, r.status, r.stdout)
		}
	}
}

// endsWithVerdict reports whether a text ends with one verdict and one fix.
func endsWithVerdict(text string) bool {
	return regexp.MustCompile(`\nverdict      .+\nfix          .+\n$`).MatchString(text) &&
		strings.Count(text, "\nverdict ") == 1
}

func TestDoctorWithoutDriver(t *testing.T) {
	t.Setenv(loader.Environment, "")
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	r := probe{}.run("doctor", "-driver", path)
	if r.status != exitNoDriver || r.stderr != "" || !endsWithVerdict(r.stdout) ||
		!strings.Contains(r.stdout, "tried        "+path) {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	r = probe{}.run("doctor", "-json", "-driver", path)
	var v doctorReport
	decode(t, r, &v)
	if r.status != exitNoDriver || v.Driver != nil || v.Features != nil || v.Error == nil ||
		v.Verdict.Severity != loader.Fault ||
		len(v.Checks) != 0 {
		t.Errorf("exit status %d\n%s", r.status, r.stdout)
	}
}

// TestDoctor checks the doctor's report about the fake driver. Package loader tests the part about
// the machine.
func TestDoctor(t *testing.T) {
	f := newFake(t)
	r := f.run("doctor", "-device", "1")
	i := strings.Index(r.stdout, "\nsymbols ")
	if i < 0 {
		t.Fatalf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	numbers := regexp.MustCompile(`lacks \d+|compiled in \S+|polled \d+ times?`)
	const want = `
symbols      it … functions of the API of CUDA 13.0
device       1: Fake GPU 1, 0000:3C:00.0, compute capability 9.0, 16.0 GiB
             passed context, and a kernel compiled from PTX: …
             passed events around a kernel: 1.0000ms for a kernel of 1.0000ms, …
             passed copies to the GPU and back: 1MiB arrived unchanged
             passed closing everything: done
verdict      CUDA works: 1 device passed every check
`
	if diff := cmp.Diff(want, numbers.ReplaceAllString(r.stdout[i:], "…")); diff != "" || r.status != exitOK ||
		r.stderr != "" {
		t.Errorf("exit status %d, %q (-want +got):\n%s", r.status, r.stderr, diff)
	}
	if !strings.Contains(r.stdout, "\ncuInit       CUDA_SUCCESS (0)\n") {
		t.Errorf("it does not say what cuInit returned:\n%s", r.stdout)
	}
}

func TestDoctorJSON(t *testing.T) {
	f := newFake(t)
	r := f.run("doctor", "-json")
	var got doctorReport
	decode(t, r, &got)
	if got.Report == nil || got.Report.Library == nil || got.Report.Library.Name != f.path || got.Report.Init == nil ||
		len(got.Missing) < 50 {
		t.Errorf("%+v", got.Report)
	}
	if i := slices.IndexFunc(got.Missing, func(m missingSymbol) bool { return m.Since > newestAPI }); i >= 0 {
		t.Errorf("%d functions are missing; that of index %d is newer than the API", len(got.Missing), i)
	}
	want := doctorReport{
		Driver: &driverInfo{Library: f.path, Version: 12080, CUDA: "12.8"},
		Features: &cu.Features{
			Version:        12080,
			ContextID:      true,
			StreamID:       true,
			ParamInfo:      true,
			ElapsedTimeV2:  true,
			RecordExternal: true,
		},
		Devices: []deviceInfo{fakeDevice(0), fakeDevice(1), fakeDevice(2)},
		Verdict: loader.Finding{Severity: loader.Fine, Title: "CUDA works: 3 devices passed every check"},
	}
	for n := range 3 {
		for _, name := range []string{"context, and a kernel compiled from PTX", "events around a kernel",
			"copies to the GPU and back", "closing everything"} {
			want.Checks = append(want.Checks, check{Device: n, Name: name, Passed: true})
		}
	}
	opts := []cmp.Option{
		cmpopts.IgnoreFields(doctorReport{}, "Report", "Missing"),
		cmpopts.IgnoreFields(check{}, "Detail", "Took", "err"),
	}
	if diff := cmp.Diff(want, got, opts...); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}
	documented(t, "doctor", r.stdout)
	for _, list := range []string{"candidates", "distributionIDs", "gpus", "devices", "findings"} {
		if strings.Contains(r.stdout, `"`+list+`": null`) {
			t.Errorf("%s is null:\n%s", list, r.stdout)
		}
	}
}

// TestDoctorFailures makes each step fail. The report names the failure and contains advice, and no
// objects are left.
func TestDoctorFailures(t *testing.T) {
	f := newFake(t)
	for _, tt := range []struct {
		call   string
		code   cu.Result
		device int // the device of the failure
		check  string
		fix    string
	}{
		{"cuDevicePrimaryCtxRetain", cu.ResultDeviceUnavailable, 0, "context, and a kernel compiled from PTX", (&cu.Error{Op: "cuDevicePrimaryCtxRetain", Result: cu.ResultDeviceUnavailable}).Remedy()},
		{"cuModuleLoadDataEx", cu.ResultJITCompilerNotFound, 0, "context, and a kernel compiled from PTX", (&cu.Error{Op: "cuModuleLoadDataEx", Result: cu.ResultJITCompilerNotFound}).Remedy()},
		{"cuModuleGetFunction", cu.ResultNotFound, 0, "context, and a kernel compiled from PTX", "nvidia-smi -q -i 0000:3B:00.0; sudo dmesg | grep -e NVRM -e Xid"},
		{"cuStreamCreate", cu.ResultOutOfMemory, 0, "context, and a kernel compiled from PTX", (&cu.Error{Op: "cuStreamCreate", Result: cu.ResultOutOfMemory}).Remedy()},
		{"cuEventCreate", cu.ResultOutOfMemory, 0, "events around a kernel", (&cu.Error{Op: "cuEventCreate", Result: cu.ResultOutOfMemory}).Remedy()},
		{"cuLaunchKernel", cu.ResultNotPermitted, 0, "events around a kernel", "nvidia-smi -q -i 0000:3B:00.0; sudo dmesg | grep -e NVRM -e Xid"},
		{"cuEventQuery", cu.ResultUnknown, 0, "events around a kernel", (&cu.Error{Op: "cuEventQuery", Result: cu.ResultUnknown}).Remedy()},
		{"cuMemHostAlloc", cu.ResultOperatingSystem, 0, "copies to the GPU and back", (&cu.Error{Op: "cuMemHostAlloc", Result: cu.ResultOperatingSystem}).Remedy()},
		{"cuMemAlloc_v2", cu.ResultOutOfMemory, 0, "copies to the GPU and back", (&cu.Error{Op: "cuMemAlloc", Result: cu.ResultOutOfMemory}).Remedy()},
		{"cuMemcpyDtoHAsync_v2", cu.ResultInvalidValue, 0, "copies to the GPU and back", "nvidia-smi -q -i 0000:3B:00.0; sudo dmesg | grep -e NVRM -e Xid"},
		{"cuDeviceGetName", cu.ResultInvalidValue, anyDevice, "querying the driver", "nvidia-smi -q; sudo dmesg | grep -e NVRM -e Xid"},
		{"cuDeviceGetCount", cu.ResultUnknown, anyDevice, "querying the driver", (&cu.Error{Op: "cuDeviceGetCount", Result: cu.ResultUnknown}).Remedy()},
	} {
		fail := func() { f.fail(tt.call, 1, tt.code) }
		if tt.call == "cuDeviceGetCount" {
			fail = func() { f.fail(tt.call, 2, tt.code) } // the first call is for opening the driver
		}
		f.ask("fake_reset")
		fail()
		r := f.run("doctor")
		if r.status != exitFailure || r.stderr != "" || !endsWithVerdict(r.stdout) ||
			strings.Count(r.stdout, "FAILED") != 1 ||
			!strings.Contains(r.stdout, "FAILED "+tt.check+": cu: ") {
			t.Errorf("%s fails: exit status %d\n%s%s", tt.call, r.status, r.stdout, r.stderr)
		}
		fail()
		r = f.run("doctor", "-json")
		var v doctorReport
		decode(t, r, &v)
		title := "device 0 fails: " + tt.check
		if tt.device == anyDevice {
			title = "the driver fails: " + tt.check
		}
		want := loader.Finding{Severity: loader.Fault, Title: title, Fix: tt.fix}
		if diff := cmp.Diff(want, v.Verdict, cmpopts.IgnoreFields(loader.Finding{}, "Detail")); diff != "" ||
			r.status != exitFailure {
			t.Errorf("%s fails: exit status %d (-want +got):\n%s", tt.call, r.status, diff)
		}
		if diff := cmp.Diff(v.Verdict, v.Report.Findings[0]); diff != "" ||
			!strings.Contains(v.Verdict.Detail, tt.code.Name()) {
			t.Errorf("%s fails: the first finding is not the verdict, or lacks the code:\n%s", tt.call, diff)
		}
		// The other devices are still checked.
		if tt.device == 0 {
			passed := 0
			for _, c := range v.Checks {
				if c.Device != 0 && c.Passed {
					passed++
				}
			}
			if passed != 8 {
				t.Errorf("%s fails: on the other devices %d checks passed", tt.call, passed)
			}
		}
	}
}

// TestDoctorInit makes the driver's initialisation fail. The finding is the one of package loader.
func TestDoctorInit(t *testing.T) {
	f := newFake(t)
	for code, status := range map[cu.Result]int{cu.ResultNoDevice: exitNoDevice, cu.ResultSystemNotReady: exitFailure,
		cu.ResultUnknown: exitFailure} {
		f.fail("cuInit", 1, code)
		r := f.run("doctor")
		if r.status != status || r.stderr != "" || !endsWithVerdict(r.stdout) ||
			!strings.Contains(r.stdout, "\ncuInit       "+code.Name()) {
			t.Errorf("%v: exit status %d\n%s%s", code, r.status, r.stdout, r.stderr)
		}
		f.fail("cuInit", 1, code)
		if r := f.run("devices"); r.status != status ||
			!strings.Contains(r.stderr, "its cuInit fails with "+code.Name()) ||
			!strings.Contains(r.stderr, "Fix: ") {
			t.Errorf("%v: devices: exit status %d\n%s%s", code, r.status, r.stdout, r.stderr)
		}
	}
}

// TestDiagnose checks that a report with an error of opening the driver never says that all is
// fine.
func TestDiagnose(t *testing.T) {
	f := newFake(t)
	c := &invocation{driver: f.path}
	if v := c.diagnose(nil).Verdict(); v.Severity != loader.Fine {
		t.Errorf("without an error: %+v", v)
	}
	for _, err := range []error{
		&cu.Error{Op: "cuInit", Result: cu.ResultUnknown}, &cu.Error{Op: "cuDeviceGetCount", Result: cu.ResultNoDevice, Err: cu.ErrNoDevice}, errors.New("some other"),
	} {
		r := c.diagnose(err)
		if v := r.Verdict(); v.Severity != loader.Fault || v.Title == "" ||
			(r.Init != nil) != (strings.Contains(err.Error(), "cuInit")) {
			t.Errorf("%v: %+v, %v", err, v, r.Init)
		}
		if r.Init != nil {
			continue
		}
		r = &loader.Report{Findings: []loader.Finding{{Severity: loader.Warning, Title: "a warning"}}}
		addInit(r, err)
		if v := r.Verdict(); v.Severity != loader.Fault || v.Detail != oneLine(err.Error()) || len(r.Findings) != 2 ||
			(v.Title == "the driver reports no device") != errors.Is(err, cu.ErrNoDevice) {
			t.Errorf("%v: %+v", err, r.Findings)
		}
	}
	fault := &loader.Report{Findings: []loader.Finding{{Severity: loader.Fault, Title: "a fault"}}}
	if addInit(fault, errors.New("some other")); len(fault.Findings) != 1 {
		t.Errorf("in addition to a fault it finds %+v", fault.Findings)
	}
}

// compile compiles a library from C source.
func compile(t *testing.T, name, text string) string {
	t.Helper()
	t.Setenv(loader.Environment, "")
	if runtime.GOOS != "linux" {
		t.Skip("libraries for the tests are built on Linux only")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("there is no C compiler: %v", err)
	}
	dir := t.TempDir()
	source, path := filepath.Join(dir, name+".c"), filepath.Join(dir, "lib"+name+".so")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", path, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestNoDeviceCounted runs the commands on a driver whose cuInit succeeds without a device.
func TestNoDeviceCounted(t *testing.T) {
	path := compile(t, "none", `
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *v) { *v = 12080; return 0; }
int cuDeviceGetCount(int *n) { *n = 0; return 0; }
`)
	for _, command := range []string{"demo", "time", "devices"} {
		r := probe{}.run(command, "-driver", path)
		if r.status != exitNoDevice || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 ||
			!strings.Contains(r.stderr, "its cuDeviceGetCount fails with CUDA_ERROR_NO_DEVICE (100). Verdict: ") {
			t.Errorf("%s: exit status %d\n%s%s", command, r.status, r.stdout, r.stderr)
		}
	}
	r := probe{}.run("doctor", "-driver", path)
	if r.status != exitNoDevice || r.stderr != "" || !endsWithVerdict(r.stdout) {
		t.Errorf("doctor: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if r := (probe{}).run("symbols", "-driver", path, "cuDeviceGetCount"); r.status != exitOK {
		t.Errorf("symbols: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// TestDoctorOpenHangs opens a driver that hangs. This is the first finding, and the facts are
// printed before.
func TestDoctorOpenHangs(t *testing.T) {
	path := compile(t, "hanging", `
#include <unistd.h>
static volatile int calls, released, done;
int cuInit(unsigned flags) { calls++; while (!released) usleep(1000); done++; return 999; }
int cuDriverGetVersion(int *v) { *v = 12080; return 0; }
int hanging(void) { return calls - done; }
void set_free(int on) { released = on; }
`)
	lib, err := ccall.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t, path, lib}
	for _, asJSON := range []bool{false, true} {
		f.ask("set_free", 0)
		timeout := make(chan time.Time)
		var out, said bytes.Buffer
		early := ""
		go func() {
			for f.ask("hanging") == 0 {
				time.Sleep(time.Millisecond)
			}
			close(timeout)
		}()
		after := func(d time.Duration) <-chan time.Time {
			if d == silence { // the wait begins
				early = out.String()
				return nil
			}
			return timeout
		}
		c := &invocation{
			out:    &output{w: &out},
			err:    &said,
			env:    os.LookupEnv,
			json:   asJSON,
			driver: path,
			device: anyDevice,
			after:  after,
		}
		status := c.finish(runDoctor(c, ""))
		f.ask("set_free", 1)
		for f.ask("hanging") > 0 { // the abandoned calls end
			time.Sleep(time.Millisecond)
		}
		if status != exitFailure || said.Len() > 0 {
			t.Errorf("exit status %d, %s", status, &said)
		}
		if !asJSON {
			if !endsWithVerdict(out.String()) ||
				!strings.Contains(out.String(), "\nverdict      the driver hangs when it is opened\n") ||
				!strings.HasPrefix(early, "platform ") ||
				!strings.Contains(early, "\ntaken ") ||
				!strings.HasPrefix(out.String(), early) {
				t.Errorf("while it hangs it has printed\n%s\nand in the end\n%s", early, &out)
			}
			continue
		}
		var v doctorReport
		decode(t, result{stdout: out.String()}, &v)
		if v.Verdict.Title != "the driver hangs when it is opened" || v.Verdict.Fix == "" || v.Error == nil ||
			v.Error.Fix != v.Verdict.Fix ||
			v.Report.Init != nil {
			t.Errorf("%s", &out)
		}
	}
}

// TestDoctorStuck checks that a library that does not finish loading is not loaded again.
func TestDoctorStuck(t *testing.T) {
	r := &doctorReport{
		Report: &loader.Report{
			Candidates: []loader.CandidateFacts{{Name: "/a", Source: "A", Problem: loader.Stuck, Error: "it hangs"}},
		},
	}
	err := r.examineDriver(&invocation{driver: "/nowhere"}, nil) // a nil waiter would panic if it was used
	if !errors.Is(err, cu.ErrNoDriver) || r.Error == nil || !strings.Contains(r.Error.Message, "/a (A): it hangs") ||
		r.Report.Verdict().Severity != loader.Fault {
		t.Errorf("%v, %+v", err, r.Error)
	}
}

// TestFacts checks that the final report begins with the part that is printed first.
func TestFacts(t *testing.T) {
	r := &loader.Report{Platform: "linux/amd64", Environment: map[string]string{"CUDA_VISIBLE_DEVICES": "fault\nfault"},
		Candidates: []loader.CandidateFacts{
			{Name: "libcuda.so.1", Source: "x"},
		}, Library: &loader.LibraryFacts{Path: "/x"}}
	early := facts(r)
	r.AddInit(999)
	if !strings.HasPrefix(r.String(), early) || strings.Count(early, "\n") != 5 {
		t.Errorf("first\n%s\nthen\n%s", early, r)
	}
}

// TestDoctorNoSuchDevice checks that the doctor lists the devices if the chosen device does not
// exist.
func TestDoctorNoSuchDevice(t *testing.T) {
	f := newFake(t)
	r := f.run("doctor", "-device", "99")
	if r.status != exitFailure || r.stderr != "" || !endsWithVerdict(r.stdout) ||
		!strings.Contains(r.stdout, "\ntaken ") ||
		!strings.Contains(r.stdout, "\nverdict      there is no device 99\nfix          cuprobe devices ") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	r = f.run("doctor", "-device", "99", "-json")
	var v doctorReport
	decode(t, r, &v)
	if r.status != exitFailure || v.Error == nil || v.Error.Code != 101 || v.Driver == nil || v.Features == nil ||
		len(v.Devices) != 0 ||
		!strings.Contains(v.Verdict.Detail, "the driver has the devices 0 to 2") ||
		v.Report.Init == nil {
		t.Errorf("exit status %d\n%s", r.status, r.stdout)
	}
}

// TestDoctorHang checks that the doctor continues with other devices after a device has hung.
func TestDoctorHang(t *testing.T) {
	f := newFake(t)
	drv, err := cu.Open(cu.WithLibrary(f.path))
	if err != nil {
		t.Fatal(err)
	}
	var devs []*cu.Device
	for n := range 2 {
		dev, err := drv.Device(n)
		if err != nil {
			t.Fatal(err)
		}
		devs = append(devs, dev)
	}
	f.ask("fake_block", "cuModuleGetFunction", 1, 1)
	r := &doctorReport{Report: &loader.Report{}}
	timeout := make(chan time.Time)
	go func() {
		f.ask("fake_await_blocked", "cuModuleGetFunction", 1)
		close(timeout)
	}()
	w := hasty(nil, timeout, nil)
	r.Checks = checkDevice(devs[0], w)
	r.Devices = []deviceInfo{fakeDevice(0)}
	r.judge()
	want := loader.Finding{Severity: loader.Fault, Title: "device 0 fails: context, and a kernel compiled from PTX",
		Detail: "it has not ended: the GPU or the driver hangs", Fix: "nvidia-smi -q -i 0000:3B:00.0; sudo dmesg | grep -e NVRM -e Xid"}
	if diff := cmp.Diff(want, r.Verdict); diff != "" || r.status(nil) != exitFailure {
		t.Errorf("exit status %d (-want +got):\n%s", r.status(nil), diff)
	}
	if !w.hung {
		t.Error("it does not remember that a device hung")
	}
	for _, c := range checkDevice(devs[1], hasty(nil, nil, nil)) {
		if !c.Passed {
			t.Errorf("the other device: %+v", c)
		}
	}
	f.ask("fake_unblock", "cuModuleGetFunction")
	for f.ask("fake_census", 1) != 0 { // the abandoned calls end
		time.Sleep(time.Millisecond)
	}
}

func TestBundle(t *testing.T) {
	f := newFake(t)
	home := filepath.Dir(filepath.Dir(f.path)) // the library's path begins with it
	path := filepath.Join(t.TempDir(), "bundle.json")
	p := probe{env: map[string]string{
		"HOME": home, "USER": "alice", "CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": home + "/lib:/home/bob/lib:/scratch/alice/lib",
		"AWS_SECRET_ACCESS_KEY": "secret", "PATH": "/secret",
	}}
	r := p.run("doctor", "-driver", f.path, "-bundle", path)
	if r.status != exitOK || !strings.Contains(r.stdout, "\nbundle       ") ||
		!regexp.MustCompile(`Read it before you send it\.\nverdict .*\n$`).MatchString(r.stdout) ||
		!strings.Contains(oneLine(r.stdout), path+" holds the doctor's report") {
		t.Fatalf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secret", "alice", "bob", home + "/"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the bundle holds %q:\n%s", secret, text)
		}
	}
	var got bundle
	decode(t, result{stdout: string(text)}, &got)
	env := map[string]string{"CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": "~/lib:/home/USER/lib:/scratch/USER/lib"}
	if diff := cmp.Diff(env, got.Environment); diff != "" {
		t.Errorf("the environment (-want +got):\n%s", diff)
	}
	rest, _ := strings.CutPrefix(f.path, home)
	if got.Doctor.Report.Library.Name != "~"+rest || len(got.Doctor.Checks) != 12 || len(got.Doctor.Missing) == 0 ||
		!strings.HasPrefix(got.Text[len(got.Text)-1], "verdict ") || got.Cuprobe.Go == "" || got.Contents == "" {
		t.Errorf("the bundle holds\n%s", text)
	}

	// It does not overwrite a file.
	r = p.run("doctor", "-driver", f.path, "-bundle", path)
	if r.status != exitFailure || !strings.Contains(r.stderr, "the bundle cannot be written") ||
		!strings.Contains(r.stdout, "\nverdict ") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	r = p.run("doctor", "-json", "-driver", f.path, "-bundle", path)
	var v doctorReport
	decode(t, r, &v)
	documented(t, "doctor", r.stdout)
	if r.status != exitFailure || v.Bundle.Path != path || v.Bundle.Written ||
		!strings.Contains(v.Bundle.Error, "the bundle cannot be written") ||
		v.Verdict.Severity != loader.Fine {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// The doctor's exit status takes precedence.
	f.fail("cuInit", 1, cu.ResultNoDevice)
	if r = p.run("doctor", "-driver", f.path, "-bundle", path); r.status != exitNoDevice ||
		!strings.Contains(r.stderr, "the bundle cannot be written") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// The message is not part of the JSON.
	other := filepath.Join(t.TempDir(), "bundle.json")
	r = p.run("doctor", "-json", "-driver", f.path, "-bundle", other)
	if !json.Valid([]byte(r.stdout)) || !strings.HasPrefix(r.stderr, "bundle ") || r.status != exitOK {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// TestBundledVariables checks that the bundle's description includes all environment variables of
// the loader's report.
func TestBundledVariables(t *testing.T) {
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
		"SLURM_JOB_ID"} {
		t.Setenv(name, "0")
	}
	t.Setenv(loader.Environment, "/does/not/exist")
	for name := range loader.Diagnose().Environment {
		if !slices.Contains(bundledVariables(), name) {
			t.Errorf("%s", name)
		}
	}
}

func TestAnonymizer(t *testing.T) {
	for _, tt := range []struct {
		env        map[string]string
		text, want string
	}{
		{nil, "/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.1"},
		{nil, "/home/alice/lib", "/home/USER/lib"},
		{nil, "/home/alice", "/home/USER"},
		{nil, "/home", "/home"},
		{nil, "/home/", "/home/"},
		{nil, "/a:/home/al:/home/bob/b:/Users/carol/c", "/a:/home/USER:/home/USER/b:/Users/USER/c"},
		{nil, `C:\Users\Carol\driver.dll`, `C:\Users\USER\driver.dll`},
		{nil, `c:\users\carol`, `c:\users\USER`},
		{map[string]string{"USERPROFILE": `D:\al\`, "HOME": "/d/al"}, `D:\al\x /d/al/x D:\alice`, `~\x ~/x D:\alice`},
		{nil, "the home of alice", "the home of alice"},
		{map[string]string{"HOME": "/data/al"}, "/data/al/lib:/data/alice/lib:/data/al", "~/lib:/data/alice/lib:~"},
		{map[string]string{"HOME": "/data/al/"}, "cannot read '/data/al'", "cannot read '~'"},
		{map[string]string{"HOME": "/home/al"}, "/home/al/x /home/alice/x", "~/x /home/USER/x"},
		{map[string]string{"HOME": "/"}, "/usr/lib", "/usr/lib"},
		{map[string]string{"HOME": ""}, "/usr/lib .", "/usr/lib ."},
		{map[string]string{"USER": "al"}, "/scratch/al/x:/al/al:/alice/al", "/scratch/USER/x:/USER/USER:/alice/USER"},
		{map[string]string{"USER": "al"}, "al is at work", "al is at work"},
		{map[string]string{"LOGNAME": "al", "SUDO_USER": "bob"}, "/x/al /x/bob", "/x/USER /x/USER"},
		{map[string]string{"USER": "root"}, "/root/x", "/root/x"},
		{map[string]string{"HOME": "/root", "USER": "root"}, "/root/x", "~/x"},
	} {
		clean := newAnonymizer(func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok })
		if got := clean(tt.text); got != tt.want {
			t.Errorf("with %v, %q becomes %q, want %q", tt.env, tt.text, got, tt.want)
		}
	}
}
