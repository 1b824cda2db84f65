package compile

import (
	"slices"
	"strings"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// wideType is the type of registers of 128 bits. Such a register is a vector of two registers of 64 bits, whose columns
// follow each other, so that no other instruction has to know them.
const wideType = "b128"

// The first version of PTX and the first target that have registers of 128 bits.
const (
	leastWide  = 83
	targetWide = 70
)

// noRegister reports whether there are no registers as in a declaration: they would have more than 128 bits, or need
// another version or target.
func (t *translator) noRegister(v *syntax.Var) bool {
	return v.Vector > 4 || v.Size() > 16 || v.Vector > 1 && v.Type == "pred" ||
		v.Type == wideType && (t.Text.Version < leastWide || t.Text.Target < targetWide)
}

// elementsOf returns the letters behind a dot that name elements of a vector. No text can name those of a register of
// 128 bits.
func elementsOf(s *symbol) string {
	if s.v.Type == wideType {
		return "<>"
	}
	return "xyzw"
}

// element returns an element of a vector of registers, such as v.x, or nil.
func (t *translator) element(name string) *symbol {
	vector, index, dotted := strings.Cut(name, ".")
	if !dotted || len(index) != 1 {
		return nil
	}
	s := t.lookup(vector)
	if s == nil || s.elements == nil {
		return nil
	}
	i := strings.Index(elementsOf(s), index)
	if i < 0 && s.v.Type != wideType {
		i = strings.Index("rgba", index)
	}
	if i < 0 || i >= len(s.elements) {
		return nil
	}
	return s.elements[i]
}

// parts replaces the vectors of registers in a list of operands by their elements, but those that are negated or have a
// distance, which no vector has.
func (t *translator) parts(list []syntax.Operand) []syntax.Operand {
	changed := false
	for i, o := range list {
		plain := o.Kind == syntax.Name && !o.Negated && o.Number.Bits == 0
		if s := t.lookup(o.Name); plain && s != nil && s.elements != nil {
			if !changed {
				list, changed = slices.Clone(list), true
			}
			list[i] = syntax.Operand{Pos: o.Pos, Kind: syntax.Vector, Name: o.Name}
			for j := range s.elements {
				list[i].Parts = append(list[i].Parts, syntax.Operand{Pos: o.Pos,
					Name: o.Name + "." + elementsOf(s)[j:j+1]})
			}
		}
	}
	return list
}

// isWide reports whether an operand is a register of 128 bits, of which parts has made a vector.
func (t *translator) isWide(o syntax.Operand) bool {
	return o.Kind == syntax.Vector && o.Name != "" && t.lookup(o.Name).v.Type == wideType
}

// onlyWide returns an error for a register of 128 bits that is an operand of another type.
func (t *translator) onlyWide(v *variant) *Error {
	for _, o := range t.inst.Operands {
		if v.T() != wideType && t.isWide(o) {
			return t.unsupported("register " + o.Name + " has type " + wideType)
		}
	}
	return nil
}

// wide translates an operand of 128 bits.
func (t *translator) wide(o *vm.Op, w isa.Operand, have syntax.Operand) *Error {
	if have.Kind == syntax.Name && have.Name == "_" && w.Role == 'd' {
		return nil
	}
	if !t.isWide(have) {
		return t.unsupported("an operand that is no register of 128 bits")
	}
	list := t.lookup(have.Name).elements
	switch first := list[0].column; w.Role {
	case 'd':
		o.D = first
	case 'b':
		o.B = first
	case 'c':
		o.C = first
	default: // of a load or a store
		if o.X == nil {
			o.X = new(vm.Detail)
		}
		o.X.N, o.X.D = 2, [8]int32{first, list[1].column}
	}
	return nil
}

// moveWide translates a mov of 128 bits: between two registers, or between one and a vector of two or four.
func (t *translator) moveWide(o vm.Op, to, from syntax.Operand) *Error {
	for _, one := range []syntax.Operand{to, from} {
		if n := len(one.Parts); one.Kind != syntax.Vector || n != 2 && n != 4 {
			return t.unsupported("the form of an operand")
		}
	}
	switch {
	case !t.isWide(to) && !t.isWide(from):
		return t.unsupported("from a vector to a vector")
	case len(to.Parts) == 2 && len(from.Parts) == 2:
		return t.moveElements(o, to, from, 2, "b64")
	}
	in := *t.inst
	defer func(old *syntax.Inst) { t.inst = old }(t.inst)
	half := func(o syntax.Operand, i int) syntax.Operand {
		if len(o.Parts) == 2 {
			return o.Parts[i]
		}
		return syntax.Operand{Pos: o.Pos, Kind: syntax.Vector, Parts: o.Parts[2*i : 2*i+2]}
	}
	for i := range 2 {
		in.Operands = []syntax.Operand{half(to, i), half(from, i)}
		t.inst = &in
		if _, err := t.move(t.find("mov.b64"), o); err != nil {
			return err
		}
	}
	return nil
}
