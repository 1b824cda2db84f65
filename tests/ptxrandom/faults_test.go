package ptxrandom

import (
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/compile"
	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/mutate"
	"github.com/purecu/purecu/internal/ptx/vm"
)

var allFaults = flag.Bool("ptx.faults", false, "TestFaultsOfEntries executes all recorded programs; with -update it "+
	"writes testdata/faults.tsv")

// kernelOf is the kernel of a program, which is executed without a driver.
type kernelOf struct {
	*program
	kernel *vm.Kernel
	memory map[uint64][]byte
	image  []byte
	launch vm.Launch
}

// Region returns the memory at an address.
func (m *kernelOf) Region(addr uint64, _ bool) (uint64, []byte, bool) {
	for base, data := range m.memory {
		if addr-base < uint64(len(data)) {
			return base, data, false
		}
	}
	return 0, nil, false
}

const imageAt = 1 << 32

// translated returns the program, ready to be executed.
func (p *program) translated(lines []string) (*kernelOf, error) {
	mod, err := compile.Parse(p.header + strings.Join(lines, "\n"))
	if err != nil {
		return nil, err
	}
	k, err := mod.Kernel(fmt.Sprint("k", p.seed))
	if err != nil {
		return nil, err
	}
	m := &kernelOf{program: p, kernel: k, image: p.image(), memory: map[uint64][]byte{
		imageAt: vm.BytesOf(make([]uint64, imageSize/8))}}
	constants := make([]byte, mod.Constants)
	for _, v := range mod.Text.Vars {
		for i, value := range v.Init {
			binary.LittleEndian.PutUint32(constants[4*i:], uint32(value.Number.Bits))
		}
	}
	params := vm.BytesOf(make([]uint64, 11))[:80]
	binary.LittleEndian.PutUint64(params, imageAt)
	copy(params[16:], p.given())
	one := [3]uint32{1, 1, 1}
	m.launch = vm.Launch{Shape: vm.Shape{Grid: one, Block: [3]uint32{p.family.threads, 1, 1}, Cluster: one},
		Device: vm.Device{Memory: m, Multiprocessors: 132, Clock: func() int64 { return 1 }, Virtual: true},
		Params: params, Workers: 1,
		Resident: 1, Constants: k.Constants, Const: constants}
	return m, nil
}

// result returns the hash of what a kernel computes, or false if it has a fault.
func (m *kernelOf) result(k *vm.Kernel) (uint32, bool) {
	image := m.memory[imageAt]
	n := copy(image, m.image)
	for i := n; i < len(image); i++ {
		image[i] = 0xee
	}
	m.launch.Kernel = k
	_, fault := m.launch.Execute(new(vm.Stop))
	return m.hash(image[scratch:][:m.sizeOfOutcome()]), fault == nil
}

// faultsFile says which faults of entries the first programs do not find: the fault, and the seed of a
// program that finds it, or "-" if none does. The tests of internal/ptx/compile have to find the latter.
const faultsFile = "testdata/faults.tsv"

// firstPrograms is how many programs TestFaultsOfEntries executes, before those of faultsFile.
const firstPrograms = 1000

// TestFaultsOfEntries puts a fault into each entry of the table of instructions. The recorded programs
// have to find it, except for those of faultsFile.
func TestFaultsOfEntries(t *testing.T) {
	if testing.Short() && !*allFaults {
		t.Skip("it takes long, and does not depend on the platform")
	}
	const few, some = 4, 100 // executions with a fault that nothing is expected to find
	faults, listed := mutate.Faults(), readFaults(t)
	h := &hunt{T: t, table: mutate.NewTable(faults), want: recorded(t), found: make(map[*mutate.Fault]uint64),
		most: make(map[*mutate.Fault]int)}
	seeds := slices.Sorted(maps.Keys(h.want))
	if !*allFaults {
		seeds = seeds[:firstPrograms]
	}
	for _, f := range faults {
		seed, is := listed[f.String()]
		switch {
		case f.Unseen() != "" && *allFaults:
			h.most[f] = some
		case f.Unseen() != "", is && seed == 0 && !*allFaults:
			h.most[f] = few
		case is && !*allFaults: // below
		default:
			h.most[f] = math.MaxInt
		}
	}
	for _, n := range seeds {
		h.program(n, h.table.Of)
	}
	if *allFaults && *update {
		writeFaults(t, faults, h.found)
		return
	}
	for _, f := range faults {
		seed, is := listed[f.String()]
		if seed != 0 && h.found[f] == 0 {
			h.most[f] = math.MaxInt
			h.program(seed, func(*vm.Kernel) []*mutate.Fault { return []*mutate.Fault{f} })
		}
		missed := f.Unseen() != "" || is && seed == 0
		switch {
		case missed && h.found[f] != 0:
			t.Errorf("program %d finds %q: remove it from %s or from package mutate", h.found[f], f, faultsFile)
		case !missed && h.found[f] == 0:
			t.Errorf("no program finds %q: -run TestFaultsOfEntries -ptx.faults -update tries all, and writes %s", f,
				faultsFile)
		}
	}
	for name := range listed {
		if !slices.ContainsFunc(faults, func(f *mutate.Fault) bool { return f.String() == name && f.Unseen() == "" }) {
			t.Errorf("%s has %q, which is no fault that can be seen", faultsFile, name)
		}
	}
	t.Logf("%d entries, %d faults, of which programs find %d", len(isa.All()), len(faults), len(h.found))
}

// hunt looks for the faults that programs find.
type hunt struct {
	*testing.T
	table *mutate.Table
	want  map[uint64][2]uint32
	found map[*mutate.Fault]uint64
	most  map[*mutate.Fault]int // how many more programs are executed with the fault
}

// program executes a program with each of the faults of its kernel that were not found yet.
func (h *hunt) program(seed uint64, of func(k *vm.Kernel) []*mutate.Fault) {
	p := generate(seed)
	lines, _ := p.kernel(nil, -1, nil)
	if textHash(lines) != h.want[seed][0] {
		return // it has changed since
	}
	m, err := p.translated(lines)
	if err != nil {
		h.Fatalf("program %d: %v", seed, err)
	}
	if got, ok := m.result(m.kernel); !ok || got != h.want[seed][1] {
		h.Fatalf("program %d does not have the recorded results", seed)
	}
	for _, f := range of(m.kernel) {
		if h.most[f] == 0 {
			continue
		}
		k := h.table.Seed(f, m.kernel, 10_000)
		if k == nil {
			continue
		}
		h.most[f]--
		if got, ok := m.result(k); !ok || got != h.want[seed][1] {
			h.found[f] = seed
			h.table.Remove(f)
		}
	}
}

// readFaults returns what faultsFile says. The seed is 0 if there is none.
func readFaults(t *testing.T) map[string]uint64 {
	data, err := os.ReadFile(faultsFile)
	if err != nil {
		t.Fatal(err)
	}
	list := make(map[string]uint64)
	for line := range strings.Lines(string(data)) {
		if fault, seed, is := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); is {
			list[fault], _ = strconv.ParseUint(seed, 10, 64)
		}
	}
	return list
}

// writeFaults writes faultsFile.
func writeFaults(t *testing.T, faults []*mutate.Fault, found map[*mutate.Fault]uint64) {
	var b strings.Builder
	for _, f := range faults {
		switch seed := found[f]; {
		case seed == 0 && f.Unseen() == "":
			fmt.Fprintf(&b, "%s\t-\n", f)
		case seed > firstPrograms:
			fmt.Fprintf(&b, "%s\t%d\n", f, seed)
		}
		if found[f] != 0 && f.Unseen() != "" {
			t.Errorf("program %d finds %q: remove it from package mutate", found[f], f)
		}
	}
	if err := os.WriteFile(faultsFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
