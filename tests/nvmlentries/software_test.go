package nvmlentries

import (
	"bufio"
	"os"
	"reflect"
	"regexp"
	"slices"
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
		different, compared := 0, 0
		for _, c := range callsIn(phase) {
			want, ok := expected(rows, phase, c)
			if !ok || c.method == "SystemGetProcessName" && c.args[0].text != "0" {
				continue // which processes there are differs
			}
			compared++
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
		if least := len(callsIn(phase)) * 9 / 10; compared < least {
			t.Errorf("%s: the table has only %d calls", phase, compared)
		}
	}
}

// cardsDiffer are functions whose results differ between two H200s with the same driver.
var cardsDiffer = map[string]bool{
	"GpuInstanceGetActiveVgpus": true, // of a wrong handle it may crash
	"DeviceGetLastBBXFlushTime": true, // NVML_ERROR_NOT_READY, or a time, and then NULL crashes
}

// TestGPU compares the results of a GPU's NVML with those of the table. Other values than results may differ from
// machine to machine.
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
			if !ok || c.method == "SystemGetProcessName" || cardsDiffer[c.method] {
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
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if cells := strings.SplitN(lines.Text(), "\t", 4); !strings.HasPrefix(cells[0], "#") {
			rows[strings.Join(cells[:3], "\t")] = cells[3]
		}
	}
	if err := lines.Err(); err != nil || len(rows) < 3000 {
		t.Fatalf("%d rows: %v", len(rows), err)
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

// TestFaults checks that a fault of a function, by its name in C, is what its call returns, and no call of another one.
func TestFaults(t *testing.T) {
	sim := cusim.New(cusim.VirtualTime())
	m, err := newMachine(raw.NewSoftware(sim.NVML()), sim.Advance)
	if err != nil {
		t.Fatal(err)
	}
	export := regexp.MustCompile(`V(\d)$`)
	for _, c := range callsIn(before) {
		name := "nvml" + export.ReplaceAllString(c.method, "_v$1")
		for _, want := range []raw.Return{777, raw.Lacks("nvmlDeviceGetName"), raw.NVML_ERROR_NOT_SUPPORTED,
			raw.NVML_ERROR_NOT_FOUND} {
			sim.InjectNVML(cusim.NVMLFault{Function: name, Result: want})
			if got := result(m.ask(c)); got != resultText(want) {
				t.Errorf("%v with a fault: %s, not %s", c, got, resultText(want))
			}
			sim.ClearFaults()
		}
	}
	for name, call := range map[string]func() raw.Return{"nvmlInit_v2": m.lib.InitV2, "nvmlShutdown": m.lib.Shutdown} {
		sim.InjectNVML(cusim.NVMLFault{Function: name, Result: 777})
		if r := call(); r != 777 {
			t.Errorf("%s with a fault: %v", name, r)
		}
		sim.ClearFaults()
	}
}

// TestReused checks that a call sets also what is zero: its variables may have other values.
func TestReused(t *testing.T) {
	sim := cusim.New(cusim.VirtualTime())
	m, err := newMachine(raw.NewSoftware(sim.NVML()), sim.Advance)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range callsIn(before) {
		clean := m.ask(c)
		if result(clean) != "0" {
			continue
		}
		dirty := call{c.method, slices.Clone(c.args)}
		for i, a := range c.args {
			v := a.value(m)
			if a.text == "*" && inputs[v.Type().Elem()] == nil || a.text == "#512" {
				dirty.args[i].value = func(m *machine) reflect.Value {
					v := a.value(m)
					fill(v)
					return v
				}
			}
		}
		// A list that is counted keeps the elements that are not there, and an answer without a change is none.
		got := m.ask(dirty)
		kept := strings.Contains(got, "4294967295") && !strings.Contains(clean, "4294967295")
		if result(got) != "0" || kept && !strings.Contains(c.String(), "=512") {
			t.Errorf("%v: %q, and %q with variables that are reused", c, clean, got)
		}
	}
}

// fill sets all numbers to their largest value, but for versions.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && v.Type().Field(i).Name != "Version" {
				fill(f)
			}
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(0xffffffff)
	case reflect.Int32, reflect.Int64:
		v.SetInt(-1)
	}
}
