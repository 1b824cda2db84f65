package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// A method is one of package nvml: a line of methods.tsv.
type method struct {
	call
	receiver, name string
	args           []goVar // in the order of the call's values
	results        []goVar // in the order of what the call sets
	doc            string
}

// A goVar is a parameter or a result of a method.
type goVar struct{ name, typ, unit string }

// maxNumbers is how many numbers a call of package nvml has beside the handle.
const maxNumbers = 3

// parseMethods returns the methods of the lines of methods.tsv.
func (p *plan) parseMethods(src source) ([]method, error) {
	var errs cheader.ErrorList
	var list []method
	line := 0
	for s := range strings.Lines(src.text) {
		line++
		if strings.HasPrefix(s, "#") || strings.TrimSpace(s) == "" {
			continue
		}
		m, err := p.parseMethod(strings.Split(strings.TrimSuffix(s, "\n"), "\t"))
		if err != nil {
			errs.Add(src.name, line, "%v", err)
		}
		list = append(list, m)
	}
	return list, errs.Err()
}

// parseMethod returns the method of the columns of a line: function, method with parameters, results, doc.
func (p *plan) parseMethod(columns []string) (m method, err error) {
	if len(columns) != 4 {
		return m, fmt.Errorf("there are %d columns, not 4", len(columns))
	}
	i := slices.IndexFunc(p.calls, func(c call) bool { return c.export == columns[0] })
	if i < 0 {
		return m, fmt.Errorf("%s is no function", columns[0])
	}
	m.call, m.doc = p.calls[i], columns[3]
	head, args, _ := strings.Cut(strings.TrimSuffix(columns[1], ")"), "(")
	m.receiver, m.name, _ = strings.Cut(head, ".")
	if receivers[m.receiver] == "" {
		return m, fmt.Errorf("%s is no type of a receiver", m.receiver)
	}
	m.args, m.results = goVars(args), goVars(columns[2])
	values, sets := m.split()
	if len(values) != len(m.args) || len(sets) != len(m.results) {
		return m, fmt.Errorf("%s has %d parameters and sets %d variables, not %d and %d", m.export, len(values), len(sets),
			len(m.args), len(m.results))
	}
	if len(values) > maxNumbers || len(sets) > maxNumbers+1 {
		return m, fmt.Errorf("%s has too many parameters: write the method by hand", m.export)
	}
	return m, nil
}

// receivers has for each type with methods the one of its handle in package raw, "-" if it has none.
var receivers = map[string]string{"Library": "-", "Device": "Device", "Unit": "Unit", "GPUInstance": "GpuInstance",
	"ComputeInstance": "ComputeInstance", "VGPU": "VgpuInstance", "VGPUType": "VgpuTypeId"}

// goVars returns the variables of a list: name type unit, name type unit.
func goVars(list string) (vars []goVar) {
	for item := range strings.SplitSeq(list, ",") {
		words := strings.Fields(item)
		switch len(words) {
		case 0:
			continue
		case 1:
			words = []string{"", words[0], ""}
		case 2:
			words = append(words, "")
			if units[words[1]] != "" || strings.HasPrefix(words[1], "NVML_") { // time.Duration us
				words = []string{"", words[0], words[1]}
			}
		}
		vars = append(vars, goVar{words[0], words[1], words[2]})
	}
	return vars
}

// units are the units of times.
var units = map[string]string{
	"us": "time.Microsecond", "ms": "time.Millisecond", "ns": "time.Nanosecond", "s": "time.Second",
}

// split returns the parameters of the call that are values of the caller, without the handle, and those that it sets.
func (m method) split() (values, sets []param) {
	for i, prm := range m.params {
		switch {
		case i == 0 && prm.role == roleValue && prm.elem == receivers[m.receiver]:
		case prm.role == roleValue:
			values = append(values, prm)
		case prm.role == roleOut || prm.isText():
			sets = append(sets, prm)
		case prm.role == roleCount:
			sets = append(sets, prm)
		}
	}
	return values, sets
}

// isText reports whether the call writes a string.
func (p param) isText() bool { return p.elem == "byte" && (p.role == roleLen || p.role == roleArray) }

// emit writes the method.
func (m method) emit(b *strings.Builder) {
	name, rest, _ := strings.Cut(m.doc, ". ")
	first := fmt.Sprintf("%s %s (%s).", m.name, strings.TrimSuffix(name, "."), m.export)
	if rest != "" {
		first += " " + rest
	}
	b.WriteString(wrapComment(first))
	var params, results []string
	for _, a := range m.args {
		params = append(params, a.name+" "+a.typ)
	}
	for i, r := range m.results {
		if name := r.name; name != "" {
			results = append(results, name+" "+r.typ)
		} else {
			results = append(results, r.typ)
			if len(m.results) > 1 {
				results[i] = "_ " + r.typ
			}
		}
	}
	result := "error"
	if len(results) == 1 && m.results[0].name == "" {
		result = "(" + results[0] + ", error)"
	} else if len(results) > 0 {
		result = "(" + strings.Join(results, ", ") + ", err error)"
	}
	self := strings.ToLower(m.receiver[:1])
	fmt.Fprintf(b, "func (%s *%s) %s(%s) %s {\nconst op = %q\n", self, m.receiver, m.name, strings.Join(params, ", "),
		result, m.export)
	values, sets := m.split()
	for i, a := range m.args {
		if a.typ == "int" && values[i].elem == "uint32" { // C would get the lower bits of another number
			fmt.Fprintf(b, "if err := %s.obj().checkNumber(op, %q, %s); err != nil {\nreturn %serr\n}\n", self, a.name,
				a.name, m.zeros())
		}
	}
	switch {
	case len(sets) == 1 && sets[0].role == roleCount:
		m.emitList(b, self, sets[0])
	case len(sets) == 1 && sets[0].isText():
		m.emitText(b, self, sets[0])
	default:
		m.emitNumbers(b, self)
	}
	b.WriteString("}\n\n")
}

// zeros returns the zero values of the results before the error, each with a comma behind it.
func (m method) zeros() string {
	var b strings.Builder
	for _, r := range m.results {
		switch {
		case r.typ == "bool":
			b.WriteString("false, ")
		case r.typ == "string" || r.typ == "UUID":
			b.WriteString("\"\", ")
		case strings.HasPrefix(r.typ, "[]"):
			b.WriteString("nil, ")
		case r.typ == "time.Time":
			b.WriteString("time.Time{}, ")
		default:
			b.WriteString("0, ")
		}
	}
	return b.String()
}

// letters are the numbers of a call.
var letters = []string{"a", "b", "c", "d"}

// callArgs returns the arguments of the call, given the expression of each value.
func (m method) callArgs(handle string, value func(i int, prm param) string) string {
	var args []string
	n := 0
	for i, prm := range m.params {
		switch {
		case i == 0 && prm.role == roleValue && prm.elem == receivers[m.receiver]:
			args = append(args, fmt.Sprintf("raw.%s(%s)", prm.elem, handle))
		case prm.role == roleValue:
			args = append(args, value(n, prm))
			n++
		case prm.role == roleLength:
		case prm.role == roleArray:
			args = append(args, "&array")
		case prm.isText():
			args = append(args, "array[:]")
		case prm.role == roleOut:
			args = append(args, "&"+prm.goName)
		case prm.role == roleCount:
			args = append(args, "list")
		default: // the count of a list
			args = append(args, "n")
		}
	}
	return strings.Join(args, ", ")
}

// rawType returns the name of a type in package nvml.
func rawType(name string) string {
	if strings.ToLower(name[:1]) == name[:1] {
		return name
	}
	return "raw." + name
}

// toRaw returns an argument of the method as the type that the call has.
func (v goVar) toRaw(elem string) string {
	switch {
	case v.typ == "bool":
		return fmt.Sprintf("number[%s](%s)", rawType(elem), v.name)
	case v.typ == "time.Duration":
		return fmt.Sprintf("%s(%s / %s)", rawType(elem), v.name, units[v.unit])
	case v.typ[0] == '*':
		return fmt.Sprintf("%s(%s.Handle())", rawType(elem), v.name)
	}
	return fmt.Sprintf("%s(%s)", rawType(elem), v.name)
}

// fromNumber returns a result of the method from a number.
func (v goVar) fromNumber(number string) string {
	switch v.typ {
	case "bool":
		return number + " != 0"
	case "time.Duration":
		return fmt.Sprintf("time.Duration(%s) * %s", number, units[v.unit])
	case "time.Time":
		return fmt.Sprintf("sinceEpoch(%s)", number)
	}
	return fmt.Sprintf("%s(%s)", v.typ, number)
}

// emitNumbers writes the body of a method whose parameters and results are numbers.
func (m method) emitNumbers(b *strings.Builder, self string) {
	values, sets := m.split()
	var args []string
	for i, v := range m.args {
		args = append(args, fmt.Sprintf("%s: uint64(%s)", letters[i+1], v.toRaw(values[i].elem)))
	}
	call := fmt.Sprintf("l.%s(%s)", m.method, m.callArgs("w.a", func(i int, prm param) string {
		return fmt.Sprintf("%s(w.%s)", rawType(prm.elem), letters[i+1])
	}))
	into, w := "w, err := ", "w"
	if len(sets) == 0 {
		into, w = "_, err := ", "w"
		if len(values) == 0 && receivers[m.receiver] == "-" {
			w = "_"
		}
	} else if len(values) == 0 && receivers[m.receiver] == "-" {
		w = "_"
	}
	in := "words{" + strings.Join(args, ", ") + "}"
	if len(args) > 0 {
		fmt.Fprintf(b, "in := %s\n", in)
		in = "in"
	}
	fmt.Fprintf(b, "%s%s.obj().call(op, %s, func(l *raw.Library, %s words) (words, raw.Return) {\n", into, self, in, w)
	if len(sets) == 0 {
		fmt.Fprintf(b, "return words{}, %s\n})\nreturn err\n", call)
		return
	}
	var got, results []string
	for i, s := range sets {
		fmt.Fprintf(b, "var %s %s\n", s.goName, rawType(s.elem))
		got = append(got, fmt.Sprintf("%s: uint64(%s)", letters[i], s.goName))
		results = append(results, m.results[i].fromNumber("w."+letters[i]))
	}
	fmt.Fprintf(b, "r := %s\nreturn words{%s}, r\n})\nreturn %s, err\n", call, strings.Join(got, ", "),
		strings.Join(results, ", "))
}

// directArgs returns the arguments of a call that refers to the method's parameters.
func (m method) directArgs() string {
	return m.callArgs("h", func(i int, prm param) string { return m.args[i].toRaw(prm.elem) })
}

// handleParam returns the parameter of the handle, which some functions do not have.
func (m method) handleParam() string {
	if receivers[m.receiver] == "-" {
		return "_"
	}
	return "h"
}

// emitText writes the body of a method that returns a string, whose unit is the size of the buffer.
func (m method) emitText(b *strings.Builder, self string, s param) {
	size := m.results[0].unit
	if strings.HasPrefix(size, "NVML_") {
		size = "raw." + size
	}
	fmt.Fprintf(b, "return get(%s.obj(), op, func(l *raw.Library, %s uint64) (%s, raw.Return) {\n"+
		"var array [%s]byte\nr := l.%s(%s)\nreturn %[3]s(text(array[:])), r\n})\n",
		self, m.handleParam(), m.results[0].typ, size, m.method, m.directArgs())
}

// emitList writes the body of a method that returns a slice.
func (m method) emitList(b *strings.Builder, self string, s param) {
	result := strings.TrimPrefix(m.results[0].typ, "[]")
	call := fmt.Sprintf("list(func(n *uint32, list []%s) raw.Return {\nreturn l.%s(%s)\n})", rawType(s.elem), m.method,
		m.directArgs())
	fmt.Fprintf(b, "return get(%s.obj(), op, func(l *raw.Library, %s uint64) ([]%s, raw.Return) {\n", self, m.handleParam(),
		result)
	if result == s.elem {
		fmt.Fprintf(b, "return %s\n})\n", call)
		return
	}
	fmt.Fprintf(b, "all, r := %s\nreturn convert[%s](all), r\n})\n", call, result)
}

// wrapComment returns a comment of lines of at most 120 columns.
func wrapComment(s string) string {
	var b strings.Builder
	for len(s) > 117 {
		n := strings.LastIndexByte(s[:117], ' ')
		b.WriteString("// " + s[:n] + "\n")
		s = s[n+1:]
	}
	return b.String() + "// " + s + "\n"
}

// emitMethods writes the methods of the receivers.
func emitMethods(methods []method, receivers ...string) string {
	var b strings.Builder
	for _, m := range methods {
		if slices.Contains(receivers, m.receiver) {
			m.emit(&b)
		}
	}
	imports := "import (\n"
	if strings.Contains(b.String(), "time.") {
		imports += "\"time\"\n\n"
	}
	return imports + "\"github.com/purecu/purecu/nvml/raw\"\n)\n\n" + b.String()
}

// An alias is a type of package raw with another name, and its constants: a line of names.tsv.
type alias struct{ of, name, prefix, constant, doc string }

// rest returns what follows the prefix in a constant's name, and false if the constant is another type's.
func (a alias) rest(constant string) (rest string, is bool) {
	for prefix := range strings.FieldsSeq(a.prefix) {
		begin, end, _ := strings.Cut(prefix, "*")
		if rest, is = strings.CutPrefix(constant, begin); is {
			if rest, is = strings.CutSuffix(rest, end); is {
				return rest, true
			}
		}
	}
	return "", false
}

// parseNames returns the lines of names.tsv.
func (p *plan) parseNames(src source) ([]alias, error) {
	var errs cheader.ErrorList
	var list []alias
	line := 0
	for s := range strings.Lines(src.text) {
		line++
		if strings.HasPrefix(s, "#") || strings.TrimSpace(s) == "" {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(s, "\n"), "\t")
		if len(columns) != 5 {
			errs.Add(src.name, line, "there are %d columns, not 5", len(columns))
			continue
		}
		list = append(list, alias{columns[0], columns[1], columns[2], columns[3], columns[4]})
	}
	return list, errs.Err()
}

// emitNames writes the types of package nvml that are those of package raw, and the constants of them.
func (p *plan) emitNames(aliases []alias) (string, error) {
	var b strings.Builder
	b.WriteString("import \"github.com/purecu/purecu/nvml/raw\"\n\n")
	for _, a := range aliases {
		constants := p.defines
		i := slices.IndexFunc(p.enums, func(e enumFact) bool { return typeName(e.name) == a.of })
		switch {
		case i >= 0:
			constants = p.enums[i].constants
			fmt.Fprintf(&b, "%stype %s = raw.%s\n\n", wrapComment(a.name+" "+a.doc), a.name, a.of)
		case strings.HasPrefix(a.of, "uint"):
			fmt.Fprintf(&b, "%stype %s %s\n\n", wrapComment(a.name+" "+a.doc), a.name, a.of)
		default:
			fmt.Fprintf(&b, "%stype %s = raw.%s\n\n", wrapComment(a.name+" "+a.doc), a.name, a.of)
		}
		fmt.Fprintf(&b, "// The values of %s.\nconst (\n", a.name)
		n := 0
		for _, c := range constants {
			rest, is := a.rest(c.name)
			if !is || rest == "COUNT" || rest == "MAX" || c.unverified {
				continue
			}
			fmt.Fprintf(&b, "%s %s = %s\n", a.constant+camel(rest), a.name, "raw."+constantName(c.name))
			n++
		}
		b.WriteString(")\n\n")
		if n == 0 {
			return "", fmt.Errorf("no constant begins with %s", a.prefix)
		}
	}
	return b.String(), nil
}

// camel returns a name of C's constants in Go's way: PCIE_LINK_GEN is PCIeLinkGen.
func camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		switch {
		case word == "":
		case spelling[word] != "":
			b.WriteString(spelling[word])
		default:
			b.WriteString(word[:1] + strings.ToLower(word[1:]))
		}
	}
	return b.String()
}
