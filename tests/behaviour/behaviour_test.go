package behaviour

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// caseLimit is how long a case may take before its process is killed.
const caseLimit = time.Minute

// targets returns the drivers of this machine, or skips the test.
func targets(t *testing.T) []target {
	t.Helper()
	var list []target
	for _, name := range slices.Sorted(maps.Keys(softwareDrivers())) {
		list = append(list, target{Name: name, Software: name})
	}
	switch gpu := os.Getenv("PURECU_TEST_GPU"); gpu {
	case "":
	case "1":
		list = append(list, target{Name: "gpu"})
	default:
		list = append(list, target{Name: "gpu", Library: gpu})
	}
	if path := os.Getenv("PURECU_TEST_SOFTLIB"); path != "" {
		list = append(list, target{Name: "softlib", Library: path, Cusim: true})
	}
	for _, path := range filepath.SplitList(os.Getenv("PURECU_TEST_LIBCUDA")) {
		list = append(list, target{Name: filepath.Base(filepath.Dir(path)), Library: path, NoDevice: true})
	}
	if len(list) == 0 {
		t.Skip("there is no driver to ask: PURECU_TEST_GPU and PURECU_TEST_LIBCUDA are not set")
	}
	return list
}

// TestDriver makes the steps of every case on every driver, and compares the answers with the
// table.
func TestDriver(t *testing.T) { runSuite(t, suiteRaw) }

// TestCu makes the steps through package cu, and compares the answers with the table. Package cu
// must not crash.
func TestCu(t *testing.T) { runSuite(t, suiteCu) }

// deviceless are the cases that need no GPU.
var deviceless = []string{"noinit"}

func runSuite(t *testing.T, s suiteName) {
	rows := table(t)
	for _, tg := range targets(t) {
		t.Run(tg.Name, func(t *testing.T) {
			for _, c := range suites()[s] {
				if tg.NoDevice && !slices.Contains(deviceless, c.name) {
					continue
				}
				t.Run(c.name, func(t *testing.T) { runCase(t, rowsOf(rows, s, c.name), job{Suite: s, Case: c.name, Target: tg}) })
			}
		})
	}
}

// runCase makes the steps of a case in a process of its own, and compares the answers with the
// rows.
func runCase(t *testing.T, rows []row, j job) {
	reports, err := launch(t, j, caseLimit)
	v := judge(rows, j.Suite, reports)
	for _, e := range v.errs {
		t.Error(e)
	}
	if err != nil {
		t.Error(err)
	}
	for _, n := range v.notes {
		t.Log(n)
	}
	switch {
	case t.Failed():
	case v.skip != "":
		t.Skip(v.skip)
	case v.asserted == 0:
		t.Skip("no row of this case is asserted on this driver, as above")
	default:
		t.Logf("%d of %d rows asserted", v.asserted, len(rows))
	}
}
