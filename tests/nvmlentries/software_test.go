package nvmlentries

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/simnvml"
	"github.com/purecu/purecu/nvml/raw"
)

// own are the functions whose values are the software driver's own: its name, its UUIDs, and its place on the
// bus. DeviceGetHandleByIndex leaves any device behind if it fails.
var own = map[string]bool{
	"DeviceGetName": true, "DeviceGetUUID": true, "DeviceGetSerial": true, "DeviceGetPdi": true, "DeviceGetBoardId": true,
	"DeviceGetPciInfo": true, "DeviceGetPciInfoV2": true, "DeviceGetPciInfoV3": true, "DeviceGetPciInfoExt": true,
	"DeviceGetModuleId": true, "DeviceGetHandleByIndex": true, "SystemGetProcessName": true,
}

// TestSoftware compares the software NVML with what an H200 answered.
func TestSoftware(t *testing.T) {
	rows := recorded(t)
	for _, phase := range []string{before, initialized, after} {
		sim := cusim.New(cusim.VirtualTime())
		lib := raw.NewSoftware(sim.NVML())
		m := &machine{lib: lib}
		if phase != before {
			var err error
			if m, err = newMachine(lib, sim.Advance); err != nil {
				t.Fatal(err)
			}
		}
		if phase == after {
			lib.Shutdown()
		}
		different := 0
		for _, c := range callsIn(phase) {
			want, ok := expected(rows, phase, c)
			if !ok || c.method == "SystemGetProcessName" && c.args[0].text != "0" {
				continue // which processes there are differs
			}
			got := m.ask(c)
			if got == want || moves(c, want) && result(got) == result(want) {
				continue
			}
			if different++; different <= 40 {
				t.Errorf("%s %v: %q, an H200 %q", phase, c, got, want)
			}
		}
		if different > 40 {
			t.Errorf("%s: %d differences in all", phase, different)
		}
	}
}

// TestGPU compares the results of a GPU's NVML with those of the table. Other values than results may differ from machine
// to machine.
func TestGPU(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	rows := recorded(t)
	for _, phase := range []string{before, initialized, after} {
		list, err := answers("1", phase)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range callsIn(phase) {
			answer, ok := rowOf(rows, phase, c)
			if !ok || c.method == "SystemGetProcessName" {
				continue
			}
			if result(list[i]) != result(answer) {
				t.Errorf("%s %v: %q, the table has %q", phase, c, list[i], answer)
			}
		}
	}
}

// recorded reads the table.
func recorded(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("../../internal/simnvml/profiles/h200.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if cells := strings.SplitN(lines.Text(), "\t", 4); !strings.HasPrefix(cells[0], "#") {
			rows[strings.Join(cells[:3], "\t")] = cells[3]
		}
	}
	return rows
}

// rowOf returns what the table has for a call.
func rowOf(rows map[string]string, phase string, c call) (answer string, ok bool) {
	answer, ok = rows[phase+"\t"+c.String()]
	for general := range simnvml.General(c.texts()) {
		if ok {
			break
		}
		answer, ok = rows[phase+"\t"+c.method+"\t"+strings.Join(general, " ")]
	}
	if !ok && phase != initialized {
		return "1", true // NVML_ERROR_UNINITIALIZED
	}
	return answer, ok
}

// expected returns what the software NVML answers, which does not crash.
func expected(rows map[string]string, phase string, c call) (string, bool) {
	answer, ok := rowOf(rows, phase, c)
	if answer == "crash" {
		return "2", ok // NVML_ERROR_INVALID_ARGUMENT
	}
	return answer, ok
}

// moves reports whether the value of a call changes by itself, or is the software driver's own.
func moves(c call, want string) bool { return strings.HasPrefix(want, "~") || own[c.method] }

// result returns the result of an answer.
func result(answer string) string {
	r, _, _ := strings.Cut(strings.TrimPrefix(answer, "~"), "\t")
	return r
}
