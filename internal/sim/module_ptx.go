package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx"
)

// ptxCode contains the declarations of a PTX text.
type ptxCode struct {
	target    int32 // 90 for sm_90
	constant  int32 // size of the constant memory, in bytes
	entries   []ptxEntry
	variables []ptxVariable
}

// ptxEntry is a kernel.
type ptxEntry struct {
	name       string
	params     []param
	maxThreads int32    // the largest number of threads of a block
	explicit   int32    // 1 if launches must say the size of clusters
	cluster    [3]int32 // the required size of clusters, or 0
	maxRank    int32    // the largest number of blocks of a cluster, or 0
	shared     int32    // size of the shared memory, in bytes
	local      int32    // size of the local memory of a thread, in bytes
	idle       bool     // the body only returns
}

// ptxVariable is a variable that programs can access with cuModuleGetGlobal.
type ptxVariable struct {
	name    string
	size    uint64
	align   uint64
	content []byte // the first bytes; the rest is zero
}

// ptxError is the error for an invalid text.
type ptxError struct {
	code driver.Result
	text string
}

// architecture is the architecture of an H200.
const architecture = 90

// ptxToken is a word or a punctuation mark.
type ptxToken struct {
	text string
	line int
}

// ptxParser parses the declarations of a text. It skips instructions.
type ptxParser struct {
	tokens []ptxToken
	line   int
	code   ptxCode
	sizes  map[string][]uint64 // the sizes of the parameters, by kernel
}

// parsePTX parses a text for a driver with the given version.
func parsePTX(image []byte, version int32) (*ptxCode, *ptxError) {
	text, _, _ := strings.Cut(string(image), "\x00")
	p := &ptxParser{line: 1, sizes: ptx.Kernels(image)}
	var problem *ptxError
	if p.tokens, problem = scanPTX(text); problem != nil {
		return nil, problem
	}
	if problem := p.header(version); problem != nil {
		return nil, problem
	}
	for len(p.tokens) > 0 {
		if problem := p.declaration(); problem != nil {
			return nil, problem
		}
	}
	return &p.code, nil
}

// scanPTX splits a text into tokens. Strings are tokens with their quotes.
func scanPTX(text string) (tokens []ptxToken, _ *ptxError) {
	line := 1
	for text != "" {
		n := 1
		switch c := text[0]; {
		case c == '\n', c == ' ', c == '\t', c == '\r':
		case strings.HasPrefix(text, "//"):
			if n = strings.IndexByte(text, '\n'); n < 0 {
				n = len(text)
			}
		case strings.HasPrefix(text, "/*"):
			if n = strings.Index(text[2:], "*/") + 4; n < 4 {
				return nil, fatal(line, "a comment does not end")
			}
		case c == '"':
			if n = strings.IndexByte(text[1:], '"') + 2; n < 2 {
				return nil, fatal(line, "a string does not end")
			}
			tokens = append(tokens, ptxToken{text[:n], line})
		case strings.IndexByte("()[]{},;:=", c) >= 0:
			tokens = append(tokens, ptxToken{text[:1], line})
		default:
			if n = strings.IndexAny(text[1:], " \t\n\r()[]{},;:=\"/") + 1; n < 1 {
				n = len(text)
			}
			tokens = append(tokens, ptxToken{text[:n], line})
		}
		line += strings.Count(text[:n], "\n")
		text = text[n:]
	}
	return tokens, nil
}

// fatal returns the error for a text that is not valid PTX.
func fatal(line int, format string, a ...any) *ptxError {
	return &ptxError{driver.ResultInvalidPTX, fmt.Sprintf("cusim: line %d: fatal: ", line) + fmt.Sprintf(format, a...)}
}

func (p *ptxParser) fatal(format string, a ...any) *ptxError { return fatal(p.line, format, a...) }

func (p *ptxParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0].text
}

// next returns and consumes the next token, or "" at the end.
func (p *ptxParser) next() string {
	if len(p.tokens) == 0 {
		return ""
	}
	t := p.tokens[0]
	p.tokens, p.line = p.tokens[1:], t.line
	return t.text
}

// take reports whether the next token is text, and consumes it if so.
func (p *ptxParser) take(text string) bool {
	if p.peek() != text {
		return false
	}
	p.next()
	return true
}

// until returns the tokens before a mark, and consumes them and the mark. ok is false if there is
// no such mark.
func (p *ptxParser) until(mark string) (tokens []ptxToken, ok bool) {
	n := slices.IndexFunc(p.tokens, func(t ptxToken) bool { return t.text == mark })
	if n < 0 {
		return nil, false
	}
	tokens = p.tokens[:n]
	p.line = p.tokens[n].line
	p.tokens = p.tokens[n+1:]
	return tokens, true
}

// braces returns the tokens between braces. The next token is the opening brace.
func (p *ptxParser) braces() (tokens []ptxToken, ok bool) {
	depth := 0
	for i, t := range p.tokens {
		switch t.text {
		case "{":
			depth++
		case "}":
			if depth--; depth == 0 {
				tokens = p.tokens[1:i]
				p.tokens, p.line = p.tokens[i+1:], t.line
				return tokens, true
			}
		}
	}
	return nil, false
}

// header parses the directives at the beginning of a text.
func (p *ptxParser) header(version int32) *ptxError {
	if p.peek() != ".version" {
		if t := p.next(); t != "" && !slices.Contains(ptxDirectives, t) {
			return p.fatal("syntax error at %q", t)
		}
		return p.fatal("the text does not begin with .version")
	}
	p.next()
	major, minor, isVersion := strings.Cut(p.next(), ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if !isVersion || err1 != nil || err2 != nil {
		return p.fatal("the argument of .version is no version")
	}
	if newest := newestPTX(version); a*10+b > newest {
		e := p.fatal("version %d.%d of PTX is not supported, only up to %d.%d", a, b, newest/10, newest%10)
		e.code = driver.ResultUnsupportedPTXVersion
		return e
	}
	if !p.take(".target") {
		return p.fatal(".version is not followed by .target")
	}
	for {
		t := p.next()
		if sm, is := strings.CutPrefix(t, "sm_"); is {
			n, err := strconv.Atoi(strings.TrimRight(sm, "af"))
			if err != nil || n < 10 {
				return p.fatal("there is no target %q", t)
			}
			if n > architecture {
				return p.fatal("the target %s is newer than the device, which is sm_%d", t, architecture)
			}
			p.code.target = int32(n)
		}
		if !p.take(",") {
			break
		}
	}
	if p.code.target == 0 {
		return p.fatal(".target names no architecture")
	}
	return nil
}

// newestPTX returns the newest version of PTX that a driver supports: 87 is 8.7.
func newestPTX(version int32) int {
	major, minor := int(version/1000), int(version%1000/10)
	switch {
	case major >= 13:
		return 90 + 10*(major-13) + minor
	case major == 12 && minor <= 5:
		return 80 + minor
	case major == 12:
		return 79 + minor
	case major == 11:
		return 70 + minor
	}
	return 65
}

// ptxDirectives are the first words of declarations.
var ptxDirectives = []string{
	".visible", ".extern", ".weak", ".common", ".entry", ".func", ".global", ".const", ".shared", ".local", ".tex", ".address_size",
	".file", ".section", ".pragma", ".alias", ".target", ".version",
}

// declaration reads one declaration.
func (p *ptxParser) declaration() *ptxError {
	extern := false
	for slices.Contains([]string{".visible", ".extern", ".weak", ".common"}, p.peek()) {
		extern = p.next() == ".extern" || extern
	}
	t := p.next()
	switch t {
	case ".entry":
		return p.entry()
	case ".func":
		return p.function()
	case ".global", ".const":
		return p.variable(t, extern)
	case ".shared", ".local", ".tex", ".pragma", ".alias":
		if _, is := p.until(";"); !is {
			return p.fatal("%s does not end with a semicolon", t)
		}
	case ".address_size":
		if size := p.next(); size != "64" {
			return p.fatal("addresses have 64 bits, not %q", size)
		}
	case ".file": // ends with its line
		for line := p.line; len(p.tokens) > 0 && p.tokens[0].line == line; {
			p.next()
		}
	case ".section":
		p.next()
		if p.peek() != "{" {
			return p.fatal(".section has no braces")
		}
		if _, is := p.braces(); !is {
			return p.fatal("a brace is not closed")
		}
	default:
		return p.fatal("syntax error at %q", t)
	}
	return nil
}

// entry reads a kernel.
func (p *ptxParser) entry() *ptxError {
	e := ptxEntry{name: p.next(), maxThreads: 1024}
	sizes, known := p.sizes[e.name]
	if !known {
		return p.fatal("the parameters of kernel %q are none", e.name)
	}
	if p.take("(") {
		list, is := p.until(")")
		if !is {
			return p.fatal("the parameters of kernel %q do not end", e.name)
		}
		e.params = offsets(sizes, list)
	}
	for p.peek() != "{" {
		switch t := p.next(); t {
		case ";": // a declaration without a body, which is elsewhere in the text
			return nil
		case "":
			return p.fatal("kernel %q has no body", e.name)
		case ".explicitcluster":
			e.explicit = 1
		case ".reqnctapercluster", ".maxclusterrank":
			if problem := p.clusters(t, &e); problem != nil {
				return problem
			}
		case ".maxntid", ".reqntid":
			product := uint64(1)
			for {
				n, err := strconv.ParseUint(p.next(), 0, 16)
				if err != nil || n == 0 {
					return p.fatal("the argument of %s is no number of threads", t)
				}
				product *= n
				if !p.take(",") {
					break
				}
			}
			e.maxThreads = int32(min(product, 1024))
		}
	}
	body, is := p.braces()
	if !is {
		return p.fatal("the body of kernel %q is not closed", e.name)
	}
	e.idle = !slices.ContainsFunc(body, func(t ptxToken) bool {
		return !slices.Contains([]string{"{", "}", ";", "ret", "exit"}, t.text)
	})
	spaces := map[string]*int32{".shared": &e.shared, ".local": &e.local}
	for i, t := range body {
		size := spaces[t.text]
		if size == nil || i > 0 && body[i-1].text == ".extern" {
			continue
		}
		rest := ptxParser{tokens: body[i+1:], line: t.line}
		if v, problem := rest.declared(); problem == nil {
			*size = v.behind(*size)
		}
	}
	p.code.entries = append(p.code.entries, e)
	return nil
}

// clusters reads the numbers of a directive about clusters.
func (p *ptxParser) clusters(directive string, e *ptxEntry) *ptxError {
	size := [3]int32{1, 1, 1}
	for i := range size {
		n, err := strconv.ParseUint(p.next(), 0, 16)
		if err != nil || n == 0 {
			return p.fatal("the argument of %s is no number of blocks", directive)
		}
		if size[i] = int32(n); directive == ".maxclusterrank" {
			e.maxRank = int32(n)
			return nil
		}
		if !p.take(",") {
			break
		}
	}
	e.cluster = size
	return nil
}

// offsets returns the offsets of parameters with these sizes, in the order of their declarations.
// Arrays have the declared alignment, other parameters are aligned to their size.
func offsets(sizes []uint64, list []ptxToken) []param {
	params := make([]param, len(sizes))
	at := uint64(0)
	for i, size := range sizes {
		n := slices.IndexFunc(list, func(t ptxToken) bool { return t.text == "," })
		if n < 0 {
			n = len(list)
		}
		align, element, array := uint64(0), size, false
		for j, t := range list[:n] {
			switch {
			case t.text == "[":
				array = true
			case t.text == ".align" && j+1 < n && !slices.ContainsFunc(list[:j], func(t ptxToken) bool { return t.text == ".ptr" }):
				align, _ = strconv.ParseUint(list[j+1].text, 10, 16)
			case typeSize(t.text) != 0:
				element = typeSize(t.text)
			}
		}
		if align == 0 {
			if align = size; array {
				align = element
			}
		}
		at = (at + align - 1) / align * align
		params[i] = param{at, size}
		at += size
		list = list[min(n+1, len(list)):]
	}
	return params
}

// typeSize returns the size of a type in bytes, or 0 if t is not a type.
func typeSize(t string) uint64 {
	switch t {
	case ".texref", ".samplerref", ".surfref":
		return 8
	}
	digits := strings.TrimPrefix(t, ".bf")
	if digits == t {
		digits = strings.TrimLeft(t, ".busf")
		if len(t)-len(digits) != 2 || t[0] != '.' {
			return 0
		}
	}
	switch digits {
	case "8", "16", "32", "64", "128":
		n, _ := strconv.ParseUint(digits, 10, 8)
		return n / 8
	}
	return 0
}

// function parses a function that is not a kernel.
func (p *ptxParser) function() *ptxError {
	for p.peek() != "{" {
		switch p.next() {
		case ";":
			return nil
		case "":
			return p.fatal("a function has no body")
		}
	}
	if _, is := p.braces(); !is {
		return p.fatal("the body of a function is not closed")
	}
	return nil
}

// variable parses a variable in global or constant memory. A variable that is defined elsewhere
// does not belong to this module.
func (p *ptxParser) variable(space string, extern bool) *ptxError {
	v, problem := p.declared()
	if problem == nil && !extern {
		p.code.variables = append(p.code.variables, v)
		if space == ".const" {
			p.code.constant = v.behind(p.code.constant)
		}
	}
	return problem
}

// behind returns the size of a memory area after the variable was added to an area with the given
// size.
func (v *ptxVariable) behind(size int32) int32 {
	at := (uint64(size) + v.align - 1) / v.align * v.align
	return int32(min(at+v.size, math.MaxInt32))
}

// declared parses the declaration of a variable after its space: an alignment, a type, a name,
// dimensions, an initial value.
func (p *ptxParser) declared() (v ptxVariable, _ *ptxError) {
	element, vector, align, float := uint64(0), uint64(1), uint64(0), false
	for strings.HasPrefix(p.peek(), ".") {
		switch t := p.next(); {
		case t == ".align":
			align, _ = strconv.ParseUint(p.next(), 10, 16)
		case t == ".attribute":
			if _, is := p.until(")"); !is {
				return v, p.fatal("an attribute does not end")
			}
		case t == ".v2":
			vector = 2
		case t == ".v4":
			vector = 4
		case t == ".v8":
			vector = 8
		case typeSize(t) != 0:
			element, float = typeSize(t), strings.HasPrefix(t, ".f")
		default:
			return v, p.fatal("syntax error at %q", t)
		}
	}
	v.name = p.next()
	if element == 0 || v.name == "" || strings.ContainsAny(v.name[:1], "()[]{},;:=\"0123456789") {
		return v, p.fatal("a variable has no type or no name")
	}
	const most = 1 << 40 // in bytes, more than a device has
	count, open := vector, false
	for p.take("[") {
		if p.take("]") {
			open = true
			continue
		}
		n, err := strconv.ParseUint(strings.TrimRight(p.next(), "U"), 0, 48)
		if err != nil || n == 0 || !p.take("]") || n > most/element/count {
			return v, p.fatal("variable %s has no length", v.name)
		}
		count *= n
	}
	if p.take("=") {
		var problem *ptxError
		if v.content, problem = p.initial(v.name, element, float); problem != nil {
			return v, problem
		}
	}
	if open {
		count = max(uint64(len(v.content))/element, 1)
	}
	v.size, v.align = element*count, align
	if align == 0 {
		v.align = element * vector
	}
	if uint64(len(v.content)) > v.size {
		return v, p.fatal("variable %s is initialised with more than it can hold", v.name)
	}
	if !p.take(";") {
		return v, p.fatal("the declaration of %s does not end with a semicolon", v.name)
	}
	return v, nil
}

// initial parses an initial value: a number, or numbers in braces.
func (p *ptxParser) initial(name string, element uint64, float bool) (content []byte, _ *ptxError) {
	depth := 0
	for {
		switch t := p.next(); t {
		case "{":
			depth++
			continue // a value follows, or another brace
		case "":
			return nil, p.fatal("the value of %s does not end", name)
		case "}":
			depth--
		default:
			bits, is := number(t, element, float)
			if !is {
				e := p.fatal("the value %q of %s is not understood: the software driver knows numbers only", t, name)
				e.code = driver.ResultNotSupported
				return nil, e
			}
			content = append(content, bits...)
		}
		for depth > 0 && p.take("}") {
			depth--
		}
		if depth <= 0 {
			return content, nil
		}
		if !p.take(",") {
			return nil, p.fatal("the value of %s has no comma before %q", name, p.peek())
		}
	}
}
