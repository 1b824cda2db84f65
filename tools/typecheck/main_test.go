package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck checks a module with a mistake in a file that only one platform has, and with one in a test.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.com/m\n\ngo 1.26\n",
		"a.go":             "package m\n\nimport \"os\"\n\nfunc Home() string { return os.Getenv(home) }\n",
		"home_linux.go":    "package m\n\nconst home = \"HOME\"\n",
		"home_darwin.go":   "package m\n\nconst home = 1\n",
		"a_test.go":        "package m\n\nimport \"testing\"\n\nfunc TestHome(t *testing.T) { check(t) }\n",
		"b_linux_test.go":  "package m\n\nimport \"testing\"\n\nfunc check(*testing.T) {}\n",
		"b_darwin_test.go": "package m\n\nimport \"testing\"\n\nfunc check(*testing.T) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := check(new(strings.Builder), dir, "linux"); err == nil {
		t.Error("a system without a processor was taken")
	}
	for platform, want := range map[string]string{
		"linux/arm64":   "",
		"darwin/arm64":  "a.go:5:39", // a string is needed
		"windows/amd64": "undefined: home",
		"freebsd/amd64": "undefined: check",
	} {
		var said strings.Builder
		n, err := check(&said, dir, platform)
		switch {
		case want == "" && (err != nil || n != 1):
			t.Errorf("%s: %d packages, %v\n%s", platform, n, err, said.String())
		case want != "" && (err == nil || !strings.Contains(said.String(), want)):
			t.Errorf("%s: %v, want %q in\n%s", platform, err, want, said.String())
		}
	}
	if _, err := check(&strings.Builder{}, t.TempDir(), "linux/amd64"); err == nil {
		t.Error("a folder without packages is no mistake")
	}
}
