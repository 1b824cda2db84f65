// Package isa is the table of the instructions that can be executed. A row says how an instruction is
// written, which operands it has, and which function executes it. The translation, the executor, the
// tests and docs/ptx.md come from this table. To add an instruction, add a row and its function.
package isa

import (
	"slices"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// Instruction is a row of the table.
type Instruction struct {
	// Name is the first word of the instruction.
	Name string
	// Modifiers are what follows, in its order: "rn", or "sat?" if it may be absent, or a choice
	// such as "rnd?=rn|rz", which has a name. The choices t and u are the types of operands.
	Modifiers string
	// Operands are the operands: a letter for the field of the operation, a colon, and a type:
	//
	//	d          a register that is written
	//	a b c e    a register, a special register or a constant that is read
	//	P          a predicate that is written, with "|" perhaps two, the second into E
	//	A B C      a predicate that is read, perhaps negated
	//	v w        one register or a vector, that is written or read
	//	m n        an address; a second one, in a register
	//	0 1 2 3    a list of registers, of which 0 is written
	//	i          a constant
	//	g          A: the descriptor of a matrix, or the list of registers 1
	//	M          the address of a map of a tensor, in brackets, with coordinates
	//	T          the handle of a texture or surface, in brackets, with its coordinates
	//	s          d, which may have a predicate behind "|", or with "|" at the end must have one
	//
	// The type is t or u for the choice with that name, w for twice the size of t, or a type. A
	// question mark says that the operand may be absent.
	Operands string
	Kind     vm.Kind
	// Make returns the function of a variant, or nil if the variant does not exist.
	Make func(v Variant) vm.Func
	// Lengths returns the lengths of the lists 0 to 3 of a variant.
	Lengths func(v Variant) []int
	// Special is for what the translation has to do about the instruction, otherwise "".
	Special string

	slots    []slot
	operands []Operand
}

// slot is a place for a modifier.
type slot struct {
	name     string
	choices  []string
	optional bool
}

// Operand describes an operand.
type Operand struct {
	Role     byte
	Type     string
	Pair     bool
	Optional bool
}

// Variant is an instruction with its modifiers.
type Variant struct {
	*Instruction
	values []string // by the index in slots
}

// Get returns the modifier in a place, or "".
func (v Variant) Get(name string) string {
	for i, s := range v.slots {
		if s.name == name {
			return v.values[i]
		}
	}
	return ""
}

// Has reports whether an optional modifier is there.
func (v Variant) Has(name string) bool { return v.Get(name) != "" }

// T returns the type of the operands.
func (v Variant) T() string { return v.Get("t") }

// Type returns the type of an operand.
func (v Variant) Type(o Operand) string {
	switch o.Type {
	case "t", "u":
		return v.Get(o.Type)
	case "w":
		switch t := v.T(); t[1:] {
		case "16":
			return t[:1] + "32"
		case "32":
			return t[:1] + "64"
		}
		return ""
	}
	return o.Type
}

// With returns the variant with another modifier, and its function, or nil if there is none.
func (v Variant) With(name, value string) (Variant, vm.Func) {
	v = v.with(name, value)
	return v, v.Make(v)
}

// with returns the variant with another modifier.
func (v Variant) with(name, value string) Variant {
	v.values = slices.Clone(v.values)
	for i, s := range v.slots {
		if s.name == name {
			v.values[i] = value
		}
	}
	return v
}

// Operands returns the operands.
func (v Variant) Operands() []Operand { return v.operands }

// String returns the instruction as it is written.
func (v Variant) String() string {
	s := v.Name
	for _, value := range v.values {
		if value != "" {
			s += "." + value
		}
	}
	return s
}

// match assigns words to the places for modifiers.
func (row *Instruction) match(words []string) ([]string, bool) {
	values := make([]string, len(row.slots))
	for i, s := range row.slots {
		switch {
		case len(words) > 0 && slices.Contains(s.choices, words[0]):
			values[i], words = words[0], words[1:]
		case !s.optional:
			return nil, false
		}
	}
	return values, len(words) == 0
}

// matchAny assigns words to the places for modifiers, of which only the last one is in its place. Programs
// write red.add.global.relaxed.gpu.f64, and .ftz before the rounding mode.
func (row *Instruction) matchAny(words []string) ([]string, bool) {
	end := len(row.slots) - 1
	if row.Name == "mma" || row.Name == "wmma" { // nothing has a place of its own
		end = -1
	}
	values := make([]string, len(row.slots))
	rest := slices.Clone(words)
	for i, s := range row.slots {
		at := slices.IndexFunc(rest, func(word string) bool { return slices.Contains(s.choices, word) })
		switch {
		case at >= 0 && (end < 0 || (i == end) == (at == len(rest)-1)):
			values[i] = rest[at]
			rest = slices.Delete(rest, at, at+1)
		case i == end || !s.optional:
			return nil, false
		}
	}
	return values, len(rest) == 0
}

// Variants returns all variants of a row that exist.
func (row *Instruction) Variants() []Variant {
	lists := [][]string{nil}
	for _, s := range row.slots {
		var next [][]string
		for _, l := range lists {
			if s.optional {
				next = append(next, append(slices.Clone(l), ""))
			}
			for _, c := range s.choices {
				next = append(next, append(slices.Clone(l), c))
			}
		}
		lists = next
	}
	var all []Variant
	for _, values := range lists {
		v := Variant{row, values}
		if row.Make == nil || row.Make(v) != nil {
			all = append(all, v)
		}
	}
	return all
}
