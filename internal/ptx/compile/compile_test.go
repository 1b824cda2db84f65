package compile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKnownFiles translates the PTX files of this module.
func TestKnownFiles(t *testing.T) {
	n := 0
	err := filepath.WalkDir("../../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".ptx" {
			return err
		}
		n++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m, err := Parse(string(text))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		for name := range m.kernels {
			if _, err := m.Kernel(name); err != nil {
				t.Errorf("%s: kernel %s: %v", path, name, err)
			}
		}
		return nil
	})
	if err != nil || n < 10 {
		t.Errorf("%d files, %v", n, err)
	}
}

// TestUnsupported translates kernels that cannot be executed.
func TestUnsupported(t *testing.T) {
	for body, want := range map[string]string{
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {a}, {a}, {a}, {a};": "line 3: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32: a list of 1 registers",
		"tcgen05.fence::before_thread_sync;":                                    "line 3: tcgen05.fence::before_thread_sync",
		"add.u32 a, a, x;":                                                      "line 3: add.u32: register x has type b64",
		"add.u32 a, a;":                                                         "line 3: add.u32: 2 operands",
		"add.u32 5, a, a;":                                                      "line 3: add.u32: result  is no register",
		"setp.eq.u32 0, a, a;":                                                  "line 3: setp.eq.u32: a result is no predicate",
		"add.u32 a, b, c;":                                                      "line 3: add.u32: b is not declared",
		"add.f32 a, a, 1;":                                                      "line 3: add.f32: an integer as a constant of type f32",
		"add.u32 a, a, 1.0;":                                                    "line 3: add.u32: a float as a constant of type u32",
		"mov.u32 a, %pm8;":                                                      "line 3: mov.u32: special register %pm8",
		"ld.global.u32 a, [a];":                                                 "line 3: ld.global.u32: an address of 32 bits",
		"ld.shared.u32 a, [g];":                                                 "line 3: ld.shared.u32: variable g is in .global",
		"ld.global.v2.u32 a, [x];":                                              "line 3: ld.global.v2.u32: the form of a vector",
		"@a ret;":                                                               "line 3: ret: operand a is no predicate",
		"bra nowhere;":                                                          "line 3: bra: nowhere is no label",
		"call x, (a);":                                                          "line 3: call: the form of an argument",
		"call a, (a);":                                                          "line 3: call: of a function that is not named",
		"call external;":                                                        "line 3: call: of function external",
		".extern .global .u32 own;":                                             "line 3: the declaration of own (.global .u32)",
		".reg .v2 .pred w;":                                                     "line 3: the declaration of w (.reg .pred)",
		".reg .v8 .b32 w;":                                                      "line 3: the declaration of w (.reg .b32)",
		".reg .v8 .b8 w;":                                                       "line 3: the declaration of w (.reg .b8)",
		"tex.cube.v4.f32.f32 {a, a, a, a}, [x, {a, a, a, a}];": "line 3: tex.cube.v4.f32.f32",
		"tex.1d.v4.f32.s32 {a, a, a, a}, [a, {a}];":            "line 3: tex.1d.v4.f32.s32: a is no handle of 64 bits",
		"tex.1d.v4.f32.s32 {a, a, a, a}, [g, {a}];":            "line 3: tex.1d.v4.f32.s32: g is no handle of 64 bits",
		"tex.2d.v4.f32.s32 {a, a, a, a}, [x, {a}];":            "line 3: tex.2d.v4.f32.s32: the number of coordinates",
		"suld.b.1d.b32.trap a, [x+4, {a}];": "line 3: suld.b.1d.b32.trap: the form of a texture or surface, and its " +
			"coordinates",
		"suld.b.1d.v4.b64.trap {x,x,x,x}, [x, {a}];": "line 3: suld.b.1d.v4.b64.trap",
		"ld.global.b32 a, [x, {a}];":                 "line 3: ld.global.b32: the form of an address",
		".reg .v2 .b32 w; add.u32 a, w, a;":          "line 3: add.u32: the form of an operand",
		".reg .b32 L; L:":                            "line 3: L is declared twice",
		"L: L:":                                      "line 2: label L is there twice",
		".reg .b128 w; mov.b64 x, w;":                "line 3: mov.b64: register w has type b128",
		".reg .b128 w; mov.b64 x, w.x;":              "line 3: mov.b64: w.x is not declared",
		".reg .b128 w; add.u64 x, w, x;":             "line 3: add.u64: register w has type b128",
		".reg .b128 w; ld.global.v2.b64 w, [x];":     "line 3: ld.global.v2.b64: register w has type b128",
		".reg .b128 w; mov.b128 w, x;":               "line 3: mov.b128: the form of an operand",
		".reg .b128 w; mov.b128 w, {x, x, x};":       "line 3: mov.b128: the form of an operand",
		".reg .b128 w; mov.b128 w, {a, a};":          "line 3: mov.b128: register a has type b32",
		"mov.b128 {x, x}, {x, x};":                   "line 3: mov.b128: from a vector to a vector",
		"ld.global.b128 {x, x}, [x];":                "line 3: ld.global.b128: an operand that is no register of 128 bits",
		"ld.global.b128 _, [x];":                     "line 3: ld.global.b128: an operand that is no register of 128 bits",
		".reg .v2 .b128 w;":                          "line 3: the declaration of w (.reg .b128)",
		".reg .b128 w; mov.b128 w, w+8;":             "line 3: mov.b128: the form of an operand",
		"call (_), pair;":                            "line 3: call: the parameters of function pair",
		".local .b8 large[2000000];":                 "line 2: the kernel needs too much memory",
		"mov.u32 a, %id.x;":                          "",
		"mov.u32 a, %id.w;":                          "",
		"mov.u32 a, %id.r;":                          "",
		"st.param.b32 [p], a;":                       "line 3: st.param.b32: to a parameter of a kernel",
	} {
		m, err := Parse(textHeader + ".global .u32 g, array[2]; " +
			".extern .func external(); .func again() { call again; ret; } " +
			".func (.reg .v2 .b128 r) pair() { .reg .b64 l; mov.v4.b64 r, {l, l, l, l}; ret; } " +
			".entry k(.param .u64 p) { .reg .b32 a; .reg .b64 x; .reg .pred q;\n" + body + "\nret; }")
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		_, err = m.Kernel("k")
		if err == nil {
			t.Errorf("%s: no error", body)
		} else if want != "" && err.Error() != want {
			t.Errorf("%s: %v\n\twant %s", body, err, want)
		}
	}
	if m, err := Parse(textHeader + ".entry k() { ret; }"); err != nil {
		t.Error(err)
	} else if _, err := m.Kernel("other"); err == nil || !strings.Contains(err.Error(), "no kernel") {
		t.Errorf("another kernel: %v", err)
	}
}

// TestShared translates kernels with variables in shared memory, of which a block may have 227 KiB.
func TestShared(t *testing.T) {
	for body, fits := range map[string]bool{
		".shared .b8 v[232448]; mov.u32 a, v;":                     true,
		".shared .b8 v[232449]; mov.u32 a, v;":                     false,
		".shared .b8 v[232441]; mov.u32 a, v; mov.u32 a, module;":  false, // it is aligned
		".shared .b8 v[232440]; mov.u32 a, v; mov.u32 a, module;":  true,
		".shared .b8 v[230000]; mov.u32 a, v; call f;":             false,
		".shared .b8 v[230000]; mov.u32 a, v; mov.u32 a, dynamic;": true,
		".shared .b8 v[4294967296]; mov.u32 a, v; ":                false,
	} {
		m, err := Parse(textHeader + ".shared .b64 module; .extern .shared .b8 dynamic[]; .func f() { .reg .b32 a; " +
			".shared .b8 own[10000]; mov.u32 a, own; ret; }\n.entry k() { .reg .b32 a; " + body + " ret; }")
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if _, err := m.Kernel("k"); (err == nil) != fits ||
			err != nil && !strings.Contains(err.Error(), "line 3: too much shared data") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// FuzzKernel looks for texts on which the translation fails.
func FuzzKernel(f *testing.F) {
	files, _ := filepath.Glob("../../sim/testdata/ptx/*.ptx")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(".entry k(){.reg .b32 A;A:}")
	f.Add(textHeader + ".entry k() { .reg .b32 r<9>; .reg .pred p; t: .branchtargets A, A; A: setp.eq.s32 p|_, r1, 5; @p brx.idx r1, t; " +
		"mov.b32 {r1, r2}, r3; vote.sync.ballot.b32 r1, !p, -1; bar.red.popc.u32 r1, 0, p; mad.lo.cc.u32 r1, r2, r3, 4; }")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		for name := range m.kernels {
			k, err := m.Kernel(name)
			if (k == nil) != (err != nil) {
				t.Errorf("%v, %v", k, err)
			}
			if k == nil {
				continue
			}
			for i, o := range k.Code {
				for _, c := range []int32{o.D, o.A, o.B, o.C, o.E} {
					if int(c) >= max(k.Columns, k.Predicates+1) {
						t.Fatalf("instruction %d refers to column %d of %d", i, c, k.Columns)
					}
				}
				if o.Target < 0 || int(o.Target) >= len(k.Code) {
					t.Fatalf("instruction %d jumps to %d", i, o.Target)
				}
			}
		}
	})
}
