package cutest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// SeedRange are the seeds of [Seeds].
type SeedRange struct {
	t *testing.T
	n int
}

// Seeds makes a test run with the seeds from 1 to n, each of which makes kernels execute in another order, so
// that the test finds races:
//
//	cutest.Seeds(t, 100).Run(func(t *testing.T, seed uint64) {
//		ctx := cutest.Context(t, cusim.Seed(seed))
//		…
//	})
//
// If the environment variable PURECU_TEST_GPU is set, the test runs once, as options have no effect on the
// machine's GPU.
func Seeds(t *testing.T, n int) SeedRange {
	t.Helper()
	if n < 1 {
		t.Fatalf("cutest: Seeds: %d is no number of seeds, which begins at 1", n)
	}
	if os.Getenv(Environment) != "" {
		n = 1
	}
	return SeedRange{t, n}
}

// Run runs f as a subtest for each seed, until one fails. Then it logs the seed, and how to run the test with
// this seed only. f passes cusim.Seed(seed) to [Context], [Driver] or [Soft]: without this option the order is
// always the same. f must not call t.Parallel, with which a subtest fails only after Run has returned.
func (r SeedRange) Run(f func(t *testing.T, seed uint64)) {
	r.t.Helper()
	for seed := uint64(1); seed <= uint64(r.n); seed++ {
		name := fmt.Sprintf("seed=%d", seed)
		if !r.t.Run(name, func(t *testing.T) { f(t, seed) }) {
			r.t.Logf("cutest: seed %d of %d fails; to repeat it: go test -run '%s'", seed, r.n,
				pattern(r.t.Name()+"/"+name))
			return
		}
	}
}

// pattern returns the pattern with which go test runs one test.
func pattern(name string) string {
	var list []string
	for part := range strings.SplitSeq(name, "/") {
		list = append(list, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(list, "/")
}
