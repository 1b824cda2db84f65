package nvml_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/purecu/purecu/nvml/raw"
)

// notCalled has the functions that this package does not call, and why.
var notCalled = map[string]string{
	"Init":                      "InitV2 replaces it: it fails if one GPU of several does",
	"DeviceGetCount":            "DeviceGetCountV2 replaces it: it does not count GPUs that the process cannot open",
	"DeviceGetHandleByIndex":    "DeviceGetHandleByIndexV2 replaces it, whose indexes those of DeviceGetCountV2 are",
	"DeviceGetHandleByPciBusId": "DeviceGetHandleByPciBusIdV2 replaces it: it finds no GPUs that the process cannot open",
	"DeviceGetHandleByUUIDV":    "DeviceGetHandleByUUID finds the same, given a text",
	"DeviceGetPowerState":       "DeviceGetPerformanceState replaces it, which returns the same under a better name",
	"ErrorString":               "the texts are in package raw, in plain words",
}

// called returns the names of the methods that the files of this package call, or refer to.
func called(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	names := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is {
				if x, is := s.X.(*ast.Ident); !is || x.Name != "raw" { // raw.Name is a type or a constant
					names[s.Sel.Name] = true
				}
			}
			return true
		})
	}
	return names
}

// TestFunctions checks that this package calls every function of NVML, or that there is a reason why not.
func TestFunctions(t *testing.T) {
	names := called(t)
	functions := reflect.TypeFor[raw.Software]()
	for i := range functions.NumMethod() {
		name := functions.Method(i).Name
		reason, has := notCalled[name]
		switch {
		case names[name] && has:
			t.Errorf("%s is called: remove it from the list (%s)", name, reason)
		case names[name] || has:
		default:
			t.Errorf("no method calls %s, and there is no reason", name)
		}
	}
	for name := range notCalled {
		if _, is := functions.MethodByName(name); !is {
			t.Errorf("there is no function %s", name)
		}
	}
}
