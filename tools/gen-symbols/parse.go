package main

import (
	"slices"
	"strconv"
	"strings"
)

// A unit has the declarations of one or several preprocessed headers.
type unit struct {
	typedefs  map[string]*ctype
	records   map[string]*ctype // by "struct tag" or "union tag"
	enums     []*enum
	constants map[string]int64
	funcs     []*prototype
	pfns      []*prototype // typedefs of pointers to functions whose name begins with PFN_
	errs      *errorList
	anonymous int
}

// An enum is one enumeration.
type enum struct {
	name      string // the first typedef's name, else the tag
	typ       *ctype
	constants []enumerator
}

// An enumerator is one constant of an enum.
type enumerator struct {
	name  string
	value int64
	doc   string
	file  string
	line  int
}

// A prototype is the declaration of a function.
type prototype struct {
	name    string // for the linker, after the preprocessor
	written string // in the source, before the preprocessor
	file    string
	line    int
	ret     *ctype
	params  []param
}

func newUnit(errs *errorList) *unit {
	return &unit{
		typedefs: map[string]*ctype{}, records: map[string]*ctype{}, constants: map[string]int64{}, errs: errs,
	}
}

// A parser reads declarations. If it cannot read a declaration, it panics with a syntaxError, and
// continues after the next semicolon.
type parser struct {
	*unit
	toks  []token
	pos   int
	depth int
}

type syntaxError struct{}

// parse adds the declarations in toks to u.
func (u *unit) parse(toks []token) {
	p := &parser{unit: u, toks: toks}
	for p.pos < len(p.toks) {
		p.declaration()
	}
}

func (p *parser) peek() token { return p.at(0) }

func (p *parser) at(i int) token {
	if p.pos+i < len(p.toks) {
		return p.toks[p.pos+i]
	}
	t := token{kind: tEOF, text: "end of file"}
	if n := len(p.toks); n > 0 {
		t.file, t.line = p.toks[n-1].file, p.toks[n-1].line
	}
	return t
}

func (p *parser) take() token {
	t := p.peek()
	p.pos++
	return t
}

func (p *parser) accept(text string) bool {
	if p.peek().is(text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.fail("expected %q, found %q", text, p.peek().text)
	}
}

func (p *parser) fail(format string, args ...any) {
	t := p.peek()
	p.errs.add(t.file, t.line, format, args...)
	panic(syntaxError{})
}

// nest limits the depth of a recursive production.
func (p *parser) nest() func() {
	if p.depth++; p.depth > maxDepth {
		p.fail("declaration is nested too deeply")
	}
	return func() { p.depth-- }
}

// declaration reads one external declaration.
func (p *parser) declaration() {
	start := p.pos
	defer func() {
		switch e := recover().(type) {
		case nil:
		case syntaxError:
			p.depth = 0
			p.recoverAt(start)
		default:
			panic(e)
		}
	}()
	if p.accept(";") {
		return
	}
	isTypedef := p.accept("typedef")
	inline := false
	base := p.specifiers(&inline)
	for !p.peek().is(";") {
		first := p.peek()
		name, typ := p.declarator(base)
		p.attributes()
		switch {
		case name.kind != tIdent:
			p.fail("expected a name, found %q", p.peek().text)
		case isTypedef:
			p.typedef(name, typ)
		case typ.shape == sFunc:
			if p.peek().is("{") {
				// An inline function is not an export.
				p.skipBraces()
				return
			}
			if !inline {
				p.funcs = append(p.funcs, p.newPrototype(name, first, typ))
			}
		default:
			p.pos = start
			p.fail("declaration of %q is neither a type nor a function", name.text)
		}
		if !p.accept(",") {
			break
		}
	}
	p.expect(";")
}

// recoverAt continues after the declaration that began at start: after the next semicolon outside
// of braces.
func (p *parser) recoverAt(start int) {
	p.pos = start
	depth := 0
	for p.pos < len(p.toks) {
		switch t := p.take(); {
		case t.is("{"):
			depth++
		case t.is("}"):
			depth = max(depth-1, 0)
		case t.is(";") && depth == 0:
			return
		}
	}
}

func (p *parser) skipBraces() {
	depth := 0
	for {
		switch t := p.take(); {
		case t.kind == tEOF:
			p.pos = len(p.toks)
			p.fail("function body does not end")
		case t.is("{"):
			depth++
		case t.is("}"):
			if depth--; depth == 0 {
				return
			}
		}
	}
}

func (p *parser) typedef(name token, typ *ctype) {
	if old := p.typedefs[name.text]; old != nil && p.signature(old) != p.signature(typ) {
		p.errs.add(name.file, name.line, "typedef %s differs from its earlier declaration", name.text)
		return
	}
	p.typedefs[name.text] = typ
	if typ.shape == sEnum {
		for _, e := range p.enums {
			if e.typ == typ && strings.HasPrefix(e.name, "enum ") {
				e.name = name.text
			}
		}
	}
	if strings.HasPrefix(name.text, "PFN_") {
		if typ.shape != sPointer || typ.elem.shape != sFunc {
			p.errs.add(name.file, name.line, "typedef %s is no pointer to a function", name.text)
			return
		}
		p.pfns = append(p.pfns, p.newPrototype(name, name, typ.elem))
	}
}

func (p *parser) newPrototype(name, first token, typ *ctype) *prototype {
	return &prototype{name: name.text, written: name.written(), file: first.file, line: first.line,
		ret: typ.elem, params: typ.params}
}

// specifiers reads the tokens before the declarators, which include the type.
func (p *parser) specifiers(inline *bool) *ctype {
	defer p.nest()()
	var typ *ctype
	var words []string
	isConst := false
	for {
		t := p.peek()
		switch {
		case t.is("const"):
			isConst = true
			p.pos++
		case t.is("extern"), t.is("volatile"), t.is("register"), t.is("restrict"), t.is("__restrict"):
			p.pos++
		case t.is("static"), t.is("inline"), t.is("__inline"), t.is("__inline__"), t.is("__forceinline"):
			*inline = true
			p.pos++
		case t.is("__attribute__"), t.is("__declspec"), t.is("alignas"), t.is("_Alignas"):
			p.attributes()
		case t.is("struct"), t.is("union"):
			typ = p.structOrUnion()
		case t.is("enum"):
			typ = p.enumeration()
		case t.kind == tIdent && isBasicWord(t.text) && typ == nil:
			words = append(words, t.text)
			p.pos++
		case t.kind == tIdent && typ == nil && len(words) == 0:
			typ = &ctype{shape: sNamed, name: t.text}
			if _, ok := basicTypes[t.text]; ok {
				typ.shape = sBasic
			} else if p.typedefs[t.text] == nil {
				p.fail("unknown type %q", t.text)
			}
			p.pos++
		default:
			if len(words) > 0 {
				name, ok := basicName(words)
				if !ok {
					p.fail("unsupported type %q", strings.Join(words, " "))
				}
				typ = &ctype{shape: sBasic, name: name}
			}
			if typ == nil {
				p.fail("expected a type, found %q", t.text)
			}
			if isConst {
				c := *typ
				c.isCons = true
				typ = &c
			}
			return typ
		}
	}
}

func isBasicWord(s string) bool {
	switch s {
	case "void", "char", "short", "int", "long", "float", "double", "signed", "unsigned":
		return true
	}
	return false
}

// attributes skips attributes, and returns the alignment in them.
func (p *parser) attributes() (align int64) {
	for {
		t := p.peek()
		if !t.is("__attribute__") && !t.is("__declspec") && !t.is("alignas") && !t.is("_Alignas") {
			return align
		}
		p.pos++
		toks := p.parens()
		if strings.HasSuffix(strings.ToLower(t.text), "alignas") {
			align = max(align, p.constant(t, toks))
		}
	}
}

// parens takes a parenthesis, and returns its content.
func (p *parser) parens() []token {
	p.expect("(")
	start := p.pos
	for depth := 1; ; {
		switch t := p.take(); {
		case t.kind == tEOF:
			p.fail("missing )")
		case t.is("("):
			depth++
		case t.is(")"):
			if depth--; depth == 0 {
				return p.toks[start : p.pos-1]
			}
		}
	}
}

// constant evaluates toks for the token t.
func (p *parser) constant(t token, toks []token) int64 {
	toks = p.sizeofs(toks)
	v, err := evaluate(toks, func(name string) (int64, bool) { v, ok := p.constants[name]; return v, ok })
	if err != nil {
		p.errs.add(t.file, t.line, "%v", err)
	}
	return v
}

// sizeofs returns toks with each sizeof(type) replaced by its value.
func (p *parser) sizeofs(toks []token) []token {
	i := slices.IndexFunc(toks, func(t token) bool { return t.is("sizeof") })
	if i < 0 {
		return toks
	}
	sub := &parser{unit: p.unit, toks: toks, pos: i + 1, depth: p.depth}
	sub.expect("(")
	inline := false
	_, typ := sub.declarator(sub.specifiers(&inline))
	sub.expect(")")
	size, _, err := p.layout(typ)
	if err != nil {
		p.fail("sizeof: %v", err)
	}
	number := token{kind: tNumber, text: strconv.FormatInt(size, 10)}
	return slices.Concat(toks[:i], []token{number}, p.sizeofs(toks[sub.pos:]))
}
