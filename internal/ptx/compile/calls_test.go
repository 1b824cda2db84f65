package compile

import (
	"fmt"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// TestCalls executes kernels with functions that call themselves, or are called by their addresses.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       func(n uint32) uint32
	}{
		{"registers", `.func (.reg .u32 r) sum(.reg .u32 n) {
				.reg .pred p; .reg .u32 m, s;
				mov.u32 r, 0; setp.eq.u32 p, n, 0; @p ret;
				sub.u32 m, n, 1; call (s), sum, (m); add.u32 r, s, n; ret; }`, func(n uint32) uint32 { return n * (n + 1) / 2 }},
		{"guarded", `.func (.reg .u32 r) sum(.reg .u32 n) {
				.reg .pred p; .reg .u32 m, s;
				setp.ne.u32 p, n, 0; mov.u32 s, 0; sub.u32 m, n, 1;
				@p call (s), sum, (m); add.u32 r, s, n; ret; }`, func(n uint32) uint32 { return n * (n + 1) / 2 }},
		{"twice", `.func (.reg .u32 r) sum(.reg .u32 n) {
				.reg .pred p; .reg .u32 m, s, u;
				mov.u32 r, n; setp.lt.u32 p, n, 2; @p ret;
				sub.u32 m, n, 1; call (s), sum, (m); sub.u32 m, m, 1; call (u), sum, (m); add.u32 r, s, u; ret; }`,
			func(n uint32) uint32 {
				a, b := uint32(0), uint32(1)
				for range n {
					a, b = b, a+b
				}
				return a
			}},
		{"frames", `.func (.param .u32 r) deep(.param .b32 n) {
				.reg .pred p; .reg .u32 m, s; .local .u32 keep[2]; .reg .u64 a;
				ld.param.u32 m, [n]; mov.u64 a, keep; cvta.local.u64 a, a; st.u32 [a+4], m;
				setp.eq.u32 p, m, 0; mov.u32 s, 100; @p bra end;
				sub.u32 m, m, 1;
				{ .param .b32 x; .param .b32 y; st.param.b32 [x], m; call (y), deep, (x); ld.param.b32 s, [y]; }
				ld.param.u32 m, [n]; add.u32 s, s, m;
			end: ld.local.u32 m, [keep+4]; add.u32 s, s, m; st.param.b32 [r], s; ret; }
			.func (.reg .u32 r) sum(.reg .u32 n) { .param .b32 x; .param .b32 y; st.param.b32 [x], n;
				call (y), deep, (x); ld.param.b32 r, [y]; ret; }`,
			func(n uint32) uint32 { return 100 + n*(n+1) }},
		{"pointers", `.func (.param .u32 r) twice(.param .u32 n) { .reg .u32 m; ld.param.u32 m, [n]; shl.b32 m, m, 1; st.param.u32 [r], m; ret; }
			.func (.param .u32 r) next(.param .u32 n) { .reg .u32 m; ld.param.u32 m, [n]; add.u32 m, m, 1; st.param.u32 [r], m; ret; }
			.func (.reg .u32 r) sum(.reg .u32 n) {
				.reg .pred p; .reg .u64 f, g; and.b32 r, n, 1; setp.eq.u32 p, r, 0; mov.u64 f, twice; mov.u64 g, next; selp.b64 f, f, g, p;
				{ .param .b32 x; .param .b32 y; st.param.b32 [x], n;
				proto: .callprototype (.param .b32 _) _ (.param .b32 _);
				call (y), f, (x), proto; ld.param.b32 r, [y]; } ret; }`,
			func(n uint32) uint32 {
				if n&1 == 0 {
					return 2 * n
				}
				return n + 1
			}},
		{"prototypes that are longer", `.func (.param .u32 r) next(.param .u32 n) { .reg .u32 m; ld.param.u32 m, [n]; add.u32 m, m, 1; st.param.u32 [r], m; ret; }
			.func (.reg .u32 r) sum(.reg .u32 n) { .reg .u64 f; .reg .u32 a, b; .local .u32 keep[4]; mov.u64 f, next;
				st.local.u32 [keep], 1; st.local.u32 [keep+4], 2; st.local.u32 [keep+8], 3; st.local.u32 [keep+12], 4;
				{ .param .b32 x; .param .b32 z[8]; .param .b32 y[4]; st.param.b32 [x], n; st.param.b32 [z], n; st.param.b32 [z+28], n;
				st.param.b32 [y+12], 5;
				proto: .callprototype (.param .b32 _[4]) _ (.param .b32 _, .param .b32 _[8]);
				call (y), f, (x, z), proto; ld.param.b32 r, [y]; ld.param.b32 a, [y+12]; add.u32 r, r, a; }
				ld.local.u32 a, [keep]; add.u32 r, r, a; ld.local.u32 a, [keep+4]; add.u32 r, r, a;
				ld.local.u32 a, [keep+8]; add.u32 r, r, a; ld.local.u32 a, [keep+12]; add.u32 r, r, a; ret; }`,
			func(n uint32) uint32 { return n + 1 + 5 + 1 + 2 + 3 + 4 }},
		{"ignored results", `.func (.param .u64 q) one(.param .u32 n) { .reg .u32 m; .reg .u64 w; ld.param.u32 m, [n]; add.u32 m, m, 1;
				cvt.u64.u32 w, m; st.param.u64 [q], w; ret; }
			.func (.reg .u32 r, .reg .u32 q) two(.reg .u32 n) { add.u32 r, n, 1; add.u32 q, n, 2; ret; }
			.extern .func (.param .b64 p) malloc(.param .b64 n);
			.func (.reg .u32 r) sum(.reg .u32 n) { .reg .u64 f, v; .reg .u32 m; .param .b32 x; .param .b64 z;
				st.param.b32 [x], n; call (_, r), two, (n); call (m, _), two, (n); call (_, _), two, (7); add.u32 r, r, m;
				call (z), one, (x); call (_), one, (x); call (_), malloc, (z); ld.param.u64 v, [z]; cvt.u32.u64 n, v;
				add.u32 r, r, n; mov.u64 f, one; a: .callprototype (.param .b64 _) _ (.param .b32 _); b: .calltargets one;
				call (_), f, (x), b; call (_), f, (x), a; call (z), f, (x), a; ld.param.u64 v, [z]; cvt.u32.u64 n, v;
				add.u32 r, r, n; ret; }`,
			func(n uint32) uint32 { return 4*n + 5 }},
		{"registers and constants for memory", `.func (.param .u32 r) minus(.param .u32 n, .param .b32 m) {
				.reg .u32 a, b; ld.param.u32 a, [n]; ld.param.u32 b, [m]; sub.u32 a, a, b; st.param.u32 [r], a; ret; }
			.func (.param .b64 r) zero() { .reg .b64 s; mov.b64 s, 0; st.param.b64 [r], s; ret; }
			.func (.param .b64 r) deep(.param .b64 n) { .reg .pred p; .reg .b64 m, s, less; ld.param.b64 m, [n];
				setp.ne.u64 p, m, 0; mov.b64 s, 0; sub.u64 less, m, 1; @p call (s), deep, (less); setp.ne.u64 p, m, 0;
				@!p call (s), zero, (); add.u64 s, s, m; st.param.b64 [r], s; ret; }
			.func (.param .f32 r) half(.param .f32 n) { .reg .f32 x; ld.param.f32 x, [n]; mul.f32 x, x, 0f3f000000;
				st.param.f32 [r], x; ret; }
			.func (.reg .u32 r) sum(.reg .u32 n) { .reg .u32 a; .reg .u64 f, w; .reg .f32 x; .reg .pred p; .param .b32 y; .param .b32 z;
				st.param.b32 [z], n; call (r), minus, (n, 3); call (y), minus, (10, z); ld.param.b32 a, [y]; add.u32 r, r, a;
				call (_), minus, (n, n); cvt.u64.u32 w, n; call (w), deep, (w); cvt.u32.u64 a, w; add.u32 r, r, a;
				call (x), half, (0f41000000); cvt.rzi.u32.f32 a, x; add.u32 r, r, a;
				mov.u64 f, minus; mov.u32 a, 100; setp.lt.u32 p, n, 4; c: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
				t: .calltargets minus; @p call (a), f, (1000, n), c; add.u32 r, r, a; call (a), f, (n, z), t; add.u32 r, r, a;
				call (_), f, (a, 5), c; ret; }
			`, func(n uint32) uint32 {
			r := n - 3 + 10 - n + n*(n+1)/2 + 4 + 100
			if n < 4 {
				r += 1000 - n - 100
			}
			return r
		}},
		{"any number of arguments", `.func (.param .u32 r) any(.param .u32 n, .param .align 8 .b8 more[]) {
				.reg .u32 s, c, v; .reg .u64 a; .reg .pred p; ld.param.u32 c, [n]; mov.u32 s, 0; mov.u64 a, more;
				next: setp.eq.u32 p, c, 0; @p bra end; ld.param.u32 v, [a]; add.u32 s, s, v; add.u64 a, a, 4; sub.u32 c, c, 1;
				bra next; end: st.param.u32 [r], s; ret; }
			.func (.reg .u32 r) sum(.reg .u32 n) { .reg .u64 f; .reg .u32 s; .param .b32 x; .param .b32 y;
				.param .align 8 .b8 few[8]; .param .align 8 .b8 many[32]; st.param.u32 [x], 0; call (y), any, (x);
				ld.param.u32 r, [y]; st.param.u32 [x], 2; st.param.v2.u32 [few], {n, 5}; call (y), any, (x, few);
				ld.param.u32 s, [y]; add.u32 r, r, s; st.param.u32 [x], 8; st.param.v4.u32 [many], {n, n, n, n};
				st.param.v4.u32 [many+16], {n, n, n, 1}; call (y), any, (x, many); ld.param.u32 s, [y]; add.u32 r, r, s;
				mov.u64 f, any; a: .callprototype (.param .b32 _) _ (.param .b32 _, .param .align 8 .b8 _[]);
				call (y), f, (x, many), a; ld.param.u32 s, [y]; add.u32 r, r, s; ret; }`,
			func(n uint32) uint32 { return n + 5 + 2*(7*n+1) }},
		{"names with numbers", `.func (.param .u32 r) minus(.param .u32 n, .param .u32 m) {
				.reg .u32 a, b; ld.param.u32 a, [n]; ld.param.u32 b, [m]; sub.u32 a, a, b; st.param.u32 [r], a; ret; }
			.func (.reg .u32 r) sum(.reg .u32 n) { .param .b32 y; .param .b32 x<2>;
				st.param.b32 [x1], 3; st.param.b32 [x0], n; call (y), minus, (x0, x1); ld.param.b32 r, [y]; ret; }`,
			func(n uint32) uint32 { return n - 3 }},
		{"back", `.func (.param .u32 r) other(.param .u32 n, .param .u64 f);
			.func (.param .u32 r) sum0(.param .u32 n, .param .u64 f) {
				.reg .u32 m, s; .reg .pred p; .reg .u64 g, h; ld.param.u32 m, [n]; ld.param.u64 g, [f]; mov.u32 s, 7;
				setp.eq.u32 p, m, 0; @p bra end; mov.u64 h, other;
				{ .param .b32 x; .param .b64 z; .param .b32 y; sub.u32 s, m, 1; st.param.b32 [x], s; st.param.b64 [z], h;
				proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);
				call (y), g, (x, z), proto; ld.param.b32 s, [y]; }
				mad.lo.u32 s, s, 3, m;
			end: st.param.u32 [r], s; ret; }
			.func (.param .u32 r) other(.param .u32 n, .param .u64 f) {
				.reg .u32 m; .param .b32 x; .param .b64 z; .param .b32 y; .reg .u64 h;
				ld.param.u32 m, [n]; st.param.b32 [x], m; mov.u64 h, other; st.param.b64 [z], h;
				call (y), sum0, (x, z); ld.param.u32 m, [y]; add.u32 m, m, 1; st.param.u32 [r], m; ret; }
			.func (.reg .u32 r) sum(.reg .u32 n) { .param .b32 x; .param .b64 z; .param .b32 y; .reg .u64 h;
				mov.u64 h, other; st.param.b32 [x], n; st.param.b64 [z], h; call (y), sum0, (x, z); ld.param.b32 r, [y]; ret; }`,
			func(n uint32) uint32 {
				s := uint32(7)
				for i := range n {
					s = (s+1)*3 + i + 1
				}
				return s
			}},
		{"another name", `.func (.reg .u32 r) next(.reg .u32 n) { add.u32 r, n, 1; ret; }
			.visible .func (.reg .u32 r) sum(.reg .u32 n);
			.alias sum, next;`, func(n uint32) uint32 { return n + 1 }},
		{"another name of a pointer", `.func (.param .u32 r) next(.param .u32 n) {
				.reg .u32 m; ld.param.u32 m, [n]; add.u32 m, m, 1; st.param.u32 [r], m; ret; }
			.func (.param .u32 r) other(.param .u32 n); .alias other, next;
			.func (.reg .u32 r) sum(.reg .u32 n) { .reg .u64 f, g; .reg .pred p; mov.u64 f, other; mov.u64 g, next;
				{ .param .b32 x; .param .b32 y; st.param.b32 [x], n; proto: .callprototype (.param .b32 _) _ (.param .b32 _);
				call (y), f, (x), proto; ld.param.b32 r, [y]; } setp.ne.u64 p, f, g; @p mov.u32 r, 0; ret; }`,
			func(n uint32) uint32 { return n + 1 }},
	} {
		results := make([]uint64, 16)
		fault, err := launch(t, textHeader+c.text+`.entry k(.param .u64 out) {
			.reg .u32 a, b; .reg .u64 o, x; ld.param.u64 o, [out]; mov.u32 a, %tid.x; mul.wide.u32 x, a, 4; add.u64 o, o, x;
			and.b32 b, a, 15; call (b), sum, (b); st.global.u32 [o], b; ret; }`, 1, 32,
			memory{1 << 32: vm.BytesOf(results)}, 1<<32)
		if err != nil || fault != nil {
			t.Errorf("%s: %v %+v", c.name, err, fault)
			continue
		}
		for i := range uint32(32) {
			if got := uint32(results[i/2] >> (i % 2 * 32)); got != c.want(i&15) {
				t.Errorf("%s(%d): got %d, want %d", c.name, i&15, got, c.want(i&15))
			}
		}
	}
}

// TestCallForms compiles calls whose arguments and results do not fit the parameters.
func TestCallForms(t *testing.T) {
	const text = textHeader + `.func (.param .b32 r) f(.param .b32 n) { ret; } .func g(.param .b8 n[4]) { ret; }
		.entry k() { .reg .b32 a; .reg .b64 d; .reg .b16 h; .reg .pred p; .reg .v2 .b16 v; mov.b32 a, 0; mov.b64 d, 0; mov.b16 h, 0; `
	for call, right := range map[string]bool{
		"call (a), f, (a);": true, "call (_), f, (7);": true, "call (a), f, (d);": false, "call (d), f, (a);": false,
		"call (_), f, (h);": false, "call (h), f, (a);": false, "call (_), f, (p);": false, "call (p), f, (a);": false,
		"call (_), f, (v);": false, "call (7), f, (a);": false, "call g, (a);": false, "call g, (7);": false,
		"call (_), f, (_);": false,
	} {
		m, err := Parse(text + call + " ret; }")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = m.Kernel("k"); (err == nil) != right {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestCallFaults executes kernels whose calls never end, or have no function.
func TestCallFaults(t *testing.T) {
	for body, want := range map[string]string{
		"call again;": "700 call the stack of the thread is too small for so many calls",
		"mov.u64 x, 5; { p: .callprototype _; call x, p; }": "718 call no function has this address",
		"mov.u64 x, nothing; call x;":                       "",
		"mov.u64 x, 0; mov.u64 y, nothing; call x;":         "718 call no function has this address",
	} {
		fault, err := launch(t, textHeader+`.func again() { .reg .u32 a; .local .u32 v; mov.u32 a, 1; call again; st.local.u32 [v], a; ret; }
			.func nothing() { ret; } .entry k() { .reg .b64 x, y;`+body+" ret; }", 1, 32, nil)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case fault != nil:
			got = fmt.Sprint(fault.Code, " ", fault.Instruction, " ", fault.Reason)
		}
		if want != got {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

// TestOldDeclarations executes a kernel with registers and variables in local memory that are declared outside of
// functions, which versions of PTX before 3.0 allow.
func TestOldDeclarations(t *testing.T) {
	const text = `.target sm_20
		.reg .u32 r<3>; .reg .pred p; .local .u32 l[2]; .local .u32 m;
		.func next { add.u32 r1, r1, 1; st.local.u32 [m], r1; ret; }
		.entry other { st.local.u32 [m], 0; ret; }
		.entry k(.param .u64 out) { .reg .u64 o, x; .reg .u32 r2, a;
			ld.param.u64 o, [out]; mov.u32 r0, %tid.x; mul.wide.u32 x, r0, 4; add.u64 o, o, x;
			mov.u32 r1, r0; mov.u32 a, l; st.local.u32 [a+4], r0; setp.eq.u32 p, r0, 3; @p bra end; call next;
			end: ld.local.u32 r2, [l+4]; mad.lo.u32 r1, r1, 10, r2; @p bra store; ld.local.u32 r2, [m];
				mad.lo.u32 r1, r2, 100, r1;
			store: st.global.u32 [o], r1; ret; }`
	results := make([]uint64, 2)
	fault, err := launch(t, ".version 2.3 "+text, 1, 4, memory{1 << 32: vm.BytesOf(results)}, 1<<32)
	if err != nil || fault != nil {
		t.Fatalf("%v, %+v", err, fault)
	}
	for i := range uint32(4) {
		want := 110*(i+1) + i
		if i == 3 {
			want = 33
		}
		if got := uint32(results[i/2] >> (i % 2 * 32)); got != want {
			t.Errorf("thread %d has %d, want %d", i, got, want)
		}
	}
	if _, err := Parse(".version 3.0 " + text); err == nil {
		t.Error("version 3.0 accepts it")
	}
	if _, err := Parse(".version 2.3 .target sm_20 .local .u32 l = 5; .entry k { ret; }"); err == nil {
		t.Error("a variable in local memory has an initial value")
	}
	for _, alias := range []string{".alias f, k;", ".alias f, g;", ".alias f;", ".alias k, h;", ".alias v, h;",
		".alias h, h;",
		".alias f, h; .alias f, h;"} {
		if _, err := Parse(textHeader + ".global .u32 v; .func f; .func g; .func h { ret; } " +
			".entry k { ret; } " + alias); err == nil {
			t.Errorf("%s is accepted", alias)
		}
	}
}
