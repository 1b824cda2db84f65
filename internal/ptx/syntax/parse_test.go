package syntax

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const header = ".version 8.7\n.target sm_90a, debug\n.address_size 64\n"

// show writes a body in one form.
func show(list []Statement) string {
	var b strings.Builder
	for _, s := range list {
		switch {
		case s.Label != "":
			fmt.Fprintf(&b, "%s: ", s.Label)
		case s.Var != nil:
			fmt.Fprintf(&b, "%s %s %s*%d*%d<%d> align %d extern %v; ", s.Var.Space, s.Var.Type, s.Var.Name,
				s.Var.Vector, s.Var.Count,
				s.Var.Range, s.Var.Align, s.Var.Extern)
		case s.Table != nil:
			fmt.Fprintf(&b, "%s %s %q; ", s.Table.Name, s.Table.Kind, s.Table.Names)
		case s.Block != nil:
			fmt.Fprintf(&b, "{ %s} ", show(s.Block))
		default:
			if s.Inst.Guard != "" {
				fmt.Fprintf(&b, "@%v%s ", s.Inst.Negated, s.Inst.Guard)
			}
			b.WriteString(s.Inst.Op)
			for _, o := range s.Inst.Operands {
				b.WriteString(" " + showOperand(o))
			}
			b.WriteString("; ")
		}
	}
	return b.String()
}

func showOperand(o Operand) string {
	text := ""
	if o.Negated {
		text = "!"
	}
	var parts []string
	for _, p := range o.Parts {
		parts = append(parts, showOperand(p))
	}
	switch o.Kind {
	case Literal:
		return fmt.Sprintf("%s%d:%x", text, o.Number.Kind, o.Number.Bits)
	case Name:
		text += o.Name
		if o.Number.Bits != 0 {
			text += fmt.Sprintf("+%d", int64(o.Number.Bits))
		}
		return text
	case Address:
		address := fmt.Sprintf("%s+%d", o.Name, int64(o.Number.Bits))
		return fmt.Sprintf("[%s]", strings.Join(append([]string{address}, parts...), ","))
	case Element:
		return fmt.Sprintf("%s[%d]", o.Name, int64(o.Number.Bits))
	case Vector:
		return "{" + strings.Join(parts, ",") + "}"
	case List:
		return "(" + strings.Join(parts, ",") + ")"
	}
	return strings.Join(parts, "|")
}

func TestBodies(t *testing.T) {
	for text, want := range map[string]string{
		"ret;":                           "ret; ",
		"@%p bra L; @!%p1 exit; L: ret;": "@false%p bra L; @true%p1 exit; L: ret; ",
		"add.s32 %r1, %r2, -5;":          "add.s32 %r1 %r2 0:fffffffffffffffb; ",
		"ld.global.nc.L1::no_allocate.v4.f32 {%f1,%f2,_,%f4}, [%rd1+-16];": "ld.global.nc.L1::no_allocate.v4.f32 {%f1,%f2,_,%f4} [%rd1+-16]; ",
		"mov.u64 %rd1, table+4*2;": "mov.u64 %rd1 table+8; ",
		"tex.2d.v4.f32.f32 {a,b,c,d}, [t, {x,y}]; suld.b.1d.b32 {a}, [s+8, x];": "" +
			"tex.2d.v4.f32.f32 {a,b,c,d} [t+0,{x,y}]; suld.b.1d.b32 {a} [s+8,x]; ",
		"mov.u64 %rd1, table[4*2];":                                 "mov.u64 %rd1 table[8]; ",
		"st.shared.u32 [4], %r1;":                                   "st.shared.u32 [+4] %r1; ",
		"mov.f32 f, 0f3F800000; mov.f64 d, 1.5; mov.f32 f, -1e-3;":  "mov.f32 f 2:3f800000; mov.f64 d 3:3ff8000000000000; mov.f32 f 3:bf50624dd2f1a9fc; ",
		"setp.eq.and.s32 %p|%q, a, 0x10U, !%r;":                     "setp.eq.and.s32 %p|%q a 1:10 !%r; ",
		"call (r), f, (a, b); call.uni f; call (r), p, (a), proto;": "call (r) f (a,b); call.uni f; call (r) p (a) proto; ",
		"mov.u32 r, (1+2)*3; mov.u32 r, 1<<4|1; mov.u32 r, 5>3?7:9; mov.u32 r, ~0&0xff; mov.u32 r, -7/2; mov.u32 r, WARP_SZ-1;": "mov.u32 r 0:9; mov.u32 r 0:11; mov.u32 r 0:7; mov.u32 r 0:ff; mov.u32 r 0:fffffffffffffffd; mov.u32 r 0:1f; ",
		"t: .branchtargets A, B; brx.idx r, t; A: B:":          `t .branchtargets ["A" "B"]; brx.idx r t; A: B: `,
		"p: .callprototype (.param .b32 _) _ (.param .b64 _);": `p .callprototype []; `,
		".reg .b32 %r<10>, x; .reg .pred p; { .param .align 8 .b8 q[16]; } .shared .v4 .f32 s[2][3]; .extern .shared .b8 d[];": ".reg b32 %r*1*1<10> align 4 extern false; .reg b32 x*1*1<0> align 4 extern false; " +
			".reg pred p*1*1<0> align 1 extern false; { .param b8 q*1*16<0> align 8 extern false; } .shared f32 s*4*6<0> align 16 extern false; .shared b8 d*1*1<0> align 1 extern true; ",
		".param .u64 %p<2>, q; .shared .align 8 .b32 s<2>;": ".param u64 %p0*1*1<0> align 8 extern false; " +
			".param u64 %p1*1*1<0> align 8 extern false; " +
			".param u64 q*1*1<0> align 8 extern false; .shared b32 s0*1*1<0> align 8 extern false; " +
			".shared b32 s1*1*1<0> align 8 extern false; ",
		".loc 1 2 3\n ret; .pragma \"nounroll\"; // c\n /* x\n */ ret;": "ret; ret; ",
	} {
		m, err := Parse(header + ".entry k() {" + text + "}")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, show(m.Functions[0].Body)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestDeclarations(t *testing.T) {
	m, err := Parse(header + `.file 1 "x.cu"
		.visible .global .align 16 .b8 text[4] = {72, 105, 33};
		.const .f32 pi = 0f40490FDB;
		.global .u64 table[2] = {generic(text)+1, text-2};
		.global .attribute(.managed, .unified(19, 95)) .s32 a = -1, b[] = {1, 2, {3}};
		.func .attribute(.unified(171, 205)) (.param .b32 r) f(.param .b32 x, .reg .u64 y);
		.weak .entry k(.param .u64 .ptr .global .align 8 p, .param .align 4 .b8 s[12]) .maxntid 128, 1, 1 .minnctapersm 2 { ret; }
		.section .debug_info { .b8 1, 2 }` + "\x00 garbage")
	if err != nil {
		t.Fatal(err)
	}
	if m.Version != 87 || m.Target != 90 || len(m.Vars) != 5 || len(m.Functions) != 2 {
		t.Fatalf("got %+v", m)
	}
	table, b, k := m.Vars[2], m.Vars[4], m.Functions[1]
	if v := table.Init; v[0].Symbol != "text" || !v[0].Generic || v[0].Number.Bits != 1 || v[1].Generic ||
		int64(v[1].Number.Bits) != -2 {
		t.Errorf("table is %+v", table)
	}
	if !b.Managed || table.Managed {
		t.Errorf("managed: %v, want b only", []bool{b.Managed, table.Managed})
	}
	if b.Name != "b" || b.Count != 3 || b.Size() != 12 || b.Type != "s32" {
		t.Errorf("b is %+v", b)
	}
	if !k.Kernel || !k.HasBody || m.Functions[0].HasBody || k.Params[1].Size() != 12 || k.Params[1].Align != 4 ||
		k.Params[0].Align != 8 {
		t.Errorf("k is %+v", k)
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"garbage":                        `line 4, column 1: "garbage" begins no declaration`,
		".entry k() {":                   `line 4, column 13: the text ends, and "}" is missing`,
		".entry k() {\n  add.s32 a b;":   `line 5, column 13: "b" stands where "," is expected`,
		".entry k() { add.s32 a, ; }":    `line 4, column 25: ";" stands where a number is expected`,
		".entry k() { mov.u32 a, 1/0; }": "line 4, column 26: a division by zero",
		".entry k() { mov.u32 a, 99999999999999999999; }": `line 4, column 25: "99999999999999999999" stands ` +
			"where a number is expected",
		".entry k() { mov.u64 a, b[1.0]; }": "line 4, column 27: the index of an element is a float",
		".global .u33 x;":                   `line 4, column 9: there is no type ".u33"`,
		".global .u32 x[0];":                "line 4, column 16: a length is out of range",
		".global .u32 x<0>;": `line 4, column 16: "0" stands where a number of registers or variables is ` +
			"expected",
		".entry k() { .param .u32 x<70000>; }": `line 4, column 28: "70000" stands where a number of registers ` +
			"or variables is expected",
		".global .align 3 .u32 x;": "line 4, column 9: an alignment is no power of two",
		"/* open":                  "line 4, column 1: a comment does not end",
		`.file 1 "open`:            "line 4, column 9: a string does not end",
		".entry k() { x" + strings.Repeat("(", 300) + "; }":    "",
		".global .u32 x = " + strings.Repeat("-", 1000) + "1;": "line 4, column 116: the text is nested too deeply",
		".entry k() " + strings.Repeat("{", 300):               "line 4, column 112: the text is nested too deeply",

		".address_size 32": `line 4, column 15: "32" stands where 64 is expected`,
	} {
		_, err := Parse(header + text)
		if err == nil {
			t.Errorf("%.30s: no error", text)
		} else if want != "" && err.Error() != want {
			t.Errorf("%.30s: %v\n\twant %s", text, err, want)
		}
	}
}

func TestBeginnings(t *testing.T) {
	for text, want := range map[string]string{
		"":                                `line 1, column 1: the text ends, and ".version" is missing`,
		".version x":                      `line 1, column 10: "x" stands where a version is expected`,
		".entry k() { ret; }":             `line 1, column 1: ".entry" stands where ".version" is expected`,
		".version 7.0\n.entry k()":        `line 2, column 1: ".entry" stands where ".target" is expected`,
		".version 7.0 .target debug":      "line 1, column 14: the target is no architecture",
		"/*":                              "line 1, column 1: a comment does not end",
		header + ".entry k() .maxntid 0;": "line 4, column 21: the argument of .maxntid is out of range",
		header + ".entry k() .what {}":    `line 4, column 12: ".what" stands where a body is expected`,
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%.30q: %v\n\twant %s", text, err, want)
		}
	}
}

// TestInitial checks which element of a variable each value is.
func TestInitial(t *testing.T) {
	for text, want := range map[string]string{
		".u32 x = 1":                                "1: 0=1",
		".u32 x[3] = {1, 2}":                        "3: 0=1 1=2",
		".u32 x[2][2] = {{1}, {2}}":                 "4: 0=1 2=2",
		".u32 x[2][2] = {1, 2, 3}":                  "4: 0=1 1=2 2=3",
		".u32 x[][3] = {{1}, {2, 3}, 4}":            "9: 0=1 3=2 4=3 6=4",
		".v4 .u32 x = {1, 2, 3, 4}":                 "1: 0=1 1=2 2=3 3=4",
		".v2 .u32 x[] = {{1}, {2, 3}}":              "2: 0=1 2=2 3=3",
		".b8 x[] = {0xFF(y), 0xFF00(generic(z)+2)}": "2: 0=y+0&ff 1=z+2&ff00",
		".u64 x[] = {}":                             "1:",
		".u32 x[1] = {1, 2}":                        "line 4, column 26: x is initialised with more than it can hold",
		".u32 x = {1, 2}":                           "line 4, column 16: x is initialised with more than it can hold",
		".u32 x[2][2] = {{1, 2, 3}}":                "line 4, column 33: x is initialised with more than it can hold",
	} {
		m, err := Parse(header + ".global " + text + ";")
		if err != nil {
			if err.Error() != want {
				t.Errorf("%s: %v\n\twant %s", text, err, want)
			}
			continue
		}
		v := m.Vars[0]
		got := fmt.Sprintf("%d:", v.Count)
		for _, e := range v.Init {
			if got += fmt.Sprintf(" %d=", e.Index); e.Symbol == "" {
				got += fmt.Sprint(e.Number.Bits)
			} else {
				got += fmt.Sprintf("%s+%d&%x", e.Symbol, e.Number.Bits, e.Mask)
			}
		}
		if got != want {
			t.Errorf("%s: %s\n\twant %s", text, got, want)
		}
	}
}

// FuzzParse looks for texts on which the parser fails.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("../../sim/testdata/ptx/*.ptx")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(header + ".global .u64 t[2] = {generic(x)+1, 0x10U}; .entry k(.param .u64 p) { @!%p add.s32 a|b, {c, d}, [e+4], (f); }")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if (m == nil) != (err != nil) {
			t.Errorf("%v, %v", m, err)
		}
		if err == nil {
			return
		}
		if e := err.(*Error); e.Line < 1 || e.Col < 1 || int(e.Line) > strings.Count(text, "\n")+1 {
			t.Errorf("the place of %v", err)
		}
	})
}

// TestOldPrototypes reads prototypes without a semicolon, as compilers wrote them before version 3.0.
func TestOldPrototypes(t *testing.T) {
	const text = ` .target sm_20
		.visible .func (.param .s32 y) f (.param .s32 x)
		.extern .func g
		@@DWARF .section .debug_info, "", @progbits
		@@DWARF .byte 0x01, 0x02
		.file 1 "a.cu"
		.visible .func (.param .s32 y) f (.param .s32 x) { ret; }
		.entry k { ret; }`
	m, err := Parse(".version 2.1" + text)
	if err != nil || len(m.Functions) != 4 || m.Functions[0].HasBody || !m.Functions[2].HasBody ||
		m.Files[1] != "a.cu" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := Parse(".version 6.0" + text); err == nil {
		t.Error("a newer text needs semicolons")
	}
}
