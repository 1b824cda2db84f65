// Package ptx reads what a driver has to know of a text in NVIDIA's PTX: which
// kernels it has, and what parameters they take.
package ptx

import (
	"bytes"
	"strings"
)

// Param is a parameter of a kernel.
type Param struct {
	Name string
	Type string // such as ".u32"
	Size uint64 // in bytes
	Kind Kind
}

// Kind says what a parameter is.
type Kind uint8

// The kinds of parameters. A signed integer, an unsigned one, and a pointer are the same.
const (
	Bits    Kind = iota // anything of the size
	Integer             // an integer, or a pointer
	Float               // a float of 32 or 64 bits
)

// Kernels finds the kernels of a PTX text and their parameters, which drivers tell
// in part. A kernel whose parameters it does not understand is left out. Comments
// may stand anywhere; the driver has compiled the text, so that what looks like a
// kernel is one.
func Kernels(image []byte) map[string][]Param {
	text, _, _ := bytes.Cut(image, []byte{0})
	kernels := make(map[string][]Param)
	s := scanner(string(text))
	for t := s.next(); t != ""; {
		if t != ".entry" {
			t = s.next()
			continue
		}
		name := strings.Clone(s.next()) // what is returned must not keep the text
		if name == "" {
			break
		}
		if t = s.next(); t != "(" { // no list: no parameters
			kernels[name] = nil
			continue
		}
		var list []string
		for t = s.next(); t != ")" && t != ""; t = s.next() {
			list = append(list, t)
		}
		if params, ok := paramsOf(list); ok && t != "" {
			kernels[name] = params
		}
	}
	return kernels
}

// paramsOf returns the parameters between the parentheses.
func paramsOf(tokens []string) (params []Param, ok bool) {
	for len(tokens) > 0 {
		n := 0
		for n < len(tokens) && tokens[n] != "," {
			n++
		}
		p, ok := paramOf(tokens[:n])
		if !ok {
			return nil, false
		}
		params = append(params, p)
		tokens = tokens[min(n+1, len(tokens)):]
	}
	return params, true
}

// paramOf returns one parameter: ".param", perhaps ".align" and a
// number, a type, perhaps ".ptr" with a space and an alignment, a name, and a
// length if it is an array. It understands nothing else.
func paramOf(tokens []string) (p Param, ok bool) {
	next := func() (t string) {
		if len(tokens) > 0 {
			t, tokens = tokens[0], tokens[1:]
		}
		return t
	}
	peek := func() string {
		if len(tokens) == 0 {
			return ""
		}
		return tokens[0]
	}
	align := func() bool {
		if peek() != ".align" {
			return true
		}
		next()
		_, ok := number(next())
		return ok
	}
	if next() != ".param" || !align() {
		return p, false
	}
	p.Type = strings.Clone(next())
	p.Size, ok = types[p.Type]
	if !ok || !align() { // some put it behind the type
		return p, false
	}
	switch {
	case strings.HasPrefix(p.Type, ".u"), strings.HasPrefix(p.Type, ".s") && !strings.HasSuffix(p.Type, "ref"):
		p.Kind = Integer
	case p.Type == ".f32", p.Type == ".f64":
		p.Kind = Float
	}
	if peek() == ".ptr" {
		next()
		switch peek() {
		case ".global", ".shared", ".const", ".local", ".generic":
			next()
		}
		if !align() {
			return p, false
		}
	}
	if p.Name = strings.Clone(next()); p.Name == "" || strings.IndexByte(".[](){},;:\"0123456789", p.Name[0]) >= 0 {
		return p, false
	}
	if peek() == "[" {
		next()
		count, ok := number(next())
		if !ok || count == 0 || next() != "]" {
			return p, false
		}
		p.Size, p.Kind = p.Size*count, Bits
	}
	return p, len(tokens) == 0
}

// types are the sizes of PTX's types in bytes.
var types = map[string]uint64{
	".b8": 1, ".u8": 1, ".s8": 1,
	".b16": 2, ".u16": 2, ".s16": 2, ".f16": 2, ".bf16": 2,
	".b32": 4, ".u32": 4, ".s32": 4, ".f32": 4, ".f16x2": 4, ".bf16x2": 4, ".tf32": 4,
	".b64": 8, ".u64": 8, ".s64": 8, ".f64": 8, ".texref": 8, ".samplerref": 8, ".surfref": 8,
	".b128": 16,
}

// number reads a decimal number of a size that parameters may have. A number
// with a zero in front would be octal: nobody writes one.
func number(s string) (uint64, bool) {
	n := uint64(0)
	if strings.HasPrefix(s, "0") {
		return 0, false
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + uint64(c-'0'); n > 1<<20 {
			return 0, false
		}
	}
	return n, s != ""
}

// scanner is the rest of a text, which next splits at spaces, comments and
// punctuation, which are tokens of their own. Strings, which only debug sections
// have, are skipped.
type scanner string

// next returns the next token, or "" at the end.
func (s *scanner) next() string {
	text := string(*s)
	for text != "" {
		n := 0
		switch c := text[0]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			text = text[1:]
			continue
		case strings.HasPrefix(text, "//"):
			_, text, _ = strings.Cut(text, "\n")
			continue
		case strings.HasPrefix(text, "/*"):
			_, text, _ = strings.Cut(text[2:], "*/")
			continue
		case c == '"':
			_, text, _ = strings.Cut(text[1:], `"`)
			continue
		case strings.IndexByte("()[]{},;:", c) >= 0:
			n = 1
		default:
			if n = strings.IndexAny(text, " \t\n\r()[]{},;:\"/"); n < 0 {
				n = len(text)
			}
			n = max(n, 1) // a "/" that begins no comment
		}
		*s = scanner(text[n:])
		return text[:n]
	}
	*s = ""
	return ""
}
