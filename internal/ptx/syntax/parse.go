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
		if err := p.skipUntil("{"); err != nil {
			return err
		}
		return p.skipUntil("}")
	case ".pragma", ".alias":
		return p.skipUntil(";")
	case ".entry", ".func":
		return p.function(t, linkage)
	case ".global", ".const", ".shared", ".local":
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
			n, err := strconv.ParseUint(strings.TrimRight(sm, "af"), 10, 16)
			if err != nil {
				return p.unexpected("a target")
			}
			p.m.Target = int32(n)
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
	if p.tok.text == "(" && !f.Kernel {
		if f.Results, err = p.params(); err != nil {
			return err
		}
	}
	f.linked = linked{linkage, p.tok.at}
	if f.Name, err = p.name(); err != nil {
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
		if err != nil {
			return nil, err
		}
		if list = append(list, v); !p.take(",") {
			break
		}
	}
	return list, p.expect(")")
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
	v := &Var{Pos: pos, Space: space, Vector: 1, Count: 1}
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
			if v.Type = t.text[1:]; TypeSize(v.Type) == 0 {
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

// mostNames is the largest number of variables, other than registers, that one name declares.
const mostNames = 1 << 16

// mostSize is the largest size of a variable in bytes.
const mostSize = 1 << 40

// declarator reads a name, dimensions, and an initial value.
func (p *parser) declarator(v *Var) (err *Error) {
	v.linked.at = p.tok.at
	if v.Name, err = p.name(); err != nil {
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
