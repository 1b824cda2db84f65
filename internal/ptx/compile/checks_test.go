package compile

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// TestChecksOfKernels executes what nvcc has made of the sources in testdata/kernels for one architecture
// with all checks, which find nothing. All buffers of the sources are written before.
func TestChecksOfKernels(t *testing.T) {
	files := recordedKernels(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		base, is := strings.CutSuffix(name, ".ptx")
		if !is || !strings.Contains(base, "sm_90") {
			continue
		}
		t.Run(base, func(t *testing.T) {
			source, _, _ := strings.Cut(base, ".")
			text, err := os.ReadFile("../testdata/kernels/" + source + ".cu")
			if err != nil {
				t.Fatal(err)
			}
			s, err := newScene(files[name])
			if err != nil {
				t.Fatal(err)
			}
			s.checks = &vm.Checks{Memory: true, Races: true, Barriers: true,
				Defined: func(uint64) (base, size uint64, d *vm.Defined) { return 0, 1 << 63, nil }}
			if err := s.do(string(text)); err != nil {
				t.Fatal(err)
			}
			for _, f := range s.found {
				t.Error(foundText(f))
			}
		})
	}
}

// foundText describes what a check has found.
func foundText(f *vm.Fault) string {
	text := fmt.Sprintf("line %d %s thread %d", f.Line, f.Instruction, f.Thread[0])
	if f.Access {
		text += fmt.Sprintf(" %d bytes at %#x", f.Size, f.Address)
	}
	text += ": " + f.Reason
	if f.Other != nil {
		text += fmt.Sprintf("; line %d %s thread %d", f.Other.Line, f.Other.Instruction, f.Other.Thread[0])
	}
	return text
}

// TestChecks executes kernels with mistakes, and the same without. Memory of 64 bytes at p has its first
// 30 bytes written. s is the address of 512 bytes of shared memory, t the thread, a the address of the word
// of the thread there, and n that of the next thread, in a circle of 64.
func TestChecks(t *testing.T) {
	const race, undefined, barrier = "a race in shared memory: another thread has ",
		"that nothing has written", "wait at two places for one barrier"
	for _, c := range []struct {
		name, body string
		want       []string // parts of what is found, in the order of the text
	}{
		// Memory that nothing has written.
		{"the memory is written", "ld.global.u32 v, [p+24];", nil},
		{"the memory is not written", "ld.global.u32 v, [p+32];",
			[]string{"line 9 ld.global.u32 thread 0 4 bytes at 0x100000020: memory of the device that nothing has written"}},
		{"half of the word is written", "ld.global.u32 v, [p+28];",
			[]string{"memory of the device that nothing has written, from byte 2 of the access"}},
		{"the kernel writes it", "st.global.u16 [p+30], 5; ld.global.u32 v, [p+28];", nil},
		{"an atomic operation reads it", "atom.global.add.u32 v, [p+40], 1;", []string{undefined}},
		{"a vector", "ld.global.v4.u32 {v, w, x, y}, [p+16];", []string{"from byte 14 of the access"}},
		{"a generic address", "ld.u8 v, [p+31];", []string{undefined}},
		{"an asynchronous copy reads it", "cp.async.ca.shared.global [s], [p+32], 4; ", []string{undefined}},
		{"shared memory is written", "st.shared.u32 [a], t; ld.shared.u32 v, [a];", nil},
		{"shared memory is not written", "ld.shared.u32 v, [a];",
			[]string{"ld.shared.u32 thread 0 4 bytes at 0x400: shared memory that no thread of the block has written"}},
		{"a byte of shared memory is not written", "st.shared.u8 [a], t; st.shared.u8 [a+1], t; st.shared.u8 [a+3], t; " +
			"ld.shared.u32 v, [a];", []string{"written, from byte 2 of the access"}},
		{"the next block", "setp.eq.u32 q, b, 0; @q st.shared.u32 [a], t; ld.shared.u32 v, [a];", []string{"no thread of the block"}},
		{"ldmatrix", "and.b32 v, t, 15; shl.b32 v, v, 4; add.u32 v, v, s; st.shared.u32 [a], t; bar.sync 0; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {v, w}, [v];",
			nil},
		{"ldmatrix of too little", "and.b32 v, t, 31; shl.b32 v, v, 4; add.u32 v, v, s; st.shared.u32 [a], t; bar.sync 0; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {v, w, x, y}, [v];",
			[]string{"no thread of the block"}},

		// Races.
		{"a barrier between", "st.shared.u32 [a], t; bar.sync 0; ld.shared.u32 v, [n];", nil},
		{"no barrier between", "st.shared.u32 [a], t; ld.shared.u32 v, [n];", []string{"line 9 ld.shared.u32 thread ", race + "written"}},
		{"no barrier behind", "st.shared.u32 [a], t; bar.sync 0; ld.shared.u32 v, [n]; st.shared.u32 [a], v;",
			[]string{race + "read", "; line 9 ld.shared.u32 thread "}},
		{"a barrier behind", "st.shared.u32 [a], t; bar.sync 0; ld.shared.u32 v, [n]; bar.sync 0; st.shared.u32 [a], v;", nil},
		{"all write one word", "st.shared.u32 [s], t;", []string{race + "written"}},
		{"all write the same", "st.shared.u32 [s], 7; bar.sync 0; st.shared.v2.u32 [s+8], {7, 8};", nil},
		{"neighbouring bytes", "shr.u32 v, t, 0; add.u32 v, v, s; st.shared.u8 [v], t; ld.shared.u8 v, [v];", nil},
		{"a generic address of one word", "cvt.u64.u32 p, s; cvta.shared.u64 p, p; st.u32 [p], t;", []string{race + "written"}},
		{"in a loop without a second barrier", "st.shared.u32 [a], t; mov.u32 w, 0; again: bar.sync 0; ld.shared.u32 v, [n]; " +
			"st.shared.u32 [a], v; add.u32 w, w, 1; setp.lt.u32 q, w, 3; @q bra again;", []string{race + "read"}},
		{"a meeting of the warp", "st.shared.u32 [a], t; bar.warp.sync -1; xor.b32 v, t, 1; shl.b32 v, v, 2; add.u32 v, v, s; ld.shared.u32 v, [v];", nil},
		{"only a shuffle of the warp", "st.shared.u32 [a], t; shfl.sync.idx.b32 w, t, 0, 31, -1; xor.b32 v, t, 1; shl.b32 v, v, 2; add.u32 v, v, s; ld.shared.u32 v, [v];",
			[]string{race + "written"}},
		{"a meeting of the warp is not one of the block", "st.shared.u32 [a], t; bar.warp.sync -1; ld.shared.u32 v, [n];", []string{race + "written"}},
		{"atomic operations", "setp.eq.u32 q, t, 0; @q st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 v, [s], 1; bar.sync 0; ld.shared.u32 v, [s];", nil},
		{"atomic operations and a read", "setp.eq.u32 q, t, 0; @q st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 v, [s], 1; ld.shared.u32 v, [s];",
			[]string{race + "written"}},
		{"volatile", "st.volatile.shared.u32 [s], t; ld.volatile.shared.u32 v, [s];", nil},
		{"barriers of half of the block each", "and.b32 v, t, 32; shr.u32 v, v, 5; add.u32 v, v, 1; st.shared.u32 [a], t; bar.sync v, 32; " +
			"xor.b32 w, t, 1; shl.b32 w, w, 2; add.u32 w, w, s; ld.shared.u32 v, [w];", nil},
		{"barriers of half of the block each, and the other half", "and.b32 v, t, 32; shr.u32 v, v, 5; add.u32 v, v, 1; st.shared.u32 [a], t; bar.sync v, 32; " +
			"ld.shared.u32 v, [n];", []string{race + "written"}},
		{"one half gives to the other", "setp.lt.u32 q, t, 32; @q st.shared.u32 [a], t; @q bar.arrive 1, 64; @q bra end; bar.sync 1, 64; " +
			"xor.b32 w, t, 32; shl.b32 w, w, 2; add.u32 w, w, s; ld.shared.u32 v, [w]; end:", nil},
		{"the other half takes before", "setp.lt.u32 q, t, 32; @!q bra other; st.shared.u32 [a], t; bar.sync 1, 64; bra end; " +
			"other: bar.arrive 1, 64; xor.b32 w, t, 32; shl.b32 w, w, 2; add.u32 w, w, s; st.shared.u32 [w], 5; end:", []string{race}},
		{"a flag with fences", flag("fence.acq_rel.cta;", "fence.acq_rel.cta;", "st.volatile", "ld.volatile"), nil},
		{"a flag with an order", flag("", "", "st.release.cta", "ld.acquire.cta"), nil},
		{"a flag without fences", flag("", "", "st.volatile", "ld.volatile"), []string{race + "written"}},
		{"a flag without the second fence", flag("membar.cta;", "", "st.relaxed.cta", "ld.relaxed.cta"), []string{race + "written"}},
		{"a flag without the first fence", flag("", "membar.cta;", "st.relaxed.cta", "ld.relaxed.cta"), []string{race + "written"}},
		{"a barrier in memory", "setp.eq.u32 q, t, 0; @q mbarrier.init.shared.b64 [s+504], 64; bar.sync 0; setp.lt.u32 q, t, 60; @q st.shared.u32 [a], t; " +
			"mbarrier.arrive.shared.b64 z, [s+504]; wait: mbarrier.test_wait.shared.b64 q1, [s+504], z; @!q1 bra wait; " +
			"setp.lt.u32 q, t, 59; @q ld.shared.u32 v, [n];", nil},
		{"bytes that a barrier counts",
			counted("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [p], 16, [s+504];", 16),
			nil},
		{"bytes of shared memory that a barrier counts", "setp.eq.u32 q, t, 0; @q st.shared.v4.u32 [s+128], {1, 2, 3, 4}; " +
			counted("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [s], [s+128], 16, [s+504];", 16),
			nil},
		{"bytes of a store that a barrier counts",
			counted("st.async.mbarrier::complete_tx::bytes.v2.b32 [s], {t, t}, [s+504];", 8), nil},
		{"bytes of a reduction that a barrier counts", "setp.eq.u32 q, t, 40; @q st.shared.u32 [s], 1; " +
			counted("red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u32 [s], 1, [s+504];", 4), nil},
		{"bytes of a reduced copy that a barrier counts", "setp.eq.u32 q, t, 40; @q st.shared.v4.u32 [s], {1, 2, 3, 4}; " +
			"setp.eq.u32 q, t, 0; @q st.shared.v4.u32 [s+128], {1, 2, 3, 4}; " +
			counted("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [s], [s+128], 16, "+
				"[s+504];", 16),
			nil},
		{"bytes that are read before the barrier has counted them",
			"setp.eq.u32 q, t, 0; @q mbarrier.init.shared.b64 [s+504], 64; bar.sync 0; " +
				"@q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [p], 16, [s+504]; ld.shared.u32 v, [s];",
			[]string{race + "written"}},
		{"bytes that are copied while others write them",
			"setp.eq.u32 q, t, 0; @q mbarrier.init.shared.b64 [s+504], 64; bar.sync 0; " +
				"@q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [p], 16, [s+504]; " +
				"setp.eq.u32 q, t, 33; @q st.shared.u32 [s], t;", []string{race + "written"}},
		{"a cluster's barrier", "st.shared.u32 [a], t; barrier.cluster.arrive; barrier.cluster.wait; ld.shared.u32 v, [n];", nil},

		// Barriers.
		{"a barrier in a branch that all take", "setp.lt.u32 q, t, 64; @q bra one; bra end; one: bar.sync 0; end:", nil},
		{"two barriers in one warp", "and.b32 v, t, 1; setp.eq.u32 q, v, 0; @q bra one; bar.sync 0; bra end; one: bar.sync 0; end:",
			[]string{"bar.sync thread ", barrier, "; line 9 bar.sync thread "}},
		{"two barriers that a warp need not reach together", "and.b32 v, t, 1; setp.eq.u32 q, v, 0; @q bra one; barrier.sync 0; bra end; one: barrier.sync 0; end:", nil},
		{"another number of rounds", "and.b32 v, t, 3; again: bar.sync 0; sub.u32 v, v, 1; setp.ge.s32 q, v, 1; @q bra again; bar.sync 0;", []string{barrier}},
		{"two barriers in two warps", "setp.lt.u32 q, t, 32; @q bra one; bar.sync 0; bra end; one: bar.sync 0; end:", nil},
		{"an exit before", "setp.eq.u32 q, t, 63; @q ret; bar.sync 0;", []string{
			"bar.sync thread 0: a thread of the block has ended and does not reach the barrier; line 9 ret thread 63"}},
		{"an exit of a warp before", "setp.lt.u32 q, t, 32; @q exit; bar.sync 0;", []string{"does not reach the barrier; line 9 exit thread 0"}},
		{"an exit of a warp before a barrier of the other", "setp.lt.u32 q, t, 32; @q exit; bar.sync 0, 32;", nil},
	} {
		mem, d := make([]uint64, 8), vm.NewDefined(64)
		d.Set(0, 30)
		var found []*vm.Fault
		m, err := Parse(textHeader + `.entry k(.param .u64 p0) {
			.reg .u32 s, t, a, n, v, w, x, y, b; .reg .u64 p, z; .reg .pred q, q1;
			.shared .align 16 .b8 sh[512]; ld.param.u64 p, [p0];
			mov.u32 s, sh; mov.u32 t, %tid.x; mov.u32 b, %ctaid.x;
			shl.b32 a, t, 2; add.u32 a, a, s;
			add.u32 n, t, 1; and.b32 n, n, 63; shl.b32 n, n, 2; add.u32 n, n, s;

			` + c.body + " ret; }")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		k, err := m.Kernel("k")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		l := launchOf(k, 2, 64, memory{1 << 32: vm.BytesOf(mem)}, []uint64{1 << 32})
		l.Checks = &vm.Checks{Memory: true, Races: true, Barriers: true,
			Defined: func(addr uint64) (base, size uint64, _ *vm.Defined) { return 1 << 32, 64, d }}
		work, fault := l.Execute(new(vm.Stop))
		if fault != nil {
			t.Errorf("%s: %+v", c.name, fault)
		}
		text := ""
		for _, f := range work.Findings {
			text += foundText(f) + "\n"
		}
		found = work.Findings
		if (len(found) > 0) != (len(c.want) > 0) {
			t.Errorf("%s: found %q", c.name, text)
		}
		for _, part := range c.want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: found %q, and not %q", c.name, text, part)
			}
		}
	}
}

// flag returns a body in which thread 0 gives a word to thread 32 with a flag.
func flag(first, second, store, load string) string {
	return "setp.eq.u32 q, t, 40; @q st.volatile.shared.u32 [s+500], 0; bar.sync 0; setp.eq.u32 q, t, 0; @!q bra other; " +
		"st.shared.u32 [s], 7; " + first + store + ".shared.u32 [s+500], 1; bra end; " +
		"other: setp.ne.u32 q, t, 32; @q bra end; wait: " + load + ".shared.u32 v, [s+500]; setp.eq.u32 q, v, 0; @q bra wait; " +
		second + " ld.shared.u32 v, [s]; end:"
}

// counted returns a body in which thread 0 expects bytes and executes an operation whose bytes a barrier counts,
// and the other threads wait for them.
func counted(operation string, bytes int) string {
	return fmt.Sprintf("setp.eq.u32 q, t, 0; @q mbarrier.init.shared.b64 [s+504], 1; bar.sync 0; "+
		"@q mbarrier.arrive.expect_tx.shared.b64 z, [s+504], %d; @q %s @q bra end; "+
		"wait: mbarrier.test_wait.parity.shared.b64 q1, [s+504], 0; @!q1 bra wait; ld.shared.u32 v, [s]; end:", bytes,
		operation)
}
