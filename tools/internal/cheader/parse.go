package cheader

import (
	"slices"
	"strconv"
	"strings"
)

// A Unit has the declarations of one or several preprocessed headers.
type Unit struct {
	// Long allows the type unsigned long, whose size differs between platforms.
	Long bool

	Typedefs      map[string]*Type
	records       map[string]*Type // by "struct tag" or "union tag"
	Enums         []*Enum
	Constants     map[string]int64
	Funcs         []*Prototype
	FunctionTypes []*Prototype // typedefs of pointers to functions whose name begins with PFN_
	errs          *ErrorList
	anonymous     int
}

// An Enum is one enumeration.
type Enum struct {
	Name      string // the first typedef's name, else the tag
	Type      *Type
	Constants []Enumerator
}

// An Enumerator is one constant of an enum.
type Enumerator struct {
	Name  string
	Value int64
	Doc   string
	File  string
	Line  int
}

// A Prototype is the declaration of a function.
type Prototype struct {
	Name    string // for the linker, after the preprocessor
	Written string // in the source, before the preprocessor
	File    string
	Line    int
	Ret     *Type
	Params  []Param
}

// NewUnit returns a Unit without declarations. Mistakes in headers are added to errs.
func NewUnit(errs *ErrorList) *Unit {
	return &Unit{
		Typedefs: map[string]*Type{}, records: map[string]*Type{}, Constants: map[string]int64{}, errs: errs,
	}
}

// A parser reads declarations. If it cannot read a declaration, it panics with a syntaxError, and
// continues after the next semicolon.
type parser struct {
	*Unit
	toks  []Token
	pos   int
	depth int
}

type syntaxError struct{}

// Parse adds the declarations in toks to u.
func (u *Unit) Parse(toks []Token) {
	p := &parser{Unit: u, toks: toks}
	for p.pos < len(p.toks) {
		p.declaration()
	}
}

func (p *parser) peek() Token { return p.at(0) }

func (p *parser) at(i int) Token {
	if p.pos+i < len(p.toks) {
		return p.toks[p.pos+i]
	}
	t := Token{kind: tEOF, Text: "end of file"}
	if n := len(p.toks); n > 0 {
		t.file, t.line = p.toks[n-1].file, p.toks[n-1].line
	}
	return t
}

func (p *parser) take() Token {
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
		p.fail("expected %q, found %q", text, p.peek().Text)
	}
}

func (p *parser) fail(format string, args ...any) {
	t := p.peek()
	p.errs.Add(t.file, t.line, format, args...)
	panic(syntaxError{})
}

// nest limits the depth of a recursive production.
func (p *parser) nest() func() {
	if p.depth++; p.depth > MaxDepth {
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
			p.fail("expected a name, found %q", p.peek().Text)
		case isTypedef:
			p.typedef(name, typ)
		case typ.Shape == ShapeFunc:
			if p.peek().is("{") {
				// An inline function is not an export.
				p.skipBraces()
				return
			}
			if !inline {
				p.Funcs = append(p.Funcs, p.newPrototype(name, first, typ))
			}
		default:
			p.pos = start
			p.fail("declaration of %q is neither a type nor a function", name.Text)
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

func (p *parser) typedef(name Token, typ *Type) {
	if old := p.Typedefs[name.Text]; old != nil && p.Signature(old) != p.Signature(typ) {
		p.errs.Add(name.file, name.line, "typedef %s differs from its earlier declaration", name.Text)
		return
	}
	p.Typedefs[name.Text] = typ
	if typ.Shape == ShapeEnum {
		for _, e := range p.Enums {
			if e.Type == typ && strings.HasPrefix(e.Name, "enum ") {
				e.Name = name.Text
			}
		}
	}
	if strings.HasPrefix(name.Text, "PFN_") {
		if typ.Shape != ShapePointer || typ.Elem.Shape != ShapeFunc {
			p.errs.Add(name.file, name.line, "typedef %s is no pointer to a function", name.Text)
			return
		}
		p.FunctionTypes = append(p.FunctionTypes, p.newPrototype(name, name, typ.Elem))
	}
}

func (p *parser) newPrototype(name, first Token, typ *Type) *Prototype {
	return &Prototype{Name: name.Text, Written: name.written(), File: first.file, Line: first.line,
		Ret: typ.Elem, Params: typ.Params}
}

// specifiers reads the tokens before the declarators, which include the type.
func (p *parser) specifiers(inline *bool) *Type {
	defer p.nest()()
	var typ *Type
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
		case t.kind == tIdent && isBasicWord(t.Text) && typ == nil:
			words = append(words, t.Text)
			p.pos++
		case t.kind == tIdent && typ == nil && len(words) == 0:
			typ = &Type{Shape: ShapeNamed, Name: t.Text}
			if _, ok := basicTypes[t.Text]; ok {
				typ.Shape = ShapeBasic
			} else if p.Typedefs[t.Text] == nil {
				p.fail("unknown type %q", t.Text)
			}
			p.pos++
		default:
			if len(words) > 0 {
				name, ok := basicName(words)
				if !ok || name == "unsigned long" && !p.Long {
					p.fail("unsupported type %q", strings.Join(words, " "))
				}
				typ = &Type{Shape: ShapeBasic, Name: name}
			}
			if typ == nil {
				p.fail("expected a type, found %q", t.Text)
			}
			if isConst {
				c := *typ
				c.IsConst = true
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
		if strings.HasSuffix(strings.ToLower(t.Text), "alignas") {
			align = max(align, p.constant(t, toks))
		}
	}
}

// parens takes a parenthesis, and returns its content.
func (p *parser) parens() []Token {
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
func (p *parser) constant(t Token, toks []Token) int64 {
	toks = p.sizeofs(toks)
	v, err := Evaluate(toks, func(name string) (int64, bool) { v, ok := p.Constants[name]; return v, ok })
	if err != nil {
		p.errs.Add(t.file, t.line, "%v", err)
	}
	return v
}

// sizeofs returns toks with each sizeof(type) replaced by its value.
func (p *parser) sizeofs(toks []Token) []Token {
	i := slices.IndexFunc(toks, func(t Token) bool { return t.is("sizeof") })
	if i < 0 {
		return toks
	}
	sub := &parser{Unit: p.Unit, toks: toks, pos: i + 1, depth: p.depth}
	sub.expect("(")
	inline := false
	_, typ := sub.declarator(sub.specifiers(&inline))
	sub.expect(")")
	size, _, err := p.Layout(typ)
	if err != nil {
		p.fail("sizeof: %v", err)
	}
	number := Token{kind: tNumber, Text: strconv.FormatInt(size, 10)}
	return slices.Concat(toks[:i], []Token{number}, p.sizeofs(toks[sub.pos:]))
}
