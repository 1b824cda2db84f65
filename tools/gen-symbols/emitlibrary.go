package main

import (
	"cmp"
	"fmt"
	"go/format"
	"slices"
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// A libraryPlan is the content of the file for the C library.
type libraryPlan struct {
	byHand  map[string]bool              // exports that are written in C
	static  map[string]bool              // exports in byHand that never call the driver
	stores  map[string]map[string]string // by export and parameter, the function that stores the value
	nulls   map[string]map[string]string // by export and parameter, what becomes of NULL
	first   map[string]string            // by export, what the function checks before NULL
	handle  map[string]string            // by export, the parameter that must not be 0
	starts  map[string]bool              // the functions that need no cuInit, and start the driver
	sized   map[string]string            // by export, the function and the parameter that say how long a value is
	exports []funcFact                   // functions outside the manifest, with unknown parameters
}

// notAsked stands for the name of a function that cuGetProcAddress does not find.
const notAsked = "-"

// storeFunctions are the functions that store a value, by the keyword of its parameter in the file.
var storeFunctions = map[string]string{"optional": "offer", "told": "offerAlways", "required": "require",
	"captured": "offerCaptured"}

// These say what becomes of NULL: it is allowed, refused before the driver is asked, or even before the checks that
// come first.
const allowed, needed, early = "optional", "needed", "early"

// checks are what a function can check before it refuses NULL, as arguments of refuseAfter, by the words of the file.
var checks = map[string]string{"context": "inContext", "capture": "uncaptured",
	"context,capture": "inContext|uncaptured"}

// parseLibrary reads the file for the C library.
func parseLibrary(src source, m *manifest) (*libraryPlan, error) {
	var errs cheader.ErrorList
	plan := &libraryPlan{
		byHand: map[string]bool{}, static: map[string]bool{}, starts: map[string]bool{},
		handle: map[string]string{}, sized: map[string]string{},
		stores: map[string]map[string]string{}, nulls: map[string]map[string]string{}, first: map[string]string{},
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
		case "starts":
			r.want(2)
			plan.starts[fact.export] = true
		case "optional", "told", "required", "needed", "early", "captured":
			if !hasParam() {
				break
			}
			if plan.stores[fact.export] == nil {
				plan.stores[fact.export], plan.nulls[fact.export] = map[string]string{}, map[string]string{}
			}
			switch r.fields[0] {
			case allowed, needed, early:
				plan.nulls[fact.export][r.field(2)] = r.fields[0]
			}
			if store := storeFunctions[r.fields[0]]; store != "" {
				plan.stores[fact.export][r.field(2)] = store
			}
		case "first":
			r.want(3)
			if plan.first[fact.export] = checks[r.field(2)]; plan.first[fact.export] == "" {
				r.bad("%s cannot check %q first", fact.export, r.field(2))
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
	return plan, errs.Err()
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
// call of another interface of the same function, if both prototypes have the same arguments. The
// library has no function that no header has confirmed.
func newLibrary(m *manifest, calls *callPlan, plan *libraryPlan, implemented map[string]bool) *library {
	lib := &library{m: m.confirmed(), plan: plan}
	usable := func(c *call) bool {
		return implemented[c.method] && !c.fact.unverified && (!c.isVague() || plan.sized[c.fact.export] != "")
	}
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
	for _, f := range slices.Concat(lib.m.funcs, plan.exports) {
		s := stub{fact: f, byHand: plan.byHand[f.export]}
		if s.call = typed[f.export]; s.call == nil {
			for _, c := range calls.calls {
				sameType := func(a, b paramFact) bool { return a.typ == b.typ }
				if typed[c.fact.export] == c && c.fact.ask == f.ask &&
					slices.EqualFunc(c.fact.params, f.params, sameType) {
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
	from := fmt.Sprintf("// Code generated by gen-symbols from %s, calls.tsv and libcuda.tsv; DO NOT EDIT.\n\n",
		manifestName)
	files := map[string][]byte{
		"cusim/libcuda/build/stub/zlibcuda.h": []byte(from + header),
		"cusim/libcuda/build/stub/zlibcuda.c": []byte(from + lib.emitStubs()),
		"docs/software-functions.md":          []byte(emitImplemented(callPlan, implemented, plan.byHand)),
	}
	for name, body := range map[string]string{
		"cusim/libcuda/zcall.go":                "package main\n\n" + lib.emitDispatch(),
		"cusim/libcuda/build/zlist.go":          "package main\n\n" + lib.emitList(),
		"internal/sim/environment/zfallible.go": "package environment\n\n" + lib.emitFallible(),
	} {
		data, err := format.Source([]byte(from + body))
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
	"float": "float", "size_t": "size_t", "unsigned long long": "unsigned long long",
	"cuuint32_t": "uint32_t", "cuuint64_t": "uint64_t",

	"CUdevice": "int", "CUdeviceptr": "unsigned long long", "CUdeviceptr_v1": "unsigned int",
	"CUlogIterator": "unsigned int", "CUtexObject": "unsigned long long", "CUsurfObject": "unsigned long long",
	"CUmemGenericAllocationHandle": "unsigned long long",

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
			call := "cusim_call"
			if lib.plan.starts[s.fact.export] {
				call = "cusim_call_first"
			}
			fmt.Fprintf(&b, "\treturn %s(%d, %d, %s);\n", call, s.number, lib.since(s.fact), args)
		}
		b.WriteString("}\n\n")
	}

	bySymbol := slices.SortedStableFunc(slices.Values(lib.stubs), func(a, b stub) int {
		return cmp.Or(cmp.Compare(a.fact.ask, b.fact.ask), cmp.Compare(a.fact.version, b.fact.version))
	})
	b.WriteString("// By name, and by version among those of the same name.\n" +
		"const struct cusim_symbol cusim_symbols[] = {\n")
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

// since returns the version that introduced a function, with whatever interface: a program may take a newer
// interface because the library exports it, whatever the version that the library was told to have.
func (lib *library) since(f funcFact) int {
	since := f.version
	for _, s := range lib.stubs {
		if s.fact.ask == f.ask && f.ask != notAsked {
			since = min(since, s.fact.version)
		}
	}
	return since
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
		fmt.Fprintf(&b, "{%q, %d, %v},\n", s.fact.export, s.fact.version, s.implemented())
	}
	b.WriteString("}\n")
	return b.String()
}
