// Package operands has texts of PTX with instructions whose operands are registers of all types, and
// constants. It says which of them a GPU's driver accepts. Tests compare that with the software
// driver, and with the driver of the GPU that they run on.
package operands

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/tables"
)

// Try is an instruction in which one operand is a register of a type or a constant. The others are
// registers of type b.
type Try struct {
	Op       string // the instruction, with its modifiers
	Operand  int    // the index of the operand
	What     string // a type, or a constant
	Accepted bool   // by an H200's driver (580, CUDA 13.0), which rejects others with 218
}

var tried = regexp.MustCompile(`[+-]\w+`)

// Tries returns what was tried. The folder is that of this package. The table there has an
// instruction in each line and, for each operand, its index and what was tried, with a plus if it was
// accepted, and a minus if not.
func Tries(folder string) (list []Try, err error) {
	rows, err := tables.Read(filepath.Join(folder, "testdata", "h200-cuda13.0.tsv.gz"))
	for _, row := range rows {
		for _, tokens := range strings.Fields(row[1]) {
			for _, what := range tried.FindAllString(tokens[1:], -1) {
				list = append(list, Try{row[0], int(tokens[0] - '0'), what[1:], what[0] == '+'})
			}
		}
	}
	return list, err
}

// head begins a kernel with registers of all types.
const head = `.version 8.7
.target sm_90
.address_size 64
.visible .entry k() {
.shared .align 16 .b8 s[256]; .local .align 16 .b8 l[256]; .reg .pred p<9>;
.reg .b16 b16_<9>; .reg .u16 u16_<9>; .reg .s16 s16_<9>; .reg .f16 f16_<9>;
.reg .b32 b32_<9>; .reg .u32 u32_<9>; .reg .s32 s32_<9>; .reg .f32 f32_<9>; .reg .f16x2 f16x2_<9>;
.reg .b64 b64_<9>; .reg .u64 u64_<9>; .reg .s64 s64_<9>; .reg .f64 f64_<9>;
`

// Text returns a text with the instruction in a kernel k, or "" if the table of instructions does not
// have it.
func (t Try) Text() string {
	v, _, is := isa.Find(t.Op)
	if !is {
		return ""
	}
	var list []string
	for i, w := range v.Operands() {
		list = append(list, t.operand(v, i, w))
	}
	return head + t.Op + " " + strings.Join(list, ", ") + ";\nret; }\n"
}

// operand returns the operand with an index.
func (t Try) operand(v isa.Variant, i int, w isa.Operand) string {
	typ := fmt.Sprint("b", 8*max(syntax.TypeSize(v.Type(w)), 2))
	constant := i == t.Operand && (t.What[0] == '0' || t.What[0] == '1')
	if i == t.Operand && !constant {
		typ = t.What
	}
	space := v.Get("space")
	switch {
	case w.Role == 'm' && strings.HasPrefix(space, "shared"):
		return "[s]"
	case w.Role == 'm' && space == "local":
		return "[l]"
	case w.Role == 'm':
		return "[b64_0]"
	case w.Role == 'P':
		return "p0"
	case strings.IndexByte("ABC", w.Role) >= 0 && !constant:
		return fmt.Sprint("p", i)
	case w.Role == 'i' && !constant:
		return "8"
	}
	count, braces := 1, false
	switch {
	case w.Role >= '0' && w.Role <= '3':
		count, braces = v.Lengths(v)[w.Role-'0'], true
	case (w.Role == 'v' || w.Role == 'w') && v.Has("vec"):
		count, braces = int(v.Get("vec")[1]-'0'), true
	}
	var registers []string
	for j := range count {
		registers = append(registers, fmt.Sprintf("%s_%d", typ, j+i%2*(8-count)))
	}
	if constant {
		registers[0] = t.What
	}
	return joined(w, registers, braces)
}

// joined returns the text of an operand of some registers.
func joined(w isa.Operand, registers []string, braces bool) string {
	text := strings.Join(registers, ",")
	if braces {
		text = "{" + text + "}"
	}
	if w.Role == 's' && w.Pair {
		text += "|p0"
	}
	return text
}
