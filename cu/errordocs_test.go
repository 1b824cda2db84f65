package cu_test

import (
	stdcmp "cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/internal/initresult"
)

var update = flag.Bool("update", false, "rewrite docs/errors.md")

// section is an error that docs/errors.md explains, with a program that gets it.
type section struct {
	name    string // of the error in this package
	is      error
	meaning string
	remedy  string // for mistakes; results know theirs
	trigger func(r *Rig) error
	soft    bool // on the software driver: the fake one has no graphs
}

// sections are the mistakes, and the results that a few lines can bring about.
// The text of each trigger, up to what it is for, becomes part of the page.
var sections = []section{
	{
		"ErrNoDriver", cu.ErrNoDriver,
		"No driver library could be loaded. The error wraps a `*loader.LoadError`, which lists every candidate with its own reason. On a platform for which NVIDIA ships no driver, " +
			"such as macOS, it also matches `errors.ErrUnsupported`.",
		"Run `cuprobe doctor`: it looks for the cause and names one fix. On a machine without an NVIDIA GPU there is nothing to load: check for this error, and continue without a GPU. A program that imports package `cusim/auto` runs on the software driver with `PURECU_DRIVER=soft`. " +
			"A static program (`-tags cu_static`) also needs glibc, which scratch and Alpine images lack: there a candidate's problem is `loader.NoGlibc`. It is `loader.GlibcFailed` if glibc does not start, for example because files, memory or threads are limited.",
		func(r *Rig) error {
			_, err := cu.Open(cu.WithLibrary("/nowhere/libcuda.so.1"))
			return err
		},
		false,
	},
	{
		"ErrNoDevice", cu.ErrNoDevice,
		"There is a driver, but it sees no device.",
		"Check that nvidia-smi lists a GPU, that `CUDA_VISIBLE_DEVICES` does not hide it, and that a container was started with it; `cuprobe doctor` does all of that.",
		func(r *Rig) error {
			r.Tell("fake_fail", "cuInit", 1, int32(cu.ResultNoDevice)) // a machine without a GPU
			_, err := cu.Open(cu.WithLibrary(r.Path))
			return err
		},
		false,
	},
	{
		"ErrClosed", cu.ErrClosed,
		"The object was closed before the call, or, for a wait, during it. The driver would have crashed.",
		"Close an object after its last use; `defer` its Close where it is made. Closing twice is allowed.",
		func(r *Rig) error {
			e, _ := r.GPU.NewEvent(cu.EventDefault)
			e.Close()
			return e.Record(r.Stream)
		},
		false,
	},
	{
		"ErrNil", cu.ErrNil,
		"A nil pointer was passed for an object. A nil stream is never the default stream.",
		"Check the error of the call that should have made the object. The default stream is `gpu.LegacyStream()`.",
		func(r *Rig) error {
			e, _ := r.GPU.NewEvent(cu.EventDefault)
			defer e.Close()
			return e.Record(nil)
		},
		false,
	},
	{
		"ErrDriverMismatch", cu.ErrDriverMismatch,
		"Objects of two drivers were mixed, which includes two that were opened for the same library.",
		"Open one driver and share it.",
		func(r *Rig) error {
			other, _ := cu.Open(cu.WithLibrary(r.Path))
			dev, _ := other.Device(0)
			its, _ := dev.PrimaryContext()
			defer its.Close()
			e, _ := its.NewEvent(cu.EventDefault)
			defer e.Close()
			return e.Record(r.Stream)
		},
		false,
	},
	{
		"ErrDeviceMismatch", cu.ErrDeviceMismatch,
		"Objects of two devices were mixed where CUDA does not allow it: an event is recorded on streams of its own context, a kernel uses memory that it can reach.",
		"Create both on one device. Streams may wait for events of other devices, and `Stream.Copy` copies between devices.",
		func(r *Rig) error {
			dev, _ := r.Driver.Device(1)
			other, _ := dev.PrimaryContext()
			defer other.Close()
			e, _ := other.NewEvent(cu.EventDefault)
			defer e.Close()
			return e.Record(r.Stream)
		},
		false,
	},
	{
		"ErrContextMismatch", cu.ErrContextMismatch,
		"Objects of two contexts of one device were mixed where CUDA does not allow it.",
		"Create both in one context. Most programs need only `dev.PrimaryContext()`.",
		func(r *Rig) error {
			other, _ := r.GPU.Device().NewContext(cu.ContextDefault)
			defer other.Close()
			e, _ := other.NewEvent(cu.EventDefault)
			defer e.Close()
			return e.Record(r.Stream)
		},
		false,
	},
	{
		"ErrNotTimed", cu.ErrNotTimed,
		"The time between two events was asked for, and one of them records none.",
		"Create it with `gpu.NewEvent(cu.EventDefault)`, or acquire it with `pool.Acquire(cu.EventDefault)`. The zero `Event` and events with `EventDisableTiming` record no time.",
		func(r *Rig) error {
			e, _ := r.GPU.NewEvent(cu.EventDisableTiming)
			defer e.Close()
			e.Record(r.Stream)
			_, _, err := e.Since(e)
			return err
		},
		false,
	},
	{
		"ErrNotRecorded", cu.ErrNotRecorded,
		"The time between two events was asked for, and one of them was never recorded.",
		"Record both events before asking.",
		func(r *Rig) error {
			e, _ := r.GPU.NewEvent(cu.EventDefault)
			defer e.Close()
			_, _, err := e.Since(e)
			return err
		},
		false,
	},
	{
		"ErrNoCurrentStream", cu.ErrNoCurrentStream,
		"The current stream was asked for, but the `context.Context` has none. No default stream is used instead.",
		"Pass a context that `cu.WithStream(ctx, s)` has returned, or name the stream: `e.Record(s)`.",
		func(r *Rig) error {
			var e cu.Event
			return e.RecordCurrent(context.Background())
		},
		false,
	},
	{
		"ErrReleased", cu.ErrReleased,
		"A pooled event was released before the call, by this copy of the value or another copy. The pool may have given it to somebody else since.",
		"Release an event once, after its last use. Waits, GPU waits and tickets that began before the release continue.",
		func(r *Rig) error {
			pool, _ := r.GPU.EventPool()
			defer pool.Close()
			e, _ := pool.Acquire()
			e.Release()
			return e.Record(r.Stream)
		},
		false,
	},
	{
		"ErrNotInterprocess", cu.ErrNotInterprocess,
		"A handle for other processes was requested for an event that was created without `EventInterprocess`.",
		"Create it with `cu.EventInterprocess|cu.EventDisableTiming`, by `gpu.NewEvent` or `cu.LazyEvent`; pools have no such events.",
		func(r *Rig) error {
			e, _ := r.GPU.NewEvent(cu.EventDisableTiming)
			defer e.Close()
			_, err := e.IPCHandle(context.Background())
			return err
		},
		false,
	},
	{
		"ErrImported", cu.ErrImported,
		"A handle for other processes was requested for an event or memory that another process created and this one " +
			"opened.",
		"Only the process that created it can export its handle. Pass on the handle that it was opened with; it stays " +
			"valid.",
		func(r *Rig) error {
			var h cu.IPCEventHandle
			h.UnmarshalText([]byte(os.Getenv("EVENT"))) // from another process
			e, _ := r.GPU.OpenIPCEvent(h)
			defer e.Close()
			_, err := e.IPCHandle(context.Background())
			return err
		},
		false,
	},
	{
		"ErrSameProcess", cu.ErrSameProcess,
		"A handle was opened in the process that created the event or memory.",
		"Use the `*cu.Event` or `*cu.DeviceMem` itself, also in other goroutines. Handles are for other processes.",
		func(r *Rig) error {
			e, _ := r.GPU.NewEvent(cu.EventInterprocess | cu.EventDisableTiming)
			defer e.Close()
			h, _ := e.IPCHandle(context.Background())
			_, err := r.GPU.OpenIPCEvent(h)
			return err
		},
		false,
	},
	{
		"ErrContextPoisoned", cu.ErrContextPoisoned,
		"An earlier error, most often of a kernel, made the context unusable. Every later call reports it. On two H200s, calls in contexts of the process's other GPUs reported it too. `gpu.Err()` keeps the first error.",
		"The process cannot recover, and `cu.NeedsRestart(err)` is true: continue in a new process. To find the kernel, run the program under compute-sanitizer.",
		func(r *Rig) error {
			r.Tell("fake_poison", r.GPU.Handle(), int32(cu.ResultIllegalAddress)) // a kernel writes wild
			return r.Stream.Synchronize()
		},
		false,
	},
	{
		"ErrDeviceLost", cu.ErrDeviceLost,
		"The driver does not reach the device any more. It is lost after `CUDA_ERROR_ECC_UNCORRECTABLE` (214), which every call may return; after `CUDA_ERROR_DEVICE_UNAVAILABLE` (46) " +
			"from a call in an open context (from a call that opens one it means that another process holds the device); and after `CUDA_ERROR_UNKNOWN` (999) from two different functions, " +
			"of which the first is remembered as long as the driver is open. Functions that import handles do not count: they return it for a handle that the driver does not know. " +
			"`gpu.Err()` keeps the first such error, and later errors with these results match `ErrDeviceLost`, too. " +
			"No loss of a device has been observed on a GPU: only the software driver demonstrates it (`cusim.Driver.LoseDevice`, `cusim.Faults`).",
		"Restart the process; `cu.NeedsRestart(err)` is true for this error and for `ErrContextPoisoned`. If that does not help, look for Xid messages in dmesg, and reset or drain the GPU.",
		func(r *Rig) error {
			r.Tell("fake_fail", "cuMemGetInfo_v2", 1, int32(cu.ResultDeviceUnavailable)) // the GPU has fallen off the bus
			_, _, err := r.GPU.MemInfo()
			return err
		},
		false,
	},
	{
		"Unsupported", errors.ErrUnsupported,
		"The driver is too old for a function, or does not have it (`errors.ErrUnsupported`). The error wraps a `*cu.MissingError`, which names the function, the CUDA version that introduced it and the driver's.",
		"Update the driver, or do without the function. `drv.Features()` and `cuprobe symbols` list what the driver has.",
		func(r *Rig) error {
			_, err := r.Driver.Proc("cuStreamGetDevice") // of CUDA 12.8
			return err
		},
		false,
	},
	{
		"ResultInvalidValue", cu.ResultInvalidValue, "", "",
		func(r *Rig) error {
			_, err := r.GPU.NewEvent(cu.EventInterprocess)
			return err
		},
		false,
	},
	{
		"ResultOutOfMemory", cu.ResultOutOfMemory, "", "",
		func(r *Rig) error {
			_, err := r.GPU.Alloc(1 << 50)
			return err
		},
		false,
	},
	{
		"ResultInvalidDevice", cu.ResultInvalidDevice, "", "",
		func(r *Rig) error {
			_, err := r.Driver.Device(99)
			return err
		},
		false,
	},
	{
		"ResultUnsupportedLimit", cu.ResultUnsupportedLimit, "", "",
		func(r *Rig) error {
			_, err := r.GPU.Limit(cu.Limit(77))
			return err
		},
		false,
	},
	{
		"ResultInvalidPTX", cu.ResultInvalidPTX, "", "",
		func(r *Rig) error {
			_, err := r.GPU.LoadModule([]byte(".entyr oops"))
			return err
		},
		false,
	},
	{
		"ResultFileNotFound", cu.ResultFileNotFound, "", "",
		func(r *Rig) error {
			_, err := r.GPU.LoadModuleFile("/nowhere/kernels.ptx")
			return err
		},
		false,
	},
	{
		"ResultNotFound", cu.ResultNotFound, "", "",
		func(r *Rig) error {
			m, _ := r.GPU.LoadModule([]byte("fake")) // kernels of your own
			defer m.Close()
			_, err := m.Function("nosuch")
			return err
		},
		false,
	},
	{
		"ResultCooperativeLaunchTooLarge", cu.ResultCooperativeLaunchTooLarge, "", "",
		func(r *Rig) error {
			m, _ := r.GPU.LoadModule([]byte("fake")) // kernels of your own
			defer m.Close()
			kernel, _ := m.Function("noop")
			return kernel.Launch(r.Stream, cu.LaunchConfig{
				Grid: cu.Dim3{X: 1 << 20}, Block: cu.Dim3{X: 1}, Flags: cu.LaunchCooperative,
			})
		},
		false,
	},
	{
		"ResultStreamCaptureUnsupported", cu.ResultStreamCaptureUnsupported, "", "",
		func(r *Rig) error {
			done, _ := r.GPU.NewEvent(cu.EventDefault)
			defer done.Close()
			done.Record(r.Stream)
			_, err := graph.Capture(r.Stream, graph.CaptureGlobal, func() error {
				_, err := done.Query() // done.Wait would disturb nobody
				return err
			})
			return err
		},
		true,
	},
	{
		"ResultStreamCaptureInvalidated", cu.ResultStreamCaptureInvalidated, "", "",
		func(r *Rig) error {
			_, err := graph.Capture(r.Stream, graph.CaptureRelaxed, func() error {
				r.Stream.Synchronize() // and its error is dropped
				return nil
			})
			return err
		},
		true,
	},
	{
		"ResultStreamCaptureMerge", cu.ResultStreamCaptureMerge, "", "",
		func(r *Rig) error {
			other, _ := r.GPU.NewStream(cu.StreamNonBlocking)
			defer other.Close()
			var err error
			graph.Capture(r.Stream, graph.CaptureRelaxed, func() error {
				graph.Capture(other, graph.CaptureRelaxed, func() error {
					err = other.WaitStream(r.Stream)
					return err
				})
				return err
			})
			return err
		},
		true,
	},
	{
		"ResultMapFailed", cu.ResultMapFailed, "", "",
		func(r *Rig) error {
			h := cu.IPCEventHandle{1} // nobody's
			_, err := r.GPU.OpenIPCEvent(h)
			return err
		},
		false,
	},
	{
		"ResultStreamCaptureUnjoined", cu.ResultStreamCaptureUnjoined, "", "",
		func(r *Rig) error {
			fork, _ := r.GPU.NewStream(cu.StreamNonBlocking)
			defer fork.Close()
			x, _ := r.GPU.Alloc(1024)
			defer x.Close()
			_, err := graph.Capture(r.Stream, graph.CaptureGlobal, func() error {
				fork.WaitStream(r.Stream)
				return fork.Memset(x, 0) // s.WaitStream(fork) is missing
			})
			return err
		},
		true,
	},
	{
		"ResultStreamCaptureIsolation", cu.ResultStreamCaptureIsolation, "", "",
		func(r *Rig) error {
			before, _ := r.GPU.NewEvent(cu.EventDefault)
			defer before.Close()
			before.Record(r.Stream)
			_, err := graph.Capture(r.Stream, graph.CaptureGlobal, func() error {
				return r.Stream.WaitEvent(before)
			})
			return err
		},
		true,
	},
	{
		"ResultStreamCaptureImplicit", cu.ResultStreamCaptureImplicit, "", "",
		func(r *Rig) error {
			blocking, _ := r.GPU.NewStream(cu.StreamDefault)
			defer blocking.Close()
			legacy, _ := r.GPU.LegacyStream()
			defer legacy.Close()
			e, _ := r.GPU.NewEvent(cu.EventDefault)
			defer e.Close()
			_, err := graph.Capture(blocking, graph.CaptureGlobal, func() error {
				return e.Record(legacy)
			})
			return err
		},
		true,
	},
	{
		"ResultCapturedEvent", cu.ResultCapturedEvent, "", "",
		func(r *Rig) error {
			e, _ := r.GPU.NewEvent(cu.EventDefault)
			defer e.Close()
			_, err := graph.Capture(r.Stream, graph.CaptureRelaxed, func() error {
				e.Record(r.Stream)
				_, err := e.Query()
				return err
			})
			return err
		},
		true,
	},
	{
		"ResultGraphExecUpdateFailure", cu.ResultGraphExecUpdateFailure, "", "",
		func(r *Rig) error {
			old, _ := graph.New(r.GPU)
			defer old.Close()
			exec, _ := old.Instantiate()
			defer exec.Close()
			next, _ := graph.New(r.GPU)
			defer next.Close()
			next.Add(&graph.Empty{})
			return exec.Update(next)
		},
		true,
	},
}

// triggerTexts returns the source of the triggers' bodies, in order.
func triggerTexts(t *testing.T) []string {
	fset := token.NewFileSet()
	const file = "errordocs_test.go"
	src, err := os.ReadFile(file)
	if err != nil {
		t.Skipf("the source is not here: %v", err)
	}
	f, err := parser.ParseFile(fset, file, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "sections" {
			return true
		}
		ast.Inspect(spec, func(n ast.Node) bool {
			if lit, ok := n.(*ast.FuncLit); ok {
				body := string(src[fset.Position(lit.Body.Lbrace).Offset+1 : fset.Position(lit.Body.Rbrace).Offset])
				body = strings.ReplaceAll(strings.Trim(body, "\n\t"), "\n\t\t\t", "\n")
				// As a program would write it.
				for from, to := range map[string]string{"r.GPU": "gpu", "r.Driver": "drv", "r.Stream": "s", "cu.WithLibrary(r.Path)": ""} {
					body = strings.ReplaceAll(body, from, to)
				}
				body = fakery.ReplaceAllString(body, "// $1")
				texts = append(texts, body)
				return false
			}
			return true
		})
		return false
	})
	return texts
}

var (
	fakery  = regexp.MustCompile(`r\.Tell\(.*\) // (.*)`)
	address = regexp.MustCompile(`0x[0-9a-f]{8,}`)
)

// TestErrorDocsComplete looks for mistakes that have no section.
func TestErrorDocsComplete(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Skipf("the source is not here: %v", err)
	}
	n := 0
	ast.Inspect(f, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Err") {
			n++
			if !slices.ContainsFunc(sections, func(s section) bool { return s.name == spec.Names[0].Name }) {
				t.Errorf("%s has no section", spec.Names[0].Name)
			}
		}
		return true
	})
	if n < 10 {
		t.Errorf("errors.go declares %d mistakes", n)
	}
}

// TestErrorDocs runs every trigger, and compares docs/errors.md with what comes
// of it. With -update it writes the page.
func TestErrorDocs(t *testing.T) {
	texts := triggerTexts(t)
	messages := map[string]string{}
	for _, s := range sections {
		t.Run(s.name, func(t *testing.T) {
			rig := NewRig
			if s.soft {
				rig = NewSoftRig
			}
			r := rig(t)
			t.Setenv("EVENT", ForeignHandle().String()) // what some triggers ask for
			err := s.trigger(r)
			if !errors.Is(err, s.is) {
				t.Fatalf("the trigger's error is %v", err)
			}
			text := address.ReplaceAllString(err.Error(), "0x…")
			anchor := strings.ToLower(s.name)
			if res, ok := s.is.(cu.Result); ok {
				anchor = strings.ToLower(res.Name())
			}
			// A single file that was built does not have the page: its place is not in the message, but the remedy is.
			e := documented(err, "docs/errors.md#"+anchor)
			if e == nil || strings.Contains(text, "docs/") {
				t.Errorf("Doc does not name the section %s, or the message does: %s", anchor, text)
			} else if e.Detail == "" && !remedied(e.Err) {
				t.Errorf("the message does not say what to do: %s", text)
			}
			if r.Path != "" {
				text = strings.ReplaceAll(text, r.Path, "libcuda.so.1")
			}
			if pe := (*fs.PathError)(nil); errors.As(err, &pe) && errors.Is(pe, fs.ErrNotExist) { // systems have words of their own
				text = strings.ReplaceAll(text, pe.Err.Error(), "no such file or directory")
			}
			if runtime.GOOS == "windows" { // which has no device files
				text = strings.Replace(text, "nvidia-smi lists one, and", "nvidia-smi lists one, that this process may open /dev/nvidia*, and", 1)
			}
			messages[s.name] = text
		})
	}
	if t.Failed() || len(messages) < len(sections) { // where there is no fake driver
		return
	}

	var b strings.Builder
	b.WriteString(`# Errors

<!-- Written by "go test ./cu -run ErrorDocs -update", which runs every example. -->

Every error of package cu is a ` + "`*cu.Error`" + `: it names the C function, the handle, what is wrong and what to do. Its method ` + "`Doc`" + ` names its section on this page.
To recognize an error, ask with ` + "`errors.Is`" + ` for a mistake (` + "`cu.ErrClosed`" + `) or for the driver's code (` + "`cu.ResultOutOfMemory`" + `). A mistake that is found before the driver is asked also
matches the code that the driver would have returned. Work that is not done yet is no error: it is ` + "`cu.Pending`" + `.

In the examples ` + "`drv`, `gpu` and `s`" + ` are an open driver, a device's primary context and a stream. Errors that do not matter are ignored.

# Mistakes
`)
	write := func(i int) {
		fmt.Fprintf(&b, "\n```go\n%s\n```\n\n```text\n%s\n```\n", texts[i], messages[sections[i].name])
	}
	for i, s := range sections {
		if s.meaning == "" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n**What to do.** %s\n", s.name, s.meaning, s.remedy)
		write(i)
	}
	b.WriteString("\n# The driver's results\n\n" +
		"Where there is no example, only the driver, the GPU or other code can cause the error. " +
		"The software driver returns many of these results only where it was told to: " +
		"see `cusim.Faults` and `cusim.Driver.LoseDevice`.\n")
	for _, code := range resultCodes(t) {
		r := cu.Result(code)
		if cu.Remedy(r) == "" {
			t.Errorf("%s has no remedy", r.Name())
		}
		sticky := ""
		if r.Sticky() {
			sticky = " It poisons the context: see [ErrContextPoisoned](#errcontextpoisoned)."
		}
		text := strings.TrimRight(r.Text(), ".")
		fmt.Fprintf(&b, "\n## %s\n\n%d, `cu.%s`: %s.%s\n\n**What to do.** %s.\n", r.Name(), code, goName(t, code), text, sticky, cu.Remedy(r))
		b.WriteString(remediesOfCalls(t, code))
		if i := slices.IndexFunc(sections, func(s section) bool { return s.is == error(r) }); i >= 0 {
			write(i)
		}
	}

	page := filepath.Join("..", "docs", "errors.md")
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(have)); diff != "" {
		t.Errorf("docs/errors.md is not up to date: go test ./cu -run ErrorDocs -update (-want +got):\n%s", diff)
	}
}

// remediesOfCalls returns the remedies for a result that only some functions have, or only the software driver, as
// lists.
func remediesOfCalls(t *testing.T, code int) string {
	table, err := os.ReadFile(filepath.Join("..", "internal", "remedy", "remedies.txt"))
	if err != nil {
		t.Skipf("the source is not here: %v", err)
	}
	var calls, software strings.Builder
	item := func(b *strings.Builder, functions, text string) { fmt.Fprintf(b, "- %s: %s.\n", functions, text) }
	groups := map[string]string{}
	for line := range strings.Lines(string(table)) {
		head, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if name, members, isGroup := strings.Cut(head, " = "); isGroup {
			groups[name] = members
			continue
		}
		results, functions, some := strings.Cut(head, "/")
		results, simulated := strings.CutPrefix(results, "software ")
		if !slices.Contains(strings.Fields(results), strconv.Itoa(code)) {
			continue
		}
		var names []string
		for f := range strings.FieldsSeq(functions) {
			for name := range strings.FieldsSeq(stdcmp.Or(groups[f], f)) {
				names = append(names, "`"+name+"`")
			}
		}
		switch of := strings.Join(names, ", "); {
		case simulated && !strings.Contains(text, "told to"): // the page says this once
			item(&software, stdcmp.Or(of, "all functions"), text)
		case some && !simulated:
			item(&calls, of, text)
		}
	}
	if _, meaning := initresult.Of(int32(code)); meaning != "" {
		item(&calls, "`cuInit`", meaning)
	}
	if text := initresult.OfSoftware(int32(code)); !strings.HasPrefix(text, initresult.OfSoftware(0)) { // not for any result
		item(&software, "`cuInit`", text)
	}
	text := ""
	for _, list := range []struct{ title, items string }{
		{"The messages of these functions say something else:", calls.String()},
		{"The messages of the software driver say something else:", software.String()},
	} {
		if list.items != "" {
			text += "\n" + list.title + "\n\n" + list.items
		}
	}
	return text
}

// documented returns the error in the tree of err that is explained there.
func documented(err error, doc string) *cu.Error {
	if e, ok := err.(*cu.Error); ok && e.Doc() == doc {
		return e
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return documented(u.Unwrap(), doc)
	case interface{ Unwrap() []error }:
		for _, err := range u.Unwrap() {
			if e := documented(err, doc); e != nil {
				return e
			}
		}
	}
	return nil
}

// resultConstants maps the results' codes to their names in Go.
func resultConstants(t *testing.T) map[int]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "driver", "zresult.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[int]string{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			value, ok := spec.Values[0].(*ast.BasicLit)
			if !ok { // the table of texts
				continue
			}
			code, err := strconv.Atoi(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			names[code] = spec.Names[0].Name
		}
	}
	return names
}

func resultCodes(t *testing.T) []int {
	var codes []int
	for code := range resultConstants(t) {
		if code != 0 {
			codes = append(codes, code)
		}
	}
	slices.Sort(codes)
	return codes
}

func goName(t *testing.T, code int) string { return resultConstants(t)[code] }

// remedied reports whether err wraps an error of the package that says what to do.
func remedied(err error) bool {
	if e, ok := err.(*cu.Error); ok && e.Detail != "" {
		return true
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return remedied(u.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(u.Unwrap(), remedied)
	}
	return false
}
