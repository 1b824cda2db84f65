package tests

import (
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// publicPackages are the packages whose exported names must stay compatible, sorted.
var publicPackages = []string{"cu", "cu/checkpoint", "cu/cuerror", "cu/graph", "cu/green", "cu/interop", "cu/library", "cu/memory", "cu/trace",
	"cubench", "cusim", "cusim/auto", "cutest", "cutrace", "driver", "loader", "nvml", "nvml/raw"}

// TestAPI compares the exported declarations of the public packages with testdata/api.txt, which
// has one line for each, like Go's own api files. If a line disappears, programs of users no longer
// compile.
func TestAPI(t *testing.T) {
	golden := filepath.Join("testdata", "api.txt")
	got := publicAPI(t)
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(got, "")), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Collect(strings.Lines(string(data)))

	var diff strings.Builder
	for _, line := range want {
		if !slices.Contains(got, line) {
			diff.WriteString("- " + line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			diff.WriteString("+ " + line)
		}
	}
	if diff.Len() > 0 {
		t.Errorf(
			"the exported API is not what tests/%s says:\n%s\nIf that is meant, run\n\tgo test ./tests -run '^TestAPI$' -update\nand describe it in CHANGELOG.md.",
			filepath.ToSlash(golden),
			diff.String(),
		)
	}
}

// publicAPI lists the exported API, sorted, from the compiler's export data.
func publicAPI(t *testing.T) []string {
	t.Helper()
	_, public := loadPublic(t)
	var lines []string
	for name, pkg := range public {
		for _, line := range packageAPI(pkg) {
			lines = append(lines, fmt.Sprintf("pkg %s, %s\n", name, line))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// loadPublic loads the public packages from the compiler's export data. It returns the importer,
// and the packages by name.
func loadPublic(t *testing.T) (types.Importer, map[string]*types.Package) {
	t.Helper()
	args := []string{"list", "-deps", "-export", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, p := range publicPackages {
		// go test notices changes of the sources because they are read here.
		files, _ := filepath.Glob(filepath.Join(moduleRoot, p, "*.go"))
		for _, f := range files {
			if _, err := os.ReadFile(f); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, modulePath+"/"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = new(strings.Builder)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, cmd.Stderr)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		p, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[p] = file
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(p string) (io.ReadCloser, error) {
		file, ok := exports[p]
		if !ok {
			return nil, fmt.Errorf("package %s is not among those that the public packages import", p)
		}
		return os.Open(file)
	})
	public := map[string]*types.Package{}
	for _, p := range publicPackages {
		if public[p], err = imports.Import(modulePath + "/" + p); err != nil {
			t.Fatal(err)
		}
	}
	return imports, public
}

// TestPublicPackages checks that publicPackages is complete.
func TestPublicPackages(t *testing.T) {
	var want []string
	for dir, files := range parseModule(t, moduleRoot).packages {
		r, _ := ruleFor(dir)
		if !r.program && !slices.Contains(strings.Split(dir, "/"), "internal") &&
			!slices.ContainsFunc(files, sourceFile.isMain) {
			want = append(want, dir)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, publicPackages); diff != "" {
		t.Errorf("publicPackages (-of the module +of the table):\n%s", diff)
	}
}

// packageAPI lists the exported declarations of pkg.
func packageAPI(pkg *types.Package) []string {
	qualify := func(p *types.Package) string {
		if p == pkg {
			return ""
		}
		return p.Name()
	}
	text := func(t types.Type) string { return types.TypeString(withoutNames(t), qualify) }

	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, name := range pkg.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.Const:
			add("const %s %s = %s", name, text(o.Type()), o.Val().ExactString())
		case *types.Var:
			add("var %s %s", name, text(o.Type()))
		case *types.Func:
			add("func %s%s%s", name, typeParams(o.Signature().TypeParams(), text), strings.TrimPrefix(text(o.Type()), "func"))
		case *types.TypeName:
			if o.IsAlias() {
				add("type %s = %s", name, text(types.Unalias(o.Type())))
				continue
			}
			named := o.Type().(*types.Named)
			head := "type " + name + typeParams(named.TypeParams(), text)
			switch u := named.Underlying().(type) {
			case *types.Struct:
				add("%s struct", head)
				for f := range u.Fields() {
					if f.Exported() {
						add("%s struct, %s %s", head, f.Name(), text(f.Type()))
					}
				}
			case *types.Interface:
				add("%s interface", head)
				for m := range u.Methods() {
					if m.Exported() {
						add("%s interface, %s%s", head, m.Name(), strings.TrimPrefix(text(m.Type()), "func"))
					} else {
						add("%s interface, unexported methods", head)
					}
				}
			default:
				add("%s %s", head, text(u))
			}
			if types.IsInterface(named) {
				continue
			}
			onValue := types.NewMethodSet(named)
			for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
				if !m.Obj().Exported() {
					continue
				}
				receiver := "*" + name
				if onValue.Lookup(pkg, m.Obj().Name()) != nil {
					receiver = name
				}
				add("method (%s) %s%s", receiver, m.Obj().Name(), strings.TrimPrefix(text(m.Obj().Type()), "func"))
			}
		}
	}
	return lines
}

// typeParams returns type parameters in brackets, or "" if there are none.
func typeParams(params *types.TypeParamList, text func(types.Type) string) string {
	if params.Len() == 0 {
		return ""
	}
	var list []string
	for p := range params.TypeParams() {
		list = append(list, p.Obj().Name()+" "+text(p.Constraint()))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// withoutNames returns t without the names of its parameters and results, if t is a function,
// because users do not depend on these names.
func withoutNames(t types.Type) types.Type {
	sig, ok := t.(*types.Signature)
	if !ok {
		return t
	}
	strip := func(tuple *types.Tuple) *types.Tuple {
		var vars []*types.Var
		for v := range tuple.Variables() {
			vars = append(vars, types.NewParam(v.Pos(), v.Pkg(), "", v.Type()))
		}
		return types.NewTuple(vars...)
	}
	return types.NewSignatureType(nil, nil, nil, strip(sig.Params()), strip(sig.Results()), sig.Variadic())
}
