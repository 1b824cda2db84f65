package syntax

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Header reads the directives with which a text begins: its version, and its target, each with its
// place. The error is an *[Error].
func Header(text string) (m *Module, version, target Pos, _ error) {
	p, version, target, err := begin(text)
	if err != nil {
		return nil, version, target, err
	}
	return p.m, version, target, nil
}

// begin reads the beginning of a text.
func begin(text string) (p *parser, version, target Pos, _ error) {
	text, _, _ = strings.Cut(text, "\x00")
	p = &parser{scanner: scanner{text: text, line: 1}, m: &Module{Files: make(map[uint64]string)}}
	p.advance()
	version = p.tok.pos
	err := p.expect(".version")
	if err == nil {
		err = p.version()
	}
	if target = p.tok.pos; err == nil {
		if err = p.expect(".target"); err == nil {
			err = p.target()
		}
	}
	if err == nil && p.m.Target == 0 {
		err = &Error{target, "the target is no architecture"}
	}
	if p.failed != nil || err != nil {
		return nil, version, target, cmpError(p.failed, err)
	}
	return p, version, target, nil
}

// Parse reads a text, up to a NUL. It never panics. The error is an *[Error].
func Parse(text string) (*Module, error) {
	p, _, _, err := begin(text)
	if err != nil {
		return nil, err
	}
	for p.tok.text != "" {
		if err := p.declaration(); err != nil {
			return nil, cmpError(p.failed, err)
		}
	}
	if p.failed != nil {
		return nil, p.failed
	}
	return p.m, nil
}

// cmpError returns the first of two errors that is not nil.
func cmpError(a, b *Error) error {
	if a != nil {
		return a
	}
	return b
}

// parser reads a text.
type parser struct {
	scanner
	m      *Module
	tok    token
	source Source // as .loc says
	failed *Error // an error of the scanner, after which there are no tokens
	depth  int
}

// advance reads the next token.
func (p *parser) advance() {
	tok, err := p.next()
	if err != nil && p.failed == nil {
		p.failed = err
	}
	if p.failed != nil {
		tok = token{pos: p.tok.pos}
	}
	p.tok = tok
}

func (p *parser) deeper() *Error {
	if p.depth++; p.depth > mostNesting {
		return &Error{p.tok.pos, "the text is nested too deeply"}
	}
	return nil
}

func (p *parser) higher() { p.depth-- }

// take reports whether the next token is text, and consumes it if so.
func (p *parser) take(text string) bool {
	if p.tok.text != text {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(text string) *Error {
	if !p.take(text) {
		return p.unexpected(strconv.Quote(text))
	}
	return nil
}

// unexpected returns the error for a token that does not belong here.
func (p *parser) unexpected(want string) *Error {
	if p.tok.text == "" {
		return &Error{p.tok.pos, "the text ends, and " + want + " is missing"}
	}
	return &Error{p.tok.pos, fmt.Sprintf("%q stands where %s is expected", p.tok.text, want)}
}

// name consumes a name.
func (p *parser) name() (string, *Error) {
	t := p.tok.text
	if t == "" || !isWord(t[0]) || t[0] == '.' || isDigit(t[0]) || t == "%" {
		return "", p.unexpected("a name")
	}
	p.advance()
	return t, nil
}

// newName consumes a name that is declared.
func (p *parser) newName() (string, *Error) {
	if !nameable(p.tok.text) {
		return "", p.unexpected("a name")
	}
	return p.name()
}

// nameable reports whether a word may be a name. A dot separates a vector from its element, and an instruction from its
// modifiers; a % may only begin a name; and _ is the result that nobody wants.
func nameable(word string) bool {
	return word != "_" && !strings.Contains(word, ".") && strings.LastIndexByte(word, '%') <= 0
}

// skipUntil consumes everything up to a mark, and the mark.
func (p *parser) skipUntil(mark string) *Error {
	for p.tok.text != mark {
		if p.tok.text == "" {
			return p.unexpected(strconv.Quote(mark))
		}
		p.advance()
	}
	p.advance()
	return nil
}

// attributes reads what follows .attribute: .managed, or .unified with two numbers, in parentheses.
func (p *parser) attributes() (managed bool, err *Error) {
	for depth := 0; ; p.advance() {
		switch p.tok.text {
		case "":
			return false, p.unexpected(`")"`)
		case ".managed":
			managed = true
		case "(":
			depth++
		case ")":
			if depth--; depth <= 0 {
				p.advance()
				return managed, nil
			}
		}
	}
}

// mostGlobal is the first version of PTX in which registers and variables in local memory may not be declared outside
// of functions.
const mostGlobal = 30

// alias reads the names behind .alias.
func (p *parser) alias(pos Pos) *Error {
	name, err := p.newName()
	if err != nil {
		return err
	}
	if err := p.expect(","); err != nil {
		return err
	}
	p.m.Aliases = append(p.m.Aliases, Alias{pos, name, p.tok.text})
	p.advance()
	return p.expect(";")
}

// declaration reads a declaration of the module.
func (p *parser) declaration() *Error {
	linkage := ""
	for slices.Contains([]string{".extern", ".visible", ".weak", ".common"}, p.tok.text) {
		linkage = p.tok.text
		p.advance()
	}
	t := p.tok
	p.advance()
	switch t.text {
	case ".address_size":
		if p.tok.text != "64" {
			return p.unexpected("64")
		}
		p.advance()
	case ".file":
		return p.file()
	case ".section":
		return p.section()
	case ".pragma":
		return p.skipUntil(";")
	case ".alias":
		return p.alias(t.pos)
	case ".entry", ".func":
		return p.function(t, linkage)
	case ".global", ".const", ".shared", ".local", ".reg":
		if p.m.Version >= mostGlobal && t.text == ".reg" {
			return &Error{t.pos, fmt.Sprintf("%q begins no declaration", t.text)}
		}
		vars, err := p.variables(spaceOf(t.text), t.pos, linkage)
		p.m.Vars = append(p.m.Vars, vars...)
		return err
	default:
		return &Error{t.pos, fmt.Sprintf("%q begins no declaration", t.text)}
	}
	return nil
}

func (p *parser) version() *Error {
	major, minor, _ := strings.Cut(p.tok.text, ".")
	a, err1 := strconv.ParseUint(major, 10, 8)
	b, err2 := strconv.ParseUint(minor, 10, 8)
	if err1 != nil || err2 != nil {
		return p.unexpected("a version")
	}
	p.m.Version = int32(a*10 + b)
	p.advance()
	return nil
}

func (p *parser) target() *Error {
	for {
		if sm, is := strings.CutPrefix(p.tok.text, "sm_"); is {
			number := strings.TrimRight(sm, "af")
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil {
				return p.unexpected("a target")
			}
			p.m.Target, p.m.Features = int32(n), sm[len(number):]
		}
		p.advance()
		if !p.take(",") {
			return nil
		}
	}
}

// function reads a kernel or a function.
func (p *parser) function(t token, linkage string) (err *Error) {
	f := &Function{Pos: t.pos, Kernel: t.text == ".entry"}
	if p.tok.text == ".attribute" {
		p.advance()
		if _, err = p.attributes(); err != nil {
			return err
		}
	}
	if p.tok.text == "(" && !f.Kernel {
		if f.Results, err = p.results(); err != nil {
			return err
		}
	}
	f.linked = linked{linkage, p.tok.at}
	if f.Name, err = p.newName(); err != nil {
		return err
	}
	if p.tok.text == "(" {
		if f.Params, err = p.params(); err != nil {
			return err
		}
	}
	p.m.Functions = append(p.m.Functions, f)
	for p.tok.text != "{" {
		if p.take(";") || p.m.Version < 30 && beginsDeclaration(p.tok.text) { // old texts have no semicolon
			return nil
		}
		if err = p.directive(f); err != nil {
			return err
		}
	}
	f.HasBody = true
	p.source = Source{}
	f.Body, err = p.block()
	return err
}

// beginsDeclaration reports whether a directive begins a declaration of a module.
func beginsDeclaration(t string) bool {
	switch t {
	case ".extern", ".visible", ".weak", ".entry", ".func", ".file", ".section", ".global", ".const", ".shared":
		return true
	}
	return false
}

// numbers says how many numbers a directive about a function has at most.
func numbers(directive string) (most int, known bool) {
	switch directive {
	case ".maxntid", ".reqntid", ".reqnctapercluster":
		return 3, true
	case ".minnctapersm", ".maxnctapersm", ".maxnreg", ".maxclusterrank", ".abi_preserve", ".abi_preserve_control":
		return 1, true
	case ".explicitcluster", ".blocksareclusters", ".noreturn":
		return 0, true
	}
	return 0, false
}

// directive reads a directive about a function.
func (p *parser) directive(f *Function) *Error {
	d := Directive{Pos: p.tok.pos, Name: p.tok.text}
	if p.take(".pragma") {
		return p.skipUntil(";")
	}
	if d.Name == ".attribute" {
		p.advance()
		_, err := p.attributes()
		return err
	}
	most, known := numbers(d.Name)
	if !known {
		return p.unexpected("a body")
	}
	p.advance()
	for len(d.Values) < most {
		pos := p.tok.pos
		n, err := p.constant()
		if err != nil {
			return err
		}
		if n.isFloat() || n.Bits == 0 || n.Bits > 1<<20 {
			return &Error{pos, "the argument of " + d.Name + " is out of range"}
		}
		if d.Values = append(d.Values, n.Bits); !p.take(",") {
			break
		}
	}
	f.Directives = append(f.Directives, d)
	return nil
}

// file reads the number and the name of a source file, and perhaps its time and its size.
func (p *parser) file() *Error {
	n, err := p.constant()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(p.tok.text, `"`) {
		return p.unexpected("the name of a file")
	}
	p.m.Files[n.Bits] = strings.Trim(p.tok.text, `"`)
	p.advance()
	for err == nil && p.take(",") {
		_, err = p.constant()
	}
	return err
}

// loc reads a place in the source, and perhaps where it was inlined.
func (p *parser) loc() *Error {
	p.advance()
	var place [3]uint64
	numbers := func() *Error {
		for i := range place {
			n, err := p.constant()
			if err != nil {
				return err
			}
			place[i] = n.Bits
		}
		return nil
	}
	if err := numbers(); err != nil {
		return err
	}
	p.source = Source{uint32(place[0]), uint32(place[1])}
	for p.take(",") {
		word, err := p.name()
		if err == nil && word == "inlined_at" {
			err = numbers()
		} else if err == nil {
			if _, err = p.name(); err == nil {
				_, err = p.offset()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
