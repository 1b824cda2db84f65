// Command gen-symbols makes a manifest of facts from the headers of the CUDA driver API, and the
// generated files of the library from the manifest.
//
//	gen-symbols extract -cuda cuda.h -typedefs cudaTypedefs.h -results results.tsv -o manifest/cuda-13.0.tsv
//	gen-symbols emit -manifest manifest/cuda-13.0.tsv -additions $ADDITIONS \
//		-classes classes.txt -calls calls.tsv -root ../..
//	gen-symbols library -manifest manifest/cuda-13.0.tsv -additions $ADDITIONS \
//		-classes classes.txt -calls calls.tsv -libcuda libcuda.tsv -sim ../../internal/sim -root ../..
//
// with
//
//	ADDITIONS=manifest/cudaProfiler-13.0.tsv,manifest/cuda-13.4-unverified.tsv
//
// The headers belong to NVIDIA and are not in the repository. A manifest has only names, numbers
// and prototypes, so that everybody can run emit. A file of additions has facts of another
// header, or facts about newer releases from public sources, which no header has confirmed.
//
// # Files
//
//   - From headers to a manifest (extract): package cheader reads the headers, extract*.go and results.go
//     collect the facts
//   - manifest.go and structs.go have the facts, classes.go which functions wait, and calls.go how each
//     function becomes a Go method: the roles of its parameters, from calls.tsv
//   - Generated Go (emit): emittables.go writes symbols, results and constants, emitcalls.go the typed
//     calls of package driver
//   - The C library (library): emitlibrary.go writes its C functions, emitdispatch.go the Go function
//     that calls the software driver for them, implemented.go what that has
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
}

// errUsage is the error of run for an unknown command.
var errUsage = errors.New("usage: gen-symbols extract|emit|library [flags]; gen-symbols extract -h lists the flags")

// run runs the command with arguments.
func run(args []string, stderr io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("gen-symbols "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	switch args[0] {
	case "extract":
		return runExtract(flags, args[1:])
	case "emit":
		return runEmit(flags, args[1:], nil, nil)
	case "library":
		return runEmit(flags, args[1:], flags.String("libcuda", "libcuda.tsv", "further facts for the C library"),
			flags.String("sim", "../../internal/sim", "the package of the software driver"))
	}
	return errUsage
}

func runExtract(flags *flag.FlagSet, args []string) error {
	cuda := flags.String("cuda", "", "path of cuda.h")
	typedefs := flags.String("typedefs", "", "path of cudaTypedefs.h of the same release")
	results := flags.String("results", "results.tsv", "the driver's text for each result")
	out := flags.String("o", "", "manifest to write")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	var srcs [3]source
	for i, name := range []string{*cuda, *typedefs, *results} {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		srcs[i] = source{name, string(text)}
	}
	m, err := extract(srcs[0], srcs[1], srcs[2])
	if err != nil {
		return err
	}
	return writeFiles(map[string][]byte{*out: m.format()})
}

// runEmit writes the files of the library, or of the C library if there is a flag for its file.
func runEmit(flags *flag.FlagSet, args []string, libcuda, sim *string) error {
	manifestFile := flags.String("manifest", "manifest/cuda-13.0.tsv", "manifest to read")
	additions := flags.String("additions", "none",
		"manifests, with commas between them, of other headers, or of facts that no header has confirmed; or none")
	classesFile := flags.String("classes", "classes.txt", "rules for the class of each function")
	measuredFile := flags.String("measured", "../../tests/gpu/blocking.tsv", "what functions do while a stream is held")
	callsFile := flags.String("calls", "calls.tsv", "calls to emit")
	root := flags.String("root", "../..", "root of the module that the files are for")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	text, err := os.ReadFile(*manifestFile)
	if err != nil {
		return err
	}
	m, err := parseManifest(*manifestFile, string(text))
	if err != nil {
		return err
	}
	manifestName := filepath.Base(*manifestFile)
	if *additions != "none" {
		for file := range strings.SplitSeq(*additions, ",") {
			if err := addFile(m, file); err != nil {
				return err
			}
			manifestName += ", " + filepath.Base(file)
		}
	}
	classesText, err := os.ReadFile(*classesFile)
	if err != nil {
		return err
	}
	measured, err := os.ReadFile(*measuredFile)
	if err != nil {
		return err
	}
	if err := m.classify(source{*classesFile, string(classesText)},
		source{*measuredFile, string(measured)}); err != nil {
		return err
	}
	callsText, err := os.ReadFile(*callsFile)
	if err != nil {
		return err
	}
	calls := source{*callsFile, string(callsText)}
	var files map[string][]byte
	if libcuda == nil {
		files, err = emit(m, calls, manifestName)
	} else {
		var libcudaText []byte
		if libcudaText, err = os.ReadFile(*libcuda); err != nil {
			return err
		}
		implemented, err := implementedMethods(*sim)
		if err != nil {
			return err
		}
		files, err = emitLibrary(m, calls, source{*libcuda, string(libcudaText)}, manifestName, implemented)
		if err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	rooted := map[string][]byte{}
	for name, data := range files {
		rooted[filepath.Join(*root, filepath.FromSlash(name))] = data
	}
	return writeFiles(rooted)
}

// addFile adds the facts of a file to m.
func addFile(m *manifest, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	more, err := parseManifest(file, string(text))
	if err != nil {
		return err
	}
	return m.add(file, more)
}

// parseFlags parses args, and returns an error if a flag has no value.
func parseFlags(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var missing error
	flags.VisitAll(func(f *flag.Flag) {
		if f.Value.String() == "" {
			missing = errors.Join(missing, fmt.Errorf("flag -%s is missing", f.Name))
		}
	})
	return missing
}

// writeFiles writes all files or, if possible, none. It writes each file under a temporary name
// before it moves the first one to its place.
func writeFiles(files map[string][]byte) (err error) {
	temps := map[string]string{}
	defer func() {
		for _, temp := range temps {
			err = errors.Join(err, os.Remove(temp))
		}
	}()
	for name, data := range files {
		f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
		if err != nil {
			return err
		}
		temps[name] = f.Name()
		_, err = f.Write(data)
		if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
			return err
		}
	}
	for name := range files {
		if err := os.Rename(temps[name], name); err != nil {
			return err
		}
		delete(temps, name)
	}
	return nil
}
