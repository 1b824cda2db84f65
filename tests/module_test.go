package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// modulePath is the path of the module that these tests check. moduleRoot is its directory,
// relative to this one.
const (
	modulePath = "github.com/purecu/purecu"
	moduleRoot = ".."
)

// A sourceFile is one Go file of the module.
type sourceFile struct {
	Name string // slash-separated, relative to the module's root
	AST  *ast.File
}

// isTest reports whether f belongs to tests only.
func (f sourceFile) isTest() bool { return strings.HasSuffix(f.Name, "_test.go") }

// isMain reports whether f belongs to a program.
func (f sourceFile) isMain() bool { return f.AST.Name.Name == "main" }

// imports returns the import paths of f.
func (f sourceFile) imports() []string {
	var list []string
	for _, spec := range f.AST.Imports {
		p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked the path
		list = append(list, p)
	}
	return list
}

// A sourceTree has every Go file of a module, whatever its build constraints are, so that checks
// cover every platform and every tag.
type sourceTree struct {
	fset     *token.FileSet
	packages map[string][]sourceFile // by directory, relative to the module's root
	assembly []string                // the .s files
}

// parseModule reads the module at root, a path relative to this directory.
func parseModule(t *testing.T, root string) sourceTree {
	t.Helper()
	tree := sourceTree{fset: token.NewFileSet(), packages: map[string][]sourceFile{}}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name, base := filepath.ToSlash(rel), d.Name()
		switch {
		case rel == ".":
			return nil
		case d.IsDir():
			// Skip what the go command skips, and nested modules.
			if base == "testdata" || base[0] == '.' || base[0] == '_' || isFile(filepath.Join(p, "go.mod")) {
				return filepath.SkipDir
			}
			return nil
		case path.Ext(name) == ".s":
			tree.assembly = append(tree.assembly, name)
			return nil
		case path.Ext(name) != ".go" || base[0] == '.' || base[0] == '_':
			return nil
		}
		f, err := parser.ParseFile(tree.fset, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		tree.packages[dir] = append(tree.packages[dir], sourceFile{name, f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// TestReadmeExample checks that the README's programs are the same as compiled ones.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(moduleRoot, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(moduleRoot, "examples", "*", "main.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	var programs []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, string(data))
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) == 0 {
		t.Error("README.md has no Go program")
	}
	for _, b := range blocks {
		if !slices.ContainsFunc(programs, func(p string) bool { return strings.Contains(p, b[1]) }) {
			t.Errorf("this is in README.md and in no example:\n%s", b[1])
		}
	}
}

// TestReadmeTestCommand checks that the README has the test command of CI.
func TestReadmeTestCommand(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(moduleRoot, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$").FindAllSubmatch(data, -1)
	var commands []string
	for _, b := range blocks {
		commands = append(commands, strings.TrimSpace(string(b[1])))
	}
	if !slices.Contains(commands, "make test") {
		t.Errorf("README.md has no fenced block that says just: make test")
	}
}

// TestStandardLibrary checks that a program which uses cu and the software driver needs none of the parts of the
// standard library that take long to compile. In a fresh clone a user waits for them.
func TestStandardLibrary(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Module", "./examples/hello-event")
	cmd.Dir = moduleRoot
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	for _, p := range goList(t, cmd) {
		first, _, _ := strings.Cut(p.ImportPath, "/")
		if slices.Contains([]string{"crypto", "net", "regexp", "html", "text", "go", "testing"}, first) {
			t.Errorf("examples/hello-event compiles %s", p.ImportPath)
		}
	}
}
