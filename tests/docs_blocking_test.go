package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBlockingMethods compares docs/blocking.md with the comments of the methods: exactly the
// methods that may wait for the GPU refer to that page.
func TestBlockingMethods(t *testing.T) {
	listed := make(map[string]bool)
	for _, p := range pages(t) {
		if p.name == "docs/blocking.md" {
			for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+\\.[A-Z][A-Za-z0-9]+)` \\|").FindAllStringSubmatch(p.text, -1) {
				listed[m[1]] = true
			}
		}
	}
	if len(listed) == 0 {
		t.Fatal("docs/blocking.md lists no method")
	}
	files, err := filepath.Glob(filepath.Join(moduleRoot, "cu", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
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
			if !ok || fn.Recv == nil || !fn.Name.IsExported() {
				continue
			}
			typ := fn.Recv.List[0].Type
			if p, ok := typ.(*ast.StarExpr); ok {
				typ = p.X
			}
			id, ok := typ.(*ast.Ident)
			if !ok || !id.IsExported() {
				continue
			}
			method := id.Name + "." + fn.Name.Name
			found[method] = true
			refers := strings.Contains(strings.Join(strings.Fields(fn.Doc.Text()), " "), "docs/blocking.md")
			if refers != listed[method] {
				t.Errorf("%s: listed in docs/blocking.md: %v; its documentation refers to it: %v", method, listed[method], refers)
			}
		}
	}
	for method := range listed {
		if !found[method] {
			t.Errorf("docs/blocking.md lists %s, which is no method of package cu", method)
		}
	}
}
