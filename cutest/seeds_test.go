package cutest_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

// mistaken are kernels with mistakes whose results are right in the usual order of warps and blocks. p is the memory
// of 256 words, which are zero at first, and t the number of the thread.
const mistaken = `.version 7.0 .target sm_70 .address_size 64
.visible .entry update(.param .u64 p0) { // each warp and each block adds 1 to one word, and not atomically
	.reg .b32 t, v; .reg .b64 p; .reg .pred q;
	ld.param.u64 p, [p0];
	mov.u32 t, %laneid;
	setp.ne.u32 q, t, 0;
	@q ret;
	ld.global.u32 v, [p];
	add.u32 v, v, 1;
	st.global.u32 [p], v;
	ret;
}
.visible .entry flag(.param .u64 p0) { // a warp reads what another one has written, without a barrier between
	.reg .b32 t, a, b, v; .reg .b64 p;
	.shared .b32 s[128];
	ld.param.u64 p, [p0];
	mov.u32 t, %tid.x; mov.u32 a, s; mad.lo.u32 a, t, 4, a;
	st.shared.u32 [a], 1;
	and.b32 t, t, 31; mov.u32 b, s; mad.lo.u32 b, t, 4, b;
	ld.shared.u32 v, [b];
	mov.u32 t, %tid.x; mad.wide.u32 p, t, 4, p;
	st.global.u32 [p], v;
	ret;
}
.visible .entry last(.param .u64 p0) { // the block that counts last writes its number, which must not matter
	.reg .b32 v, b; .reg .b64 p;
	ld.param.u64 p, [p0];
	atom.global.add.u32 v, [p], 1;
	mov.u32 b, %ctaid.x;
	mad.wide.u32 p, v, 4, p;
	st.global.u32 [p+4], b;
	ret;
}`

// words launches a kernel of mistaken, and returns the first words of its memory.
func words(gpu *cu.Context, kernel string, blocks, threads uint32, n int) []byte {
	mod := must(gpu.LoadModule([]byte(mistaken)))
	defer mod.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mem := must(gpu.Alloc(1024))
	defer mem.Close()
	check(mem.CopyFrom(make([]byte, 1024)))
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: blocks}, Block: cu.Dim3{X: threads}}
	check(must(mod.Function(kernel)).Launch(s, cfg, cu.Ptr(mem)))
	check(s.Synchronize())
	b, all := make([]byte, 1024), []byte{}
	check(mem.CopyTo(b))
	for i := range n {
		all = append(all, b[4*i])
	}
	return all
}

// TestSeed finds the mistakes of kernels by some seeds, again by the same seeds, and not without one.
func TestSeed(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, tt := range []struct {
		name, kernel    string
		blocks, threads uint32
		right           []byte
		most            int // of 50 seeds that find nothing
	}{
		{"a lost update between warps", "update", 1, 128, []byte{4}, 30},
		{"a lost update between blocks", "update", 4, 32, []byte{4}, 35},
		{"a barrier is missing", "flag", 1, 128, slices.Repeat([]byte{1}, 128), 30},
		{"the order of blocks", "last", 4, 1, []byte{4, 0, 1, 2, 3}, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			with := func(opts ...cusim.Option) []byte {
				gpu, done := software(cusim.New(opts...))
				defer done()
				return words(gpu, tt.kernel, tt.blocks, tt.threads, len(tt.right))
			}
			runtime.GOMAXPROCS(1)
			if got := with(); !slices.Equal(got, tt.right) {
				t.Errorf("without a seed: %d, want %d", got, tt.right)
			}
			unfound, results := 0, map[string]bool{}
			for seed := range uint64(50) {
				runtime.GOMAXPROCS(1)
				one := with(cusim.Seed(seed))
				runtime.GOMAXPROCS(4)
				env := must(cusim.Environment([]string{fmt.Sprintf("CUSIM_SEED=%d", seed)}))
				if again := with(env); !slices.Equal(one, again) {
					t.Fatalf("seed %d: %d, and then %d", seed, one, again)
				}
				results[string(one)] = true
				if slices.Equal(one, tt.right) {
					unfound++
				}
			}
			if unfound > tt.most || len(results) < 2 {
				t.Errorf("%d of 50 seeds find nothing, and there are %d results", unfound, len(results))
			}
		})
	}
}

// TestSeeds runs itself in another process, in which it fails, and there again with the pattern that this one says.
func TestSeeds(t *testing.T) {
	if os.Getenv("PURECU_TEST_SEEDS") != "" {
		cutest.Seeds(t, 100).Run(func(t *testing.T, seed uint64) {
			fmt.Printf("[%d]", seed)
			if got := words(cutest.Context(t, cusim.Seed(seed)), "update", 1, 128, 1); got[0] != 4 {
				t.Errorf("%d of 4 updates", got[0])
			}
		})
		return
	}
	run := func(pattern string) string {
		cmd := exec.Command(must(os.Executable()), "-test.run", pattern)
		cmd.Env = append(os.Environ(), "PURECU_TEST_SEEDS=1", cutest.Environment+"=")
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("-run %s: the test does not fail: %s", pattern, out)
		}
		return string(out)
	}
	first := run("^TestSeeds$")
	const says = `cutest: seed (\d+) of 100 fails; to repeat it: go test -run '(.*)'`
	said := regexp.MustCompile(says).FindStringSubmatch(first)
	if said == nil {
		t.Fatalf("no seed is named: %s", first)
	}
	again := run(said[2])
	updates := regexp.MustCompile(`\d of 4 updates`)
	if a, b := updates.FindString(first), updates.FindString(again); a != b || a == "" {
		t.Errorf("%q, and then %q", a, b)
	}
	tried := strings.Join(regexp.MustCompile(`\[\d+\]`).FindAllString(again, -1), "")
	want := "[" + said[1] + "]"
	if tried != want || !strings.Contains(first, want) || strings.Contains(first, "[100]") {
		t.Errorf("first %s, and then %s", first, again)
	}
}
