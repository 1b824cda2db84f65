package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// A manifest has the facts about one release of the driver API. Its file is the only connection
// between a header and the generated code.
type manifest struct {
	version int // CUDA_VERSION
	newest  int // CUDA_VERSION of the newest addition, or version
	results []resultFact
	defines []constant
	enums   []enumFact
	structs []structFact
	members []structFact // that a newer release added to structs
	aliases []aliasFact
	funcs   []funcFact
}

// A resultFact is one CUresult.
type resultFact struct {
	code   int64
	name   string
	sticky bool // leaves the process unable to use CUDA
	text   string

	unverified bool
}

// A constant is a name for a number.
type constant struct {
	name  string
	value int64

	unverified bool
}

// An enumFact is one enumeration.
type enumFact struct {
	name      string
	constants []constant
}

// A structFact is the layout of one struct or union on 64-bit platforms, in bytes.
type structFact struct {
	name        string
	union       bool
	size, align int64
	fields      []fieldFact

	unverified bool
	older      *structFact // the layout of the header, if a newer release has other members
}

// A fieldFact is one member. The members of a struct without a name, such as the member reserved of
// CUx, have the type CUx.reserved, or CUx._ if the member has no name either.
type fieldFact struct {
	name         string
	typ          string
	offset, size int64

	unverified bool
}

// An aliasFact is another name of a struct, a union or an enum.
type aliasFact struct{ name, of string }

// A funcFact is one ABI of one function of the driver.
type funcFact struct {
	export    string // the name for dlsym
	ask       string // the name for cuGetProcAddress
	version   int    // of CUDA that introduced this ABI
	perThread bool   // for per-thread default streams
	current   bool   // the ABI that the header gives base
	base      string // the name in C source
	ret       string
	params    []paramFact

	unverified bool

	// These come from the rules, not from the headers.
	class string
	dlsym bool // cuGetProcAddress does not find it
}

// A paramFact is one parameter.
type paramFact struct {
	name string
	typ  string
	size int64 // in bytes, of a struct or union that is passed by value, else 0
}

// manifestHead explains the file to readers of a diff.
const manifestHead = `# Facts about the CUDA driver API, written by gen-symbols extract. Do not edit.
# version	CUDA_VERSION
# result	code	name	sticky or -	text
# define	name	value
# enum	type	constant	value
# struct or union	name	size	alignment	member:type:offset:size…
# alias	name	struct, union or enum
# func	export	name to ask for	since	plain or per-thread	current or -	name in C	returns	parameter:type[:size if by value]…
`

// format returns m as text.
func (m *manifest) format() []byte {
	var b strings.Builder
	b.WriteString(manifestHead)
	row := func(fields ...string) {
		b.WriteString(strings.Join(fields, "\t"))
		b.WriteByte('\n')
	}
	either := func(ok bool, yes, no string) string {
		if ok {
			return yes
		}
		return no
	}
	row("version", strconv.Itoa(m.version))
	for _, r := range m.results {
		row("result", strconv.FormatInt(r.code, 10), r.name, either(r.sticky, "sticky", "-"), r.text)
	}
	for _, d := range m.defines {
		row("define", d.name, hex(d.value))
	}
	for _, e := range m.enums {
		for _, c := range e.constants {
			row("enum", e.name, c.name, hex(c.value))
		}
	}
	for _, s := range m.structs {
		fields := []string{either(s.union, "union", "struct"), s.name, strconv.FormatInt(s.size, 10),
			strconv.FormatInt(s.align, 10)}
		for _, f := range s.fields {
			fields = append(fields, fmt.Sprintf("%s:%s:%d:%d", f.name, f.typ, f.offset, f.size))
		}
		row(fields...)
	}
	for _, a := range m.aliases {
		row("alias", a.name, a.of)
	}
	for _, f := range m.funcs {
		fields := []string{"func", f.export, f.ask, strconv.Itoa(f.version), either(f.perThread, "per-thread", "plain"),
			either(f.current, "current", "-"), f.base, f.ret}
		for _, p := range f.params {
			s := p.name + ":" + p.typ
			if p.size > 0 {
				s += ":" + strconv.FormatInt(p.size, 10)
			}
			fields = append(fields, s)
		}
		row(fields...)
	}
	return []byte(b.String())
}

func hex(v int64) string {
	if v < 0 {
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprintf("%#x", v)
}

// parseManifest reads the text that format returns.
func parseManifest(file, text string) (*manifest, error) {
	var errs cheader.ErrorList
	m := &manifest{}
	sourced := false // facts with a source come from elsewhere than a header
	eachRow(file, text, &errs, func(r row) {
		switch r.fields[0] {
		case "version":
			r.want(2)
			m.version = int(r.number(1))
			m.newest = m.version
		case "source":
			r.want(2)
			sourced = true
		case "result":
			r.want(5)
			m.results = append(m.results, resultFact{r.number(1), r.field(2), r.choice(3, "-", "sticky"), r.field(4),
				sourced})
		case "define":
			r.want(3)
			m.defines = append(m.defines, constant{r.field(1), r.number(2), sourced})
		case "enum":
			r.want(4)
			if n := len(m.enums); n == 0 || m.enums[n-1].name != r.field(1) {
				m.enums = append(m.enums, enumFact{name: r.field(1)})
			}
			e := &m.enums[len(m.enums)-1]
			e.constants = append(e.constants, constant{r.field(2), r.number(3), sourced})
		case "struct", "union":
			fact := r.structFact()
			fact.unverified = sourced
			m.structs = append(m.structs, fact)
		case "members":
			m.members = append(m.members, r.structFact())
		case "alias":
			r.want(3)
			m.aliases = append(m.aliases, aliasFact{r.field(1), r.field(2)})
		case "func":
			if len(r.fields) < 8 {
				r.bad("func row has %d columns, want 8 or more", len(r.fields))
				return
			}
			f := funcFact{export: r.field(1), ask: r.field(2), version: int(r.number(3)),
				perThread: r.choice(4, "plain", "per-thread"),
				current:   r.choice(5, "-", "current"), base: r.field(6), ret: r.field(7), unverified: sourced}
			for _, s := range r.fields[8:] {
				parts := strings.Split(s, ":")
				p := paramFact{name: parts[0]}
				switch len(parts) {
				case 3:
					n, err := strconv.ParseInt(parts[2], 10, 64)
					if err != nil || n <= 0 {
						r.bad("parameter %q has no size", s)
					}
					p.size = n
					fallthrough
				case 2:
					p.typ = parts[1]
				default:
					r.bad("malformed parameter %q", s)
				}
				f.params = append(f.params, p)
			}
			m.funcs = append(m.funcs, f)
		default:
			r.bad("unknown kind of row %q", r.fields[0])
		}
	})
	return m, errs.Err()
}

// add adds the facts of more, which must be new: those of another header of the same release, or
// those of newer releases, which come from other sources than a header.
func (m *manifest) add(file string, more *manifest) error {
	var errs cheader.ErrorList
	seen := map[string]bool{}
	each := func(m *manifest, fact func(kind, name string, unverified bool)) {
		for _, r := range m.results {
			fact("result", r.name, r.unverified)
			fact("result", strconv.FormatInt(r.code, 10), r.unverified)
		}
		for _, d := range m.defines {
			fact("define", d.name, d.unverified)
		}
		for _, e := range m.enums {
			for _, c := range e.constants {
				fact("enum", c.name, c.unverified)
			}
		}
		for _, s := range m.structs {
			fact("struct", s.name, s.unverified)
		}
		for _, f := range m.funcs {
			fact("func", f.export, f.unverified)
		}
	}
	each(m, func(kind, name string, _ bool) { seen[kind+" "+name] = true })
	each(more, func(kind, name string, unverified bool) {
		if seen[kind+" "+name] {
			errs.Add(file, 0, "%s %s is not new", kind, name)
		}
		switch newer := more.version > m.version; {
		case newer && !unverified:
			errs.Add(file, 0, "%s %s comes after no source", kind, name)
		case !newer && unverified:
			errs.Add(file, 0, "%s %s has another source than the header", kind, name)
		}
	})
	if more.version < m.version {
		errs.Add(file, 0, "version %d is older than %d", more.version, m.version)
	}
	m.newest = max(m.newest, more.version)
	m.results = append(m.results, more.results...)
	m.defines = append(m.defines, more.defines...)
	for _, e := range more.enums {
		i := slices.IndexFunc(m.enums, func(old enumFact) bool { return old.name == e.name })
		if i < 0 {
			m.enums = append(m.enums, e)
			continue
		}
		m.enums[i].constants = append(m.enums[i].constants, e.constants...)
	}
	m.structs = append(m.structs, more.structs...)
	for _, newer := range more.members {
		i := slices.IndexFunc(m.structs, func(s structFact) bool { return s.name == newer.name })
		if i < 0 || m.structs[i].unverified || more.version <= m.version {
			errs.Add(file, 0, "members of %s are not new members of a struct of the header", newer.name)
			continue
		}
		grown, err := m.structs[i].with(newer)
		if err != nil {
			errs.Add(file, 0, "%s: %v", newer.name, err)
			continue
		}
		if f, is := m.parameterOf(m.structs[i]); is && grown.size != m.structs[i].size {
			errs.Add(file, 0, "%s is a parameter of %s, and may not become larger", newer.name, f)
		}
		m.structs[i] = grown
	}
	m.aliases = append(m.aliases, more.aliases...)
	m.funcs = append(m.funcs, more.funcs...)
	slices.SortFunc(m.funcs, func(a, b funcFact) int { return cmp.Compare(a.export, b.export) })
	return errs.Err()
}

// with returns the struct or union with the size, the alignment and the members of a newer release.
// A member with the name of an older one takes its place. Other members of a struct need bytes that
// were reserved, or that are behind the older struct: a program that sets them to zero passes what
// older drivers expect.
func (s structFact) with(newer structFact) (structFact, error) {
	grown := structFact{name: s.name, union: s.union, size: newer.size, align: newer.align, older: &s}
	added := slices.Clone(newer.fields)
	for i := range added {
		added[i].unverified = true
	}
	for _, f := range s.fields {
		named := func(n fieldFact) bool { return n.name == f.name }
		over := func(n fieldFact) bool {
			return !s.union && n.offset < f.offset+f.size && f.offset < n.offset+n.size
		}
		switch i := slices.IndexFunc(added, named); {
		case i >= 0:
			grown.fields = append(grown.fields, added[i])
			added = slices.Delete(added, i, i+1)
		case !slices.ContainsFunc(newer.fields, over):
			grown.fields = append(grown.fields, f)
		case !strings.HasPrefix(f.name, "reserved"):
			return s, fmt.Errorf("a newer member has the place of %s", f.name)
		}
	}
	grown.fields = append(grown.fields, added...)
	slices.SortStableFunc(grown.fields, func(a, b fieldFact) int { return cmp.Compare(a.offset, b.offset) })
	end := int64(0)
	if !s.union {
		end = s.size
	}
	for _, f := range grown.fields {
		end = max(end, f.offset+f.size)
	}
	if grown.size < end || grown.align < s.align || grown.size%grown.align != 0 {
		return s, fmt.Errorf("%d bytes, aligned to %d, are too few", grown.size, grown.align)
	}
	return grown, nil
}

// parameterOf returns a function that takes the address of the struct or union, if there is one.
func (m *manifest) parameterOf(s structFact) (export string, is bool) {
	for _, f := range m.funcs {
		for _, p := range f.params {
			base, _ := splitPointer(p.typ)
			if of, ok := m.structByName(base); ok && of.name == s.name {
				return f.export, true
			}
		}
	}
	return "", false
}

// confirmed returns the functions and the results that a header has confirmed, and everything else.
func (m *manifest) confirmed() *manifest {
	known := *m
	known.funcs = slices.DeleteFunc(slices.Clone(m.funcs), func(f funcFact) bool { return f.unverified })
	known.results = slices.DeleteFunc(slices.Clone(m.results), func(r resultFact) bool { return r.unverified })
	return &known
}

// structFact reads a struct or a union.
func (r row) structFact() structFact {
	s := structFact{name: r.field(1), union: r.fields[0] == "union", size: r.number(2), align: r.number(3)}
	for _, text := range r.fields[min(4, len(r.fields)):] {
		parts := strings.Split(text, ":")
		if len(parts) != 4 {
			r.bad("malformed member %q", text)
			continue
		}
		offset, err := strconv.ParseInt(parts[2], 10, 64)
		size, err2 := strconv.ParseInt(parts[3], 10, 64)
		if err != nil || err2 != nil {
			r.bad("member %q has no offset and size", text)
		}
		s.fields = append(s.fields, fieldFact{name: parts[0], typ: parts[1], offset: offset, size: size})
	}
	return s
}

// A row is one line of a file with tabs between columns.
type row struct {
	file   string
	line   int
	fields []string
	errs   *cheader.ErrorList
}

// eachRow calls f for every line of text that is neither empty nor a comment.
func eachRow(file, text string, errs *cheader.ErrorList, f func(row)) {
	line := 0
	for s := range strings.Lines(text) {
		line++
		s = strings.TrimRight(s, "\r\n")
		if strings.TrimSpace(s) == "" || strings.HasPrefix(s, "#") {
			continue
		}
		f(row{file, line, strings.Split(s, "\t"), errs})
	}
}

func (r row) bad(format string, args ...any) { r.errs.Add(r.file, r.line, format, args...) }

func (r row) want(n int) {
	if len(r.fields) != n {
		r.bad("%s row has %d columns, want %d", r.fields[0], len(r.fields), n)
	}
}

func (r row) field(i int) string {
	if i < len(r.fields) {
		return r.fields[i]
	}
	return ""
}

func (r row) number(i int) int64 {
	v, err := strconv.ParseInt(r.field(i), 0, 64)
	if err != nil {
		r.bad("column %d: %q is not a number", i+1, r.field(i))
	}
	return v
}

// choice reads a column with one of two words, and reports whether it is the second word.
func (r row) choice(i int, no, yes string) bool {
	if s := r.field(i); s != no && s != yes {
		r.bad("column %d: %q is neither %q nor %q", i+1, s, no, yes)
	}
	return r.field(i) == yes
}
