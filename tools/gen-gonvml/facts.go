package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A signature has the types of parameters and results.
type signature struct {
	names   []string
	params  []string
	results []string
}

// A method is one of an interface, with its signature as text, without func.
type method struct{ name, text string }

// A mocked method has what its mock records of a call.
type mocked struct{ name, fields string }

// api is what extract has written.
type api struct {
	consts  [][3]string // name, type or -, value
	types   [][2]string
	aliases [][2]string
	vars    [][2]string
	order   []string // the interfaces
	methods map[string][]method
	mocks   map[string][]mocked
	kinds   map[string]string // the types by name
}

// rows reads a table, without its comments.
func rows(file string) ([][]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var table [][]string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && !strings.HasPrefix(line, "#") {
			table = append(table, strings.Split(line, "\t"))
		}
	}
	return table, nil
}

// readAPI reads the file that extract writes.
func readAPI(file string) (*api, error) {
	table, err := rows(file)
	if err != nil {
		return nil, err
	}
	a := &api{methods: map[string][]method{}, mocks: map[string][]mocked{}, kinds: map[string]string{}}
	for _, r := range table {
		switch r[0] {
		case "const":
			a.consts = append(a.consts, [3]string{r[1], r[2], r[3]})
		case "type":
			a.types = append(a.types, [2]string{r[1], r[2]})
			a.kinds[r[1]] = r[2]
		case "alias":
			a.aliases = append(a.aliases, [2]string{r[1], r[2]})
		case "var":
			a.vars = append(a.vars, [2]string{r[1], r[2]})
		case "method":
			if a.methods[r[1]] == nil {
				a.order = append(a.order, r[1])
			}
			a.methods[r[1]] = append(a.methods[r[1]], method{r[2], r[3]})
		case "mock":
			a.mocks[r[1]] = append(a.mocks[r[1]], mocked{r[2], r[3]})
		default:
			return nil, fmt.Errorf("%s: unknown kind %q", file, r[0])
		}
	}
	return a, nil
}

// parseSignature reads a signature such as "(int) (Device, Return)".
func parseSignature(text string) (signature, error) {
	e, err := parser.ParseExpr("func" + text)
	if err != nil {
		return signature{}, fmt.Errorf("%q: %w", text, err)
	}
	return signatureOf(e.(*ast.FuncType)), nil
}

func signatureOf(f *ast.FuncType) (s signature) {
	for _, p := range f.Params.List {
		for i := range max(1, len(p.Names)) {
			s.params = append(s.params, types.ExprString(p.Type))
			if len(p.Names) > 0 {
				s.names = append(s.names, p.Names[i].Name)
			}
		}
	}
	if f.Results != nil {
		for _, p := range f.Results.List {
			s.results = append(s.results, types.ExprString(p.Type))
		}
	}
	return s
}

// fieldType returns the type of a struct's field, or "".
func (a *api) fieldType(structName, field string) string {
	e, err := parser.ParseExpr(a.kinds[structName])
	if err != nil {
		return ""
	}
	s, ok := e.(*ast.StructType)
	if !ok {
		return ""
	}
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			if n.Name == field {
				return types.ExprString(f.Type)
			}
		}
	}
	return ""
}

// A rawMethod is one of package raw's Library.
type rawMethod struct {
	name string
	sig  signature
}

// rawAPI is that of package raw: its methods by the names of the functions of C, without nvml, and its structs.
type rawAPI struct {
	methods map[string]rawMethod
	structs map[string]bool
}

var callsFunction = regexp.MustCompile(`\bcalls nvml(\w+)`)

// readRaw reads the source of package raw.
func readRaw(dir string) (*rawAPI, error) {
	r := &rawAPI{map[string]rawMethod{}, map[string]bool{}}
	for _, name := range []string{"zcalls.go", "zstructs.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if m := callsFunction.FindStringSubmatch(d.Doc.Text()); m != nil {
					r.methods[m[1]] = rawMethod{d.Name.Name, signatureOf(d.Type)}
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if t, ok := s.(*ast.TypeSpec); ok {
						_, isStruct := t.Type.(*ast.StructType)
						r.structs[t.Name.Name] = isStruct || t.Assign != 0
					}
				}
			}
		}
	}
	return r, nil
}
