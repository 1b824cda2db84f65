package compile

import (
	"fmt"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// factor translates the first factor of a product of a warpgroup: a list of registers, or a descriptor of what is in
// shared memory.
func (t *translator) factor(v *variant, o *vm.Op, have syntax.Operand, typ string) (err *Error) {
	constants := 0
	for _, w := range v.Operands() {
		if w.Role == 'i' {
			constants++
		}
	}
	inRegisters := have.Kind == syntax.Vector
	if inRegisters && constants == mostConstants { // nothing says how registers lie in memory
		constants--
	}
	if n := len(t.inst.Operands) - len("dabp"); n != constants {
		return t.unsupported(fmt.Sprintf("%d constants instead of %d", n, constants))
	}
	if inRegisters {
		return t.registers(v, o, 1, have, "b32")
	}
	o.A, err = t.source(have, typ, false)
	return err
}

// The constants of a product of a warpgroup: two say how the factors are scaled, and the others how they lie in memory.
const (
	scales        = 2
	mostConstants = 4
	constantBits  = 2
)

// factorConstant translates the constant of a product of a warpgroup with an index.
func (t *translator) factorConstant(o *vm.Op, have syntax.Operand, index int) *Error {
	n := int64(have.Number.Bits)
	switch {
	case index < scales && n != 1 && n != -1:
		return t.unsupported(fmt.Sprintf("the factor %d instead of 1 or -1", n))
	case index >= scales && n != 0 && n != 1:
		return t.unsupported(fmt.Sprintf("the constant %d instead of 0 or 1", n))
	case index == scales && o.X.Lists[1] != nil: // it is for the second factor
		o.Imm <<= constantBits
	}
	o.Imm = o.Imm<<constantBits | n&(1<<constantBits-1)
	return nil
}

// tensor translates an instruction about a map of a tensor.
func (t *translator) tensor(v *variant, o vm.Op) (err *Error) {
	list, want := t.inst.Operands, v.Operands()
	if len(list) != len(want) {
		return t.unsupported(fmt.Sprintf("%d operands", len(list)))
	}
	o.X = new(vm.Detail)
	for i, w := range want {
		switch {
		case err != nil:
		case w.Role == 'M':
			err = t.mapped(v, &o, list[i])
		case w.Role == 'm', w.Role == 'n' && i == 1:
			o.A, err = t.addressIn(syntax.Shared, list[i])
		case w.Role == 'n':
			o.E, err = t.addressIn(syntax.Shared, list[i])
		case w.Role == 'c':
			o.C, err = t.source(list[i], "b16", false)
		default: // a policy about caches
			_, err = t.source(list[i], "b64", false)
		}
	}
	if err == nil {
		t.emit(o, t.inst.Pos, t.inst.Op)
	}
	return err
}

// mapped translates a map and the coordinates of a box.
func (t *translator) mapped(v *variant, o *vm.Op, have syntax.Operand) (err *Error) {
	if have.Kind != syntax.Address || len(have.Parts) != 1 {
		return t.unsupported("the form of a map with coordinates")
	}
	vector := t.parts(have.Parts)[0]
	if vector.Kind != syntax.Vector || len(vector.Parts) != isa.Dimensions(v.Variant) {
		return t.unsupported(fmt.Sprintf("the coordinates are no vector with %d elements", isa.Dimensions(v.Variant)))
	}
	have.Parts = nil
	if o.B, err = t.addressIn(syntax.Global, have); err != nil {
		return err
	}
	for _, part := range vector.Parts {
		c, err := t.source(part, "b32", false)
		if err != nil {
			return err
		}
		o.X.Lists[1] = append(o.X.Lists[1], c)
	}
	return nil
}
