package main

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A call is a row of the table of methods.
type call struct {
	method           string // with its receiver's type, unless that is the library
	params           []string
	kind             string
	function         string
	args             []string
	results          []string
	sets             []string
	recv, name, self string
	sig              signature
}

// A generator writes the methods.
type generator struct {
	*api
	raw      *rawAPI
	versions map[string]rawMethod // functions of which the newest version is called, and the first version of each
	layouts  map[string]string    // pairs of types whose addresses are converted
}

// readCalls reads the table of methods.
func (g *generator) readCalls(file string) ([]*call, error) {
	table, err := rows(file)
	if err != nil {
		return nil, err
	}
	var calls []*call
	for _, r := range table {
		r = append(r, "", "", "", "", "", "")
		c := &call{method: r[0], params: strings.Fields(r[1]), kind: r[2], function: r[3], args: strings.Fields(r[4]),
			results: strings.Fields(r[5]), sets: strings.Split(r[6], ";")}
		c.recv, c.name, c.self = "*library", c.method, "l"
		if typ, name, ok := strings.Cut(c.method, "."); ok {
			c.recv, c.name, c.self = typ, name, strings.ToLower(typ[:1])+typ[1:]
			if strings.Contains(typ, "Handler") {
				c.self = "handler"
			}
		}
		text := g.signatureText(c)
		if c.sig, err = parseSignature(text); err != nil {
			return nil, fmt.Errorf("%s: %w", c.method, err)
		}
		if len(c.sig.params) != len(c.params) {
			return nil, fmt.Errorf("%s: %d names for %d parameters", c.method, len(c.params), len(c.sig.params))
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// signatureText returns the signature of the interface's method. Those of handlers, which are no interfaces, follow
// from the row.
func (g *generator) signatureText(c *call) string {
	typ := c.recv
	if typ == "*library" {
		typ = "Interface"
	}
	for _, m := range g.methods[typ] {
		if m.name == c.name {
			if typ != "Interface" && g.methods[typ] != nil {
				c.recv = "nvml" + typ
			}
			return m.text
		}
	}
	_, variable, _ := strings.Cut(c.args[len(c.args)-1], ":")
	return "() (" + variable + ", Return)"
}

// emit writes a method.
func (g *generator) emit(b *bytes.Buffer, c *call) error {
	var params []string
	for i, p := range c.params {
		params = append(params, p+" "+c.sig.params[i])
	}
	results := strings.Join(c.sig.results, ", ")
	if len(c.sig.results) > 1 {
		results = "(" + results + ")"
	}
	what := "calls nvml" + strings.TrimSuffix(c.function, "*") + "."
	switch {
	case c.kind == "to":
		what = "calls " + c.function + "."
	case strings.HasSuffix(c.function, "*"):
		what = "calls the newest version of nvml" + strings.TrimSuffix(c.function, "*") + " that the library has."
	}
	fmt.Fprintf(b, "// %s %s\nfunc (%s %s) %s(%s) %s {\n", c.name, what, c.self, c.recv, c.name,
		strings.Join(params, ", "), results)
	defer b.WriteString("}\n\n")
	if c.kind == "to" {
		args := slices.Clone(c.args)
		for i, a := range args {
			if a == "self" {
				args[i] = c.self
			}
		}
		fmt.Fprintf(b, "return %s(%s)\n", c.function, strings.Join(args, ", "))
		return nil
	}
	return g.emitCall(b, c)
}

// A local is a variable of a generated method.
type local struct {
	name, typ, version, value string
	param, buffer             bool
}

var argument = regexp.MustCompile(`^&(\w+)(?:@(\d))?(?::(\w*))?(?:=(\w+))?$`)

// A body is that of a method that calls a function.
type body struct {
	*call
	locals map[string]*local
	before []string // the lines before the call
	slice  string   // that of grow and fill
}

// emitCall writes the body of a method that calls a function.
func (g *generator) emitCall(b *bytes.Buffer, c *call) error {
	target, rawParams, err := g.target(c)
	if err != nil {
		return err
	}
	m := &body{call: c, locals: map[string]*local{}}
	var args []string
	for i, token := range c.args {
		arg, err := g.argument(m, token, rawParams[i])
		if err != nil {
			return err
		}
		args = append(args, arg)
	}
	if strings.HasSuffix(c.kind, "!") {
		zeros := strings.Repeat("nil, ", len(c.sig.results)-1)
		if c.sig.results[0] == "int" {
			zeros = "0, "
		}
		fmt.Fprintf(b, "if info == nil {\nreturn %sERROR_INVALID_ARGUMENT\n}\n", zeros)
	}
	for _, line := range m.before {
		fmt.Fprintln(b, line)
	}
	for _, s := range c.sets {
		if s != "" {
			fmt.Fprintln(b, strings.Replace(s, "=", " = ", 1))
		}
	}
	expr := target + strings.Join(args, ", ") + ")"
	switch kind := strings.TrimSuffix(c.kind, "!"); kind {
	case "call":
		if len(c.results) == 0 {
			fmt.Fprintf(b, "return result(%s)\n", expr)
			return nil
		}
		fmt.Fprintf(b, "ret := result(%s)\n", expr)
	case "grow", "fill":
		fmt.Fprintf(b, "%s, ret := %s(func(n *uint32, s []%s) raw.Return {\nreturn %s\n})\n", m.slice, kind,
			m.locals[m.slice].typ, expr)
	default:
		return fmt.Errorf("%s: unknown kind %q", c.method, kind)
	}
	var results []string
	for i, r := range c.results {
		results = append(results, g.result(m.locals, r, c.sig.results[i]))
	}
	fmt.Fprintf(b, "return %s, ret\n", strings.Join(results, ", "))
	return nil
}

// argument returns an argument of the call, for a parameter of the type, and notes what it needs.
func (g *generator) argument(m *body, token, rawType string) (string, error) {
	switch {
	case token[0] == '#':
		return "n", nil
	case strings.Contains(token, "[]"):
		name, elem, _ := strings.Cut(token, "[]:")
		m.slice, m.locals[name] = name, &local{name: name, typ: elem}
		return g.sliceArg(elem, rawType), nil
	case strings.HasSuffix(token, "]"):
		name, size, _ := strings.Cut(strings.TrimSuffix(token, "]"), "[")
		m.locals[name] = &local{name: name, buffer: true}
		m.before = append(m.before, fmt.Sprintf("var %s [%s]byte", name, size))
		if strings.HasPrefix(rawType, "*[") {
			return "&" + name, nil
		}
		return name + "[:]", nil
	case token[0] != '&':
		return g.convert(m.call, token, rawType), nil
	}
	l, err := g.local(m.call, token)
	if err != nil {
		return "", err
	}
	elem, isSlice := strings.CutPrefix(rawType, "[]")
	if isSlice {
		rawType = "*" + elem
	}
	m.locals[l.name] = l
	m.before = append(m.before, g.declare(l, rawType)...)
	arg := "&" + l.name
	if g.isStruct(l.typ) {
		arg = g.as(l.typ, rawType, arg)
	}
	if isSlice {
		arg = "one(" + arg + ")"
	}
	return arg, nil
}

// target returns the begin of the call, and the types of its parameters.
func (g *generator) target(c *call) (string, []string, error) {
	function, newest := strings.CutSuffix(c.function, "*")
	m, ok := g.raw.methods[function]
	if !ok && strings.HasSuffix(function, "_v1") {
		m, ok = g.raw.methods[strings.TrimSuffix(function, "_v1")]
	}
	switch {
	case !ok:
		params := []string{"uintptr", "*byte"}
		if c.args[1][0] != '&' && !strings.HasPrefix(c.paramType(c.args[1]), "*") {
			params[1] = "uintptr"
			return fmt.Sprintf("native().withWord(%q, ", "nvml"+function), params, nil
		}
		return fmt.Sprintf("native().withPointer(%q, ", "nvml"+function), params, nil
	case newest:
		g.versions[function] = m
		return "native()." + lower(function) + "(", m.sig.params, nil
	}
	if len(m.sig.params) != len(c.args) {
		return "", nil, fmt.Errorf("%s: %d arguments for %v", c.method, len(c.args), m.sig.params)
	}
	return "native()." + m.name + "(", m.sig.params, nil
}

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// local reads an argument that is the address of a variable.
func (g *generator) local(c *call, token string) (*local, error) {
	m := argument.FindStringSubmatch(token)
	if m == nil {
		return nil, fmt.Errorf("%s: argument %q", c.method, token)
	}
	l := &local{name: m[1], version: m[2], typ: m[3], value: m[4]}
	if t := c.paramType(l.name); t != "" {
		l.typ, l.param = t, true
	}
	return l, nil
}

// declare returns the lines that declare and set a variable.
func (g *generator) declare(l *local, rawType string) (lines []string) {
	typ := l.typ
	if !g.isStruct(typ) {
		typ = rawName(rawType[1:])
	}
	switch {
	case l.param:
	case l.value != "":
		lines = append(lines, fmt.Sprintf("%s := %s(%s)", l.name, typ, l.value))
	default:
		lines = append(lines, fmt.Sprintf("var %s %s", l.name, typ))
	}
	if l.version != "" {
		lines = append(lines, fmt.Sprintf("%[1]s.Version = structVersion(&%[1]s, %[2]s)", l.name, l.version))
	}
	return lines
}

// paramType returns the type of a parameter, or "".
func (c *call) paramType(name string) string {
	if i := slices.Index(c.params, name); i >= 0 {
		return c.sig.params[i]
	}
	return ""
}

func (g *generator) isStruct(typ string) bool { return strings.HasPrefix(g.kinds[typ], "struct{") }

// as converts the address of a struct.
func (g *generator) as(typ, rawType, address string) string {
	same := rawType[1:]
	if versioned := strings.Replace(typ, "_v", "V", 1); g.raw.structs[versioned] { // C has void *, or an older version
		same = versioned
	}
	g.layouts[typ+" "+same] = typ
	return fmt.Sprintf("as[%s](%s)", rawName(rawType[1:]), address)
}

// rawName returns the name of one of package raw's types, as this package writes it.
func rawName(t string) string {
	if t[0] >= 'A' && t[0] <= 'Z' {
		return "raw." + t
	}
	return t
}

// sliceArg converts the slice s of grow and fill.
func (g *generator) sliceArg(elem, rawType string) string {
	rawElem := strings.TrimPrefix(rawType, "[]")
	if elem == rawElem && (elem[0] < 'A' || elem[0] > 'Z') {
		return "s"
	}
	g.layouts[elem+" "+rawElem] = elem
	return fmt.Sprintf("asSlice[%s](s)", rawName(rawElem))
}

// handles are the interfaces of handles, and how to get the handle.
var handles = map[string]string{
	"Device": "deviceHandle(%s).Handle", "EventSet": "%s.(nvmlEventSet).Handle", "GpmSample": "%s.(nvmlGpmSample).Handle",
	"VgpuTypeId": "raw.VgpuTypeId(%s.(nvmlVgpuTypeId))",
}

// convert converts an argument that is passed by value.
func (g *generator) convert(c *call, token, rawType string) string {
	expr, typ := token, ""
	base, field, dotted := strings.Cut(token, ".")
	switch {
	case token == "self":
		expr, typ = c.self, c.recv
	case dotted && base == c.self:
		typ = g.fieldType(c.recv, field)
	case dotted:
		typ = g.fieldType(strings.TrimPrefix(c.paramType(base), "*"), field)
	default:
		typ = c.paramType(token)
	}
	switch {
	case handles[typ] != "":
		return fmt.Sprintf(handles[typ], expr)
	case strings.HasPrefix(typ, "nvmlVgpu"):
		return rawName(rawType) + "(" + expr + ")"
	case strings.HasPrefix(typ, "nvml") && rawType == "uintptr":
		return "uintptr(" + expr + ".Handle)"
	case strings.HasPrefix(typ, "nvml"):
		return expr + ".Handle"
	case strings.HasPrefix(typ, "*"):
		return g.as(typ[1:], rawType, expr)
	case typ == rawType && (typ[0] < 'A' || typ[0] > 'Z'):
		return expr
	}
	return rawName(rawType) + "(" + expr + ")"
}

// result returns a result of the type, from a variable or a struct's member.
func (g *generator) result(locals map[string]*local, name, typ string) string {
	if base, field, ok := strings.Cut(name, "."); ok {
		if typ == "string" {
			return "chars(" + name + "[:])"
		}
		if g.fieldType(locals[base].typ, field) == typ {
			return name
		}
		return typ + "(" + name + ")"
	}
	l := locals[name]
	switch {
	case typ == "string" && l.buffer:
		return "text(" + name + "[:])"
	case typ == "string":
		return "text(" + name + ")"
	case typ == "bool":
		return name + " != 0"
	case l.typ == typ || "[]"+l.typ == typ:
		if g.isStruct(l.typ) || typ[0] == '[' || typ == "uint32" || typ == "uint64" {
			return name
		}
		return typ + "(" + name + ")"
	case typ == "[]int":
		return "ints(" + name + ")"
	case typ[0] == '[':
		return "handles[" + typ[2:] + "](" + name + ")"
	case strings.HasPrefix(l.typ, "nvml") && strings.HasSuffix(l.typ, "Info"), l.typ == "nvmlEventData":
		return name + ".convert()"
	case strings.HasPrefix(l.typ, "nvmlVgpu"):
		return l.typ + "(" + name + ")"
	case strings.HasPrefix(l.typ, "nvml"):
		return l.typ + "{" + name + "}"
	}
	return typ + "(" + name + ")"
}

// emitVersions writes how the newest version of a function is chosen and called.
func (g *generator) emitVersions(o output) {
	b := o.file("pkg/nvml/zversions.go", "package nvml\n\nimport \"github.com/purecu/purecu/nvml/raw\"\n\n")
	names := slices.Sorted(maps.Keys(g.versions))
	b.WriteString("// versions are the newest versions of functions that a library has.\ntype versions struct {\n")
	for _, f := range names {
		fmt.Fprintf(b, "%s uint8\n", lower(f))
	}
	b.WriteString("}\n\n// choose finds the versions.\nfunc (c *calls) choose() {\n")
	for _, f := range names {
		fmt.Fprintf(b, "c.versions.%s = c.newest(%q, %d)\n", lower(f), "nvml"+f, g.lastVersion(f))
	}
	b.WriteString("}\n\n")
	for _, f := range names {
		m := g.versions[f]
		if strings.HasSuffix(f, "RunningProcesses") {
			continue
		}
		var params []string
		for i, p := range m.sig.params {
			t := rawName(p)
			if p[0] == '*' {
				t = "*" + rawName(p[1:])
			} else if strings.HasPrefix(p, "[]") {
				t = "[]" + rawName(p[2:])
			}
			params = append(params, m.sig.names[i]+" "+t)
		}
		args := strings.Join(m.sig.names, ", ")
		fmt.Fprintf(b, "func (c *calls) %s(%s) raw.Return {\nswitch c.versions.%[1]s {\n", lower(f),
			strings.Join(params, ", "))
		for n := g.lastVersion(f); n > 1; n-- {
			if v, ok := g.raw.methods[f+"_v"+strconv.Itoa(n)]; ok {
				fmt.Fprintf(b, "case %d:\nreturn c.%s(%s)\n", n, v.name, args)
			}
		}
		fmt.Fprintf(b, "}\nreturn c.%s(%s)\n}\n\n", m.name, args)
	}
}

// lastVersion returns the number of the newest version of a function.
func (g *generator) lastVersion(function string) int {
	last := 1
	for n := 2; n < 10; n++ {
		if _, ok := g.raw.methods[function+"_v"+strconv.Itoa(n)]; ok {
			last = n
		}
	}
	return last
}

// emitLayouts writes the pairs of types whose addresses are converted, for a test.
func (g *generator) emitLayouts(o output) {
	b := o.file("pkg/nvml/zlayout_test.go", "package nvml\n\nimport (\n\"reflect\"\n\n"+
		"\"github.com/purecu/purecu/nvml/raw\"\n)\n\n")
	b.WriteString("// layouts are the types whose addresses this package converts to package raw's.\n" +
		"var layouts = [][2]reflect.Type{\n")
	for _, pair := range slices.Sorted(maps.Keys(g.layouts)) {
		ours, theirs, _ := strings.Cut(pair, " ")
		if theirs != "byte" {
			fmt.Fprintf(b, "{reflect.TypeFor[%s](), reflect.TypeFor[%s]()},\n", ours, rawName(theirs))
		}
	}
	b.WriteString("}\n")
}
