package cheader

import "slices"

// declarator reads pointers, a name, and what follows the name.
func (p *parser) declarator(base *Type) (name Token, typ *Type) {
	defer p.nest()()
	typ = base
	for {
		switch t := p.peek(); {
		case t.is("*"):
			typ = &Type{Shape: ShapePointer, Elem: typ}
			p.pos++
		case t.is("const") && typ.Shape == ShapePointer:
			typ.IsConst = true
			p.pos++
		case t.is("const"), t.is("volatile"), t.is("restrict"), t.is("__restrict"), t.is("__stdcall"), t.is("__cdecl"):
			p.pos++
		default:
			return p.directDeclarator(typ)
		}
	}
}

func (p *parser) directDeclarator(typ *Type) (name Token, _ *Type) {
	// A parenthesis before the name has a declarator whose base comes after the parenthesis. So the
	// base is read first.
	if p.peek().is("(") && (p.at(1).is("*") || p.at(1).is("(") || p.at(1).is("__stdcall")) {
		inner := p.pos
		p.parens()
		typ = p.suffixes(typ)
		end := p.pos
		p.pos = inner + 1
		name, typ = p.declarator(typ)
		p.expect(")")
		p.pos = end
		return name, typ
	}
	if p.peek().kind == tIdent {
		name = p.take()
	}
	return name, p.suffixes(typ)
}

// suffixes reads parameter lists and array bounds.
func (p *parser) suffixes(typ *Type) *Type {
	switch t := p.peek(); {
	case t.is("("):
		return &Type{Shape: ShapeFunc, Elem: typ, Params: p.parameters()}
	case t.is("["):
		start := p.pos + 1
		for !p.peek().is("]") {
			if p.take().kind == tEOF {
				p.fail("missing ]")
			}
		}
		bound := p.toks[start:p.pos]
		p.pos++
		elem := p.suffixes(typ)
		if len(bound) == 0 {
			return &Type{Shape: ShapeArray, Elem: elem}
		}
		n := p.constant(t, bound)
		if n < 0 || n > 1<<20 {
			p.fail("array bound %d is out of range", n)
		}
		return &Type{Shape: ShapeArray, Elem: elem, N: n}
	}
	return typ
}

func (p *parser) parameters() []Param {
	p.expect("(")
	var params []Param
	if p.peek().is("void") && p.at(1).is(")") {
		p.pos += 2
		return nil
	}
	for !p.accept(")") {
		if p.accept("...") {
			p.fail("variadic functions are not supported")
		}
		line := p.peek().line
		inline := false
		base := p.specifiers(&inline)
		name, typ := p.declarator(base)
		// Arrays and functions are passed as pointers.
		switch typ.Shape {
		case ShapeArray:
			typ = &Type{Shape: ShapePointer, Elem: typ.Elem}
		case ShapeFunc:
			typ = &Type{Shape: ShapePointer, Elem: typ}
		}
		params = append(params, Param{name.Text, typ, line})
		if !p.accept(",") {
			p.expect(")")
			break
		}
	}
	return slices.Clip(params)
}
