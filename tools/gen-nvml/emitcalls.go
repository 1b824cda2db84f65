package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxWords is how many arguments a frame of package ccall has.
const maxWords = 6

// byHand reports whether the method is written by hand, because the function returns no nvmlReturn_t.
func (c call) byHand() bool { return c.ret != "nvmlReturn_t" }

// signature returns the parameters and the result of the method.
func (c call) signature() string {
	var params []string
	for _, p := range c.params {
		if p.goType != "" {
			params = append(params, p.goName+" "+p.goType)
		}
	}
	result := " Return"
	if c.byHand() {
		result = " string"
	}
	return c.method + "(" + strings.Join(params, ", ") + ")" + result
}

// doc returns the comment of the method.
func (c call) doc() string {
	var reads, writes, both []string
	more := ""
	for _, p := range c.params {
		switch p.role {
		case roleIn:
			reads = append(reads, p.goName)
		case roleOut, roleArray:
			writes = append(writes, p.goName)
		case roleInout:
			both = append(both, p.goName)
		case roleLen, roleBytes:
			both = append(both, p.goName)
		case roleCount, roleMemory:
			writes = append(writes, p.goName)
			more += fmt.Sprintf("\n// *%s is the length of %s, and becomes the number that there are.", p.of, p.goName)
		case roleRoom:
			writes = append(writes, p.goName)
			more += fmt.Sprintf("\n//\n// The library does not know the length of %s, which must suffice.", p.goName)
		}
	}
	var parts []string
	for _, part := range []struct {
		verb  string
		names []string
	}{{"reads", reads}, {"reads and sets", both}, {"sets", writes}} {
		if len(part.names) > 0 {
			parts = append(parts, part.verb+" "+strings.Join(part.names, " and "))
		}
	}
	what := ""
	if parts != nil {
		what = ", which " + strings.Join(parts, ", and ")
	}
	text := fmt.Sprintf("// %s calls %s%s.%s\n", c.method, c.export, what, more)
	if c.unverified {
		text += "//\n// Unverified: the header of a newer release has it, and no driver has confirmed it.\n"
	}
	return text
}

// emitCalls writes the methods of Library, and what makes the calls.
func (p *plan) emitCalls() string {
	var b strings.Builder
	b.WriteString("import (\n\"unsafe\"\n\n\"github.com/purecu/purecu/internal/ccall\"\n)\n\n")
	shapes := map[string]bool{}
	for _, c := range p.calls {
		if c.byHand() {
			continue
		}
		fmt.Fprintf(&b, "%sfunc (l *Library) %s {\n", c.doc(), c.signature())
		c.emitChecks(&b)
		c.emitSoftware(&b)
		shape, words := c.words()
		shapes[shape] = true
		fmt.Fprintf(&b, "return l.call%s(%s)\n}\n\n", shape, strings.Join(append([]string{"sym" + c.method}, words...), ", "))
	}
	var list []string
	for s := range shapes {
		list = append(list, s)
	}
	slices.Sort(list)
	for _, s := range list {
		emitShape(&b, s)
	}
	return b.String()
}

// emitChecks writes what comes before the call: a count that exceeds the slice would make C write
// behind it, and strings become those of C.
func (c call) emitChecks(b *strings.Builder) {
	for _, p := range c.params {
		switch p.role {
		case roleCount, roleMemory:
			fmt.Fprintf(b, "if !fits(%s, len(%s)) {\nreturn NVML_ERROR_INVALID_ARGUMENT\n}\n", p.of, p.goName)
		case roleString:
			fmt.Fprintf(b, "%[1]sC, ok := cString(%[1]s)\nif !ok {\nreturn NVML_ERROR_INVALID_ARGUMENT\n}\n", p.goName)
		}
	}
}

// emitSoftware writes the call of a software NVML, which gets copies of what the addresses lead to: see software.go of
// package raw.
func (c call) emitSoftware(b *strings.Builder) {
	var args []string
	before, after, end := "", "", ""
	for _, p := range c.params {
		kind := ""
		if strings.HasPrefix(p.goType, "[]") {
			kind = "Slice"
		}
		switch p.role {
		case roleLength:
		case roleValue, roleString:
			args = append(args, p.goName)
		case roleIn:
			args = append(args, fmt.Sprintf("clone(%s)", p.goName))
		default:
			before += fmt.Sprintf("%[1]sC := clone%[2]s(%[1]s)\n", p.goName, kind)
			args = append(args, p.goName+"C")
			after, end = after+fmt.Sprintf("back%[2]s(%[1]s, %[1]sC, ", p.goName, kind), end+")"
		}
	}
	fmt.Fprintf(b, "if l.soft != nil {\n%sreturn %sl.software().%s(%s)%s\n}\n", before, after, c.method,
		strings.Join(args, ", "), end)
}

// words returns the arguments of C, and for each of them a letter: W for a word, P for an address.
func (c call) words() (shape string, words []string) {
	for _, p := range c.params {
		switch p.role {
		case roleValue:
			shape += "W"
			if p.elem == "int32" {
				words = append(words, "uintptr(uint32("+p.goName+"))") // not sign-extended
			} else {
				words = append(words, "uintptr("+p.goName+")")
			}
			continue
		case roleLength:
			shape += "W"
			w := "uintptr(len(" + p.of + "))"
			if p.elem != "uint32" && p.elem != "int32" { // bytes
				w += "*unsafe.Sizeof(" + p.of + "[0])"
			}
			words = append(words, w)
			continue
		case roleString:
			words = append(words, p.goName+"C")
		case roleIn, roleOut, roleInout, roleArray:
			words = append(words, "unsafe.Pointer("+p.goName+")")
		default:
			words = append(words, "address("+p.goName+")")
		}
		shape += "P"
	}
	return shape, words
}

// emitShape writes the method that makes calls with arguments of a shape.
func emitShape(b *strings.Builder, shape string) {
	params, fields, set := "", "", ""
	var left, right []string
	for i, letter := range shape {
		typ := "uintptr"
		if letter == 'P' {
			typ = "unsafe.Pointer"
		}
		params += fmt.Sprintf(", a%d %s", i, typ)
		fields += fmt.Sprintf("a%d %s\n", i, typ)
		left, right = append(left, fmt.Sprintf("f.a%d", i)), append(right, fmt.Sprintf("a%d", i))
	}
	if rest := maxWords - len(shape); rest > 0 {
		fields += fmt.Sprintf("_ [%d]uintptr\n", rest)
	}
	if len(left) > 0 {
		set = strings.Join(left, ", ") + " = " + strings.Join(right, ", ") + "\n"
	}
	fmt.Fprintf(b, "//go:noinline\nfunc (l *Library) call%s(s symbol%s) Return {\nvar f struct {\nccall.Head\n%s}\n%s"+
		"return l.invoke(s, unsafe.Pointer(&f))\n}\n\n", shape, params, fields, set)
}

// emitSoftwareType writes the interface of a software NVML, and a type that has no function.
func (p *plan) emitSoftwareType() string {
	var b strings.Builder
	b.WriteString(softwareDoc + "type Software interface {\n")
	for _, c := range p.calls {
		b.WriteString(c.signature() + "\n")
	}
	b.WriteString("}\n\n" + unimplementedDoc + "type Unimplemented struct{}\n\n")
	for _, c := range p.calls {
		result := "missing(sym" + c.method + ")"
		if c.byHand() {
			result = c.params[0].goName + ".Text()"
		}
		fmt.Fprintf(&b, "func (Unimplemented) %s { return %s }\n", c.signature(), result)
	}
	return b.String()
}

// rawName is the name of a type of package raw in the type of a parameter.
var rawName = regexp.MustCompile(`\b[A-Z]\w*`)

// emitAnswers writes the methods of the software NVML that begin a call, and those that answer what was recorded.
func (p *plan) emitAnswers() string {
	var b strings.Builder
	b.WriteString("import \"github.com/purecu/purecu/nvml/raw\"\n\n")
	for _, c := range p.calls {
		if c.byHand() {
			continue
		}
		params, args := "", []string{strconv.Quote(c.method)}
		for _, q := range c.params {
			if q.goType != "" {
				params += q.goName + " " + rawName.ReplaceAllString(q.goType, "raw.$0") + ","
				args = append(args, q.goName)
			}
		}
		all := strings.Join(args, ", ")
		fmt.Fprintf(&b, "func (n *NVML) %s(%s) raw.Return {\nif r := n.enter(%s); r != raw.NVML_SUCCESS { return r }\n"+
			"return n.model.%[1]s(%[4]s)\n}\n\n", c.method, params, all, strings.Join(args[1:], ", "))
		fmt.Fprintf(&b, "func (a answers) %s(%s) raw.Return { return a.answer(%s) }\n\n", c.method, params, all)
	}
	return b.String()
}

const softwareDoc = `// Software is an NVML that is written in Go. Its methods are those of [Library], with the same documentation, and any
// goroutine may call them at any time. An empty slice is NULL.
//
// Newer versions of this package may add methods. A software NVML that embeds [Unimplemented] still compiles then.
`

const unimplementedDoc = `// Unimplemented is a [Software] that lacks all functions: see [Return.Missing]. A software NVML embeds it, and has
// methods for the functions that it has.
`
