package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/loader"
)

// Without a driver there is one paragraph that says what was tried, what is
// wrong, and what to do.
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
			if r.status != exitNoDriver || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || strings.Count(r.stderr, path) < 2 ||
				!strings.Contains(r.stderr, "Verdict: the library that -driver names cannot be used") || !strings.Contains(r.stderr, "Fix: cuprobe doctor") {
				t.Errorf("%s -driver %s: exit status %d\n%s%s", command, path, r.status, r.stdout, r.stderr)
			}
			j := probe{}.run(command, "-json", "-driver", path)
			var v struct{ Error failure }
			decode(t, j, &v)
			want := failure{Op: "Open", Doc: "docs/errors.md#errnodriver", Message: strings.TrimSpace(strings.TrimPrefix(r.stderr, "cuprobe: ")),
				Fix: "cuprobe doctor # without -driver it searches"}
			if diff := cmp.Diff(want, v.Error); diff != "" || j.status != exitNoDriver {
				t.Errorf("%s -json -driver %s: exit status %d (-want +got):\n%s", command, path, j.status, diff)
			}

			t.Setenv(loader.Environment, path)
			r = probe{}.run(command)
			if r.status != exitNoDriver || !strings.Contains(r.stderr, loader.Environment) || !strings.Contains(r.stderr, path) || !strings.Contains(r.stderr, "Fix: ") {
				t.Errorf("%s=%s cuprobe %s: exit status %d\n%s", loader.Environment, path, command, r.status, r.stderr)
			}
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
			"NVIDIA has no CUDA driver for plan9/amd64. Verdict: no driver. Fix: none. For more run: cuprobe doctor"},
		{"a search", loader.Report{
			Candidates: []loader.CandidateFacts{
				{Name: "libcuda.so.1", Source: "the system", Problem: loader.Absent, Error: "it is not there"},
				{Name: "/a/libcuda.so.1", Source: "A", Problem: loader.Absent, Error: "no file"},
				{Name: "/b/libcuda.so.1", Source: "B", Problem: loader.Stub, Error: "a\n\tstub"},
				{Name: "/c/libcuda.so.1", Source: "C", Problem: loader.Absent, Error: "no file"},
			}, Findings: []loader.Finding{{Severity: loader.Fault, Title: "it is a stub", Fix: "rm it"}},
		}, "no CUDA driver library could be loaded. Tried libcuda.so.1 (the system): it is not there; /b/libcuda.so.1 (B): a stub; " +
			"and 2 folders where others keep it, which hold none. Verdict: it is a stub. Fix: rm it. For more run: cuprobe doctor"},
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

// A real driver without a device.
func TestNoDevice(t *testing.T) {
	for _, path := range realLibraries(t) {
		for _, command := range []string{"demo", "time", "devices"} {
			r := probe{}.run(command, "-driver", path)
			if r.status != exitNoDevice || r.stdout != "" || !strings.Contains(r.stderr, "cuInit fails with CUDA_ERROR_NO_DEVICE (100)") ||
				strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "Fix: ") {
				t.Errorf("%s: %s: exit status %d\n%s%s", path, command, r.status, r.stdout, r.stderr)
			}
			r = probe{}.run(command, "-json", "-driver", path)
			var v struct{ Error failure }
			decode(t, r, &v)
			if r.status != exitNoDevice || v.Error.Code != 100 || v.Error.Op != "cuInit" || v.Error.Doc != "docs/errors.md#errnodevice" || v.Error.Fix == "" {
				t.Errorf("%s: %s: exit status %d, %+v", path, command, r.status, v)
			}
		}
		// Symbols needs a driver, and no device.
		r := probe{}.run("-driver", path, "symbols", "cuEvent")
		if r.status != exitOK || !regexp.MustCompile(`(?m)^cuEventRecord +cuEventRecord \* +2\.0  found$`).MatchString(r.stdout) ||
			!regexp.MustCompile(`(?m)^cuEventElapsedTime +cuEventElapsedTime_v2 \* +12\.8  missing: the driver is older$`).MatchString(r.stdout) {
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
		if r.status != exitNoDevice || v.Driver != nil || v.Error == nil || v.Error.Code != 100 || v.Error.Fix != v.Verdict.Fix ||
			v.Verdict.Severity != loader.Fault || len(v.Missing) == 0 || v.Report.Library.Release == "" {
			t.Errorf("%s: doctor -json: exit status %d\n%s", path, r.status, r.stdout)
		}
	}
}

// endsWithVerdict reports whether a text ends with one verdict and one fix.
func endsWithVerdict(text string) bool {
	return regexp.MustCompile(`\nverdict      .+\nfix          .+\n$`).MatchString(text) && strings.Count(text, "\nverdict ") == 1
}

func TestDoctorWithoutDriver(t *testing.T) {
	t.Setenv(loader.Environment, "")
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	r := probe{}.run("doctor", "-driver", path)
	if r.status != exitNoDriver || r.stderr != "" || !endsWithVerdict(r.stdout) || !strings.Contains(r.stdout, "tried        "+path) {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	r = probe{}.run("doctor", "-json", "-driver", path)
	var v doctorReport
	decode(t, r, &v)
	if r.status != exitNoDriver || v.Driver != nil || v.Features != nil || v.Error == nil || v.Verdict.Severity != loader.Fault || len(v.Checks) != 0 {
		t.Errorf("exit status %d\n%s", r.status, r.stdout)
	}
}

// What the doctor says of the fake driver. What it says of the machine that the
// test runs on is the loader's.
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
             passed memory there and back: 1MiB arrived whole
             passed closing everything: done
verdict      CUDA works: 1 device passed every check
`
	if diff := cmp.Diff(want, numbers.ReplaceAllString(r.stdout[i:], "…")); diff != "" || r.status != exitOK || r.stderr != "" {
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
	if got.Report == nil || got.Report.Library == nil || got.Report.Library.Name != f.path || got.Report.Init == nil || len(got.Missing) < 50 {
		t.Errorf("%+v", got.Report)
	}
	want := doctorReport{
		Driver:   &driverInfo{Library: f.path, Version: 12080, CUDA: "12.8"},
		Features: &cu.Features{Version: 12080, ContextID: true, StreamID: true, ParamInfo: true, ElapsedTimeV2: true, RecordExternal: true},
		Devices:  []deviceInfo{fakeDevice(0), fakeDevice(1), fakeDevice(2)},
		Verdict:  loader.Finding{Severity: loader.Fine, Title: "CUDA works: 3 devices passed every check"},
	}
	for n := range 3 {
		for _, name := range []string{"context, and a kernel compiled from PTX", "events around a kernel", "memory there and back", "closing everything"} {
			want.Checks = append(want.Checks, check{Device: n, Name: name, Passed: true})
		}
	}
	opts := []cmp.Option{cmpopts.IgnoreFields(doctorReport{}, "Report", "Missing"), cmpopts.IgnoreFields(check{}, "Detail", "Took", "err")}
	if diff := cmp.Diff(want, got, opts...); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}
	// The loader documents its report, and package cu the features.
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.stdout), &members); err != nil {
		t.Fatal(err)
	}
	members["report"], members["features"] = []byte("{}"), []byte("{}")
	rest, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	documented(t, "doctor", string(rest))
}

// Whatever fails on a device, the doctor names it, says what to do, and leaves
// nothing behind.
func TestDoctorFailures(t *testing.T) {
	f := newFake(t)
	for _, tt := range []struct {
		call   string
		code   cu.Result
		device int // that it fails on
		check  string
		fix    string
	}{
		{"cuDevicePrimaryCtxRetain", cu.ResultDeviceUnavailable, 0, "context, and a kernel compiled from PTX", cu.ResultDeviceUnavailable.Remedy()},
		{"cuModuleLoadDataEx", cu.ResultJITCompilerNotFound, 0, "context, and a kernel compiled from PTX", cu.ResultJITCompilerNotFound.Remedy()},
		{"cuModuleGetFunction", cu.ResultNotFound, 0, "context, and a kernel compiled from PTX", "nvidia-smi -q -i 0000:3B:00.0; sudo dmesg | grep -e NVRM -e Xid"},
		{"cuStreamCreate", cu.ResultOutOfMemory, 0, "context, and a kernel compiled from PTX", cu.ResultOutOfMemory.Remedy()},
		{"cuEventCreate", cu.ResultOutOfMemory, 0, "events around a kernel", cu.ResultOutOfMemory.Remedy()},
		{"cuLaunchKernel", cu.ResultNotPermitted, 0, "events around a kernel", "nvidia-smi -q -i 0000:3B:00.0; sudo dmesg | grep -e NVRM -e Xid"},
		{"cuEventQuery", cu.ResultUnknown, 0, "events around a kernel", cu.ResultUnknown.Remedy()},
		{"cuMemHostAlloc", cu.ResultOperatingSystem, 0, "memory there and back", cu.ResultOperatingSystem.Remedy()},
		{"cuMemAlloc_v2", cu.ResultOutOfMemory, 0, "memory there and back", cu.ResultOutOfMemory.Remedy()},
		{"cuMemcpyDtoHAsync_v2", cu.ResultInvalidValue, 0, "memory there and back", "nvidia-smi -q -i 0000:3B:00.0; sudo dmesg | grep -e NVRM -e Xid"},
		{"cuDeviceGetName", cu.ResultInvalidValue, anyDevice, "asking the driver", "nvidia-smi -q; sudo dmesg | grep -e NVRM -e Xid"},
		{"cuDeviceGetCount", cu.ResultUnknown, anyDevice, "asking the driver", cu.ResultUnknown.Remedy()},
	} {
		nth := 1
		if tt.call == "cuDeviceGetCount" {
			nth = 2 // the first call is for opening the driver
		}
		f.ask("fake_reset")
		f.fail(tt.call, nth, tt.code)
		r := f.run("doctor")
		if r.status != exitFailure || r.stderr != "" || !endsWithVerdict(r.stdout) || strings.Count(r.stdout, "FAILED") != 1 ||
			!strings.Contains(r.stdout, "FAILED "+tt.check+": cu: ") {
			t.Errorf("%s fails: exit status %d\n%s%s", tt.call, r.status, r.stdout, r.stderr)
		}
		f.fail(tt.call, nth, tt.code)
		r = f.run("doctor", "-json")
		var v doctorReport
		decode(t, r, &v)
		title := "device 0 fails: " + tt.check
		if tt.device == anyDevice {
			title = "the driver fails: " + tt.check
		}
		want := loader.Finding{Severity: loader.Fault, Title: title, Fix: tt.fix}
		if diff := cmp.Diff(want, v.Verdict, cmpopts.IgnoreFields(loader.Finding{}, "Detail")); diff != "" || r.status != exitFailure {
			t.Errorf("%s fails: exit status %d (-want +got):\n%s", tt.call, r.status, diff)
		}
		if diff := cmp.Diff(v.Verdict, v.Report.Findings[0]); diff != "" || !strings.Contains(v.Verdict.Detail, tt.code.Name()) {
			t.Errorf("%s fails: the first finding is not the verdict, or lacks the code:\n%s", tt.call, diff)
		}
		// The other devices are checked all the same.
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

// A fault of the driver's initialisation is the loader's to explain.
func TestDoctorInit(t *testing.T) {
	f := newFake(t)
	for code, status := range map[cu.Result]int{cu.ResultNoDevice: exitNoDevice, cu.ResultSystemNotReady: exitFailure, cu.ResultUnknown: exitFailure} {
		f.fail("cuInit", 1, code)
		r := f.run("doctor")
		if r.status != status || r.stderr != "" || !endsWithVerdict(r.stdout) || !strings.Contains(r.stdout, "\ncuInit       "+code.Name()) {
			t.Errorf("%v: exit status %d\n%s%s", code, r.status, r.stdout, r.stderr)
		}
		f.fail("cuInit", 1, code)
		if r := f.run("devices"); r.status != status || !strings.Contains(r.stderr, "its cuInit fails with "+code.Name()) || !strings.Contains(r.stderr, "Fix: ") {
			t.Errorf("%v: devices: exit status %d\n%s%s", code, r.status, r.stdout, r.stderr)
		}
	}
}

// No error of opening the driver goes with a verdict that all is fine, whatever
// this machine is like.
func TestDiagnose(t *testing.T) {
	f := newFake(t)
	c := &call{driver: f.path}
	if v := c.diagnose(nil).Verdict(); v.Severity != loader.Fine {
		t.Errorf("without an error: %+v", v)
	}
	for _, err := range []error{
		&cu.Error{Op: "cuInit", Result: cu.ResultUnknown}, &cu.Error{Op: "cuDeviceGetCount", Result: cu.ResultNoDevice, Err: cu.ErrNoDevice}, errors.New("some other"),
	} {
		r := c.diagnose(err)
		if v := r.Verdict(); v.Severity != loader.Fault || v.Title == "" || (r.Init != nil) != (strings.Contains(err.Error(), "cuInit")) {
			t.Errorf("%v: %+v, %v", err, v, r.Init)
		}
		if r.Init != nil {
			continue
		}
		r = &loader.Report{Findings: []loader.Finding{{Severity: loader.Warning, Title: "a warning"}}}
		addInit(r, err)
		if v := r.Verdict(); v.Severity != loader.Fault || v.Detail != oneLine(err.Error()) || len(r.Findings) != 2 ||
			(v.Title == "the driver counts no device") != errors.Is(err, cu.ErrNoDevice) {
			t.Errorf("%v: %+v", err, r.Findings)
		}
	}
	fault := &loader.Report{Findings: []loader.Finding{{Severity: loader.Fault, Title: "a fault"}}}
	if addInit(fault, errors.New("some other")); len(fault.Findings) != 1 {
		t.Errorf("beside a fault it finds %+v", fault.Findings)
	}
}

// A driver may be initialised without a device.
func TestNoDeviceCounted(t *testing.T) {
	newFake(t) // for its conditions
	dir := t.TempDir()
	source, path := filepath.Join(dir, "none.c"), filepath.Join(dir, "libnone.so")
	if err := os.WriteFile(source, []byte(`
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *v) { *v = 12080; return 0; }
int cuDeviceGetCount(int *n) { *n = 0; return 0; }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("there is no C compiler: %v", err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", path, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, command := range []string{"demo", "time", "devices"} {
		r := probe{}.run(command, "-driver", path)
		if r.status != exitNoDevice || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "its cuDeviceGetCount fails with CUDA_ERROR_NO_DEVICE (100). Verdict: ") {
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

func TestWithin(t *testing.T) {
	if v, err := within(nil, func() (int, error) { return 7, io.EOF }); v != 7 || err != io.EOF {
		t.Errorf("%d, %v", v, err)
	}
	now, hang := make(chan time.Time), make(chan struct{})
	close(now)
	if v, err := within(now, func() (int, error) { <-hang; return 7, nil }); v != 0 || err != errHangs {
		t.Errorf("of what hangs it returns %d, %v", v, err)
	}
	close(hang)
}

// A device that hangs is given up, and the others are checked.
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
	patience := make(chan time.Time)
	go func() {
		f.ask("fake_await_blocked", "cuModuleGetFunction", 1)
		close(patience)
	}()
	r.Checks = checkDevice(devs[0], patience)
	r.Devices = []deviceInfo{fakeDevice(0)}
	r.judge()
	want := loader.Finding{Severity: loader.Fault, Title: "device 0 fails: context, and a kernel compiled from PTX",
		Detail: "it has not ended: the GPU or the driver hangs", Fix: "nvidia-smi -q -i 0000:3B:00.0; sudo dmesg | grep -e NVRM -e Xid"}
	if diff := cmp.Diff(want, r.Verdict); diff != "" || r.status(nil) != exitFailure {
		t.Errorf("exit status %d (-want +got):\n%s", r.status(nil), diff)
	}
	for _, c := range checkDevice(devs[1], nil) {
		if !c.Passed {
			t.Errorf("the other device: %+v", c)
		}
	}
	f.ask("fake_unblock", "cuModuleGetFunction")
	for f.ask("fake_census", 1) != 0 { // what was given up ends after all
		time.Sleep(time.Millisecond)
	}
}

func TestBundle(t *testing.T) {
	f := newFake(t)
	home := filepath.Dir(filepath.Dir(f.path)) // of the library: its path is to be cut short
	path := filepath.Join(t.TempDir(), "bundle.json")
	p := probe{env: map[string]string{
		"HOME": home, "USER": "alice", "CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": home + "/lib:/home/bob/lib:/scratch/alice/lib",
		"AWS_SECRET_ACCESS_KEY": "secret", "PATH": "/secret",
	}}
	r := p.run("doctor", "-driver", f.path, "-bundle", path)
	if r.status != exitOK || !strings.HasPrefix(r.stdout, "bundle       ") || !strings.Contains(oneLine(r.stdout), path+" holds the doctor's report") {
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

	// It overwrites nothing.
	r = p.run("doctor", "-driver", f.path, "-bundle", path)
	if r.status != exitFailure || !strings.Contains(r.stderr, "the bundle cannot be written") || !strings.Contains(r.stdout, "\nverdict ") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// Its message stays out of JSON.
	other := filepath.Join(t.TempDir(), "bundle.json")
	r = p.run("doctor", "-json", "-driver", f.path, "-bundle", other)
	if !json.Valid([]byte(r.stdout)) || !strings.HasPrefix(r.stderr, "bundle ") || r.status != exitOK {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
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
