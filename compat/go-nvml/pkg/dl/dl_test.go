//go:build linux && !cu_static

package dl

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestLibrary(t *testing.T) {
	lib := New("libc.so.6", RTLD_LAZY|RTLD_GLOBAL)
	if _, err := lib.Path(); err == nil || err.Error() != "libc.so.6 not opened" {
		t.Errorf("Path: %v", err)
	}
	if err := lib.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := lib.Open(); err != nil {
		t.Fatal(err)
	}
	if err := lib.Lookup("strlen"); err != nil {
		t.Error(err)
	}
	if err := lib.Lookup("no_such_function"); err == nil ||
		!strings.HasPrefix(err.Error(), `symbol "no_such_function" not found: `) {
		t.Errorf("Lookup: %v", err)
	}
	path, err := lib.Path()
	if err != nil || !filepath.IsAbs(path) || filepath.Base(path) != "libc.so.6" {
		t.Errorf("Path: %q, %v", path, err)
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
	if err := lib.Lookup("strlen"); err == nil {
		t.Error("Lookup works after Close")
	}
	byPath := New(path, RTLD_NOW)
	if err := byPath.Open(); err != nil {
		t.Fatal(err)
	}
	if got, err := byPath.Path(); got != path || err != nil {
		t.Errorf("Path: %q, %v, want %q", got, err, path)
	}
	if New("libno.so.9", RTLD_LAZY).Open() == nil {
		t.Error("a library that is not there can be opened")
	}
}
