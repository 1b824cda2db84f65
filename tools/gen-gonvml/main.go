// Command gen-gonvml writes the generated files of compat/go-nvml, which stands in for go-nvml and calls package raw.
//
//	gen-gonvml extract -original DIR -api FILE
//
// writes the exported names, types and constants of go-nvml, whose source is in DIR.
//
//	gen-gonvml generate -api FILE -methods FILE -gpus FILE -raw DIR -out DIR
//
// writes the files. It needs no source of go-nvml.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gen-gonvml:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want extract or generate")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	api := f.String("api", "", "the file of the API of go-nvml")
	switch args[0] {
	case "extract":
		original := f.String("original", "", "the folder of go-nvml's source")
		if err := f.Parse(args[1:]); err != nil {
			return err
		}
		return runExtract(*original, *api)
	case "generate":
		methods := f.String("methods", "", "the table of methods")
		gpus := f.String("gpus", "", "the table of the GPUs of mock servers")
		raw := f.String("raw", "", "the folder of package raw")
		out := f.String("out", "", "the folder of the module to write")
		if err := f.Parse(args[1:]); err != nil {
			return err
		}
		return runGenerate(*api, *methods, *gpus, *raw, *out)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// runGenerate writes the generated files below a folder.
func runGenerate(apiFile, methods, gpus, raw, out string) error {
	a, err := readAPI(apiFile)
	if err != nil {
		return err
	}
	r, err := readRaw(raw)
	if err != nil {
		return err
	}
	g := &generator{api: a, raw: r, versions: map[string]rawMethod{}, layouts: map[string]string{}}
	calls, err := g.readCalls(methods)
	if err != nil {
		return err
	}
	o := output{}
	a.emitTypes(o)
	a.emitVars(o)
	if err := a.emitMocks(o); err != nil {
		return err
	}
	if err := emitGPUs(o, gpus); err != nil {
		return err
	}
	delegates := o.file("pkg/nvml/zlibrary.go", "package nvml\n\n")
	b := o.file("pkg/nvml/zcalls.go", "package nvml\n\nimport \"github.com/purecu/purecu/nvml/raw\"\n\n")
	for _, c := range calls {
		to := b
		if c.kind == "to" {
			to = delegates
		}
		if err := g.emit(to, c); err != nil {
			return err
		}
	}
	for _, f := range []string{"Compute", "Graphics", "MPSCompute"} { // written by hand, as their versions differ in types
		f = "DeviceGet" + f + "RunningProcesses"
		g.versions[f] = r.methods[f]
	}
	g.emitVersions(o)
	g.emitLayouts(o)
	return o.write(out)
}
