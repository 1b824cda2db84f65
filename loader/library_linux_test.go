package loader

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestLibraryLayouts checks which library of which kind is taken on many kinds of systems.
func TestLibraryLayouts(t *testing.T) {
	debianLib := "/usr/lib/" + triplet(runtime.GOARCH)
	const ml = "libnvidia-ml.so.1"
	maps := func(lib string) part {
		return file("/proc/self/maps", "7f0000000000-7f0000001000 r--p 00000000 08:01 42  "+lib+"\n")
	}
	for _, tt := range []struct {
		name  string
		kind  Kind
		parts []part
		want  []string // the candidates, without those that are absent
	}{
		{"Debian", NVML, []part{library(debianLib+"/"+ml, companion)}, []string{debianLib + "/" + ml + ": taken"}},
		{"WSL", NVML, []part{library("/usr/lib/wsl/lib/"+ml, companion)},
			[]string{"/usr/lib/wsl/lib/" + ml + ": taken"}},
		{"a container", NVENC, []part{library("/usr/local/nvidia/lib64/libnvidia-encode.so.1", companion)},
			[]string{"/usr/local/nvidia/lib64/libnvidia-encode.so.1: taken"}},
		{"by the system's loader", NVML, []part{with("LD_LIBRARY_PATH", "/opt"), library("/opt/"+ml, companion)},
			[]string{ml + ": taken"}},
		{"by the environment", NVML, []part{with("PURECU_NVML_LIBRARY", "/opt/x.so"), library("/opt/x.so", companion)},
			nil}, // see below
		{"beside the driver that the environment names", NVML,
			[]part{with(Environment, "/opt/libcuda.so.1"), library("/opt/"+ml, companion),
				library(debianLib+"/"+ml, companion)},
			[]string{"/opt/" + ml + ": taken"}},
		{"beside the loaded driver", NVML,
			[]part{maps("/nix/store/x/lib/libcuda.so.580.95.05"), library("/nix/store/x/lib/"+ml, companion)},
			[]string{"/nix/store/x/lib/" + ml + ": taken"}},
		{"a stub", NVML, []part{
			with("LD_LIBRARY_PATH", "/usr/local/cuda/lib64/stubs"),
			library("/usr/local/cuda/lib64/stubs/"+ml, companion),
			library("/usr/lib64/"+ml, companion),
		}, []string{ml + ": stub", "/usr/lib64/" + ml + ": taken"}},
		{"a stub below a folder for an architecture", NVENC, []part{
			with("LD_LIBRARY_PATH", "/opt/sdk/Lib/linux/stubs/x86_64"),
			library("/opt/sdk/Lib/linux/stubs/x86_64/libnvidia-encode.so.1", companion),
		}, []string{"libnvidia-encode.so.1: stub"}},
		{"files that are not NVML", NVML, []part{
			library("/usr/local/nvidia/lib64/"+ml, truncated), library("/usr/local/nvidia/lib/"+ml, foreign),
			library("/usr/lib/wsl/lib/"+ml, real),
			library("/run/opengl-driver/lib/"+ml, text),
		}, []string{
			"/usr/lib/wsl/lib/" + ml + ": other-library", "/usr/local/nvidia/lib64/" + ml + ": truncated",
			"/usr/local/nvidia/lib/" + ml + ": wrong-machine",
			"/run/opengl-driver/lib/" + ml + ": not-a-library",
		}},
		{"the newest of a toolkit", NVRTC, []part{library("/usr/local/cuda/lib64/libnvrtc.so.12", companion),
			library("/usr/local/cuda/lib64/libnvrtc.so.13", companion)},
			[]string{"/usr/local/cuda/lib64/libnvrtc.so.13: taken"}},
		{"a toolkit that the environment names", NVRTC, []part{
			with("CUDA_HOME", "/opt/cuda-11"), library("/opt/cuda-11/lib64/libnvrtc.so.11.2", companion),
			library("/usr/local/cuda/lib64/libnvrtc.so.13", companion),
		}, []string{"/opt/cuda-11/lib64/libnvrtc.so.11.2: taken"}},
		{"a relative folder", NVRTC, []part{with("CUDA_HOME", "here"), with("CONDA_PREFIX", ".")}, nil},
		{"Conda", NVRTC, []part{with("CONDA_PREFIX", "/opt/conda"),
			library("/opt/conda/lib/libnvrtc.so.12", companion)}, []string{"/opt/conda/lib/libnvrtc.so.12: taken"}},
		{"Python's packages of CUDA 12", NVRTC,
			[]part{library("/usr/local/lib/python3.12/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", companion)},
			[]string{"/usr/local/lib/python3.12/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12: taken"}},
		{"a virtual environment with those of CUDA 13", NVRTC,
			[]part{with("VIRTUAL_ENV", "/venv"),
				library("/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13", companion)},
			[]string{"/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13: taken"}},
		{"a virtual environment with characters of patterns", NVRTC,
			[]part{with("VIRTUAL_ENV", "/ven[v]*"),
				library("/ven[v]*/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13", companion)},
			[]string{"/ven[v]*/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13: taken"}},
		{"nothing", NVML, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, tt.parts...)
			if v := f.env["PURECU_NVML_LIBRARY"]; v != "" { // a name that only the system's loader gets
				f.env["PURECU_NVML_LIBRARY"] = f.root + v
				tt.want = []string{f.root + v + ": taken"}
				f.root = ""
			}
			_, tried := f.machine().open(productOf(tt.kind), "")
			if diff := cmp.Diff(tt.want, outcome(tried), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLibraryErrorText checks that an error names all places, and what to install.
func TestLibraryErrorText(t *testing.T) {
	f := newFixture(t)
	_, tried := f.machine().open(productOf(NVRTC), "")
	said := (&LoadError{Candidates: tried, Kind: NVRTC}).Error()
	for _, want := range []string{
		"loader: no NVRTC library could be loaded\n",
		"\n\tlibnvrtc.so.12 (the system's library search path): cannot open",
		"\n\tnothing in /usr/local/cuda/lib64, ", "/opt/cuda/lib64", "\n\tinstall NVRTC with ", "PURECU_NVRTC_LIBRARY",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it lacks %q:\n%s", want, said)
		}
	}
	// What is there but cannot be used does not need another package.
	f = newFixture(t, library("/usr/lib64/libnvidia-ml.so.1", text))
	_, tried = f.machine().open(productOf(NVML), "")
	if said := (&LoadError{Candidates: tried, Kind: NVML}).Error(); strings.Contains(said,
		"NVIDIA_DRIVER_CAPABILITIES") || !strings.Contains(said, "not an ELF file") {
		t.Error(said)
	}
}

// TestLibraryPlatforms checks that nothing is searched for where NVIDIA ships nothing.
func TestLibraryPlatforms(t *testing.T) {
	m := newFixture(t).machine()
	m.platform = "linux/riscv64"
	_, tried := m.open(productOf(NVML), "")
	err := &LoadError{Candidates: tried, Platform: m.platform, Kind: NVML}
	if len(tried) != 0 || err.Error() != "loader: NVIDIA ships no NVML for linux/riscv64" ||
		!errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v: %v", tried, err)
	}
}
