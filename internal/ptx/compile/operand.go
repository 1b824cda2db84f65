package compile

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// unsupported returns the error for the present instruction.
func (t *translator) unsupported(why string) *Error {
	what := t.inst.Op
	if why != "" {
		what += ": " + why
	}
	return &Error{Pos: t.inst.Pos, What: what}
}

// constant returns the column of a constant.
func (t *translator) constant(c vm.Constant) int32 {
	if column, made := t.constants[c]; made {
		return column
	}
	column := t.column()
	t.constants[c] = column
	c.Column = column
	t.k.Constants = append(t.k.Constants, c)
	return column
}

// literal returns a number as a value of a type.
func (t *translator) literal(n syntax.Number, typ string) (uint64, *Error) {
	size := syntax.TypeSize(typ)
	float := n.Kind == syntax.Float32 || n.Kind == syntax.Float64
	switch {
	case size == 0 || size > 8 || strings.HasSuffix(typ, "f16") || strings.HasSuffix(typ, "x2"):
		return 0, t.unsupported("a constant of type " + typ)
	case n.Kind == syntax.Float32 && (typ == "f32" || typ == "b32"):
		return n.Bits, nil
	case float && typ == "f32":
		return uint64(math.Float32bits(float32(n.Float()))), nil
	case float && typ == "f64", n.Kind == syntax.Float64 && typ == "b64":
		return math.Float64bits(n.Float()), nil
	case float:
		return 0, t.unsupported("a float as a constant of type " + typ)
	case typ == "f32" || typ == "f64":
		return 0, t.unsupported("an integer as a constant of type " + typ)
	}
	return n.Bits << (64 - 8*size) >> (64 - 8*size), nil
}

// specials are the special registers that do not change while a thread runs, by their names.
var specials = map[string]vm.Special{
	"%tid.x":                      vm.TidX,
	"%tid.y":                      vm.TidY,
	"%tid.z":                      vm.TidZ,
	"%ntid.x":                     vm.NtidX,
	"%ntid.y":                     vm.NtidY,
	"%ntid.z":                     vm.NtidZ,
	"%ctaid.x":                    vm.CtaidX,
	"%ctaid.y":                    vm.CtaidY,
	"%ctaid.z":                    vm.CtaidZ,
	"%nctaid.x":                   vm.NctaidX,
	"%nctaid.y":                   vm.NctaidY,
	"%nctaid.z":                   vm.NctaidZ,
	"%laneid":                     vm.LaneID,
	"%warpid":                     vm.WarpID,
	"%nwarpid":                    vm.NwarpID,
	"%lanemask_eq":                vm.LanemaskEq,
	"%lanemask_le":                vm.LanemaskLe,
	"%lanemask_lt":                vm.LanemaskLt,
	"%lanemask_ge":                vm.LanemaskGe,
	"%lanemask_gt":                vm.LanemaskGt,
	"%dynamic_smem_size":          vm.DynamicShared,
	"%smid":                       vm.SMID,
	"%nsmid":                      vm.NSMID,
	"%gridid":                     vm.GridID,
	"%clusterid.x":                vm.ClusterX,
	"%clusterid.y":                vm.ClusterY,
	"%clusterid.z":                vm.ClusterZ,
	"%nclusterid.x":               vm.NclusterX,
	"%nclusterid.y":               vm.NclusterY,
	"%nclusterid.z":               vm.NclusterZ,
	"%cluster_ctaid.x":            vm.ClusterCtaidX,
	"%cluster_ctaid.y":            vm.ClusterCtaidY,
	"%cluster_ctaid.z":            vm.ClusterCtaidZ,
	"%cluster_nctaid.x":           vm.ClusterNctaidX,
	"%cluster_nctaid.y":           vm.ClusterNctaidY,
	"%cluster_nctaid.z":           vm.ClusterNctaidZ,
	"%cluster_ctarank":            vm.ClusterCtarank,
	"%cluster_nctarank":           vm.ClusterNctarank,
	"%reserved_smem_offset_begin": vm.Zero,
	"%reserved_smem_offset_0":     vm.Zero,
	"%reserved_smem_offset_end":   vm.Reserved,
	"%reserved_smem_offset_cap":   vm.Reserved,
	"%reserved_smem_offset_1":     vm.ReservedOne,
	"%total_smem_size":            vm.TotalShared,
	"%aggr_smem_size":             vm.AggregateShared,
	"%current_graph_exec":         vm.Zero, // no kernel is in a graph that was launched by a kernel
	"%envreg1":                    vm.Env1,
	"%envreg2":                    vm.Env2,
}

// special returns the special register with this name, or NoSpecial if there is none that does not change.
func special(name string) vm.Special {
	if s, is := specials[name]; is {
		return s
	}
	// The other elements of a position or a size: w is 0, and r, g, b and a are other names of x, y, z and w.
	if vector, index, is := strings.Cut(name, "."); is {
		switch index {
		case "w", "a":
			if special(vector+".x") != vm.NoSpecial {
				return vm.Zero
			}
		case "r", "g", "b":
			return special(vector + "." + string("xyz"[strings.Index("rgb", index)]))
		}
	}
	if n, is := numbered(name, "%envreg"); is && n < 32 {
		return vm.Zero
	}
	// The counters of performance monitors do not count.
	if n, is := numbered(strings.TrimSuffix(name, "_64"), "%pm"); is && n < 8 {
		return vm.Zero
	}
	return vm.NoSpecial
}

// numbered returns the number of a special register with a name.
func numbered(register, name string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(register, name))
	return n, err == nil && n >= 0 && strings.HasPrefix(register, name)
}

// wide reports whether a special register that does not change has 64 bits.
func wide(name string) bool {
	return name == "%gridid" || name == "%current_graph_exec" || strings.HasPrefix(name, "%pm") &&
		strings.HasSuffix(name, "_64")
}

// source returns the column of an operand that is read. Its register has the size of the type, or
// with wider set at least that size.
func (t *translator) source(o syntax.Operand, typ string, wider bool) (int32, *Error) {
	switch {
	case o.Kind == syntax.Literal && !o.Negated:
		v, err := t.literal(o.Number, typ)
		return t.constant(vm.Constant{Value: v}), err
	case o.Kind != syntax.Name && o.Kind != syntax.Element || o.Negated:
		return 0, t.unsupported("the form of an operand")
	}
	size := syntax.TypeSize(typ)
	s := t.lookup(o.Name)
	if o.Kind == syntax.Element {
		if s == nil || s.v == nil || s.space == syntax.Reg || !s.v.Array {
			return 0, t.unsupported(fmt.Sprintf("%s is no array", o.Name))
		}
		// It is not known whether a GPU's compiler counts larger elements or bytes.
		if o.Number.Bits != 0 && syntax.TypeSize(s.v.Type)*s.v.Vector != 1 {
			return 0, t.unsupported(fmt.Sprintf("element %d of %s", o.Number.Bits, o.Name))
		}
	}
	switch {
	case s == nil && o.Name[0] == '%':
		return t.special(o.Name, size)
	case s == nil:
		return 0, t.unsupported(fmt.Sprintf("%s is not declared", o.Name))
	case s.space == syntax.Reg && s.v.Type != "pred" && s.elements == nil && o.Number.Bits == 0:
		if s.size != size && (!wider || s.size < size) {
			return 0, t.unsupported(fmt.Sprintf("register %s has type %s", o.Name, s.v.Type))
		}
		return s.column, nil
	case s.space == syntax.Reg && s.v.Type != "pred" && s.elements == nil && s.size == size && size > 1 &&
		typ[0] != 'f':
		column := t.column() // a register and a distance
		t.emit(vm.Op{Run: t.find(fmt.Sprint("add.u", 8*size)).run, D: column, A: s.column,
			B: t.constant(vm.Constant{Value: o.Number.Bits << (64 - 8*size) >> (64 - 8*size)})}, t.inst.Pos, t.inst.Op)
		return column, nil
	case typ[0] == 'f': // what follows are addresses, which are no floats
	case s.function != nil && size == 8 && o.Number.Bits == 0 && !s.function.Kernel:
		address, _ := t.FunctionAddress(o.Name)
		return t.constant(vm.Constant{Value: address}), nil
	case s.v != nil && s.space != syntax.Reg && (size == 8 || size == 4 && s.space != syntax.Global) && t.takesAddresses():
		return t.address(s, o.Number.Bits)
	}
	return 0, t.unsupported(fmt.Sprintf("operand %s", o.Name))
}

// takesAddresses reports whether NVIDIA's compiler allows variables as operands: mov and cvta take their addresses, and
// calls pass parameters.
func (t *translator) takesAddresses() bool {
	name, _, _ := strings.Cut(t.inst.Op, ".")
	return name == "mov" || name == "cvta" || name == "call"
}

// special returns the column of a special register.
func (t *translator) special(name string, size uint64) (int32, *Error) {
	if err := t.since(isa.Since(name)); err != nil {
		return 0, err
	}
	reads := t.find(t.inst.Op)
	allowed := reads != nil && readsSpecials(reads)
	if s := special(name); s != vm.NoSpecial {
		if !allowed || size == 2 && s >= vm.ClusterX && reads.Name == "mov" || size == 8 && !wide(name) {
			return 0, t.unsupported("special register " + name)
		}
		t.k.Clusters = t.k.Clusters || s >= vm.ClusterX
		return t.specialColumn(s), nil
	}
	v := t.find(name)
	if v == nil || !allowed || syntax.TypeSize(v.Type(v.Operands()[0])) > size {
		return 0, t.unsupported("special register " + name)
	}
	column := t.column()
	t.emit(vm.Op{Run: v.run, D: column}, t.inst.Pos, name)
	return column, nil
}

// specialColumn returns the column of a special register that does not change while a thread runs.
func (t *translator) specialColumn(s vm.Special) int32 {
	column, made := t.k.Specials[s]
	if !made {
		column = t.column()
		t.k.Specials[s] = column
	}
	return column
}

// readsSpecials reports whether NVIDIA's compiler allows special registers as operands: of mov, and of
// conversions between integers.
func readsSpecials(v *variant) bool {
	whole := func(typ string) bool { return typ[0] == 'u' || typ[0] == 's' }
	switch v.Name {
	case "mov":
		return v.T()[0] != 'f'
	case "cvt":
		return whole(v.T()) && whole(v.Get("u")) && !v.Has("pack")
	}
	return false
}

// ownOf returns the kernel's own variable for one of the text in shared or local memory, of which each kernel has
// another one.
func (t *translator) ownOf(s *symbol) *symbol {
	old := s.space == syntax.Local && t.Text.Version < mostLocal
	if !s.module || s.space != syntax.Shared && !old {
		return s
	}
	own := t.own[s]
	if own == nil {
		copied := *s
		own = &copied
		if own.module = false; old {
			at := align(uint64(t.k.Local), max(s.v.Align, 1))
			t.k.Local, own.offset = uint32(min(at+s.v.Size(), 1<<31)), at
		} else {
			t.shared(own)
		}
		t.own[s] = own
	}
	return own
}

// mostLocal is the first version of PTX in which variables of the text may not be in local memory.
const mostLocal = 30

// address returns the column of the address of a variable, in its state space.
func (t *translator) address(s *symbol, offset uint64) (int32, *Error) {
	s = t.ownOf(s)
	switch {
	case s.space == syntax.Shared && !s.placed: // behind the static variables
		t.aligned = max(t.aligned, min(s.v.Align, vm.SharedBegin))
		c := vm.Constant{Value: vm.SharedBegin + offset, Symbol: ".shared"}
		if column, made := t.constants[c]; made {
			return column, nil
		}
		column := t.column()
		t.constants[c] = column
		t.dynamic = append(t.dynamic, len(t.k.Constants))
		t.k.Constants = append(t.k.Constants, vm.Constant{Column: column, Value: vm.SharedBegin + offset})
		return column, nil
	case s.module && s.space == syntax.Global && !s.v.Extern:
		return t.constant(vm.Constant{Value: offset, Symbol: s.v.Name}), nil
	case s.module && s.space == syntax.Const && !s.v.Extern:
		return t.constant(vm.Constant{Value: s.offset + offset}), nil
	case s.module:
		return 0, t.unsupported(fmt.Sprintf("variable %s (%s)", s.v.Name, s.space))
	}
	if base := t.base(s); base != 0 {
		column := t.column()
		t.emit(vm.Op{Run: t.find("add.u64").run, D: column, A: base, B: t.constant(vm.Constant{Value: s.offset + offset})},
			t.inst.Pos, t.inst.Op)
		return column, nil
	}
	return t.constant(vm.Constant{Value: s.offset + offset}), nil
}

// falsehood is a predicate that is never true. The one before it is the condition code.
const falsehood = isa.Carry + 1

// predicate returns a predicate that is read: its index and 1, negative if it is negated.
func (t *translator) predicate(o syntax.Operand) (int32, *Error) {
	if o.Kind == syntax.Literal {
		if o.Number.Kind == syntax.Float32 || o.Number.Kind == syntax.Float64 {
			return 0, t.unsupported("a float as a predicate")
		}
		if (o.Number.Bits != 0) != o.Negated {
			return -falsehood - 1, nil
		}
		return falsehood + 1, nil
	}
	s := t.lookup(o.Name)
	if s == nil && o.Name == "%is_explicit_cluster" && (t.inst.Op == "mov.pred" || t.inst.Guard == o.Name) {
		if err := t.since(isa.Since(o.Name)); err != nil {
			return 0, err
		}
		s = &symbol{v: &syntax.Var{Type: "pred"}, space: syntax.Reg, column: int32(t.k.Predicates)}
		t.k.Predicates++
		t.emit(vm.Op{Run: t.find("setp.ne.u32").run, D: s.column, A: t.specialColumn(vm.ExplicitCluster),
			B: t.constant(vm.Constant{})}, t.inst.Pos, t.inst.Op)
	}
	if o.Kind != syntax.Name || s == nil || s.space != syntax.Reg || s.v.Type != "pred" || s.elements != nil {
		return 0, t.unsupported(fmt.Sprintf("operand %s is no predicate", o.Name))
	}
	if o.Negated {
		return -s.column - 1, nil
	}
	return s.column + 1, nil
}

// destination returns the column of a register that is written.
func (t *translator) destination(o syntax.Operand, typ string, wider bool) (int32, *Error) {
	if o.Kind == syntax.Name && o.Name == "_" {
		return 0, nil
	}
	s := t.lookup(o.Name)
	size := syntax.TypeSize(typ)
	switch {
	case o.Kind != syntax.Name || s == nil || s.space != syntax.Reg || s.v.Type == "pred" || s.elements != nil ||
		o.Negated || o.Number.Bits != 0:
		return 0, t.unsupported(fmt.Sprintf("result %s is no register", o.Name))
	case s.size != size && (!wider || s.size < size):
		return 0, t.unsupported(fmt.Sprintf("register %s has type %s", o.Name, s.v.Type))
	}
	return s.column, nil
}

// truth returns the index of a predicate that is written, or -1 for none.
func (t *translator) truth(o syntax.Operand) (int32, *Error) {
	if o.Kind == syntax.Name && o.Name == "_" {
		return -1, nil
	}
	if o.Kind != syntax.Name {
		return 0, t.unsupported("a result is no predicate")
	}
	p, err := t.predicate(o)
	if err == nil && p < 0 {
		err = t.unsupported("a result is negated")
	}
	return p - 1, err
}

// vector sets the columns of a vector, or of one register, which has the field single.
func (t *translator) vector(o *vm.Op, operand syntax.Operand, typ string, single *int32, write bool) *Error {
	column := func(part syntax.Operand) (int32, *Error) {
		if write {
			c, err := t.destination(part, typ, true)
			if part.Name == "_" {
				c = -1
			}
			return c, err
		}
		return t.source(part, typ, true)
	}
	if operand.Kind != syntax.Vector {
		c, err := column(operand)
		*single = max(c, 0)
		return err
	}
	if o.X == nil {
		o.X = new(vm.Detail)
	}
	o.X.N = len(operand.Parts)
	if o.X.N > 4 {
		return t.unsupported("a vector with many elements")
	}
	size := uint64(0) // of the registers before
	for i, part := range operand.Parts {
		c, err := column(part)
		if err != nil {
			return err
		}
		if s := t.lookup(part.Name); s != nil && s.space == syntax.Reg {
			if size != 0 && s.size != size {
				return t.unsupported("registers of different sizes")
			}
			size = s.size
		}
		o.X.D[i] = c
	}
	return nil
}

// memory sets the address of an access, and returns the variable that it names, or nil.
func (t *translator) memory(v *variant, o *vm.Op, operand syntax.Operand) (s *symbol, err *Error) {
	if operand.Kind != syntax.Address || operand.Parts != nil {
		return nil, t.unsupported("the form of an address")
	}
	if operand.Name == "" {
		if v.Get("space") != "local" {
			return nil, t.unsupported("a number as an address that is not in local memory")
		}
		o.A = t.constant(vm.Constant{Value: operand.Number.Bits})
		return nil, nil
	}
	if s = t.lookup(operand.Name); s == nil || s.v == nil || s.v.Type == "pred" || s.elements != nil {
		return nil, t.unsupported(fmt.Sprintf("address %s", operand.Name))
	}
	if s.space == syntax.Reg {
		o.A, o.Imm = s.column, int64(operand.Number.Bits)
		return s, nil
	}
	if base := t.base(s); base != 0 {
		o.A, o.Imm = base, int64(s.offset+operand.Number.Bits)
		return s, nil
	}
	o.A, err = t.address(s, operand.Number.Bits)
	return s, err
}

// infers reports whether the instruction takes a variable's state space for its own, if it names none.
func (v *variant) infers(space syntax.Space) bool {
	switch {
	case v.Special == "ld" || v.Special == "st":
		return space == syntax.Global || space == syntax.Shared || space == syntax.Local
	case v.Name == "atom" || v.Name == "red":
		return space == syntax.Shared && !v.Has("vec")
	}
	return false
}

// access translates the address of a load or store, and chooses its function by the state space.
func (t *translator) access(v *variant, o *vm.Op, operand syntax.Operand) *Error {
	s, err := t.memory(v, o, operand)
	if err != nil {
		return err
	}
	space := v.Get("space")
	if space == "" && s != nil && v.infers(s.space) {
		space = s.space.String()[1:] // a variable says where it is
		_, o.Run = v.With("space", space)
	}
	param := len(space) >= 5 && space[:5] == "param"
	shared := strings.HasPrefix(space, "shared")
	switch {
	case s == nil || s.space == syntax.Reg:
		if s != nil && s.size != 8 && (s.size != 4 || !shared && space != "local" && space != "const") {
			return t.unsupported("an address of 32 bits")
		}
		switch {
		case param && !t.f.Kernel: // of the function: in local memory
			_, o.Run = v.With("space", "local")
		case param && v.Name == "st":
			return t.unsupported("an address of a parameter in a register")
		}
	case s.space == syntax.Param && !param, s.space == syntax.Shared && !shared, s.space == syntax.Local &&
		space != "local",
		s.space == syntax.Const && space != "const", s.space == syntax.Global && space != "global" && space != "":
		return t.unsupported(fmt.Sprintf("variable %s is in %s", s.v.Name, s.space))
	case s.space == syntax.Param && t.ownParam(s):
		if v.Name == "st" {
			return t.unsupported("to a parameter of a kernel")
		}
	case s.space == syntax.Param: // of a function: in local memory
		_, o.Run = v.With("space", "local")
	}
	if o.Run == nil {
		return t.unsupported("")
	}
	return nil
}

// ownParam reports whether a variable is a parameter of the kernel.
func (t *translator) ownParam(s *symbol) bool {
	if !t.f.Kernel {
		return false
	}
	for _, p := range t.f.params {
		if p == s {
			return true
		}
	}
	return false
}

// dynamicShared is the dynamic shared memory of a kernel.
type dynamicShared struct {
	dynamic []int  // the constants that are addresses in it
	aligned uint64 // its alignment
}
