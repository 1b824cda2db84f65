package sim

import (
	"strings"
	"testing"
)

// TestStale reads and writes memory of the host after it was freed.
func TestStale(t *testing.T) {
	r := newLab(t)
	kept, p := r.pinned("some text")
	r.must(r.MemFreeHost(r.th, p))
	if m := r.Misuses(); len(m) != 0 {
		t.Errorf("before the write: %v", m)
	}
	if string(kept) == "some text" {
		t.Error("freed memory has its content")
	}
	kept[5] = 'x'
	m := r.Misuses()
	if len(m) != 1 || !strings.Contains(m[0].What, "written to byte 5 of pinned or managed memory after it was freed") ||
		!strings.Contains(m[0].Destroyed, "TestStale") {
		t.Errorf("after the write: %v", m)
	}
	if m := r.Misuses(); len(m) != 1 {
		t.Errorf("one write is reported again: %v", m)
	}
	r.takeMisuses()
}

// TestStaleBounded frees so much memory that the first of it is unmapped, and is looked at before.
func TestStaleBounded(t *testing.T) {
	r := newLab(t)
	kept, p := r.pinned("some text")
	r.must(r.MemFreeHost(r.th, p))
	kept[0] = 'x'
	for range 3 * mostStaleAll / mostStale {
		p, res := r.MemHostAlloc(r.th, mostStale, 0)
		r.must(res)
		r.must(r.MemFreeHost(r.th, p))
	}
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses", n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.space.staleSize; n > mostStaleAll {
		t.Errorf("%d bytes are kept", n)
	}
}
