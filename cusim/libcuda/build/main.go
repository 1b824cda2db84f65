// Command build builds the software driver as libcuda.so.1, and its NVML as libnvidia-ml.so.1: see the command in the
// parent folder.
//
//	go run github.com/purecu/purecu/cusim/libcuda/build -o DIR
//	go run github.com/purecu/purecu/cusim/libcuda/build -version 12.4 -o DIR
//	go run github.com/purecu/purecu/cusim/libcuda/build -list
//
// With -version the library is that of an older CUDA: it exports what NVIDIA's library of that version exports.
//
// It has to be run in purecu's own module, or in a module whose go.mod requires purecu, because the
// driver is built from there. It needs a C compiler: $CC, cc, gcc or clang. For another
// architecture, set -arch, and CC to a compiler for it. The libraries load on glibc 2.17 and newer, whatever glibc they
// are built with, and the same compilers make the same bytes of the same sources.
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

//go:embed stub nvml
var sources embed.FS

// function is an exported function.
type function struct {
	name        string
	since       int // the version that introduced it
	implemented bool
}

// The names of the output files, and the package of the library.
const (
	layerFile  = "libcuda.so.1"
	nvmlFile   = "libnvidia-ml.so.1"
	driverFile = "libcusim.so"
	importPath = "github.com/purecu/purecu/cusim/libcuda"
)

// What NVIDIA's libraries do not export.
const (
	mark = "cusim_simulated" // a variable: see stub/libcuda.c
	door = "cusim_nvml"      // a function of libcuda.so.1 that libnvidia-ml.so.1 calls
)

// nvmlFunction is an exported function of NVML.
type nvmlFunction struct {
	name  string
	since int // the version of CUDA of the driver that introduced it, or 0 if that is not known
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "build:", err)
		}
		os.Exit(1)
	}
}

// run runs the command with its arguments.
func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("o", "", "directory to write the libraries to")
	arch := flags.String("arch", runtime.GOARCH, "architecture to build for: amd64 or arm64")
	listed := flags.Bool("list", false, "list the functions, and whether the driver has them")
	version := newest
	flags.Func("version", "`VERSION` of CUDA to build for, such as 12.4 (default 13.0)", func(s string) (err error) {
		version, err = parseVersion(s)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *dir == "" && !*listed:
		return errors.New("-o names the directory to write the libraries to; -list lists the functions")
	}
	if *listed {
		list(stdout, version)
	}
	if *dir == "" {
		return nil
	}
	return build(*dir, *arch, version)
}

// The versions of CUDA that the library can be built for.
const (
	oldest = 11000
	newest = 13000
)

// parseVersion parses a version such as 12.4, and returns it as 12040.
func parseVersion(s string) (int, error) {
	var major, minor int
	if n, _ := fmt.Sscanf(s, "%d.%d", &major, &minor); n == 2 && s == fmt.Sprintf("%d.%d", major, minor) && minor < 10 {
		if v := 1000*major + 10*minor; v >= oldest && v <= newest {
			return v, nil
		}
	}
	return 0, errors.New("name a version from 11.0 to 13.0, such as 12.4")
}

// exports returns the functions that the library of a version exports.
func exports(version int) (list []function) {
	for _, f := range functions {
		if f.since <= version {
			list = append(list, f)
		}
	}
	return list
}

// nvmlExports returns the names of the functions that libnvidia-ml.so.1 of a version exports.
func nvmlExports(version int) []string {
	names := []string{"nvmlInternalGetExportTable"}
	for _, f := range nvmlFunctions {
		if f.since <= version {
			names = append(names, f.name)
		}
	}
	return names
}

// exportScript returns a version script for the linker, which makes a library export these names.
func exportScript(names ...string) []byte {
	return []byte("{\nglobal:\n\t" + strings.Join(names, ";\n\t") + ";\nlocal:\n\t*;\n};\n")
}

// list writes the functions of a version.
func list(w io.Writer, version int) {
	have, functions := 0, exports(version)
	for _, f := range functions {
		what := "CUDA_ERROR_NOT_SUPPORTED"
		if f.implemented {
			what = "yes"
			have++
		}
		fmt.Fprintf(w, "%-55s %s\n", f.name, what)
	}
	fmt.Fprintf(w, "%-55s %s\n", mark, "no function: says that the library is not NVIDIA's")
	fmt.Fprintf(w, "%-55s %s\n", door, "for libnvidia-ml.so.1")
	fmt.Fprintf(w, "%d of %d functions\n", have, len(functions))
	fmt.Fprintf(w, "libnvidia-ml.so.1 has all %d functions of NVML\n", len(nvmlExports(version)))
}

// build writes the libraries.
func build(dir, arch string, version int) error {
	if runtime.GOOS != "linux" || !slices.Contains([]string{"amd64", "arm64"}, arch) {
		return fmt.Errorf("the library is for Linux on amd64 and arm64, not for %s/%s", runtime.GOOS, arch)
	}
	cc, err := compiler(arch)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	source, err := os.MkdirTemp("", "libcuda-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	if err := os.CopyFS(source, sources); err != nil {
		return err
	}

	if err := command(nil, "go", "list", importPath); err != nil {
		return fmt.Errorf("this has to be run in purecu's own module, or in one whose go.mod requires purecu: %w", err)
	}

	// Build the driver first. If this fails, libcuda.so.1 is not written.
	old, err := linkOld(cc, filepath.Join(source, "glibc"), arch)
	if err != nil {
		return err
	}
	shared := filepath.Join(source, driverFile) // go build also writes a header
	goEnv := []string{"CGO_ENABLED=1", "GOOS=linux", "GOARCH=" + arch, "CC=" + strings.Join(cc, " ")}
	if err := command(goEnv, "go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid= -B none '-extldflags="+strings.Join(old, " ")+"'",
		"-o", shared, importPath); err != nil {
		return err
	}
	names := []string{mark, door}
	for _, f := range exports(version) {
		names = append(names, f.name)
	}
	layer, nvml := filepath.Join(source, layerFile), filepath.Join(source, nvmlFile)
	if err := compile(cc, old, filepath.Join(source, "stub"), layer, version, names); err != nil {
		return err
	}
	if err := compile(cc, old, filepath.Join(source, "nvml"), nvml, version,
		append(nvmlExports(version), mark)); err != nil {
		return err
	}
	for _, file := range []string{shared, layer, nvml} {
		if err := install(file, filepath.Join(dir, filepath.Base(file))); err != nil {
			return err
		}
	}
	for _, file := range []string{layerFile, nvmlFile} {
		if err := link(file, filepath.Join(dir, strings.TrimSuffix(file, ".1"))); err != nil {
			return err
		}
	}
	return nil
}

// compile makes a library of the C files in a folder, which exports these names.
func compile(cc, old []string, source, library string, version int, names []string) error {
	files, err := filepath.Glob(filepath.Join(source, "*.c"))
	if err != nil {
		return err
	}
	script := filepath.Join(source, "exports.map")
	if err := os.WriteFile(script, exportScript(names...), 0o666); err != nil {
		return err
	}
	args := append(slices.Clone(cc), "-std=gnu11", "-O2", "-Wall", "-fPIC", "-fvisibility=hidden", "-pthread", "-shared",
		fmt.Sprintf("-DCUSIM_VERSION=%d", version), "-Wl,-soname,"+filepath.Base(library), "-Wl,-z,nodelete,-z,relro",
		"-Wl,-Bsymbolic", "-Wl,--build-id=none", "-Wl,--version-script="+script, "-o", library)
	args = append(append(append(args, files...), old...), "-ldl")
	return command(nil, args[0], args[1:]...)
}

// compiler returns the C compiler with its arguments.
func compiler(arch string) ([]string, error) {
	if cc := strings.Fields(os.Getenv("CC")); len(cc) > 0 {
		if _, err := exec.LookPath(cc[0]); err != nil {
			return nil, fmt.Errorf("CC names a C compiler that is not there: %w", err)
		}
		return cc, nil
	}
	if arch != runtime.GOARCH {
		return nil, fmt.Errorf("CC has to name a C compiler for %s, such as aarch64-linux-gnu-gcc", arch)
	}
	for _, cc := range []string{"cc", "gcc", "clang"} {
		if _, err := exec.LookPath(cc); err == nil {
			return []string{cc}, nil
		}
	}
	return nil, errors.New("there is no C compiler: install gcc or clang, or name one in CC")
}

// command runs a program with additional environment variables. Its output becomes part of the
// error.
func command(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// install copies a library. An old file is replaced, not overwritten, so that programs that have
// mapped it keep its content.
func install(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".") // another command may do the same
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Chmod(0o755), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), to)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp.Name()))
	}
	return err
}

// link makes a symbolic link, and replaces an old one.
func link(to, name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(to, name)
}
