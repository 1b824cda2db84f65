package compile

import (
	"strings"

	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// image translates the handle of a texture or a surface, and the coordinates, which have a type. The handle is in a
// register, in a variable of the text, or in a parameter of the kernel.
func (t *translator) image(v *variant, o *vm.Op, have syntax.Operand, typ string) (err *Error) {
	if have.Kind != syntax.Address || have.Name == "" || have.Number.Bits != 0 || len(have.Parts) > 1 {
		return t.unsupported("the form of a texture or surface, and its coordinates")
	}
	if o.A, err = t.handle(have.Name); err != nil {
		return err
	}
	var coordinates []syntax.Operand
	if len(have.Parts) == 1 {
		coordinates = t.parts(have.Parts)
		if coordinates[0].Kind == syntax.Vector {
			coordinates = coordinates[0].Parts
		}
	}
	if len(coordinates) != v.Lengths(v.Variant)[1] {
		return t.unsupported("the number of coordinates")
	}
	if o.X == nil {
		o.X = new(vm.Detail)
	}
	for i, part := range coordinates {
		of := typ
		if i == 0 && strings.HasPrefix(v.Get("geom"), "a") { // the layer
			of = "b32"
		}
		c, err := t.source(part, of, false)
		if err != nil {
			return err
		}
		o.X.Lists[1] = append(o.X.Lists[1], c)
	}
	return nil
}

// handle returns the column of the handle that a name stands for.
func (t *translator) handle(name string) (int32, *Error) {
	s := t.lookup(name)
	load := ""
	switch {
	case s == nil || s.v == nil || s.elements != nil || s.v.Array:
	case s.space == syntax.Reg && s.size == 8:
		return s.column, nil
	case s.space == syntax.Global && strings.HasSuffix(s.v.Type, "ref"):
		load = "ld.global.u64"
	case s.space == syntax.Param && t.ownParam(s) && s.v.Size() == 8:
		load = "ld.param.u64"
	}
	if load == "" {
		return 0, t.unsupported(name + " is no handle of 64 bits")
	}
	address, err := t.address(s, 0)
	if err != nil {
		return 0, err
	}
	column := t.column()
	t.emit(vm.Op{Run: t.find(load).run, Kind: vm.Touches, D: column, A: address}, t.inst.Pos, load)
	return column, nil
}
