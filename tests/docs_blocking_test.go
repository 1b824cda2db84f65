package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mayWait is a row of docs/blocking.md: a method of package cu, or a function or a method of a package in its folder.
var mayWait = regexp.MustCompile("(?m)^\\| `((?:[a-z]+\\.)?[A-Z]\\w*(?:\\.[A-Z]\\w*)?)` \\|")

// TestBlockingMethods compares docs/blocking.md with the comments of the methods and functions: exactly
// those that may wait for the GPU refer to that page.
func TestBlockingMethods(t *testing.T) {
	listed := make(map[string]bool)
	for _, p := range pages(t) {
		if p.name == "docs/blocking.md" {
			for _, m := range mayWait.FindAllStringSubmatch(p.text, -1) {
				listed[m[1]] = true
			}
		}
	}
	if len(listed) == 0 {
		t.Fatal("docs/blocking.md lists no method")
	}
	found := make(map[string]bool)
	for _, dir := range publicPackages {
		if dir != "cu" && path.Dir(dir) != "cu" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(moduleRoot, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				method, ok := nameInDocs(dir, fn)
				if !ok {
					continue
				}
				found[method] = true
				refers := strings.Contains(strings.Join(strings.Fields(fn.Doc.Text()), " "), "docs/blocking.md")
				if refers != listed[method] {
					t.Errorf("%s: listed in docs/blocking.md: %v; its documentation refers to it: %v",
						method, listed[method], refers)
				}
			}
		}
	}
	for method := range listed {
		if !found[method] {
			t.Errorf("docs/blocking.md lists %s, which is no method of package cu, and is not in a package in its folder",
				method)
		}
	}
}

// nameInDocs returns the name of an exported method or function as docs/blocking.md has it: Stream.Copy, memory.Prefetch
// or memory.Pool.Alloc. The page lists no functions of package cu.
func nameInDocs(dir string, fn *ast.FuncDecl) (name string, ok bool) {
	if !fn.Name.IsExported() {
		return "", false
	}
	name = fn.Name.Name
	switch {
	case fn.Recv != nil:
		typ := fn.Recv.List[0].Type
		if p, ok := typ.(*ast.StarExpr); ok {
			typ = p.X
		}
		id, ok := typ.(*ast.Ident)
		if !ok || !id.IsExported() {
			return "", false
		}
		name = id.Name + "." + name
	case dir == "cu":
		return "", false
	}
	if dir != "cu" {
		name = path.Base(dir) + "." + name
	}
	return name, true
}
