// Package ptx reads what a driver has to know of a text in NVIDIA's PTX: which
// kernels it has, and what parameters they take.
package ptx

import (
	"bytes"
	"slices"
	"strings"
)

// Kernels finds the kernels of a PTX text and the sizes of their parameters in
// bytes, for drivers that cannot tell them. A kernel whose parameters it does not
// understand is left out. Comments may stand anywhere; the driver has compiled the
// text, so that what looks like a kernel is one.
func Kernels(image []byte) map[string][]uint64 {
	text, _, _ := bytes.Cut(image, []byte{0})
	tokens := tokenize(string(text))
	kernels := make(map[string][]uint64)
	for i := 0; i+1 < len(tokens); i++ {
		if tokens[i] != ".entry" {
			continue
		}
		name := tokens[i+1]
		i += 2
		if i >= len(tokens) || tokens[i] != "(" { // no list: no parameters
			kernels[name] = nil
			i--
			continue
		}
		end := i
		for end < len(tokens) && tokens[end] != ")" {
			end++
		}
		if sizes, ok := paramSizes(tokens[i+1 : end]); ok && end < len(tokens) {
			kernels[name] = sizes
		}
		i = end
	}
	return kernels
}

// paramSizes returns the sizes of the parameters between the parentheses.
func paramSizes(tokens []string) (sizes []uint64, ok bool) {
	for len(tokens) > 0 {
		n := slices.Index(tokens, ",")
		if n < 0 {
			n = len(tokens)
		}
		size, ok := paramSize(tokens[:n])
		if !ok {
			return nil, false
		}
		sizes = append(sizes, size)
		tokens = tokens[min(n+1, len(tokens)):]
	}
	return sizes, true
}

// paramSize returns the size of one parameter: ".param", perhaps ".align" and a
// number, a type, perhaps ".ptr" with a space and an alignment, a name, and a
// length if it is an array. It understands nothing else.
func paramSize(tokens []string) (size uint64, ok bool) {
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
		return 0, false
	}
	size, ok = types[next()]
	if !ok || !align() { // some put it behind the type
		return 0, false
	}
	if peek() == ".ptr" {
		next()
		switch peek() {
		case ".global", ".shared", ".const", ".local", ".generic":
			next()
		}
		if !align() {
			return 0, false
		}
	}
	if name := next(); name == "" || strings.IndexByte(".[](){},;:\"0123456789", name[0]) >= 0 {
		return 0, false
	}
	if peek() == "[" {
		next()
		count, ok := number(next())
		if !ok || count == 0 || next() != "]" {
			return 0, false
		}
		size *= count
	}
	return size, len(tokens) == 0
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

// tokenize splits a text at spaces, comments and punctuation, which are tokens of
// their own. Strings, which only debug sections have, are skipped.
func tokenize(text string) (tokens []string) {
	for text != "" {
		switch c := text[0]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			text = text[1:]
		case strings.HasPrefix(text, "//"):
			_, text, _ = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			_, text, _ = strings.Cut(text[2:], "*/")
		case c == '"':
			_, text, _ = strings.Cut(text[1:], `"`)
		case strings.IndexByte("()[]{},;:", c) >= 0:
			tokens, text = append(tokens, text[:1]), text[1:]
		default:
			n := strings.IndexAny(text, " \t\n\r()[]{},;:\"/")
			if n < 0 {
				n = len(text)
			}
			n = max(n, 1) // a "/" that begins no comment
			tokens, text = append(tokens, text[:n]), text[n:]
		}
	}
	return tokens
}
