package tests

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/internal/release"
)

// A page is a Markdown file of this module.
type page struct {
	name string // slash-separated, relative to the module's root
	text string
}

// pages reads the Markdown files that users read.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(moduleRoot, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(moduleRoot, name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, page{filepath.ToSlash(rel), string(data)})
		}
	}
	if len(all) < 2 {
		t.Fatalf("there are only %d pages", len(all))
	}
	return all
}

// A fence is a fenced block of a page.
type fence struct {
	language string
	above    string // the line above it
	code     string
}

// split returns the fenced blocks of a page, and its other lines.
func (p page) split() (fences []fence, lines []string) {
	inside, above := false, ""
	for line := range strings.Lines(p.text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			if inside = !inside; inside {
				fences = append(fences, fence{language: line[3:], above: above})
			}
		case inside:
			fences[len(fences)-1].code += line + "\n"
		default:
			lines = append(lines, line)
		}
		above = line
	}
	return fences, lines
}

// exampleName is the comment above a program. The program is the body of the example that the
// comment names.
var exampleName = regexp.MustCompile(`^<!-- (Example\w*) -->$`)

// wrongPrograms returns the Go programs of a page that differ from the bodies of the examples that
// they name.
func wrongPrograms(p page, examples map[string]string) (wrong []string) {
	fences, _ := p.split()
	for _, f := range fences {
		if f.language != "go" {
			continue
		}
		first, _, _ := strings.Cut(f.code, "\n")
		m := exampleName.FindStringSubmatch(f.above)
		if m == nil {
			wrong = append(wrong, fmt.Sprintf("%s: the program %q… has no line <!-- ExampleXxx --> above", p.name, first))
			continue
		}
		switch body, ok := examples[m[1]]; {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%s: there is no %s", p.name, m[1]))
		case body != f.code:
			wrong = append(wrong, fmt.Sprintf("%s: this is not the body of %s (-page +example):\n%s", p.name, m[1], gocmp.Diff(f.code, body)))
		}
	}
	return wrong
}

// exampleBodies returns the bodies of the examples of the packages, with one tab less of
// indentation.
func exampleBodies(t *testing.T, packages ...string) map[string]string {
	t.Helper()
	var names []string
	for _, dir := range packages {
		found, err := filepath.Glob(filepath.Join(moduleRoot, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	bodies := map[string]string{}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range functions(t, name, src) {
			if strings.HasPrefix(f.name, "Example") {
				bodies[f.name] = f.body
			}
		}
	}
	if len(bodies) == 0 {
		t.Fatalf("there are no examples of %v", packages)
	}
	return bodies
}

// A function is a function in a source file.
type function struct {
	name, text, body string
	lines            int
}

// functions returns the functions of a source file, without the methods.
func functions(t *testing.T, name string, src []byte) (list []function) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || fn.Body == nil {
			continue
		}
		var body strings.Builder
		for line := range strings.Lines(strings.TrimPrefix(string(src[offset(fn.Body.Lbrace)+1:offset(fn.Body.Rbrace)]), "\n")) {
			body.WriteString(strings.TrimPrefix(line, "\t"))
		}
		text := string(src[offset(fn.Pos()):offset(fn.End())])
		list = append(list, function{fn.Name.Name, text, body.String(), strings.Count(text, "\n") + 1})
	}
	return list
}

// TestDocsPrograms checks that every Go program of the documentation is the body of an example,
// which is compiled. It skips docs/errors.md, which is written by the test that runs its programs.
func TestDocsPrograms(t *testing.T) {
	examples := exampleBodies(t, publicPackages...)
	for _, p := range pages(t) {
		if path.Dir(p.name) != "docs" || p.name == "docs/errors.md" {
			continue
		}
		for _, w := range wrongPrograms(p, examples) {
			t.Error(w)
		}
	}
}

// cellSpans returns the code spans in the last column of a page's tables, which is about this
// module.
func (p page) cellSpans() (spans []string) {
	_, lines := p.split()
	for _, line := range lines {
		row, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !ok {
			continue
		}
		row = strings.ReplaceAll(strings.TrimSuffix(row, "|"), `\|`, "\x00")
		for _, m := range codeSpan.FindAllStringSubmatch(row[strings.LastIndex(row, "|")+1:], -1) {
			spans = append(spans, strings.ReplaceAll(m[1], "\x00", "|"))
		}
	}
	return spans
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// identifier is a name of a public package: pkg.Name, pkg.Type.Method, or Type.Method.
var identifier = regexp.MustCompile(`^(?:([a-z]+)\.)?([A-Z]\w*)(?:\.([A-Z]\w*))?$`)

// vocabulary has the names that the documentation may use.
type vocabulary struct {
	imports types.Importer
	public  map[string]*types.Package
}

// newVocabulary loads the public packages from the compiler's export data.
func newVocabulary(t *testing.T) vocabulary {
	t.Helper()
	imports, public := loadPublic(t)
	return vocabulary{imports, public}
}

// name looks a name up. isName is false if the text is not the name of something in a public
// package, whether or not that exists.
func (v vocabulary) name(span string) (isName bool, err error) {
	m := identifier.FindStringSubmatch(span)
	if m == nil || m[1] == "" && m[3] == "" || m[1] != "" && !slices.ContainsFunc(publicPackages, func(dir string) bool { return path.Base(dir) == m[1] }) {
		return false, nil
	}
	for name, pkg := range v.public {
		if m[1] != "" && m[1] != path.Base(name) {
			continue
		}
		o := pkg.Scope().Lookup(m[2])
		if o == nil {
			continue
		}
		if m[3] == "" {
			return true, nil
		}
		if member, _, _ := types.LookupFieldOrMethod(o.Type(), true, pkg, m[3]); member != nil {
			return true, nil
		}
	}
	return true, fmt.Errorf("there is no %s", span)
}

// namesInTables declares the names that the tables of docs/coming-from.md use.
const namesInTables = `package p

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/checkpoint"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/loader"
	"github.com/purecu/purecu/nvml"
)

var _, _, _, _, _, _, _ = errors.Is, time.Now, loader.Open, checkpoint.Of, green.New, trace.Add, nvml.Open

func _(ctx context.Context, drv *cu.Driver, dev *cu.Device, gpu *cu.Context, s, other *cu.Stream, e, start, stop *cu.Event,
	mod *cu.Module, code *library.Library, k *library.Kernel, a cu.FunctionAttribute, kernel, spin *cu.Function, mem, x *cu.DeviceMem,
	pool *memory.Pool, host *cu.HostMem, buf *memory.Virtual, p *memory.Physical, sem *interop.Semaphore, n, addr uint64,
	b []byte, v []float32, cfg cu.LaunchConfig, prepared *cu.PreparedLaunch, peer *cu.Device, second *cu.Context,
	fd uintptr, gpus map[cu.UUID]cu.UUID, shared memory.PoolHandle, copies []cu.MemCopy, updates []graph.NodeUpdate,
	list []memory.Move, c graph.Condition, w io.Writer,
	dst, src cu.Rows, to, from cu.Planes, notify func(),
	g, child *graph.Graph, exec *graph.Exec, before, node graph.Node, args []cu.Arg,
	f func(*cu.Thread) error, t *cu.Thread, work func() error, h cu.IPCEventHandle, handle uintptr, err error,
	lib *nvml.Library, d *nvml.Device, set *nvml.EventSet, kinds nvml.EventType, id nvml.UUID,
	path string, limit time.Duration) {
	{
		%s
	}
}
`

// compile type-checks an expression or a statement that uses the names in tables.
func (v vocabulary) compile(span string) error {
	statement := span
	expr, err := parser.ParseExpr(span)
	if err == nil {
		statement = ""
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "table", fmt.Sprintf(namesInTables, statement), parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var errs []error
	conf := types.Config{Importer: v.imports, Error: func(err error) {
		if te := (types.Error{}); !errors.As(err, &te) || !te.Soft { // soft: declared and not used
			errs = append(errs, err)
		}
	}}
	pkg, _ := conf.Check("p", fset, []*ast.File{file}, nil)
	if statement == "" {
		inside := file.Decls[len(file.Decls)-1].(*ast.FuncDecl).Body.List[0].Pos() + 1
		if err := types.CheckExpr(fset, pkg, inside, expr, nil); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// wrongSpans returns the names and the code in a page's tables that do not exist in this module.
// With allCode, a span that is not a name must compile.
func wrongSpans(p page, v vocabulary, allCode bool) (wrong []string) {
	for _, span := range p.cellSpans() {
		isName, err := v.name(span)
		if !isName && allCode {
			err = v.compile(span)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: in a table, `%s`: %v", p.name, span, err))
		}
	}
	return wrong
}

// TestDocsTables checks the names and the code in tables against the packages.
func TestDocsTables(t *testing.T) {
	v := newVocabulary(t)
	for _, p := range pages(t) {
		for _, w := range wrongSpans(p, v, p.name == "docs/coming-from.md") {
			t.Error(w)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.*)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the fragments that lead to the sections of a page.
func (p page) anchors() map[string]bool {
	anchors, seen := map[string]bool{}, map[string]int{}
	_, lines := p.split()
	for _, line := range lines {
		if m := heading.FindStringSubmatch(line); m != nil {
			slug := strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
			if n := seen[slug]; n > 0 {
				anchors[fmt.Sprintf("%s-%d", slug, n)] = true
			} else {
				anchors[slug] = true
			}
			seen[slug]++
		}
	}
	return anchors
}

// deadLinks returns the links of a page that lead to no existing file or section.
func deadLinks(p page, exists func(name string) bool, anchors func(name string) map[string]bool) (dead []string) {
	_, lines := p.split()
	for _, line := range lines {
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
			to, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			name := p.name
			if to != "" {
				name = path.Join(path.Dir(p.name), to)
			}
			switch {
			case !exists(name):
				dead = append(dead, fmt.Sprintf("%s links to %s, which does not exist", p.name, m[1]))
			case fragment != "" && !anchors(name)[fragment]:
				dead = append(dead, fmt.Sprintf("%s links to %s: there is no such section", p.name, m[1]))
			}
		}
	}
	return dead
}

// TestDocsLinks checks the links inside the repository.
func TestDocsLinks(t *testing.T) {
	all := pages(t)
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(moduleRoot, filepath.FromSlash(name)))
		return err == nil
	}
	anchors := func(name string) map[string]bool {
		if i := slices.IndexFunc(all, func(p page) bool { return p.name == name }); i >= 0 {
			return all[i].anchors()
		}
		return nil
	}
	for _, p := range all {
		for _, d := range deadLinks(p, exists, anchors) {
			t.Error(d)
		}
	}
}

// TestDocsChecks checks that the other checks find errors.
func TestDocsChecks(t *testing.T) {
	v := newVocabulary(t)
	programs := func(text string) int {
		return len(wrongPrograms(page{"p.md", text}, map[string]string{"ExampleA": "a()\n"}))
	}
	spans := func(text string) int { return len(wrongSpans(page{"p.md", text}, v, true)) }
	links := func(text string) int {
		exists := func(name string) bool { return name == "docs/p.md" || name == "LICENSE" }
		p := page{"docs/p.md", text}
		return len(deadLinks(p, exists, func(string) map[string]bool { return p.anchors() }))
	}
	for _, c := range []struct {
		check func(text string) (problems int)
		text  string
		want  int
	}{
		{programs, "<!-- ExampleA -->\n```go\na()\n```\n", 0},
		{programs, "<!-- ExampleA -->\n```go\nb()\n```\n", 1},
		{programs, "<!-- ExampleB -->\n```go\na()\n```\n", 1},
		{programs, "<!-- ExampleA -->\n\n```go\na()\n```\n", 1},
		{programs, "```go\na()\n```\n```c\na();\n```\n", 1},

		{spans, "| `nothing` | `cu.Open`, `cu.Event.Query`, `Event.Query`, `Leak.Kind`, `loader.LoadError` |", 0},
		{spans, "| `e.Query()`, `var e cu.Event`, `st, err := e.Query()`, `cu.EventDefault\\|cu.EventBlockingSync`, `time.Duration` |", 0},
		{spans, "not a table: `cu.Nothing`", 0},
		{spans, "```\n| `cu.Nothing` |\n```", 0},
		{spans, "| `cu.Nothing` |", 1},
		{spans, "| `Event.Nothing` |", 1},
		{spans, "| `cu.Event.Nothing` |", 1},
		{spans, "| `cu.event` |", 1},
		{spans, "| `e.Nothing()` |", 1},
		{spans, "| `e.Query(1)`, `st := e.Query()`, `e.Query(`, `unknown` |", 4},

		{links, "# A `b` c.d\n[a](#a-b-cd) [b](p.md#a-b-cd) [c](../LICENSE) [d](https://example.org/x#y)", 0},
		{links, "# A\n# A\n[a](#a) [b](#a-1)", 0},
		{links, "[a](#a)", 1},
		{links, "[a](nowhere.md)", 1},
		{links, "[a](LICENSE)", 1},
		{links, "`[a](nowhere.md)`\n```\n[a](nowhere.md)\n```", 0},
	} {
		if got := c.check(c.text); got != c.want {
			t.Errorf("%d problems, not %d, in\n%s", got, c.want, c.text)
		}
	}
}

// TestExampleNouns finds types and functions that users begin with and that have no example.
func TestExampleNouns(t *testing.T) {
	for dir, nouns := range map[string][]string{
		"cu": {"Context", "Device", "DeviceMem", "Driver", "Event", "Function", "HostMem", "Module",
			"Proc", "Stream", "Thread", "Ticket"},
		"cu/checkpoint": {"Process"},
		"cu/graph":      {"Capture", "Exec", "Graph"},
		"cu/green":      {"New", "SMResource"},
		"cu/interop":    {"Semaphore"},
		"cu/library":    {"Kernel", "Library", "Link"},
		"cu/memory":     {"AllocManaged", "IPCHandle", "Pool", "Virtual", "Wrap"},
	} {
		shown := map[string]bool{}
		for name := range exampleBodies(t, dir) {
			noun, _, _ := strings.Cut(strings.TrimPrefix(name, "Example"), "_")
			shown[noun] = true
		}
		for _, noun := range nouns {
			if !shown[noun] {
				t.Errorf("package %s has no example of %s", dir, noun)
			}
		}
	}
}

// TestTwoStreams checks that the first program that a user would write fits on a screen, and is in
// the README.
func TestTwoStreams(t *testing.T) {
	const limit = 35
	name := filepath.Join(moduleRoot, "examples", "two-streams", "main.go")
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	list := functions(t, name, src)
	i := slices.IndexFunc(list, func(f function) bool { return f.name == "main" })
	if i < 0 {
		t.Fatal("there is no main")
	}
	if list[i].lines > limit {
		t.Errorf("main has %d lines; it should do with %d", list[i].lines, limit)
	}
	readme, err := os.ReadFile(filepath.Join(moduleRoot, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(readme, []byte("two-streams")) && !bytes.Contains(readme, []byte("\n"+list[i].text+"\n")) {
		t.Errorf("README.md speaks of two-streams, and does not show its main:\n%s", list[i].text)
	}
}

// TestExamplePrograms runs the programs in examples that are of this module. Without a driver they must say so, unless
// they need none. With the fake driver they must work, unless it lacks their kernels.
func TestExamplePrograms(t *testing.T) {
	bin := buildExamples(t)
	run := func(name, library string) (stdout, stderr string, status int) {
		t.Helper()
		var out, errs strings.Builder
		cmd := exec.Command(filepath.Join(bin, name))
		cmd.Env = append(os.Environ(), "CUDA_DRIVER_LIBRARY="+library)
		cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &errs, bin
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	nowhere := filepath.Join(bin, "libcuda.so.1")
	for name, e := range examples {
		if e.library {
			continue
		}
		t.Run(name, func(t *testing.T) {
			want := regexp.MustCompile(e.prints)
			if stdout, stderr, status := run(name, nowhere); status != e.undriven {
				t.Errorf("without a driver: exit status %d, %q, %q; want %d", status, stdout, stderr, e.undriven)
			} else if status == 0 && (stderr != "" || !want.MatchString(stdout)) {
				t.Errorf("without a driver: %q, %q; want %s", stdout, stderr, want)
			} else if status != 0 && (stdout != "" || !strings.Contains(stderr, "no CUDA driver")) {
				t.Errorf("without a driver: exit status %d, %q, %q", status, stdout, stderr)
			}
			if e.unfaked {
				return
			}
			if stdout, stderr, status := run(name, fakeDriver(t)); status != 0 || stderr != "" || !want.MatchString(stdout) {
				t.Errorf("with the fake driver: exit status %d, %q, %q; want %s", status, stdout, stderr, want)
			}
		})
	}
}

// fakeDriver returns the path of the fake driver of package cu's tests. It compiles the driver, or
// takes it from the folder that PURECU_TEST_CLIB names. Without a compiler it skips the test.
func fakeDriver(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the fake driver is for Linux")
	}
	const name = "libfakecuda.so"
	if dir := os.Getenv("PURECU_TEST_CLIB"); dir != "" {
		return filepath.Join(dir, name)
	}
	cc, err := exec.LookPath(cmp.Or(os.Getenv("CC"), "cc"))
	if err != nil {
		t.Skipf("no C compiler for the fake driver, and PURECU_TEST_CLIB is not set: %v", err)
	}
	lib := filepath.Join(t.TempDir(), name)
	source := filepath.Join(moduleRoot, "cu", "testdata", "fakecuda.c")
	if out, err := exec.Command(cc, "-O1", "-shared", "-fPIC", "-pthread", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, out)
	}
	return lib
}

// TestChangelogVersion checks that the first section of CHANGELOG.md is of the tree's version.
func TestChangelogVersion(t *testing.T) {
	b, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "\n## ")
	if version, _, _ := strings.Cut(section, ","); version != release.Version {
		t.Errorf("CHANGELOG.md begins with version %q, and internal/release has %q", version, release.Version)
	}
}
