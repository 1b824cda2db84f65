package softlib

import (
	stdcmp "cmp"
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// nvmlLibrary returns the path of libnvidia-ml.so.1, which is beside the other library.
func nvmlLibrary(t *testing.T) string {
	return filepath.Join(filepath.Dir(library(t)), "libnvidia-ml.so.1")
}

// nvmlNames is the file with what NVIDIA's library exports.
const nvmlNames = moduleRoot + "/cusim/libcuda/build/testdata/nvml-exports-580.txt"

// TestNVMLExports compares the exported names of the library with those of NVIDIA's.
func TestNVMLExports(t *testing.T) {
	text, err := os.ReadFile(nvmlNames)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(nvmlLibrary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && s.Name != "cusim_simulated" {
			names = append(names, s.Name)
		}
	}
	if diff := cmp.Diff(strings.Fields(string(text)), names, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("(-driver +ours):\n%s", diff)
	}
	if soname, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(soname, []string{"libnvidia-ml.so.1"}) {
		t.Errorf("the library is called %q, %v", soname, err)
	}
}

// TestNVML runs the C program, which is linked with both libraries. Each scenario has a process of its own.
func TestNVML(t *testing.T) {
	dir := filepath.Dir(nvmlLibrary(t))
	program := compiled(t, "nvml", "-L"+dir, "-Wl,--no-as-needed", "-lcuda", "-lnvidia-ml", "-Wl,-rpath,"+dir)
	for _, tt := range []struct{ scenario, env, stdin, says string }{
		{scenario: "alone", env: "CUSIM_DEVICES=2"},
		{scenario: "versions"},
		{scenario: "cuda-first"},
		{scenario: "nvml-first", env: "CUDA_VISIBLE_DEVICES=0"},
		{scenario: "forked"},
		{scenario: "threads"},
		{scenario: "nulls", stdin: nvmlNames},
		{scenario: "older", env: "CUSIM_DRIVER_VERSION=12.2"},
		{scenario: "shared", env: "CUSIM_MACHINE=" + t.TempDir()},
		{scenario: "lost", env: "CUSIM_DEVICES=2\nCUSIM_GPU_FAULTS=0:lost"},
		{scenario: "faulty", env: "CUSIM_FAULTS=nvmlDeviceGetName@3+=15,nvmlDeviceGetUUID+~1ms,cuInit=1"},
		{scenario: "refused", env: "CUSIM_FAULTS=nvmlDeviceGetNames=15", says: "did you mean nvmlDeviceGetName?"},
		{scenario: "refused", env: "CUSIM_DEVICES=many", says: "CUSIM_DEVICES=many: "},
		{scenario: "refused", env: "CUSIM_GPU_FAULTS=0:found", says: "CUSIM_GPU_FAULTS=0:found: "},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			argv := []string{program, tt.scenario}
			if tt.stdin != "" {
				argv = []string{"/bin/sh", "-c", `exec "$0" "$1" <"$2"`, program, tt.scenario, tt.stdin}
			}
			if said := run(t, strings.Fields(tt.env), argv...); !strings.Contains(said, tt.says) || tt.says == "" && said != "" {
				t.Errorf("it says, and should say %q:\n%s", tt.says, said)
			}
		})
	}
}

// TestPythonNVML calls the library from Python, without additional packages.
func TestPythonNVML(t *testing.T) {
	said := run(t, []string{"CUSIM_DEVICES=3"}, python(t), filepath.Join("testdata", "nvml.py"), nvmlLibrary(t))
	if said != "" {
		t.Error(said)
	}
}

// smiCommands are commands of nvidia-smi, with words that each prints. Those that fail need functions that nothing
// public describes.
var smiCommands = []struct {
	args    string
	devices string
	code    int
	want    []string
}{
	{args: "-L", want: []string{"GPU 0: ", "GPU 1: ", "H200 (UUID: GPU-"}},
	{args: "", want: []string{"Driver Version: 580", "CUDA Version: 13.0", " P0 ", " Off |", "0%      Default",
		"No running processes found"}},
	{args: "-q", want: []string{": Hopper\n", "Persistence Mode ", "Serial Number ", "GPU Current Temp ",
		"Default Power Limit ", ": 700.00 W\n", "ECC Mode\n        Current                           : Enabled\n"}},
	{args: "-q -x", want: []string{"<nvidia_smi_log>", "<product_architecture>Hopper<",
		"<attached_gpus>2<", "</nvidia_smi_log>"}},
	{args: "--query-gpu=index,memory.total,utilization.gpu,pstate --format=csv",
		want: []string{"index, memory.total [MiB], utilization.gpu [%], pstate\n",
			"\n0, 143771 MiB, 0 %, P0\n1, 143771 MiB, 0 %, P0\n"}},
	{args: "--query-compute-apps=pid,used_memory --format=csv",
		want: []string{"pid, used_gpu_memory [MiB]\n[N/A], [N/A]\n"}},
	{args: "topo -m", devices: "1", want: []string{"GPU0", " X ", "Legend:"}},
	{args: "topo -m", code: 255, want: []string{"Failed to run topology matrix"}},
	{args: "nvlink -s"},
	{args: "dmon -c 1", code: 255, want: []string{"Not supported on the device(s)"}},
	{args: "pmon -c 1", code: 255, want: []string{"Not supported on the device(s)"}},
}

// TestSMI runs NVIDIA's nvidia-smi on the library.
func TestSMI(t *testing.T) {
	paths := filepath.SplitList(os.Getenv("PURECU_TEST_SMI"))
	if len(paths) == 0 {
		t.Skip("PURECU_TEST_SMI is not set: this needs NVIDIA's program (see tests/libcuda/fetch)")
	}
	dir := filepath.Dir(nvmlLibrary(t))
	for _, path := range paths {
		for _, tt := range smiCommands {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			cmd := exec.CommandContext(ctx, path, strings.Fields(tt.args)...)
			cmd.Env = []string{"LD_LIBRARY_PATH=" + dir, "CUSIM_DEVICES=" + stdcmp.Or(tt.devices, "2"), "HOME=" + t.TempDir()}
			out, err := cmd.CombinedOutput()
			cancel()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != tt.code {
				t.Errorf("%v: %v, want the exit status %d\n%s", cmd, err, tt.code, out)
				continue
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("%v does not print %q:\n%s", cmd, want, out)
				}
			}
		}
	}
}
