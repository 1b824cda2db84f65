package syntax

import "strings"

// token is a word, a number, a string, or a punctuation mark.
type token struct {
	text string
	pos  Pos
	at   int // the offset in the text
}

// scanner splits a text into tokens.
type scanner struct {
	text      string
	at        int
	line      int32
	lineBegin int
}

// isWord reports whether a character can be part of a word. Words contain dots, as in add.s32 and
// in %tid.x.
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '$' || c == '%' || c == '.'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// next returns the next token. Its text is empty at the end.
func (s *scanner) next() (token, *Error) {
	if err := s.skip(); err != nil {
		return token{}, err
	}
	pos, begin := s.pos(), s.at
	if begin == len(s.text) {
		return token{pos: pos, at: begin}, nil
	}
	switch c := s.text[begin]; {
	case c == '"':
		n := strings.IndexByte(s.text[begin+1:], '"')
		if n < 0 {
			return token{}, &Error{pos, "a string does not end"}
		}
		s.at += n + 2
		for i := begin; i < s.at; i++ {
			if s.text[i] == '\n' {
				s.line++
				s.lineBegin = i + 1
			}
		}
	case isDigit(c):
		s.number()
	case c == '%' && (begin+1 == len(s.text) || !isWord(s.text[begin+1])):
		s.at++
	case isWord(c):
		s.word()
	default:
		s.at++
		if begin+1 < len(s.text) {
			switch s.text[begin : begin+2] {
			case "<<", ">>", "<=", ">=", "==", "!=", "&&", "||":
				s.at++
			}
		}
	}
	return token{s.text[begin:s.at], pos, begin}, nil
}

// word moves behind a word, which may contain "::". A directive ends where another one follows, as in
// .reg.b32.
func (s *scanner) word() {
	directive := s.text[s.at] == '.'
	for begin := s.at; s.at < len(s.text); {
		switch {
		case directive && s.at > begin && s.text[s.at] == '.':
			return
		case isWord(s.text[s.at]):
			s.at++
		case strings.HasPrefix(s.text[s.at:], "::"):
			s.at += 2
		default:
			return
		}
	}
}

// number moves behind a number. It may have a decimal point and an exponent.
func (s *scanner) number() {
	hex := strings.HasPrefix(s.text[s.at:], "0x") || strings.HasPrefix(s.text[s.at:], "0X")
	for s.at < len(s.text) {
		c := s.text[s.at]
		sign := (c == '+' || c == '-') && !hex && (s.text[s.at-1] == 'e' || s.text[s.at-1] == 'E') && s.decimal()
		if !sign && (!isWord(c) || c == '%' || c == '$') {
			return
		}
		s.at++
	}
}

// decimal reports whether the characters before the e of an exponent are digits and a point.
func (s *scanner) decimal() bool {
	i := s.at - 2
	for ; i >= 0 && (isDigit(s.text[i]) || s.text[i] == '.'); i-- {
	}
	return i < s.at-2 && (i < 0 || !isWord(s.text[i]))
}

func (s *scanner) pos() Pos { return Pos{s.line, int32(s.at-s.lineBegin) + 1} }

// skip moves behind spaces and comments.
func (s *scanner) skip() *Error {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '\n':
			s.at++
			s.line++
			s.lineBegin = s.at
		case c == ' ' || c == '\t' || c == '\f' || c == '\r':
			s.at++
		case strings.HasPrefix(s.text[s.at:], "//"), strings.HasPrefix(s.text[s.at:], "@@DWARF"): // of old debuggers
			n := strings.IndexByte(s.text[s.at:], '\n')
			if n < 0 {
				n = len(s.text) - s.at
			}
			s.at += n
		case strings.HasPrefix(s.text[s.at:], "/*"):
			n := strings.Index(s.text[s.at+2:], "*/")
			if n < 0 {
				return &Error{s.pos(), "a comment does not end"}
			}
			for end := s.at + n + 4; s.at < end; s.at++ {
				if s.text[s.at] == '\n' {
					s.line++
					s.lineBegin = s.at + 1
				}
			}
		default:
			return nil
		}
	}
	return nil
}
