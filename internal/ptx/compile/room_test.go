package compile

import (
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// someRoom is so many bytes of memory for blocks.
type someRoom uint64

func (s *someRoom) Take(n uint64) bool {
	if n > uint64(*s) {
		return false
	}
	*s -= someRoom(n)
	return true
}

// roomLater has memory for a block, and for another one when told closes.
type roomLater struct {
	asked int
	told  chan bool
}

func (r *roomLater) Take(uint64) bool {
	if r.asked++; r.asked > 1 {
		<-r.told
	}
	return true
}

// TestRoomUnlocked asks for the memory of a block, which takes until another one has had several turns.
func TestRoomUnlocked(t *testing.T) {
	later := roomLater{told: make(chan bool)}
	fault, err := launchWith(t, textHeader+`.extern .func cudaGraphSetConditional (.param .b64 a, .param .b32 b);
		.visible .entry k() { .reg .b32 i; .reg .b64 h; .reg .pred p;
		mov.u32 i, %ctaid.x; setp.ne.u32 p, i, 0; @p bra E; L: add.u32 i, i, 1; setp.lt.u32 p, i, 200000; @p bra L;
		mov.b64 h, 7; { .param .b64 a; .param .b32 b; st.param.b64 [a], h; st.param.b32 [b], i;
		call cudaGraphSetConditional, (a, b); } E: ret; }`, 2, 1, nil, func(l *vm.Launch) {
		l.Room, l.Condition = &later, func(uint64, uint32) bool {
			close(later.told)
			return true
		}
	})
	if fault != nil || err != nil {
		t.Error(fault, err)
	}
}

// TestRoom executes grids for all of whose blocks there is no memory at once. A block takes 16 MiB. Blocks of which
// some can end before others begin are executed; blocks that are executed together are not.
func TestRoom(t *testing.T) {
	const text = textHeader + `.visible .entry k(.param .u64 out, .param .u64 all) { .reg .b64 o, n; .reg .b32 r, m; .reg .u32 i; .reg .pred p;
		.local .b8 l[65536]; ld.param.u64 o, [out]; ld.param.u64 n, [all]; cvt.u32.u64 m, n; mov.u32 i, 0;
		L: add.u32 i, i, 1; st.local.u32 [l], i; setp.lt.u32 p, i, 2000; @p bra L; atom.global.add.u32 r, [o], 1;
		W: ld.volatile.global.u32 r, [o]; setp.lt.u32 p, r, m; @p bra W; ret; }`
	for _, tt := range []struct {
		name    string
		room    someRoom
		cluster uint32
		whole   bool // a cooperative grid
		lacks   bool
	}{
		{"much", 1 << 40, 1, false, false},
		{"blocks", 48 << 20, 1, false, false},
		{"none", 0, 1, false, true},
		{"clusters", 48 << 20, 2, false, false},
		{"a cluster", 48 << 20, 8, false, true},
		{"a cooperative grid", 48 << 20, 1, true, true},
		{"a cooperative grid with room", 1 << 30, 1, true, false},
	} {
		out, all := make([]uint64, 8), uint64(0)
		if tt.whole { // each thread waits for all
			all = 16 * 256
		}
		fault, err := launchWith(t, text, 16, 256, memory{1 << 32: vm.BytesOf(out)}, func(l *vm.Launch) {
			l.Room, l.Cluster[0] = &tt.room, tt.cluster
			if tt.whole {
				l.Workspace = 1<<32 + 8
			}
		}, 1<<32, all)
		if err != nil {
			t.Fatal(err)
		}
		if lacks := fault != nil && strings.Contains(fault.Reason, "too little memory"); lacks != tt.lacks ||
			!lacks && out[0] != 16*256 {
			t.Errorf("%s: %+v, %d threads", tt.name, fault, out[0])
		}
	}
}
