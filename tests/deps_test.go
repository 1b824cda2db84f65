package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// A rule says what one package may do.
type rule struct {
	imports []string // packages of this module that it may import
	modules []string // modules of others that it may import from
	unsafe  []string // its files that may import unsafe: patterns of path.Match
	cgo     bool     // whether it may import "C"
	program bool     // not a library: it may print, exit, and panic
}

const (
	modPurego = "github.com/ebitengine/purego"
	modCmp    = "github.com/google/go-cmp"
	modGoleak = "go.uber.org/goleak"
)

// rules holds every package of this module, by its directory; a key that ends in /... stands for
// what is below it and not named itself. The packages lower down build on those above.
var rules = map[string]rule{
	"internal/ccall":                  {imports: []string{"internal/ccall/internal/guest"}, modules: []string{modPurego}, unsafe: []string{"*"}},
	"internal/ccall/internal/guest":   {unsafe: []string{"*"}},
	"internal/ccall/internal/cgocost": {cgo: true},

	"internal/explore":     {},
	"internal/handle":      {imports: []string{"internal/explore"}},
	"internal/capturegate": {imports: []string{"driver", "internal/lock", "internal/watch"}},
	"internal/clock":       {unsafe: []string{"count_windows.go"}},
	"internal/lock":        {},
	"internal/ptx":         {},
	"internal/ptx/syntax":  {},
	"internal/ptx/tables":  {},
	"internal/ptx/texture": {},
	"internal/ptx/vm": {imports: []string{"internal/ptx/texture", "internal/ptx/vm/simd"},
		unsafe: []string{"memory.go", "vectors.go", "wide.go"}},
	"internal/ptx/vm/simd":   {unsafe: []string{"simd.go"}},
	"internal/ptx/softfloat": {},
	"internal/ptx/tensormap": {},
	"internal/ptx/warpgroup": {imports: []string{"internal/ptx/tensormap", "internal/ptx/vm"}},
	"internal/ptx/isa": {imports: []string{"internal/ptx/softfloat", "internal/ptx/tensormap", "internal/ptx/texture",
		"internal/ptx/vm", "internal/ptx/vm/simd", "internal/ptx/warpgroup"},
		unsafe: []string{"memory.go", "async.go", "bulk.go", "tensor.go", "tensorcopy.go"}},
	"internal/ptx/compile":  {imports: []string{"internal/ptx/isa", "internal/ptx/syntax", "internal/ptx/vm"}},
	"internal/ptx/operands": {imports: []string{"internal/ptx/isa", "internal/ptx/syntax", "internal/ptx/tables"}},
	"internal/ptx/mutate":   {imports: []string{"internal/ptx/isa", "internal/ptx/vm"}},
	"internal/codeimage":    {},
	"internal/descriptor":   {},
	"internal/deferred":     {imports: []string{"internal/lock"}},
	"internal/initresult":   {},
	"internal/mistake":      {},
	"internal/remedy":       {imports: []string{"driver", "internal/initresult"}},
	"internal/suggest":      {},
	"internal/races":        {imports: []string{"internal/lock"}},
	"internal/release":      {},
	"internal/slab":         {imports: []string{"driver", "internal/lock"}, unsafe: []string{"slab.go"}},
	"internal/watch":        {imports: []string{"driver", "internal/explore", "internal/lock"}},
	"loader":                {imports: []string{"internal/ccall", "internal/initresult"}},
	"driver":                {imports: []string{"internal/ccall"}, unsafe: []string{"*"}},
	"nvml/raw":              {imports: []string{"internal/ccall", "loader"}, unsafe: []string{"*"}},
	"nvml":                  {imports: []string{"internal/handle", "nvml/raw"}},
	"internal/core": {imports: []string{"cu/cuerror", "driver", "internal/capturegate", "internal/deferred",
		"internal/drivercall", "internal/handle", "internal/lock", "internal/mistake", "internal/races",
		"internal/remedy", "internal/slab", "internal/valuename", "internal/watch"}, unsafe: []string{"kernelargs.go"}},
	"internal/drivercall": {imports: []string{"cu/cuerror", "driver", "internal/clock", "internal/lock",
		"internal/mistake", "internal/races", "internal/remedy"}},
	"internal/valuename": {},
	"internal/ipchandle": {imports: []string{"driver", "internal/drivercall", "internal/mistake"}},
	"internal/memstate": {imports: []string{"cu/cuerror", "driver", "internal/core", "internal/deferred",
		"internal/drivercall", "internal/mistake", "internal/races"}, unsafe: []string{"mem.go"}},
	"internal/loaded": {imports: []string{"cu/cuerror", "driver", "internal/codeimage", "internal/core",
		"internal/drivercall", "internal/handle", "internal/memstate", "internal/ptx"}},
	"internal/timelines": {imports: []string{"driver", "internal/core", "internal/drivercall", "internal/handle",
		"internal/lock", "internal/mistake", "internal/slab", "internal/watch"}},
	"internal/eventpool": {imports: []string{"cu/cuerror", "driver", "internal/core", "internal/drivercall",
		"internal/eventuse", "internal/lock", "internal/mistake"}},
	"internal/eventuse": {imports: []string{"internal/core", "internal/drivercall", "internal/mistake"}},
	"internal/waits": {imports: []string{"driver", "internal/core", "internal/drivercall", "internal/handle",
		"internal/lock", "internal/watch"}},
	"internal/hostfunc": {imports: []string{"cu/cuerror", "driver", "internal/core", "internal/drivercall",
		"internal/handle", "internal/mistake"}},
	"internal/extsem": {imports: []string{"driver", "internal/core", "internal/drivercall", "internal/mistake",
		"internal/races"}},
	"internal/launch": {imports: []string{"cu/cuerror", "driver", "internal/core", "internal/drivercall",
		"internal/loaded", "internal/memstate", "internal/mistake", "internal/ptx", "internal/races",
		"internal/valuename"}},
	"internal/wordop": {imports: []string{"driver", "internal/core", "internal/drivercall", "internal/memstate",
		"internal/races"}},
	"cu": {imports: []string{"cu/cuerror", "driver", "internal/capturegate", "internal/clock",
		"internal/codeimage", "internal/core", "internal/drivercall", "internal/eventpool", "internal/eventuse",
		"internal/extsem", "internal/handle", "internal/hostfunc", "internal/initresult", "internal/ipchandle",
		"internal/launch", "internal/loaded", "internal/lock", "internal/memstate", "internal/mistake",
		"internal/races", "internal/remedy", "internal/timelines", "internal/valuename", "internal/waits",
		"internal/watch", "internal/wordop", "loader"}, unsafe: []string{"anyevent.go", "typed.go"}},
	"internal/poolimport": {imports: []string{"driver", "internal/core", "internal/lock", "internal/memstate"}},
	"internal/subject": {imports: []string{"cu", "driver", "internal/core", "internal/drivercall",
		"internal/eventpool", "internal/eventuse", "internal/launch", "internal/loaded", "internal/memstate",
		"internal/wordop"}},
	"internal/dot": {},
	"cu/graph": {imports: []string{"cu", "driver", "internal/core", "internal/dot", "internal/drivercall",
		"internal/extsem", "internal/handle", "internal/hostfunc", "internal/launch", "internal/lock",
		"internal/memstate", "internal/races", "internal/subject", "internal/timelines", "internal/valuename", "internal/wordop"}},
	forTests + "/override": {imports: []string{"driver", "nvml/raw"}, unsafe: []string{"zdriver.go"}},
	forTests: {imports: []string{"cu", "cu/graph", "cu/green", "cu/interop", "cu/memory", "cu/trace", "cusim", "driver",
		"internal/ccall", "internal/core", "internal/drivercall", "internal/timelines"}, unsafe: []string{"gpu.go"}},
	"cu/green": {imports: []string{"cu", "driver", "internal/core", "internal/drivercall", "internal/remedy",
		"internal/subject", "internal/valuename"}},
	"cu/interop": {imports: []string{"cu", "driver", "internal/core", "internal/descriptor", "internal/drivercall",
		"internal/extsem", "internal/memstate", "internal/subject"}},
	"cu/library": {imports: []string{"cu", "driver", "internal/codeimage", "internal/core", "internal/drivercall",
		"internal/launch", "internal/loaded", "internal/memstate", "internal/subject"}},
	"cu/memory": {imports: []string{"cu", "driver", "internal/core", "internal/drivercall", "internal/ipchandle",
		"internal/lock", "internal/memstate", "internal/poolimport", "internal/races", "internal/remedy",
		"internal/subject", "internal/valuename"}},
	"cu/trace": {imports: []string{"cu", "driver", "internal/drivercall", "internal/subject"}},
	"cu/checkpoint": {imports: []string{"cu", "driver", "internal/core", "internal/drivercall", "internal/subject",
		"internal/valuename", "internal/watch"}},
	"cu/cuerror":       {imports: []string{"driver", "internal/mistake", "internal/remedy"}},
	"internal/profile": {imports: []string{"driver", "internal/suggest"}},
	"internal/sim": {imports: []string{"driver", "internal/codeimage", "internal/descriptor", "internal/dot",
		"internal/simnvml", "internal/profile", "internal/ptx/syntax", "internal/ptx/tensormap", "internal/ptx/texture",
		"internal/ptx/vm", "internal/sim/code", "internal/sim/engine", "internal/sim/graph", "internal/sim/mem"},
		unsafe: []string{"mem*.go", "ipc*.go"}},
	"internal/sim/code": {imports: []string{"driver", "internal/codeimage", "internal/profile", "internal/ptx/compile",
		"internal/ptx/syntax", "internal/ptx/vm", "internal/sim/mem"}},
	"internal/sim/engine": {imports: []string{"driver"}},
	"internal/sim/graph":  {imports: []string{"driver"}},
	"internal/sim/mem":    {unsafe: []string{"address.go", "content.go"}},
	"internal/sim/environment": {imports: []string{"internal/profile", "internal/sim", "internal/simnvml",
		"internal/suggest", "nvml/raw"}},

	"internal/simnvml": {imports: []string{"driver", "internal/profile", "nvml/raw"}},
	"cusim": {imports: []string{"internal/profile", "internal/sim", "internal/sim/environment", "internal/simnvml",
		"driver",
		"nvml/raw"}},
	"cubench":    {imports: []string{"cu"}},
	"cusim/auto": {imports: []string{"cusim", "driver", "nvml/raw"}},
	"cusim/libcuda": {imports: []string{"internal/sim", "internal/sim/environment", "internal/simnvml", "driver",
		"nvml/raw"}, unsafe: []string{"*"}, cgo: true, program: true},
	"cusim/libcuda/build": {program: true},
	"cutest":              {imports: []string{"cu", "cusim", "nvml"}},
	"cutrace":             {imports: []string{"cu", "cu/graph", "cu/trace"}},
	"cmd/cuprobe": {imports: []string{"cu", "cu/library", "cu/trace", "cusim", "cutrace", "internal/clock", "internal/initresult", "internal/release",
		"internal/suggest", "loader", "nvml"}, program: true},
	"examples/...": {imports: []string{"cu", "cu/graph", "cubench", "cusim", "cusim/auto", "cutest", "cutrace", "loader",
		"nvml"},
		program: true},
	"tests":     {imports: []string{"*"}, modules: []string{modCmp, modGoleak}, unsafe: []string{"*"}, program: true},
	"tests/...": {imports: []string{"*"}, modules: []string{modCmp, modGoleak}, unsafe: []string{"*"}, program: true},
}

// forTests is the folder of the packages that only tests import.
const forTests = "internal/testrig"

// ofCore are the packages that may import internal/core, besides those in the folder of cu.
var ofCore = []string{"cu", "internal/eventpool", "internal/eventuse", "internal/extsem", "internal/hostfunc",
	"internal/launch", "internal/loaded", "internal/memstate", "internal/poolimport", "internal/subject",
	"internal/timelines", "internal/waits", "internal/wordop", forTests}

// testModules are the modules that any package's tests may import from. Inside this module tests
// may import what they like.
var testModules = []string{modCmp, modGoleak}

// variables holds the package-level variables that count as mutable state, and why each is right,
// as "directory.name". A variable is state unless it has an initial value, not from new or make,
// that nothing in its package changes or takes the address of.
var variables = map[string]string{
	"internal/capturegate.contexts": "a driver in C crashes whichever Driver of the process makes the call",
	"internal/ccall.call6ABI0":      "set by the assembler",
	"internal/ccall.call14ABI0":     "set by the assembler",
	"internal/ccall.callWideABI0":   "set by the assembler",
	"internal/ccall.eachABI0":       "set by the assembler",
	"internal/ccall.scopeABI0":      "set by the assembler",
	"internal/ccall.notifyABI0":     "set by the assembler",
	"internal/ccall.alwaysFalse":    "never set; keeps the compiler from knowing that",
	"internal/ccall.escaped":        "never set; makes a frame escape to the heap",
	"internal/ccall.funcs":          "C knows a Go function by a number, and by nothing else",
	"internal/remedy.table":         "a file that is embedded, which no constant can be",
	"internal/ccall.host":           "who takes the calls of C's threads, which know an address and nothing else",
	"internal/ccall.hostABI0":       "set by the assembler",
	"internal/ccall.hostFD":         "the assembler's part of host",
	"internal/ccall.hostHead":       "the assembler's part of host",
	"internal/ccall.hostServing":    "the assembler's part of host",

	"internal/ccall/internal/guest.process":          "a process has one C library at most",
	"internal/ccall/internal/guest.bootIdentity":     "the assembler's part of process",
	"internal/ccall/internal/guest.realThreadCreate": "the assembler's part of process",
	"internal/ccall/internal/guest.sigactionAt":      "the assembler's part of process",
	"internal/ccall.opening":                         "the process's signals",
	"internal/ccall/internal/guest.owners":           "the process's threads",
	"internal/ccall/internal/guest.bootMainABI0":     "set by the assembler",
	"internal/ccall/internal/guest.identityMainABI0": "set by the assembler",
	"internal/ccall/internal/guest.callWordsABI0":    "set by the assembler",
	"internal/ccall/internal/guest.threadHookABI0":   "set by the assembler",
	"internal/ccall/internal/guest.actionHookABI0":   "set by the assembler",
	"internal/ccall/internal/guest.guardABI0":        "set by the assembler",
	"internal/ccall/internal/guest.goHandler":        "the assembler's part of process",
	"internal/ccall/internal/guest.ownPID":           "the assembler's part of process",

	"internal/explore.current": "types that stand for the standard ones find the test's scheduler by nothing else",
	"internal/lock.held":       "what goroutines hold is known where it is checked, which is in tests only",

	"driver.registered":     "packages that register a driver when they are imported share no value with cu",
	"nvml/raw.registered":   "the same for an NVML, and package nvml",
	"internal/simnvml.h200": "go:embed needs a variable",
}

// calls holds the calls in libraries that are forbidden elsewhere, and why each is right, as "file:
// call".
var calls = map[string]string{
	"internal/explore/run.go: panic":               "ends a goroutine that a test's scheduler stops",
	"internal/lock/checked.go: panic":              "it is built into tests only, which it ends",
	"internal/testrig/testrig.go: panic":           "only tests import it, which it ends",
	"internal/testrig/override/override.go: panic": "only tests import it, which it ends",
}

// forbidden are the functions that no library calls, because only the program decides about output
// and about its end.
var forbidden = []string{
	"panic", "print", "println",
	"fmt.Print", "fmt.Printf", "fmt.Println",
	"log.Fatal", "log.Fatalf", "log.Fatalln", "log.Panic", "log.Panicf", "log.Panicln", "log.Print", "log.Printf", "log.Println",
	"os.Exit", "syscall.Exit",
}

// ruleFor gives the rule for the package in directory dir.
func ruleFor(dir string) (rule, bool) {
	if r, ok := rules[dir]; ok {
		return r, true
	}
	for up := path.Dir(dir); up != "."; up = path.Dir(up) {
		if r, ok := rules[up+"/..."]; ok {
			return r, true
		}
	}
	return rule{}, false
}

func TestImports(t *testing.T) {
	tree := parseModule(t, moduleRoot)
	for dir, files := range tree.packages {
		r, ok := ruleFor(dir)
		if !ok {
			t.Errorf("package %s has no rule: add it to the table rules in tests/deps_test.go, with what it may import", dir)
			continue
		}
		for _, f := range files {
			for _, p := range f.imports() {
				if err := r.allows(f, p); err != nil {
					t.Errorf("%s imports %s: %v", f.Name, p, err)
				}
			}
		}
	}
}

// allows reports why file f, of a package under rule r, may not import p.
func (r rule) allows(f sourceFile, p string) error {
	switch {
	case p == "C":
		if !r.cgo {
			return errors.New("cgo is allowed only where its rule says so")
		}
	case p == "unsafe":
		match := func(pattern string) bool { ok, _ := path.Match(pattern, path.Base(f.Name)); return ok }
		if !f.isTest() && !slices.ContainsFunc(r.unsafe, match) {
			return fmt.Errorf("of this package only the files %q may", r.unsafe)
		}
	case p == modulePath || strings.HasPrefix(p, modulePath+"/"):
		rel := strings.TrimPrefix(p, modulePath+"/")
		if !f.isTest() && strings.HasPrefix(rel+"/", forTests+"/") {
			return errors.New("only tests may")
		}
		if !f.isTest() && !slices.Contains(r.imports, "*") && !slices.Contains(r.imports, rel) {
			return fmt.Errorf("of this module the package may import only %q", r.imports)
		}
	case !isStandard(p):
		allowed := r.modules
		if f.isTest() {
			allowed = slices.Concat(allowed, testModules)
		}
		within := func(module string) bool { return p == module || strings.HasPrefix(p, module+"/") }
		if !slices.ContainsFunc(allowed, within) {
			return fmt.Errorf("of other modules it may import only %q", allowed)
		}
	}
	return nil
}

// isStandard reports whether p is a package of the standard library.
func isStandard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// TestRules checks the table itself: which packages must not import which, directly or indirectly.
func TestRules(t *testing.T) {
	reach := func(from string) map[string]bool {
		seen := map[string]bool{}
		var visit func(string)
		visit = func(p string) {
			for _, q := range rules[p].imports {
				if !seen[q] {
					seen[q] = true
					visit(q)
				}
			}
		}
		visit(from)
		return seen
	}
	for from := range rules {
		if reach(from)[from] {
			t.Errorf("by the rules, %s may import itself", from)
		}
	}
	for _, tt := range []struct{ from, to string }{
		{"cu", "cusim"}, {"cu", "cu/checkpoint"}, {"cu", "cutest"}, {"cu", "cutrace"}, {"cutrace", "cusim"}, {"cusim", "cu"}, {"internal/sim", "cu"}, {"cu", "internal/sim"}, {"loader", "driver"}, {"internal/ccall", "loader"},
		{"nvml/raw", "driver"}, {"cu", "nvml/raw"},
	} {
		if reach(tt.from)[tt.to] {
			t.Errorf("by the rules, %s reaches %s", tt.from, tt.to)
		}
	}
	for dir, r := range rules {
		if slices.Contains(r.modules, modPurego) && dir != "internal/ccall" {
			t.Errorf("by the rules, %s may import purego", dir)
		}
		if slices.Contains(r.imports, "internal/core") && !slices.Contains(ofCore, dir) && !strings.HasPrefix(dir, "cu/") {
			t.Errorf("by the rules, %s may import internal/core, which is for cu and the packages in its folder", dir)
		}
	}
}

// TestModules checks the modules that the module is built from, for each platform and tag, because
// a module in the table could import another one.
func TestModules(t *testing.T) {
	own := []string{modulePath, modPurego}
	withTests := append(slices.Clone(own), testModules...)
	for _, tt := range []struct{ goos, goarch, tags string }{
		{"linux", "amd64", ""},
		{"linux", "amd64", "cu_portable"},
		{"linux", "arm64", ""},
		{"windows", "amd64", ""},
		{"darwin", "arm64", ""},
		{"freebsd", "amd64", ""},
	} {
		name := strings.TrimSuffix(tt.goos+"/"+tt.goarch+"/"+tt.tags, "/")
		t.Run(name, func(t *testing.T) {
			for _, q := range []struct {
				flag    string
				allowed []string
			}{{"-test=false", own}, {"-test=true", withTests}} {
				cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Module", q.flag, "-tags="+tt.tags, "./...")
				cmd.Dir = moduleRoot
				cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+tt.goos, "GOARCH="+tt.goarch)
				for _, p := range goList(t, cmd) {
					if p.Module != nil && !slices.Contains(q.allowed, p.Module.Path) {
						t.Errorf("%s: %s of module %s, which is not one of %q", q.flag, p.ImportPath, p.Module.Path, q.allowed)
					}
				}
			}
		})
	}
}

type listed struct {
	ImportPath string
	Module     *struct{ Path string }
}

// goList returns the output of cmd, which is a go list -json.
func goList(t *testing.T, cmd *exec.Cmd) []listed {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	var list []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return list
		case err != nil:
			t.Fatalf("%v: %v", cmd, err)
		}
		list = append(list, p)
	}
}

// TestLowLevel checks that only internal/ccall uses assembly and go:linkname, but for vector instructions.
func TestLowLevel(t *testing.T) {
	const home, guest, vectors = "internal/ccall", "internal/ccall/internal/guest", "internal/ptx/vm/simd"
	tree := parseModule(t, moduleRoot)
	for _, name := range tree.assembly {
		if dir := path.Dir(name); dir != home && dir != guest && dir != vectors {
			t.Errorf("%s: assembly belongs in %s", name, home)
		}
	}
	for dir, files := range tree.packages {
		if dir == home || dir == guest {
			continue
		}
		for _, f := range files {
			for _, group := range f.AST.Comments {
				for _, c := range group.List {
					if strings.HasPrefix(c.Text, "//go:linkname") {
						t.Errorf("%s: go:linkname belongs in %s", tree.fset.Position(c.Pos()), home)
					}
				}
			}
		}
	}
}

// forItsInit is the one package that programs import for its init function, as they import a driver
// of database/sql.
const forItsInit = "cusim/auto"

// TestHabits checks that no other library package has an init function or mutable package state, prints,
// exits, or panics.
func TestHabits(t *testing.T) {
	tree := parseModule(t, moduleRoot)
	unusedVariables, unusedCalls := maps.Clone(variables), maps.Clone(calls)
	for dir, files := range tree.packages {
		if r, ok := ruleFor(dir); !ok || r.program {
			continue // TestImports reports these
		}
		files = slices.DeleteFunc(slices.Clone(files), sourceFile.isTest)
		for _, f := range files {
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && dir != forItsInit {
					t.Errorf("%s: a library has no init function", tree.fset.Position(fn.Pos()))
				}
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !slices.Contains(forbidden, types.ExprString(call.Fun)) {
					return true
				}
				key := f.Name + ": " + types.ExprString(call.Fun)
				delete(unusedCalls, key)
				if calls[key] == "" {
					t.Errorf("%s: a library does not call %s", tree.fset.Position(call.Pos()), types.ExprString(call.Fun))
				}
				return true
			})
		}
		for name, why := range mutableState(tree.fset, files) {
			key := dir + "." + name
			delete(unusedVariables, key)
			if variables[key] == "" {
				t.Errorf("%s is mutable package state: %s", key, why)
			}
		}
	}
	for key := range unusedVariables {
		t.Errorf("the table variables names %s, which is no mutable state any more", key)
	}
	for key := range unusedCalls {
		t.Errorf("the table calls names %q, which is no longer there", key)
	}
}

// mutableState returns the package-level variables of files that count as mutable state, and the
// reason for each.
func mutableState(fset *token.FileSet, files []sourceFile) map[string]string {
	state := map[string]string{}
	vars := map[string]bool{}
	for _, f := range files {
		for _, d := range f.AST.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.ValueSpec)
				for i, id := range spec.Names {
					if id.Name == "_" {
						continue
					}
					vars[id.Name] = true
					if len(spec.Values) == 0 {
						state[id.Name] = fmt.Sprintf("%s: it has no initial value", fset.Position(id.Pos()))
					} else if len(spec.Values) == len(spec.Names) && isMade(spec.Values[i]) {
						state[id.Name] = fmt.Sprintf("%s: made to be filled", fset.Position(id.Pos()))
					}
				}
			}
		}
	}

	// Resolving names needs neither types nor imports. This test ignores other errors of the type
	// check.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Error: func(error) {}, Importer: noImporter{}, FakeImportC: true}
	asts := make([]*ast.File, len(files))
	for i, f := range files {
		asts[i] = f.AST
	}
	pkg, _ := conf.Check("p", fset, asts, info)
	changed := func(e ast.Expr, how string) {
		id := baseIdent(e)
		if id == nil || !vars[id.Name] {
			return
		}
		// A second declaration under another build tag is not resolved.
		if o := info.Uses[id]; o != nil && o.Parent() == pkg.Scope() {
			state[id.Name] = fmt.Sprintf("%s: %s", fset.Position(e.Pos()), how)
		}
	}
	for _, f := range files {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					changed(e, "assigned to")
				}
			case *ast.IncDecStmt:
				changed(n.X, "assigned to")
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN {
					changed(n.Key, "assigned to")
					changed(n.Value, "assigned to")
				}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					changed(n.X, "its address is taken")
				}
			}
			return true
		})
	}
	return state
}

// isMade reports whether e is new(…) or make(…).
func isMade(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn, ok := call.Fun.(*ast.Ident)
	return ok && (fn.Name == "new" || fn.Name == "make")
}

// baseIdent returns v for expressions such as v, v.f, v[i] and *v.
func baseIdent(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

type noImporter struct{}

func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }
