// Command release makes the files of a release: programs, the software driver as libraries for C, their licenses, a
// list of what they contain (CycloneDX), and their checksums. The same sources, Go and C compiler make the same bytes,
// in any folder.
//
//	cd tools && go run ./release -o DIR            all files
//	cd tools && go run ./release -o DIR NAME...    these files, with their list and checksums
//
// The libraries take a C compiler for their architecture: cc for the one of this machine, aarch64-linux-gnu-gcc or
// x86_64-linux-gnu-gcc for the other.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
)

// artifact is a file of a release.
type artifact struct {
	name   string
	goos   string
	goarch string
	module string // the folder of the module of a program, or "" for the libraries
	folder string // the folder of the program in its module
	tags   string
}

// artifacts are all of them. On Windows no engine is static.
var artifacts = []artifact{
	{"cuprobe-linux-amd64", "linux", "amd64", ".", "./cmd/cuprobe", "cu_static"},
	{"cuprobe-linux-arm64", "linux", "arm64", ".", "./cmd/cuprobe", "cu_static"},
	{"cuprobe-windows-amd64.exe", "windows", "amd64", ".", "./cmd/cuprobe", ""},
	{"exporter-linux-amd64", "linux", "amd64", "examples/exporter", ".", "cu_static,nosoft"},
	{"exporter-linux-arm64", "linux", "arm64", "examples/exporter", ".", "cu_static,nosoft"},
	{"cusim-linux-amd64.tar.gz", "linux", "amd64", "", "", ""},
	{"cusim-linux-arm64.tar.gz", "linux", "arm64", "", "", ""},
}

// The names of the files that describe the others.
const (
	sumsFile    = "SHA256SUMS"
	bomFile     = "purecu.cdx.json"
	licenseFile = "LICENSES.txt"
)

// crossCompilers are the C compilers for other architectures.
var crossCompilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

func main() {
	out := flag.String("o", "", "folder to write the files to")
	root := flag.String("C", "..", "folder of the sources")
	flag.Parse()
	if err := run(*root, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run makes the artifacts of these names, or all, and what describes them.
func run(root, out string, names []string) error {
	if out == "" {
		return errors.New("-o names the folder to write the files to")
	}
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	version, err := treeVersion(root)
	if err != nil {
		return err
	}
	bom := newBOM(version)
	for _, a := range chosen {
		built, err := a.make(root, filepath.Join(out, a.name))
		if err == nil {
			err = bom.add(filepath.Join(out, a.name), built)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	if err := bom.write(filepath.Join(out, bomFile)); err != nil {
		return err
	}
	if err := bom.licenses(root, filepath.Join(out, licenseFile)); err != nil {
		return err
	}
	return writeSums(out, chosen)
}

// choose returns the artifacts of these names, or all.
func choose(names []string) ([]artifact, error) {
	if len(names) == 0 {
		return artifacts, nil
	}
	var chosen []artifact
	for _, name := range names {
		i := slices.IndexFunc(artifacts, func(a artifact) bool { return a.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no artifact %s", name)
		}
		chosen = append(chosen, artifacts[i])
	}
	return chosen, nil
}

// treeVersion returns the version that the sources have.
func treeVersion(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, "internal/release/release.go"))
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^const Version = "(.+)"$`).FindSubmatch(b)
	if m == nil {
		return "", errors.New("internal/release/release.go has no version")
	}
	return string(m[1]), nil
}

// make builds an artifact, and returns what Go has recorded about it.
func (a artifact) make(root, file string) (*contents, error) {
	if a.module != "" {
		if err := a.command(filepath.Join(root, a.module), "CGO_ENABLED=0", "go", "build", "-trimpath",
			"-buildvcs=false",
			"-tags="+a.tags, "-ldflags=-s -w -buildid=", "-o", file, a.folder); err != nil {
			return nil, err
		}
		return contentsOf(file, filepath.Join(root, a.module))
	}
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cc := os.Getenv("CC")
	if a.goarch != runtime.GOARCH {
		cc = crossCompilers[a.goarch]
	}
	// The command runs here, so the platform is a flag.
	host := artifact{goos: runtime.GOOS, goarch: runtime.GOARCH}
	if err := host.command(root, "CC="+cc, "go", "run", "./cusim/libcuda/build", "-arch", a.goarch, "-o",
		dir); err != nil {
		return nil, err
	}
	script, err := os.ReadFile(filepath.Join(root, "release/cusim-run"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "cusim-run"), script, 0o666)
	}
	if err != nil {
		return nil, err
	}
	library := filepath.Join(dir, "libcusim.so")
	built, err := contentsOf(library, root)
	if err != nil {
		return nil, err
	}
	// Who has only the archive needs the licenses, too.
	inside := newBOM("")
	err = inside.add(library, built)
	if err == nil {
		err = inside.licenses(root, filepath.Join(dir, licenseFile))
	}
	return built, cmp.Or(err, archive(dir, "cusim", file))
}

// command runs a command in a folder, for the artifact's platform. Its output becomes part of the error.
func (a artifact) command(dir, variable string, argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOOS="+a.goos,
		"GOARCH="+a.goarch, variable)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}
