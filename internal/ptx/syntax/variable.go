package syntax

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file reads declarations of variables and parameters, with their initial values.

// params reads parameters in parentheses.
func (p *parser) params() (list []*Var, err *Error) {
	p.advance()
	for p.tok.text != ")" {
		pos, space := p.tok.pos, spaceOf(p.tok.text)
		if space != Param && space != Reg {
			return nil, p.unexpected("a parameter")
		}
		p.advance()
		v, err := p.declared(space, pos)
		switch {
		case err != nil:
			return nil, err
		case v.Range > 0:
			return nil, &Error{pos, "one parameter cannot be several: " + v.Name}
		case v.Space == Param && (v.Vector > 1 || v.Type == "pred" || v.Type == "f16x2"):
			return nil, &Error{pos, fmt.Sprintf("parameter %s is a vector, or has the type %s", v.Name, v.Type)}
		case v.Open && p.m.Version < leastOpen:
			return nil, &Error{pos, "a parameter has no length before version 6.0 of PTX"}
		case v.Open && (v.Space != Param || len(v.Dims) > 1 || p.tok.text != ")"):
			return nil, &Error{pos, "only the last parameter may have no length, and it is in .param"}
		}
		if list = append(list, v); !p.take(",") {
			break
		}
	}
	return list, p.expect(")")
}

// leastOpen is the first version of PTX in which the last parameter of a function may be an array without a length.
const leastOpen = 60

// results reads the parameters for the results of a function. Several are registers.
func (p *parser) results() ([]*Var, *Error) {
	pos := p.tok.pos
	list, err := p.params()
	for _, v := range list {
		if err == nil && (v.Open || len(list) > 1 && v.Space != Reg) {
			err = &Error{pos, "several results that are not registers, or one without a length"}
		}
	}
	return list, err
}

// variables reads the rest of a declaration of variables or registers, after its state space.
func (p *parser) variables(space Space, pos Pos, linkage string) (list []*Var, _ *Error) {
	v, err := p.declared(space, pos)
	for {
		if err != nil {
			return nil, err
		}
		v.Extern, v.linked.how = linkage == ".extern", linkage
		if list = v.appendTo(list); !p.take(",") {
			return list, p.expect(";")
		}
		more := *v
		more.Init, more.Count, more.Array, more.Open, more.Range, more.Dims = nil, 1, false, false, 0, nil
		v = &more
		err = p.declarator(v)
	}
}

// appendTo appends the variable to a list. Of a range of variables it appends each one. Registers stay a
// range, because there may be many that are not used.
func (v *Var) appendTo(list []*Var) []*Var {
	if v.Space == Reg || v.Range == 0 {
		return append(list, v)
	}
	for i := range v.Range {
		one := *v
		one.Name, one.Range = v.Name+strconv.Itoa(i), 0
		list = append(list, &one)
	}
	return list
}

// declared reads an alignment, a type, a name, dimensions, and an initial value.
func (p *parser) declared(space Space, pos Pos) (*Var, *Error) {
	v := &Var{Pos: pos, Space: space, Elements: Elements{Vector: 1, Count: 1}}
	for strings.HasPrefix(p.tok.text, ".") {
		t := p.tok
		p.advance()
		switch t.text {
		case ".align":
			n, err := p.constant()
			if err != nil {
				return nil, err
			}
			if n.isFloat() || n.Bits == 0 || n.Bits > 1<<20 || n.Bits&(n.Bits-1) != 0 {
				return nil, &Error{t.pos, "an alignment is no power of two"}
			}
			v.Align = max(v.Align, n.Bits)
		case ".v2", ".v4", ".v8":
			v.Vector = uint64(t.text[2] - '0')
		case ".attribute":
			managed, err := p.attributes()
			if err != nil {
				return nil, err
			}
			if managed && space != Global {
				return nil, &Error{t.pos, "a variable that is not in global memory cannot be managed"}
			}
			v.Managed = v.Managed || managed
		case ".ptr": // it says what the pointer points to
			if spaceOf(p.tok.text) != NoSpace {
				p.advance()
			}
			if p.take(".align") {
				if _, err := p.constant(); err != nil {
					return nil, err
				}
			}
		default:
			v.Type = t.text[1:]
			if TypeSize(v.Type) == 0 || space == Reg && slices.Contains(notOfRegisters, v.Type) {
				return nil, &Error{t.pos, fmt.Sprintf("there is no type %q", t.text)}
			}
		}
	}
	if v.Type == "" {
		return nil, p.unexpected("a type")
	}
	if v.Align == 0 {
		v.Align = TypeSize(v.Type) * v.Vector
	}
	return v, p.declarator(v)
}

// notOfRegisters are the types of numbers that registers of type b have.
var notOfRegisters = []string{"bf16", "bf16x2", "tf32", "e4m3", "e5m2", "e4m3x2", "e5m2x2"}

// mostNames is the largest number of variables, other than registers, that one name declares.
const mostNames = 1 << 16

// mostSize is the largest size of a variable in bytes.
const mostSize = 1 << 40

// declarator reads a name, dimensions, and an initial value.
func (p *parser) declarator(v *Var) (err *Error) {
	v.linked.at = p.tok.at
	if v.Space == Param && p.tok.text == "_" { // of a prototype
		v.Name = "_"
		p.advance()
	} else if v.Name, err = p.newName(); err != nil {
		return err
	}
	if p.tok.text == "<" {
		p.advance()
		n, is := parseNumber(p.tok.text)
		if !is || n.isFloat() || n.Bits > 1<<24 || v.Space != Reg && (n.Bits == 0 || n.Bits > mostNames) {
			return p.unexpected("a number of registers or variables")
		}
		v.Range = int(n.Bits)
		p.advance()
		return p.expect(">")
	}
	for p.take("[") {
		v.Array = true
		if p.take("]") {
			v.Open, v.Dims = true, append(v.Dims, 0)
			continue
		}
		pos := p.tok.pos
		n, err := p.constant()
		if err != nil {
			return err
		}
		if n.isFloat() || n.Bits == 0 || n.Bits > mostSize/v.Count/TypeSize(v.Type)/v.Vector {
			return &Error{pos, "a length is out of range"}
		}
		v.Count *= n.Bits
		v.Dims = append(v.Dims, n.Bits)
		if err := p.expect("]"); err != nil {
			return err
		}
	}
	if p.tok.text == "=" {
		pos := p.tok.pos
		p.advance()
		dims := v.Dims
		if v.Vector > 1 {
			dims = append(slices.Clip(dims), v.Vector)
		}
		end, err := p.initial(v, dims, 0)
		if err != nil {
			return err
		}
		if inner := v.Vector * v.Count; v.Open {
			v.Count *= max((end+inner-1)/inner, 1)
		} else if end > inner {
			return &Error{pos, fmt.Sprintf("%s is initialised with more than it can hold", v.Name)}
		}
		if v.Open && v.Size() > mostSize {
			return &Error{pos, "a length is out of range"}
		}
	}
	return nil
}

// initial reads an initial value, whose first element has an index. It returns the index behind the
// last one. The lengths are those of the dimensions that the value has.
func (p *parser) initial(v *Var, dims []uint64, at uint64) (end uint64, _ *Error) {
	if err := p.deeper(); err != nil {
		return 0, err
	}
	defer p.higher()
	if !p.take("{") {
		value, err := p.value()
		value.Index = at
		v.Init = append(v.Init, value)
		return at + 1, err
	}
	inner := dims
	if len(dims) > 0 {
		inner = dims[1:]
	}
	stride := uint64(1)
	for _, n := range inner {
		stride *= max(n, 1)
	}
	begin := at
	for p.tok.text != "}" {
		if p.tok.text == "{" && stride > 1 {
			at = begin + (at-begin+stride-1)/stride*stride
		}
		next, err := p.initial(v, inner, at)
		if err != nil {
			return 0, err
		}
		if at = next; !p.take(",") {
			break
		}
	}
	if len(dims) > 0 && dims[0] > 0 && at-begin > dims[0]*stride {
		return 0, &Error{p.tok.pos, fmt.Sprintf("%s is initialised with more than it can hold", v.Name)}
	}
	if len(dims) > 0 && dims[0] > 0 {
		at = begin + dims[0]*stride
	}
	return at, p.expect("}")
}

// value reads an element of an initial value.
func (p *parser) value() (v Value, err *Error) {
	v.Pos = p.tok.pos
	t := p.tok.text
	if t == "" || !isWord(t[0]) || isDigit(t[0]) || t == "WARP_SZ" {
		n, err := p.constant()
		if v.Number = n; err != nil || p.tok.text != "(" {
			return v, err
		}
		p.advance() // a part of an address, such as 0xFF00(x)
		if v.Number, v.Mask = Int(0), n.Bits; n.isFloat() || n.Bits == 0 {
			return v, &Error{v.Pos, "this is no mask"}
		}
		if err := p.symbol(&v); err != nil {
			return v, err
		}
		return v, p.expect(")")
	}
	return v, p.symbol(&v)
}

// symbol reads an address of a symbol.
func (p *parser) symbol(v *Value) (err *Error) {
	if v.Generic = p.tok.text == "generic"; v.Generic {
		p.advance()
		if err := p.expect("("); err != nil {
			return err
		}
	}
	if v.Symbol, err = p.name(); err != nil {
		return err
	}
	if v.Generic {
		if err := p.expect(")"); err != nil {
			return err
		}
	}
	v.Number, err = p.offset()
	return err
}

// offset reads what is added to a name.
func (p *parser) offset() (Number, *Error) {
	n := Int(0)
	for p.tok.text == "+" || p.tok.text == "-" {
		op := p.tok
		p.advance()
		m, err := p.binary(precedence("*"))
		if err != nil {
			return n, err
		}
		if m.isFloat() {
			return n, &Error{op.pos, "a float is added to an address"}
		}
		if op.text == "-" {
			m.Bits = -m.Bits
		}
		n.Bits += m.Bits
	}
	return n, nil
}
