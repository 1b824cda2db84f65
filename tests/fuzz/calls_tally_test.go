package fuzz

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// These are the least that random calls need, in percent: the calls of a function, those of a group of
// functions, and the calls of a function that succeed. A sequence needs many calls of some functions,
// and there are some 300, so that a function cannot have as much as a group.
const (
	leastOfFunction = 0.05
	leastOfGroup    = 0.5
	leastSuccess    = 10
)

// slow are functions whose calls that succeed take so long on a GPU that few may: it needs 0.2 to 0.5 seconds for a
// context.
var slow = []string{"cuCtxCreate_v3", "cuCtxCreate_v4"}

// callGroup is functions that belong together.
type callGroup struct {
	name  string
	calls []randomCall
}

var callGroups = []callGroup{
	{"memory", memoryCalls},
	{"copies and sets", copyCalls},
	{"pools", poolCalls},
	{"virtual memory", virtualCalls},
	{"streams, functions and contexts", attributeCalls},
	{"graphs", slices.Concat(graphCalls, updateCalls, []randomCall{graphEvent})},
	{"nodes of one type", nodeCalls},
	{"nodes of any type and conditions", anyNodeCalls},
	{"edges with data", edgeCalls},
	{"libraries and modules", slices.Concat(libraryCalls[:8], moduleCalls)},
	{"kernels of libraries", libraryCalls[8:]},
	{"linkers", linkCalls},
	{"memory operations", memOpCalls},
	{"batches and attributes of pointers", batchCalls},
	{"memory of other APIs", externalCalls},
	{"copies and sets on streams, and attributes of memory", slices.Concat(asyncCalls, memoryAttributeCalls)},
	{"events", eventCalls},
	{"attributes of streams and functions of the host", streamCalls},
	{"captures", captureCalls},
	{"nodes with events", eventNodeCalls},
	{"nodes with functions of the host, and child graphs", hostNodeCalls},
	{"user objects and the memory of graphs", objectCalls},
	{"launches and occupancy", launchCalls},
	{"modules and files", loadCalls},
	{"contexts", contextCalls},
	{"devices", deviceCalls},
	{"pools of devices", devicePoolCalls},
	{"green contexts", greenCalls},
}

// tally counts the calls of functions.
type tally map[string]*made

// made is how many calls were made, and how many of them succeeded.
type made struct{ Calls, Succeeded int }

func (m *made) success() float64 { return 100 * float64(m.Succeeded) / float64(max(m.Calls, 1)) }

func (y tally) add(call string, succeeded bool) {
	f := functionOf(call)
	if y[f] == nil {
		y[f] = new(made)
	}
	if y[f].Calls++; succeeded {
		y[f].Succeeded++
	}
}

// addAll adds the calls of another tally.
func (y tally) addAll(other tally) {
	for f, m := range other {
		if y[f] == nil {
			y[f] = new(made)
		}
		y[f].Calls += m.Calls
		y[f].Succeeded += m.Succeeded
	}
}

// of returns the calls of a function.
func (y tally) of(function string) *made {
	if m := y[function]; m != nil {
		return m
	}
	return new(made)
}

// share returns how many percent of all calls are of some functions.
func (y tally) share(functions []string) float64 {
	n, all := 0, 0
	for _, f := range functions {
		n += y.of(f).Calls
	}
	for _, m := range y {
		all += m.Calls
	}
	return 100 * float64(n) / float64(max(all, 1))
}

// functions returns those of a group, without repetition.
func (g callGroup) functions() (list []string) {
	for _, k := range g.calls {
		if f := functionOf(k.name); !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list
}

// allFunctions returns the functions of all topics.
func allFunctions() []string {
	set := make(map[string]bool)
	for _, topic := range callTopics {
		for _, k := range slices.Concat(topic.first, topic.calls) {
			set[functionOf(k.name)] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// String returns tables of the groups and of the functions.
func (y tally) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d functions\t%% of all calls\t%% succeed\n", len(allFunctions()))
	for _, g := range callGroups {
		fmt.Fprintf(w, "%s: %d functions\t%.1f\t\n", g.name, len(g.functions()), y.share(g.functions()))
	}
	for _, f := range allFunctions() {
		fmt.Fprintf(w, "%s\t%.2f\t%.0f\n", f, y.share([]string{f}), y.of(f).success())
	}
	w.Flush()
	return b.String()
}

// wrong returns what there is too little of.
func (y tally) wrong() (errs []error) {
	for _, g := range callGroups {
		if s := y.share(g.functions()); s < leastOfGroup {
			errs = append(errs, fmt.Errorf("%s: %.2f %% of the calls, less than %.2f", g.name, s, leastOfGroup))
		}
	}
	for _, f := range allFunctions() {
		if s := y.share([]string{f}); s < leastOfFunction {
			errs = append(errs, fmt.Errorf("%s: %.2f %% of the calls, less than %.2f", f, s, leastOfFunction))
		}
		if s := y.of(f).success(); s < leastSuccess && !slices.Contains(slow, f) {
			errs = append(errs, fmt.Errorf("%s: %.1f %% of the calls succeed, less than %d", f, s, leastSuccess))
		}
	}
	return errs
}

// TestTally checks what a tally finds, and that each function is in a group.
func TestTally(t *testing.T) {
	y := make(tally)
	for _, f := range allFunctions() {
		for i := range 100 {
			y.add(f, i < leastSuccess)
		}
	}
	if errs := y.wrong(); errs != nil {
		t.Errorf("equal shares: %v", errors.Join(errs...))
	}
	y["cuLinkCreate"].Succeeded--
	*y["cuMemAlloc"] = made{Calls: 10, Succeeded: 10}
	for _, f := range callGroups[8].functions() {
		*y[f] = made{Calls: 25, Succeeded: 25}
	}
	var kinds []string
	for _, err := range y.wrong() {
		what, _, _ := strings.Cut(err.Error(), ":")
		kinds = append(kinds, what)
	}
	if want := []string{"edges with data", "cuLinkCreate", "cuMemAlloc"}; !slices.Equal(kinds, want) {
		t.Errorf("too little is found of %v, want %v", kinds, want)
	}
	var grouped []string
	for _, g := range callGroups {
		grouped = append(grouped, g.functions()...)
	}
	for _, f := range allFunctions() {
		if !slices.Contains(grouped, f) {
			t.Errorf("%s is in no group", f)
		}
	}
}
