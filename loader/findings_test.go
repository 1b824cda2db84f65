package loader

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/initresult"
)

// TestJudgeAnything judges random reports, even impossible ones. All findings must say what to do,
// and a report without a library must have a fault.
func TestJudgeAnything(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	flip := func() bool { return rnd.IntN(2) == 0 }
	one := func(list ...string) string { return list[rnd.IntN(len(list))] }
	for range 20_000 {
		r := &Report{
			Platform: one("linux/amd64", "linux/arm64", "windows/amd64", "freebsd/amd64", "darwin/arm64"),
			WSL:      rnd.IntN(4) == 0, Jetson: rnd.IntN(4) == 0, OnlyMusl: rnd.IntN(4) == 0, PCIKnown: flip(),
			Container:       one("", "", "docker", "podman", "kubernetes", "apptainer", "lxc", "other"),
			DistributionIDs: strings.Fields(one("", "debian", "ubuntu debian", "fedora", "opensuse suse", "arch", "nixos")),
			UID:             rnd.IntN(2) * 1000,
			Environment:     map[string]string{},
			NamedBy:         one("", "", "", "program", "environment"),
			Kernel: KernelFacts{
				Loaded: flip(), UVM: flip(), Nouveau: flip(), Helper: flip(), Release: one("", "535.1.2"), Flavor: one("", "open"),
			},
		}
		r.EnvironmentIgnored = r.NamedBy == "" && flip()
		for _, key := range []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
			"LD_LIBRARY_PATH", "SLURM_JOB_ID"} {
			if flip() {
				r.Environment[key] = one("", "0", "-1", "x", ",", " ", "all", "void", "/a:/b", ":", "'",
					"99999999999999999999")
			}
		}
		for range rnd.IntN(4) {
			r.Candidates = append(r.Candidates, CandidateFacts{
				Name: one("libcuda.so.1", "/usr/lib64/libcuda.so.1"), Path: one("", "/a b/libcuda.so.1"), Element: one("", "/a b"), Error: "it is so", Remedy: "do this",
				Problem: Problem(one(string(Absent), string(Dangling), string(Unreadable), string(NotALibrary), string(WrongMachine),
					string(Truncated), string(Unsafe), string(Refused), string(NoGlibc), string(GlibcFailed), string(NotADriver), string(Stub), string(Duplicate))),
			})
		}
		if len(r.Candidates) > 0 && flip() {
			r.Library = &LibraryFacts{Name: "libcuda.so.1",
				Path:    one("", "/usr/local/cuda/compat/libcuda.so.1", "/usr/lib/libcuda.so.580.1.2"),
				Release: one("", "580.1.2")}
			r.Candidates = append(r.Candidates, CandidateFacts{Name: "libcuda.so.1", Path: r.Library.Path,
				Element: one("", "/b")})
		}
		for range rnd.IntN(3) {
			r.GPUs = append(r.GPUs, PCIDevice{Address: "0000:01:00.0",
				Driver: one("", "nvidia", "nouveau", "vfio-pci")})
		}
		for _, name := range []string{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dxg",
			"/dev/nvmap"} {
			if flip() {
				r.Devices = append(r.Devices, DeviceFile{
					Path: name, Mode: one("", "c", "crw-rw-rw-", "crw-rw----", "crw-------"), GID: rnd.IntN(2), Group: one("", "video"),
					Access: Access(one(string(Granted), string(Missing), string(Denied), string(Forbidden), string(NoDriver), string(Broken), string(Failed))),
				})
			}
		}
		before := r.judge()
		r.AddInit(int32([]int{3, 34, 46, 100, 101, 801, 802, 803, 804, 999, 1}[rnd.IntN(11)]))
		after := r.Findings
		for _, list := range [][]Finding{before, after} {
			for _, f := range list {
				if f.Title == "" || f.Severity != Note && f.Fix == "" {
					t.Fatalf("%+v says too little of %+v", f, r)
				}
			}
			faulty := len(list) > 0 && list[0].Severity == Fault
			if r.Library == nil && !faulty {
				t.Fatalf("there is no library, and no fault: %+v", r)
			}
			if slices.ContainsFunc(list, func(f Finding) bool { return f.Severity == Fault }) != faulty {
				t.Fatalf("out of order: %+v", list)
			}
		}
		if len(after) == 0 || after[0].Severity != Fault {
			t.Fatalf("cuInit failed, and there is no fault: %+v", r)
		}
		if !strings.HasSuffix(r.String(), "\nfix          "+r.Verdict().Fix+"\n") {
			t.Fatalf("the text does not end with the fix:\n%s", r)
		}
	}
}

// TestWindowsFixes checks that no fix on Windows is a command of Linux.
func TestWindowsFixes(t *testing.T) {
	foreign := regexp.MustCompile(`sudo|unset |export |ldd |namei|chmod|dmesg|modprobe|/dev/|LD_LIBRARY_PATH|apt |Linux`)
	const name = `C:\Windows\System32\nvcuda.dll`
	check := func(r *Report) {
		t.Helper()
		r.Findings = r.judge()
		if len(r.Findings) == 0 {
			t.Errorf("no findings: %+v", r)
		}
		for _, f := range r.Findings {
			if f.Fix == "" || foreign.MatchString(f.Title+f.Fix) {
				t.Errorf("%s: %s", f.Title, f.Fix)
			}
		}
	}
	for _, problem := range []Problem{Absent, NotALibrary, WrongMachine, Truncated, Unreadable, Unreachable, Refused,
		NotADriver, Stub, Stuck, Unsafe} {
		for _, by := range []string{"", "program", "environment"} {
			check(&Report{Platform: "windows/amd64", NamedBy: by,
				Candidates: []CandidateFacts{{Name: name, Problem: problem, Error: "it is so"}}})
		}
	}
	for _, code := range []int32{2, 3, 34, 46, 100, 101, 304, 500, 801, 802, 803, 804, 999, 77} {
		for _, visible := range []string{"", "-1", "0,0"} {
			r := &Report{Platform: "windows/amd64", Candidates: []CandidateFacts{{Name: name, Path: name}}, Library: &LibraryFacts{Name: name, Path: name},
				Environment: map[string]string{}, Init: &InitResult{Code: code}}
			if visible != "" {
				r.Environment["CUDA_VISIBLE_DEVICES"] = visible
			}
			check(r)
		}
	}
	check(&Report{Platform: "windows/amd64", EnvironmentIgnored: true, Candidates: []CandidateFacts{{Name: name}},
		Library: &LibraryFacts{Name: name}})
}

// TestSimulatedFails examines the software driver's library after cuInit has failed: nothing on the machine is at
// fault.
func TestSimulatedFails(t *testing.T) {
	for code, why := range map[int32]string{
		2: "ulimit -v", 100: "CUSIM_DEVICES", 304: "seccomp", 999: "standard error", 802: "cusim.Faults",
	} {
		r := &Report{Platform: "linux/amd64", Candidates: []CandidateFacts{{}}, Library: &LibraryFacts{Simulated: true}}
		r.AddInit(code)
		v := r.Verdict()
		if len(r.Findings) != 1 || !strings.Contains(v.Detail, why) || v.Fix != initresult.Settings ||
			strings.Contains(v.Detail, "nvidia") {
			t.Errorf("%d: %+v", code, r.Findings)
		}
	}
}

func TestReleaseOf(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"/usr/lib64/libcuda.so.580.95.05", "580.95.05"},
		{"/usr/lib64/libcuda.so.390.157", "390.157"},
		{"/usr/lib64/libcuda.so.1", ""},
		{"/usr/lib64/libcuda.so.1.1", ""},
		{"/usr/lib64/libcuda.so", ""},
		{"/usr/lib64/libcuda.so.580.95.05.bak", ""},
		{"/usr/lib64/libcuda.so.580.", ""},
		{"/usr/lib64/libcuda.so.580", ""},
		{"/opt/580.95.05/libfakecuda.so", ""},
		{"", ""},
	} {
		if got := releaseOf(tt.path); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.path, got, tt.want)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"/usr/lib": "/usr/lib", "/a b": "'/a b'", "it's": `'it'\''s'`, "": "''", "$x": "'$x'", "a;b": "'a;b'", "a\nb": "'a\nb'",
	} {
		if got := quote(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestIsGPU(t *testing.T) {
	for name, want := range map[string]bool{
		"/dev/nvidia0": true, "/dev/nvidia15": true, "/dev/nvidia": false, "/dev/nvidiactl": false, "/dev/nvidia-uvm": false, "/dev/dxg": false,
	} {
		if got := isGPU(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
