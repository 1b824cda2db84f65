package cheader

import (
	"fmt"
	"strconv"
	"strings"
)

// A Shape is the kind of a Type.
type Shape uint8

// Shapes.
const (
	ShapeBasic   Shape = iota // void, int, unsigned long long, float, …
	ShapeNamed                // a typedef's name
	ShapePointer              // *elem
	ShapeArray                // elem[n]
	ShapeFunc                 // elem(params)
	ShapeRecord               // struct or union
	ShapeEnum
)

// A Type is a type of C.
type Type struct {
	Shape   Shape
	Name    string // of a basic type, a typedef, a tag
	Union   bool
	IsConst bool // const at this level
	Elem    *Type
	N       int64
	Params  []Param
	Record  *Record
}

// A Param is a parameter of a function, or a member of a struct.
type Param struct {
	Name string
	Type *Type
	Line int
}

// A Record is the definition of a struct or union.
type Record struct {
	Defined bool
	align   int64 // set by alignas
	Members []Param

	laidOut             bool // the layout is known
	size, sizeAlignment int64
}

// basicTypes maps C's basic types in their canonical spelling, and some types of the standard
// headers, to their size on the 64-bit platforms that the library supports, and to their letter in
// signatures. The size of "unsigned long" is that of Linux: see [Unit].
var basicTypes = map[string]struct {
	size int64
	sig  string
}{
	"void": {0, "v"}, "char": {1, "i8"}, "signed char": {1, "i8"}, "unsigned char": {1, "u8"},
	"short": {2, "i16"}, "unsigned short": {2, "u16"}, "int": {4, "i32"}, "unsigned int": {4, "u32"},
	"long long": {8, "i64"}, "unsigned long long": {8, "u64"}, "float": {4, "f32"}, "double": {8, "f64"},
	"size_t": {8, "u64"}, "int8_t": {1, "i8"}, "uint8_t": {1, "u8"}, "int16_t": {2, "i16"}, "uint16_t": {2, "u16"},
	"int32_t": {4, "i32"}, "uint32_t": {4, "u32"}, "int64_t": {8, "i64"}, "uint64_t": {8, "u64"},
	"unsigned long": {8, "ulong"}, "intptr_t": {8, "i64"}, "uintptr_t": {8, "u64"},
}

// basicName returns the canonical spelling of the words of a basic type.
func basicName(words []string) (string, bool) {
	var unsigned, signed, intWord bool
	long := 0
	rest := ""
	for _, w := range words {
		switch w {
		case "unsigned":
			unsigned = true
		case "signed":
			signed = true
		case "int":
			intWord = true
		case "long":
			long++
		default:
			if rest != "" {
				return "", false
			}
			rest = w
		}
	}
	name := rest
	switch {
	case long == 2 && rest == "":
		name = "long long"
	case long == 1 && rest == "":
		name = "long"
	case long != 0:
		return "", false
	case rest == "" && (intWord || unsigned || signed):
		name = "int"
	}
	if unsigned {
		name = "unsigned " + name
	} else if signed && name == "char" {
		name = "signed char"
	}
	_, ok := basicTypes[name]
	return name, ok
}

// String returns the type in C, without a name.
func (t *Type) String() string { return t.declare("") }

// declare returns the declaration of name with type t.
func (t *Type) declare(name string) string {
	switch t.Shape {
	case ShapePointer:
		inner := "*"
		if t.IsConst {
			inner = "*const "
		}
		if e := t.Elem; e.Shape == ShapeFunc || e.Shape == ShapeArray {
			return e.declare("(" + inner + name + ")")
		}
		return t.Elem.declare(inner + name)
	case ShapeArray:
		return t.Elem.declare(name + "[" + strconv.FormatInt(t.N, 10) + "]")
	case ShapeFunc:
		words := make([]string, len(t.Params))
		for i, p := range t.Params {
			words[i] = p.Type.String()
		}
		return t.Elem.declare(name + "(" + strings.Join(words, ", ") + ")")
	}
	s := t.Name
	switch t.Shape {
	case ShapeRecord:
		s = "struct " + t.Name
		if t.Union {
			s = "union " + t.Name
		}
	case ShapeEnum:
		s = "enum " + t.Name
	}
	if t.IsConst {
		s = "const " + s
	}
	if name != "" {
		s += " " + name
	}
	return s
}

// Underlying returns the type behind all typedefs.
func (u *Unit) Underlying(t *Type) *Type {
	for range MaxDepth {
		if t.Shape != ShapeNamed {
			return t
		}
		def := u.Typedefs[t.Name]
		if def == nil {
			return t
		}
		t = def
	}
	return t
}

// Signature returns what compiled callers depend on: widths, signedness, and the targets of
// pointers. Two prototypes with equal signatures have the same ABI.
func (u *Unit) Signature(t *Type) string {
	var b strings.Builder
	u.writeSignature(&b, t, 0)
	return b.String()
}

// maxSignature limits the length of signatures, because types can double in size many times.
const maxSignature = 1 << 14

func (u *Unit) writeSignature(b *strings.Builder, t *Type, depth int) {
	if depth > MaxDepth || b.Len() > maxSignature {
		b.WriteString("…")
		return
	}
	switch t = u.Underlying(t); t.Shape {
	case ShapeBasic:
		b.WriteString(basicTypes[t.Name].sig)
	case ShapePointer, ShapeArray:
		b.WriteByte('*')
		u.writeSignature(b, t.Elem, depth+1)
	case ShapeFunc:
		b.WriteByte('(')
		for i, p := range t.Params {
			if i > 0 {
				b.WriteString(", ")
			}
			u.writeSignature(b, p.Type, depth+1)
		}
		b.WriteByte(')')
		u.writeSignature(b, t.Elem, depth+1)
	case ShapeEnum:
		b.WriteString("enum " + t.Name)
	case ShapeRecord:
		b.WriteString("struct " + t.Name)
	default:
		b.WriteString(t.Name)
	}
}

// Layout returns the size and the alignment of t in bytes.
func (u *Unit) Layout(t *Type) (size, align int64, err error) {
	return u.layoutAt(t, 0)
}

func (u *Unit) layoutAt(t *Type, depth int) (size, align int64, err error) {
	if depth > MaxDepth {
		return 0, 0, fmt.Errorf("%s contains itself", t)
	}
	t = u.Underlying(t)
	switch t.Shape {
	case ShapeBasic:
		size = basicTypes[t.Name].size
		return size, max(size, 1), nil
	case ShapePointer:
		return 8, 8, nil
	case ShapeEnum:
		return 4, 4, nil
	case ShapeArray:
		size, align, err = u.layoutAt(t.Elem, depth+1)
		return size * t.N, align, err
	case ShapeRecord:
		if t.Record == nil || !t.Record.Defined {
			return 0, 0, fmt.Errorf("%s is not defined", t)
		}
		if t.Record.laidOut {
			return t.Record.size, t.Record.sizeAlignment, nil
		}
		align = max(t.Record.align, 1)
		for _, m := range t.Record.Members {
			s, a, err := u.layoutAt(m.Type, depth+1)
			if err != nil {
				return 0, 0, err
			}
			align = max(align, a)
			if t.Union {
				size = max(size, s)
			} else {
				size = (size+a-1)/a*a + s
			}
		}
		size = (size + align - 1) / align * align
		t.Record.laidOut, t.Record.size, t.Record.sizeAlignment = true, size, align
		return size, align, nil
	}
	return 0, 0, fmt.Errorf("%s has no size", t)
}
