package ptx

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample declares kernels the way compilers do, and the way people might.
const sample = `
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

func TestKernels(t *testing.T) {
	for text, want := range map[string]map[string][]uint64{
		sample:                             {"noop": nil, "axpy": {8, 4, 8}, "wide": {24}, "spin": nil},
		"":                                 {},
		".entry":                           {},
		".entry k":                         {"k": nil},
		".entry k(":                        {},
		".entry k(.pa":                     {},
		".entry k(.param .u32)":            {},
		".entry k(.param .u32 x[2][3])":    {},
		".entry k(.param .u32 x[010])":     {},
		".entry k(.param .v4 .f32 x)":      {},
		".entry k(.param .u32 x y)":        {},
		".entry k(.param .align 0 .u32 x)": {},
		".entry k(.param .u64 .ptr x, .param .u64 .ptr .align 4 y, .param .b8 .align 4 z[8])": {"k": {8, 8, 8}},
		".entry k(.param .u32 %x)":                      {"k": {4}},
		".entry k(.param .u32 x":                        {},
		".entry k(.param .u32 x[])":                     {},
		".entry k(.param .u32 x[-1])":                   {},
		".entry k(.param .u32 x[0])":                    {},
		".entry k(.param .u32 x[99999999999999999999])": {},
		".entry k(.param .u32 x[1048577])":              {},
		".entry k(.param .u32 x[3], .param .f16 y)":     {"k": {12, 2}},
		".entry k(.param .strange x)":                   {},
		".entry k(.reg .u32 x)":                         {},
		".entry k(,)":                                   {},
		".entry k(.param .u32 x,)":                      {"k": {4}},
		".entry a() .entry b(.param .b8 x)":             {"a": nil, "b": {1}},
		".entry a .entry b":                             {"a": nil, "b": nil},
		"/* .entry a() */ .entry b() /* .entry c()":     {"b": nil},
		".entry a(.param .u64 x)\x00.entry b()":         {"a": {8}},
		".entry a/.entry b":                             {"a": nil, "b": nil},
	} {
		got := make(map[string][]uint64)
		for name, params := range Kernels([]byte(text)) {
			got[name] = nil
			for _, p := range params {
				got[name] = append(got[name], p.Size)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// TestKinds finds out what parameters are.
func TestKinds(t *testing.T) {
	for typ, want := range map[string]Kind{
		".u8": Integer, ".s16": Integer, ".u32": Integer, ".s32": Integer, ".u64": Integer, ".s64": Integer,
		".u64 .ptr .global .align 8": Integer, ".f32": Float, ".f64": Float,
		".b8": Bits, ".b32": Bits, ".b64": Bits, ".b128": Bits, ".f16": Bits, ".bf16": Bits, ".f16x2": Bits, ".tf32": Bits,
		".texref": Bits, ".samplerref": Bits, ".surfref": Bits,
	} {
		p := Kernels([]byte(".entry k(.param " + typ + " some)"))["k"]
		if len(p) != 1 || p[0].Kind != want || p[0].Name != "some" || !strings.HasPrefix(typ, p[0].Type) || p[0].Type == "" {
			t.Errorf("%s: %+v, want %d", typ, p, want)
		}
	}
	if p := Kernels([]byte(".entry k(.param .align 4 .f32 some[1])"))["k"]; len(p) != 1 || p[0].Kind != Bits {
		t.Errorf("an array: %+v", p)
	}
}

// FuzzKernels looks for texts on which the search fails, or finds what cannot
// be.
func FuzzKernels(f *testing.F) {
	for _, text := range []string{sample, ".entry k(.param .u32 x[3])", ".entry k(", "/*", `"`, "//", ".entry .entry ( ) ["} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, params := range Kernels(text) {
			if name == "" {
				t.Error("a kernel without a name")
			}
			for _, p := range params {
				if p.Size == 0 || p.Size > 16<<20 {
					t.Errorf("a parameter of %d bytes", p.Size)
				}
			}
		}
	})
}
