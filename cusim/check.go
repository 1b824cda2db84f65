package cusim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// TB is what [Driver.Check] needs of a testing.TB.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Census counts what was made and not destroyed, by kind: "context", "stream",
// "event", "module", "device memory", "host memory", "graph", "executable graph".
// Kinds of which there is nothing are left out.
func (d *Driver) Census() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine.catchUp()
	n := make(map[string]int)
	for _, k := range []kind{streamKind, eventKind, moduleKind, graphKind, graphExecKind} {
		if live := d.objects.live[k]; live != 0 {
			n[k.String()] = live
		}
	}
	for _, dev := range d.devices {
		if live := len(dev.contexts); live != 0 {
			n["context"] += live
		}
	}
	d.space.census(n)
	return n
}

// Check reports what was not destroyed, and what was misused, as errors of a test.
func (d *Driver) Check(t TB) {
	t.Helper()
	if n := d.Census(); len(n) > 0 {
		var left []string
		for _, k := range slices.Sorted(maps.Keys(n)) {
			left = append(left, fmt.Sprintf("%d × %s", n[k], k))
		}
		t.Errorf("cusim: not closed at the end of the test: %s", strings.Join(left, ", "))
	}
	for _, m := range d.Misuses() {
		t.Errorf("cusim: misuse: %v", m)
	}
}
