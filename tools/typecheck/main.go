// Typecheck checks the types of a module's packages and tests, as they are built for other platforms.
//
//	go run ./typecheck DIR linux/arm64 windows/amd64
//
// It reads all that the packages need as source, and compiles nothing. So it takes seconds for a platform, where
// go vet, which reads what a compiler has written, takes minutes.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: typecheck DIR GOOS/GOARCH...")
		os.Exit(2)
	}
	failed := false
	for _, platform := range os.Args[2:] {
		switch n, err := check(os.Stdout, os.Args[1], platform); {
		case err != nil:
			fmt.Printf("FAIL %s: %v\n", platform, err)
			failed = true
		default:
			fmt.Printf("ok   %s: %d packages, with their tests\n", platform, n)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// check checks the module in a folder for a platform, such as linux/arm64. It writes each mistake to w, and returns how
// many packages there are.
func check(w io.Writer, dir, platform string) (n int, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	system, processor, ok := strings.Cut(platform, "/")
	if !ok {
		return 0, fmt.Errorf("%s is not of the form GOOS/GOARCH", platform)
	}
	list, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax | packages.NeedModule,
		Dir:  dir, Tests: true,
		Env: append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor),
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			if f != nil && !strings.HasPrefix(name, dir+string(filepath.Separator)) {
				removeBodies(f)
			}
			return f, err
		},
	}, "./...")
	if err != nil {
		return 0, err
	}
	mistakes, own := 0, make(map[string]bool)
	packages.Visit(list, nil, func(p *packages.Package) {
		if p.Module == nil || !p.Module.Main || strings.HasSuffix(p.ID, ".test") {
			return // without bodies of functions, imports are not used; go test writes the package of ID X.test
		}
		own[p.PkgPath] = true
		for _, e := range p.Errors {
			fmt.Fprintln(w, e)
			mistakes++
		}
	})
	switch {
	case mistakes > 0:
		return len(own), fmt.Errorf("%d mistakes", mistakes)
	case len(own) == 0:
		return 0, fmt.Errorf("%s has no packages", dir)
	}
	return len(own), nil
}

// removeBodies removes the bodies of functions, which are not needed of a package that others import.
func removeBodies(f *ast.File) {
	for _, d := range f.Decls {
		if fn, is := d.(*ast.FuncDecl); is {
			fn.Body = nil
		}
	}
}
