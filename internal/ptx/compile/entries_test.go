package compile

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/mutate"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// laterFaults are the faults of entries of the table that no random program finds, as the test of package
// ptxrandom has written them.
func laterFaults(t *testing.T) (list []string) {
	data, err := os.ReadFile("../../../tests/ptxrandom/testdata/faults.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if fault, is := strings.CutSuffix(line, "\t-\n"); is {
			list = append(list, fault)
		}
	}
	return list
}

// TestFaultsOfEntries puts faults into the entries of the table of instructions. What random programs do not
// find has to be found here, and what cannot be seen must not be found.
func TestFaultsOfEntries(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long, and does not depend on the platform")
	}
	later := laterFaults(t)
	faults := slices.DeleteFunc(mutate.Faults(), func(f *mutate.Fault) bool {
		return f.Unseen() == "" && !slices.Contains(later, f.String())
	})
	table, found := mutate.NewTable(faults), make(map[*mutate.Fault]string)
	note := func(f *mutate.Fault, name string) {
		found[f] = name
		table.Remove(f)
	}
	for _, e := range slices.Concat(recordedExamples(t), recordedWarps(t), manualExamples(), videoExamples(),
		recordedVideoExamples(), hintExamples(), unrecordedExamples(), products(), fragments(), warpgroups(),
		recordedMatrices(t)) {
		k, err := e.kernel()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range table.Of(k) {
			if seeded := table.Seed(f, k, 10_000); seeded != nil && e.wrong(seeded) != "" {
				note(f, e.name)
			}
		}
	}
	files := recordedKernels(t)
	for _, base := range textsOf(files) {
		if strings.HasPrefix(base, "coop.") { // how often its blocks look for each other depends on the time
			continue
		}
		for _, f := range possible(t, table, files[base+".ptx"]) {
			if f.Unseen() == "" && wrongWith(t, table, f, files, base) {
				note(f, base)
			}
		}
	}
	for _, f := range faults {
		switch why := f.Unseen(); {
		case found[f] == "" && why == "":
			t.Errorf("nothing finds %q: add an instruction to the table of TestManual", f)
		case found[f] != "" && why != "":
			t.Errorf("%q finds %q: remove it from package mutate", found[f], f)
		}
	}
	t.Logf("%d faults that random programs do not find are found", len(found))
}

// possible returns the faults that the kernels of a text can have.
func possible(t *testing.T, table *mutate.Table, text string) (list []*mutate.Fault) {
	m, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for name := range m.kernels {
		k, err := m.Kernel(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range table.Of(k) {
			if !slices.Contains(list, f) {
				list = append(list, f)
			}
		}
	}
	return list
}

// wrongWith reports whether a recorded text does something else with a fault.
func wrongWith(t *testing.T, table *mutate.Table, f *mutate.Fault, files map[string]string, base string) bool {
	s, err := newScene(files[base+".ptx"])
	if err != nil {
		t.Fatal(err)
	}
	seeded := false
	s.change = func(k *vm.Kernel) *vm.Kernel {
		if other := table.Seed(f, k, 1_000_000); other != nil {
			k, seeded = other, true
		}
		return k
	}
	why, err := s.wrong(files, base)
	return seeded && (why != "" || err != nil)
}
