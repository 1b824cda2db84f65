package softlib

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestShortage takes something from a C program before or after cuInit. The library must return results,
// and never end the process.
func TestShortage(t *testing.T) {
	lib, program := library(t), compiled(t, "shortage")
	openFolder(t, lib)
	for _, tt := range []struct {
		what string
		init string // the result of cuInit when this is taken before, or more than one
		says string // what is said on standard error then
		may  string // other results that later calls may have, as "function result"
	}{
		{what: "nothing 0", init: "0"},
		// Threads. More of them are wanted later, for host functions, which have to wait for one another.
		{what: "processes 3", init: "304", says: "ulimit -u"},
		{what: "threads 0", init: "304", says: "ulimit -u"},
		{what: "threads 2", init: "304", says: "ulimit -u"},
		{what: "threads 5", init: "304", says: "ulimit -u"},
		{what: "threads 9", init: "304", says: "ulimit -u"},
		{what: "threads 10", init: "0"},
		{what: "threads 14", init: "0"},
		{what: "clone3 1", init: "304", says: "seccomp"},
		{what: "clone 1", init: "304", says: "seccomp"},
		{what: "clone 11", init: "304", says: "ulimit -u"},
		// Memory.
		{what: "address 10", init: "2", says: "cannot be loaded", may: `\w+ 2|cuIpcGetEventHandle 205`},
		{what: "address 100", init: "2", says: "ulimit -v", may: `\w+ 2|cuIpcGetEventHandle 205`},
		{what: "address 800", init: "2", says: "ulimit -v", may: `\w+ 2|cuIpcGetEventHandle 205`},
		{what: "address 1300", init: "2", says: "ulimit -v", may: `\w+ 2|cuIpcGetEventHandle 205`},
		{what: "address 1600", init: "0|2", may: `\w+ 2|cuIpcGetEventHandle 205`},
		{what: "address 2000", init: "0|2", may: `\w+ 2|cuIpcGetEventHandle 205`},
		{what: "address 4096", init: "0", may: `\w+ 2|cuIpcGetEventHandle 205`},
		{what: "data 10", init: "2|304", says: "ulimit -", may: `\w+ 2`},
		{what: "data 200", init: "2", says: "ulimit -d", may: `\w+ 2`},
		{what: "data 400", init: "0|2", may: `\w+ 2`},
		{what: "filesize 4", init: "0", may: `cuIpcGetMemHandle 2|cuIpcGetEventHandle 205|cuMemPoolCreate 2|cuMemCreate 2`},
		// Descriptors. Only some calls need some later.
		{what: "descriptors 0", init: "304", says: "Too many open files",
			may: `cuIpcGetMemHandle 2|cuIpcGetEventHandle 205|cuMemPoolCreate 2|cuMemCreate 2`},
		{what: "descriptors 1", init: "304", says: "Too many open files",
			may: `cuIpcGetMemHandle 2|cuIpcGetEventHandle 205|cuMemPoolCreate 2|cuMemCreate 2`},
		{what: "descriptors 2", init: "304", says: "ulimit -n"},
		{what: "descriptors 4", init: "0"},
		{what: "epoll 1", init: "304", says: "seccomp"},
		{what: "eventfd 24", init: "304", says: "ulimit -n"},
		// Stacks.
		{what: "stack 16", init: "0"},
		{what: "thread 16", init: "0"},
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+tt.what, func(t *testing.T) {
				t.Parallel()
				stdout, stderr := output(t, nil, append([]string{program, lib, when}, strings.Fields(tt.what)...)...)
				if at := strings.Index(stdout, "cannot "); at >= 0 {
					t.Skip(stdout[at:])
				}
				init, rest, _ := strings.Cut(stdout, "\n")
				want := tt.init
				if when == "after" {
					want = "0"
				}
				if !regexp.MustCompile(`^cuInit (` + want + `)$`).MatchString(init) {
					t.Errorf("%s, want %s:\n%s", init, want, stderr)
				}
				if when == "before" && !strings.Contains(stderr, tt.says) {
					t.Errorf("it does not say %q:\n%s", tt.says, stderr)
				}
				results := "0"
				if strings.HasPrefix(tt.what, "address") || strings.HasPrefix(tt.what, "data") {
					results = "0|719" // a kernel has found no memory for what it writes
				}
				other := regexp.MustCompile(`^(\w+ (` + results + `)|cuInit \d+|` + tt.may + `)$`)
				for line := range strings.Lines(rest) {
					if !other.MatchString(strings.TrimSpace(line)) {
						t.Error(line)
					}
				}
			})
		}
	}
}

// TestExhaustion uses up the memory of a C program that uses the library. Freeing calls must succeed all the same, also
// on threads that have not called the library before.
func TestExhaustion(t *testing.T) {
	lib, program := library(t), compiled(t, "exhaust")
	for _, limit := range []string{"address 100", "address 1500", "address 2500", "address 4000", "data 100",
		"data 600"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			if stdout, stderr := output(t, nil, append([]string{program, lib}, strings.Fields(limit)...)...); stdout+
				stderr != "" {
				t.Errorf("%s%s", stdout, stderr)
			}
		})
	}
}

// TestCrowd lets many threads call the part of the library that asks for memory and threads, while the system refuses
// them at random: also with a search for data races, if the compiler has it and its programs run here.
func TestCrowd(t *testing.T) {
	stubs := t.TempDir()
	if err := os.WriteFile(filepath.Join(stubs, "_cgo_export.h"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-I" + filepath.Join(moduleRoot, "cusim", "libcuda"), "-iquote" + stubs}
	run(t, nil, compiled(t, "crowd", flags...))
	t.Run("races", func(t *testing.T) {
		cc, err := compiler()
		if err != nil {
			t.Skip(err)
		}
		empty, checked := filepath.Join(stubs, "empty.c"), []string{"-g", "-fsanitize=thread", "-DSEARCHED_FOR_RACES"}
		if err := os.WriteFile(empty, []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(cc, append(checked, "-o", filepath.Join(stubs, "empty"), empty)...).CombinedOutput()
		if err == nil {
			out, err = exec.Command(filepath.Join(stubs, "empty")).CombinedOutput()
		}
		if err != nil {
			t.Skipf("%v: %v\n%s", checked, err, out)
		}
		run(t, nil, compiled(t, "crowd", append(flags, checked...)...))
	})
}

// openFolder lets every user read the files in a folder, and those that contain it.
func openFolder(t *testing.T, path string) {
	t.Helper()
	for dir := filepath.Dir(path); strings.HasPrefix(dir, os.TempDir()) &&
		dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
