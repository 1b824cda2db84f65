package main

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/loader"
)

// quick makes the measurements of a report short.
var quick = []string{"-size", "4KiB,1MiB", "-n", "2", "-only", "pinned,latency"}

// embedded returns the JSON in a page. It must have all fields of a report.
func embedded(t *testing.T, page string) *nodeReport {
	t.Helper()
	_, text, _ := strings.Cut(page, `<script type="application/json" id="cuprobe">`)
	text, rest, found := strings.Cut(text, "</script>")
	if !found || rest != "\n</body>\n</html>\n" {
		t.Fatalf("the page does not end with its JSON: %q", rest)
	}
	r := new(nodeReport)
	decode(t, result{stdout: text}, r)
	return r
}

// readPage returns the only file of a folder.
func readPage(t *testing.T, dir string) (name, page string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	name = files[0].Name()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return name, string(text)
}

// compareReports returns the options for a comparison of reports that were decoded.
func compareReports() []cmp.Option {
	return append(compareBench(), cmpopts.IgnoreUnexported(check{}, nvmlFacts{}), cmp.AllowUnexported(deviceDetail{}))
}

// TestReport writes a report of the software driver. The page, the JSON in it and the output with
// -json have the same data.
func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte("an older report"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"report", "-driver", "soft", "-o", path}, quick...)
	r := probe{}.run(args...)
	want := "driver       " + simulatedNote +
		"\nverdict      the software driver works; it says nothing about a GPU\nreport       " + path + "\n"
	if diff := cmp.Diff(want, r.stdout); diff != "" || r.status != exitOK || r.stderr != "" {
		t.Errorf("exit status %d, %q (-want +got):\n%s", r.status, r.stderr, diff)
	}
	_, page := readPage(t, filepath.Dir(path))
	for _, want := range []string{`id="simulated"`, `class="box fine" id="verdict"`, "<polyline", `class="gpu"`,
		">Simulated H200<", "kernel 3"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
	if strings.Contains(page, `id="missing"`) || regexp.MustCompile(`(?i)\b(src|href)="?[^#"]`).MatchString(page) {
		t.Error("something is missing, or the page needs another file")
	}
	got := embedded(t, page)
	var calls []string
	for _, m := range got.Bench.Measurements {
		calls = append(calls, m.Name)
	}
	wantCalls := []string{"pinned h2d 4KiB", "pinned h2d 1MiB", "pinned d2h 4KiB", "pinned d2h 1MiB",
		"pinned both 4KiB", "pinned both 1MiB"}
	for name := range rangeLatencies() {
		wantCalls = append(wantCalls, name)
	}
	if diff := cmp.Diff(wantCalls, calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	host, _ := os.Hostname()
	if !got.Simulated || len(got.Missing) > 0 || len(got.Devices.Devices) != 1 || len(got.Doctor.Checks) != 5 ||
		got.Host != host ||
		got.File != path || got.Cuprobe == nil || got.Created.IsZero() {
		t.Errorf("%+v", got)
	}

	r = probe{}.run(append(args, "-json")...)
	documented(t, "report doctor devices bench", r.stdout)
	var printed nodeReport
	decode(t, r, &printed)
	_, page = readPage(t, filepath.Dir(path))
	opts := append(compareReports(), cmp.Transformer("JSON", func(m json.RawMessage) (v any) {
		if err := json.Unmarshal(m, &v); err != nil {
			t.Error(err)
		}
		return v
	}))
	if diff := cmp.Diff(&printed, embedded(t, page), opts...); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-printed +embedded):\n%s", r.status, diff)
	}
}

// TestReportOutput writes to standard output, and to a file with the default name.
func TestReportOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	args := append([]string{"report", "-driver", "soft"}, quick...)
	r := probe{}.run(append(args, "-o", "-")...)
	if got := embedded(t, r.stdout); got.File != "" || !strings.HasPrefix(r.stdout, "<!DOCTYPE html>") ||
		r.status != exitOK || r.stderr != "" {
		t.Errorf("exit status %d, %q, file %q", r.status, r.stderr, got.File)
	}
	if r := (probe{out: full{}}).run(append(args, "-o", "-")...); r.status != exitFailure ||
		!strings.Contains(r.stderr, "the disk is full") {
		t.Errorf("exit status %d\n%s", r.status, r.stderr)
	}
	if r := (probe{}).run(args...); r.status != exitOK {
		t.Errorf("exit status %d\n%s", r.status, r.stderr)
	}
	name, _ := readPage(t, ".")
	if !regexp.MustCompile(`^cuprobe-[-_.A-Za-z0-9]{1,64}-\d{8}T\d{6}Z\.html$`).MatchString(name) {
		t.Errorf("the name is %q", name)
	}
	at := time.Date(2026, 7, 14, 3, 0, 5, 0, time.UTC)
	for host, want := range map[string]string{
		"gpu-7.example":          "cuprobe-gpu-7.example-20260714T030005Z.html",
		"../../e\x00":            "cuprobe-.._.._e_-20260714T030005Z.html",
		strings.Repeat("h", 300): "cuprobe-" + strings.Repeat("h", 64) + "-20260714T030005Z.html",
	} {
		if got := defaultName(host, at); got != want {
			t.Errorf("%q: %s, want %s", host, got, want)
		}
	}
}

// TestReportUnwritable names files that cannot be written. The command fails before it measures, and
// leaves nothing behind.
func TestReportUnwritable(t *testing.T) {
	dir := t.TempDir()
	paths := map[string]string{
		dir: "is not a regular file: name another file", filepath.Join(dir, "none", "r.html"): "cannot be written: ",
	}
	if runtime.GOOS != "windows" {
		null := filepath.Join(t.TempDir(), "null")
		if err := os.Symlink(os.DevNull, null); err != nil { // a mistake may replace the link, but not the device
			t.Fatal(err)
		}
		paths[null] = null + " is not a regular file: name another file with -o, or - for standard output"
	}
	for path, want := range paths {
		// Without a driver it would end with another status.
		r := probe{}.run("report", "-driver", filepath.Join(dir, "lib.so"), "-o", path)
		if r.status != exitFailure || r.stdout != "" || !strings.Contains(r.stderr, want) ||
			strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: exit status %d\n%s%s", path, r.status, r.stdout, r.stderr)
		}
	}
	f, err := createFile(filepath.Join(dir, "r.html"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.path, 0o700); err != nil { // a file cannot replace it
		t.Fatal(err)
	}
	if err := f.commit([]byte("page")); err == nil || !strings.Contains(err.Error(), "could not be written") {
		t.Errorf("%v", err)
	}
	f.discard()
	if files, err := os.ReadDir(dir); len(files) != 1 || err != nil {
		t.Errorf("%v, %v", files, err)
	}
}

// missingParts returns the names of what a report lacks.
func missingParts(r *nodeReport) []string {
	names := []string{}
	for _, m := range r.Missing {
		names = append(names, m.Name)
	}
	return names
}

var allParts = []string{partDevices, partTimeline, partSpeed}

// TestReportNoDriver writes a report without a driver. It has the doctor's findings, and says what is
// missing.
func TestReportNoDriver(t *testing.T) {
	dir := t.TempDir()
	r := probe{}.run("report", "-driver", filepath.Join(dir, "libcuda.so.1"), "-o", filepath.Join(dir, "r.html"))
	missing := strings.Join(allParts, "; ")
	if r.status != exitNoDriver || r.stderr != "" ||
		!strings.Contains(r.stdout, "\nmissing      "+missing+": the driver could not be opened: ") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	_, page := readPage(t, dir)
	got := embedded(t, page)
	if diff := cmp.Diff(allParts, missingParts(got)); diff != "" || got.Doctor.Report == nil || got.Devices != nil ||
		got.Bench != nil {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
	verdict := html.EscapeString(got.Doctor.Verdict.Title)
	for _, want := range []string{`class="box fault" id="verdict"`, verdict, `id="missing"`,
		"There is no timeline.", "Nothing was measured."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
	r = probe{}.run("report", "-driver", "soft", "-device", "7", "-o", filepath.Join(dir, "r.html"))
	_, page = readPage(t, dir)
	if diff := cmp.Diff(allParts, missingParts(embedded(t, page))); diff != "" || r.status != exitFailure ||
		!strings.Contains(page, "there is no device 7") {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}
}

// TestReportInterrupted interrupts the measurement, and then a run that has measured nothing.
func TestReportInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.html")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := probe{ctx: ctx}.run("report", "-driver", "soft", "-o", path)
	_, page := readPage(t, filepath.Dir(path))
	if diff := cmp.Diff(allParts, missingParts(embedded(t, page))); diff != "" || r.status != exitFailure ||
		r.stderr != "" || !strings.Contains(page, "<li>"+strings.Join(allParts, "; ")+": the run was interrupted</li>") {
		t.Errorf("exit status %d, %s (-want +got):\n%s", r.status, r.stderr, diff)
	}

	ctx, cancel = context.WithCancel(t.Context())
	p := &reporter{bench: bench{sizes: []uint64{4 << 10}, samples: 1, waiter: hasty(nil, nil, nil)}}
	c := &invocation{driver: softDriver, device: anyDevice, after: time.After, err: io.Discard}
	p.bench.progress = progress{w: cancelAt{"pinned both", cancel}}
	got, err := p.speed(ctx, c)
	if err == nil || !got.Interrupted || len(got.Measurements) != 2 {
		t.Errorf("%v, %+v", err, got)
	}
}

// TestReportHangs writes a report while a call of the measurement hangs, or an earlier call.
func TestReportHangs(t *testing.T) {
	const further = "a call of the driver hangs, and further calls could hang, too"
	for hangs, want := range map[string][]skipped{
		"cuMemcpyHtoD_v2":   {{partSpeed, "pageable h2d 4KiB: it has not ended: the GPU or the driver hangs"}},
		"cuStreamWaitEvent": {{partTimeline, "it has not ended: the GPU or the driver hangs"}, {partSpeed, further}},
	} {
		f := newFake(t)
		path := filepath.Join(t.TempDir(), "r.html")
		var out, said bytes.Buffer
		c := &invocation{
			ctx: t.Context(), out: &output{w: &out}, err: &said, env: os.LookupEnv, driver: f.path, device: anyDevice,
			after: f.hangAt(hangs),
		}
		b := bench{sizes: []uint64{4 << 10}, samples: 2, parts: []string{partPageable, partPinned}, ordinals: []int{1}}
		p := &reporter{path: path, now: time.Now, hostname: os.Hostname, bench: b}
		status := c.finish(p.run(c))
		f.ask("fake_unblock", hangs)
		_, page := readPage(t, filepath.Dir(path))
		got := embedded(t, page)
		diff := cmp.Diff(want, got.Missing)
		if diff != "" || status != exitFailure || (got.Bench != nil) != (len(want) == 1) {
			t.Errorf("exit status %d, %s%s (-want +got):\n%s", status, &out, &said, diff)
		}
		if got.Bench != nil && (len(got.Bench.Measurements) != 3 || got.Trace == nil) {
			t.Errorf("%d rows, %d bytes of a trace", len(got.Bench.Measurements), len(got.Trace))
		}
		f.closeTargets(&p.bench)
	}
}

// TestReportFaulty writes a report if one of three devices fails a check. The others are measured.
func TestReportFaulty(t *testing.T) {
	f := newFake(t)
	f.fail("cuModuleLoadDataEx", 1, cu.ResultInvalidPTX)
	path := filepath.Join(t.TempDir(), "r.html")
	r := f.run(append([]string{"report", "-o", path}, quick...)...)
	_, page := readPage(t, filepath.Dir(path))
	got := embedded(t, page)
	want := []skipped{{"measurements of device 0", "the doctor finds it faulty"}}
	if diff := cmp.Diff(want, got.Missing); diff != "" || r.status != exitFailure || got.Trace == nil ||
		len(got.Bench.Devices) != 2 || got.Bench.Devices[0].Ordinal != 1 || got.Bench.Devices[1].Ordinal != 2 {
		t.Errorf("exit status %d\n%s%s (-want +got):\n%s", r.status, r.stdout, r.stderr, diff)
	}
	if got.Doctor.Verdict.Severity != loader.Fault || !strings.Contains(page, ">FAILED<") {
		t.Errorf("%+v", got.Doctor.Verdict)
	}
	f.fail("cuModuleLoadDataEx", 1, cu.ResultInvalidPTX)
	r = f.run("report", "-device", "0", "-o", path)
	_, page = readPage(t, filepath.Dir(path))
	if got := embedded(t, page); !strings.Contains(page, errFaulty.Error()) || got.Bench != nil ||
		r.status != exitFailure {
		t.Errorf("exit status %d, %+v", r.status, got.Missing)
	}
}

// hostile is a text that would end elements and attributes, run a script, and change the direction of
// writing, if it were not escaped.
const hostile = "\"'><img src=x onerror=\"window.hacked=1\"></title></style></script>" +
	"<script>window.hacked=1</script>\x1b[31m\u202e{{.}}"

// TestReportEscapes checks that texts of the machine change no element of the page.
func TestReportEscapes(t *testing.T) {
	skeleton := func(odd string) (elements []string, page string) {
		r, err := sampleReport(t, odd, 1).anonymous(func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := r.page(&b); err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`<(/?[A-Za-z!]\w*)`).FindAllStringSubmatch(b.String(), -1) {
			elements = append(elements, m[1])
		}
		return elements, b.String()
	}
	want, _ := skeleton(" odd" + strings.Repeat("x", len(hostile)))
	got, page := skeleton(" odd" + hostile)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the elements (-want +got):\n%s", diff)
	}
	if strings.ContainsAny(page, "\x1b\u202e") {
		t.Error("there are control characters in the page")
	}
	r := embedded(t, page)
	if r.Host != "gpu-node-7 odd"+hostile || r.Devices.Devices[0].Name != "Simulated H200 odd"+hostile {
		t.Errorf("the JSON has the host %q", r.Host)
	}
	if n := strings.Count(page, html.EscapeString("<img src=x")); n < 15 {
		t.Errorf("the text is in the page %d times", n)
	}
}

// TestReportAnonymous checks that home folders and user names are replaced in the page.
func TestReportAnonymous(t *testing.T) {
	f := newFake(t)
	dir := t.TempDir()
	p := probe{env: map[string]string{"HOME": filepath.Dir(filepath.Dir(f.path)), "USER": "alice"}}
	r := p.run(append([]string{"report", "-driver", f.path, "-o", filepath.Join(dir, "r.html")}, quick...)...)
	_, page := readPage(t, dir)
	if strings.Contains(page, filepath.Dir(f.path)) || !strings.Contains(page, "~") {
		t.Errorf("exit status %d: the page has the path %s", r.status, f.path)
	}
}

// TestReportGPU writes a report of the machine's GPU, or else of the software driver.
func TestReportGPU(t *testing.T) {
	name := softDriver
	switch gpu := os.Getenv("PURECU_TEST_GPU"); gpu {
	case "":
	case "1":
		name = cudaDriver
	default:
		name = gpu
	}
	path := filepath.Join(t.TempDir(), "r.html")
	r := probe{}.run("report", "-driver", name, "-o", path, "-for", "5ms", "-size", "4KiB,1MiB")
	_, page := readPage(t, filepath.Dir(path))
	got := embedded(t, page)
	if r.status != exitOK || len(got.Missing) > 0 {
		t.Fatalf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	for _, c := range slices.Concat(got.Bench.bandwidths(), got.Bench.latencies()) {
		if empty := c.Empty != ""; empty && !got.Bench.VirtualTime || !empty && len(c.Series) < 2 {
			t.Errorf("%+v", c)
		}
	}
}
