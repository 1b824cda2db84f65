package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "-o names the directory"},
		{"-o DIR more", `unexpected argument "more"`},
		{"-o DIR -arch riscv64", "not for"},
		{"-nothing", "not defined"},
	} {
		err := run(strings.Fields(tt.args), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v; want %q", tt.args, err, tt.want)
		}
	}
	var out bytes.Buffer
	if err := run([]string{"-list"}, &out, io.Discard); err != nil ||
		!strings.Contains(out.String(), "cuEventRecord ") {
		t.Errorf("-list: %v, and %d bytes", err, out.Len())
	}
}

// TestElsewhere runs the command outside of a module, and checks the error.
func TestElsewhere(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the library is for Linux")
	}
	t.Chdir(t.TempDir())
	t.Setenv("CC", os.Args[0]) // it is not called
	err := run([]string{"-o", "DIR"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "one whose go.mod requires purecu") {
		t.Errorf("got %v", err)
	}
}

// TestInstall replaces a file. No temporary files may be left, also after an error.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	from, to, full := filepath.Join(t.TempDir(), "from"), filepath.Join(dir, "to"), filepath.Join(dir, "full")
	for _, content := range []string{"one", "two"} {
		if err := os.WriteFile(from, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := install(from, to); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(to); string(got) != content {
			t.Errorf("%q, %v, want %q", got, err, content)
		}
	}
	if err := os.MkdirAll(filepath.Join(full, "file"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := install(from, full); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("there are %v, %v", left, err)
	}
	if info, err := os.Stat(to); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}
