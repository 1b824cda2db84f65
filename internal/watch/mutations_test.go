//go:build explore

package watch

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var mutate = flag.Bool("watch.mutate", false, "leave out or weaken steps, and see whether the programs find the fault")

// A mutation is a change of the package that removes or weakens a step. The programs have to find
// the fault, unless harmless says why the change is none. A mutation that only a wide program finds
// names this program.
type mutation struct {
	file, old, new string
	wide, harmless string
}

const (
	nextRound = "a counter in memory is read in each round, so the wait only takes longer"
	twice     = "the item is checked in another place as well"
)

var mutations = []mutation{
	{"watcher.go", "in.Owner.ErrClosed(); err != nil {", "in.Owner.ErrClosed(); err != nil && false {", "", ""},
	{"watcher.go", "	w.wake()\n	w.mu.Unlock()\n	n.deliver(w)\n}\n\n// add adds", "	w.mu.Unlock()\n	n.deliver(w)\n}\n\n// add adds", "", ""},
	{"watcher.go", "c.word.ErrClosed(); err != nil {", "c.word.ErrClosed(); err != nil && false {", "", ""},
	{"watcher.go", "	} else {\n		w.endReached(&n, c)\n	}", "	}", "", nextRound},
	{"watcher.go", "	w.endReached(nil, c) // wakes the waiters at once, and allocates nothing\n", "", "", nextRound},
	{"watcher.go", "			w.drop(&n, wait)\n			w.wakeAfter()\n", "			w.drop(&n, wait)\n", "", ""},
	{"watcher.go", "	w.wakeAfter()\n	w.mu.Unlock()\n	n.deliver(w)\n}\n\n// ItemExposed", "	w.mu.Unlock()\n	n.deliver(w)\n}\n\n// ItemExposed", "", ""},
	{"watcher.go", "	w.exposures.Add(1)\n", "", "", ""},
	{"watcher.go", "	if w.loop.rest >= Behind {\n		w.wake()\n	}\n", "", "", ""},
	{"watcher.go", "case l.rest > unwoken || l.rest > 0 && w.set.idle():", "case l.rest > unwoken:", "", "such a short sleep ends by itself"},
	{"watcher.go", "		w.armed.gap = w.armed.gap || c.n > 0\n", "", "cancel_the_first_of_two_in_order",
		"the stream notifies all the same when the first completes, which is before the others do"},
	{"watcher.go", "		shared.wait = nil\n", "", "", ""},
	{"watcher.go", "	if w.loop.asking {\n", "	if false {\n", "", ""},
	{"watcher.go", "	wait.item.EndWait()\n", "", "", ""},
	{"watcher.go", "	wait.group.remove(wait)\n", "", "", ""},
	{"watcher.go", "		item.Retain()\n", "", "", ""},
	{"arm.go", "if w.notifier.Notified() != notified {", "if false {", "two_wait_in_order", ""},
	{"arm.go", "res == Armed && wait.counter != nil && !wait.item.Exposed()", "res == Armed && !wait.item.Exposed()", "", ""},
	{"arm.go", "res == Armed && wait.counter != nil && !wait.item.Exposed()", "res == Armed && wait.counter != nil", "", twice},
	{"arm.go", "	wait.item.Retain() // allowed even after a close, as the wait still retains the item\n", "", "", ""},
	{"arm.go", "	wait.wakeUp.Return()\n", "", "", ""},
	{"arm.go", "	if !notifies && up != nil {\n", "	if false {\n", "", ""},
	{"loop.go", "if l.news || w.armed.gap", "if w.armed.gap", "a_new_wait_while_another_one_is_armed", ""},
	{"loop.go", "|| w.armed.missed || w.set.idle()", "|| w.armed.missed", "", ""},
	{"loop.go", "if closed && w.set.idle() {", "if closed {", "the_last_wait_ends_while_a_new_one_begins", ""},
	{"loop.go", "n != p.notified || r.again", "r.again", "", ""},
	{"loop.go", "	w.loop.asking = true\n", "", "", ""},
	{"round.go", "if r.whole && r.basis.same(basis) {", "if r.whole {", "", ""},
	{"round.go", "	o.wait.item.Retain() // the handle", "	// the handle", "", ""},
}

// TestMutations runs the programs with each mutation.
func TestMutations(t *testing.T) {
	if !*mutate {
		t.Skip("it takes minutes: use the flag -watch.mutate")
	}
	for _, m := range mutations {
		name := m.file + ": " + m.old + " -> " + m.new
		t.Run(strings.Join(strings.Fields(name), " "), func(t *testing.T) {
			t.Parallel()
			switch out, failed := m.test(t); {
			case strings.Contains(out, "[build failed]"):
				t.Fatalf("it does not compile:\n%s", out)
			case failed && m.harmless != "":
				t.Errorf("this should be harmless, as %s:\n%.2000s", m.harmless, out)
			case !failed && m.harmless == "":
				t.Error("no program finds the fault")
			}
		})
	}
}

// test runs the programs with the mutation.
func (m mutation) test(t *testing.T) (out string, failed bool) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	old := m.old
	if n := strings.Count(string(src), old); n != 1 {
		t.Fatalf("the file has %q %d times", old, n)
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{changed: strings.Replace(string(src), old, m.new, 1), overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run, preemptions := "^TestExplore$", "1"
	if m.wide != "" {
		run, preemptions = "^TestExplore$/^"+m.wide+"$", "2"
	}
	cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-failfast", "-tags=explore", "-timeout=120s", "-overlay="+overlay,
		"-run="+run, ".", "-explore.preemptions="+preemptions, "-explore.random=50")
	data, err := cmd.CombinedOutput()
	return string(data), err != nil
}
