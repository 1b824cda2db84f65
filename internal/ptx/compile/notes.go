package compile

import (
	"slices"
	"strings"

	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// Note makes the kernels that are translated later have notes, for launches that are watched.
func (m *Module) Note(text string) { m.lines = strings.Split(text, "\n") }

// Instructions returns all instructions of the text, in its order, without registers and guards.
func (m *Module) Instructions() (list []vm.Inst) {
	var add func(body []syntax.Statement)
	add = func(body []syntax.Statement) {
		for _, s := range body {
			if s.Inst != nil {
				list = append(list, m.noteOf(s.Inst))
			}
			add(s.Block)
		}
	}
	for _, f := range m.Text.Functions {
		add(f.Body)
	}
	return list
}

// noteOf returns the note of an instruction without what only a translation knows.
func (m *Module) noteOf(in *syntax.Inst) vm.Inst {
	n := vm.Inst{Line: in.Line, Col: in.Col, Text: in.Op}
	if line := int(in.Line) - 1; line < len(m.lines) && int(in.Col) <= len(m.lines[line]) {
		n.Text, _, _ = strings.Cut(m.lines[line][in.Col-1:], ";")
		n.Text = strings.Join(strings.Fields(n.Text), " ")
	}
	return n
}

// noted translates an instruction, and notes it if somebody wants notes.
func (t *translator) noted(in *syntax.Inst) *Error {
	begin := len(t.k.Code)
	err := t.instruction(in)
	if err == nil && t.lines != nil && begin < len(t.k.Code) {
		t.note(in, begin)
	}
	return err
}

// endNotes is called behind the last code, which is no instruction of the text.
func (t *translator) endNotes() {
	if n := t.k.Notes; n != nil {
		n.Begins = append(n.Begins, make([]int32, len(t.k.Code)-len(n.Begins))...)
	}
}

// note notes an instruction whose code begins at an index, and ends with the code so far.
func (t *translator) note(in *syntax.Inst, begin int) {
	n := t.noteOf(in)
	if in.Guard != "" {
		// A guard that is a special register gets its value at first.
		first := slices.IndexFunc(t.k.Code[begin:], func(o vm.Op) bool { return o.Guard != 0 })
		if s := t.lookup(in.Guard); s != nil {
			n.Guard = s.column + 1
			if in.Negated {
				n.Guard = -n.Guard
			}
			n.Reads = append(n.Reads, vm.Register{Name: in.Guard, Type: "pred", Column: s.column})
		} else if first >= 0 {
			begin += first
			n.Guard = t.k.Code[begin].Guard
			n.Reads = append(n.Reads, vm.Register{Name: in.Guard, Type: "pred", Column: max(n.Guard, -n.Guard) - 1})
		}
	}
	t.noteOperands(in, &n)
	if t.k.Notes == nil {
		t.k.Notes = new(vm.Notes)
	}
	list := t.k.Notes
	list.Insts = append(list.Insts, n)
	list.Begins = append(list.Begins, make([]int32, len(t.k.Code)-len(list.Begins))...)
	list.Begins[begin] = int32(len(list.Insts))
}

// noteOperands adds the registers of an instruction.
func (t *translator) noteOperands(in *syntax.Inst, n *vm.Inst) {
	v, operands := t.form(in.Op), in.Operands
	for i, o := range operands {
		typ, writes := "", false
		if v != nil && len(v.Operands()) >= len(operands) {
			want := v.Operands()[i]
			typ, writes = v.Type(want), i == 0 && strings.ContainsRune("dxPsv0", rune(want.Role))
		}
		if writes {
			t.noteRegisters(o, typ, &n.Writes)
		} else if o.Kind != syntax.List || i > 0 { // the results of a call
			t.noteRegisters(o, typ, &n.Reads)
		}
	}
}

// noteRegisters adds the registers of an operand, each once. The type is that of the operand, or "".
func (t *translator) noteRegisters(o syntax.Operand, typ string, list *[]vm.Register) {
	for _, part := range o.Parts {
		t.noteRegisters(part, typ, list)
	}
	if o.Name == "" || o.Kind == syntax.Literal || o.Kind == syntax.Element {
		return
	}
	s, r := t.lookup(o.Name), vm.Register{Name: o.Name}
	special := special(o.Name)
	switch {
	case s != nil && s.elements != nil:
		for i, e := range s.elements {
			r := vm.Register{Name: o.Name + "." + "xyzw"[i:i+1], Type: typeOfUse(typ, e), Column: e.column}
			*list = append(*list, r)
		}
		return
	case s != nil && s.v != nil && s.space == syntax.Reg:
		r.Type, r.Column = typeOfUse(typ, s), s.column
		if o.Kind == syntax.Address {
			r.Type = s.v.Type
		}
	case s == nil && special != vm.NoSpecial:
		column, is := t.k.Specials[special]
		if !is {
			return
		}
		if r.Type, r.Column = "u32", column; wide(o.Name) {
			r.Type = "u64"
		}
	default:
		return
	}
	if !slices.ContainsFunc(*list, func(other vm.Register) bool { return other.Name == r.Name }) {
		*list = append(*list, r)
	}
}

// typeOfUse returns the type as which an instruction uses a register: the operand says more than the
// declaration if that only says how many bits there are.
func typeOfUse(operand string, s *symbol) string {
	if s.v.Type[0] == 'b' && syntax.TypeSize(operand) == s.size {
		return operand
	}
	return s.v.Type
}
