package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// protocolFiles are the files of package cu that hold protocols and the values that protocols use,
// beside the files whose names end in core.go. All other files hold the API.
var protocolFiles = strings.Fields(`
	batcherror.go capturegate.go capturejoin.go deferred.go enqueue.go errordoc.go errors.go eventcache.go
	fatalerrors.go flags.go graphfamily.go lifetime.go norace.go objectset.go observer.go ownership.go record.go resource.go slot.go
	streammark.go streamset.go streamtail.go timelinememory.go trace.go wakeups.go watchsource.go zenums.go zresult.go
`)

func isProtocol(file string) bool {
	return strings.HasSuffix(file, "core.go") || slices.Contains(protocolFiles, file)
}

// TestLayers checks that no protocol of package cu uses the API: whoever changes a protocol has to
// read other protocols only.
func TestLayers(t *testing.T) {
	imports, _ := loadPublic(t)
	fset := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(moduleRoot, "cu", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	var names []string
	for _, p := range paths {
		name := filepath.Base(p)
		if strings.HasSuffix(name, "_test.go") || name == "race.go" { // norace.go declares the same
			continue
		}
		f, err := parser.ParseFile(fset, p, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files, names = append(files, f), append(names, name)
	}
	for _, p := range protocolFiles {
		if !slices.Contains(names, p) {
			t.Errorf("there is no cu/%s: remove it from protocolFiles", p)
		}
	}
	fileOf := func(p token.Pos) string { return filepath.Base(fset.Position(p).Filename) }
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: imports}
	pkg, err := conf.Check(modulePath+"/cu", fset, files, &info)
	if err != nil {
		t.Fatal(err)
	}
	protocols, reported := 0, map[string]bool{}
	for i, f := range files {
		if !isProtocol(names[i]) || names[i] == "zenums.go" { // the names of all constants
			continue
		}
		protocols++
		for id := range ast.Preorder(f) {
			id, ok := id.(*ast.Ident)
			if !ok {
				continue
			}
			o := info.Uses[id]
			if o == nil || o.Pkg() != pkg || isProtocol(fileOf(o.Pos())) || reported[names[i]+o.Name()] {
				continue
			}
			reported[names[i]+o.Name()] = true
			t.Errorf("%v: a protocol uses %s of the API file %s: move one of them",
				fset.Position(id.Pos()), o.Name(), fileOf(o.Pos()))
		}
	}
	if protocols < 30 {
		t.Errorf("only %d protocol files", protocols)
	}
}
