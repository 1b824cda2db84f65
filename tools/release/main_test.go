package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestArchive checks that an archive does not depend on the folder, and not on the times of its files.
func TestArchive(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		dir, file := t.TempDir(), filepath.Join(t.TempDir(), "archive")
		for _, name := range []string{"b", "LICENSE"}[i:] {
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
	c, err := contentsOf(os.Args[0])
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
