package main

import (
	"fmt"
	"go/ast"
	goparser "go/parser"
	gotoken "go/token"
	"os"
	"strings"
)

// implementedMethods returns the methods that the type Driver declares in the Go files of a folder.
// Methods that it has because it embeds another type do not count.
func implementedMethods(dir string) (map[string]bool, error) {
	methods := map[string]bool{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := goparser.ParseFile(gotoken.NewFileSet(), dir+"/"+e.Name(), nil, goparser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
				if id, ok := star.X.(*ast.Ident); ok && id.Name == "Driver" {
					methods[fn.Name.Name] = true
				}
			}
		}
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("%s declares no methods of a type Driver", dir)
	}
	return methods, nil
}

// emitImplemented writes the page that says which functions the software driver has.
func emitImplemented(plan *callPlan, implemented, byHand map[string]bool) string {
	var b strings.Builder
	var has, inGo, inC, lacks []string
	for _, c := range plan.calls {
		switch {
		case implemented[c.method] && c.fact.unverified: // the library in C does not have it
			inGo = append(inGo, c.fact.export)
		case implemented[c.method]:
			has = append(has, c.fact.export)
		case byHand[c.fact.export]:
			inC = append(inC, c.fact.export)
		default:
			lacks = append(lacks, c.fact.export)
		}
	}
	fmt.Fprintf(&b, "<!-- Written by gen-symbols library; do not edit. -->\n# Functions of the software driver\n\n"+
		"The [software driver](testing.md) has %d of the driver's functions, older interfaces included. "+
		"In Go it has %d more,\nwhich are newer than CUDA 13.0. "+
		"The library in C has %d more, which it makes of others. The other %d return\n"+
		"CUDA_ERROR_NOT_SUPPORTED (801), and in Go those %d do, too: "+
		"there the error also matches `errors.ErrUnsupported`.\n",
		len(has), len(inGo), len(inC), len(lacks), len(inC))
	for _, part := range []struct {
		title string
		names []string
	}{{"What it has", has}, {"What it has in Go only", inGo}, {"What it has in C only", inC},
		{"What it lacks", lacks}} {
		fmt.Fprintf(&b, "\n## %s\n\n", part.title)
		line := ""
		for i, name := range part.names {
			word := "`" + name + "`"
			if i < len(part.names)-1 {
				word += ","
			}
			if line != "" && len(line)+1+len(word) > 120 {
				b.WriteString(line + "\n")
				line = ""
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
