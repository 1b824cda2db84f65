package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/driver"
)

// TestLog reads the log by positions.
func TestLog(t *testing.T) {
	d := New(VirtualTime())
	read := func(at uint32, size int) (string, uint32, driver.Result) {
		t.Helper()
		buffer := []byte(strings.Repeat("x", size))
		next, n, r := d.LogsDumpToMemory(nil, at, buffer, 0)
		if r == ok && (int(n) >= size || buffer[n] != 0) {
			t.Fatalf("no NUL after %d bytes", n)
		}
		return string(buffer[:n]), next, r
	}
	begin, r := d.LogsCurrent(nil, 0)
	if s, next, r2 := read(begin, 100); r != ok || r2 != ok || s != "" || next != begin {
		t.Fatalf("an empty log: %v, %q, %d, %v", r, s, next, r2)
	}
	d.Inject(Fault{Function: "cuMemAlloc_v2", Code: 2, Log: "out of everything"})
	d.Inject(Fault{Function: "cuMemFree", Every: true, Code: 1}) // silent
	d.Init(nil, 0)
	d.MemAlloc(nil, 1)
	d.MemFree(nil, 1)
	s, next, r := read(begin, 1000)
	if diff := cmp.Diff([]string{"[CUDA][E] out of everything",
		"[CUDA][E] Returning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuMemAlloc", ""}, messages(s)); diff != "" || r != ok {
		t.Errorf("%v (-want +got):\n%s", r, diff)
	}
	if s, _, r := read(next, 1000); s != "" || r != ok {
		t.Errorf("at its end: %q, %v", s, r)
	}
	// A small buffer gets whole lines.
	one, next1, r := read(begin, 60)
	two, next2, r2 := read(next1, 1000)
	if one+two != s || next2 != next || r != ok || r2 != ok {
		t.Errorf("in two parts: %q, %q, %d, %d, %v, %v", one, two, next1, next2, r, r2)
	}
	if s, at, r := read(begin, 10); s != "" || at != begin || r != driver.ResultInvalidValue {
		t.Errorf("a buffer that is too small: %q, %d, %v", s, at, r)
	}
	if _, n, r := d.LogsDumpToMemory(nil, begin, nil, 0); n != 0 || r != driver.ResultInvalidValue {
		t.Errorf("without a buffer: %d, %v", n, r)
	}
	if _, r := d.LogsCurrent(nil, 1); r != driver.ResultInvalidValue {
		t.Errorf("with flags: %v", r)
	}
	// The oldest lines are lost.
	d.Inject(Fault{Function: "cuMemAlloc", Every: true, Code: 2, Log: strings.Repeat("long ", 100)})
	for range 100 {
		d.MemAlloc(nil, 1)
	}
	if s, _, r := read(begin, maxLog+1); r != ok || len(s) > maxLog || len(s) < maxLog-1000 ||
		strings.Contains(s, "everything") {
		t.Errorf("a full log: %d bytes, %v", len(s), r)
	}
}

// TestLogFile writes the log to files.
func TestLogFile(t *testing.T) {
	d := New(VirtualTime())
	d.Inject(Fault{Function: "cuMemAlloc_v2", Code: 2, Log: "first"})
	d.Inject(Fault{Function: "cuMemFree", Code: 1, Log: "second"})
	d.Init(nil, 0)
	path := filepath.Join(t.TempDir(), "log")
	d.MemAlloc(nil, 1)
	dump := func(what string, at *uint32, want ...string) {
		t.Helper()
		if r := d.LogsDumpToFile(nil, at, path, 0); r != ok {
			t.Errorf("%s: %v", what, r)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(want, ""), messages(string(text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	one := []string{"[CUDA][E] first", "[CUDA][E] Returning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuMemAlloc"}
	two := []string{"[CUDA][E] second", "[CUDA][E] Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemFree"}
	var at uint32
	dump("from the beginning", &at, one...)
	d.MemFree(nil, 1)
	dump("from where the first one ended", &at, two...)
	dump("from the end", &at)
	dump("all", nil, append(one, two...)...)
	if now, _ := d.LogsCurrent(nil, 0); at != now {
		t.Errorf("the position is %d, not %d", at, now)
	}
	if r := d.LogsDumpToFile(nil, &at, path, 1); r != ok {
		t.Errorf("with flags: %v", r)
	}
	if r := d.LogsDumpToFile(nil, &at, t.TempDir(), 0); r != driver.ResultInvalidValue {
		t.Errorf("to a directory: %v", r)
	}
	if r := d.LogsDumpToFile(nil, nil, "", 0); r != driver.ResultInvalidValue {
		t.Errorf("without a path: %v", r)
	}
}

// messages returns the lines without time and thread.
func messages(s string) (list []string) {
	for line := range strings.SplitSeq(s, "\n") {
		_, m, _ := strings.Cut(line, "[1]")
		list = append(list, m)
	}
	return list
}
