package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNoInternalTypes checks that no exported declaration of a public package mentions a type of an
// internal package, because users can neither name that type nor look it up.
func TestNoInternalTypes(t *testing.T) {
	_, public := loadPublic(t)
	for name, pkg := range public {
		for _, found := range internalTypes(pkg) {
			t.Errorf("package %s: %s", name, found)
		}
	}
}

// internalTypes returns the types of internal packages that the exported declarations of pkg
// mention, as "where: type", sorted.
func internalTypes(pkg *types.Package) []string {
	m := mentions{pkg: pkg, seen: map[*types.TypeName]bool{}}
	for _, name := range pkg.Scope().Names() {
		if o := pkg.Scope().Lookup(name); o.Exported() {
			m.object(name, o)
		}
	}
	slices.Sort(m.found)
	return slices.Compact(m.found)
}

// mentions collects types of internal packages.
type mentions struct {
	pkg   *types.Package
	seen  map[*types.TypeName]bool
	found []string
}

// object examines a declaration.
func (m *mentions) object(where string, o types.Object) {
	named, ok := o.Type().(*types.Named)
	if name, isType := o.(*types.TypeName); !isType || !ok || name.IsAlias() {
		m.typ(where, o.Type())
		return
	}
	if m.seen[named.Obj()] {
		return
	}
	m.seen[named.Obj()] = true
	for p := range named.TypeParams().TypeParams() {
		m.typ(where, p.Constraint())
	}
	m.typ(where, named.Underlying())
	for f := range named.Methods() {
		if f.Exported() {
			m.typ(where+"."+f.Name(), f.Type())
		}
	}
}

// typ examines a type.
func (m *mentions) typ(where string, t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		m.name(where, t.Obj(), t.TypeArgs())
		m.typ(where, t.Rhs())
	case *types.Named:
		m.name(where, t.Obj(), t.TypeArgs())
		if t.Obj().Pkg() == m.pkg && !t.Obj().Exported() { // users see its exported members
			m.object(where, t.Obj())
		}
	case *types.Map:
		m.typ(where, t.Key())
		m.typ(where, t.Elem())
	case interface{ Elem() types.Type }: // a pointer, a slice, an array, a channel
		m.typ(where, t.Elem())
	case *types.Signature:
		for p := range t.TypeParams().TypeParams() {
			m.typ(where, p.Constraint())
		}
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range tuple.Variables() {
				m.typ(where, v.Type())
			}
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() && shows(f.Type()) {
				m.typ(where+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for f := range t.ExplicitMethods() {
			m.typ(where+"."+f.Name(), f.Type())
		}
		for e := range t.EmbeddedTypes() {
			m.typ(where, e)
		}
	case *types.Union:
		for term := range t.Terms() {
			m.typ(where, term.Type())
		}
	}
}

// shows reports whether users see anything of a type that is embedded under an unexported name: they do not see its
// name.
func shows(t types.Type) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if m.Obj().Exported() {
			return true
		}
	}
	if types.IsInterface(t) {
		return true
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range s.Fields() {
		if f.Exported() || f.Embedded() {
			return true
		}
	}
	return false
}

// name examines the name and the arguments of a type.
func (m *mentions) name(where string, o *types.TypeName, args *types.TypeList) {
	if o.Pkg() != nil && slices.Contains(strings.Split(o.Pkg().Path(), "/"), "internal") {
		m.found = append(m.found, where+": "+o.Pkg().Name()+"."+o.Name())
	}
	for a := range args.Types() {
		m.typ(where, a)
	}
}

// TestInternalTypes checks that internalTypes finds all types in a package that mentions some.
func TestInternalTypes(t *testing.T) {
	const secret = `package secret
		type T int
		type U struct{}
		func (U) M() {}
		type I interface{ M() }
		type Sealed struct{ t T }
		func (*Sealed) m() T { return 0 }`
	const source = `package p
		import "x/internal/secret"
		type hidden struct{ F secret.T; g secret.T }
		func (hidden) M(secret.T) {}
		func (hidden) m(secret.T) {}
		type (
			Alias = secret.T
			Field struct { F []secret.T; g secret.T; Own *Field }
			Embeds struct { secret.U }
			EmbedsSealed struct { secret.Sealed }
			sealed = secret.Sealed
			u = secret.U
			i = secret.I
			HidesI struct { i }
			HidesSealed struct { sealed }
			HidesU struct { u }
			Method int
			Interface interface { M() map[string]secret.T }
			Generic[P interface{ ~int; M(secret.T) }] struct{}
			Argument struct { F Generic2[secret.T] }
			Generic2[P any] struct{}
			Inside struct { f secret.T }
			Cycle struct { *Cycle }
		)
		func (*Method) M() chan secret.T { return nil }
		func (*Method) m() secret.T { return 0 }
		func Func(f func(...secret.T)) {}
		func Hidden() hidden { return hidden{} }
		func Fine(Inside) {}
		func unexported() secret.T { return 0 }
		var Var [3]secret.T
		const Const secret.T = 1`
	fset := token.NewFileSet()
	imports := packages{}
	check := func(name, text string) *types.Package {
		f, err := parser.ParseFile(fset, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		pkg, err := (&types.Config{Importer: imports}).Check(name, fset, []*ast.File{f}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return pkg
	}
	imports["x/internal/secret"] = check("x/internal/secret", secret)
	want := []string{
		"Alias: secret.T", "Argument.F: secret.T", "Const: secret.T", "Embeds.U: secret.U", "EmbedsSealed.Sealed: secret.Sealed", "Field.F: secret.T", "Func: secret.T",
		"Generic.M: secret.T", "Hidden.F: secret.T", "Hidden.M: secret.T", "HidesI.i: secret.I", "HidesU.u: secret.U", "Interface.M: secret.T", "Method.M: secret.T", "Var: secret.T",
	}
	if diff := cmp.Diff(want, internalTypes(check("x/p", source))); diff != "" {
		t.Errorf("mentions (-want +got):\n%s", diff)
	}
}

// packages is an importer of packages that are already loaded.
type packages map[string]*types.Package

func (p packages) Import(name string) (*types.Package, error) { return p[name], nil }
