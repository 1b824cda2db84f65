package compile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// TestClusterFaults executes kernels in clusters of two blocks, some of which never end on a GPU. In each
// of them block 1 goes to "one".
func TestClusterFaults(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"beside a deadlock": {`bar.sync 0; bra end; one: barrier.cluster.arrive; barrier.cluster.wait;`, ""},
		"half of a block is in a barrier of the block": {`setp.eq.u32 q, w, 0; @q bar.sync 1, 96; barrier.cluster.arrive;
			barrier.cluster.wait; bra end; one: barrier.cluster.arrive; barrier.cluster.wait;`,
			"719 block 0 line 5 bar.sync all threads of the cluster wait for each other; on a GPU this never ends"},
		"without an arrival": {`barrier.cluster.wait; bra end; one: barrier.cluster.arrive; barrier.cluster.wait;`, ""},
		"for an arrival": {`setp.eq.u32 q, w, 0; @q bar.sync 1, 96; bra end; one: barrier.cluster.arrive; barrier.cluster.wait;`,
			"719 block 0 line 5 bar.sync all threads of the block wait for each other; on a GPU this never ends"},
		"twice in one block": {`barrier.cluster.arrive; barrier.cluster.wait; barrier.cluster.arrive; barrier.cluster.wait;
			bra end; one: barrier.cluster.arrive; barrier.cluster.wait;`, ""},
		"an exit in one block": {`bra end; one: barrier.cluster.arrive; barrier.cluster.wait;`, ""},
	} {
		for range 20 {
			fault, err := launchWith(t, textHeader+`.entry k() { .reg .pred p, q; .reg .u32 r, w;
				mov.u32 r, %cluster_ctarank; setp.eq.u32 p, r, 1; mov.u32 w, %warpid;
				@p bra one;
				`+c.body+" end: ret; }", 8, 64, nil, func(l *vm.Launch) { l.Cluster[0] = 2 })
			got := ""
			switch {
			case err != nil:
				got = err.Error()
			case fault != nil:
				got = fmt.Sprintf("%d block %d line %d %s %s", fault.Code, fault.Block[0]%2, fault.Line, fault.Instruction,
					fault.Reason)
			}
			if got != c.want {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
				break
			}
		}
	}
}

// TestClusterMemory reads the shared memory of another block of a cluster, which ends before or after, while
// other blocks begin.
func TestClusterMemory(t *testing.T) {
	const ended = "719 ld.shared::cluster.u32 4 bytes at 0x400 this is shared memory of another block, and the cluster has " +
		"no such block, or it has ended"
	for _, c := range []struct{ rank, offset, last, want string }{
		{"1", "0", "barrier.cluster.arrive; barrier.cluster.wait;", ""},
		{"1", "0", "", ended},
		{"2", "0", "barrier.cluster.arrive; barrier.cluster.wait;", ended},
		{"1", "100000", "barrier.cluster.arrive; barrier.cluster.wait;", "719 ld.shared::cluster.u32 4 bytes at 0x18aa0 "},
		{"1", "1048576", "barrier.cluster.arrive; barrier.cluster.wait;", "700 ld.shared::cluster.u32 4 bytes at 0x100400 "},
		{"1", "2", "barrier.cluster.arrive; barrier.cluster.wait;", "716 ld.shared::cluster.u32 4 bytes at 0x402 "},
	} {
		results := make([]uint64, 64)
		fault, err := launchWith(t, textHeader+`.entry k(.param .u64 out) { .reg .pred p, q; .reg .u32 r, w, n; .reg .u64 o, x;
			.shared .u32 s; mov.u32 r, %cluster_ctarank; mov.u32 w, %clusterid.x; setp.eq.u32 p, r, 1; st.shared.u32 [s], w;
			barrier.cluster.arrive; barrier.cluster.wait; @p bra end;
			mov.u32 n, 0; again: add.u32 n, n, 1; setp.lt.u32 q, n, 30000; @q bra again;
			mov.u32 r, s; mapa.shared::cluster.u32 r, r, `+c.rank+`; add.u32 r, r, `+c.offset+`; ld.shared::cluster.u32 n, [r]; ld.param.u64 o, [out];
			mul.wide.u32 x, w, 4; add.u64 o, o, x; add.u32 n, n, 1; st.global.u32 [o], n; end: `+c.last+` ret; }`, 64, 1,
			memory{1 << 32: vm.BytesOf(results)}, func(l *vm.Launch) { l.Cluster[0] = 2 }, 1<<32)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case fault != nil:
			got = fmt.Sprintf("%d %s %d bytes at %#x %s", fault.Code, fault.Instruction, fault.Size, fault.Address, fault.Reason)
		}
		if got != c.want {
			t.Errorf("rank %s, offset %s, %q: got %q, want %q", c.rank, c.offset, c.last, got, c.want)
		}
		for i := range uint32(32) {
			if got := uint32(results[i/2] >> (i % 2 * 32)); c.want == "" && got != i+1 {
				t.Errorf("cluster %d has read %d", i, int(got)-1)
			}
		}
	}
}

// TestInstructionFaults executes instructions whose operands are wrong. m is the address of 64 bytes of
// memory, s that of 64 bytes of shared memory, and t the thread.
func TestInstructionFaults(t *testing.T) {
	for _, c := range []struct {
		body    string
		threads uint32
		want    string
	}{
		{"cp.async.ca.shared.global [s], [m], 16;", 1, ""},
		{"cp.async.ca.shared.global [s], [m+4], 16;", 1, "716 cp.async.ca.shared.global reads 16 bytes at 0x100000004"},
		{"cp.async.cg.shared.global [s], [m+8], 16;", 1, "716 cp.async.cg.shared.global reads 16 bytes at 0x100000008"},
		{"cp.async.ca.shared.global [s], [m+4], 8;", 1, "716 cp.async.ca.shared.global reads 8 bytes at 0x100000004"},
		{"cp.async.ca.shared.global [s], [m+2], 4;", 1, "716 cp.async.ca.shared.global reads 4 bytes at 0x100000002"},
		{"add.u32 s, s, 8; cp.async.ca.shared.global [s], [m], 16;", 1, "716 cp.async.ca.shared.global writes 16 bytes at 0x408"},
		{"cp.async.ca.shared.global [s], [m+60], 4;", 1, ""},
		{"cp.async.ca.shared.global [s], [m+64], 4;", 1, "700 cp.async.ca.shared.global reads 1 bytes at 0x100000040"},
		{"cp.async.ca.shared.global [s], [m+64], 4, 0;", 1, ""},
		{"cp.async.ca.shared.global [s], [m+4], 16, 0;", 1, ""},
		{"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {d}, [s];", 32, ""},
		{"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {d}, [s];", 31,
			"719 ldmatrix.sync.aligned.m8n8.x1.shared.b16 only 31 of the 32 lanes take part, and the result is undefined"},
		{"stmatrix.sync.aligned.m8n8.x1.shared.b16 [s], {d};", 4,
			"719 stmatrix.sync.aligned.m8n8.x1.shared.b16 only 4 of the 32 lanes take part, and the result is undefined"},
		{"mbarrier.init.shared.b64 [s], 4; mbarrier.arrive.shared.b64 x, [s], 3; mbarrier.arrive.shared.b64 x, [s];", 1, ""},
		{"mbarrier.init.shared.b64 [s], 4; mbarrier.arrive.shared.b64 x, [s], 3; mbarrier.arrive.shared.b64 x, [s], 2;", 1,
			"719 mbarrier.arrive.shared.b64 2 arrivals at a barrier in memory that waits for 1"},
		{"mbarrier.init.shared.b64 [s], 1; mbarrier.arrive_drop.shared.b64 x, [s], 2;", 1,
			"719 mbarrier.arrive_drop.shared.b64 2 arrivals at a barrier in memory that waits for 1"},
		{"mbarrier.arrive.shared.b64 x, [s];", 1, "719 mbarrier.arrive.shared.b64 1 arrivals at a barrier in memory that waits for 0"},
		{"brkpt;", 1, "719 brkpt "},
		{"mov.u32 d, 33; bar.sync 1, d;", 64, "715 bar.sync the number of threads of a barrier is 33: it has to be a multiple of 32, and at most 2048"},
		{"mov.u32 d, 17; setp.lt.u32 q, t, 32; @q mov.u32 d, 1; bar.sync d;", 64, ""},
	} {
		fault, err := launch(t, textHeader+`.entry k(.param .u64 p) { .reg .u32 s, t, d, e; .reg .u64 m, x; .reg .pred q;
			.shared .align 16 .b8 sh[64]; mov.u32 s, sh; mov.u32 t, %tid.x; ld.param.u64 m, [p]; mov.u32 d, 0; `+c.body+" ret; }", 1,
			c.threads, memory{1 << 32: vm.BytesOf(make([]uint64, 8))}, 1<<32)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case fault != nil && fault.Access:
			verb := map[bool]string{false: "reads", true: "writes"}[fault.Write]
			got = fmt.Sprintf("%d %s %s %d bytes at %#x", fault.Code, fault.Instruction, verb, fault.Size, fault.Address)
		case fault != nil:
			got = fmt.Sprint(fault.Code, " ", fault.Instruction, " ", fault.Reason)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.body, got, c.want)
		}
	}
}

// TestClusterless executes instructions that write to the shared memory of a cluster, in launches that have no size of
// clusters.
func TestClusterless(t *testing.T) {
	for _, body := range []string{
		"st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [s], d, [s+32];",
		"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [s], d, [s+32];",
		"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [s], [s+16], 16, [s+32];",
		"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [s], [s+16], 16, [s+32];",
	} {
		fault, err := launchWith(t, `.version 8.1 .target sm_90 .address_size 64
			.entry k(.param .u64 p) { .reg .u32 s, d; .reg .u64 x; .shared .align 16 .b8 sh[64];
			mov.u32 s, sh; mov.u32 d, 0; mbarrier.init.shared.b64 [s+32], 1; `+body+" ret; }", 1, 1, memory{},
			func(l *vm.Launch) { l.Cluster = [3]uint32{} }, 0)
		if err != nil {
			t.Fatal(err)
		}
		if fault == nil || fault.Code != vm.IllegalInstruction || !strings.Contains(fault.Reason, ".reqnctapercluster") {
			t.Errorf("%s: %+v", body, fault)
		}
	}
}
