package ptxrandom

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	merge = flag.String("ptx.merge", "", "the `folder` with tables of TestGPU, to write testdata/recorded.bin from")
	seed  = flag.Uint64("ptx.seed", 0, "a `seed` whose program TestPrint prints")
)

// recordedPrograms is how many programs testdata/recorded.bin has, from the first on, and then
// those of the later families. Each has eight bytes: a hash of its text, and one of what a GPU
// has computed.
const recordedPrograms = 20_000

// recordedSeed returns the seed of a program of testdata/recorded.bin.
func recordedSeed(i int) uint64 {
	if i >= recordedPrograms {
		return mostOrdinary + 1 + uint64(i-recordedPrograms)
	}
	return 1 + uint64(i)
}

const recordedFile = "testdata/recorded.bin"

// recordedSeeds has further programs, which have shown differences, or are of the newest family: the seed and the two
// hashes.
const recordedSeeds = "testdata/seeds.tsv"

// exceptions has the programs that a GPU executes otherwise, as NVIDIA's compiler changes what
// the manual defines: the seed and the instruction, perhaps behind that whose result it takes
// wrongly. docs/ptx.md has the reasons.
const exceptions = "testdata/exceptions.tsv"

// recorded is what a GPU has computed, by the seed.
func recorded(t *testing.T) map[uint64][2]uint32 {
	t.Helper()
	list := make(map[uint64][2]uint32)
	data, err := os.ReadFile(recordedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for i := 0; i+8 <= len(data); i += 8 {
		if h := [2]uint32{binary.LittleEndian.Uint32(data[i:]), binary.LittleEndian.Uint32(data[i+4:])}; h != [2]uint32{} {
			list[recordedSeed(i/8)] = h
		}
	}
	readHashes(t, recordedSeeds, list)
	return list
}

// readHashes adds the hashes of a table.
func readHashes(t *testing.T, name string, list map[uint64][2]uint32) {
	t.Helper()
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var n uint64
		var h [2]uint32
		if _, err := fmt.Sscanf(lines.Text(), "%d\t%x\t%x", &n, &h[0], &h[1]); err == nil {
			list[n] = h
		}
	}
}

// readExceptions returns what testdata/exceptions.tsv says, by the seed.
func readExceptions(t *testing.T) map[uint64]string {
	t.Helper()
	data, err := os.ReadFile(exceptions)
	if err != nil {
		t.Fatal(err)
	}
	list := make(map[uint64]string)
	for line := range strings.Lines(string(data)) {
		var n uint64
		if seed, text, is := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); is {
			fmt.Sscan(seed, &n)
			list[n] = text
		}
	}
	return list
}

// TestMerge puts the tables of TestGPU into testdata/recorded.bin and the other files, if
// -ptx.merge names their folder. Programs that the tables do not have stay.
func TestMerge(t *testing.T) {
	if *merge == "" {
		return
	}
	list, except := recorded(t), readExceptions(t)
	names, _ := filepath.Glob(filepath.Join(*merge, "ptx-hashes-*.tsv"))
	for _, name := range names {
		readHashes(t, name, list)
	}
	text := rejectedText
	for _, what := range rejections(t, *merge) {
		if !rejected()[what] {
			rejected()[what] = true
			text += what + "\n"
		}
	}
	if err := os.WriteFile("testdata/rejected.txt", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	different := differences(t, *merge)
	for _, d := range different {
		if h, is := list[d.Seed]; is && simulatedHash(t, d.Seed) != h {
			if except[d.Seed] == "" || d.Text != "" { // a difference in the memory at the end names no instruction
				except[d.Seed] = d.Text
			}
			delete(list, d.Seed)
		}
	}
	var lines strings.Builder
	for _, n := range slices.Sorted(maps.Keys(except)) {
		if _, equal := list[n]; !equal {
			fmt.Fprintf(&lines, "%d\t%s\n", n, except[n])
		}
	}
	if err := os.WriteFile(exceptions, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 0, 8*(recordedPrograms+mostSeed-mostOrdinary))
	for i := range recordedPrograms + mostSeed - mostOrdinary {
		h := list[recordedSeed(i)]
		data = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(data, h[0]), h[1])
	}
	if err := os.WriteFile(recordedFile, data, 0o644); err != nil {
		t.Fatal(err)
	}
	further := make(map[uint64][2]uint32)
	readHashes(t, recordedSeeds, further)
	count := make(map[string]int)
	for _, d := range different {
		if d.Seed > recordedPrograms && d.Seed <= mostOrdinary && count[d.Form] < 10 {
			count[d.Form]++
			further[d.Seed] = [2]uint32{}
		}
	}
	var seeds strings.Builder
	for _, n := range slices.Sorted(maps.Keys(further)) {
		if h, is := list[n]; is {
			fmt.Fprintf(&seeds, "%d\t%08x\t%08x\n", n, h[0], h[1])
		}
	}
	if err := os.WriteFile(recordedSeeds, []byte(seeds.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// allDifferences returns what tables of TestGPU say.
func allDifferences(t *testing.T, folder string) (list []difference) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(folder, "ptx-differences-*.tsv"))
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			parts := strings.Split(line, "\t")
			d := difference{Form: parts[2], Shape: parts[3], Text: parts[4], Why: strings.TrimSpace(parts[10])}
			fmt.Sscan(parts[0], &d.Seed)
			fmt.Sscan(parts[1], &d.Item)
			list = append(list, d)
		}
	}
	return list
}

// rejections returns the instructions that NVIDIA's compiler rejects according to tables of TestGPU, as
// testdata/rejected.txt has them.
func rejections(t *testing.T, folder string) (list []string) {
	t.Helper()
	for _, d := range allDifferences(t, folder) {
		if d.Item >= 0 && strings.Contains(d.Why, "the GPU's driver rejects it") {
			list = append(list, strings.TrimSuffix(d.Form+"\t"+d.Shape, "\t"))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// differences returns what tables of TestGPU say about the results of programs.
func differences(t *testing.T, folder string) (list []difference) {
	t.Helper()
	for _, d := range allDifferences(t, folder) {
		if d.Item >= -1 && d.Why == "" {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b difference) int { return int(int64(a.Seed) - int64(b.Seed)) })
	return list
}

// simulatedHash returns the hashes of a program on the software driver.
func simulatedHash(t *testing.T, seed uint64) [2]uint32 {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m, err := simulated()
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	p := generate(seed)
	lines, _ := p.kernel(nil, -1, nil)
	list, err := executed(m, newBatch(p))
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return [2]uint32{}
	}
	return [2]uint32{textHash(lines), p.hash(list[0])}
}

// TestRecorded executes the programs whose results a GPU has computed.
func TestRecorded(t *testing.T) {
	want := recorded(t)
	var seeds []uint64
	for n := range want {
		if !testing.Short() || n%10 == 0 {
			seeds = append(seeds, n)
		}
	}
	slices.Sort(seeds)
	var batches [][]uint64
	for from := 0; from < len(seeds); {
		to := from
		for to < min(from+batchSize, len(seeds)) && familyOf(seeds[to]) == familyOf(seeds[from]) {
			to++
		}
		batches, from = append(batches, seeds[from:to]), to
	}
	var next, stale, wrong, right atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			m, err := simulated()
			if err != nil {
				t.Error(err)
				return
			}
			defer m.close()
			for {
				i := int(next.Add(1) - 1)
				if i >= len(batches) || wrong.Load() > 20 {
					return
				}
				b := newBatch()
				for _, n := range batches[i] {
					p := generate(n)
					lines, _ := p.kernel(nil, -1, nil)
					if textHash(lines) != want[n][0] {
						stale.Add(1)
						continue
					}
					b.programs, b.skip = append(b.programs, p), append(b.skip, map[int]bool{})
				}
				if len(b.programs) == 0 {
					continue
				}
				list, err := executed(m, b)
				if err != nil {
					wrong.Add(1)
					t.Errorf("programs %d to %d: %v", b.programs[0].seed, b.programs[len(b.programs)-1].seed, err)
					continue
				}
				for j, p := range b.programs {
					if p.hash(list[j]) == want[p.seed][1] {
						right.Add(1)
					} else if wrong.Add(1) <= 20 {
						t.Errorf("seed %d: the results are not those of a GPU: -run TestGPU -ptx.from=%d -ptx.to=%d on a GPU tells more",
							p.seed, p.seed, p.seed)
					}
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d programs have the results of a GPU; %d have changed since", right.Load(), stale.Load())
	if len(seeds) > 0 && stale.Load() > int64(len(seeds)/4) {
		t.Errorf("%d of %d programs are not those that were recorded: record them anew on a GPU (tests/gpu/run, step ptx)",
			stale.Load(), len(seeds))
	}
}

// executed executes the programs of a batch on one driver.
func executed(m *machine, b *batch) ([]outcome, error) {
	b.build()
	mod, log, r := m.load(b.text)
	if r != ok {
		return nil, fmt.Errorf("the module is rejected (%d): %s", int(r), log)
	}
	defer m.ModuleUnload(m.at, mod)
	var images [][]byte
	for _, p := range b.programs {
		images = append(images, p.image())
	}
	list, r := m.executeAll(mod, b.programs, images, 0)
	if r != ok {
		return nil, r
	}
	return list, nil
}

// faults are what a driver with a fault reads instead of the text.
var faults = [][2]string{
	{"add.rz.f32", "add.rn.f32"}, {"fma.rn.ftz.f32", "fma.rn.f32"}, {"min.s32", "min.u32"},
	{"shf.l.clamp", "shf.l.wrap"}, {"shfl.sync.up", "shfl.sync.down"}, {"setp.geu.f64", "setp.ge.f64"},
	{"prmt.b32.ecl", "prmt.b32.ecr"}, {"rem.s64", "rem.u64"}, {"ld.volatile.global.s8", "ld.volatile.global.u8"},
	{"subc.u32", "addc.u32"}, {"cvt.rmi.s32.f32", "cvt.rpi.s32.f32"}, {"red.global.max.s32", "red.global.min.s32"},
	{"match.any", "match.all"}, {"vsub4.u32.u32.u32 ", "vadd4.u32.u32.u32 "},
	{"cvt.rn.satfinite.relu.e4m3x2", "cvt.rn.satfinite.e4m3x2"}, {"m8n8.x1.trans", "m8n8.x1"},
	{"@!%p0 bra", "@%p0 bra"}, {"bar.red.or", "bar.red.and"}, {"mul.bf16x2", "add.bf16x2"},
	{"ex2.approx.f32", "sqrt.approx.f32"}, {".satfinite.s32.u8.u8.s32", ".satfinite.s32.s8.u8.s32"},
	{"atom.exch", "atom.exch"}, // no fault
}

// TestFaults checks that faults of a driver are found.
func TestFaults(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pr := &pairOf{known: make(map[verdict]string), begin: func(uint64) {}}
	for _, m := range []**machine{&pr.gpu, &pr.sim} {
		var err error
		if *m, err = simulated(); err != nil {
			t.Fatal(err)
		}
		defer (*m).close()
	}
	for _, f := range faults {
		pr.gpu.change = func(text string) string { return strings.ReplaceAll(text, f[0], f[1]) }
		found, tried := 0, 0
		for n := uint64(1); n < 40_000 && tried < 60 && found == 0; n++ {
			p := generate(n)
			lines, _ := p.kernel(nil, -1, nil)
			if !strings.Contains(strings.Join(lines, "\n"), f[0]) {
				continue
			}
			tried++
			rep := pr.run(n, n+1, false)
			if rep.Died {
				t.Fatalf("%s: seed %d ends the context", f, n)
			}
			for _, d := range rep.Differences {
				if d.Item != -3 {
					found++
				}
			}
		}
		if is := found > 0; is != (f[0] != f[1]) {
			t.Errorf("%q instead of %q: found %v in %d programs", f[1], f[0], is, tried)
		}
	}
}

// TestPrint prints the program of -ptx.seed.
func TestPrint(t *testing.T) {
	if *seed == 0 {
		return
	}
	b := newBatch(generate(*seed))
	fmt.Println(b.text)
}
