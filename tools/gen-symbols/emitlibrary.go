package main

import (
	"cmp"
	"fmt"
	"go/format"
	"slices"
	"strings"
)

// A libraryPlan is the content of the file for the C library.
type libraryPlan struct {
	byHand  map[string]bool              // exports that are written in C
	static  map[string]bool              // exports in byHand that never call the driver
	stores  map[string]map[string]string // by export and parameter, the function that stores the value
	handle  map[string]string            // by export, the parameter that must not be 0
	sized   map[string]string            // by export, the function and the parameter that say how long a value is
	exports []funcFact                   // functions outside the manifest, with unknown parameters
}

// notAsked stands for the name of a function that cuGetProcAddress does not find.
const notAsked = "-"

// storeFunctions are the functions that store a value, by the keyword of its parameter in the file.
var storeFunctions = map[string]string{"optional": "offer", "told": "offerAlways", "required": "require"}

// parseLibrary reads the file for the C library.
func parseLibrary(src source, m *manifest) (*libraryPlan, error) {
	var errs errorList
	plan := &libraryPlan{
		byHand: map[string]bool{}, static: map[string]bool{}, handle: map[string]string{}, sized: map[string]string{},
		stores: map[string]map[string]string{},
	}
	facts := map[string]funcFact{}
	for _, f := range m.funcs {
		facts[f.export] = f
	}
	eachRow(src.name, src.text, &errs, func(r row) {
		fact, known := facts[r.field(1)]
		if r.fields[0] == "export" {
			r.want(6)
			if known {
				r.bad("%s is here twice, or in the manifest", fact.export)
			}
			f := funcFact{export: r.field(1), ask: r.field(2), version: int(r.number(3)),
				perThread: r.choice(4, "plain", "per-thread"), ret: "CUresult"}
			facts[f.export] = f
			plan.exports = append(plan.exports, f)
			return
		}
		if !known {
			r.bad("the manifest has no function %q", r.field(1))
			return
		}
		hasParam := func() bool {
			r.want(3)
			has := slices.ContainsFunc(fact.params, func(p paramFact) bool { return p.name == r.field(2) })
			if !has {
				r.bad("%s has no parameter %q", fact.export, r.field(2))
			}
			return has
		}
		switch r.fields[0] {
		case "byhand", "static":
			r.want(2)
			if plan.byHand[fact.export] {
				r.bad("%s is here twice", fact.export)
			}
			plan.byHand[fact.export] = true
			plan.static[fact.export] = r.fields[0] == "static"
		case "optional", "told", "required":
			if hasParam() {
				if plan.stores[fact.export] == nil {
					plan.stores[fact.export] = map[string]string{}
				}
				plan.stores[fact.export][r.field(2)] = storeFunctions[r.fields[0]]
			}
		case "sized":
			r.want(3)
			_, of, _ := strings.Cut(strings.TrimSuffix(r.field(2), ")"), "(")
			if !slices.ContainsFunc(fact.params, func(p paramFact) bool { return p.name == of }) {
				r.bad("%s has no parameter %q", fact.export, of)
			}
			plan.sized[fact.export] = r.field(2)
		case "handle":
			if hasParam() {
				plan.handle[fact.export] = r.field(2)
			}
		default:
			r.bad("unknown kind of row %q", r.fields[0])
		}
	})
	return plan, errs.err()
}

// A stub is one exported function of the C library.
type stub struct {
	fact      funcFact
	call      *call // the call that it makes, or nil
	number    int   // of the call
	ownStream bool  // its NULL stream is the per-thread default stream
	byHand    bool
}

// A library is the content of the generated C library.
type library struct {
	m     *manifest
	plan  *libraryPlan
	stubs []stub
	calls []numberedCall
}

// A numberedCall is a call of the software driver that a stub makes by number.
type numberedCall struct {
	*call
	own bool // in the order of the per-thread default stream
}

// newLibrary decides what every exported function does. A function without a typed call makes the
// call of another interface of the same function, if both prototypes have the same arguments.
func newLibrary(m *manifest, calls *callPlan, plan *libraryPlan, implemented map[string]bool) *library {
	lib := &library{m: m, plan: plan}
	usable := func(c *call) bool { return implemented[c.method] && (!c.isVague() || plan.sized[c.fact.export] != "") }
	number := func(c *call, own bool) int {
		i := slices.IndexFunc(lib.calls, func(n numberedCall) bool { return n.call == c && n.own == own })
		if i < 0 {
			lib.calls = append(lib.calls, numberedCall{c, own})
			i = len(lib.calls) - 1
		}
		return i
	}
	typed := map[string]*call{}
	for _, c := range calls.calls {
		if !usable(c) {
			continue
		}
		typed[c.fact.export] = c
		if !plan.static[c.fact.export] {
			number(c, false)
		}
	}
	for _, f := range slices.Concat(m.funcs, plan.exports) {
		s := stub{fact: f, byHand: plan.byHand[f.export]}
		if s.call = typed[f.export]; s.call == nil {
			for _, c := range calls.calls {
				sameType := func(a, b paramFact) bool { return a.typ == b.typ }
				if typed[c.fact.export] == c && c.fact.ask == f.ask && slices.EqualFunc(c.fact.params, f.params, sameType) {
					s.call = c
				}
			}
		}
		if s.call != nil && !s.byHand {
			s.ownStream = f.perThread && s.streamParam() >= 0
			s.number = number(s.call, f.perThread && !s.ownStream)
		}
		lib.stubs = append(lib.stubs, s)
	}
	slices.SortFunc(lib.stubs, func(a, b stub) int { return cmp.Compare(a.fact.export, b.fact.export) })
	return lib
}

// streamParam returns the index of the parameter that is a stream, or -1.
func (s *stub) streamParam() int {
	return slices.IndexFunc(s.fact.params, func(p paramFact) bool { return p.typ == "CUstream" })
}

// implemented reports whether the function does more than return an error.
func (s *stub) implemented() bool { return s.byHand || s.call != nil }

// emitLibrary returns the generated files of the C library by their path in the module, with
// slashes.
func emitLibrary(m *manifest, calls, libcuda source, manifestName string,
	implemented map[string]bool) (map[string][]byte, error) {
	callPlan, err := parseCalls(calls, m)
	if err != nil {
		return nil, err
	}
	plan, err := parseLibrary(libcuda, m)
	if err != nil {
		return nil, err
	}
	lib := newLibrary(m, callPlan, plan, implemented)
	header, err := lib.emitHeader()
	if err != nil {
		return nil, err
	}
	from := fmt.Sprintf("// Code generated by gen-symbols from %s, calls.tsv and libcuda.tsv; DO NOT EDIT.\n\n", manifestName)
	files := map[string][]byte{
		"cusim/libcuda/build/stub/zlibcuda.h": []byte(from + header),
		"cusim/libcuda/build/stub/zlibcuda.c": []byte(from + lib.emitStubs()),
		"docs/software-functions.md":          []byte(emitImplemented(callPlan, implemented)),
	}
	for name, body := range map[string]string{
		"cusim/libcuda/zcall.go":       lib.emitDispatch(),
		"cusim/libcuda/build/zlist.go": lib.emitList(),
	} {
		data, err := format.Source([]byte(from + "package main\n\n" + body))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = data
	}
	return files, nil
}

// cTypes maps types of the driver API to plain C types of the same width and signedness. It has the
// types that are passed by value and are neither enums nor pointers.
var cTypes = map[string]string{
	"int": "int", "unsigned int": "unsigned int", "unsigned char": "unsigned char", "unsigned short": "unsigned short",
	"float": "float", "size_t": "size_t", "unsigned long long": "unsigned long long", "cuuint32_t": "uint32_t", "cuuint64_t": "uint64_t",

	"CUdevice": "int", "CUdeviceptr": "unsigned long long", "CUdeviceptr_v1": "unsigned int", "CUlogIterator": "unsigned int",
	"CUtexObject": "unsigned long long", "CUsurfObject": "unsigned long long", "CUmemGenericAllocationHandle": "unsigned long long",

	"CUresult": "int", "CUgraphConditionalHandle": "unsigned long long",
}

// isAddress reports whether a type is an address: a handle or a function.
func isAddress(typ string) bool { return handles[typ] != "" || slices.Contains(functionTypes, typ) }

// cType returns a plain C type for the type of a parameter.
func (lib *library) cType(p paramFact) (string, error) {
	switch {
	case strings.Contains(p.typ, "*"), isAddress(p.typ):
		return "void *", nil
	case p.size > 0 && p.size%8 == 0:
		return fmt.Sprintf("struct cusim_words%d ", p.size/8), nil
	}
	if t, ok := cTypes[p.typ]; ok {
		return t + " ", nil
	}
	if lib.m.isEnum(p.typ) {
		return "int ", nil
	}
	return "", fmt.Errorf("parameter %s: there is no type of C for %s", p.name, p.typ)
}

// prototype returns the declaration of a function, without a semicolon.
func (lib *library) prototype(f funcFact) (string, error) {
	params := []string{}
	for _, p := range f.params {
		t, err := lib.cType(p)
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.export, err)
		}
		params = append(params, t+p.name)
	}
	if len(params) == 0 {
		params = []string{"void"}
	}
	if f.ret != "CUresult" {
		return "", fmt.Errorf("%s returns %s", f.export, f.ret)
	}
	return fmt.Sprintf("int %s(%s)", f.export, strings.Join(params, ", ")), nil
}

// emitHeader writes the prototypes, and the constants of the hand-written part.
func (lib *library) emitHeader() (string, error) {
	var b strings.Builder
	b.WriteString("#include <stddef.h>\n#include <stdint.h>\n\n// Structs that are passed by value.\n")
	sizes := map[int64]bool{}
	for _, f := range lib.m.funcs {
		for _, p := range f.params {
			if p.size > 0 && !sizes[p.size] {
				sizes[p.size] = true
				fmt.Fprintf(&b, "struct cusim_words%d { uint64_t w[%[1]d]; };\n", p.size/8)
			}
		}
	}
	fmt.Fprintf(&b, "\n// The newest version of CUDA that is known here.\nenum { CUSIM_NEWEST = %d };\n", lib.m.version)
	b.WriteString("\n// The results that the stubs return themselves.\nenum {\n")
	for _, r := range lib.m.results {
		fmt.Fprintf(&b, "\t%s = %d,\n", r.name, r.code)
	}
	b.WriteString("};\n\n// The calls that hand-written functions make, by their number.\nenum {\n")
	for i, c := range lib.calls {
		if lib.plan.byHand[c.fact.export] {
			fmt.Fprintf(&b, "\tCUSIM_%s = %d,\n", strings.TrimPrefix(c.fact.export, "cu"), i)
		}
	}
	b.WriteString("};\n\n// The functions that the library exports.\n#pragma GCC visibility push(default)\n")
	for _, s := range lib.stubs {
		p, err := lib.prototype(s.fact)
		if err != nil {
			return "", err
		}
		b.WriteString(p + ";\n")
	}
	b.WriteString("#pragma GCC visibility pop\n")
	return b.String(), nil
}

// emitStubs writes the exported functions, the table that finds them by name and version, and the
// names of the results.
func (lib *library) emitStubs() string {
	var b strings.Builder
	b.WriteString("#include \"libcuda.h\"\n\n")
	for _, s := range lib.stubs {
		if s.byHand {
			continue
		}
		p, _ := lib.prototype(s.fact) // emitHeader has checked the error
		fmt.Fprintf(&b, "%s\n{\n", p)
		if h := lib.plan.handle[s.fact.export]; h != "" {
			fmt.Fprintf(&b, "\tif (!%s && !cusim_initialized())\n\t\treturn CUDA_ERROR_INVALID_HANDLE;\n", h)
		}
		switch {
		case s.call == nil:
			for _, p := range s.fact.params {
				fmt.Fprintf(&b, "\t(void)%s;\n", p.name)
			}
			b.WriteString("\treturn cusim_refuse(CUDA_ERROR_NOT_SUPPORTED);\n")
		default:
			args := "NULL"
			if len(s.fact.params) > 0 {
				fmt.Fprintf(&b, "\tuint64_t a[] = {%s};\n", strings.Join(s.words(), ", "))
				args = "a"
			}
			fmt.Fprintf(&b, "\treturn cusim_call(%d, %d, %s);\n", s.number, s.fact.version, args)
		}
		b.WriteString("}\n\n")
	}

	bySymbol := slices.SortedStableFunc(slices.Values(lib.stubs), func(a, b stub) int {
		return cmp.Or(cmp.Compare(a.fact.ask, b.fact.ask), cmp.Compare(a.fact.version, b.fact.version))
	})
	b.WriteString("// By name, and by version among those of the same name.\nconst struct cusim_symbol cusim_symbols[] = {\n")
	for _, s := range bySymbol {
		if s.fact.ask == notAsked {
			continue
		}
		own := 0
		if s.fact.perThread {
			own = 1
		}
		fmt.Fprintf(&b, "\t{\"%s\", %d, %d, (void *)%s},\n", s.fact.ask, s.fact.version, own, s.fact.export)
	}
	b.WriteString("\t{NULL, 0, 0, NULL},\n};\n\nconst struct cusim_result cusim_results[] = {\n")
	for _, r := range sortedResults(lib.m) {
		fmt.Fprintf(&b, "\t{%d, %q, %q},\n", r.code, r.name, r.text)
	}
	b.WriteString("\t{0, NULL, NULL},\n};\n")
	return b.String()
}

// isWord reports whether values of a type are numbers of 64 bits.
func isWord(typ string) bool {
	return cTypes[typ] == "size_t" || strings.HasPrefix(cTypes[typ], "unsigned long long") || cTypes[typ] == "uint64_t"
}

// words returns the arguments as expressions of one word each.
func (s *stub) words() []string {
	var words []string
	for i, p := range s.fact.params {
		w := "(uintptr_t)" + p.name
		base, stars := splitPointer(p.typ)
		switch {
		case s.ownStream && i == s.streamParam():
			w = "cusim_own(" + p.name + ")"
		case stars > 0 || isAddress(base):
		case p.size > 0:
			w = "(uintptr_t)&" + p.name
		case isWord(p.typ):
			w = p.name
		case p.typ == "float":
			w = "cusim_bits(" + p.name + ")"
		default: // not sign-extended
			w = "(uint32_t)" + p.name
		}
		words = append(words, w)
	}
	return words
}

// emitList writes the list of all functions.
func (lib *library) emitList() string {
	var b strings.Builder
	b.WriteString("// functions are all that the library exports.\nvar functions = []function{\n")
	for _, s := range lib.stubs {
		fmt.Fprintf(&b, "{%q, %v},\n", s.fact.export, s.implemented())
	}
	b.WriteString("}\n")
	return b.String()
}

// emitDispatch writes the function that makes a call by number.
func (lib *library) emitDispatch() string {
	var b strings.Builder
	b.WriteString(`import "github.com/purecu/purecu/driver"

// call makes the call with a number. The words are C's arguments.
func (l *library) call(th *driver.Thread, number uint32, a *[maxWords]uint64) driver.Result {
	switch number {
`)
	for i, c := range lib.calls {
		fmt.Fprintf(&b, "case %d: // %s", i, c.fact.export)
		if c.own {
			b.WriteString(", in the order of the thread's own default stream")
		}
		b.WriteByte('\n')
		lib.emitCase(&b, c)
	}
	b.WriteString("}\nreturn driver.ResultNotSupported\n}\n\n")
	var names []string
	b.WriteString("// callNames are the functions' names without versions, by the number of the call.\nvar callNames = [...]string{\n")
	for _, c := range lib.calls {
		names = append(names, unversioned(c.fact.export))
		fmt.Fprintf(&b, "%q,\n", unversioned(c.fact.export))
	}
	b.WriteString("}\n\n// madeNames are those of the functions that C makes of others, where they differ.\nvar madeNames = [...]string{\n")
	for _, s := range lib.stubs {
		name := unversioned(s.fact.export)
		if s.byHand && !lib.plan.static[s.fact.export] && !slices.Contains(names, name) {
			names = append(names, name)
			fmt.Fprintf(&b, "%q,\n", name)
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// unversioned returns the name of an export without its version and without the suffix of
// per-thread default streams.
func unversioned(export string) string {
	for _, own := range []string{"_ptsz", "_ptds"} {
		export = strings.TrimSuffix(export, own)
	}
	if name, version, found := strings.Cut(export, "_v"); found && strings.Trim(version, "0123456789") == "" {
		return name
	}
	return export
}

// makesSomething reports whether the call creates an object. Such a call must not be made if the
// caller has no place for the object's handle. A call that gets an existing object creates nothing,
// except for functions, whose handles are created when they are asked for.
func (c *call) makesSomething() bool {
	return (!strings.Contains(c.method, "Get") || c.method == "ModuleGetFunction") && slices.ContainsFunc(c.outs(), func(p *callParam) bool {
		base, _ := splitPointer(p.c.typ)
		return handles[base] != "" || p.typ == "DevicePtr" || p.typ == "HostPtr" || strings.HasSuffix(p.typ, "Handle")
	})
}

// emitCase writes a call with its arguments as words.
func (lib *library) emitCase(b *strings.Builder, c numberedCall) {
	refuse := func(condition string) {
		fmt.Fprintf(b, "if %s {\nreturn l.refuse(driver.ResultInvalidValue)\n}\n", condition)
	}
	args := []string{"th"}
	var results, stores []string
	for i, p := range c.params {
		word := fmt.Sprintf("a[%d]", i)
		name := fmt.Sprintf("p%d", i)
		switch p.role {
		case roleIn:
			args = append(args, lib.emitIn(b, c, p, name, word))
		case roleOut, roleInOut, roleInOutLen:
			if p.typ == "string" {
				results = append(results, fmt.Sprintf("v%d", i))
				stores = append(stores, fmt.Sprintf("r = store(r, pointer[uintptr](&%s), l.text(v%d))\n", word, i))
				break
			}
			if size := lib.plan.sized[c.fact.export]; size != "" && p.as != "" {
				results = append(results, fmt.Sprintf("v%d", i))
				stores = append(stores, fmt.Sprintf("r = storePart(r, pointer[byte](&%s), v%d, %s)\n", word, i, c.sizeOf(size)))
				break
			}
			fmt.Fprintf(b, "%s := pointer[%s](&%s)\n", name, driverType(p.typ), word)
			store := cmp.Or(lib.plan.stores[c.fact.export][p.c.name], "store")
			if p.role != roleOut || c.makesSomething() && store != "offer" {
				refuse(name + " == nil")
			}
			if p.role == roleInOut {
				args = append(args, "*"+name)
			}
			results = append(results, fmt.Sprintf("v%d", i))
			stores = append(stores, fmt.Sprintf("r = %s(r, %s, v%d)\n", store, name, i))
		case roleBuf, roleSame:
			elem := driverType(strings.TrimPrefix(p.typ, "[]"))
			slicer := c.slicer(p)
			if p.opt {
				slicer = "sliceIfAny"
			}
			fmt.Fprintf(b, "%s, there := %s[%s](&%s, %s)\n", name, slicer, elem, word, c.lengthOf(p))
			refuse("!there")
			if p.role == roleSame && !p.opt && c.slicer(p) == "sliceIfAny" { // the two have the same length
				refuse(fmt.Sprintf("(%s == nil) != (p%d == nil)", name, slices.Index(c.params, p.of)))
			}
			args = append(args, name)
		case roleBytes:
			fmt.Fprintf(b, "%s, there := image(&%s)\n", name, word)
			refuse("!there")
			args = append(args, name)
		case roleKParams:
			extra := "nil"
			if i+1 < len(c.params) && c.params[i+1].role == roleKExtra {
				extra = fmt.Sprintf("&a[%d]", i+1)
			}
			args = append(args, fmt.Sprintf("kernelParams(&%s, %s)", word, extra))
		case roleFunc:
			data := slices.IndexFunc(c.params, func(q *callParam) bool { return q.of == p })
			switch {
			case p.isNode():
				fmt.Fprintf(b, "%s := pointer[[2]uint64](&%s)\n", name, word)
				refuse(name + " == nil")
				args = append(args, fmt.Sprintf("l.hostFunc(%s[0], %[1]s[1])", name))
			case p.c.typ == "CUstreamCallback":
				args = append(args, fmt.Sprintf("l.streamCallback(a[0], %s, a[%d])", word, data))
			default:
				args = append(args, fmt.Sprintf("l.hostFunc(%s, a[%d])", word, data))
			}
		}
	}
	on := "l.d"
	if c.own {
		on = "ownStream{l.d}"
	}
	made := fmt.Sprintf("%s.%s(%s)", on, c.method, strings.Join(args, ", "))
	if c.method == "Init" {
		made = "l.init(a[0])"
	}
	if len(results) == 0 {
		fmt.Fprintf(b, "return %s\n", made)
		return
	}
	fmt.Fprintf(b, "%s, r := %s\n%sreturn r\n", strings.Join(results, ", "), made, strings.Join(stores, ""))
}

// emitIn writes what a parameter with role in needs, and returns the argument of the Go method.
func (lib *library) emitIn(b *strings.Builder, c numberedCall, p *callParam, name, word string) string {
	const refuse = " {\nreturn l.refuse(driver.ResultInvalidValue)\n}\n"
	switch p.form {
	case formFloat:
		return "math.Float32frombits(uint32(" + word + "))"
	case formText:
		fmt.Fprintf(b, "%s, there := text(&%s)\nif !there"+refuse, name, word)
		return name
	case formPtr:
		if p.as == "unsafe.Pointer" {
			return fmt.Sprintf("unsafe.Pointer(pointer[byte](&%s))", word)
		}
		return fmt.Sprintf("pointer[%s](&%s)", driverType(strings.TrimPrefix(p.typ, "*")), word)
	case formCopy, formStruct: // the stub of C passes the address of a struct
		if size := lib.plan.sized[c.fact.export]; size != "" && p.as != "" {
			fmt.Fprintf(b, "%s := pointer[byte](&%s)\nif %[1]s == nil"+refuse, name, word)
			return fmt.Sprintf("loadPart[%s](%s, %s)", driverType(p.typ), name, c.sizeOf(size))
		}
		fmt.Fprintf(b, "%s := pointer[%s](&%s)\nif %[1]s == nil"+refuse, name, driverType(p.typ), word)
		return "*" + name
	}
	return goWord(p.typ, word)
}

// sizeOf returns the call of the function of package main that says how many bytes a value has. The
// text is the function with a parameter of C in parentheses.
func (c *call) sizeOf(text string) string {
	fn, of, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	i := slices.IndexFunc(c.params, func(p *callParam) bool { return p.c.name == of })
	return fmt.Sprintf("%s(int32(a[%d]))", fn, i)
}

// isVague reports whether C does not say how long a value is, so that the C library has to be told.
func (c *call) isVague() bool {
	return slices.ContainsFunc(c.params, func(p *callParam) bool {
		return p.as != "" && p.as != "unsafe.Pointer" && !p.isSlice() && strings.Contains(p.c.typ, "void")
	})
}

// slicer returns the function that makes a slice of a buffer. A buffer whose length the driver
// determines may be NULL, whatever the length argument is.
func (c *call) slicer(buf *callParam) string {
	if buf.role == roleSame {
		buf = buf.of
	}
	if slices.ContainsFunc(c.params, func(p *callParam) bool { return p.of == buf && p.role == roleInOutLen }) {
		return "sliceIfAny"
	}
	return "slice"
}

// lengthOf returns the expression for the length of a buffer.
func (c *call) lengthOf(buf *callParam) string {
	if buf.less > 0 {
		whole := *buf
		whole.less = 0
		return fmt.Sprintf("max(%s, %d) - %[2]d", c.lengthOf(&whole), buf.less)
	}
	if buf.role == roleSame {
		buf = buf.of
	}
	for i, p := range c.params {
		switch {
		case p.of != buf:
		case p.role == roleInOutLen:
			return fmt.Sprintf("room[%s](&a[%d])", p.typ, i)
		case p.role == roleLen && strings.HasSuffix(p.c.typ, "*"):
			return fmt.Sprintf("room[%s](&a[%d])", p.typ, i)
		case p.role == roleLen && p.typ == "int32":
			return fmt.Sprintf("uint64(max(int32(a[%d]), 0))", i)
		case p.role == roleLen:
			return fmt.Sprintf("uint64(%s(a[%d]))", p.typ, i)
		}
	}
	return "0" // parseCalls has checked that there is one
}

// driverType adds the package name to a type of package driver.
func driverType(typ string) string {
	for _, prefix := range []string{"[]", "*"} {
		if rest, ok := strings.CutPrefix(typ, prefix); ok {
			return prefix + driverType(rest)
		}
	}
	if strings.HasPrefix(typ, "[") {
		n, elem, _ := strings.Cut(typ, "]")
		return n + "]" + driverType(elem)
	}
	switch typ {
	case "unsafe.Pointer":
		return typ
	case "byte", "int32", "uint32", "uint64", "uint8", "uint16", "int64", "float32", "uintptr":
		return typ
	}
	return "driver." + typ
}

// goWord returns the value of a type from a word.
func goWord(typ, word string) string {
	if typ == "uint64" {
		return word
	}
	return driverType(typ) + "(" + word + ")"
}
