package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const apiHead = `# The exported API of go-nvml, written by gen-gonvml extract. Do not edit.
# const	name	type or -	value
# type	name	type
# alias	name	type
# method	interface	name	signature
# var	name	the name of the variable or the method that it is
# mock	type	method	the fields of a record of its calls
`

const originalModule = "github.com/NVIDIA/go-nvml"

// source type-checks the packages of go-nvml, or of the module that stands in for it, from their source for
// linux/amd64. What cgo and other modules declare has no type.
type source struct {
	root  string
	build build.Context
	fset  *token.FileSet
	std   types.Importer
	done  map[string]*types.Package
	vars  map[string]string // what the package-level variables are set to
}

func newSource(root string, cgo bool) *source {
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = "linux", "amd64", cgo
	fset := token.NewFileSet()
	return &source{root, context, fset, importer.ForCompiler(fset, "source", nil), map[string]*types.Package{},
		map[string]string{}}
}

// Import is that of types.Importer.
func (o *source) Import(path string) (*types.Package, error) {
	if p := o.done[path]; p != nil {
		return p, nil
	}
	dir, ok := strings.CutPrefix(path, originalModule+"/")
	if first, _, _ := strings.Cut(path, "/"); !ok && strings.Contains(first, ".") {
		p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
		p.MarkComplete()
		o.done[path] = p
		return p, nil
	}
	if !ok {
		return o.std.Import(path)
	}
	names, err := filepath.Glob(filepath.Join(o.root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range names {
		if ok, err := o.build.MatchFile(filepath.Dir(name), filepath.Base(name)); err != nil || !ok ||
			strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(o.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
		o.addVars(file)
	}
	conf := types.Config{Importer: o, FakeImportC: true, Error: func(error) {}}
	p, _ := conf.Check(path, o.fset, files, nil)
	o.done[path] = p
	return p, nil
}

// addVars notes what the exported variables of a file are set to.
func (o *source) addVars(file *ast.File) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if len(v.Names) != 1 || len(v.Values) != 1 {
				continue
			}
			switch e := v.Values[0].(type) {
			case *ast.Ident:
				o.vars[v.Names[0].Name] = e.Name
			case *ast.SelectorExpr:
				o.vars[v.Names[0].Name] = e.Sel.Name
			}
		}
	}
}

// runExtract writes the API of the module in a folder.
func runExtract(root, out string) error {
	text, err := extract(root)
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644)
}

// extract returns the API of the module in a folder.
func extract(root string) ([]byte, error) {
	o := newSource(root, true)
	p, err := o.Import(originalModule + "/pkg/nvml")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(apiHead)
	objects := map[string]types.Object{}
	for _, name := range p.Scope().Names() {
		objects[name] = p.Scope().Lookup(name)
	}
	byPlace := slices.SortedFunc(maps.Values(objects), func(a, b types.Object) int {
		pa, pb := o.fset.Position(a.Pos()), o.fset.Position(b.Pos())
		return strings.Compare(fmt.Sprintf("%s %06d", pa.Filename, pa.Line), fmt.Sprintf("%s %06d", pb.Filename, pb.Line))
	})
	q := types.RelativeTo(p)
	for _, obj := range byPlace {
		switch obj := obj.(type) {
		case *types.Const:
			if obj.Exported() {
				typ := "-"
				if b, ok := obj.Type().(*types.Basic); !ok || b.Info()&types.IsUntyped == 0 {
					typ = types.TypeString(obj.Type(), q)
				}
				fmt.Fprintf(&b, "const\t%s\t%s\t%s\n", obj.Name(), typ, obj.Val().ExactString())
			}
		case *types.TypeName:
			writeType(&b, obj, q)
		case *types.Var:
			if obj.Exported() {
				fmt.Fprintf(&b, "var\t%s\t%s\n", obj.Name(), o.vars[obj.Name()])
			}
		}
	}
	if err := o.writeMocks(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// writeType writes a type, and of an interface its methods. Of the types that are not exported it writes structs that
// are parts of others.
func writeType(b *bytes.Buffer, obj *types.TypeName, q types.Qualifier) {
	t := obj.Type()
	text := types.TypeString(t.Underlying(), q)
	if obj.IsAlias() {
		fmt.Fprintf(b, "alias\t%s\t%s\n", obj.Name(), types.TypeString(types.Unalias(t), q))
		return
	}
	if i, ok := t.Underlying().(*types.Interface); ok {
		for m := range i.Methods() {
			if obj.Exported() {
				fmt.Fprintf(b, "method\t%s\t%s\t%s\n", obj.Name(), m.Name(),
					strings.TrimPrefix(types.TypeString(m.Type(), q), "func"))
			}
		}
		return
	}
	if !obj.Exported() && (!strings.HasPrefix(obj.Name(), "nvml") || strings.Contains(text, "invalid type")) {
		return
	}
	fmt.Fprintf(b, "type\t%s\t%s\n", obj.Name(), text)
}

// writeMocks writes what the mocks record of calls.
func (o *source) writeMocks(b *bytes.Buffer) error {
	p, err := o.Import(originalModule + "/pkg/nvml/mock")
	if err != nil {
		return err
	}
	q := func(p *types.Package) string { return p.Name() }
	for _, name := range p.Scope().Names() {
		named, ok := p.Scope().Lookup(name).Type().(*types.Named)
		if !ok {
			continue
		}
		for m := range named.Methods() {
			method, ok := strings.CutSuffix(m.Name(), "Calls")
			if !ok {
				continue
			}
			calls := m.Signature().Results().At(0).Type().(*types.Slice)
			var fields []string
			for f := range calls.Elem().Underlying().(*types.Struct).Fields() {
				fields = append(fields, f.Name()+" "+types.TypeString(f.Type(), q))
			}
			fmt.Fprintf(b, "mock\t%s\t%s\t%s\n", name, method, strings.Join(fields, "; "))
		}
	}
	return nil
}
