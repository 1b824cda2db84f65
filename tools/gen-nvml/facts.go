package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// facts are what a header says about NVML. Their file is the only connection between a header and
// the generated code.
type facts struct {
	defines  []constant
	texts    []textFact
	enums    []enumFact
	scalars  []named // typedefs of numbers
	handles  []named
	aliases  []named // of structs, enums and handles
	structs  []structFact
	versions []constant // macros for the member version of structs
	funcs    []funcFact
}

// A constant is a name for a number, in C's notation.
type constant struct {
	name, value string

	unverified bool
}

// A textFact is a macro that is a string.
type textFact struct{ name, text string }

// A named is a typedef: what it stands for, in C.
type named struct{ name, of string }

// An enumFact is an enumeration, with its constants in C's order.
type enumFact struct {
	name      string
	constants []constant
}

// A structFact is the layout of a struct or a union on 64-bit platforms, in bytes.
type structFact struct {
	name        string
	union       bool
	size, align int64
	fields      []fieldFact

	unverified bool
}

// A fieldFact is a member. A struct or a union that has no name is called like its parent and the
// member: nvmlX_t.value, or nvmlX_t._ if the member has no name either.
type fieldFact struct {
	name, typ    string
	offset, size int64
}

// A funcFact is a function: the name that the library exports, and its prototype.
type funcFact struct {
	export, ret string
	params      []paramFact
	of          string // the function that the header has, of which this is another name, or ""

	unverified bool
}

// A paramFact is a parameter.
type paramFact struct{ name, typ string }

const factsHead = `# Facts about NVML, written by gen-nvml extract. Do not edit.
# define	name	value
# text	name	value
# enum	type	constant	value
# scalar or handle or alias	name	type
# struct or union	name	size	alignment	member:type:offset:size…
# version	macro for the member version of a struct	value
# func	export	returns	parameter:type…
# other	export	function with the same prototype, which the header has instead
`

// format returns f as the text of a file.
func (f *facts) format() []byte {
	var b strings.Builder
	b.WriteString(factsHead)
	row := func(columns ...string) { b.WriteString(strings.Join(columns, "\t") + "\n") }
	for _, c := range f.defines {
		row("define", c.name, c.value)
	}
	for _, t := range f.texts {
		row("text", t.name, t.text)
	}
	for _, e := range f.enums {
		for _, c := range e.constants {
			row("enum", e.name, c.name, c.value)
		}
	}
	for _, t := range f.scalars {
		row("scalar", t.name, t.of)
	}
	for _, t := range f.handles {
		row("handle", t.name, t.of)
	}
	for _, t := range f.aliases {
		row("alias", t.name, t.of)
	}
	for _, s := range f.structs {
		columns := []string{"struct", s.name, strconv.FormatInt(s.size, 10), strconv.FormatInt(s.align, 10)}
		if s.union {
			columns[0] = "union"
		}
		for _, m := range s.fields {
			columns = append(columns, fmt.Sprintf("%s:%s:%d:%d", m.name, m.typ, m.offset, m.size))
		}
		row(columns...)
	}
	for _, c := range f.versions {
		row("version", c.name, c.value)
	}
	for _, fn := range f.funcs {
		if fn.of != "" {
			row("other", fn.export, fn.of)
			continue
		}
		columns := []string{"func", fn.export, fn.ret}
		for _, p := range fn.params {
			columns = append(columns, p.name+":"+p.typ)
		}
		row(columns...)
	}
	return []byte(b.String())
}

// parse adds the facts in a file to f.
func (f *facts) parse(file, text string, unverified bool) error {
	var errs cheader.ErrorList
	line := 0
	for s := range strings.Lines(text) {
		line++
		s = strings.TrimRight(s, "\n")
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		if err := f.parseRow(strings.Split(s, "\t"), unverified); err != nil {
			errs.Add(file, line, "%v", err)
		}
	}
	return errs.Err()
}

// parseRow adds the fact in a row, whose first column is its kind.
func (f *facts) parseRow(row []string, unverified bool) error {
	kind, n := row[0], len(row)
	columns := map[string]int{"define": 3, "text": 3, "enum": 4, "scalar": 3, "handle": 3, "alias": 3, "version": 3,
		"other": 3}[kind]
	switch {
	case columns != 0 && n != columns:
		return fmt.Errorf("a row %s has %d columns, want %d", kind, n, columns)
	case columns == 0 && n < 3:
		return fmt.Errorf("a row %s has %d columns", kind, n)
	}
	switch kind {
	case "define":
		f.defines = append(f.defines, constant{row[1], row[2], unverified})
	case "text":
		f.texts = append(f.texts, textFact{row[1], row[2]})
	case "enum":
		f.addEnumConstant(row[1], constant{row[2], row[3], unverified})
	case "scalar":
		f.scalars = append(f.scalars, named{row[1], row[2]})
	case "handle":
		f.handles = append(f.handles, named{row[1], row[2]})
	case "alias":
		f.aliases = append(f.aliases, named{row[1], row[2]})
	case "version":
		f.versions = append(f.versions, constant{row[1], row[2], unverified})
	case "struct", "union":
		s, err := parseStruct(row)
		s.unverified = unverified
		f.structs = append(f.structs, s)
		return err
	case "other":
		i := slices.IndexFunc(f.funcs, func(fn funcFact) bool { return fn.export == row[2] })
		if i < 0 {
			return fmt.Errorf("there is no function %s before this row", row[2])
		}
		fn := f.funcs[i]
		fn.export, fn.of = row[1], row[2]
		f.funcs = append(f.funcs, fn)
	case "func":
		fn := funcFact{export: row[1], ret: row[2], unverified: unverified}
		for _, text := range row[3:] {
			name, typ, _ := strings.Cut(text, ":")
			fn.params = append(fn.params, paramFact{name, typ})
		}
		f.funcs = append(f.funcs, fn)
	default:
		return fmt.Errorf("unknown kind of row %q", kind)
	}
	return nil
}

func parseStruct(row []string) (structFact, error) {
	s := structFact{name: row[1], union: row[0] == "union"}
	if _, err := fmt.Sscan(strings.Join(row[2:min(4, len(row))], " "), &s.size, &s.align); err != nil {
		return s, fmt.Errorf("%s has no size and alignment: %w", s.name, err)
	}
	for _, text := range row[4:] {
		parts := strings.Split(text, ":")
		if len(parts) != 4 {
			return s, fmt.Errorf("malformed member %q", text)
		}
		m := fieldFact{name: parts[0], typ: parts[1]}
		if _, err := fmt.Sscan(parts[2]+" "+parts[3], &m.offset, &m.size); err != nil {
			return s, fmt.Errorf("member %q has no offset and size: %w", text, err)
		}
		s.fields = append(s.fields, m)
	}
	return s, nil
}

func (f *facts) addEnumConstant(enum string, c constant) {
	for i := range f.enums {
		if f.enums[i].name == enum {
			f.enums[i].constants = append(f.enums[i].constants, c)
			return
		}
	}
	f.enums = append(f.enums, enumFact{enum, []constant{c}})
}

// names returns the names of all that f has, with the kind before each.
func (f *facts) names() map[string]bool {
	seen := map[string]bool{}
	for line := range strings.Lines(string(f.format())) {
		row := strings.Split(strings.TrimRight(line, "\n"), "\t")
		switch {
		case row[0] == "enum":
			seen["constant "+row[2]] = true
			seen[row[1]] = true
		case row[0] == "define" || row[0] == "text":
			seen["constant "+row[1]] = true
		case len(row) > 1:
			seen[row[1]] = true
		}
	}
	return seen
}
