package compile

import (
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// system is a function that the driver has.
type system struct {
	run    vm.Func
	args   []string // the types of its parameters
	result string   // the type of its result, or ""
}

// systemOf returns the function of the driver with a name, or nil.
func systemOf(name string) *system {
	switch name {
	case "vprintf":
		return &system{vm.Print, []string{"b64", "b64"}, "b32"}
	case "malloc":
		return &system{vm.Malloc, []string{"b64"}, "b64"}
	case "free":
		return &system{vm.Free, []string{"b64"}, ""}
	case "cudaGraphSetConditional":
		return &system{vm.SetConditional, []string{"b64", "b32"}, ""}
	case "__assertfail":
		return &system{vm.Assert, []string{"b64", "b64", "b32", "b64", "b64"}, ""}
	}
	return nil
}

// System reports whether the driver has a function with this name.
func System(name string) bool { return systemOf(name) != nil }

// system translates a call of a function of the driver. Its arguments are in the fields A, B, C, E of
// the operation and the last in D; the result replaces D.
func (t *translator) system(f *system, c calling) *Error {
	if len(c.args) != len(f.args) || (len(c.results) > 0) != (f.result != "") {
		return t.unsupported("the number of arguments")
	}
	t.k.Allocates = t.k.Allocates || c.name.Name == "malloc" || c.name.Name == "free"
	o := vm.Op{Kind: vm.Touches, Run: f.run, Guard: c.guard}
	fields := []*int32{&o.A, &o.B, &o.C, &o.E, &o.D}
	for i, typ := range f.args {
		s := t.lookup(c.args[i].Name)
		var err *Error
		switch {
		case c.args[i].Kind != syntax.Name || s == nil || s.space != syntax.Param:
			*fields[i], err = t.source(c.args[i], typ, false)
		case t.ownParam(s) || s.v.Size() != syntax.TypeSize(typ):
			err = t.unsupported("the form of an argument")
		default:
			*fields[i] = t.column()
			from := vm.Op{Kind: vm.Touches, Run: t.find("ld.local." + typ).run, D: *fields[i], A: t.place0(s),
				Imm: int64(s.offset), Guard: c.guard}
			t.emit(from, t.inst.Pos, t.inst.Op)
		}
		if err != nil {
			return err
		}
	}
	if f.result == "" {
		t.emit(o, t.inst.Pos, t.inst.Op)
		return nil
	}
	if ignored(c.results[0]) {
		o.D = t.column()
		t.emit(o, t.inst.Pos, t.inst.Op)
		return nil
	}
	s := t.lookup(c.results[0].Name)
	if s == nil || s.v == nil || s.elements != nil || s.v.Size() != syntax.TypeSize(f.result) ||
		s.space != syntax.Param && s.space != syntax.Reg || t.ownParam(s) {
		return t.unsupported("the form of a result")
	}
	if s.space == syntax.Reg {
		o.D = s.column
		t.emit(o, t.inst.Pos, t.inst.Op)
		return nil
	}
	o.D = t.column()
	t.emit(o, t.inst.Pos, t.inst.Op)
	to := vm.Op{Kind: vm.Touches, Run: t.find("st.local." + f.result).run, B: o.D, A: t.place0(s),
		Imm: int64(s.offset), Guard: c.guard}
	t.emit(to, t.inst.Pos, t.inst.Op)
	return nil
}

// place0 returns the column to which the offset of a local variable is added, also if it is zero.
func (t *translator) place0(s *symbol) int32 {
	if base := t.base(s); base != 0 {
		return base
	}
	return t.constant(vm.Constant{})
}
