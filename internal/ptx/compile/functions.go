package compile

import (
	"fmt"
	"slices"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// FunctionAddress returns the value of a pointer to a function of the text, or false if there is no
// such function. It is the same in all kernels of the text.
func (m *Module) FunctionAddress(name string) (uint64, bool) {
	s := m.names[name]
	if s == nil || s.function == nil {
		return 0, false
	}
	for i, f := range m.functions {
		if f == s.function {
			return 16 * uint64(i+1), true
		}
	}
	return 0, false
}

// ConstantAddress returns where a variable of the text is in its constant memory, or false if there is no such
// variable.
func (m *Module) ConstantAddress(name string) (uint64, bool) {
	s := m.names[name]
	if s == nil || s.space != syntax.Const || s.v.Extern {
		return 0, false
	}
	return s.offset, true
}

// stackSize is the size of a thread's stack for functions that may call themselves, in bytes.
const stackSize = 1 << 14

// prepare makes places for the parameters of functions that are called by their addresses, and
// translates those functions, too.
func (t *translator) prepare(kernel *syntax.Function) *Error {
	t.sp = t.column()
	if !t.graph.pointers(kernel) {
		return nil
	}
	t.way = t.column()
	var args, results uint64
	for _, f := range t.graph.taken {
		_, a := layout(f.Params)
		_, r := layout(f.Results)
		args, results = max(args, a), max(results, r)
	}
	t.args = passed{t.static(args), args}
	t.answer = passed{t.static(results), results}
	for _, f := range t.graph.taken {
		t.inst = &syntax.Inst{Pos: f.Pos, Op: "call"}
		for _, v := range append(f.Params[:len(f.Params):len(f.Params)], f.Results...) {
			if v.Space != syntax.Param {
				return t.unsupported("the parameters of function " + f.Name)
			}
		}
		if _, err := t.callee(f); err != nil {
			return err
		}
	}
	return nil
}

// static returns a place in the local memory of the thread that all functions share.
func (t *translator) static(size uint64) uint64 {
	at := align(uint64(t.k.Local), 16)
	t.k.Local = uint32(min(at+size, 1<<31))
	return at
}

// layout returns the offsets of parameters that are passed to a function whose address is known, and
// their size.
func layout(list []*syntax.Var) (offsets []uint64, size uint64) {
	for _, v := range list {
		size = align(size, max(v.Align, 1))
		offsets = append(offsets, size)
		size += v.Size()
	}
	return offsets, size
}

// thunk emits the code for a function that is called by its address: it passes the parameters on.
func (t *translator) thunk(f *function) {
	pos, at := f.Pos, int32(len(t.k.Code))
	t.emit(vm.Op{Kind: vm.Nothing, Join: true}, pos, "call")
	copies := func(offset uint64, formals []*symbol, in bool) {
		var list []vm.Copy
		var vars []*syntax.Var
		for _, s := range formals {
			vars = append(vars, s.v)
		}
		offsets, _ := layout(vars)
		for i, s := range formals {
			c := vm.Copy{To: uint32(s.offset), ToBase: t.frameOf(f), From: uint32(offset + offsets[i]),
				Size: uint32(s.v.Size())}
			if !in {
				c.To, c.From, c.ToBase, c.FromBase = c.From, c.To, 0, c.ToBase
			}
			list = append(list, c)
		}
		if list != nil {
			t.emit(vm.Op{Kind: vm.Touches, Run: vm.CopyLocal, X: &vm.Detail{Copies: list}}, pos, "call")
		}
	}
	save := &vm.Detail{Saved: []int32{t.way}}
	copies(t.args.at, f.params, true)
	t.emit(vm.Op{Kind: vm.Touches, Run: vm.Save, X: save}, pos, "call")
	f.calls = append(f.calls, t.emit(vm.Op{Kind: vm.Call, D: f.back}, pos, "call"))
	t.emit(vm.Op{Kind: vm.Nothing, Join: true}, pos, "call")
	t.emit(vm.Op{Run: vm.Restore, X: save}, pos, "call")
	copies(t.answer.at, f.results, false)
	t.emit(vm.Op{Kind: vm.Return, A: t.way}, pos, "call")
	address, _ := t.FunctionAddress(f.Name)
	t.k.Entries[address] = at
}

// frameOf returns the column to which the offsets of the parameters of a function are added by those
// who call it, or 0.
func (t *translator) frameOf(f *function) int32 {
	if f.stacked {
		return t.sp
	}
	return 0
}

// base returns the column to which the offset of a local variable is added, or 0.
func (t *translator) base(s *symbol) int32 {
	if s.framed {
		return t.f.base
	}
	return 0
}

// enter emits the beginning of a function with a frame, whose size is not known yet.
func (t *translator) enter(f *function) {
	if f.stacked {
		f.base = t.column()
		f.entered = t.emit(vm.Op{Kind: vm.Touches, Run: vm.Enter, D: f.base, A: t.sp}, f.Pos, "call")
	}
}

// finish sets what is only known at the end of the translation of a function.
func (t *translator) finish(f *function, columns, predicates int) {
	if !f.stacked && f.saves == nil {
		return
	}
	if f.stacked {
		f.frame = align(f.frame, 16)
		t.k.Code[f.entered].Imm = int64(f.frame)
	}
	skip := map[int32]bool{t.sp: true}
	for _, c := range t.k.Constants {
		skip[c.Column] = true
	}
	for _, c := range t.k.Specials {
		skip[c] = true
	}
	for _, c := range f.unsaved {
		skip[c] = true
	}
	var saved, truths []int32
	if f.back != 0 {
		saved = append(saved, f.back)
	}
	for _, list := range [][]*symbol{f.params, f.results} {
		for _, s := range registers(list) {
			switch {
			case s.space != syntax.Reg:
			case s.v.Type == "pred":
				truths = append(truths, s.column)
			default:
				saved = append(saved, s.column)
			}
		}
	}
	for c := int32(columns); c < int32(t.k.Columns); c++ {
		if !skip[c] {
			saved = append(saved, c)
		}
	}
	for p := int32(predicates); p < int32(t.k.Predicates); p++ {
		if !slices.Contains(f.unsavedTruths, p) {
			truths = append(truths, p)
		}
	}
	for _, x := range f.saves {
		x.Saved, x.SavedTruths = saved, truths
	}
}

// calling is a call that is translated.
type calling struct {
	name          syntax.Operand
	results, args []syntax.Operand
	table         string // of a call by an address
	guard         int32
	skip          int32 // the branch around the call, or -1
	save          *vm.Detail
	loads         []syntax.Inst // of results in memory to registers, after the call
}

// call translates a call.
func (t *translator) call(o vm.Op) *Error {
	c := calling{guard: o.Guard, skip: -1}
	list := t.inst.Operands
	if len(list) > 0 && list[0].Kind == syntax.List {
		c.results, list = list[0].Parts, list[1:]
	}
	if len(list) == 0 || list[0].Kind != syntax.Name {
		return t.unsupported("the form of the operands")
	}
	c.name = list[0]
	if list = list[1:]; len(list) > 0 && list[0].Kind == syntax.List {
		c.args, list = list[0].Parts, list[1:]
	}
	if len(list) > 0 && list[0].Kind == syntax.Name {
		c.table, list = list[0].Name, list[1:]
	}
	s := t.lookup(c.name.Name)
	switch {
	case len(list) > 0 || s == nil || s.function == nil && (s.space != syntax.Reg || s.size != 8):
		return t.unsupported("of a function that is not named")
	case s.function == nil:
		return t.callTo(c)
	case !s.function.HasBody && systemOf(c.name.Name) != nil:
		return t.system(systemOf(c.name.Name), c)
	case !s.function.HasBody && !t.checking || s.function.Kernel:
		return t.unsupported("of function " + c.name.Name)
	}
	callee, err := t.callee(s.function)
	if err != nil {
		return err
	}
	missing := len(callee.params) - len(c.args)
	if missing != 0 && (missing != 1 || callee.Variadic() == nil) || len(c.results) != len(callee.results) {
		return t.unsupported("the number of arguments")
	}
	t.beforeCall(&c, callee.Function)
	if err := t.inMemory(&c, callee.Params, callee.Results); err != nil {
		return err
	}
	var in []vm.Copy
	for i, actual := range c.args {
		if in, err = t.argument(c.guard, actual, callee.params[i], t.frameOf(callee), in); err != nil {
			return err
		}
	}
	t.copyLocal(c.guard, in)
	callee.calls = append(callee.calls, t.emit(vm.Op{Kind: vm.Call, D: callee.back, Guard: c.guard}, t.inst.Pos,
		t.inst.Op))
	t.joinNext()
	return t.answers(&c, callee)
}

// answers emits what is done with the results of a call.
func (t *translator) answers(c *calling, callee *function) *Error {
	var out []vm.Copy
	var moves []vm.Op
	for i, formal := range callee.results {
		if ignored(c.results[i]) {
			continue
		}
		actual := t.lookup(c.results[i].Name)
		switch {
		case actual == nil || actual.v == nil || actual.space != formal.space || actual.v.Size() != formal.v.Size() ||
			len(actual.elements) != len(formal.elements) || (actual.v.Type == "pred") != (formal.v.Type == "pred"):
			return t.unsupported("the form of a result")
		case formal.space == syntax.Reg:
			to := registers([]*symbol{actual})
			for j, from := range registers([]*symbol{formal}) {
				moves = append(moves, t.answerIn(c, from, to[j]))
			}
		default:
			out = append(out, vm.Copy{To: uint32(actual.offset), ToBase: t.base(actual), From: uint32(formal.offset),
				FromBase: t.frameOf(callee), Size: uint32(formal.v.Size())})
		}
	}
	t.restore(c)
	for _, move := range moves {
		t.emit(move, t.inst.Pos, t.inst.Op)
	}
	t.copyLocal(c.guard, out)
	return t.afterCall(c)
}

// ignored reports whether nobody wants a result.
func ignored(o syntax.Operand) bool { return o.Kind == syntax.Name && o.Name == "_" }

// answerIn emits a move of a result that is a register, and returns a second one to where it belongs. It
// comes after the registers are restored, which may contain the register of the result.
func (t *translator) answerIn(c *calling, formal, actual *symbol) vm.Op {
	if formal.v.Type == "pred" {
		between, run := int32(t.k.Predicates), t.find("mov.pred").run
		t.k.Predicates++
		t.f.unsavedTruths = append(t.f.unsavedTruths, between)
		t.emit(vm.Op{Run: run, D: between, A: formal.column + 1, Guard: c.guard}, t.inst.Pos, t.inst.Op)
		return vm.Op{Run: run, D: actual.column, A: between + 1, Guard: c.guard}
	}
	between := t.column()
	t.f.unsaved = append(t.f.unsaved, between)
	t.emit(vm.Op{Run: isa.Move, D: between, A: formal.column, Guard: c.guard}, t.inst.Pos, t.inst.Op)
	return vm.Op{Run: isa.Move, D: actual.column, A: between, Guard: c.guard}
}

// registers returns the symbols of a list, with the elements of vectors instead of the vectors.
func registers(list []*symbol) (all []*symbol) {
	for _, s := range list {
		if s.elements != nil {
			all = append(all, s.elements...)
		} else {
			all = append(all, s)
		}
	}
	return all
}

// beforeCall emits what is needed if the callee may call the present function.
func (t *translator) beforeCall(c *calling, callees ...*syntax.Function) {
	back := false
	for _, f := range callees {
		back = back || t.graph.cycles[f] == t.graph.cycles[t.f.Function]
	}
	if !back {
		return
	}
	if c.guard != 0 { // after the call, the guard may have another value
		c.skip = t.emit(vm.Op{Kind: vm.Branch, Guard: -c.guard}, t.inst.Pos, t.inst.Op)
		c.guard = 0
	}
	c.save = new(vm.Detail)
	t.k.Saves = true
	t.f.saves = append(t.f.saves, c.save)
	t.emit(vm.Op{Kind: vm.Touches, Run: vm.Save, X: c.save}, t.inst.Pos, t.inst.Op)
}

// restore emits the opposite of beforeCall.
func (t *translator) restore(c *calling) {
	if c.save != nil {
		t.emit(vm.Op{Run: vm.Restore, X: c.save}, t.inst.Pos, t.inst.Op)
	}
}

// afterCall loads results from memory, and sets where a call that is not executed continues.
func (t *translator) afterCall(c *calling) *Error {
	for i := range c.loads {
		if err := t.instruction(&c.loads[i]); err != nil {
			return err
		}
	}
	if c.skip >= 0 {
		t.joinNext()
		t.k.Code[c.skip].Target = int32(len(t.k.Code) - 1)
	}
	return nil
}

// copyLocal emits copies in local memory.
func (t *translator) copyLocal(guard int32, list []vm.Copy) {
	if list != nil {
		t.emit(vm.Op{Kind: vm.Touches, Run: vm.CopyLocal, Guard: guard, X: &vm.Detail{Copies: list}}, t.inst.Pos,
			t.inst.Op)
	}
}

// callTo translates a call by an address.
func (t *translator) callTo(c calling) *Error {
	if s := t.lookup(c.table); c.table != "" && (s == nil || s.table == nil || s.table.Kind == ".branchtargets") {
		return t.unsupported(c.table + " is neither a prototype nor a list of functions")
	}
	address, err := t.source(syntax.Operand{Kind: syntax.Name, Name: c.name.Name}, "b64", false)
	if err != nil {
		return err
	}
	t.beforeCall(&c, t.graph.taken...)
	params, results := t.prototype(c.table)
	if err := t.inMemory(&c, params, results); err != nil {
		return err
	}
	in, err := t.transfers(c.args, nil, t.args, true)
	if err != nil {
		return err
	}
	out, err := t.transfers(c.results, results, t.answer, false)
	if err != nil {
		return err
	}
	t.copyLocal(c.guard, in)
	t.emit(vm.Op{Kind: vm.CallTo, A: address, D: t.way, Guard: c.guard}, t.inst.Pos, t.inst.Op)
	t.joinNext()
	t.restore(&c)
	t.copyLocal(c.guard, out)
	return t.afterCall(&c)
}

// prototype returns the parameters and results of the functions that a prototype or a list of functions describes.
func (t *translator) prototype(table string) (params, results []*syntax.Var) {
	s := t.lookup(table)
	if s == nil || s.table == nil {
		return nil, nil
	}
	for _, name := range s.table.Names {
		if f := t.names[name]; f != nil && f.function != nil {
			return f.function.Params, f.function.Results
		}
	}
	return s.table.Params, s.table.Results
}

// inMemory replaces the arguments that are registers or constants, and the results that are registers, by variables
// if the parameters of the callee are in memory. It stores the arguments.
func (t *translator) inMemory(c *calling, params, results []*syntax.Var) *Error {
	call := t.inst
	defer func() { t.inst = call }()
	at := func(o syntax.Operand) syntax.Operand {
		return syntax.Operand{Pos: call.Pos, Kind: syntax.Address, Name: o.Name}
	}
	args, err := t.variables(c.args, params)
	if err != nil {
		return err
	}
	for i, o := range args {
		if o.Name != c.args[i].Name {
			store := &syntax.Inst{Pos: call.Pos, Op: "st.param." + params[i].Type, Source: call.Source,
				Operands: []syntax.Operand{at(o), c.args[i]}}
			if err := t.instruction(store); err != nil {
				return err
			}
		}
	}
	answers, err := t.variables(c.results, results)
	if err != nil {
		return err
	}
	for i, o := range answers {
		if o.Name != c.results[i].Name {
			load := syntax.Inst{Pos: call.Pos, Op: "ld.param." + results[i].Type, Source: call.Source,
				Operands: []syntax.Operand{c.results[i], at(o)}}
			if c.skip < 0 { // the call does not change the guard
				load.Guard, load.Negated = call.Guard, call.Negated
			}
			c.loads = append(c.loads, load)
		}
	}
	c.args, c.results = args, answers
	return nil
}

// variables returns a list of operands with variables in the place of registers and constants for parameters in memory.
func (t *translator) variables(list []syntax.Operand, formal []*syntax.Var) ([]syntax.Operand, *Error) {
	list = slices.Clone(list)
	for i, o := range list {
		s := t.lookup(o.Name)
		register := o.Kind == syntax.Name && s != nil && s.space == syntax.Reg
		if i >= len(formal) || formal[i].Space != syntax.Param || !register && o.Kind != syntax.Literal {
			continue
		}
		v := *formal[i]
		if v.Array || v.Vector > 1 || register && (s.elements != nil || s.v.Type == "pred" || s.size != v.Size()) {
			return nil, t.unsupported("the form of an argument")
		}
		v.Name = fmt.Sprintf("(%s of line %d, %d)", v.Name, o.Line, o.Col) // no name of the text
		if err := t.declare(t.scopes[len(t.scopes)-1], &v); err != nil {
			return nil, err
		}
		list[i] = syntax.Operand{Pos: o.Pos, Kind: syntax.Name, Name: v.Name}
	}
	return list, nil
}

// transfers returns the copies of arguments or results of a call by an address. What no function takes or
// returns is left out: the prototype may be longer. The formal parameters say how long ignored results are.
func (t *translator) transfers(list []syntax.Operand, formal []*syntax.Var, place passed, in bool) (copies []vm.Copy,
	err *Error) {
	var actual []*symbol
	var vars []*syntax.Var
	for i, o := range list {
		if ignored(o) && i < len(formal) {
			actual, vars = append(actual, nil), append(vars, formal[i])
			continue
		}
		s := t.lookup(o.Name)
		if o.Kind != syntax.Name || s == nil || s.space != syntax.Param || t.ownParam(s) {
			return nil, t.unsupported("the form of an argument")
		}
		actual, vars = append(actual, s), append(vars, s.v)
	}
	offsets, _ := layout(vars)
	for i, s := range actual {
		if s == nil {
			continue
		}
		size := min(s.v.Size(), place.size-min(offsets[i], place.size))
		if size == 0 {
			continue
		}
		c := vm.Copy{To: uint32(place.at + offsets[i]), From: uint32(s.offset), FromBase: t.base(s), Size: uint32(size)}
		if !in {
			c.To, c.From, c.ToBase, c.FromBase = c.From, c.To, c.FromBase, 0
		}
		copies = append(copies, c)
	}
	return copies, nil
}

// callee returns a function that is called, with places for its parameters.
func (t *translator) callee(f *syntax.Function) (*function, *Error) {
	if c := t.functions[f]; c != nil {
		return c, nil
	}
	c := &function{Function: f, back: t.column(), stacked: t.graph.recursive[f] || t.graph.allocates[f]}
	for _, list := range []struct {
		vars []*syntax.Var
		to   *[]*symbol
	}{{f.Params, &c.params}, {f.Results, &c.results}} {
		for _, v := range list.vars {
			var s *symbol
			switch {
			case v.Space == syntax.Reg && (v.Array || v.Range > 0 || t.noRegister(v)):
				return nil, t.unsupported("the parameters of function " + f.Name)
			case v.Space == syntax.Reg:
				s = t.register(v)
			default:
				s = &symbol{v: v, space: syntax.Param, framed: c.stacked}
				s.offset = t.localOf(c, v)
			}
			*list.to = append(*list.to, s)
		}
	}
	t.functions[f] = c
	t.queue = append(t.queue, c)
	return c, nil
}

// argument passes an argument. What is copied in local memory is appended to a list.
func (t *translator) argument(guard int32, have syntax.Operand, formal *symbol, base int32,
	list []vm.Copy) ([]vm.Copy, *Error) {
	var actual *symbol
	if have.Kind == syntax.Name {
		actual = t.lookup(have.Name)
	}
	switch {
	case formal.space == syntax.Reg && formal.elements != nil:
		if actual == nil || len(actual.elements) != len(formal.elements) || actual.size != formal.size {
			return nil, t.unsupported("the form of an argument")
		}
		for i, to := range formal.elements {
			t.emit(vm.Op{Run: isa.Move, D: to.column, A: actual.elements[i].column, Guard: guard},
				t.inst.Pos, t.inst.Op)
		}
		return list, nil
	case formal.space == syntax.Reg && formal.v.Type == "pred":
		a, err := t.predicate(have)
		t.emit(vm.Op{Run: t.find("mov.pred").run, D: formal.column, A: a, Guard: guard}, t.inst.Pos, t.inst.Op)
		return list, err
	case formal.space == syntax.Reg:
		a, err := t.source(have, formal.v.Type, false)
		t.emit(vm.Op{Run: isa.Move, D: formal.column, A: a, Guard: guard}, t.inst.Pos, t.inst.Op)
		return list, err
	}
	if actual == nil || actual.space != syntax.Param || actual.v.Size() != formal.v.Size() && !formal.v.Open ||
		t.ownParam(actual) {
		return nil, t.unsupported("the form of an argument")
	}
	return append(list, vm.Copy{To: uint32(formal.offset), ToBase: base, From: uint32(actual.offset),
		FromBase: t.base(actual), Size: uint32(actual.v.Size())}), nil
}

// addressCalls is for calls by addresses: the column of the way back, and the places of the arguments and of the result
// in local memory.
type addressCalls struct {
	way          int32
	args, answer passed
}
