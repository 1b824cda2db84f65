//go:build explore

package explore

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

var (
	preemptionsFlag = flag.Int("explore.preemptions", 2, "explore every schedule with up to `N` preemptions")
	randomFlag      = flag.Int("explore.random", 300, "then explore `N` random schedules")
	seedFlag        = flag.Uint64("explore.seed", 1, "the random schedules' `seed`")
	replayFlag      = flag.String("explore.replay", "", "run this `schedule` alone: select the program by -run")
)

// Check runs a program under many schedules, and fails the test with the first schedule that fails.
// The program is a function that creates its state and starts the goroutines. It must depend on
// nothing but the schedule. Tests that call Check must not run in parallel.
func Check(t testing.TB, program func(r *Run)) {
	t.Helper()
	if *replayFlag != "" {
		decisions, err := parse(*replayFlag)
		if err != nil {
			t.Fatal(err)
		}
		r := again(program, decisions)
		t.Logf("the schedule:\n%s", strings.Join(r.trace, "\n"))
		if r.failure != "" {
			t.Fatal(r.failure)
		}
		return
	}
	n, failed := explore(program, *preemptionsFlag, *randomFlag, *seedFlag)
	if failed == nil {
		t.Logf("%d schedules", n)
		return
	}
	r := again(program, failed.decisions)
	if r.failure != failed.failure {
		t.Fatalf(
			"schedule %d failed: %s\nWhen it was run again: %q. The program does not depend on the schedule alone.",
			n,
			failed.failure,
			r.failure,
		)
	}
	t.Fatalf("schedule %d failed: %s\n%s\nTo run it again: -run '^%s$' -explore.replay='%s'",
		n, r.failure, strings.Join(r.trace, "\n"), t.Name(), format(failed.decisions))
}

// explore runs a program under all schedules with at most the given number of preemptions, and then
// under random schedules. It returns the number of runs, and the run that failed, or nil.
func explore(program func(*Run), preemptions, random int, seed uint64) (n int, failed *Run) {
	for all := (&exhaustive{bound: preemptions}); ; {
		r := &Run{strategy: all}
		r.do(program)
		if n++; r.failure != "" {
			return n, r
		}
		if !all.advance() {
			break
		}
	}
	source := rand.New(rand.NewPCG(seed, 0))
	for range random {
		r := &Run{strategy: &randomly{source, 1 + source.IntN(12)}}
		r.do(program)
		if n++; r.failure != "" {
			return n, r
		}
	}
	return n, nil
}

// again runs a program under a known schedule, and records the steps.
func again(program func(*Run), decisions []int) *Run {
	r := &Run{strategy: &replay{decisions}, traced: true}
	r.do(program)
	return r
}

// exhaustive chooses all schedules, in the order of a depth-first search.
type exhaustive struct {
	bound int
	path  []branch // the decisions of the present run
	depth int      // how many of them have been made
}

// branch is a decision of a run.
type branch struct{ option, options int }

func (e *exhaustive) pick(r *Run, n int, preempting bool) int {
	if preempting && r.preemptions >= e.bound {
		return 0
	}
	if e.depth == len(e.path) {
		e.path = append(e.path, branch{0, n})
	}
	e.depth++
	return e.path[e.depth-1].option
}

// advance selects the next schedule, and reports false if there is none.
func (e *exhaustive) advance() bool {
	e.depth = 0
	for i := len(e.path) - 1; i >= 0; i-- {
		if b := &e.path[i]; b.option+1 < b.options {
			b.option++
			e.path = e.path[:i+1]
			return true
		}
	}
	return false
}

// randomly chooses at random. It preempts a goroutine with a probability of 1/(rarity+1).
type randomly struct {
	source *rand.Rand
	rarity int
}

func (s *randomly) pick(_ *Run, n int, preempting bool) int {
	switch {
	case !preempting:
		return s.source.IntN(n)
	case s.source.IntN(s.rarity+1) != 0:
		return 0
	}
	return 1 + s.source.IntN(n-1)
}

// replay repeats decisions. After the last one it preempts no goroutine.
type replay struct{ decisions []int }

func (s *replay) pick(_ *Run, n int, _ bool) int {
	if len(s.decisions) == 0 {
		return 0
	}
	i := s.decisions[0]
	s.decisions = s.decisions[1:]
	return min(i, n-1)
}

// format encodes decisions: "7*0 1 2*0 2" is seven times 0, then 1, twice 0, and 2. Zeros at the
// end are omitted.
func format(decisions []int) string {
	var words []string
	for i := 0; i < len(decisions); {
		n := 1
		for i+n < len(decisions) && decisions[i+n] == decisions[i] {
			n++
		}
		switch word := strconv.Itoa(decisions[i]); {
		case i+n == len(decisions) && decisions[i] == 0:
		case n == 1:
			words = append(words, word)
		default:
			words = append(words, fmt.Sprintf("%d*%s", n, word))
		}
		i += n
	}
	if words == nil {
		return "0"
	}
	return strings.Join(words, " ")
}

// parse decodes the result of format.
func parse(s string) (decisions []int, err error) {
	for _, word := range strings.Fields(s) {
		n, rest := 1, word
		if count, option, repeated := strings.Cut(word, "*"); repeated {
			if n, err = strconv.Atoi(count); err != nil {
				return nil, fmt.Errorf("the schedule's part %q: %w", word, err)
			}
			rest = option
		}
		option, err := strconv.Atoi(rest)
		if err != nil || option < 0 {
			return nil, fmt.Errorf("the schedule's part %q is not a decision", word)
		}
		for range n {
			decisions = append(decisions, option)
		}
	}
	return decisions, nil
}
