package cheader

import "strings"

// A kind is the kind of a token.
type kind uint8

const (
	tEOF kind = iota
	tIdent
	tNumber
	tString // string and character literals; the header's declarations use neither
	tPunct
)

// A Token is one preprocessing token of a C header.
type Token struct {
	kind kind
	Text string
	file string
	line int
	bol  bool   // first token of its logical line
	glue bool   // no white space before it: "#define F(x)" differs from "#define F (x)"
	orig string // the name in the source, if a macro made this token
	doc  string // the comment right before it
	hide []string
}

// is reports whether t is this punctuator or identifier.
func (t Token) is(text string) bool {
	return (t.kind == tPunct || t.kind == tIdent) && t.Text == text
}

// written returns the name in the source that t came from.
func (t Token) written() string {
	if t.orig != "" {
		return t.orig
	}
	return t.Text
}

// puncts are the punctuators of more than one character, longest first.
var puncts = []string{"...", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "##", "->"}

// Lex splits a header into tokens. A comment becomes the doc of the next token. A backslash at the
// end of a line joins the line with the next one.
func Lex(file, src string, errs *ErrorList) []Token {
	l := lexer{file: file, src: src, line: 1, bol: true, errs: errs}
	for l.next() {
	}
	return l.toks
}

type lexer struct {
	file string
	src  string
	pos  int
	line int
	bol  bool
	doc  string
	toks []Token
	errs *ErrorList
}

// next reads one token, and reports whether there may be more.
func (l *lexer) next() bool {
	start := l.pos
	l.skipSpace()
	if l.pos >= len(l.src) {
		return false
	}
	glue := l.pos == start && !l.bol
	line, rest := l.line, l.src[l.pos:]
	c := rest[0]
	switch {
	case isLetter(c):
		l.emit(tIdent, l.take(func(c byte) bool { return isLetter(c) || isDigit(c) }), line, glue)
	case isDigit(c):
		l.emit(tNumber, l.take(func(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' }), line, glue)
	case c == '"' || c == '\'':
		l.literal(c, line, glue)
	case c < ' ' || c > '~':
		l.errs.Add(l.file, line, "unexpected character %q", c)
		l.pos++
	default:
		text := rest[:1]
		for _, p := range puncts {
			if strings.HasPrefix(rest, p) {
				text = p
				break
			}
		}
		l.pos += len(text)
		l.emit(tPunct, text, line, glue)
	}
	return true
}

func (l *lexer) emit(k kind, text string, line int, glue bool) {
	l.toks = append(l.toks, Token{kind: k, Text: text, file: l.file, line: line, bol: l.bol, glue: glue, doc: l.doc})
	l.bol, l.doc = false, ""
}

func (l *lexer) take(ok func(byte) bool) string {
	start := l.pos
	for l.pos < len(l.src) && ok(l.src[l.pos]) {
		l.pos++
	}
	return l.src[start:l.pos]
}

// literal reads a string or a character literal, which ends on its line.
func (l *lexer) literal(quote byte, line int, glue bool) {
	start := l.pos
	for l.pos++; l.pos < len(l.src) && l.src[l.pos] != '\n'; l.pos++ {
		switch l.src[l.pos] {
		case '\\':
			if l.pos++; strings.HasPrefix(l.src[min(l.pos, len(l.src)):], "\n") {
				l.line++
			}
		case quote:
			l.pos++
			l.emit(tString, l.src[start:l.pos], line, glue)
			return
		}
	}
	// An apostrophe in the text of an #error or of an unused group is not a literal.
	l.pos = min(l.pos, len(l.src))
	l.emit(tString, l.src[start:l.pos], line, glue)
}

// skipSpace skips white space, comments and joined lines.
func (l *lexer) skipSpace() {
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		switch {
		case rest[0] == '\n':
			l.line++
			l.pos++
			l.bol = true
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\f' || rest[0] == '\v':
			l.pos++
		case strings.HasPrefix(rest, "\\\n"):
			l.line++
			l.pos += 2
		case strings.HasPrefix(rest, "\\\r\n"):
			l.line++
			l.pos += 3
		case strings.HasPrefix(rest, "//"):
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				l.pos += n
			} else {
				l.pos = len(l.src)
			}
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				l.errs.Add(l.file, l.line, "comment does not end")
				l.pos = len(l.src)
				return
			}
			l.doc = rest[2 : n+2]
			l.line += strings.Count(l.doc, "\n")
			l.pos += n + 4
		default:
			return
		}
	}
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
