package compile

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/syntax"
)

// operandsFile says which operands an H200's driver (580, CUDA 13.0) accepts. A line has an
// instruction and, for each operand, its index and the types of registers and the constants that
// were tried in its place, with + if they were accepted, and with - if they were not (218). The
// other operands are registers of type b.
const operandsFile = "testdata/operands-cuda13.0.tsv.gz"

var tried = regexp.MustCompile(`[+-]\w+`)

// TestOperands compiles instructions with the operands that an H200's driver accepts and with
// those that it rejects.
func TestOperands(t *testing.T) {
	f, err := os.Open(operandsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(z); lines.Scan(); {
		op, operands, _ := strings.Cut(lines.Text(), "\t")
		v, _, is := isa.Find(op)
		if !is {
			t.Errorf("there is no %s", op)
			continue
		}
		for _, tokens := range strings.Fields(operands) {
			for _, what := range tried.FindAllString(tokens[1:], -1) {
				text := withOperand(v, op, int(tokens[0]-'0'), what[1:])
				m, err := Parse(textHeader + everyType + text + " ret; }")
				if err == nil {
					_, err = m.Kernel("k")
				}
				if n++; (err == nil) != (what[0] == '+') {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	}
	if n < 10_000 {
		t.Errorf("%d operands", n)
	}
}

// everyType begins a kernel with registers of all types.
const everyType = `.visible .entry k() { .shared .align 16 .b8 s[256]; .local .align 16 .b8 l[256]; .reg .pred p<9>;
	.reg .b16 b16_<9>; .reg .u16 u16_<9>; .reg .s16 s16_<9>; .reg .f16 f16_<9>;
	.reg .b32 b32_<9>; .reg .u32 u32_<9>; .reg .s32 s32_<9>; .reg .f32 f32_<9>; .reg .f16x2 f16x2_<9>;
	.reg .b64 b64_<9>; .reg .u64 u64_<9>; .reg .s64 s64_<9>; .reg .f64 f64_<9>; `

// withOperand returns an instruction with an operand in a place: a type of register, or a constant.
func withOperand(v isa.Variant, op string, at int, what string) string {
	var list []string
	for i, w := range v.Operands() {
		size := 8 * max(syntax.TypeSize(v.Type(w)), 2)
		typ := fmt.Sprint("b", size)
		constant := i == at && (what[0] == '0' || what[0] == '1')
		if i == at && !constant {
			typ = what
		}
		count, braces := 1, false
		switch w.Role {
		case 'v', 'w':
			switch v.Get("vec") {
			case "v2":
				count, braces = 2, true
			case "v4":
				count, braces = 4, true
			}
		case '0', '1', '2', '3':
			count, braces = v.Lengths(v)[w.Role-'0'], true
		}
		var registers []string
		for j := range count {
			registers = append(registers, fmt.Sprintf("%s_%d", typ, j+i%2*(8-count)))
		}
		if constant {
			registers[0] = what
		}
		text := strings.Join(registers, ",")
		if braces {
			text = "{" + text + "}"
		}
		switch space := v.Get("space"); {
		case w.Role == 'm' && strings.HasPrefix(space, "shared"):
			text = "[s]"
		case w.Role == 'm' && space == "local":
			text = "[l]"
		case w.Role == 'm':
			text = "[b64_0]"
		case w.Role == 'P':
			text = "p0"
		case strings.IndexByte("ABC", w.Role) >= 0 && !constant:
			text = fmt.Sprint("p", i)
		case w.Role == 'i' && !constant:
			text = "8"
		case w.Role == 's' && w.Pair:
			text += "|p0"
		}
		list = append(list, text)
	}
	return op + " " + strings.Join(list, ", ") + ";"
}
