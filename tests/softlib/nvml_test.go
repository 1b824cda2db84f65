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

// smiCommand is a command of nvidia-smi, with words that it prints.
type smiCommand struct {
	args    string
	devices string // CUSIM_DEVICES, by default 2, or "none"
	env     []string
	code    int
	want    []string
}

// smiLinks gives the GPUs NVLinks.
var smiLinks = []string{"CUSIM_NVLINKS=18", "CUSIM_GPU_FAULTS=1:nvlink=2/down"}

// smiCommands are single commands. Those that fail need functions that nothing public describes.
var smiCommands = []smiCommand{
	{args: "-L", want: []string{"GPU 0: ", "GPU 1: ", "H200 (UUID: GPU-"}},
	{args: "-L", devices: "none", env: []string{"CUSIM_PROFILE=A100,T4"},
		want: []string{"GPU 0: Simulated A100 (UUID: GPU-", "GPU 1: Simulated T4 (UUID: GPU-"}},
	{args: "-q", devices: "none", env: []string{"CUSIM_PROFILE=L40S"},
		want: []string{": Ada Lovelace\n", ": Simulated L40S\n"}},
	{args: "", want: []string{"Driver Version: 580", "CUDA Version: 13.0", " P0 ", " Off |", "0%      Default",
		"No running processes found"}},
	{args: "-q", want: []string{": Hopper\n", "Persistence Mode ", "Serial Number ", "GPU Current Temp ",
		"Fabric\n        State                             : N/A\n", "Default Power Limit ", ": 700.00 W\n",
		"ECC Mode\n        Current                           : Enabled\n"}},
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
	{args: "nvlink -s", env: smiLinks, want: []string{"\t Link 17: 26.562 GB/s\nGPU 1", "\t Link 2: <inactive>\n"}},
	{args: "nvlink -c", env: smiLinks, want: []string{"\t Link 17, P2P is supported: true\n"}},
	{args: "nvlink -p", env: smiLinks, want: []string{"\t Link 0: 00000000:05:00.0\n"}},
	{args: "nvlink -R", env: smiLinks, want: []string{"\t Link 5: Remote Device 00000000:06:00.0: Link 1\n"}},
	{args: "nvlink -e", env: smiLinks, want: []string{"\t Link 17: CRC Errors: 0\n"}},
	{args: "topo -p2p n", env: smiLinks, want: []string{" GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n"}},
	{args: "dmon -c 1", code: 255, want: []string{"Not supported on the device(s)"}},
	{args: "pmon -c 1", code: 255, want: []string{"Not supported on the device(s)"}},
}

// smiSettings are commands that set something for those behind them.
var smiSettings = []smiCommand{
	{args: "-i 1 -lgc 1200,1500", want: []string{`GPU clocks set to "(gpuClkMin 1200, gpuClkMax 1500)"`}},
	{args: "-i 1 -lgc 1200,2500", want: []string{"is not supported for GPU"}},
	{args: "-i 0 -ac 2201,1500", want: []string{`Applications clocks set to "(MEM 2201, SM 1500)"`}},
	{args: "-i 0 -c 3", want: []string{"Set compute mode to EXCLUSIVE_PROCESS"}},
	{args: "-i 1 -e 0", want: []string{"Disabled ECC support"}},
	{args: "-i 1 -pl 300", want: []string{"was set to 300.00 W from 700.00 W"}},
	{args: "-i 0 -am 1", want: []string{"Enabled Accounting Mode"}},
	{args: "-i 1 -pm 0", want: []string{"Disabled persistence mode"}},
	{args: "--format=csv,noheader --query-gpu=clocks.sm,clocks.mem,compute_mode,ecc.mode.current,ecc.mode.pending," +
		"power.limit,accounting.mode,persistence_mode", want: []string{
		"345 MHz, 2201 MHz, Exclusive_Process, Enabled, Enabled, 700.00 W, Enabled, Enabled\n",
		"1200 MHz, 3201 MHz, Default, Enabled, Disabled, 300.00 W, Disabled, Disabled\n"}},
	{args: "-i 1 -rgc"},
	{args: "-i 1 --format=csv,noheader --query-gpu=clocks.sm", want: []string{"345 MHz\n"}},
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
			tt.run(t, path, "LD_LIBRARY_PATH="+dir)
		}
		machine := t.TempDir()
		for _, tt := range smiSettings {
			tt.run(t, path, "LD_LIBRARY_PATH="+dir, "CUSIM_MACHINE="+machine)
		}
	}
}

// run runs the command with some environment variables.
func (c smiCommand) run(t *testing.T, path string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, strings.Fields(c.args)...)
	cmd.Env = append(slices.Concat(env, c.env), "HOME="+t.TempDir())
	if c.devices != "none" {
		cmd.Env = append(cmd.Env, "CUSIM_DEVICES="+stdcmp.Or(c.devices, "2"))
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != c.code {
		t.Errorf("%v: %v, want the exit status %d\n%s", cmd, err, c.code, out)
		return
	}
	for _, want := range c.want {
		if !strings.Contains(string(out), want) {
			t.Errorf("%v does not print %q:\n%s", cmd, want, out)
		}
	}
}
