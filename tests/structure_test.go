package tests

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What a reader has to take in at one time is limited.
const (
	maxCycleFiles = 20 // files that use each other, directly or by the files between
	maxCycleLines = 5000
	maxFields     = 15 // of a struct
	maxFuncLines  = 80
	maxFileLines  = 600
)

// large are the structs and functions that exceed the limits, with their fields or lines. The numbers here only become
// smaller.
var large = map[string]int{
	// A table reads best as one function.
	"internal/ptx/isa.asyncRows":   103,
	"internal/ptx/isa.bitRows":     129,
	"internal/ptx/isa.integerRows": 130,
	// What a report says: users read the fields.
	"loader.Report": 19,
}

// TestStructure checks that a newcomer can read each package in parts.
func TestStructure(t *testing.T) {
	seen := map[string]bool{}
	for _, dir := range sourceDirs(t) {
		p := loadSource(t, dir)
		files, lines := p.largestCycle()
		if len(files) > maxCycleFiles || lines > maxCycleLines {
			t.Errorf("%s: %d files of %d lines use each other: move what one of them uses, so that they can be read "+
				"one after the other: %s", dir, len(files), lines, strings.Join(files, " "))
		}
		for name, f := range p.files {
			if n := p.lines[name]; n > maxFileLines {
				t.Errorf("%s/%s has %d lines: divide it by its subjects", dir, name, n)
			}
			for n := range ast.Preorder(f) {
				what, name, size, limit := "", "", 0, 0
				switch n := n.(type) {
				case *ast.FuncDecl:
					what, name, limit = "lines", n.Name.Name, maxFuncLines
					size = p.fset.Position(n.End()).Line - p.fset.Position(n.Pos()).Line + 1
				case *ast.TypeSpec:
					s, ok := n.Type.(*ast.StructType)
					if !ok {
						continue
					}
					what, name, limit = "fields", n.Name.Name, maxFields
					size = fieldsOf(s)
				}
				id := dir + "." + name
				if allowed, ok := large[id]; ok && size > limit {
					seen[id] = true
					limit = allowed
				}
				if size > limit {
					t.Errorf("%s has %d %s: divide it by its subjects", id, size, what)
				}
			}
		}
	}
	for id := range large {
		if !seen[id] {
			t.Errorf("remove %s from large", id)
		}
	}
}

// TestFileList checks that the lists of files in the documentation of packages are complete, and name no file that does
// not exist. Package core's names each file once, and that of sim may say more about a file.
func TestFileList(t *testing.T) {
	for dir, l := range map[string]struct {
		most     int      // how often the list may name a file
		patterns []string // what it need not name
	}{
		"internal/core": {1, []string{"doc.go"}},
		"internal/sim":  {3, []string{"state*.go", "doc.go"}},
	} {
		text, err := os.ReadFile(filepath.Join(moduleRoot, dir, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, list, _ := strings.Cut(string(text), "# Files\n")
		patterns := l.patterns
		for line := range strings.Lines(list) {
			if item, isItem := strings.CutPrefix(line, "//   - "); isItem {
				patterns = append(patterns, strings.Fields(strings.ReplaceAll(item, ",", " "))...)
			}
		}
		names, err := filepath.Glob(filepath.Join(moduleRoot, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		used := make([]bool, len(patterns))
		for _, name := range names {
			n := 0
			for i, pattern := range patterns {
				if ok, _ := filepath.Match(strings.TrimSuffix(pattern, ":"), filepath.Base(name)); ok {
					n++
					used[i] = true
				}
			}
			if !strings.HasSuffix(name, "_test.go") && (n == 0 || n > l.most) {
				t.Errorf("%s/doc.go names %s %d times", dir, filepath.Base(name), n)
			}
		}
		for i, pattern := range patterns {
			if strings.HasSuffix(strings.TrimSuffix(pattern, ":"), ".go") && !used[i] {
				t.Errorf("%s/doc.go names %s, which does not exist", dir, pattern)
			}
		}
	}
}

// fieldsOf returns the number of fields that have a name, or are embedded.
func fieldsOf(s *ast.StructType) (n int) {
	for _, f := range s.Fields.List {
		if f.Names == nil {
			n++
		}
		for _, name := range f.Names {
			if name.Name != "_" {
				n++
			}
		}
	}
	return n
}

// A source is a package of the module, with its hand-written files.
type source struct {
	fset  *token.FileSet
	files map[string]*ast.File // by base name
	lines map[string]int
	used  map[*ast.Ident]types.Object
	pkg   *types.Package
}

func (p *source) fileOf(pos token.Pos) string { return filepath.Base(p.fset.Position(pos).Filename) }

// usedIn returns the objects of the package that a file uses: what is declared at the top level, fields, methods, and
// what is local.
func (p *source) usedIn(file string) iter.Seq[types.Object] {
	return func(yield func(types.Object) bool) {
		for n := range ast.Preorder(p.files[file]) {
			if id, ok := n.(*ast.Ident); ok {
				if o := p.used[id]; o != nil && o.Pkg() == p.pkg && !yield(o) {
					return
				}
			}
		}
	}
}

// largestCycle returns the files of the cycle with the most lines.
func (p *source) largestCycle() (files []string, lines int) {
	uses := map[string][]string{}
	for name := range p.files {
		for o := range p.usedIn(name) {
			if to := p.fileOf(o.Pos()); to != name && p.files[to] != nil && !slices.Contains(uses[name], to) {
				uses[name] = append(uses[name], to)
			}
		}
	}
	for _, c := range cycles(uses) {
		n := 0
		for _, f := range c {
			n += p.lines[f]
		}
		if len(c) > 1 && n > lines {
			files, lines = c, n
		}
	}
	slices.Sort(files)
	return files, lines
}

// cycles returns the strongly connected components of a graph, by the algorithm of Tarjan.
func cycles(uses map[string][]string) [][]string {
	var (
		found   [][]string
		stack   []string
		index   = map[string]int{}
		low     = map[string]int{}
		onStack = map[string]bool{}
		visit   func(v string)
	)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack, onStack[v] = append(stack, v), true
		for _, w := range uses[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if onStack[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] == index[v] {
			i := slices.Index(stack, v)
			found = append(found, slices.Clone(stack[i:]))
			for _, w := range stack[i:] {
				onStack[w] = false
			}
			stack = stack[:i]
		}
	}
	for v := range uses {
		if index[v] == 0 {
			visit(v)
		}
	}
	return found
}

// compiled is what the go command says of the module's packages.
var compiled = sync.OnceValues(func() (map[string][2]string, error) {
	cmd := exec.Command("go", "list", "-deps", "-export", "-f",
		"{{.ImportPath}}\t{{.Export}}\t{{join .GoFiles \" \"}}", "./...")
	cmd.Dir = moduleRoot
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = new(strings.Builder)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd, err, cmd.Stderr)
	}
	packages := map[string][2]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		packages[f[0]] = [2]string(f[1:])
	}
	return packages, nil
})

// sourceDirs returns the directories of the module's packages.
func sourceDirs(t *testing.T) []string {
	packages, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for p := range packages {
		if dir, ok := strings.CutPrefix(p, modulePath+"/"); ok {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// loadSource reads a package, and finds out what its files use.
func loadSource(t *testing.T, dir string) *source {
	packages, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	p := &source{fset: token.NewFileSet(), files: map[string]*ast.File{}, lines: map[string]int{},
		used: map[*ast.Ident]types.Object{}}
	imports := importer.ForCompiler(p.fset, "gc", func(p string) (io.ReadCloser, error) {
		return os.Open(packages[p][0])
	})
	var all []*ast.File
	for _, name := range strings.Fields(packages[modulePath+"/"+dir][1]) {
		f, err := parser.ParseFile(p.fset, filepath.Join(moduleRoot, dir, name), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, f); !ast.IsGenerated(f) {
			p.files[name], p.lines[name] = f, p.fset.Position(f.FileEnd).Line
		}
	}
	conf := types.Config{Importer: imports}
	if p.pkg, err = conf.Check(modulePath+"/"+dir, p.fset, all, &types.Info{Uses: p.used}); err != nil {
		t.Fatal(err)
	}
	return p
}
