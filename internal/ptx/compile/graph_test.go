package compile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/syntax"
)

// TestCycles compares the cycles of random call graphs with those that following all calls finds.
func TestCycles(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		functions := []*syntax.Function{nil}
		for range 1 + random.IntN(8) {
			functions = append(functions, new(syntax.Function))
		}
		g := &callGraph{calls: make(map[*syntax.Function][]*syntax.Function),
			cycles: make(map[*syntax.Function]int), recursive: make(map[*syntax.Function]bool)}
		for range random.IntN(2 * len(functions)) {
			from := functions[random.IntN(len(functions))]
			g.calls[from] = append(g.calls[from], functions[random.IntN(len(functions))])
		}
		g.findCycles(functions[1:])
		reach := func(f *syntax.Function) map[*syntax.Function]bool {
			seen := make(map[*syntax.Function]bool)
			for list := g.calls[f]; len(list) > 0; list = list[1:] {
				if callee := list[0]; !seen[callee] {
					seen[callee] = true
					list = append(list[:len(list):len(list)], g.calls[callee]...)
				}
			}
			return seen
		}
		for _, f := range functions[1:] {
			if got, want := g.recursive[f], reach(f)[f]; got != want {
				t.Fatalf("a function is recursive: %v, want %v", got, want)
			}
			if got, want := g.pointers(f), reach(f)[nil]; got != want {
				t.Fatalf("a function calls by addresses: %v, want %v", got, want)
			}
			for _, callee := range g.calls[f] {
				got, want := g.cycles[f] == g.cycles[callee], callee == f || reach(callee)[f]
				if got != want {
					t.Fatalf("a function may call back: %v, want %v", got, want)
				}
			}
		}
	}
}

// TestLongChainOfCalls translates a kernel with many functions, each of which calls the next one. It takes
// long if the time grows with the square of their number.
func TestLongChainOfCalls(t *testing.T) {
	const n = 30_000
	var b strings.Builder
	fmt.Fprintf(&b, "%s.func f%d() { ret; }\n", textHeader, n)
	for i := n - 1; i >= 0; i-- {
		fmt.Fprintf(&b, ".func f%d() { call f%d; ret; }\n", i, i+1)
	}
	m, err := Parse(b.String() + ".entry k() { call f0; ret; }")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Kernel("k"); err != nil {
		t.Error(err)
	}
}
