// Package syntax reads NVIDIA's PTX: it turns a text into declarations, instructions and operands.
// It knows the grammar and the constant expressions. It knows no instruction: package isa does.
package syntax

import "fmt"

// Pos is a place in a text. Lines and columns count from 1, and columns count bytes.
type Pos struct{ Line, Col int32 }

// Error is the reason for which a text is not understood.
type Error struct {
	Pos
	Text string
}

// Error returns the place and the reason.
func (e *Error) Error() string { return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Col, e.Text) }

// Module is a text.
type Module struct {
	Version   int32  // 87 for 8.7
	Target    int32  // 90 for sm_90
	Features  string // of the target: "a" for sm_90a
	Vars      []*Var
	Functions []*Function
	Aliases   []Alias
	Files     map[uint64]string // the names of source files, by their numbers
}

// Alias is another name of a function.
type Alias struct {
	Pos
	Name, Of string
}

// Space is a state space.
type Space uint8

// The state spaces.
const (
	NoSpace Space = iota
	Reg
	Param
	Global
	Const
	Shared
	Local
)

// spaces are the state spaces by their directives.
func spaceOf(t string) Space {
	switch t {
	case ".reg":
		return Reg
	case ".param":
		return Param
	case ".global":
		return Global
	case ".const":
		return Const
	case ".shared":
		return Shared
	case ".local":
		return Local
	}
	return NoSpace
}

// String returns the directive of the state space.
func (s Space) String() string {
	return [...]string{"", ".reg", ".param", ".global", ".const", ".shared", ".local"}[s]
}

// Var is a variable, a parameter, or a range of registers.
type Var struct {
	Pos
	Space Space
	Name  string
	Type  string // without the dot, such as "b32"
	Elements
	Range  int    // of registers: the number of Name0, Name1, …; 0 if Name is the register
	Align  uint64 // in bytes
	Extern bool
	// Managed says that the variable is in managed memory.
	Managed bool
	linked  linked
	Init    []Value
	// Global is the variable of the module for one in global or constant memory that a function declares.
	Global *Var
}

// Elements are how many values a variable has.
type Elements struct {
	Vector uint64 // the number of elements of a vector, otherwise 1
	Count  uint64 // the number of vectors or elements of an array, otherwise 1
	Array  bool
	Dims   []uint64 // the lengths of an array, from the outermost; 0 if it is open
	Open   bool     // an array whose length is not declared
}

// Size returns the size in bytes.
func (v *Var) Size() uint64 { return TypeSize(v.Type) * v.Vector * v.Count }

// Value is an element of an initial value: a number, or the address of a symbol.
type Value struct {
	Pos
	Index   uint64 // which element it is
	Mask    uint64 // which bits of the address are meant, moved to the lowest; 0 for all
	Symbol  string
	Generic bool // the generic address
	Number  Number
}

// Function is a kernel or a function.
type Function struct {
	Pos
	Name    string
	Kernel  bool
	Body    []Statement
	HasBody bool
	linked  linked
	Params  []*Var
	Results []*Var
	// Directives are those between the parameters and the body, such as .maxntid.
	Directives []Directive
}

// Variadic returns the last parameter if it is an array without a length, which gets arguments of any number and
// size, or nil.
func (f *Function) Variadic() *Var {
	if n := len(f.Params); n > 0 && f.Params[n-1].Open {
		return f.Params[n-1]
	}
	return nil
}

// Directive is a directive about a function, with its numbers.
type Directive struct {
	Pos
	Name   string
	Values []uint64
}

// Statement is a part of a body. Exactly one of its fields is set.
type Statement struct {
	Label string
	Inst  *Inst
	Var   *Var
	Block []Statement // a scope for names; not nil
	Table *Table
}

// Table is a list of labels (.branchtargets), or of functions (.calltargets), or the prototype of a
// function (.callprototype).
type Table struct {
	Pos
	Kind    string
	Name    string
	Names   []string
	Params  []*Var
	Results []*Var
}

// Inst is an instruction.
type Inst struct {
	Pos
	Guard    string // the register of the guard predicate, or ""
	Negated  bool   // the guard is negated
	Op       string // with its modifiers, such as "add.s32"
	Operands []Operand
	Source   Source // where it is in the source, as .loc says
}

// Source is a place in a source file. The zero value is no place.
type Source struct{ File, Line uint32 }

// OperandKind is the form of an operand.
type OperandKind uint8

// The forms of operands.
const (
	Name    OperandKind = iota // a register, a variable, a label or a function, with an offset
	Literal                    // a number
	Address                    // [ … ]: Name or a number, with an offset, and perhaps other parts
	Vector                     // { … }
	List                       // ( … ), of a call
	Pair                       // a|b
	Element                    // a[n]: the address of an element of an array
)

// Operand is an operand of an instruction.
type Operand struct {
	Pos
	Kind    OperandKind
	Negated bool // !p
	Name    string
	Number  Number // of Literal; the offset of Name and Address; the index of Element
	Parts   []Operand
}

// NumberKind is the type of a number.
type NumberKind uint8

// The types of numbers.
const (
	Signed NumberKind = iota
	Unsigned
	Float32 // a number that was written as the bits of a float
	Float64
)

// Number is a number.
type Number struct {
	Kind NumberKind
	Bits uint64 // of a float its representation
}

// TypeSize returns the size of a type in bytes, or 0 if there is no such type. Predicates have the
// size 1.
func TypeSize(t string) uint64 {
	switch t {
	case "b8", "u8", "s8", "pred", "e4m3", "e5m2":
		return 1
	case "b16", "u16", "s16", "f16", "bf16", "e4m3x2", "e5m2x2":
		return 2
	case "b32", "u32", "s32", "f32", "f16x2", "bf16x2", "tf32", "u16x2", "s16x2":
		return 4
	case "b64", "u64", "s64", "f64", "f32x2", "texref", "samplerref", "surfref":
		return 8
	case "b128":
		return 16
	}
	return 0
}
