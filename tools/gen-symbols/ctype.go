package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A shape is the kind of a ctype.
type shape uint8

const (
	sBasic   shape = iota // void, int, unsigned long long, float, …
	sNamed                // a typedef's name
	sPointer              // *elem
	sArray                // elem[n]
	sFunc                 // elem(params)
	sRecord               // struct or union
	sEnum
)

// A ctype is a type of C.
type ctype struct {
	shape  shape
	name   string // of a basic type, a typedef, a tag
	union  bool
	isCons bool // const at this level
	elem   *ctype
	n      int64
	params []param
	record *record
}

// A param is a parameter of a function, or a member of a struct.
type param struct {
	name string
	typ  *ctype
	line int
}

// A record is the definition of a struct or union.
type record struct {
	defined bool
	align   int64 // set by alignas
	members []param

	laidOut             bool // the layout is known
	size, sizeAlignment int64
}

// basicTypes maps C's basic types in their canonical spelling, and some types of the standard
// headers, to their size on the 64-bit platforms that the library supports, and to their letter in
// signatures. It does not have "unsigned long", whose size differs between platforms.
var basicTypes = map[string]struct {
	size int64
	sig  string
}{
	"void": {0, "v"}, "char": {1, "i8"}, "signed char": {1, "i8"}, "unsigned char": {1, "u8"},
	"short": {2, "i16"}, "unsigned short": {2, "u16"}, "int": {4, "i32"}, "unsigned int": {4, "u32"},
	"long long": {8, "i64"}, "unsigned long long": {8, "u64"}, "float": {4, "f32"}, "double": {8, "f64"},
	"size_t": {8, "u64"}, "int8_t": {1, "i8"}, "uint8_t": {1, "u8"}, "int16_t": {2, "i16"}, "uint16_t": {2, "u16"},
	"int32_t": {4, "i32"}, "uint32_t": {4, "u32"}, "int64_t": {8, "i64"}, "uint64_t": {8, "u64"},
	"intptr_t": {8, "i64"}, "uintptr_t": {8, "u64"},
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
func (t *ctype) String() string { return t.declare("") }

// declare returns the declaration of name with type t.
func (t *ctype) declare(name string) string {
	switch t.shape {
	case sPointer:
		inner := "*"
		if t.isCons {
			inner = "*const "
		}
		if e := t.elem; e.shape == sFunc || e.shape == sArray {
			return e.declare("(" + inner + name + ")")
		}
		return t.elem.declare(inner + name)
	case sArray:
		return t.elem.declare(name + "[" + strconv.FormatInt(t.n, 10) + "]")
	case sFunc:
		words := make([]string, len(t.params))
		for i, p := range t.params {
			words[i] = p.typ.String()
		}
		return t.elem.declare(name + "(" + strings.Join(words, ", ") + ")")
	}
	s := t.name
	switch t.shape {
	case sRecord:
		s = "struct " + t.name
		if t.union {
			s = "union " + t.name
		}
	case sEnum:
		s = "enum " + t.name
	}
	if t.isCons {
		s = "const " + s
	}
	if name != "" {
		s += " " + name
	}
	return s
}

// underlying returns the type behind all typedefs.
func (u *unit) underlying(t *ctype) *ctype {
	for range maxDepth {
		if t.shape != sNamed {
			return t
		}
		def := u.typedefs[t.name]
		if def == nil {
			return t
		}
		t = def
	}
	return t
}

// signature returns what compiled callers depend on: widths, signedness, and the targets of
// pointers. Two prototypes with equal signatures have the same ABI.
func (u *unit) signature(t *ctype) string {
	var b strings.Builder
	u.writeSignature(&b, t, 0)
	return b.String()
}

// maxSignature limits the length of signatures, because types can double in size many times.
const maxSignature = 1 << 14

func (u *unit) writeSignature(b *strings.Builder, t *ctype, depth int) {
	if depth > maxDepth || b.Len() > maxSignature {
		b.WriteString("…")
		return
	}
	switch t = u.underlying(t); t.shape {
	case sBasic:
		b.WriteString(basicTypes[t.name].sig)
	case sPointer, sArray:
		b.WriteByte('*')
		u.writeSignature(b, t.elem, depth+1)
	case sFunc:
		b.WriteByte('(')
		for i, p := range t.params {
			if i > 0 {
				b.WriteString(", ")
			}
			u.writeSignature(b, p.typ, depth+1)
		}
		b.WriteByte(')')
		u.writeSignature(b, t.elem, depth+1)
	case sEnum:
		b.WriteString("enum " + t.name)
	case sRecord:
		b.WriteString("struct " + t.name)
	default:
		b.WriteString(t.name)
	}
}

// layout returns the size and the alignment of t in bytes.
func (u *unit) layout(t *ctype) (size, align int64, err error) {
	return u.layoutAt(t, 0)
}

func (u *unit) layoutAt(t *ctype, depth int) (size, align int64, err error) {
	if depth > maxDepth {
		return 0, 0, fmt.Errorf("%s contains itself", t)
	}
	t = u.underlying(t)
	switch t.shape {
	case sBasic:
		size = basicTypes[t.name].size
		return size, max(size, 1), nil
	case sPointer:
		return 8, 8, nil
	case sEnum:
		return 4, 4, nil
	case sArray:
		size, align, err = u.layoutAt(t.elem, depth+1)
		return size * t.n, align, err
	case sRecord:
		if t.record == nil || !t.record.defined {
			return 0, 0, fmt.Errorf("%s is not defined", t)
		}
		if t.record.laidOut {
			return t.record.size, t.record.sizeAlignment, nil
		}
		align = max(t.record.align, 1)
		for _, m := range t.record.members {
			s, a, err := u.layoutAt(m.typ, depth+1)
			if err != nil {
				return 0, 0, err
			}
			align = max(align, a)
			if t.union {
				size = max(size, s)
			} else {
				size = (size+a-1)/a*a + s
			}
		}
		size = (size + align - 1) / align * align
		t.record.laidOut, t.record.size, t.record.sizeAlignment = true, size, align
		return size, align, nil
	}
	return 0, 0, fmt.Errorf("%s has no size", t)
}
