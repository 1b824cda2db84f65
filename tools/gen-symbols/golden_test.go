package main

import (
	"flag"
	"go/ast"
	"go/importer"
	goparser "go/parser"
	gotoken "go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func readSource(t testing.TB, name string) source {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return source{filepath.Base(name), string(data)}
}

// widget returns the inputs of the invented API's manifest.
func widget(t testing.TB) (header, typedefs, results source) {
	t.Helper()
	return readSource(t, "testdata/widget.h"), readSource(t, "testdata/widgetTypedefs.h"),
		readSource(t, "testdata/results.tsv")
}

func widgetManifest(t testing.TB) *manifest {
	t.Helper()
	m, err := extract(widget(t))
	if err == nil {
		err = m.classify(readSource(t, "testdata/classes.txt"), readSource(t, "testdata/measured.tsv"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if line, w, g := firstDifference(string(want), string(got)); line > 0 {
		t.Errorf("%s:%d: got\n\t%s\nwant\n\t%s\n(go test -update rewrites the golden files)", name, line, g, w)
	}
}

// firstDifference returns the number of the first line that differs, and that line of both texts.
// It returns 0 if there is none.
func firstDifference(want, got string) (line int, w, g string) {
	if want == got {
		return 0, "", ""
	}
	ws, gs := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(ws), len(gs)) {
		if ws[i] != gs[i] {
			return i + 1, ws[i], gs[i]
		}
	}
	n := min(len(ws), len(gs))
	return n, strings.Join(ws[n:], "\n\t"), strings.Join(gs[n:], "\n\t")
}

func TestGoldenManifest(t *testing.T) {
	golden(t, "testdata/golden/manifest.tsv", widgetManifest(t).format())
}

// goldenName returns a path of the module as a file name, because golden files share a folder.
func goldenName(name string) string {
	return "testdata/golden/" + strings.ReplaceAll(strings.TrimPrefix(name, "internal/"), "/", "_")
}

func TestGoldenEmit(t *testing.T) {
	files, err := emit(widgetManifest(t), readSource(t, "testdata/calls.tsv"), "manifest.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		golden(t, goldenName(name), data)
	}
}

// stubs replace the hand-written files beside the generated ones.
var stubs = map[string]string{
	"github.com/purecu/purecu/internal/ccall": `package ccall
import "unsafe"
type Class uint8
const (Setup Class = iota; Hot; Blocking)
const StructsOnStack = true
func Heap[T any](p *T) *T { return p }
func Call6(f unsafe.Pointer, c Class, on *int) {}`,
	"driver": `package driver
import ("reflect"; "sync/atomic"; "unsafe"; "github.com/purecu/purecu/internal/ccall")
type (
	Result int32
	Symbol uint16
	Context uintptr
	Stream uintptr
	Event uintptr
	DevicePtr uint64
	HostPtr uintptr
	IPCEventHandle [64]byte
	layout struct { name string; typ reflect.Type; size, align uintptr; fields []span }
	span struct { offset, size uintptr }
	KernelParams struct { Ptrs []unsafe.Pointer; Sizes []uint32; Extra unsafe.Pointer }
	Callback struct { Addr, Data uintptr; Go func() }
	At struct{ Thread *Thread; NoWait bool }
	Thread struct{}
	Unimplemented struct{}
	Clock interface{}
	JITOption struct{}
	JITLog struct{}
	Module uintptr
	Table struct { soft unsafe.Pointer; version int32; procs [numSymbols]atomic.Uintptr }
)
func (t *Table) software() Software { return nil }
func (t *Table) enter(at At) (*Thread, Result) { return nil, 0 }
func (t *Table) leave(at At, th *Thread, res Result) Result { return res }
func (t *Table) resolve(sym Symbol) (uintptr, Result) { return 0, 0 }
func (t *Table) mayWait(sym Symbol) {}
func missing(sym Symbol) Result { return 0 }
func (at *At) plain() bool { return true }
func (th *Thread) cc() *int { return nil }
func (t *Table) scoped6(at At, class ccall.Class, f unsafe.Pointer) Result { return 0 }
func (t *Table) call6(at At, class ccall.Class, f unsafe.Pointer) Result { return 0 }
func (t *Table) call1(at At, class ccall.Class, fn, word uintptr) Result { return 0 }
func (t *Table) call14(at At, class ccall.Class, f unsafe.Pointer) Result { return 0 }
func (t *Table) enterRare(at At, s Symbol) (th *Thread, soft Software, res Result) { return nil, nil, 0 }
func (t *Table) callRare(at At, s Symbol, res Result, words ...uintptr) Result { return 0 }
func aligned[T any](p *[2]T, align uintptr) *T { return &p[0] }
func goString(p unsafe.Pointer) string { return "" }`,
	"internal/valuename": `package valuename
type Name struct { Value int32; Name string }`,
	"cu": `package cu
type Limit int32`,
}

// stubImporter finds the stubs among the packages, and the standard library.
type stubImporter struct {
	std  types.Importer
	pkgs map[string]*types.Package
}

func (i stubImporter) Import(name string) (*types.Package, error) {
	if p := i.pkgs[name]; p != nil {
		return p, nil
	}
	return i.std.Import(name)
}

// TestGoldenCompiles type-checks the files for the invented API, which uses roles that no real call
// needs.
func TestGoldenCompiles(t *testing.T) {
	files, err := emit(widgetManifest(t), readSource(t, "testdata/calls.tsv"), "manifest.tsv")
	if err != nil {
		t.Fatal(err)
	}
	fset := gotoken.NewFileSet()
	imp := stubImporter{importer.ForCompiler(fset, "source", nil), map[string]*types.Package{}}
	for _, pkg := range []string{"github.com/purecu/purecu/internal/ccall", "internal/valuename", "driver", "cu"} {
		sources := map[string]string{pkg + "/stub.go": stubs[pkg]}
		for name, data := range files {
			if path.Base(path.Dir(name)) == pkg {
				sources[name] = string(data)
			}
		}
		var parsed []*ast.File
		for _, name := range slices.Sorted(maps.Keys(sources)) {
			f, err := goparser.ParseFile(fset, name, sources[name], 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		conf := types.Config{Importer: imp, Error: func(err error) { t.Error(err) }}
		if p, err := conf.Check(pkg, fset, parsed, nil); err == nil {
			imp.pkgs[pkg], imp.pkgs["github.com/purecu/purecu/"+pkg] = p, p
		}
	}
}

func TestEmitIsDeterministic(t *testing.T) {
	m, calls := widgetManifest(t), readSource(t, "testdata/calls.tsv")
	once, err := emit(m, calls, "manifest.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := emit(widgetManifest(t), calls, "manifest.tsv")
		if err != nil {
			t.Fatal(err)
		}
		for name := range once {
			if line, w, g := firstDifference(string(once[name]), string(again[name])); line > 0 {
				t.Errorf("%s:%d: %s, then %s", name, line, w, g)
			}
		}
	}
}

func TestManifestRoundTrip(t *testing.T) {
	for _, name := range []string{"testdata/golden/manifest.tsv", "manifest/cuda-13.0.tsv"} {
		src := readSource(t, name)
		m, err := parseManifest(src.name, src.text)
		if err != nil {
			t.Fatal(err)
		}
		if line, w, g := firstDifference(src.text, string(m.format())); line > 0 {
			t.Errorf("%s:%d: read %q, wrote %q", name, line, w, g)
		}
	}
}
