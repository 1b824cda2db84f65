package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/release"
	"github.com/purecu/purecu/loader"
)

// output is a writer that keeps its first error.
type output struct {
	w   io.Writer
	err error
}

// Write writes text through a [terminal]. After the first error it only returns this error.
func (o *output) Write(p []byte) (int, error) { return o.write(terminal{o.w}, p) }

func (o *output) write(to io.Writer, p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := to.Write(p)
	if err != nil {
		o.err = fmt.Errorf("the output could not be written: %w", err)
	}
	return n, err
}

// terminal writes text to standard output or standard error. Parts of the text come from other
// sources, such as names of files and devices, and must not contain control characters.
type terminal struct{ w io.Writer }

// Write writes p with escapes such as \x1b for all bytes that could control a terminal: control
// characters other than line breaks and tabs, characters that change the direction of writing, and
// bytes that are not UTF-8.
func (t terminal) Write(p []byte) (int, error) {
	var b []byte // nil while p needs no escapes
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		bad := r == utf8.RuneError && n == 1 || unicode.IsControl(r) && r != '\n' && r != '\t' ||
			unicode.Is(unicode.Bidi_Control, r)
		if bad && b == nil {
			b = append(make([]byte, 0, 2*len(p)), p[:i]...)
		}
		switch {
		case !bad && b != nil:
			b = append(b, p[i:i+n]...)
		case bad && n == 1:
			b = fmt.Appendf(b, "\\x%02x", p[i])
		case bad:
			b = fmt.Appendf(b, "\\u%04x", r)
		}
		i += n
	}
	if b == nil {
		return t.w.Write(p)
	}
	if _, err := t.w.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

// report is the result of a command. -json prints its JSON encoding.
type report interface {
	text(w io.Writer)
}

// show prints a report as text or JSON.
func (c *call) show(r report) error {
	if c.json {
		return c.showJSON(r)
	}
	r.text(c.out)
	return nil
}

// showJSON prints one JSON object. It is for programs, so its strings are not changed.
func (c *call) showJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	c.out.write(c.out.w, b.Bytes())
	return c.out.err
}

// reported is an exit status whose reason was already printed.
type reported int

// Error returns a text with the exit status.
func (r reported) Error() string { return "exit status " + strconv.Itoa(int(r)) }

// finish reports a run's error, and returns the exit status.
func (c *call) finish(err error) int {
	var r reported
	if err == nil {
		return exitOK
	}
	if errors.As(err, &r) {
		if c.out.err == nil {
			return int(r)
		}
		err = c.out.err
	}
	if c.json && c.out.err == nil {
		_ = c.showJSON(struct {
			Error *failure `json:"error"`
		}{c.failure(err)})
	} else {
		fmt.Fprintln(c.err, "cuprobe: "+c.failure(err).Message)
	}
	return status(err)
}

// status returns the exit status for an error.
func status(err error) int {
	var u usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &u):
		return exitUsage
	case errors.Is(err, cu.ErrNoDriver):
		return exitNoDriver
	case errors.Is(err, cu.ErrNoDevice):
		return exitNoDevice
	}
	return exitFailure
}

// failure is an error in JSON. All fields are always there.
type failure struct {
	// Op is the C function that has failed, or would have been called, or "".
	Op string `json:"op"`
	// Result is the name of the CUresult, such as "CUDA_ERROR_NO_DEVICE", and Code its number. They
	// are "" and 0 without a CUresult.
	Result string `json:"result"`
	Code   int    `json:"code"`
	// Doc is the place in purecu's documentation that explains the error, or "".
	Doc string `json:"doc"`
	// Message is the text that cuprobe prints without -json.
	Message string `json:"message"`
	// Fix is a command or an instruction, or "".
	Fix string `json:"fix"`
}

// failure returns the JSON form of an error. If the driver cannot be opened, it examines the
// machine for it.
func (c *call) failure(err error) *failure {
	f := newFailure(err, func() *loader.Report {
		if c.software() {
			return nil
		}
		return c.diagnose(err)
	})
	if c.instead != "" && (errors.Is(err, cu.ErrNoDriver) || errors.Is(err, cu.ErrNoDevice)) {
		f.Message += ". " + c.instead
	}
	return f
}

// newFailure returns the JSON form of an error. diagnose examines the machine, and returns nil if that has
// nothing to do with the error.
func newFailure(err error, diagnose func() *loader.Report) *failure {
	f := &failure{Message: err.Error()}
	var e *cu.Error
	if errors.As(err, &e) {
		f.Op, f.Doc = e.Op, e.Doc()
		if e.Result != cu.ResultSuccess { // the driver was called
			f.Result, f.Code, f.Fix = e.Result.Name(), int(e.Result), e.Remedy()
		}
	}
	if errors.Is(err, cu.ErrNoDriver) || errors.Is(err, cu.ErrNoDevice) || f.Op == opInit {
		if r := diagnose(); r != nil {
			f.Message, f.Fix = explain(r, fmt.Sprintf("%s fails with %s (%d)", f.Op, f.Result, f.Code)), r.Verdict().Fix
		}
	}
	return f
}

// opInit is the operation of errors that come from the driver's initialisation.
const opInit = "cuInit"

// explain returns the error of a driver that cannot be opened as one paragraph: the libraries that
// were tried, the problem, and the advice. what is the problem with a library that could be loaded.
func explain(r *loader.Report, what string) string {
	var b strings.Builder
	switch {
	case r.Library != nil:
		fmt.Fprintf(&b, "%s is a driver for CUDA %s, and its %s. ", r.Library.Name, cu.Version(r.Library.Version), what)
	case len(r.Candidates) > 0:
		b.WriteString("no CUDA driver library could be loaded. Tried " +
			sentence(strings.Join(tried(r.Candidates), "; ")))
	default:
		b.WriteString("NVIDIA ships no CUDA driver for " + sentence(r.Platform))
	}
	v := r.Verdict()
	if v.Severity != loader.Fine {
		b.WriteString("Verdict: " + sentence(oneLine(v.Title)))
	}
	if v.Fix != "" {
		b.WriteString("Fix: " + sentence(oneLine(v.Fix)))
	}
	b.WriteString("For more run: cuprobe doctor")
	return b.String()
}

// tried returns the problem of each candidate. Folders without a library are only counted.
func tried(candidates []loader.CandidateFacts) []string {
	var list []string
	absent := 0
	for _, c := range candidates {
		if c.Problem == loader.Absent && strings.ContainsAny(c.Name, `/\`) && len(candidates) > 1 {
			absent++
			continue
		}
		list = append(list, fmt.Sprintf("%s (%s): %s", c.Name, c.Source, oneLine(c.Error)))
	}
	if absent > 0 {
		list = append(list, fmt.Sprintf("and %s of other systems, which do not have it", count(absent, "folder")))
	}
	return list
}

// oneLine returns a text without line breaks.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// sentence returns a text that ends with a period and a space.
func sentence(s string) string { return strings.TrimSuffix(s, ".") + ". " }

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// duration returns a time with five digits and its unit, in ASCII.
func duration(d time.Duration) string { return digits(d, 5) }

// digits returns a time with n digits and its unit, in ASCII.
func digits(d time.Duration, n int) string {
	ns := float64(d)
	switch a := max(ns, -ns); {
	case a < 1e3:
		return strconv.Itoa(int(d)) + "ns"
	case a < 1e6:
		return decimal(ns/1e3, n) + "us"
	case a < 1e9:
		return decimal(ns/1e6, n) + "ms"
	}
	return decimal(ns/1e9, n) + "s"
}

// decimal returns a number with n digits, or more if its integer part has more.
func decimal(v float64, n int) string {
	after := n - 1
	for a := max(v, -v); after > 0 && a >= 10; a /= 10 {
		after--
	}
	return strconv.FormatFloat(v, 'f', after, 64)
}

// shortDuration returns a round time, such as "10ms", in ASCII.
func shortDuration(d time.Duration) string {
	s := strings.ReplaceAll(d.String(), "µ", "u")
	for _, zero := range []string{"m0s", "h0m"} { // 1m0s is 1m
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// size returns a round number of bytes, such as "16MiB".
func size(n uint64) string {
	for _, u := range units() {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatUint(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatUint(n, 10) + "B"
}

type unit struct {
	name  string
	bytes uint64
}

// units returns the units of sizes, the largest first.
func units() []unit {
	return []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
}

// gibibytes returns a number of bytes in GiB.
func gibibytes(n uint64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<30)) }

// buildReport is the version of cuprobe.
type buildReport struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"` // the tree differed from the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// programVersion returns the version of cuprobe, and the revision as far as the build recorded it.
func programVersion() *buildReport {
	r := &buildReport{Version: release.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Module = info.Main.Path
		r.Revision = pseudoRevision(info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				r.Revision = s.Value
			case "vcs.modified":
				r.Modified = s.Value == "true"
			}
		}
	}
	return r
}

// pseudoRevision returns the revision at the end of a pseudo-version, or "". It is all that there is
// of a revision after go install …/cmd/cuprobe@main.
func pseudoRevision(version string) string {
	if m := regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(\+.*)?$`).FindStringSubmatch(version); m != nil {
		return m[1]
	}
	return ""
}

func (r *buildReport) text(w io.Writer) {
	fmt.Fprintf(w, "cuprobe %s", r.Version)
	switch {
	case r.Revision != "" && r.Modified:
		fmt.Fprintf(w, " (%s, modified)", r.Revision)
	case r.Revision != "":
		fmt.Fprintf(w, " (%s)", r.Revision)
	}
	fmt.Fprintf(w, ", %s, %s\n", r.Go, r.Platform)
}
