package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// missing are names of instructions of PTX that may not be in the table in any form.
var missing = []string{
	"alloca", "applypriority", "clusterlaunchcontrol", "cp", "createpolicy", "discard", "getctarank",
	"griddepcontrol", "istypep", "movmatrix", "multimem", "setmaxnreg", "stackrestore",
	"stacksave", "stmatrix", "tcgen05", "tensormap", "vabsdiff",
	"vabsdiff2", "vabsdiff4", "vadd", "vadd2", "vadd4", "vavrg2", "vavrg4", "vmad", "vmax", "vmax2", "vmax4", "vmin",
	"vmin2", "vmin4", "vset", "vset2", "vset4", "vshl", "vshr", "vsub", "vsub2", "vsub4", "wgmma", "wmma",
}

// form returns the instruction of the table for a text, or nil.
func (t *translator) form(op string) *variant {
	if v := t.find(op); v != nil {
		return v
	}
	if rest, is := strings.CutPrefix(op, "mad."); is && t.Text.Version <= mostUnrounded && strings.HasSuffix(op, ".f32") {
		return t.find("mad.rn." + rest)
	}
	if strings.HasPrefix(op, "wmma.") {
		return t.find(strings.Replace(op, ".sync.", ".sync.aligned.", 1))
	}
	return nil
}

// since returns an error if the text's version or target is before one that it needs.
func (t *translator) since(version, target int32) *Error {
	switch {
	case t.Text.Version < version:
		return t.unsupported(fmt.Sprintf("it needs version %d.%d of PTX", version/10, version%10))
	case t.Text.Target < target:
		return t.unsupported(fmt.Sprintf("it needs the target sm_%d", target))
	}
	return nil
}

// The alignments of memory that is allocated on the stack.
const (
	leastAligned = 8
	mostAligned  = 1 << 23
)

// instruction translates an instruction.
func (t *translator) instruction(in *syntax.Inst) *Error {
	if t.vectors && in.Op != "call" && in.Op != "call.uni" {
		one := *in
		one.Operands = t.parts(in.Operands)
		in = &one
	}
	t.inst = in
	v := t.form(in.Op)
	if v == nil {
		if name, _, _ := strings.Cut(in.Op, "."); !isa.Has(name) && !slices.Contains(missing, name) {
			return t.unsupported("there is no instruction with this name")
		}
		err := t.unsupported("")
		err.Unknown = true
		return err
	}
	if err := cmp.Or(t.available(v), t.onlyWide(v)); err != nil {
		return err
	}
	o := vm.Op{Run: v.run, Kind: v.Kind}
	if in.Guard != "" {
		p, err := t.predicate(syntax.Operand{Kind: syntax.Name, Name: in.Guard, Negated: in.Negated})
		if err != nil {
			return err
		}
		o.Guard = p
	}
	switch v.Special {
	case "mov":
		if done, err := t.move(v, o); done || err != nil {
			return err
		}
	case "call":
		return t.call(o)
	case "ret":
		t.unwind(o.Guard, in.Pos, in.Op)
		if o.A = t.f.back; t.f.Kernel {
			o.Kind = vm.Exit
		}
	case "trap":
		o.Imm = vm.LaunchFailed
	case "barrier":
		o.X = &vm.Detail{Arrive: v.Get("arrive") == "arrive", Reduce: v.run != nil}
		o.Imm = isa.Reduction(v.Variant)
	case "whole", "warpgroup":
		o.X = new(vm.Detail)
		o.E = t.constant(vm.Constant{Value: uint64(vm.Full)})
	case "cluster":
		o.X = &vm.Detail{Arrive: v.Has("arrive")}
		t.k.Clusters = true
	case "clusters":
		t.k.Clusters = true
	case "counted", "lists":
		o.X = new(vm.Detail)
	case "before sm_70":
		if t.Text.Target >= 70 && t.Text.Version >= 64 {
			return t.unsupported("without .sync")
		}
	case "copy":
		return t.copyAsync(v, o)
	case "bulk":
		return t.bulk(v, o)
	case "tensor":
		return t.tensor(v, o)
	case "stack":
		o.A, o.Imm = t.sp, leastAligned
	case "anyplace":
		o.Imm = vm.AnyPlace
	}
	if err := t.operands(v, &o); err != nil {
		return err
	}
	t.emit(o, in.Pos, in.Op)
	switch o.Kind {
	case vm.Branch, vm.Index, vm.Sync, vm.Barrier, vm.Cluster, vm.Exit, vm.Return:
		t.joinNext()
	}
	return nil
}

// operands translates the operands of an instruction.
func (t *translator) operands(v *variant, o *vm.Op) *Error {
	want, have := v.Operands(), t.inst.Operands
	required := 0
	for _, w := range want {
		if !w.Optional {
			required++
		}
	}
	if len(have) < required || len(have) > len(want) {
		return t.unsupported(fmt.Sprintf("%d operands", len(have)))
	}
	spare := len(have) - required // how many of the optional ones are there
	constants := 0
	for _, w := range want {
		if w.Optional {
			if spare == 0 {
				continue
			}
			spare--
		}
		if err := t.operand(v, o, w, have[0], constants); err != nil {
			return err
		}
		if have = have[1:]; w.Role == 'i' {
			constants++
		}
	}
	return nil
}

// operand translates one operand. If it is a constant, there are so many before.
func (t *translator) operand(v *variant, o *vm.Op, w isa.Operand, have syntax.Operand, index int) (err *Error) {
	typ := v.Type(w)
	if err := t.restricted(v, w, have); err != nil {
		return err
	}
	if typ == wideType && w.Role != 'm' {
		return t.wide(o, w, have)
	}
	switch w.Role {
	case 'd':
		o.D, err = t.destination(have, typ, false)
	case 'x': // of a conversion
		o.D, err = t.destination(have, typ, !ofBF16(v))
	case 'y':
		o.A, err = t.source(have, typ, !ofBF16(v))
	case 'a':
		o.A, err = t.source(have, typ, false)
	case 'g':
		err = t.factor(v, o, have, typ)
	case 'b':
		if o.B, err = t.source(have, typ, false); o.X != nil {
			o.X.Counted = o.Kind == vm.Barrier || v.Special == "counted"
		}
	case 'c':
		o.C, err = t.source(have, typ, false)
	case 'e':
		o.E, err = t.source(have, typ, false)
	case 'A':
		o.A, err = t.predicate(have)
	case 'B':
		o.B, err = t.predicate(have)
	case 'C':
		o.C, err = t.predicate(have)
	case 'P':
		err = t.results(o, w, have)
	case 's':
		second := have
		if have.Kind == syntax.Pair {
			have, second = have.Parts[0], have.Parts[1]
			p, err := t.truth(second)
			if err != nil {
				return err
			}
			o.X = &vm.Detail{P: p + 1}
		}
		o.D, err = t.destination(have, typ, false)
	case 'v':
		err = t.vectorOf(v, o, have, typ, &o.D, true)
	case 'w':
		err = t.vectorOf(v, o, have, typ, &o.B, false)
	case 'm':
		if o.Kind == vm.Nothing {
			return nil
		}
		err = t.access(v, o, have)
	case 'T':
		err = t.image(v, o, have, typ)
	case 'n':
		err = t.secondAddress(o, have)
	case '0', '1', '2', '3':
		err = t.registers(v, o, int(w.Role-'0'), have, typ)
	case 'i':
		if have.Kind != syntax.Literal {
			return t.unsupported("a constant is expected")
		}
		if v.Special == "warpgroup" {
			return t.factorConstant(o, have, index)
		}
		o.Imm = int64(have.Number.Bits)
	case 'l':
		err = t.target(o, have)
	case 't':
		err = t.targets(o, have)
	}
	return err
}

// ofBF16 reports whether a conversion is from or to bf16: its registers may not be wider than
// their values.
func ofBF16(v *variant) bool { return v.T() == "bf16" || v.Get("u") == "bf16" }

// restricted returns an error for an operand that NVIDIA's compiler (driver 580) rejects although it
// has the right type.
func (t *translator) restricted(v *variant, w isa.Operand, have syntax.Operand) *Error {
	constant, n := have.Kind == syntax.Literal, have.Number.Bits
	float := constant && isFloat(have.Number)
	switch {
	case constant && v.Name == "setp" && w.Role == 'C' && strings.HasPrefix(v.T(), "bf16"):
		return t.unsupported("a constant as a predicate")
	case constant && v.Name == "stackrestore", float && v.Name == "bmsk":
		return t.unsupported("a constant")
	case constant && (v.Name == "discard" || v.Name == "applypriority") && w.Role == 'i' && n != 128:
		return t.unsupported(fmt.Sprintf("%d bytes instead of 128", int64(n)))
	case v.Name == "setmaxnreg" && constant && (n < 24 || n > 256 || n%8 != 0):
		return t.unsupported(fmt.Sprintf("%d registers", int64(n)))
	case constant && (v.Special == "registers" || v.Name == "movmatrix" || v.Name == "cvt" &&
		strings.HasSuffix(v.Get("u"), "x2")), float && v.Name[0] == 'v' && v.Name != "vote":
		return t.unsupported("a constant")
	case constant && (v.Name == "bfe" || v.Name == "bfi") && v.Type(w) == "b32" && w.Type == "b32" && n > 255:
		return t.unsupported("a position or length above 255")
	case w.Role == 'd' && v.Name == "mbarrier" && v.Get("space") == "shared::cluster" && have.Name != "_":
		return t.unsupported("the result of a barrier of another block")
	case v.Name == "alloca" && w.Role == 'i' && (n&(n-1) != 0 || n == 0 || n > mostAligned):
		return t.unsupported(fmt.Sprintf("an alignment of %d", n))
	case constant && v.Name == "fence" && n != 128:
		return t.unsupported(fmt.Sprintf("%d bytes instead of 128", int64(n)))
	case constant && v.Name == "wgmma" && v.Kind == vm.Nothing && int64(n) < 0:
		return t.unsupported("a constant below 0")
	case constant && v.Name == "mma" && w.Role == 'a':
		return t.unsupported("a constant")
	case constant && v.Name == "mma" && w.Role == 'i' && n >= isa.Selectors(v.Variant):
		return t.unsupported(fmt.Sprintf("a selector of %d", int64(n)))
	case constant && v.Special == "barrier" && w.Role == 'a' && n > 15:
		return t.unsupported("a barrier above 15")
	case constant && v.Special == "barrier" && w.Role == 'b' && n%vm.Lanes != 0:
		return t.unsupported("threads that are no whole warps")
	case w.Role == 's' && w.Pair && have.Kind != syntax.Pair:
		return t.unsupported("the predicate is missing")
	case w.Role == 'P' && v.Name == "setp" && have.Kind == syntax.Pair && strings.HasSuffix(v.T(), "f16"):
		return t.unsupported("a second predicate")
	}
	return t.unfit(v, w, have)
}

// vectorOf translates the registers of a load or store.
func (t *translator) vectorOf(v *variant, o *vm.Op, have syntax.Operand, typ string, single *int32, write bool) *Error {
	n := map[string]int{"": 0, "v2": 2, "v4": 4}[v.Get("vec")]
	if n == 0 && have.Kind == syntax.Vector && len(have.Parts) == 1 { // as Triton writes a register
		have = have.Parts[0]
	}
	if (n > 0) != (have.Kind == syntax.Vector) || n > 0 && len(have.Parts) != n || n > 0 &&
		uint64(n)*syntax.TypeSize(typ) > 16 {
		return t.unsupported("the form of a vector")
	}
	return t.vector(o, have, typ, single, write)
}

// registers translates a list of registers.
func (t *translator) registers(v *variant, o *vm.Op, list int, have syntax.Operand, typ string) *Error {
	parts := []syntax.Operand{have}
	if have.Kind == syntax.Vector {
		parts = have.Parts
	}
	if len(parts) != v.Lengths(v.Variant)[list] {
		return t.unsupported(fmt.Sprintf("a list of %d registers", len(parts)))
	}
	for _, part := range parts {
		c, err := int32(0), (*Error)(nil)
		if list == 0 {
			c, err = t.destination(part, typ, false)
		} else {
			c, err = t.source(part, typ, false)
		}
		if err != nil {
			return err
		}
		o.X.Lists[list] = append(o.X.Lists[list], c)
	}
	return nil
}

// secondAddress translates the address of the source of a copy, which is one of global memory.
func (t *translator) secondAddress(o *vm.Op, have syntax.Operand) *Error {
	if have.Kind != syntax.Address || have.Name == "" || have.Parts != nil {
		return t.unsupported("the form of an address")
	}
	s := t.lookup(have.Name)
	var err *Error
	switch {
	case s == nil || s.v == nil || s.elements != nil || s.space == syntax.Reg && s.size != 8 ||
		s.space != syntax.Reg && s.space != syntax.Global:
		return t.unsupported("address " + have.Name)
	case s.space == syntax.Reg:
		o.B, o.X.Offset = s.column, int64(have.Number.Bits)
	default:
		o.B, err = t.address(s, have.Number.Bits)
	}
	return err
}

// copyAsync translates cp.async: two addresses, a size, and perhaps how many bytes are read, or a
// predicate for none.
func (t *translator) copyAsync(v *variant, o vm.Op) *Error {
	list := t.inst.Operands
	if v.Has("hint") && len(list) > 3 { // the last operand is a policy about caches
		if _, err := t.source(list[len(list)-1], "b64", false); err != nil {
			return err
		}
		list = list[:len(list)-1]
	}
	if len(list) != 3 && len(list) != 4 || list[2].Kind != syntax.Literal {
		return t.unsupported("the form of the operands")
	}
	o.X = &vm.Detail{N: int(list[2].Number.Bits)}
	if n := o.X.N; n != 16 && (v.Get("cop") == "cg" || n != 4 && n != 8) {
		return t.unsupported("the size of a copy")
	}
	err := t.access(v, &o, list[0])
	if err == nil {
		err = t.secondAddress(&o, list[1])
	}
	if len(list) == 4 && err == nil {
		if s := t.lookup(list[3].Name); s != nil && s.space == syntax.Reg && s.v.Type == "pred" {
			o.X.P, err = t.predicate(list[3])
		} else {
			o.X.Counted = true
			o.C, err = t.source(list[3], "b32", false)
		}
	}
	if err == nil {
		t.emit(o, t.inst.Pos, t.inst.Op)
	}
	return err
}

// bulk translates an operation that a barrier in memory counts in bytes, or that belongs to a group.
func (t *translator) bulk(v *variant, o vm.Op) (err *Error) {
	list, want := t.inst.Operands, v.Operands()
	if len(list) != len(want) {
		return t.unsupported(fmt.Sprintf("%d operands", len(list)))
	}
	space := syntax.Shared
	if v.Get("space") == "global" {
		space = syntax.Global
	}
	for i, w := range want {
		if err == nil {
			err = t.restricted(v, w, list[i])
		}
		switch {
		case err != nil:
		case w.Role == 'm':
			o.A, err = t.addressIn(space, list[i])
		case w.Role == 'w':
			err = t.vectorOf(v, &o, list[i], v.T(), &o.B, false)
		case w.Role == 'n' && i == 1: // of the source
			if space == syntax.Shared && slices.Contains(strings.Split(t.inst.Op, "."), "global") {
				o.B, err = t.addressIn(syntax.Global, list[i])
			} else {
				o.B, err = t.addressIn(syntax.Shared, list[i])
			}
		case w.Role == 'n': // of the barrier
			o.E, err = t.addressIn(syntax.Shared, list[i])
		case w.Role == 'b':
			o.B, err = t.source(list[i], v.T(), false)
		case w.Role == 'c':
			o.C, err = t.source(list[i], "b32", false)
		default: // a policy about caches
			_, err = t.source(list[i], "b64", false)
		}
	}
	if err == nil {
		t.emit(o, t.inst.Pos, t.inst.Op)
	}
	return err
}

// addressIn returns the column of an address in a state space.
func (t *translator) addressIn(space syntax.Space, have syntax.Operand) (int32, *Error) {
	if have.Kind != syntax.Address || have.Parts != nil {
		return 0, t.unsupported("the form of an address")
	}
	if have.Name == "" {
		return t.constant(vm.Constant{Value: have.Number.Bits}), nil
	}
	s := t.lookup(have.Name)
	switch {
	case s == nil || s.v == nil || s.v.Type == "pred" || s.elements != nil || s.space != syntax.Reg && s.space != space,
		s.space == syntax.Reg && s.size != 8 && (s.size != 4 || space != syntax.Shared):
		return 0, t.unsupported("address " + have.Name)
	case s.space != syntax.Reg:
		return t.address(s, have.Number.Bits)
	case have.Number.Bits == 0:
		return s.column, nil
	}
	column := t.column()
	t.emit(vm.Op{Run: t.find("add.u64").run, D: column, A: s.column,
		B: t.constant(vm.Constant{Value: have.Number.Bits})}, t.inst.Pos, t.inst.Op)
	return column, nil
}

// results translates one or two predicates that are written.
func (t *translator) results(o *vm.Op, w isa.Operand, have syntax.Operand) (err *Error) {
	if have.Kind == syntax.Pair && w.Pair {
		q, err := t.truth(have.Parts[1])
		if err != nil {
			return err
		}
		o.E, have = q+1, have.Parts[0]
		o.D, err = t.truth(have)
		return err
	}
	if o.D, err = t.truth(have); err == nil && o.D < 0 {
		err = t.unsupported("the result is missing")
	}
	return err
}

// target translates the label of a branch.
func (t *translator) target(o *vm.Op, have syntax.Operand) *Error {
	s := t.lookup(have.Name)
	if have.Kind != syntax.Name || s == nil || s.label == nil {
		return t.unsupported(fmt.Sprintf("%s is no label", have.Name))
	}
	if o.Target = s.label.at; s.label.at < 0 {
		s.label.uses = append(s.label.uses, int32(len(t.k.Code)))
	}
	return nil
}

// targets translates the list of labels of a branch.
func (t *translator) targets(o *vm.Op, have syntax.Operand) *Error {
	s := t.lookup(have.Name)
	if s == nil || s.table == nil || s.table.Kind != ".branchtargets" {
		return t.unsupported(fmt.Sprintf("%s is no list of labels", have.Name))
	}
	// Each target is an unconditional branch of its own, as a list may contain a label twice.
	o.X = new(vm.Detail)
	at := t.emit(vm.Op{Kind: vm.Branch}, t.inst.Pos, t.inst.Op)
	for _, name := range s.table.Names {
		o.X.Targets = append(o.X.Targets, int32(len(t.k.Code)))
		branch := vm.Op{Kind: vm.Branch}
		if err := t.target(&branch, syntax.Operand{Kind: syntax.Name, Name: name}); err != nil {
			return err
		}
		t.emit(branch, t.inst.Pos, t.inst.Op)
	}
	t.k.Code[at].Target = int32(len(t.k.Code))
	return nil
}

// move translates a mov with a vector. It reports whether it has done so.
func (t *translator) move(v *variant, o vm.Op) (done bool, err *Error) {
	list := t.inst.Operands
	if len(list) != 2 {
		return false, nil
	}
	typ := v.T()
	for i, w := range v.Operands() {
		if err := t.unfit(v, w, list[i]); err != nil {
			return true, err
		}
	}
	switch {
	case typ == wideType:
		return true, t.moveWide(o, list[0], list[1])
	case v.Has("vec"):
		return true, t.moveElements(o, list[0], list[1], int(v.Get("vec")[1]-'0'), typ)
	}
	vector, other := 0, 1
	switch syntax.Vector {
	case list[0].Kind:
		o.Run = isa.Unpack
		o.A, err = t.source(list[1], typ, false)
	case list[1].Kind:
		o.Run = isa.Pack
		vector, other = 1, 0
		o.D, err = t.destination(list[other], typ, false)
	default:
		return false, nil
	}
	if err != nil {
		return true, err
	}
	parts := uint64(len(list[vector].Parts))
	size := syntax.TypeSize(typ)
	if typ[0] != 'b' {
		return true, t.unsupported("a vector as a value of type " + typ)
	}
	if parts != 2 && parts != 4 || size/parts == 0 {
		return true, t.unsupported("the form of a vector")
	}
	part := map[uint64]string{1: "b8", 2: "b16", 4: "b32"}[size/parts]
	if err := t.vector(&o, list[vector], part, new(int32), vector == 0); err != nil {
		return true, err
	}
	o.Imm = int64(8 * size / parts)
	t.emit(o, t.inst.Pos, t.inst.Op)
	return true, nil
}

// moveElements translates a mov from one vector to another. All elements are read before one is written.
func (t *translator) moveElements(o vm.Op, to, from syntax.Operand, n int, typ string) *Error {
	if from.Kind == syntax.Name && n == 4 && special(from.Name+".x") != vm.NoSpecial {
		from = syntax.Operand{Kind: syntax.Vector, Parts: []syntax.Operand{{Name: from.Name + ".x"},
			{Name: from.Name + ".y"}, {Name: from.Name + ".z"}, {Name: from.Name + ".w"}}}
	}
	if to.Kind != syntax.Vector || from.Kind != syntax.Vector || len(to.Parts) != n || len(from.Parts) != n {
		return t.unsupported("the form of a vector")
	}
	between := make([]int32, n)
	for i, part := range from.Parts {
		a, err := t.source(part, typ, false)
		if err != nil {
			return err
		}
		between[i] = t.column()
		t.emit(vm.Op{Run: o.Run, D: between[i], A: a, Guard: o.Guard}, t.inst.Pos, t.inst.Op)
	}
	for i, part := range to.Parts {
		d, err := t.destination(part, typ, false)
		if err != nil {
			return err
		}
		t.emit(vm.Op{Run: o.Run, D: d, A: between[i], Guard: o.Guard}, t.inst.Pos, t.inst.Op)
	}
	return nil
}
