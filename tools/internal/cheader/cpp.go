package cheader

import (
	"slices"
	"strings"
)

// A Macro is one #define.
type Macro struct {
	name   string
	IsFunc bool
	params []string
	Body   []Token
	Line   int
	File   string
}

// A Preprocessor runs the part of the C preprocessor that the headers need: conditional groups, and
// object-like and function-like macros with ##. It does not open included files.
type Preprocessor struct {
	Macros map[string]*Macro
	Names  []string // of the macros, in the order of their first definition
	spent  int      // tokens that macros have made
	errs   *ErrorList
}

// NewPreprocessor returns a Preprocessor with macros, each NAME or NAME=VALUE.
func NewPreprocessor(errs *ErrorList, predefined ...string) *Preprocessor {
	p := &Preprocessor{Macros: map[string]*Macro{}, errs: errs}
	for _, name := range predefined {
		name, value, found := strings.Cut(name, "=")
		if !found {
			value = "1"
		}
		p.define(&Macro{name: name, Body: []Token{{kind: tNumber, Text: value}}})
	}
	return p
}

func (p *Preprocessor) define(m *Macro) {
	if !slices.Contains(p.Names, m.name) {
		p.Names = append(p.Names, m.name)
	}
	p.Macros[m.name] = m
}

// A group is an open #if … #endif.
type group struct {
	line   int
	active bool // the current branch is used
	taken  bool // a branch was used already
	parent bool // the surrounding group is used
	done   bool // #else has been seen
}

// Run returns the tokens of toks after preprocessing.
func (p *Preprocessor) Run(file string, toks []Token) []Token {
	var out, pending []Token
	var groups []group
	active := func() bool { return len(groups) == 0 || groups[len(groups)-1].active }
	flush := func() {
		out = append(out, p.Expand(pending)...)
		pending = pending[:0]
	}
	for len(toks) > 0 {
		n := 1
		for n < len(toks) && !toks[n].bol {
			n++
		}
		line := toks[:n]
		toks = toks[n:]
		switch {
		case line[0].is("#"):
			// A macro has the meaning that it has at this place.
			flush()
			p.directive(line, &groups, active())
		case active():
			pending = append(pending, line...)
		}
	}
	flush()
	for _, g := range groups {
		p.errs.Add(file, g.line, "#if without #endif")
	}
	return out
}

func (p *Preprocessor) directive(line []Token, groups *[]group, active bool) {
	if len(line) == 1 {
		return
	}
	d, args := line[1], line[2:]
	bad := func(format string, a ...any) { p.errs.Add(d.file, d.line, format, a...) }
	top := func() *group {
		if len(*groups) == 0 {
			bad("#%s without #if", d.Text)
			return nil
		}
		return &(*groups)[len(*groups)-1]
	}
	switch d.Text {
	case "if", "ifdef", "ifndef":
		on := active && p.condition(d, args)
		*groups = append(*groups, group{line: d.line, active: on, taken: on, parent: active})
	case "elif":
		if g := top(); g != nil {
			if g.done {
				bad("#elif after #else")
			}
			g.active = g.parent && !g.taken && p.condition(d, args)
			g.taken = g.taken || g.active
		}
	case "else":
		if g := top(); g != nil {
			if g.done {
				bad("#else after #else")
			}
			g.active, g.taken, g.done = g.parent && !g.taken, true, true
		}
	case "endif":
		if top() != nil {
			*groups = (*groups)[:len(*groups)-1]
		}
	case "define":
		if active {
			p.parseDefine(d, args)
		}
	case "undef":
		if active && len(args) > 0 {
			delete(p.Macros, args[0].Text)
		}
	case "error":
		if active {
			bad("#error %s", joinTokens(args))
		}
	case "include", "pragma", "line", "warning":
	default:
		if active {
			bad("unknown directive #%s", d.Text)
		}
	}
}

// condition evaluates the controlling expression of d.
func (p *Preprocessor) condition(d Token, args []Token) bool {
	if d.Text == "ifdef" || d.Text == "ifndef" {
		if len(args) != 1 || args[0].kind != tIdent {
			p.errs.Add(d.file, d.line, "#%s wants one name", d.Text)
			return false
		}
		return (p.Macros[args[0].Text] != nil) == (d.Text == "ifdef")
	}
	var ready []Token
	for i := 0; i < len(args); i++ {
		if !args[i].is("defined") {
			ready = append(ready, args[i])
			continue
		}
		j := i + 1
		paren := j < len(args) && args[j].is("(")
		if paren {
			j++
		}
		if j >= len(args) || args[j].kind != tIdent || paren && (j+1 >= len(args) || !args[j+1].is(")")) {
			p.errs.Add(d.file, d.line, "malformed defined()")
			return false
		}
		value := "0"
		if p.Macros[args[j].Text] != nil {
			value = "1"
		}
		ready = append(ready, Token{kind: tNumber, Text: value, file: d.file, line: d.line})
		if i = j; paren {
			i++
		}
	}
	// A name that is not a macro counts as zero, as in C.
	v, err := Evaluate(p.Expand(ready), func(string) (int64, bool) { return 0, true })
	if err != nil {
		p.errs.Add(d.file, d.line, "#%s: %v", d.Text, err)
	}
	return v != 0
}

func (p *Preprocessor) parseDefine(d Token, args []Token) {
	if len(args) == 0 || args[0].kind != tIdent {
		p.errs.Add(d.file, d.line, "#define wants a name")
		return
	}
	m := &Macro{name: args[0].Text, Line: d.line, File: d.file, Body: args[1:]}
	if len(m.Body) > 0 && m.Body[0].is("(") && m.Body[0].glue {
		m.IsFunc = true
		end := slices.IndexFunc(m.Body, func(t Token) bool { return t.is(")") })
		if end < 0 {
			p.errs.Add(d.file, d.line, "macro %s: parameter list does not end", m.name)
			return
		}
		for i, t := range m.Body[1:end] {
			if i%2 == 0 && t.kind == tIdent {
				m.params = append(m.params, t.Text)
			} else if i%2 == 0 || !t.is(",") {
				p.errs.Add(d.file, d.line, "macro %s: malformed parameter list", m.name)
				return
			}
		}
		m.Body = m.Body[end+1:]
	}
	p.define(m)
}

// maxExpansion limits the tokens that macros make, because a header can double a macro many times.
// The real header needs less than a tenth of the limit.
const maxExpansion = 1 << 18

// Expand replaces the macros in toks until none is left. A macro is not expanded again within its
// own expansion.
func (p *Preprocessor) Expand(toks []Token) []Token {
	var out []Token
	work := slices.Clone(toks)
	slices.Reverse(work) // a stack: the next token is the last
	for len(work) > 0 {
		t := work[len(work)-1]
		work = work[:len(work)-1]
		m := p.Macros[t.Text]
		if t.kind != tIdent || m == nil || slices.Contains(t.hide, t.Text) {
			out = append(out, t)
			continue
		}
		if p.spent > maxExpansion {
			out = append(out, t)
			continue
		}
		var args [][]Token
		if m.IsFunc {
			var used int
			var ok bool
			if args, used, ok = macroArgs(work); !ok {
				out = append(out, t) // the name of a function-like macro without arguments
				continue
			}
			if len(args) != len(m.params) && (len(m.params) != 0 || len(args) != 1 || len(args[0]) != 0) {
				p.errs.Add(t.file, t.line, "macro %s: has %d parameters, got %d arguments", t.Text, len(m.params),
					len(args))
				return out
			}
			work = work[:len(work)-used]
		}
		repl := p.substitute(m, args)
		if p.spent += len(repl); p.spent > maxExpansion {
			p.errs.Add(t.file, t.line, "macro %s: the macros make too many tokens", t.Text)
		}
		hide := append(slices.Clip(t.hide), m.name)
		for i := range slices.Backward(repl) {
			r := repl[i]
			r.file, r.line, r.bol = t.file, t.line, false
			r.hide = append(slices.Clip(hide), r.hide...)
			if i == 0 {
				r.doc = t.doc
			} else {
				r.doc = ""
			}
			r.orig = t.written()
			work = append(work, r)
		}
	}
	return out
}

// macroArgs splits the arguments of a macro call whose opening parenthesis is on top of the stack
// work. It also returns the number of tokens of the call.
func macroArgs(work []Token) (args [][]Token, used int, ok bool) {
	if len(work) == 0 || !work[len(work)-1].is("(") {
		return nil, 0, false
	}
	depth := 0
	var arg []Token
	for i := range slices.Backward(work) {
		t := work[i]
		used++
		switch {
		case t.is("("):
			if depth++; depth == 1 {
				continue
			}
		case t.is(")"):
			if depth--; depth == 0 {
				return append(args, arg), used, true
			}
		case t.is(",") && depth == 1:
			args, arg = append(args, arg), nil
			continue
		}
		arg = append(arg, t)
	}
	return nil, 0, false
}

// substitute returns the body of m with its arguments. The arguments are expanded, except those
// beside ##.
func (p *Preprocessor) substitute(m *Macro, args [][]Token) []Token {
	var out []Token
	for i := 0; i < len(m.Body); i++ {
		t := m.Body[i]
		if t.is("##") && len(out) > 0 && i+1 < len(m.Body) {
			i++
			right := []Token{m.Body[i]}
			if k := slices.Index(m.params, m.Body[i].Text); k >= 0 {
				right = args[k]
			}
			if len(right) > 0 {
				left := &out[len(out)-1]
				left.Text += right[0].Text
				left.hide = nil
				out = append(out, right[1:]...)
			}
			continue
		}
		k := -1
		if t.kind == tIdent {
			k = slices.Index(m.params, t.Text)
		}
		switch {
		case k < 0:
			out = append(out, t)
		case i+1 < len(m.Body) && m.Body[i+1].is("##"):
			out = append(out, args[k]...)
		default:
			out = append(out, p.Expand(args[k])...)
		}
	}
	return out
}

func joinTokens(toks []Token) string {
	words := make([]string, len(toks))
	for i, t := range toks {
		words[i] = t.Text
	}
	return strings.Join(words, " ")
}
