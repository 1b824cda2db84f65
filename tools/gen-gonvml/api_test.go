package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/constant"
	"go/types"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// version is the release of go-nvml whose API compat/go-nvml has.
const version = "v0.13.4-1"

const standIn = "../../compat/go-nvml"

// download returns the folder of go-nvml's source. It skips the test if there is none, and no proxy of modules.
func download(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", originalModule+"@"+version)
	cmd.Dir = t.TempDir() // outside of all modules
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if json.Unmarshal(out, &module) != nil || module.Dir == "" {
		t.Skipf("go-nvml cannot be had: %v %s", err, module.Error)
	}
	return module.Dir
}

// TestFacts checks that the table of go-nvml's API is what its source says.
func TestFacts(t *testing.T) {
	want, err := extract(download(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("api.tsv")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("api.tsv differs: run gen-gonvml extract for go-nvml %s", version)
	}
}

// TestAPI compares the exported names of go-nvml's packages, and their types, with those of the module that stands in
// for it.
func TestAPI(t *testing.T) {
	theirs, ours := newSource(download(t), true), newSource(standIn, false)
	objects := 0
	for _, dir := range []string{"pkg/dl", "pkg/nvml", "pkg/nvml/mock", "pkg/nvml/mock/dgxa100", "pkg/nvml/mock/dgxb200",
		"pkg/nvml/mock/dgxh100", "pkg/nvml/mock/dgxh200", "pkg/nvml/mock/gpus", "pkg/nvml/mock/server"} {
		path := originalModule + "/" + dir
		want, err := theirs.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ours.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		w, g := describe(want), describe(got)
		objects += len(w)
		for _, name := range slices.Sorted(maps.Keys(w)) {
			if text, ok := g[name]; !ok {
				t.Errorf("%s: %s is missing", dir, name)
			} else if text != w[name] && (w[name] != "const" || !strings.HasPrefix(text, "const untyped int")) {
				t.Errorf("%s: %s is\n\t%s\nbut in go-nvml\n\t%s", dir, name, text, w[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(g)) {
			if _, ok := w[name]; !ok {
				t.Errorf("%s: go-nvml has no %s", dir, name)
			}
		}
	}
	t.Logf("%d names of go-nvml %s", objects, version)
	if objects < 4000 {
		t.Errorf("only %d names were compared", objects)
	}
}

// sizes are those of C's types, too.
var sizes = types.SizesFor("gc", "amd64")

// describe returns the exported names of a package, its types' methods and fields among them, and what they are.
func describe(p *types.Package) map[string]string {
	all := map[string]string{}
	q := func(p *types.Package) string { return p.Path() }
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		switch obj := obj.(type) {
		case *types.Const:
			all[name] = fmt.Sprintf("const %s = %s", types.TypeString(obj.Type(), q), obj.Val())
			if obj.Val().Kind() == constant.Unknown { // a constant of C
				all[name] = "const"
			}
		case *types.TypeName:
			describeType(all, obj, q)
		default:
			kind, _, _ := strings.Cut(obj.String(), " ")
			all[name] = kind + " " + types.TypeString(bare(obj.Type()), q)
		}
	}
	return all
}

// describeType adds a type, its exported fields and methods.
func describeType(all map[string]string, obj *types.TypeName, q types.Qualifier) {
	name, t := obj.Name(), obj.Type()
	if obj.IsAlias() {
		all[name] = "alias " + types.TypeString(types.Unalias(t), q)
		return
	}
	all[name] = fmt.Sprintf("type %T", t.Underlying())
	switch u := t.Underlying().(type) {
	case *types.Struct:
		// Only the layout of structs of C matters: others have fields of their own.
		private := func(f *types.Var) bool { return !f.Exported() }
		if !slices.ContainsFunc(slices.Collect(u.Fields()), private) {
			all[name] += fmt.Sprintf(" of %d bytes", sizes.Sizeof(t))
		}
		for i, f := range slices.Collect(u.Fields()) {
			if f.Exported() {
				text := types.TypeString(bare(f.Type()), q)
				if strings.Contains(text, "invalid type") || strings.Contains(text, "systemEventSet") {
					text = "of C"
				}
				all[name+"."+f.Name()] = fmt.Sprintf("field %s %q embedded=%v", text, u.Tag(i), f.Embedded())
			}
		}
	case *types.Interface: // its methods are below
	case *types.Signature:
		all[name] += fmt.Sprint(" ", u.Params().Len(), u.Results().Len()) // of types that are not exported
	default:
		all[name] += " " + types.TypeString(u, q)
	}
	receivers := []types.Type{t, types.NewPointer(t)}
	if types.IsInterface(t) {
		receivers = receivers[:1]
	}
	for i, r := range receivers {
		for m := range types.NewMethodSet(r).Methods() {
			if m.Obj().Exported() {
				all[fmt.Sprintf("(%s%s).%s", strings.Repeat("*", i), name, m.Obj().Name())] = types.TypeString(bare(m.Type()), q)
			}
		}
	}
}

// bare returns a type without the names of parameters and of aliases.
func bare(t types.Type) types.Type {
	switch t := types.Unalias(t).(type) {
	case *types.Pointer:
		return types.NewPointer(bare(t.Elem()))
	case *types.Slice:
		return types.NewSlice(bare(t.Elem()))
	case *types.Signature:
		var tuples [2][]*types.Var
		for i, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range tuple.Variables() {
				tuples[i] = append(tuples[i], types.NewVar(0, nil, "", bare(v.Type())))
			}
		}
		return types.NewSignatureType(nil, nil, nil, types.NewTuple(tuples[0]...), types.NewTuple(tuples[1]...), t.Variadic())
	default:
		return t
	}
}
