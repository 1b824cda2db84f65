package code

import (
	"fmt"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/profile"
)

// header begins a text.
const header = ".version 7.8\n.target sm_70\n.address_size 64\n"

// FuzzPTX loads arbitrary texts. The kernels of an accepted text can be looked up.
func FuzzPTX(f *testing.F) {
	for _, seed := range []string{
		header, header + ".visible .entry k(.param .u64 a, .param .align 8 .b8 b[12]) .maxntid 32 { .shared .b8 s[3]; ret; }",
		header + ".global .align 4 .u32 v[2][] = {{1}, {-2, 0x3}};",
		header + ".file 1 \"x\"\n.const .f64 c = 0d3FF0000000000000;",
		".version 9.9 .target sm_90", ".entyr oops", header + ".func f(){{}}", header + "/* */ .section .d {}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &Compiler{GPU: profile.Default(), Version: 13000}
		parsed, problem := c.parse([]byte(text))
		if (parsed == nil) == (problem == nil) {
			t.Fatalf("%q: %v and %v", text, text, problem)
		}
		if problem != nil {
			if problem.Result == ok || problem.Text == "" {
				t.Fatalf("%q: a problem without a word: %+v", text, problem)
			}
			return
		}
		for _, e := range parsed.Kernels {
			if e.Name == "" || e.MaxThreads < 1 || e.MaxThreads > 1024 || e.shared < 0 {
				t.Fatalf("%q: %+v", text, e)
			}
			end := uint64(0)
			for _, p := range e.Params {
				if p.Size == 0 || p.Offset < end {
					t.Fatalf("%q: %+v", text, e)
				}
				end = p.Offset + p.Size
			}
		}
		for _, v := range parsed.Variables {
			if v.Name == "" || v.Size() == 0 {
				t.Fatalf("%q: %+v", text, v)
			}
		}
	})
}

// TestNewestPTX checks the newest version of PTX for every driver since CUDA 11.0.
func TestNewestPTX(t *testing.T) {
	for version, want := range map[int32]int{
		10020: 65, 11000: 70, 11040: 74, 11080: 78, 12000: 80, 12030: 83, 12050: 85, 12060: 85, 12080: 87, 12090: 88,
		13000: 90,
	} {
		if got := newestPTX(version); got != want {
			t.Errorf("CUDA %d: %d, want %d", version, got, want)
		}
	}
}

// BenchmarkCompile compiles a text of 100 kernels with 1,000 instructions each.
func BenchmarkCompile(b *testing.B) {
	var text strings.Builder
	text.WriteString(header)
	for k := range 100 {
		fmt.Fprintf(&text, ".visible .entry kernel%d(.param .u64 to)\n{\n\t.reg .b32 %%r<9>;\n\t.reg .b64 %%a;\n", k)
		text.WriteString("\tld.param.u64 \t%a, [to];\n\tmov.u32 \t%r1, %tid.x;\n")
		for i := range 998 {
			fmt.Fprintf(&text, "\tadd.s32 \t%%r%d, %%r%d, %d;\n", i%8+1, (i+7)%8+1, i)
		}
		text.WriteString("\tst.global.u32 \t[%a], %r1;\n\tret;\n}\n")
	}
	c := &Compiler{GPU: profile.Default(), Version: 13000, ReplacedByGo: func(string) bool { return false }}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, problem := c.Compile([]byte(text.String())); problem != nil {
			b.Fatal(problem.Text)
		}
	}
}
