package syntax

import (
	"fmt"
	"strings"
)

// The first versions of PTX in which a section for debuggers may have a label with a distance, a label of its own,
// and a negative number or the difference of two labels.
const (
	leastDistance = 32
	leastLabel    = 70
	leastNegative = 75
)

// section reads a section for debuggers: labels, numbers and addresses, which nobody uses.
func (p *parser) section() *Error {
	if !strings.HasPrefix(p.tok.text, ".") {
		return p.unexpected("the name of a section")
	}
	p.advance()
	if err := p.expect("{"); err != nil {
		return err
	}
	for !p.take("}") {
		pos, word := p.tok.pos, p.tok.text
		if word == "" {
			return p.unexpected(`"}"`)
		}
		size := map[string]uint{".b8": 8, ".b16": 16, ".b32": 32, ".b64": 64}[word]
		if size == 0 {
			if _, err := p.newName(); err != nil {
				return err
			}
			if err := p.expect(":"); err != nil {
				return err
			}
			if p.m.Version < leastLabel {
				return &Error{pos, fmt.Sprintf("label %s is in a section before version 7.0 of PTX", word)}
			}
			continue
		}
		p.advance()
		var err *Error
		if p.label() {
			err = p.place(size)
		} else {
			err = p.bytes(size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// label reports whether the next token is the name of a label or of a section.
func (p *parser) label() bool {
	t := p.tok.text
	return t != "" && isWord(t[0]) && !isDigit(t[0]) && t != ".b8" && t != ".b16" && t != ".b32" && t != ".b64"
}

// place reads an address: a label, perhaps with a distance, or the difference of two.
func (p *parser) place(size uint) *Error {
	pos := p.tok.pos
	if p.advance(); size < 32 {
		return &Error{pos, "an address has 32 or 64 bits"}
	}
	op := p.tok
	if op.text != "+" && op.text != "-" {
		return nil
	}
	p.advance()
	switch other := p.label(); {
	case op.text == "-" && other && p.m.Version < leastNegative:
		return &Error{op.pos, "a difference of labels is in a section before version 7.5 of PTX"}
	case op.text == "-" && other:
		p.advance()
		return nil
	case p.m.Version < leastDistance:
		return &Error{op.pos, "a distance from a label is in a section before version 3.2 of PTX"}
	}
	return p.integer(64)
}

// bytes reads a list of numbers.
func (p *parser) bytes(size uint) *Error {
	for {
		if err := p.integer(size); err != nil || !p.take(",") {
			return err
		}
	}
}

// integer reads a number that fits into a size, with or without a sign.
func (p *parser) integer(size uint) *Error {
	pos, negative := p.tok.pos, p.take("-")
	n, is := parseNumber(p.tok.text)
	switch {
	case !is || n.isFloat():
		return p.unexpected("a number")
	case negative && p.m.Version < leastNegative:
		return &Error{pos, "a negative number is in a section before version 7.5 of PTX"}
	case negative && n.Bits > 1<<(size-1), !negative && size < 32 && n.Bits>>size != 0: // larger ones are cut off
		return &Error{pos, fmt.Sprintf("%s does not fit into %d bits", strings.TrimSpace(p.tok.text), size)}
	}
	p.advance()
	return nil
}
