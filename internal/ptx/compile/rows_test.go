package compile

import (
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/operands"
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
			l := launchOf(k, 1, 64, memory{1 << 32: vm.BytesOf(make([]uint64, 512))}, []uint64{1 << 32, 0})
			l.Const = make([]byte, m.Constants)
			_, fault := l.Execute(new(vm.Stop))
			if traps := v.Name == "trap" || v.Name == "brkpt"; (fault != nil) != traps {
				t.Errorf("%s: %+v", operands.Form(v), fault)
			}
		}
	}
}
