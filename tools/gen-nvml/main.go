// Command gen-nvml makes a file of facts from NVML's header, and packages nvml/raw and nvml from the facts.
//
//	gen-nvml extract -header nvml.h -exports exports.txt -o manifest/nvml-13.0.tsv
//	gen-nvml extract -header newer/nvml.h -base manifest/nvml-13.0.tsv -o manifest/nvml-unverified.tsv
//	gen-nvml drivers -o manifest/drivers.tsv 535=libnvidia-ml.so.535 550=libnvidia-ml.so.550 580=exports.txt
//	gen-nvml generate -manifest manifest/nvml-13.0.tsv -unverified manifest/nvml-unverified.tsv \
//		-drivers manifest/drivers.tsv -calls calls.tsv -returns returns.tsv \
//		-methods methods.tsv -names names.tsv -root ../..
//
// The header belongs to NVIDIA and is not in the repository. A manifest has only names, numbers and
// prototypes, so that everybody can run generate. exports.txt has the names of the functions that the
// driver's library exports, one a line. The second manifest has what is new in a header from a public
// source, NVIDIA's repository go-nvml, and which no driver at hand has confirmed.
//
// # Files
//
//   - extract.go collects the facts of a header, which package cheader reads, and facts.go is their file
//   - drivers.go finds out which functions older drivers lack
//   - plan.go and types.go: how each function becomes a Go method, and each type one of Go
//   - emit*.go write the files of package nvml/raw, and methods.go those of package nvml; spelling.go has words of names
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
var errUsage = errors.New("usage: gen-nvml extract|drivers|generate [flags]; gen-nvml extract -h lists the flags")

// run runs the command with arguments.
func run(args []string, stderr io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("gen-nvml "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	switch args[0] {
	case "extract":
		return runExtract(flags, args[1:], stderr)
	case "drivers":
		out := flags.String("o", "", "file to write")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return runDrivers(*out, flags.Args())
	case "generate":
		return runGenerate(flags, args[1:])
	}
	return errUsage
}

func readSource(name string) (source, error) {
	text, err := os.ReadFile(name)
	return source{name, string(text)}, err
}

func runExtract(flags *flag.FlagSet, args []string, stderr io.Writer) error {
	header := flags.String("header", "", "path of nvml.h")
	exports := flags.String("exports", "", "names of the functions to extract, one a line; all without it")
	base := flags.String("base", "", "manifest whose facts are left out")
	out := flags.String("o", "", "manifest to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	src, err := readSource(*header)
	if err != nil {
		return err
	}
	var names []string
	if *exports != "" {
		list, err := readSource(*exports)
		if err != nil {
			return err
		}
		names = strings.Fields(list.text)
	}
	f, missing, err := extract(src, names)
	if err != nil {
		return err
	}
	for _, name := range missing {
		fmt.Fprintf(stderr, "%s has no prototype in %s\n", name, *header)
	}
	if *base != "" {
		old, err := readFacts(*base, "")
		if err != nil {
			return err
		}
		f = f.newIn(old)
	}
	return os.WriteFile(*out, f.format(), 0o644)
}

// readFacts reads a manifest, and one of unverified facts, if there is one.
func readFacts(manifest, unverified string) (*facts, error) {
	f := &facts{}
	for _, name := range []string{manifest, unverified} {
		if name == "" {
			continue
		}
		src, err := readSource(name)
		if err != nil {
			return nil, err
		}
		if err := f.parse(name, src.text, name == unverified); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func runGenerate(flags *flag.FlagSet, args []string) error {
	manifest := flags.String("manifest", "manifest/nvml-13.0.tsv", "facts of a header")
	unverified := flags.String("unverified", "manifest/nvml-unverified.tsv", "facts that no driver has confirmed")
	drivers := flags.String("drivers", "manifest/drivers.tsv", "which functions older drivers lack")
	calls := flags.String("calls", "calls.tsv", "what the header does not say about functions")
	returns := flags.String("returns", "returns.tsv", "a text for each result")
	methods := flags.String("methods", "methods.tsv", "the methods of package nvml")
	names := flags.String("names", "names.tsv", "the types of package nvml")
	root := flags.String("root", "../..", "root of the module that the files are for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := generate(*manifest, *unverified, *drivers, *calls, *returns, *methods, *names)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(*root, filepath.FromSlash(name)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the generated files by their path in the module, with slashes.
func generate(manifest, unverified, drivers, calls, returns, methods, names string) (map[string][]byte, error) {
	f, err := readFacts(manifest, unverified)
	if err != nil {
		return nil, err
	}
	var texts [5]source
	for i, name := range []string{drivers, calls, returns, methods, names} {
		if texts[i], err = readSource(name); err != nil {
			return nil, err
		}
	}
	known, err := parseDrivers(texts[0])
	if err != nil {
		return nil, err
	}
	p, err := newPlan(f, known, texts[1])
	if err != nil {
		return nil, err
	}
	return p.emit(texts[2], texts[3], texts[4])
}
