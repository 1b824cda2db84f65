package cu_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	. "github.com/purecu/purecu/internal/testrig"
)

func TestModuleLog(t *testing.T) {
	r := newRig(t)
	m := Need(r.gpu.LoadModule([]byte("fake"), JITMaxRegisters(32), JITOptimizationLevel(3), JITLineInfo(), JITOption{}, JITVerbose()))(t)
	defer m.Close()
	if log := m.Log(); log != "info: 0 bytes gmem" {
		t.Errorf("Log = %q", log)
	}
	if n := r.ask("fake_options"); n != 32+3+1+1 {
		t.Errorf("the options add up to %d", n)
	}
	_, err := r.gpu.LoadModule([]byte(".entyr oops"))
	const want = "cu: cuModuleLoadDataEx(context H): CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed; the compiler says:\n" +
		"\tline 1; fatal: Parsing error near '.entyr o': syntax error\n\tsecond line; "
	if !errors.Is(err, ResultInvalidPTX) || !strings.HasPrefix(r.plain(err), want) {
		t.Errorf("got %v", err)
	}
	if m.Handle() == 0 {
		t.Error("no handle")
	}
	r.ok(m.Close())
	if m.Handle() != 0 {
		t.Error("a closed module has a handle")
	}
}

func TestModuleFile(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "kernels.ptx")
	if _, err := r.gpu.LoadModuleFile(path); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ResultFileNotFound) || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	r.ok(os.WriteFile(path, []byte("nonsense"), 0o600))
	if _, err := r.gpu.LoadModuleFile(path); !errors.Is(err, ResultInvalidPTX) || !strings.Contains(err.Error(), path) {
		t.Errorf("a bad file: %v", err)
	}
	r.ok(os.WriteFile(path, []byte("fake"), 0o600))
	r.ok(Need(r.gpu.LoadModuleFile(path))(t).Close())
}

func TestFunctionFacts(t *testing.T) {
	r := newRig(t)
	m := r.module(r.gpu)
	fn := Need(m.Function("axpy"))(t)
	if fn.Name() != "axpy" || fn.Handle() == 0 {
		t.Errorf("Name = %q, Handle = %d", fn.Name(), fn.Handle())
	}
	if sizes, known := fn.Params(); !known || cmp.Diff([]uint64{8, 4, 8}, sizes) != "" {
		t.Errorf("Params = %v, %v", sizes, known)
	}
	if n := Need(fn.Attribute(FunctionAttributeMaxThreadsPerBlock))(t); n != 1024 {
		t.Errorf("Attribute = %d", n)
	}
	r.ok(fn.SetAttribute(FunctionAttributeMaxDynamicSharedSizeBytes, 1<<16))
	if err := fn.SetAttribute(FunctionAttributeNumRegs, 1); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an attribute that cannot be set: %v", err)
	}
	if n := Need(fn.MaxActiveBlocks(256, 0))(t); n != 8 {
		t.Errorf("MaxActiveBlocks = %d", n)
	}
	if blocks, threads, err := fn.SuggestBlockSize(0, 512); blocks != 264 || threads != 512 || err != nil {
		t.Errorf("SuggestBlockSize = %d, %d, %v", blocks, threads, err)
	}
	for name, err := range map[string]error{
		"attribute":  fn.SetAttribute(0, 1<<40),
		"threads":    func() error { _, err := fn.MaxActiveBlocks(0, 0); return err }(),
		"threads 64": func() error { _, err := fn.MaxActiveBlocks(1<<40, 0); return err }(),
		"limit":      func() error { _, _, err := fn.SuggestBlockSize(0, -1); return err }(),
	} {
		if !errors.Is(err, ResultInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	noop := Need(m.Function("noop"))(t)
	r.ok(noop.Launch(r.s, LaunchConfig{Grid: Dim3{X: 264}, Block: Dim3{X: 1}, Flags: LaunchCooperative}))
	err := noop.Launch(r.s, LaunchConfig{Grid: Dim3{X: 265}, Block: Dim3{X: 1}, Flags: LaunchCooperative})
	if !errors.Is(err, ResultCooperativeLaunchTooLarge) || !strings.Contains(err.Error(), "MaxActiveBlocks") || r.calls("cuLaunchCooperativeKernel") != 2 {
		t.Errorf("a grid that is too large: %v", err)
	}
	if err := noop.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}, Flags: 2}); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("unknown flags: %v", err)
	}
	r.ok(m.Close())
	if _, err := fn.Attribute(0); !errors.Is(err, ErrClosed) || fn.Handle() != 0 {
		t.Errorf("a closed module's kernel: %v", err)
	}
}

// axpyPTX declares the kernels of the fake driver, the way compilers do, and the
// way people might.
const axpyPTX = `
// .entry commented ( .param .u64 x )
.version 7.0 .target sm_70
.address_size 64
.visible .entry noop() { ret; }
.visible .entry axpy(
	.param .u64 axpy_param_0, /* .param .u8 no, */
	.param .f32 axpy_param_1,
	.param .u64 .ptr .global .align 8 axpy_param_2
)
.maxntid 1, 1, 1
{ ret; }
.weak .entry wide(.param .align 8 .b8 wide_param_0[24]){ret;}
.entry spin { ret; }
.func (.param .b32 r) helper(.param .b64 x) { ret; }
.file 1 "a .entry file(.param .u32 x)"
`

// TestParamsFromPTX launches with a driver that cannot tell a kernel's
// parameters.
func TestParamsFromPTX(t *testing.T) {
	r := newRig(t)
	r.tell("fake_version", 12030)
	drv := r.open()
	gpu := r.context(drv, 0)
	m := Need(gpu.LoadModule([]byte(axpyPTX)))(t)
	defer m.Close()
	axpy := Need(m.Function("axpy"))(t)
	if sizes, known := axpy.Params(); !known || cmp.Diff([]uint64{8, 4, 8}, sizes) != "" {
		t.Fatalf("Params = %v, %v", sizes, known)
	}
	s, one := r.stream(gpu), LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	if err := axpy.Launch(s, one, U64(1)); !errors.Is(err, ResultInvalidValue) || r.calls("cuLaunchKernel") != 0 {
		t.Errorf("too few arguments: %v", err)
	}
	// Of other images nothing is known.
	if _, known := Need(r.module(gpu).Function("axpy"))(t).Params(); known {
		t.Error("parameters of a kernel that is nowhere declared")
	}
}
