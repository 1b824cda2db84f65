package compile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/operands"
	"github.com/purecu/purecu/internal/ptx/tensormap"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// TestRows loads and executes the forms of all rows of the table, from which docs/ptx.md is made: each modifier and
// each type that it lists.
func TestRows(t *testing.T) {
	for _, row := range isa.All() {
		if strings.HasPrefix(row.Name, "%") {
			continue
		}
		list := operands.Choices(row)
		if len(list) == 0 {
			t.Errorf("%s %s: there is no form", row.Name, row.Modifiers)
		}
		for _, v := range list {
			target, before := "8.7 .target sm_90a", ""
			switch op := v.String(); {
			case v.Special == "before sm_70":
				target = "6.3 .target sm_60"
			case v.Has("satfinite") && v.Name == "wmma" && v.Get("ct")[0] == 'f':
				target = "6.4 .target sm_70"
			case strings.HasPrefix(op, "cvt.r") && strings.HasSuffix(op, "satfinite.tf32.f32"):
				target = "8.7 .target sm_100a"
			case strings.HasPrefix(op, "mbarrier.") && !strings.HasPrefix(op, "mbarrier.init"),
				strings.HasPrefix(op, "cp.async.mbarrier"):
				before = "mbarrier.init.b64 [b64_0],64; mbarrier.init.shared.b64 [s],64;"
			case v.Special == "tensor":
				before = "mbarrier.init.shared.b64 [s],64;"
			case v.Special == "warpgroup": // the descriptor of a matrix at the begin of shared memory
				before = fmt.Sprintf("mov.u64 b64_1,%d;", vm.SharedBegin/16)
			case v.Special == "bulk":
				before = "mbarrier.init.shared.b64 [s+64],9; mov.u32 b32_1,16;"
			case strings.HasPrefix(op, "sured.p") && v.T() == "b64":
				before = "mov.b64 b64_0,9;" // a surface of pairs
			case strings.HasSuffix(op, ".b128"):
				before = ".reg .b128 b128_<9>;"
			case v.Name == "stackrestore":
				before = "stacksave" + op[len("stackrestore"):] + " " + operands.Form(v)[len(op)+1:]
			}
			text := ".version " + target + ` .address_size 64
				.const .align 16 .b8 c[64]; .func f() { ret; }
				.entry k(.param .align 16 .b8 out[16]) { .reg .pred p<9>; .reg .b16 b16_<9>; .reg .b32 b32_<9>; .reg .b64 b64_<9>;
				.shared .align 16 .b8 s[1024]; .local .align 16 .b8 l[64]; .param .align 16 .b8 pp[32]; T: .branchtargets L;
				ld.param.u64 b64_0,[out]; ` + before + operands.Form(v) + " L: ret; }"
			m, err := Parse(text)
			if err != nil {
				t.Errorf("%s: %v", operands.Form(v), err)
				continue
			}
			k, err := m.Kernel("k")
			if err != nil {
				t.Errorf("%s: %v", operands.Form(v), err)
				continue
			}
			words := make([]uint64, 512)
			if v.Special == "tensor" {
				copy(words, mapOf(isa.Dimensions(v), 1<<32+1024))
			}
			l := launchOf(k, 1, 64, memory{1 << 32: vm.BytesOf(words)}, []uint64{1 << 32, 0})
			l.Const = make([]byte, m.Constants)
			_, fault := l.Execute(new(vm.Stop))
			if traps := v.Name == "trap" || v.Name == "brkpt"; (fault != nil) != traps {
				t.Errorf("%s: %+v", operands.Form(v), fault)
			}
		}
	}
}

// mapOf returns the map of a tensor with some dimensions and 32 bits in each element, and boxes of 16 bytes.
func mapOf(rank int, address uint64) []uint64 {
	m := tensormap.Map{Type: 2, Rank: rank, Address: address}
	for i := range rank {
		m.Sizes[i], m.Strides[i], m.Box[i], m.Steps[i] = 4, 16, 1, 1
	}
	m.Box[0] = 4
	words := m.Encode()
	return words[:]
}
