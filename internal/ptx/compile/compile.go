// Package compile translates the kernels of a PTX text into the form that package vm executes.
package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// Error is the reason for which a kernel cannot be executed.
type Error struct {
	syntax.Pos
	What string // the instruction, or what else it is
	// Unknown says that PTX has the instruction, but the table does not. Otherwise the text may be
	// wrong, too. Large says that the text is right, and the kernel needs more than a GPU has.
	Unknown, Large bool
}

// Error returns the reason, with the line.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.What) }

// Module is a PTX text that was read.
type Module struct {
	Text    *syntax.Module
	names   map[string]*symbol // of the whole text
	kernels map[string]*syntax.Function
	known   map[string]*variant // instructions by their texts

	// Constants is the size of the constant memory in bytes.
	Constants uint64

	// MostShared is the largest size of the shared memory of a kernel in bytes. Parse sets it for an H200.
	MostShared uint32

	functions []*syntax.Function // of the whole text
	lines     []string           // of the text, for notes; otherwise nil
	graph     *callGraph
	checked   map[*syntax.Function]bool // the functions in which nothing is wrong, as translations have shown
}

// variant is an instruction of the table with its modifiers.
type variant struct {
	isa.Variant
	run             vm.Func
	version, target int32 // the first ones of PTX that have it
}

// symbol is what a name stands for.
type symbol struct {
	v        *syntax.Var
	space    syntax.Space
	column   int32 // of a register
	size     uint64
	offset   uint64 // of a variable in local or shared memory, or of a parameter
	placed   bool
	framed   bool // the offset is one in the frame of the function
	module   bool // a variable of the whole text
	function *syntax.Function
	label    *label
	table    *syntax.Table
	elements []*symbol // of a vector of registers
}

// label is a place in the code.
type label struct {
	at   int32 // -1 before it is known
	uses []int32
}

// Parse reads a text. The error is a *syntax.Error.
func Parse(text string) (*Module, error) {
	m, err := syntax.Parse(text)
	if err != nil {
		return nil, err
	}
	c := &Module{Text: m, MostShared: 227 << 10, names: make(map[string]*symbol),
		kernels: make(map[string]*syntax.Function),
		known:   make(map[string]*variant), checked: make(map[*syntax.Function]bool)}
	for _, v := range m.Vars {
		if len(v.Init) > 0 && v.Space != syntax.Global && v.Space != syntax.Const {
			return nil, &syntax.Error{Pos: v.Pos, Text: fmt.Sprintf("%s has an initial value in %s", v.Name, v.Space)}
		}
		if v.Space == syntax.Reg { // each kernel has its own
			continue
		}
		switch old := c.names[v.Name]; {
		case old == nil, old.v.Extern && !v.Extern:
			s := &symbol{v: v, space: v.Space, module: true}
			if c.names[v.Name] = s; v.Space == syntax.Const && !v.Extern {
				s.offset = align(c.Constants, v.Align)
				c.Constants = s.offset + v.Size()
			}
		case !v.Extern && !old.v.Extern:
			return nil, twice(v.Pos, v.Name)
		}
	}
	for _, f := range m.Functions {
		switch old := c.names[f.Name]; {
		case old == nil:
		case old.function == nil, old.function.HasBody && f.HasBody, old.function.Kernel != f.Kernel:
			return nil, twice(f.Pos, f.Name)
		case old.function.HasBody:
			continue // the declaration follows the definition
		}
		c.names[f.Name] = &symbol{function: f}
		if f.Kernel && f.HasBody {
			c.kernels[f.Name] = f
		}
	}
	for _, a := range m.Aliases {
		of := c.names[a.Of]
		if of == nil || of.function == nil || of.function.Kernel || !of.function.HasBody {
			return nil, &syntax.Error{Pos: a.Pos,
				Text: fmt.Sprintf("%s, of which %s is an alias, is no function with a body", a.Of, a.Name)}
		}
		if old := c.names[a.Name]; old != nil && (old.function == nil || old.function.Kernel || old.function.HasBody) {
			return nil, twice(a.Pos, a.Name)
		}
		c.names[a.Name] = of
	}
	for _, f := range m.Functions {
		if c.names[f.Name].function == f {
			c.functions = append(c.functions, f)
		}
	}
	c.graph = c.newGraph()
	return c, nil
}

// twice returns the error for a name that is defined twice.
func twice(pos syntax.Pos, name string) error {
	return &syntax.Error{Pos: pos, Text: fmt.Sprintf("%s is defined twice", name)}
}

// find returns an instruction of the table, or nil.
func (m *Module) find(op string) *variant {
	v, seen := m.known[op]
	if !seen {
		if found, run, is := isa.Find(op); is {
			v = &variant{Variant: found, run: run}
			v.version, v.target = isa.Since(found.String())
		}
		m.known[op] = v
	}
	return v
}

// Kernel translates a kernel. The error is an *[Error], which names the first thing that is not
// supported.
func (m *Module) Kernel(name string) (k *vm.Kernel, err error) {
	f := m.kernels[name]
	if f == nil {
		return nil, &Error{What: fmt.Sprintf("there is no kernel %q", name)}
	}
	t := m.translator(name)
	defer func() { // an error of the translator must not end the program
		if problem := recover(); problem != nil {
			e := &Error{Pos: f.Pos, What: fmt.Sprintf("this, as the translator failed: %v", problem), Unknown: true}
			if t.inst != nil {
				e.Pos, e.What = t.inst.Pos, fmt.Sprintf("%s, as the translator failed: %v", t.inst.Op, problem)
			}
			k, err = nil, e
		}
	}()
	if problem := t.all(f); problem != nil {
		return nil, problem
	}
	return t.k, nil
}

// translator returns what translates a kernel or checks a function.
func (m *Module) translator(name string) *translator {
	t := &translator{
		Module:    m,
		k:         &vm.Kernel{Name: name, Files: m.Text.Files, Predicates: falsehood + 1, Specials: make(map[vm.Special]int32)},
		constants: make(map[vm.Constant]int32),
		functions: make(map[*syntax.Function]*function),
		own:       make(map[*symbol]*symbol),
	}
	t.k.Columns = 1 // a place for what nobody reads
	return t
}

// translator translates one kernel, with the functions that it calls.
type translator struct {
	*Module
	k         *vm.Kernel
	constants map[vm.Constant]int32
	dynamicShared
	functions map[*syntax.Function]*function
	queue     []*function
	vectors   bool  // there are vectors of registers
	sp        int32 // the column of the end of the stack
	addressCalls
	own    map[*symbol]*symbol // the variables of the text that the kernel uses, in shared or local memory
	global map[string]*symbol  // the registers of the text

	f      *function
	scopes []map[string]*symbol
	inst   *syntax.Inst
	lack
}

// passed is a place in local memory for the arguments or results of calls by addresses.
type passed struct{ at, size uint64 }

// function is a function that is translated.
type function struct {
	*syntax.Function
	entry   int32
	calls   []int32 // the instructions that call it
	back    int32   // the column of the way back
	params  []*symbol
	results []*symbol

	stacked bool   // it may call itself, or allocates memory on the stack, so that it has a frame
	frame   uint64 // the size of the frame
	base    int32  // the column of the address of the frame
	entered int32  // the instruction that makes the frame
	saves   []*vm.Detail
	unsaved []int32
	// unsavedTruths is the same as unsaved for predicates.
	unsavedTruths []int32
}

// all translates a kernel, and the functions that it needs.
func (t *translator) all(kernel *syntax.Function) *Error {
	t.queue = []*function{{Function: kernel}}
	at := t.passKernel(t.queue[0])
	t.k.Params = uint32(at)
	if err := t.prepare(kernel); err != nil {
		return err
	}
	t.f = t.queue[0]
	if err := t.registersOfText(); err != nil {
		return err
	}
	for i := 0; i < len(t.queue); i++ {
		if err := t.function(t.queue[i]); err != nil {
			return err
		}
	}
	if t.lacking != nil {
		return t.lacking
	}
	for _, f := range t.queue {
		t.checked[f.Function] = true
	}
	if t.way != 0 {
		t.k.Entries = make(map[uint64]int32)
		for _, f := range t.graph.taken {
			t.thunk(t.functions[f])
		}
	}
	stacked := t.graph.allocates[kernel]
	for _, f := range t.queue {
		stacked = stacked || f.stacked
		for _, at := range f.calls {
			t.k.Code[at].Target = f.entry
		}
	}
	const mostLocal = 1 << 20
	if t.k.Shared > t.MostShared {
		return &Error{Pos: kernel.Pos, Large: true,
			What: fmt.Sprintf("too much shared data (%#x bytes, %#x max)", t.k.Shared, t.MostShared)}
	}
	if t.k.Local > mostLocal || at > 1<<16 {
		return &Error{Pos: kernel.Pos, What: "the kernel needs too much memory"}
	}
	t.k.Static = t.k.Shared
	t.k.Shared = uint32(align(uint64(t.k.Shared), max(t.aligned, 16)))
	t.k.Local = uint32(align(uint64(t.k.Local), 16))
	t.k.Code[0].Imm = int64(t.k.Local)
	if stacked {
		t.k.Local += stackSize
	}
	for _, i := range t.dynamic {
		t.k.Constants[i].Value += uint64(t.k.Shared)
	}
	t.endNotes()
	return nil
}

// passKernel makes the parameters of a kernel, and returns their size.
func (t *translator) passKernel(f *function) (size uint64) {
	for _, v := range f.Params {
		size = align(size, v.Align)
		f.params = append(f.params, &symbol{v: v, space: syntax.Param, offset: size})
		size += v.Size()
	}
	return size
}

// registersOfText declares the registers outside of functions.
func (t *translator) registersOfText() *Error {
	t.global = make(map[string]*symbol)
	for _, v := range t.Text.Vars {
		if v.Space == syntax.Reg {
			if err := t.declare(t.global, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func align(n, to uint64) uint64 { return (n + to - 1) / to * to }

// function translates a function.
func (t *translator) function(f *function) *Error {
	t.f, f.entry = f, int32(len(t.k.Code))
	columns, predicates := t.k.Columns, t.k.Predicates
	if f.Kernel { // the stack is empty
		t.emit(vm.Op{Run: isa.Set, D: t.sp}, f.Pos, "entry")
	}
	t.enter(f)
	t.scopes = []map[string]*symbol{t.global, {}}
	for i, v := range f.Params {
		t.scopes[1][v.Name] = f.params[i]
	}
	for i, v := range f.Results {
		t.scopes[1][v.Name] = f.results[i]
	}
	if err := t.block(f.Body); err != nil {
		return err
	}
	t.leave(f.Pos)
	t.finish(f, columns, predicates)
	t.k.Code[f.entry].Join = true
	return nil
}

// leave emits the end of the function.
func (t *translator) leave(pos syntax.Pos) {
	t.unwind(0, pos, "ret")
	o := vm.Op{Kind: vm.Exit}
	if !t.f.Kernel {
		o = vm.Op{Kind: vm.Return, A: t.f.back}
	}
	t.emit(o, pos, "ret")
}

// unwind emits what removes the frame of the function.
func (t *translator) unwind(guard int32, pos syntax.Pos, text string) {
	if t.f.stacked {
		t.emit(vm.Op{Run: isa.Move, D: t.sp, A: t.f.base, Guard: guard}, pos, text)
	}
}

// emit appends an instruction.
func (t *translator) emit(o vm.Op, pos syntax.Pos, text string) int32 {
	if n := len(t.k.Code); n == cap(t.k.Code) { // long code grows faster than by append
		t.k.Code, t.k.Places = slices.Grow(t.k.Code, n+16), slices.Grow(t.k.Places, n+16)
	}
	t.k.Code = append(t.k.Code, o)
	t.k.Places = append(t.k.Places, t.at(pos, text))
	return int32(len(t.k.Code) - 1)
}

// at returns the place of the present instruction.
func (t *translator) at(pos syntax.Pos, text string) vm.Place {
	p := vm.Place{Line: pos.Line, Text: text}
	if t.inst != nil && t.inst.Line == pos.Line {
		p.File, p.Source = t.inst.Source.File, t.inst.Source.Line
	}
	return p
}

// block translates statements. Their names are valid in all of them.
func (t *translator) block(list []syntax.Statement) *Error {
	scope := make(map[string]*symbol)
	t.scopes = append(t.scopes, scope)
	for _, s := range list {
		name, stands := s.Label, &symbol{label: &label{at: -1}}
		if s.Table != nil {
			name, stands = s.Table.Name, &symbol{table: s.Table}
		}
		if name != "" && scope[name] != nil {
			return &Error{Pos: t.f.Pos, What: fmt.Sprintf("label %s is there twice", name)}
		}
		scope[name] = stands
	}
	delete(scope, "")
	for _, s := range list {
		var err *Error
		switch {
		case s.Label != "":
			t.place(scope[s.Label].label)
		case s.Var != nil:
			err = t.declare(scope, s.Var)
		case s.Inst != nil:
			// The rest of the text may be wrong, which is another error.
			if err = t.noted(s.Inst); err != nil && err.Unknown {
				t.lacking, err = cmp.Or(t.lacking, err), nil
			}
		case s.Block != nil:
			err = t.block(s.Block)
		}
		if err != nil {
			return err
		}
	}
	t.scopes = t.scopes[:len(t.scopes)-1]
	for name, s := range scope {
		if s.label != nil && s.label.at < 0 {
			return &Error{Pos: t.f.Pos, What: fmt.Sprintf("label %s is nowhere", name)}
		}
	}
	return nil
}

// place sets a label to the next instruction, at which lanes may meet.
func (t *translator) place(l *label) {
	t.joinNext()
	l.at = int32(len(t.k.Code) - 1)
	for _, use := range l.uses {
		t.k.Code[use].Target = l.at
	}
	l.uses = nil
}

// joinNext marks the next instruction as one at which lanes may meet. The instruction is emitted
// later, so that an empty one is emitted here.
func (t *translator) joinNext() {
	n := len(t.k.Code)
	if n > 0 && t.k.Code[n-1].Kind == vm.Nothing && t.k.Code[n-1].Join {
		return
	}
	t.emit(vm.Op{Kind: vm.Nothing, Join: true}, syntax.Pos{}, "")
}

// declare declares registers or a variable of a function.
func (t *translator) declare(scope map[string]*symbol, v *syntax.Var) *Error {
	key := v.Name
	if v.Space == syntax.Reg && v.Range > 0 {
		key += rangeMark
	}
	switch {
	case scope[key] != nil:
		return &Error{Pos: v.Pos, What: fmt.Sprintf("%s is declared twice", v.Name)}
	case v.Space == syntax.Reg && t.noRegister(v), v.Extern && v.Space != syntax.Shared:
		return &Error{Pos: v.Pos, What: fmt.Sprintf("the declaration of %s (%s .%s)", v.Name, v.Space, v.Type)}
	case v.Space == syntax.Reg && v.Range > 0:
		// The registers are made when they are used: there may be many.
		t.vectors = t.vectors || v.Vector > 1 || v.Type == wideType
		scope[key] = &symbol{v: v, space: syntax.Reg}
		return nil
	case v.Space == syntax.Reg:
		scope[v.Name] = t.register(v)
		return nil
	case v.Global != nil:
		scope[v.Name] = t.names[v.Global.Name]
		return nil
	case v.Space == syntax.Global, v.Space == syntax.Const, len(v.Init) > 0:
		return &Error{Pos: v.Pos, What: fmt.Sprintf("variable %s in a function (%s)", v.Name, v.Space)}
	}
	s := &symbol{v: v, space: v.Space}
	switch v.Space {
	case syntax.Param, syntax.Local:
		s.framed = t.f.stacked
		s.offset = t.localOf(t.f, v)
	case syntax.Shared:
		t.shared(s)
	}
	scope[v.Name] = s
	return nil
}

// register makes a register, or a vector of registers.
func (t *translator) register(v *syntax.Var) *symbol {
	s := &symbol{v: v, space: syntax.Reg, size: syntax.TypeSize(v.Type)}
	if v.Vector > 1 || v.Type == wideType {
		element := *v
		if element.Vector, element.Range = 1, 0; v.Type == wideType {
			element.Type = "b64"
		}
		for range v.Size() / syntax.TypeSize(element.Type) {
			s.elements = append(s.elements, t.register(&element))
		}
		t.vectors = true
	} else if v.Type == "pred" {
		s.column = int32(t.k.Predicates)
		t.k.Predicates++
	} else {
		s.column = t.column()
	}
	return s
}

// column makes a column.
func (t *translator) column() int32 {
	t.k.Columns++
	return int32(t.k.Columns - 1)
}

// localOf gives a variable of a function a place in local memory.
func (t *translator) localOf(f *function, v *syntax.Var) uint64 {
	if f.stacked {
		at := align(f.frame, max(v.Align, 1))
		f.frame = min(at+v.Size(), 1<<31)
		return at
	}
	at := align(uint64(t.k.Local), max(v.Align, 1))
	t.k.Local = uint32(min(at+v.Size(), 1<<31))
	return at
}

// shared gives a variable a place in shared memory, unless it is dynamic.
func (t *translator) shared(s *symbol) {
	if s.v.Extern || s.v.Open || s.placed {
		return
	}
	at := align(uint64(t.k.Shared), max(s.v.Align, 1))
	t.k.Shared = uint32(min(at+s.v.Size(), 1<<31))
	s.offset, s.placed = vm.SharedBegin+at, true
}

// lookup returns what a name stands for, or nil.
func (t *translator) lookup(name string) *symbol {
	for i := len(t.scopes) - 1; i >= 0; i-- {
		if s := t.scopes[i][name]; s != nil {
			return s
		}
		if s := t.ranged(t.scopes[i], name); s != nil {
			return s
		}
	}
	if s := t.names[name]; s != nil || !t.vectors {
		return s
	}
	return t.element(name)
}

// rangeMark is behind the name of a range of registers. Something else may have the name itself: %r<10> declares
// %r0 to %r9, and not %r.
const rangeMark = "<"

// ranged returns a register of a range, such as %r7 of %r<10>.
func (t *translator) ranged(scope map[string]*symbol, name string) *symbol {
	i := len(name)
	for i > 0 && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	for ; i > 0 && i < len(name); i++ { // the name itself may end with digits
		s := scope[name[:i]+rangeMark]
		if s == nil || name[i] == '0' && i+1 < len(name) {
			continue
		}
		n := 0
		for _, c := range name[i:] {
			if n = n*10 + int(c-'0'); n >= s.v.Range {
				return nil
			}
		}
		made := t.register(s.v)
		one := *s.v
		one.Range, one.Name = 0, name
		made.v = &one
		scope[name] = made
		return made
	}
	return nil
}
