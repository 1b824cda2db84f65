package compile

import (
	"fmt"
	"strings"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/syntax"
)

// NVIDIA's compiler rejects registers whose declared type does not fit the operand. What follows
// is what the compiler of driver 580 has said about the entries of the table with registers of
// all types: see package operands.

// Types of operands that no instruction names.
const (
	anyBits  = ""       // any register
	count    = "count"  // distances, masks, numbers of threads and bytes, and policies about caches
	untyped  = "bits"   // only registers of a type b
	elements = "number" // vectors and lists that take integers for floats, but no pairs of floats
)

// registerType returns the type that a register for an operand has to fit.
func registerType(v *variant, w isa.Operand) string {
	fixed := w.Type != "t" && w.Type != "u" && w.Type != "w"
	vector := v.Has("vec") && v.Get("vec") != "v1"
	switch name := v.Name; {
	case w.Role >= '0' && w.Role <= '3':
		return listType(v, int(w.Role-'0'))
	case strings.HasSuffix(name, "matrix"), name == "fns", name == "brx", name == "shfl" && fixed && w.Role != 'e':
		return anyBits
	case name == "mbarrier", name == "redux", name == "nanosleep", name == "createpolicy" && v.Type(w) != "f32":
		return count
	case name == "set" && w.Role == 'd':
		switch v.Get("to") {
		case "bf16":
			return count
		case "bf16x2":
			return anyBits
		}
		return v.Get("to")
	case name == "cvt" && fixed && v.Has("pack"):
		if w.Role == 'c' {
			return anyBits
		}
		return "s32"
	case name == "cvt" && fixed:
		if v.Type(w) == "b32" { // the other is of floats of 8 bits
			return "f16x2"
		}
		return untyped
	case fixed && (v.Has("u16x2") || v.Has("s16x2")):
		return "f16x2"
	case fixed && name[0] == 'v' && name != "vote" &&
		(!strings.HasPrefix(name, "vset") || w.Role == 'a' || w.Role == 'b'):
		return "s32"
	case fixed && v.Type(w)[0] == 'f':
		return v.Type(w)
	case fixed:
		return count
	case vector && (w.Role == 'v' || w.Role == 'w') && (v.T() == "f32" || v.T() == "f64"):
		return elements
	}
	return v.Type(w)
}

// listType returns the type that the registers of a list have to fit.
func listType(v *variant, list int) string {
	typ := v.T()
	switch v.Name {
	case "ldmatrix", "stmatrix", "tex":
		return anyBits
	case "atom", "red":
		switch typ {
		case "f32":
			return elements
		case "f16":
			return anyBits
		case "bf16", "bf16x2":
			return untyped
		}
		return typ
	case "mma", "wmma":
		if v.Has("dt") {
			typ = [...]string{v.Get("dt"), v.T(), v.Get("u"), v.Get("ct")}[list]
		}
		if typ == "" { // of wmma without them
			typ = "f16"
		}
	}
	switch typ {
	case "f64":
		if v.Name == "mma" || v.Has("dt") && (list == 0 || list == 3) {
			return anyBits
		}
	case "s8", "u8":
		if v.Name == "wmma" || v.Get("shape") == "m8n8k16" {
			return count
		}
		return anyBits
	case "f16":
		return "f16x2"
	case "s32":
		return count
	case "bf16", "tf32":
		return untyped
	case "b1", "s4", "u4", "e4m3", "e5m2":
		return anyBits
	}
	return typ
}

func isFloat(n syntax.Number) bool { return n.Kind == syntax.Float32 || n.Kind == syntax.Float64 }

// fits reports whether a register of a declared type may be an operand of a type.
func fits(register, want string) bool {
	integer := register[0] == 'u' || register[0] == 's'
	switch want {
	case anyBits:
		return true
	case untyped, "bf16", "bf16x2", "tf32":
		return register[0] == 'b'
	case "u16x2", "s16x2":
		want = "f16x2"
	case elements:
		return register != "f16x2"
	case count:
		return register[0] == 'b' || integer
	}
	if want[0] == 'u' || want[0] == 's' {
		integer = integer || register == "f16x2"
		return register[0] == 'b' || integer
	}
	return register[0] == 'b' || want[0] == 'b' || register == want
}

// unfit returns an error for a register whose type does not fit an operand, and for a float that
// is no value.
func (t *translator) unfit(v *variant, w isa.Operand, have syntax.Operand) *Error {
	if strings.IndexByte("PABCmnlt", w.Role) >= 0 {
		return nil
	}
	parts := []syntax.Operand{have}
	switch have.Kind {
	case syntax.Vector:
		parts = have.Parts
	case syntax.Pair:
		parts = have.Parts[:1]
	}
	want := count // for a constant
	size := uint64(0)
	if w.Role != 'i' {
		want, size = registerType(v, w), max(syntax.TypeSize(v.Type(w)), 2)
	}
	for _, part := range parts {
		if part.Kind == syntax.Literal {
			if want == count && isFloat(part.Number) {
				return t.unsupported("a float as a distance, mask, number or policy")
			}
			continue
		}
		// Whether a wider register fits depends on the instruction.
		if s := t.lookup(part.Name); part.Kind == syntax.Name && s != nil && s.space == syntax.Reg &&
			s.elements == nil && s.v.Type != "pred" && s.size == size && !fits(s.v.Type, want) {
			return t.unsupported(fmt.Sprintf("register %s has type %s", part.Name, s.v.Type))
		}
	}
	return nil
}
