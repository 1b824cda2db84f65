package remedy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/initresult"
)

// functions returns the names of all functions of the driver API.
func functions() []string {
	names := map[string]bool{}
	for s := range driver.Symbol(driver.NumSymbols) {
		base, _, _ := strings.Cut(s.Info().Base, "_")
		names[base] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// results returns all results that have a name.
func results() (all []driver.Result) {
	for r := driver.Result(1); r < 1000; r++ {
		if r.Name() != "" {
			all = append(all, r)
		}
	}
	return all
}

// row is a line of the table with a remedy.
type row struct{ results, functions, text string }

// rows returns the remedies and the groups.
func rows(t *testing.T) (all []row, groups map[string]string) {
	t.Helper()
	groups = map[string]string{}
	for line := range strings.Lines(table) {
		head, text, isRow := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		name, members, isGroup := strings.Cut(head, " = ")
		if isRow == isGroup {
			t.Errorf("%q is neither a group nor a remedy", line)
		}
		if isGroup {
			groups[name] = members
			continue
		}
		results, functions, _ := strings.Cut(head, "/")
		all = append(all, row{results, functions, text})
	}
	return all, groups
}

// returned returns the results that each function is documented to return, or was recorded to return on a
// GPU, and for the others those that most functions return.
func returned(t *testing.T) map[string]map[driver.Result]bool {
	t.Helper()
	of := map[string]map[driver.Result]bool{}
	add := func(op, code string) {
		n, err := strconv.Atoi(code)
		if err != nil {
			t.Fatal(err)
		}
		op, _, _ = strings.Cut(op, "_")
		if of[op] == nil {
			of[op] = map[driver.Result]bool{}
		}
		if n != 0 {
			of[op][driver.Result(n)] = true
		}
	}
	read := func(file string, line func(fields []string)) {
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			t.Skipf("the source is not here: %v", err)
		}
		for l := range strings.Lines(string(text)) {
			if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
				line(strings.Split(l, "\t"))
			}
		}
	}
	read("testdata/documented.tsv", func(f []string) {
		for code := range strings.FieldsSeq(f[1]) {
			add(f[0], code)
		}
	})
	patterns, code := map[string]string{}, regexp.MustCompile(`^\d+`)
	read("../../tests/entries/testdata/h200-cuda13.0.tsv", func(f []string) {
		switch {
		case len(f) == 2:
			patterns[f[0]] = f[1]
		case len(f) > 2:
			for view := range strings.SplitSeq(patterns[f[2]], "|") {
				if c := code.FindString(strings.TrimSpace(view)); c != "" {
					add(strings.TrimSuffix(strings.Fields(f[1])[0], ","), c)
				}
			}
		}
	})
	if len(of) < 400 {
		t.Fatalf("the results of %d functions are known", len(of))
	}
	for _, op := range functions() {
		if of[op] == nil {
			for _, code := range []string{"1", "2", "3", "4", "201", "400", "709", "801", "900", "999"} {
				add(op, code)
			}
		}
	}
	return of
}

// TestTable checks that each line is well formed and can be found, and that its functions exist.
func TestTable(t *testing.T) {
	all, groups := rows(t)
	ops := append(functions(), "")
	used := map[string]bool{}
	check := func(list string) {
		for f := range strings.FieldsSeq(list) {
			if _, isGroup := groups[f]; isGroup {
				used[f] = true
			} else if !slices.ContainsFunc(ops, func(op string) bool { return among(f, op, "") }) {
				t.Errorf("there is no function %s", f)
			}
		}
	}
	for _, members := range groups {
		check(members)
	}
	for _, r := range all {
		if r.text == "" || strings.HasSuffix(r.text, ".") || r.text != strings.TrimSpace(r.text) {
			t.Errorf("%q is no clause that a message can end with", r.text)
		}
		check(r.functions)
		for f := range strings.FieldsSeq(strings.TrimPrefix(r.results, softwareMark)) {
			codes := results()
			if n, err := strconv.Atoi(f); err == nil {
				codes = []driver.Result{driver.Result(n)}
				if codes[0].Name() == "" {
					t.Errorf("there is no result %s", f)
				}
			}
			if !slices.ContainsFunc(ops, func(op string) bool {
				return slices.ContainsFunc(codes, func(c driver.Result) bool {
					return find(op, c, strings.HasPrefix(r.results, softwareMark)) == r.text
				})
			}) {
				t.Errorf("result %s, %q: an earlier line hides %q", f, r.functions, r.text)
			}
		}
	}
	for g := range groups {
		if !used[g] {
			t.Errorf("no remedy is for the group %s", g)
		}
	}
}

// subjects are what texts speak of, and the functions whose texts may: the subject is an argument, a
// result or a means of the call.
var subjects = []struct{ text, functions string }{
	{`\bevents?\b`, `Event|StreamBatchMemOp|StreamW\w+Value|Capture|BatchMemOp`},
	{`\bpools?\b|memory\.Pool`, `MemPool|FromPool|MemAllocAsync|Ipc\w*MemHandle|MemExportTo`},
	{`\bkernels?\b|SuggestBlock`, `Launch|Func|Kernel|Param|Occupancy|CtxSynchronize|StreamSynchronize|GraphUpload|Module|Library`},
	{`\bPTX\b|compiler|mangled|\bimage\b`, `Module|Library|Link|Launch|Kernel|CtxCreate`},
	{`\bgraphs?\b|GraphMem|\bnodes?\b`, `Graph|Capture|Node`},
	{`\bpin|AllocHost\b`, `MemHost|AllocHost`},
	{`managed`, `Managed|MemAdvise|MemPrefetch|MemDiscard|MemRange|StreamAttach`},
	{`gpu\.Do`, `^cu(?!Init)`},
	{`cu\.Open`, `^cu(?!Init)`},
	{`\bcontexts?\b`, `^cu(?!Init|DriverGet)`},
	{`\bpeer|CanAccessPeer`, `Peer|P2P|Ipc`},
	{`Reserve\b|addresses`, `Address`},
	{`threads`, `Init|HostFunc|AddCallback|CtxCreate|PrimaryCtxRetain|Launch|Occupancy|GreenCtxCreate`},
	{`stack \(local`, `Launch`},
	{`checkpoint|\bkill`, `Checkpoint`},
	{`another API|graphics`, `Graphics|External|Ipc|GL|EGL|VDPAU|D3D|Array|Tex|Surf`},
}

var expressions sync.Map

// compiled returns a regular expression, which is compiled once.
func compiled(text string) *regexp.Regexp {
	e, known := expressions.Load(text)
	if !known {
		e, _ = expressions.LoadOrStore(text, regexp.MustCompile(text))
	}
	return e.(*regexp.Regexp)
}

// misfit reports which subject of a text does not belong to a function.
func misfit(op, text string) string {
	text = compiled(`NUMA node|system's kernel|kernel's module|kernel modules`).ReplaceAllString(text, "")
	for _, s := range subjects {
		word := compiled(s.text).FindString(text)
		if word == "" {
			continue
		}
		pattern, except := s.functions, ""
		if before, after, found := strings.Cut(pattern, "(?!"); found {
			pattern, except = before, `^cu(`+after
		}
		if !compiled(pattern).MatchString(op) || except != "" && compiled(except).MatchString(op) {
			return word
		}
	}
	return ""
}

// TestComplete checks that there is a remedy for each result of each function, that it speaks of what the
// function is about, and that it sends nobody with a software driver to a GPU.
func TestComplete(t *testing.T) {
	hardware := regexp.MustCompile(`nvidia-|dmesg|Xid|/dev/|drain|reinstall|update the NVIDIA|modules or reboot|compute-sanitizer`)
	for op, codes := range returned(t) {
		for r := range codes {
			for _, software := range []bool{false, true} {
				text := OfCall(op, r, software)
				switch word := misfit(op, text); {
				case text == "":
					t.Errorf("%s has no remedy for %v", op, r)
				case r.Sticky(): // the error is of an earlier kernel
				case word != "":
					t.Errorf("%s, %v: a remedy speaks of %s: %s", op, r, word, text)
				case software && hardware.MatchString(text):
					t.Errorf("%s, %v, of a software driver: %s", op, r, text)
				}
			}
		}
	}
	for _, op := range append(functions(), "") {
		for _, r := range results() {
			if text := OfCall(op, r, true); text == "" || hardware.MatchString(text) {
				t.Errorf("%s, %v, of a software driver: %q", op, r, text)
			}
		}
	}
}

// TestOfSoftware checks the remedies for results that the software driver returns for its own reasons.
func TestOfSoftware(t *testing.T) {
	for _, tt := range []struct {
		op   string
		r    driver.Result
		want string
	}{
		{"cuStreamSynchronize", driver.ResultLaunchTimeout, "cusim.KernelLimit"},
		{"cuStreamSynchronize", driver.ResultLaunchFailed, "cusim.Driver.Misuses"},
		{"cuMemsetD8Async", driver.ResultOutOfMemory, "the machine has too little memory"},
		{"cuMemHostAlloc", driver.ResultOutOfMemory, "ulimit -v"},
		{"cuMemAllocManaged", driver.ResultOutOfMemory, "ulimit -v"},
	} {
		if text := OfCall(tt.op, tt.r, true); !strings.Contains(text, tt.want) {
			t.Errorf("%s, %v: %s", tt.op, tt.r, text)
		}
	}
}

// general has the functions for which no group has texts: what is said to all functions fits.
const general = `cuInit cuDriverGetVersion cuGet* cuFlushGPUDirectRDMAWrites cuProfiler* cuCoredump* cuLogs* cuUserObject*
	cuDeviceGet* cuDeviceComputeCapability cuDeviceTotalMem cuDeviceGraphMemTrim cuDeviceSetGraphMemAttribute
	cuDevicePrimaryCtx* cuDevice*AsyncNotification cuCtxAttach cuCtxDetach cuCtxDestroy cuCtxPopCurrent cuCtxPushCurrent
	cuCtxGet* cuCtxSet* cuCtxResetPersistingL2Cache cuThreadExchangeStreamCaptureMode cuLogicalEndpoint*
	cuMemFree* cuMemHostGet* cuMemGetInfo cuMemGetLocationInfo cuMemGetHandleForAddressRange cuMemBatchDecompressAsync
	cuArray* cuMipmappedArray* cuTex* cuSurf* cuTensorMap* cuPointer* cuModuleEnumerateFunctions
	cuModuleGetFunctionCount cuModuleGetLoadingMode cuModuleUnload cuLibraryEnumerateKernels cuLibraryUnload
	cuEventDestroy cuStreamDestroy cuStreamGet* cuStreamSetAttribute cuStreamCopyAttributes cuStreamIsCapturing
	cuStreamQuery cuStreamSynchronize cuStreamUpdateCaptureDependencies`

// TestGroups checks that somebody has decided which remedies each function gets.
func TestGroups(t *testing.T) {
	all, groups := rows(t)
	known := strings.Fields(general)
	for _, members := range groups {
		known = append(known, members)
	}
	for _, r := range all {
		known = append(known, r.functions)
	}
	ops := functions()
	for _, op := range ops {
		if !slices.ContainsFunc(known, func(list string) bool { return among(list, op, "") }) {
			t.Errorf("remedies.txt does not know %s: add it to a group whose texts fit what it does and takes, or "+
				"write lines for its results; if only the lines for all functions fit, add it to general in "+
				"this file", op)
		}
	}
	for f := range strings.FieldsSeq(general) {
		if !slices.ContainsFunc(ops, func(op string) bool { return among(f, op, "") }) {
			t.Errorf("general: there is no function %s", f)
		}
	}
}

// TestInit asks for the remedies for cuInit, for which the results mean something else.
func TestInit(t *testing.T) {
	for _, r := range append(results(), 12345) {
		text := OfCall("cuInit", r, false)
		if !strings.HasSuffix(text, initresult.Doctor) || misfit("cuInit", text) != "" {
			t.Errorf("%v: %s", r, text)
		}
	}
	for r, want := range map[driver.Result]string{
		driver.ResultOperatingSystem: "seccomp", driver.ResultNotFound: "do not fit each other",
		driver.ResultNotInitialized: "device files", driver.ResultInvalidContext: "not known to return",
		driver.ResultMPSConnectionFailed: "MPS daemon",
	} {
		if text := OfCall("cuInit", r, false); !strings.Contains(text, want) {
			t.Errorf("%v: %s", r, text)
		}
	}
	for r, want := range map[driver.Result]string{
		driver.ResultUnknown: "CUSIM_", driver.ResultInvalidDevice: "CUDA_VISIBLE_DEVICES", driver.ResultStubLibrary: "cusim.Faults",
		driver.ResultSystemDriverMismatch: "NVIDIA's driver returns it when the versions",
	} {
		if text := OfCall("cuInit", r, true); !strings.Contains(text, want) ||
			!strings.HasSuffix(text, initresult.Doctor) {
			t.Errorf("%v, of a software driver: %s", r, text)
		}
	}
}

// TestDistinct checks that results with several reasons have several remedies.
func TestDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, op := range []string{
		"cuInit", "cuMemAlloc", "cuMemHostAlloc", "cuMemAddressReserve", "cuMemCreate", "cuMemAllocManaged",
		"cuMemAllocFromPoolAsync", "cuMemPoolCreate", "cuIpcGetMemHandle", "cuLaunchHostFunc", "cuCtxCreate",
		"cuStreamCreate", "cuEventCreate", "cuModuleLoadDataEx", "cuGraphInstantiateWithFlags", "cuGraphAddKernelNode",
		"cuLaunchKernel", "cuCheckpointProcessRestore", "cuCheckpointProcessCheckpoint", "cuCtxSetLimit",
	} {
		text := OfCall(op, driver.ResultOutOfMemory, false)
		if text == Of(driver.ResultOutOfMemory) || seen[text] != "" {
			t.Errorf("%s has the remedy of others (%s): %s", op, seen[text], text)
		}
		seen[text] = op
	}
	for op, same := range map[string]string{
		"cuMemHostRegister": "cuMemHostAlloc", "cuMemAlloc_v2": "cuMemAlloc", "cuDevicePrimaryCtxRetain": "cuCtxCreate",
		"cuStreamCreateWithPriority": "cuStreamCreate", "cuMemAllocAsync_ptsz": "cuMemAllocFromPoolAsync",
	} {
		if a, b := OfCall(op, driver.ResultOutOfMemory, false), OfCall(same, driver.ResultOutOfMemory, false); a != b {
			t.Errorf("%s: %s, and %s: %s", op, a, same, b)
		}
	}
	if got := Of(driver.ResultSuccess) + Of(12345) + OfCall("cuEventQuery", driver.ResultSuccess, false); got != "" {
		t.Errorf("success, or an unknown code, has a remedy: %s", got)
	}
}

// TestNames checks that the texts name what package cu exports.
func TestNames(t *testing.T) {
	api, err := os.ReadFile(filepath.FromSlash("../../tests/testdata/api.txt"))
	if err != nil {
		t.Skipf("the source is not here: %v", err)
	}
	all, _ := rows(t)
	name := regexp.MustCompile(`\b(?:cusim\.)?[A-Z][a-z]\w+(?:\.[A-Z]\w+)*`)
	// Words at which no name begins, names of CUDA and of systems, and names of fields.
	others := regexp.MustCompile(`^(NVIDIA|GiB|Xid|Windows|Linux|Default|IPC|MaxSize|Location|Shareable|Count|Coscheduled|Backfill)$`)
	for _, r := range all {
		for _, n := range name.FindAllString(r.text, -1) {
			last := n[strings.LastIndexByte(n, '.')+1:]
			if !others.MatchString(n) && !regexp.MustCompile(`\b`+last+`\b`).Match(api) {
				t.Errorf("there is no %s: %s", n, r.text)
			}
			if typ, method, found := strings.Cut(strings.TrimPrefix(n, "cusim."), "."); found &&
				!regexp.MustCompile(`(?m)^pkg cu(sim|/\w+)?, (method \(\*?`+typ+`\) `+method+`\b|type `+typ+` struct, `+method+`\b)`).Match(api) {
				t.Errorf("there is no %s: %s", n, r.text)
			}
		}
	}
}

// TestOfMissing asks for the remedies for functions that a driver lacks.
func TestOfMissing(t *testing.T) {
	for want, m := range map[string]driver.MissingError{
		"check the name": {Driver: 12000},
		"do not use the function, or use NVIDIA's driver": {
			Since: 12050, Driver: 12050, Software: true,
		},
		"use a newer version of the software driver (cusim.Version), or NVIDIA's driver": {
			Since: 12050, Driver: 12000, Software: true,
		},
		"update the NVIDIA driver":    {Since: 12050, Driver: 12000},
		"reinstall the NVIDIA driver": {Since: 12050, Driver: 13000},
	} {
		if got := OfMissing(&m); got != want {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}
