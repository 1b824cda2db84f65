package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A source is an input file: its name for messages, and its text.
type source struct{ name, text string }

// The header is read three times: as all programs read it, as programs with per-thread default
// streams do, and as the driver's own sources do, which declare the older ABIs. The ODR macro
// removes an enum's end marker that only the driver's sources have.
var passes = [][]string{
	plainPass:     nil,
	perThreadPass: {"CUDA_API_PER_THREAD_DEFAULT_STREAM"},
	internalPass:  {"__CUDA_API_VERSION_INTERNAL", "__CUDA_API_VERSION_INTERNAL_ODR"},
}

const (
	plainPass = iota
	perThreadPass
	internalPass
)

// platform has the macros of a C compiler on 64-bit Linux that the headers use. Without that of C11
// they declare no alignments.
var platform = []string{"__LP64__", "__GNUC__", "__STDC_VERSION__=201112"}

var (
	exportName = regexp.MustCompile(`^(cu[A-Z]\w*?)(?:_v(\d+))?(_ptds|_ptsz)?$`)
	pfnName    = regexp.MustCompile(`^PFN_(cu[A-Z]\w*?)_v(\d+)(_ptds|_ptsz)?$`)
)

// An abi is a function's prototype and the meaning of its name.
type abi struct {
	proto   *prototype
	unit    *unit
	ask     string
	flavour string // "", "_ptds" or "_ptsz"
	order   int    // of its ABIs: the number after _v
	version int    // of CUDA: known for typedefs
	base    string
	current bool
}

func (a *abi) signature() string {
	return a.unit.signature(&ctype{shape: sFunc, elem: a.proto.ret, params: a.proto.params})
}

// extract makes a manifest from the headers and the project's texts for results.
func extract(cuda, typedefs, results source) (*manifest, error) {
	var errs errorList
	texts := parseResults(results.name, results.text, &errs)
	units := make([]*unit, len(passes))
	var macros *preprocessor
	for i, defines := range passes {
		u := newUnit(&errs)
		pp := newPreprocessor(&errs, slices.Concat(platform, defines)...)
		u.parse(pp.run(cuda.name, lex(cuda.name, cuda.text, &errs)))
		if i == plainPass {
			macros = pp
		}
		if i == internalPass {
			u.parse(pp.run(typedefs.name, lex(typedefs.name, typedefs.text, &errs)))
		}
		units[i] = u
	}
	if err := errs.err(); err != nil {
		return nil, err // later errors would only be consequences
	}
	m := &manifest{results: joinResults(units[plainPass], results.name, texts, &errs)}
	m.enums = enumFacts(units[plainPass])
	m.version, m.defines = defineFacts(cuda.name, macros, units[plainPass], &errs)
	m.newest = m.version
	exports := collectExports(units, &errs)
	joinVersions(exports, units[internalPass], &errs)
	for _, a := range exports {
		m.funcs = append(m.funcs, funcFacts(a, &errs))
	}
	checkCurrent(exports, &errs)
	if errs.err() == nil { // else some layouts have been complained about
		m.structs, m.aliases = structFacts(exports, &errs)
	}
	slices.SortFunc(m.funcs, func(a, b funcFact) int { return cmp.Compare(a.export, b.export) })
	return m, errs.err()
}

// enumFacts lists the enumerations by name. CUresult has rows of its own.
func enumFacts(u *unit) []enumFact {
	var facts []enumFact
	for _, e := range u.enums {
		if e.typ == u.typedefs["CUresult"] || len(e.constants) == 0 {
			continue
		}
		f := enumFact{name: e.name}
		if strings.HasPrefix(f.name, "enum #") {
			f.name = "-"
		}
		for _, c := range e.constants {
			f.constants = append(f.constants, constant{name: c.name, value: c.value})
		}
		facts = append(facts, f)
	}
	slices.SortStableFunc(facts, func(a, b enumFact) int { return cmp.Compare(a.name, b.name) })
	return facts
}

// defineFacts returns CUDA_VERSION, and by name the macros that are numbers and have names of the
// API.
func defineFacts(file string, pp *preprocessor, u *unit, errs *errorList) (version int, facts []constant) {
	for _, name := range slices.Sorted(slices.Values(pp.names)) {
		m := pp.macros[name]
		if m == nil || m.isFunc || len(m.body) == 0 || !strings.HasPrefix(name, "CU") {
			continue
		}
		// A macro can also be the name of a constant of an enum.
		v, err := evaluate(pp.expand(m.body), func(s string) (int64, bool) { v, ok := u.constants[s]; return v, ok })
		switch {
		case name == "CUDA_VERSION" && err != nil:
			errs.add(m.file, m.line, "CUDA_VERSION: %v", err)
			version = -1
		case name == "CUDA_VERSION":
			version = int(v)
		case err == nil:
			facts = append(facts, constant{name: name, value: v})
		}
	}
	if version == 0 {
		errs.add(file, 1, "CUDA_VERSION is not defined")
	}
	return version, facts
}

// collectExports returns the functions that any pass declares, by export name.
func collectExports(units []*unit, errs *errorList) []*abi {
	byName := map[string]*abi{}
	var exports []*abi
	for i, u := range units {
		for _, p := range u.funcs {
			parts := exportName.FindStringSubmatch(p.name)
			if parts == nil {
				errs.add(p.file, p.line, "function %s: a name of the API begins with cu and a capital letter", p.name)
				continue
			}
			order, _ := strconv.Atoi(parts[2])
			a := &abi{proto: p, unit: u, ask: parts[1], flavour: parts[3], order: order, base: parts[1]}
			known := byName[p.name]
			if known == nil {
				known = a
				byName[p.name] = a
				exports = append(exports, a)
			} else if known.signature() != a.signature() {
				errs.add(p.file, p.line, "%s is declared differently in line %d", p.name, known.proto.line)
			}
			// A function is current if the pass for its flavour declares it.
			if i == plainPass && known.flavour == "" || i == perThreadPass && known.flavour != "" {
				known.base, known.current = p.written, true
			}
		}
	}
	slices.SortFunc(exports, func(a, b *abi) int { return cmp.Compare(a.proto.name, b.proto.name) })
	return exports
}

// joinVersions gives every export the CUDA version in the name of its typedef. The typedefs of a
// function, sorted by version, belong to its exports, sorted by suffix. joinVersions checks that
// there are as many typedefs as exports, and that their signatures agree.
func joinVersions(exports []*abi, u *unit, errs *errorList) {
	type key struct{ ask, flavour string }
	typedefs := map[key][]*abi{}
	for _, p := range u.pfns {
		parts := pfnName.FindStringSubmatch(p.name)
		if parts == nil {
			errs.add(p.file, p.line, "typedef %s names no function and version", p.name)
			continue
		}
		version, _ := strconv.Atoi(parts[2])
		k := key{parts[1], parts[3]}
		typedefs[k] = append(typedefs[k], &abi{proto: p, unit: u, ask: k.ask, flavour: k.flavour, version: version})
	}
	groups := map[key][]*abi{}
	for _, a := range exports {
		k := key{a.ask, a.flavour}
		groups[k] = append(groups[k], a)
	}
	for k, group := range groups {
		defs := typedefs[k]
		delete(typedefs, k)
		slices.SortFunc(group, func(a, b *abi) int { return cmp.Compare(a.order, b.order) })
		slices.SortFunc(defs, func(a, b *abi) int { return cmp.Compare(a.version, b.version) })
		if len(group) != len(defs) {
			p := group[0].proto
			errs.add(p.file, p.line, "%s has %s and %s", k.ask+k.flavour, plural(len(group), "prototype"),
				plural(len(defs), "typedef"))
			continue
		}
		for i, a := range group {
			a.version = defs[i].version
			if want, got := a.signature(), defs[i].signature(); want != got {
				errs.add(defs[i].proto.file, defs[i].proto.line, "%s does not fit %s: %s, not %s", defs[i].proto.name,
					a.proto.name, got, want)
			}
		}
	}
	for _, defs := range typedefs {
		for _, d := range defs {
			errs.add(d.proto.file, d.proto.line, "%s has no prototype", d.proto.name)
		}
	}
}

func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

func funcFacts(a *abi, errs *errorList) funcFact {
	p := a.proto
	f := funcFact{export: p.name, ask: a.ask, version: a.version, perThread: a.flavour != "",
		current: a.current, base: a.base, ret: p.ret.String()}
	for _, prm := range p.params {
		fact := paramFact{name: prm.name, typ: prm.typ.String()}
		if fact.name == "" {
			errs.add(p.file, prm.line, "%s: parameter has no name", p.name)
		}
		if t := a.unit.underlying(prm.typ); t.shape == sRecord {
			size, _, err := a.unit.layout(t)
			if err != nil {
				errs.add(p.file, prm.line, "%s: parameter %s: %v", p.name, prm.name, err)
			}
			fact.size = size
		}
		f.params = append(f.params, fact)
	}
	return f
}

// checkCurrent checks that a name and a flavour have one current ABI.
func checkCurrent(exports []*abi, errs *errorList) {
	seen := map[string]*abi{}
	for _, a := range exports {
		if !a.current {
			continue
		}
		k := a.base
		if a.flavour != "" {
			k += " per thread"
		}
		if old := seen[k]; old != nil {
			errs.add(a.proto.file, a.proto.line, "%s is both %s and %s", k, old.proto.name, a.proto.name)
		}
		seen[k] = a
	}
}
