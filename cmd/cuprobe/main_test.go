package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/release"
	"github.com/purecu/purecu/loader"
)

// asProgram is the environment variable that makes the test binary run the program instead of
// tests.
const asProgram = "PURECU_TEST_CUPROBE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if dir, err := scratch(); err == nil {
		goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
			os.RemoveAll(dir)
			os.Exit(code)
		}))
	}
	goleak.VerifyTestMain(m)
}

// scratch returns a directory that is removed when the test binary ends.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "cuprobe") })

// skip is an error that says why tests cannot run on this machine.
type skip string

func (s skip) Error() string { return string(s) }

// fakeLibrary returns the path of the C driver of package cu's tests. It is compiled, unless
// PURECU_TEST_CLIB names a folder that contains it.
var fakeLibrary = sync.OnceValues(func() (string, error) {
	name, flags := "libfakecuda.so", []string{"-O1", "-shared", "-fPIC", "-pthread"}
	switch runtime.GOOS {
	case "linux":
	case "windows":
		name, flags = "libfakecuda.dll", []string{"-O1", "-shared", "-pthread", "-static"}
	default:
		return "", skip("the fake driver is for Linux and Windows")
	}
	if dir := os.Getenv("PURECU_TEST_CLIB"); dir != "" {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			return "", skip("PURECU_TEST_CLIB has no " + name + ": " + err.Error())
		}
		return path, nil
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", skip("there is no C compiler: " + err.Error())
	}
	dir, err := scratch()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	out, err := exec.Command(cc, append(flags, "-o", path, "../../cu/testdata/fakecuda.c")...).CombinedOutput()
	if err != nil {
		return "", errors.New(cc + ": " + err.Error() + "\n" + string(out))
	}
	return path, nil
})

// fake is the C driver. Its functions are described in cu/testdata/fakecuda.c.
type fake struct {
	t    *testing.T
	path string
	lib  ccall.Library
}

// newFake returns the fake driver after a reset. At the end of the test it must not have open
// objects.
func newFake(t *testing.T) *fake {
	t.Helper()
	t.Setenv(loader.Environment, "")
	path, err := fakeLibrary()
	if why := skip(""); errors.As(err, &why) {
		t.Skip(why)
	}
	if err != nil {
		t.Fatal(err)
	}
	lib, err := ccall.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t, path, lib}
	f.ask("fake_reset")
	t.Cleanup(func() {
		f.ask("fake_reset")
		for kind, name := range []string{1: "contexts", "streams", "events", "modules", 6: "device memory",
			"host memory"} {
			if n := f.ask("fake_census", kind); name != "" && n != 0 {
				t.Errorf("%d %s are left", n, name)
			}
		}
	})
	return f
}

// ask calls a control function of the driver.
func (f *fake) ask(name string, args ...any) uint64 {
	f.t.Helper()
	p, err := f.lib.Lookup(name)
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := ccall.Invoke(p, ccall.Blocking, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return uint64(r)
}

// fail makes the nth call of a function from now on return code.
func (f *fake) fail(name string, nth int, code cu.Result) {
	f.t.Helper()
	f.ask("fake_fail", name, nth, int32(code))
}

// probe is a run of the program.
type probe struct {
	ctx context.Context
	env map[string]string
	out io.Writer // gets a copy of the output
}

// result is the output of a run. The messages that say what cuprobe waits for are left out, because a
// busy machine causes them.
type result struct {
	status         int
	stdout, stderr string
}

var waits = regexp.MustCompile("(?m)^cuprobe: waiting for .*\n")

func newResult(status int, stdout, stderr *bytes.Buffer) result {
	return result{status, stdout.String(), waits.ReplaceAllString(stderr.String(), "")}
}

func (p probe) run(args ...string) result {
	var o, e bytes.Buffer
	ctx, out := p.ctx, io.Writer(&o)
	if ctx == nil {
		ctx = context.Background()
	}
	if p.out != nil {
		out = io.MultiWriter(&o, p.out)
	}
	env := func(name string) (string, bool) { v, ok := p.env[name]; return v, ok }
	status := run(ctx, args, out, &e, env)
	return newResult(status, &o, &e)
}

// run runs the program on the fake driver.
func (f *fake) run(args ...string) result {
	return probe{}.run(append([]string{"-driver", f.path}, args...)...)
}

// decode decodes the whole output with -json into v, which must have all its fields.
func decode(t *testing.T, r result, v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(r.stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatalf("%v\nexit status %d\n%s%s", err, r.status, r.stdout, r.stderr)
	}
	if rest, _ := io.ReadAll(dec.Buffered()); len(bytes.TrimSpace(rest)) > 0 {
		t.Errorf("after the object there is %q", rest)
	}
	if r.stderr != "" {
		t.Errorf("with the object it prints %q", r.stderr)
	}
}

// documented checks that the help for some commands mentions every field of the JSON of the first one.
func documented(t *testing.T, commands, text string) {
	t.Helper()
	help := probe{}.run("-h").stdout
	for _, command := range strings.Fields(commands) {
		help += probe{}.run(command, "-h").stdout
	}
	words := strings.FieldsFunc(help, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, member := range v {
				switch path {
				case ".devices.attributes", ".report.environment", ".doctor.report.environment":
					continue // the keys are names of CUDA or of the user
				case ".trace":
					continue // this is another format
				}
				if !slices.Contains(words, key) {
					t.Errorf("the help for %s does not name %s.%s", commands, path, key)
				}
				walk(path+"."+key, member)
			}
		case []any:
			for _, element := range v {
				walk(path, element)
			}
		}
	}
	walk("", v)
}

func TestHelp(t *testing.T) {
	top := probe{}.run("-h")
	var names []string
	for _, cmd := range commands() {
		names = append(names, cmd.name)
		help := probe{}.run(cmd.name, "-h")
		if help.status != exitOK || help.stderr != "" {
			t.Errorf("cuprobe %s -h: exit status %d, %s", cmd.name, help.status, help.stderr)
		}
		if diff := cmp.Diff(help, probe{}.run("help", cmd.name), cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("cuprobe help %s (-%s -h +help):\n%s", cmd.name, cmd.name, diff)
		}
		fs := newFlagSet()
		cmd.define(fs)
		(&invocation{}).define(fs)
		fs.VisitAll(func(f *flag.Flag) {
			if !strings.Contains(help.stdout, "\n  -"+f.Name+" ") {
				t.Errorf("cuprobe %s -h does not explain -%s:\n%s", cmd.name, f.Name, help.stdout)
			}
		})
		checkText(t, cmd.name+" -h", help.stdout)
	}
	checkText(t, "-h", top.stdout)
	for _, want := range append(names, "-json", "-driver", "-device", "-version", "Exit status", loader.Environment,
		"CUDA_VISIBLE_DEVICES", "COLUMNS") {
		if !strings.Contains(top.stdout, want) {
			t.Errorf("cuprobe -h does not speak of %s:\n%s", want, top.stdout)
		}
	}
	for _, args := range [][]string{{"help"}, {"--help"}, {"-json", "-h"}} {
		if diff := cmp.Diff(top, probe{}.run(args...), cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("cuprobe %q (-cuprobe -h, +this):\n%s", args, diff)
		}
	}
}

// checkText checks that a text is ASCII and has no long lines.
func checkText(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if len(line) > 101 || strings.IndexFunc(line, func(r rune) bool { return r > 126 }) >= 0 {
			t.Errorf("%s: this line is too long, or not ASCII: %q", what, line)
		}
	}
}

// TestPackageComment checks that the package comment mentions all commands and flags.
func TestPackageComment(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, _, _ := strings.Cut(string(source), "\npackage main")
	for _, cmd := range commands() {
		if !strings.Contains(doc, "//\t"+cmd.name+" ") || !strings.Contains(doc, cmd.short) {
			t.Errorf("the package's comment does not have: %s %s", cmd.name, cmd.short)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string // part of the message
	}{
		{[]string{"-nonsense"}, "-nonsense: there are -device, -driver, -json, -version. See cuprobe -h"},
		{[]string{"-drivr", "soft", "devices"}, "-drivr: did you mean -driver? See cuprobe -h"},
		{[]string{"--jsno"}, "-jsno: did you mean -json? See cuprobe -h"},
		{[]string{"-blokc", "32", "run"}, "-blokc: did you mean -block? See cuprobe -h"},
		{[]string{"run", "-chekc", "all"}, "-chekc: did you mean -check? See cuprobe run -h"},
		{[]string{"bench", "-szie=1"}, "-szie: did you mean -size? See cuprobe bench -h"},
		{[]string{"devices", "-d", "1"}, "-d: did you mean -device or -driver? See cuprobe devices -h"},
		{[]string{"-spin", "1ms"}, "-spin is a flag of cuprobe time"},
		{[]string{"time", "-nonsense"}, "-nonsense: there are -calls, -copy, -device,"},
		{[]string{"nonsense"}, `no command "nonsense": there are bench, demo, ` +
			`devices, doctor, help, report, run, symbols, time, top.`},
		{[]string{""}, `no command ""`},
		{[]string{"devcies"}, "did you mean devices?"},
		{[]string{"d"}, "did you mean demo or devices or doctor?"},
		{[]string{"help", "symbls"}, "did you mean symbols?"},
		{[]string{"help", "time", "devices"}, "name of one command"},
		{[]string{"demo", "argument"}, `demo takes no arguments, and there is "argument"`},
		{[]string{"devices", "0"}, "devices takes no arguments"},
		{[]string{"symbols", "a", "-missing", "b"}, `there is "b" too`},
		{[]string{"-device", "x"}, "whole number, counted from 0"},
		{[]string{"devices", "-device", "-1"}, "whole number, counted from 0"},
		{[]string{"-device", "99999999999"}, "whole number, counted from 0"},
		{[]string{"-device"}, "needs an argument"},
		{[]string{"-driver", ""}, "name auto, cuda, soft, or a path"},
		{[]string{"time", "-spin", "10"}, `"10" is no duration from 1ns to 10s`},
		{[]string{"time", "-spin", "1ms,,2ms"}, `"" is no duration`},
		{[]string{"time", "-spin", "0"}, "no duration"},
		{[]string{"time", "-spin", "1h"}, "no duration"},
		{[]string{"time", "-copy", "16XB"}, `"16XB" is no size`},
		{[]string{"time", "-n", "0"}, "whole number from 1"},
		{[]string{"time", "-n", "many"}, "whole number from 1"},
		{[]string{"bench", "-n", "0"}, "the number of samples is a whole number from 1"},
		{[]string{"bench", "-batch", "65"}, "the number of copies is a whole number from 1 to 64"},
		{[]string{"bench", "-size", "0"}, `"0" is no size from 1B to 64GiB`},
		{[]string{"bench", "-for", "1us"}, `"1us" is no duration from 1ms to 1m0s, such as 250ms`},
		{[]string{"bench", "-only", "pinned,speed"}, `there is no part "speed": name some of pinned, pageable, peer, lat`},
		{[]string{"bench", "-devices", "0,x"}, `"x" is no ordinal of a device: name ordinals`},
		{[]string{"bench", "-devices", "1,0,1"}, "device 1 is in the list twice: name each device once"},
		{[]string{"bench", "-devices", "all", "-device", "0"}, "use one of them; see cuprobe bench -h"},
		{[]string{"report", "-devices", "all", "-device", "0"}, "use one of them; see cuprobe report -h"},
	} {
		r := probe{}.run(tt.args...)
		if r.status != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, tt.want) ||
			strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("cuprobe %q: exit status %d\n%s%s", tt.args, r.status, r.stdout, r.stderr)
		}
		for _, args := range [][]string{append([]string{"-json"}, tt.args...), append(slices.Clone(tt.args), "-json")} {
			if len(tt.args) == 1 && tt.args[0] == "-device" && args[0] != "-json" {
				continue // -json is the value of -device here
			}
			r := probe{}.run(args...)
			var v struct{ Error failure }
			decode(t, r, &v)
			if r.status != exitUsage || !strings.Contains(v.Error.Message, tt.want) || v.Error.Code != 0 {
				t.Errorf("cuprobe %q: exit status %d\n%s", args, r.status, r.stdout)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	r := probe{}.run("-version")
	if want := ", " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + "\n"; r.status != 0 ||
		!strings.HasPrefix(r.stdout, "cuprobe "+release.Version) || !strings.HasSuffix(r.stdout, want) {
		t.Errorf("exit status %d, %q", r.status, r.stdout)
	}
	var v buildReport
	r = probe{}.run("-json", "-version")
	decode(t, r, &v)
	if v.Module != "github.com/purecu/purecu" || v.Go != runtime.Version() || v.Version != release.Version {
		t.Errorf("%+v", v)
	}
	for _, c := range []struct {
		report buildReport
		want   string
	}{
		{buildReport{Version: "1.2.3", Go: "go1", Platform: "p"}, "cuprobe 1.2.3, go1, p\n"},
		{buildReport{Version: "1.2.3", Revision: "abc", Go: "go1", Platform: "p"}, "cuprobe 1.2.3 (abc), go1, p\n"},
		{
			buildReport{Version: "1.2.3", Revision: "abc", Modified: true, Go: "go1", Platform: "p"},
			"cuprobe 1.2.3 (abc, modified), go1, p\n",
		},
	} {
		var b strings.Builder
		if c.report.text(&b); b.String() != c.want {
			t.Errorf("%q, want %q", b.String(), c.want)
		}
	}
}

func TestPseudoRevision(t *testing.T) {
	for version, want := range map[string]string{
		"v0.0.0-20261126235914-0123456789ab":         "0123456789ab",
		"v0.1.1-0.20261126235914-0123456789ab+dirty": "0123456789ab",
		"v0.2.0-rc.1.0.20261126235914-0123456789ab":  "0123456789ab",
		"v0.1.0": "", "v0.2.0-rc.1": "", "(devel)": "", "": "",
	} {
		if got := pseudoRevision(version); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}

// TestFlagsAnywhere passes flags before the command, after it, and after its arguments.
func TestFlagsAnywhere(t *testing.T) {
	f := newFake(t)
	want := f.run("symbols", "cuEventQuery", "-json")
	for _, args := range [][]string{
		{"-driver", f.path, "-json", "symbols", "cuEventQuery"},
		{"-json", "symbols", "-driver", f.path, "cuEventQuery"},
		{"symbols", "cuEventQuery", "-driver=" + f.path, "--json"},
		{"-driver", "/nowhere", "symbols", "-driver", f.path, "cuEventQuery", "-json"}, // the last -driver counts
	} {
		if diff := cmp.Diff(want, probe{}.run(args...), cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("cuprobe %q (-want +got):\n%s", args, diff)
		}
	}
}

// TestWriteError checks that an error of writing the output is a failure.
func TestWriteError(t *testing.T) {
	f := newFake(t)
	for _, args := range [][]string{
		{"demo"}, {"demo", "-json"}, {"devices"}, {"time", "-spin", "1us"}, {"time", "-json", "-spin", "1us"},
		{"bench", "-n", "1", "-only", "latency"}, {"symbols"}, {"-h"}, {"-version"},
	} {
		r := probe{out: full{}}.run(append([]string{"-driver", f.path}, args...)...)
		if r.status != exitFailure || !strings.Contains(r.stderr, "could not be written: the disk is full") {
			t.Errorf("cuprobe %q: exit status %d, %q", args, r.status, r.stderr)
		}
	}
}

// full is a writer that always fails, like a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{"": 80, "80": 80, "120": 120, "40": 40, "39": 80, "-5": 80, "401": 80,
		"wide": 80} {
		c := &invocation{env: func(string) (string, bool) { return text, true }}
		if got := c.columns(); got != want {
			t.Errorf("COLUMNS=%q: %d columns, want %d", text, got, want)
		}
	}
}
