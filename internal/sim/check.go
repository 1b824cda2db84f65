package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/purecu/purecu/driver"
)

// TB is a cusim.TB.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Finish releases all held streams, and advances virtual time until all work has completed that
// only needs time.
func (d *Driver) Finish() {
	d.mu.Lock()
	for _, dev := range d.devices {
		for _, c := range dev.contexts {
			for _, s := range slices.Clone(c.streams) {
				if s.held {
					d.engine.release(s)
				}
			}
		}
	}
	d.mu.Unlock()
	for range 1000 { // work may enqueue more
		d.mu.Lock()
		if d.settle(lateSettling); d.engine.executing > 0 { // a kernel that would never end
			for _, o := range d.engine.outside {
				if o.execution != nil {
					o.execution.ended = true
				}
			}
			d.poison(driver.ResultLaunchTimeout)
			d.quiet()
		}
		at, pending := d.engine.next()
		by := time.Duration(at - d.clock.now())
		d.mu.Unlock()
		if !d.clock.virtual || !pending {
			return
		}
		d.Advance(max(by, 0))
	}
}

// Census returns the number of objects that were created and not destroyed, by kind. After the loss
// of the device the result is empty, as a program then cannot destroy anything.
func (d *Driver) Census() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine.catchUp()
	n := make(map[string]int)
	if d.unreachable {
		return n
	}
	for _, k := range []kind{streamKind, eventKind, moduleKind, graphKind, graphExecKind, greenKind,
		physicalKind, libraryKind, linkKind, externalMemoryKind, externalSemaphoreKind, userObjectKind} {
		if live := d.objects.live[k]; live != 0 {
			n[k.String()] = live
		}
	}
	for i := range d.objects.places {
		if p := &d.objects.places[i]; p.orphan() {
			if n[p.kind.String()]--; n[p.kind.String()] == 0 {
				delete(n, p.kind.String())
			}
		}
	}
	pools := slices.Clone(d.pools)
	for _, dev := range d.devices {
		pools = append(pools, dev.pools...)
		if live := len(dev.contexts); live != 0 {
			n["context"] += live
		}
	}
	for _, p := range pools {
		if p.created {
			n[poolKind.String()]++
		}
	}
	d.space.census(n)
	return n
}

// Check reports the objects that were not destroyed, and the misuses, as errors of a test.
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
