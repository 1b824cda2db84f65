package syntax

import (
	"fmt"
	"slices"
	"strings"
)

// block reads statements in braces.
func (p *parser) block() (list []Statement, err *Error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.higher()
	p.advance()
	list = []Statement{}
	for p.tok.text != "}" {
		if p.tok.text == "" {
			return nil, p.unexpected(`"}"`)
		}
		if len(list) == cap(list) { // a long list grows faster than by append
			list = slices.Grow(list, len(list)+8)
		}
		if list, err = p.statement(list); err != nil {
			return nil, err
		}
	}
	p.advance()
	return list, nil
}

// statement reads a statement, and appends what it declares or does to a list.
func (p *parser) statement(list []Statement) ([]Statement, *Error) {
	t := p.tok
	switch t.text {
	case "{":
		b, err := p.block()
		return append(list, Statement{Block: b}), err
	case ";":
		p.advance()
		return list, nil
	case ".loc":
		return list, p.loc()
	case ".pragma":
		return list, p.skipUntil(";")
	case ".reg", ".param", ".local", ".shared", ".global", ".const", ".extern":
		p.advance()
		linkage, space := "", spaceOf(t.text)
		if t.text == ".extern" {
			linkage, space = t.text, spaceOf(p.tok.text)
			p.advance()
		}
		vars, err := p.variables(space, t.pos, linkage)
		for _, v := range vars {
			if (space == Global || space == Const) && linkage == "" && err == nil {
				p.lift(v)
			}
			list = append(list, Statement{Var: v})
		}
		return list, err
	}
	if strings.HasPrefix(t.text, ".") {
		return nil, p.unexpected("a statement")
	}
	inst := &Inst{Pos: t.pos, Source: p.source}
	if p.take("@") {
		inst.Negated = p.take("!")
		var err *Error
		if inst.Guard, err = p.name(); err != nil {
			return nil, err
		}
	}
	op, err := p.name()
	if err != nil {
		return nil, err
	}
	if p.tok.text == ":" && inst.Guard == "" {
		if !nameable(op) {
			return nil, &Error{t.pos, fmt.Sprintf("%q is no name of a label", op)}
		}
		p.advance()
		return p.labelled(list, t.pos, op)
	}
	if inst.Op = op; p.take(";") {
		return append(list, Statement{Inst: inst}), nil
	}
	for {
		o, err := p.operand()
		if err != nil {
			return nil, err
		}
		inst.Operands = append(inst.Operands, o)
		switch {
		case p.take(";"):
			return append(list, Statement{Inst: inst}), nil
		case p.tok.text == ".unified": // an attribute of a call
			p.advance()
		}
		if err := p.expect(","); err != nil {
			return nil, err
		}
	}
}

// lift adds a variable that a function declares to those of the module, under a name of its own.
func (p *parser) lift(v *Var) {
	one := *v
	one.Name = fmt.Sprintf("%s.%s.%d", p.m.Functions[len(p.m.Functions)-1].Name, v.Name, len(p.m.Vars))
	p.m.Vars = append(p.m.Vars, &one)
	v.Global = &one
}

// labelled reads what stands behind a label, if it is a table.
func (p *parser) labelled(list []Statement, pos Pos, name string) (_ []Statement, err *Error) {
	t := &Table{Pos: pos, Kind: p.tok.text, Name: name}
	switch t.Kind {
	case ".branchtargets", ".calltargets":
		p.advance()
		for {
			n, err := p.name()
			if err != nil {
				return nil, err
			}
			if t.Names = append(t.Names, n); !p.take(",") {
				break
			}
		}
	case ".callprototype":
		p.advance()
		if p.tok.text == "(" {
			if t.Results, err = p.results(); err != nil {
				return nil, err
			}
		}
		if _, err = p.name(); err != nil {
			return nil, err
		}
		if p.tok.text == "(" {
			if t.Params, err = p.params(); err != nil {
				return nil, err
			}
		}
		if err := p.skipUntil(";"); err != nil {
			return nil, err
		}
		return append(list, Statement{Table: t}), nil
	default:
		return append(list, Statement{Label: name}), nil
	}
	return append(list, Statement{Table: t}), p.expect(";")
}

// operand reads an operand.
func (p *parser) operand() (o Operand, err *Error) {
	if err := p.deeper(); err != nil {
		return o, err
	}
	defer p.higher()
	o.Pos = p.tok.pos
	switch t := p.tok.text; {
	case t == "[":
		p.advance()
		o.Kind = Address
		if err := p.base(&o); err != nil {
			return o, err
		}
		for p.take(",") { // of a texture: the coordinates
			part, err := p.operand()
			if err != nil {
				return o, err
			}
			o.Parts = append(o.Parts, part)
		}
		return o, p.expect("]")
	case t == "{":
		o.Kind = Vector
		o.Parts, err = p.parts("}")
		return o, err
	case t == "(" && !p.constantFollows():
		o.Kind = List
		o.Parts, err = p.parts(")")
		return o, err
	case t == "!":
		p.advance()
		o, err = p.operand()
		o.Negated = !o.Negated
		return o, err
	case t != "" && isWord(t[0]) && !isDigit(t[0]) && t[0] != '.' && t != "WARP_SZ":
		if err := p.base(&o); err != nil {
			return o, err
		}
		if p.take("[") {
			pos := p.tok.pos
			o.Kind = Element
			if o.Number, err = p.constant(); err == nil && o.Number.isFloat() {
				err = &Error{pos, "the index of an element is a float"}
			}
			if err != nil {
				return o, err
			}
			return o, p.expect("]")
		}
	default:
		o.Kind = Literal
		if o.Number, err = p.constant(); err != nil {
			return o, err
		}
	}
	if p.take("|") {
		second, err := p.operand()
		if err != nil {
			return o, err
		}
		return Operand{Pos: o.Pos, Kind: Pair, Parts: []Operand{o, second}}, nil
	}
	return o, nil
}

// constantFollows reports whether a parenthesis begins a constant expression. The other meaning is a
// list of names, which may be empty.
func (p *parser) constantFollows() bool {
	saved := *p
	defer func() { *p = saved }()
	p.advance()
	t := p.tok.text
	if t == "-" || t == "(" || t == "~" || t == ".s64" || t == ".u64" {
		return true
	}
	if t == "" || !isDigit(t[0]) {
		return false
	}
	_, err := p.constant()
	return err == nil && p.take(")") && p.tok.text != ";" && precedence(p.tok.text) > 0
}

// base reads a name or a number with an offset.
func (p *parser) base(o *Operand) (err *Error) {
	t := p.tok.text
	if t != "" && isWord(t[0]) && !isDigit(t[0]) && t != "WARP_SZ" {
		if o.Name, err = p.name(); err != nil {
			return err
		}
		o.Number, err = p.offset()
		return err
	}
	o.Number, err = p.constant()
	return err
}

// parts reads operands up to a closing mark.
func (p *parser) parts(end string) (list []Operand, _ *Error) {
	p.advance()
	for p.tok.text != end {
		o, err := p.operand()
		if err != nil {
			return nil, err
		}
		if list = append(list, o); !p.take(",") {
			break
		}
	}
	return list, p.expect(end)
}
