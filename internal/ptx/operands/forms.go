package operands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/syntax"
)

// Choices returns variants of a row in which each choice of each modifier occurs, and for each type each state space.
func Choices(row *isa.Instruction) (list []isa.Variant) {
	all := row.Variants()
	slices.SortStableFunc(all, func(a, b isa.Variant) int { return len(a.String()) - len(b.String()) })
	seen := make(map[string]bool)
	for _, v := range all {
		fresh := len(list) == 0
		keys := []string{v.T() + "+" + v.Get("space"), v.T() + "/" + v.Get("u") + v.Get("shape")}
		for _, word := range strings.Fields(row.Modifiers) {
			name, _, _ := strings.Cut(word, "=")
			name = strings.TrimSuffix(name, "?")
			keys = append(keys, name+"="+v.Get(name))
		}
		for _, k := range keys {
			fresh = fresh || !seen[k]
			seen[k] = true
		}
		if fresh {
			list = append(list, v)
		}
	}
	return list
}

// Form returns an instruction with operands: the registers b16_0 to b64_8, of which b64_0 is an address, p0 to p8, the
// shared array s, the local one l, the constant one c, the parameter out and the parameter pp for functions, and the
// label L and the list of labels T. Operands that may be absent are.
func Form(v isa.Variant) string {
	var list []string
	sources := 0
	for i, w := range v.Operands() {
		if w.Optional {
			continue
		}
		if w.Role == 'n' {
			sources++
		}
		list = append(list, operandOf(v, i, w, sources))
	}
	if v.Name == "call" {
		list = []string{"f"}
	}
	return v.String() + " " + strings.Join(list, ", ") + ";"
}

// operandOf returns the operand with an index. The number of addresses of sources is up to this one.
func operandOf(v isa.Variant, i int, w isa.Operand, sources int) string {
	space := v.Get("space")
	words := strings.Split(v.String(), ".")
	shared := strings.HasPrefix(space, "shared") || strings.HasPrefix(v.String(), "cp.async.c") ||
		v.Special == "bulk" && space != "global"
	switch {
	case w.Role == 'T':
		return imageOf(v)
	case w.Role == 'M':
		coordinates := slices.Repeat([]string{"b32_2"}, isa.Dimensions(v))
		return "[b64_0, {" + strings.Join(coordinates, ",") + "}]"
	case v.Special == "tensor" && (w.Role == 'm' || w.Role == 'n' && i == 1):
		return "[s+128]"
	case v.Special == "tensor" && w.Role == 'n':
		return "[s]"
	case w.Role == 'g':
		return "{b32_5,b32_6,b32_7,b32_8}"
	case w.Role == 'i' && v.Special == "warpgroup":
		return "1"
	case w.Role == 'm' && shared:
		return "[s]"
	case w.Role == 'm' && space == "local":
		return "[l]"
	case w.Role == 'm' && space == "const":
		return "[c]"
	case w.Role == 'm' && (space == "param::func" || space == "param" && v.Name == "st"):
		return "[pp]"
	case w.Role == 'm' && strings.HasPrefix(space, "param"):
		return "[out]"
	case w.Role == 'm', w.Role == 'n' && sources == 1 && (v.Special != "bulk" || slices.Contains(words, "global") &&
		space != "global"):
		return "[b64_0]"
	case w.Role == 'n':
		return "[s+64]"
	case w.Role == 'l':
		return "L"
	case w.Role == 't':
		return "T"
	case w.Role == 'P':
		return "p0"
	case strings.IndexByte("ABC", w.Role) >= 0:
		return fmt.Sprint("p", i)
	case w.Role == 'i' && v.Name == "setmaxnreg":
		return "64"
	case w.Role == 'i' && (v.Name == "discard" || v.Name == "applypriority" || v.Name == "fence"):
		return "128"
	case w.Role == 'i' && v.Name == "mma":
		return "0"
	case w.Role == 'i' && v.Get("cop") == "cg":
		return "16"
	case w.Role == 'i':
		return "8"
	case w.Role == 'b' && v.Special == "barrier":
		return "64"
	case w.Role == 'd' && v.Name == "mbarrier" && space == "shared::cluster":
		return "_"
	}
	count, braces := 1, v.Has("vec")
	switch {
	case w.Role >= '0' && w.Role <= '3':
		count, braces = v.Lengths(v)[w.Role-'0'], true
	case braces && (w.Role == 'v' || w.Role == 'w' || v.Name == "mov"):
		count = int(v.Get("vec")[1] - '0')
	default:
		braces = false
	}
	size := 8 * max(syntax.TypeSize(v.Type(w)), 2)
	var registers []string
	for j := range count { // results are not addresses
		registers = append(registers, fmt.Sprintf("b%d_%d", size, 1+(j+i%2*(7-min(count, 7)))%8))
	}
	return joined(w, registers, braces)
}

// imageOf returns the operand for a texture or a surface, whose handle is b64_0, and its coordinates.
func imageOf(v isa.Variant) string {
	n := v.Lengths(v)[1]
	if n == 0 {
		return "[b64_0]"
	}
	return "[b64_0, {" + strings.Join([]string{"b32_5", "b32_6", "b32_7", "b32_8"}[:n], ",") + "}]"
}
