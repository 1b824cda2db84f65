package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// modulePath is the module whose release this is.
const modulePath = "github.com/purecu/purecu"

// contents is what Go has recorded about a program: its version of Go, and the modules by their paths, with versions.
type contents struct {
	goVersion string
	modules   map[string]string
	folder    string // of the module that was built, whose go.sum has the checksums of the others
}

// contentsOf reads them from a program or a library that was built in a folder.
func contentsOf(file, folder string) (*contents, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &contents{goVersion: strings.TrimPrefix(info.GoVersion, "go"), modules: map[string]string{},
		folder: folder}
	for _, m := range info.Deps {
		if m.Path != modulePath { // a folder replaces it
			c.modules[m.Path] = m.Version
		}
	}
	return c, nil
}

// bom is the list of what the files contain, in the format of CycloneDX 1.5.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`

	found map[string]component
}

// metadata says what the list is about.
type metadata struct {
	Component component `json:"component"`
}

// component is a file, or a module that some of the files contain.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`

	folder string // of a module that needs this one
}

// hash is a checksum of a file.
type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// dependency says which modules a file contains.
type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

// newBOM returns the list of a release without files.
func newBOM(version string) *bom {
	whole := module(modulePath, "v"+version)
	return &bom{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{whole}, found: map[string]component{}}
}

// module returns the component that stands for a module.
func module(path, version string) component {
	purl := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
}

// add adds a file and what it contains.
func (b *bom) add(file string, c *contents) error {
	s, err := sum(file)
	if err != nil {
		return err
	}
	name := filepath.Base(file)
	b.Components = append(b.Components, component{Type: "file", Ref: name, Name: name,
		Version: strings.TrimPrefix(b.Metadata.Component.Version, "v"), Hashes: []hash{{"SHA-256", s}}})
	std := module("std", c.goVersion)
	b.found[std.Ref] = std
	on := []string{b.Metadata.Component.Ref, std.Ref}
	for _, path := range slices.Sorted(maps.Keys(c.modules)) {
		m := module(path, c.modules[path])
		m.folder = c.folder
		b.found[m.Ref] = m
		on = append(on, m.Ref)
	}
	b.Dependencies = append(b.Dependencies, dependency{name, on})
	return nil
}

// write writes the list.
func (b *bom) write(file string) error {
	for _, ref := range slices.Sorted(maps.Keys(b.found)) {
		b.Components = append(b.Components, b.found[ref])
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o666)
}

// licenses writes the licenses of this module, of Go, and of all modules that the files contain.
func (b *bom) licenses(root, file string) error {
	folders := map[string]string{modulePath: root}
	for _, ref := range slices.Sorted(maps.Keys(b.found)) {
		m := b.found[ref]
		argv, dir := []string{"go", "env", "GOROOT"}, root
		if m.Name != "std" {
			argv, dir = []string{"go", "mod", "download", "-json", m.Name + "@" + m.Version}, m.folder
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%v: %w", cmd, err)
		}
		folder := struct{ Dir string }{strings.TrimSpace(string(out))}
		if m.Name != "std" {
			if err := json.Unmarshal(out, &folder); err != nil {
				return err
			}
		}
		folders[m.Name] = folder.Dir
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		var files []string
		for _, pattern := range []string{"LICENSE*", "COPYING*", "NOTICE*"} {
			found, err := filepath.Glob(filepath.Join(folders[name], pattern))
			if err != nil {
				return err
			}
			files = append(files, found...)
		}
		if len(files) == 0 {
			return fmt.Errorf("%s has no license in %s", name, folders[name])
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, "==== %s: %s\n\n%s\n", name, filepath.Base(f), b)
		}
	}
	return os.WriteFile(file, []byte(text.String()), 0o666)
}
