package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArchive checks that an archive does not depend on the folder, and not on the times of its files.
func TestArchive(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		dir, file := t.TempDir(), filepath.Join(t.TempDir(), "archive")
		for _, name := range []string{"b", licenseFile}[i:] {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if i == 1 { // in another order
			if err := os.WriteFile(filepath.Join(dir, "b"), []byte("content"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("b", filepath.Join(dir, "link")); err != nil {
			t.Skip(err)
		}
		if err := archive(dir, "name", file); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) || len(archives[0]) == 0 {
		t.Error("the same files make different archives")
	}
}

// TestBOM lists this test's own program, which contains no module but Go's library.
func TestBOM(t *testing.T) {
	c, err := contentsOf(os.Args[0], ".")
	if err != nil {
		t.Fatal(err)
	}
	b, file := newBOM("1.2.3"), filepath.Join(t.TempDir(), bomFile)
	if err := b.add(os.Args[0], c); err != nil {
		t.Fatal(err)
	}
	if err := b.write(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Components) != 2 || got.Components[1].PURL != "pkg:golang/std@"+c.goVersion {
		t.Fatalf("the components are %+v", got.Components)
	}
	want, err := sum(os.Args[0])
	if err != nil || len(got.Components[0].Hashes) != 1 || got.Components[0].Hashes[0].Content != want {
		t.Errorf("the file is %+v, %v; want the sum %s", got.Components[0], err, want)
	}
	if got.Metadata.Component.PURL != "pkg:golang/"+modulePath+"@v1.2.3" {
		t.Errorf("the list is about %+v", got.Metadata.Component)
	}
}

// TestLicenses collects the licenses of a program's modules, which only the program's own go.sum has. No database of
// checksums is asked.
func TestLicenses(t *testing.T) {
	const text = "This is the license of dep."
	root, main, proxy := t.TempDir(), t.TempDir(), t.TempDir()
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	files := map[string]string{"go.mod": "module example.org/dep\n", "dep.go": "package dep\n", "LICENSE": text}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create("example.org/dep@v1.0.0/" + name)
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(files[name])) // what follows finds what is missing
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	versions := filepath.Join(proxy, "example.org", "dep", "@v")
	if err := os.MkdirAll(versions, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		filepath.Join(root, "go.mod"):          "module example.org/root\n",
		filepath.Join(root, "LICENSE"):         "This is the license of root.",
		filepath.Join(main, "go.mod"):          "module example.org/main\n",
		filepath.Join(versions, "list"):        "v1.0.0\n",
		filepath.Join(versions, "v1.0.0.info"): `{"Version": "v1.0.0"}`,
		filepath.Join(versions, "v1.0.0.mod"):  files["go.mod"],
		filepath.Join(versions, "v1.0.0.zip"):  packed.String(),
	} {
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"GOPROXY": "file://" + filepath.ToSlash(proxy),
		"GOMODCACHE": t.TempDir(),
		"GOFLAGS":    "-modcacherw", "GOWORK": "off", "GOPRIVATE": "", "GONOPROXY": "", "GONOSUMDB": "", "GOSUMDB": "off"} {
		t.Setenv(name, value)
	}
	get := exec.Command("go", "get", "example.org/dep@v1.0.0")
	get.Dir = main
	if out, err := get.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("GOSUMDB", "sum.golang.org http://127.0.0.1:1")
	b, file := newBOM("1.2.3"), filepath.Join(t.TempDir(), licenseFile)
	c := &contents{goVersion: "1.26", modules: map[string]string{"example.org/dep": "v1.0.0"}, folder: main}
	if err := b.add(filepath.Join(versions, "list"), c); err != nil {
		t.Fatal(err)
	}
	if err := b.licenses(root, file); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || !strings.Contains(string(got), text) {
		t.Errorf("%v: the licenses are\n%s", err, got)
	}
}

// TestChoose checks that a mistyped name is an error.
func TestChoose(t *testing.T) {
	if all, err := choose(nil); err != nil || len(all) != len(artifacts) {
		t.Errorf("%d, %v", len(all), err)
	}
	if _, err := choose([]string{"cuprobe-linux-amd46"}); err == nil {
		t.Error("a name that no artifact has is taken")
	}
}

// TestVersion reads the version of this tree.
func TestVersion(t *testing.T) {
	if v, err := treeVersion("../.."); err != nil || v == "" {
		t.Errorf("%q, %v", v, err)
	}
}
