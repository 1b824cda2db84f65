package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ccall"
)

// TestSystemFolder checks that the driver is searched for in the system folder only, even if the
// environment names another system folder.
func TestSystemFolder(t *testing.T) {
	want := filepath.Join(ccall.SystemFolder(), "nvcuda.dll")
	if !filepath.IsAbs(want) {
		t.Errorf("the system's folder is %q", ccall.SystemFolder())
	}
	t.Setenv("SystemRoot", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	choices := thisSystem().systemChoices(cudaDriver())
	if len(choices) != 1 || choices[0].Name != want || choices[0].bare {
		t.Errorf("%+v, want %s alone", choices, want)
	}
}

// TestNoDriver checks that the error about a missing driver has one line, and matches the errors of
// package fs.
func TestNoDriver(t *testing.T) {
	t.Setenv(Environment, "")
	want := filepath.Join(ccall.SystemFolder(), "nvcuda.dll")
	if _, err := os.Stat(want); err == nil {
		t.Skip("this machine has a driver")
	}
	lib, err := Open("")
	text := "loader: no CUDA driver library could be loaded\n\t" + want + " (the system folder): file does not exist"
	if lib != nil || err == nil || err.Error() != text || !errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Open: %v, want %s", err, text)
	}
	if v := Diagnose().Verdict(); v.Severity != Fault || v.Title != "NVIDIA's driver is not installed" ||
		v.Detail != "there is no "+want || v.Fix == "" {
		t.Errorf("the verdict is %+v", v)
	}
}

// TestOpenBadDLLs checks that the error names the problem and the file, in clearer words than those
// of Windows.
func TestOpenBadDLLs(t *testing.T) {
	t.Setenv(Environment, "")
	good, err := os.ReadFile(cLibrary(t, "driver.dll", goodDriver))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	file := func(name string, content []byte) string {
		if err := os.WriteFile(at(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	machine := int(good[60]) | int(good[61])<<8
	other := append([]byte(nil), good...)
	copy(other[machine+4:], "\x4c\x01") // 386
	for _, tt := range []struct {
		path string
		want Problem
		text string
	}{
		{at("missing.dll"), Absent, "file does not exist"},
		{filepath.Join(file("file", nil), "below.dll"), Absent, "file does not exist"},
		{filepath.Join(dir, "no", "folder.dll"), Absent, "file does not exist"},
		{dir, NotALibrary, "it is a folder"},
		{file("empty.dll", nil), Truncated, "it is empty"},
		{file("text.dll", []byte("not a library")), NotALibrary, "it is not a Windows library"},
		{file("elf.dll", []byte("\x7fELF\x02\x01\x01")), NotALibrary, "it is not a Windows library"},
		{file("short.dll", good[:machine+10]), Truncated, "it is truncated: its header is missing"},
		{file("other.dll", other), WrongMachine, "it is for 386, and this program is for amd64"},
	} {
		lib, err := Open(tt.path)
		var le *LoadError
		if lib != nil || !errors.As(err, &le) || len(le.Candidates) != 1 {
			t.Errorf("Open(%s) = %v, %v", tt.path, lib, err)
			continue
		}
		if c := le.Candidates[0]; c.Problem != tt.want || c.Err.Error() != tt.path+": "+tt.text ||
			strings.Count(err.Error(), tt.path) != 1 {
			t.Errorf("Open(%s): %s, %v\n%v", tt.path, c.Problem, c.Err, err)
		}
	}
}

// TestNamesOfDLLs tests names that LoadLibrary does not understand: names with slashes, and
// relative names, for which LoadLibrary searches several folders.
func TestNamesOfDLLs(t *testing.T) {
	t.Setenv(Environment, "")
	path := cLibrary(t, "driver.dll", oldDriver)
	t.Chdir(filepath.Dir(filepath.Dir(path)))
	folder, file := filepath.Base(filepath.Dir(path)), filepath.Base(path)
	for _, name := range []string{path, filepath.ToSlash(path), folder + `\` + file, folder + "/" + file,
		"./" + folder + "/" + file} {
		lib, err := Open(name)
		if err != nil {
			t.Errorf("Open(%s): %v", name, err)
		} else if lib.Name() != name || !strings.EqualFold(lib.Path(), path) {
			t.Errorf("Open(%s): it loaded %s as %s", name, lib.Path(), lib.Name())
		}
	}
}
