package cheader

import "strconv"

// structOrUnion reads a struct or a union, with or without its members.
func (p *parser) structOrUnion() *Type {
	word := p.take().Text
	align := p.attributes()
	tag := ""
	if p.peek().kind == tIdent {
		tag = p.take().Text
	} else {
		p.anonymous++
		tag = "#" + strconv.Itoa(p.anonymous)
	}
	key := word + " " + tag
	typ := p.records[key]
	if typ == nil {
		typ = &Type{Shape: ShapeRecord, Name: tag, Union: word == "union", Record: &Record{}}
		p.records[key] = typ
	}
	if !p.peek().is("{") {
		return typ
	}
	if typ.Record.Defined {
		p.fail("%s is defined twice", key)
	}
	p.pos++
	rec := typ.Record
	rec.Defined, rec.align = true, align
	for !p.accept("}") {
		p.member(rec)
	}
	return typ
}

// member reads one line of a struct.
func (p *parser) member(rec *Record) {
	rec.align = max(rec.align, p.attributes())
	inline := false
	base := p.specifiers(&inline)
	if p.accept(";") { // an unnamed struct or union, whose members belong to this one
		rec.Members = append(rec.Members, Param{Type: base})
		return
	}
	for {
		line := p.peek().line
		name, typ := p.declarator(base)
		if p.peek().is(":") {
			p.fail("bit fields are not supported")
		}
		rec.Members = append(rec.Members, Param{name.Text, typ, line})
		if !p.accept(",") {
			break
		}
	}
	p.expect(";")
}

// enumeration reads an enum, with or without its constants.
func (p *parser) enumeration() *Type {
	p.pos++
	tag := ""
	if p.peek().kind == tIdent {
		tag = p.take().Text
	} else {
		p.anonymous++
		tag = "#" + strconv.Itoa(p.anonymous)
	}
	var e *Enum
	for _, known := range p.Enums {
		if known.Type.Name == tag {
			e = known
		}
	}
	if e == nil {
		e = &Enum{Name: "enum " + tag, Type: &Type{Shape: ShapeEnum, Name: tag}}
		p.Enums = append(p.Enums, e)
	}
	if !p.accept("{") {
		return e.Type
	}
	if len(e.Constants) > 0 {
		p.fail("enum %s is defined twice", tag)
	}
	next := int64(0)
	for !p.accept("}") {
		t := p.take()
		if t.kind != tIdent {
			p.pos--
			p.fail("expected a constant's name, found %q", t.Text)
		}
		p.attributes()
		if p.accept("=") {
			start := p.pos
			for depth := 0; depth > 0 || !p.peek().is(",") && !p.peek().is("}"); p.pos++ {
				switch u := p.peek(); {
				case u.kind == tEOF:
					p.fail("enum %s does not end", tag)
				case u.is("("):
					depth++
				case u.is(")"):
					depth--
				}
			}
			next = p.constant(t, p.toks[start:p.pos])
		}
		if old, ok := p.Constants[t.Text]; ok && old != next {
			p.errs.Add(t.file, t.line, "constant %s is %d here and %d before", t.Text, next, old)
		}
		p.Constants[t.Text] = next
		e.Constants = append(e.Constants, Enumerator{t.Text, next, t.doc, t.file, t.line})
		next++
		if !p.accept(",") {
			p.expect("}")
			break
		}
	}
	return e.Type
}
