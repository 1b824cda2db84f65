//go:build linux || windows

package ccall

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	cfunc(t, "query") // skips where there is no library
	lib, err := clib()
	if err != nil {
		t.Fatal(err)
	}
	if fn, err := lib.Lookup("query"); fn == 0 || err != nil {
		t.Errorf("Lookup of a symbol: %#x, %v", fn, err)
	}
	const name = "no_such_symbol"
	fn, err := lib.Lookup(name)
	if fn != 0 || err == nil {
		t.Fatalf("Lookup(%q) = %#x, %v; want an error", name, fn, err)
	}
	if !strings.Contains(err.Error(), name) {
		t.Errorf("Lookup(%q): %v; want the name in it", name, err)
	}
}

// TestErrorTexts checks that each goroutine gets the text of its own error. The C library keeps the
// text for the thread, and a second call reads it.
func TestErrorTexts(t *testing.T) {
	cfunc(t, "query")
	lib, err := clib()
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	stop := collect()
	defer stop()
	dir := t.TempDir()
	together(t, 64, func(g int) error {
		for i := range rounds(300) {
			name := fmt.Sprintf("missing_%d_%d_", g, i)
			if _, err := Open(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), name) {
				return fmt.Errorf("Open of %s: %v", name, err)
			}
			if _, err := lib.Lookup(name); err == nil || !strings.Contains(err.Error(), name) {
				return fmt.Errorf("Lookup of %s: %v", name, err)
			}
		}
		return nil
	})
}
