package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
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
	proto   *cheader.Prototype
	unit    *cheader.Unit
	ask     string
	flavour string // "", "_ptds" or "_ptsz"
	order   int    // of its ABIs: the number after _v
	version int    // of CUDA: known for typedefs
	base    string
	current bool
}

func (a *abi) signature() string {
	return a.unit.Signature(&cheader.Type{Shape: cheader.ShapeFunc, Elem: a.proto.Ret, Params: a.proto.Params})
}

// extract makes a manifest from the headers and the project's texts for results.
func extract(cuda, typedefs, results source) (*manifest, error) {
	var errs cheader.ErrorList
	texts := parseResults(results.name, results.text, &errs)
	units := make([]*cheader.Unit, len(passes))
	var macros *cheader.Preprocessor
	for i, defines := range passes {
		u := cheader.NewUnit(&errs)
		pp := cheader.NewPreprocessor(&errs, slices.Concat(platform, defines)...)
		u.Parse(pp.Run(cuda.name, cheader.Lex(cuda.name, cuda.text, &errs)))
		if i == plainPass {
			macros = pp
		}
		if i == internalPass {
			u.Parse(pp.Run(typedefs.name, cheader.Lex(typedefs.name, typedefs.text, &errs)))
		}
		units[i] = u
	}
	if err := errs.Err(); err != nil {
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
	if errs.Err() == nil { // else some layouts have been complained about
		m.structs, m.aliases = structFacts(exports, &errs)
	}
	slices.SortFunc(m.funcs, func(a, b funcFact) int { return cmp.Compare(a.export, b.export) })
	return m, errs.Err()
}

// enumFacts lists the enumerations by name. CUresult has rows of its own.
func enumFacts(u *cheader.Unit) []enumFact {
	var facts []enumFact
	for _, e := range u.Enums {
		if e.Type == u.Typedefs["CUresult"] || len(e.Constants) == 0 {
			continue
		}
		f := enumFact{name: e.Name}
		if strings.HasPrefix(f.name, "enum #") {
			f.name = "-"
		}
		for _, c := range e.Constants {
			f.constants = append(f.constants, constant{name: c.Name, value: c.Value})
		}
		facts = append(facts, f)
	}
	slices.SortStableFunc(facts, func(a, b enumFact) int { return cmp.Compare(a.name, b.name) })
	return facts
}

// defineFacts returns CUDA_VERSION, and by name the macros that are numbers and have names of the
// API.
func defineFacts(file string, pp *cheader.Preprocessor, u *cheader.Unit, errs *cheader.ErrorList) (version int, facts []constant) {
	for _, name := range slices.Sorted(slices.Values(pp.Names)) {
		m := pp.Macros[name]
		if m == nil || m.IsFunc || len(m.Body) == 0 || !strings.HasPrefix(name, "CU") {
			continue
		}
		// A macro can also be the name of a constant of an enum.
		v, err := cheader.Evaluate(pp.Expand(m.Body), func(s string) (int64, bool) { v, ok := u.Constants[s]; return v, ok })
		switch {
		case name == "CUDA_VERSION" && err != nil:
			errs.Add(m.File, m.Line, "CUDA_VERSION: %v", err)
			version = -1
		case name == "CUDA_VERSION":
			version = int(v)
		case err == nil:
			facts = append(facts, constant{name: name, value: v})
		}
	}
	if version == 0 {
		errs.Add(file, 1, "CUDA_VERSION is not defined")
	}
	return version, facts
}

// collectExports returns the functions that any pass declares, by export name.
func collectExports(units []*cheader.Unit, errs *cheader.ErrorList) []*abi {
	byName := map[string]*abi{}
	var exports []*abi
	for i, u := range units {
		for _, p := range u.Funcs {
			parts := exportName.FindStringSubmatch(p.Name)
			if parts == nil {
				errs.Add(p.File, p.Line, "function %s: a name of the API begins with cu and a capital letter", p.Name)
				continue
			}
			order, _ := strconv.Atoi(parts[2])
			a := &abi{proto: p, unit: u, ask: parts[1], flavour: parts[3], order: order, base: parts[1]}
			known := byName[p.Name]
			if known == nil {
				known = a
				byName[p.Name] = a
				exports = append(exports, a)
			} else if known.signature() != a.signature() {
				errs.Add(p.File, p.Line, "%s is declared differently in line %d", p.Name, known.proto.Line)
			}
			// A function is current if the pass for its flavour declares it.
			if i == plainPass && known.flavour == "" || i == perThreadPass && known.flavour != "" {
				known.base, known.current = p.Written, true
			}
		}
	}
	slices.SortFunc(exports, func(a, b *abi) int { return cmp.Compare(a.proto.Name, b.proto.Name) })
	return exports
}

// joinVersions gives every export the CUDA version in the name of its typedef. The typedefs of a
// function, sorted by version, belong to its exports, sorted by suffix. joinVersions checks that
// there are as many typedefs as exports, and that their signatures agree.
func joinVersions(exports []*abi, u *cheader.Unit, errs *cheader.ErrorList) {
	type key struct{ ask, flavour string }
	typedefs := map[key][]*abi{}
	for _, p := range u.FunctionTypes {
		parts := pfnName.FindStringSubmatch(p.Name)
		if parts == nil {
			errs.Add(p.File, p.Line, "typedef %s names no function and version", p.Name)
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
			errs.Add(p.File, p.Line, "%s has %s and %s", k.ask+k.flavour, plural(len(group), "prototype"),
				plural(len(defs), "typedef"))
			continue
		}
		for i, a := range group {
			a.version = defs[i].version
			if want, got := a.signature(), defs[i].signature(); want != got {
				errs.Add(defs[i].proto.File, defs[i].proto.Line, "%s does not fit %s: %s, not %s", defs[i].proto.Name,
					a.proto.Name, got, want)
			}
		}
	}
	for _, defs := range typedefs {
		for _, d := range defs {
			errs.Add(d.proto.File, d.proto.Line, "%s has no prototype", d.proto.Name)
		}
	}
}

func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

func funcFacts(a *abi, errs *cheader.ErrorList) funcFact {
	p := a.proto
	f := funcFact{export: p.Name, ask: a.ask, version: a.version, perThread: a.flavour != "",
		current: a.current, base: a.base, ret: p.Ret.String()}
	for _, prm := range p.Params {
		fact := paramFact{name: prm.Name, typ: prm.Type.String()}
		if fact.name == "" {
			errs.Add(p.File, prm.Line, "%s: parameter has no name", p.Name)
		}
		if t := a.unit.Underlying(prm.Type); t.Shape == cheader.ShapeRecord {
			size, _, err := a.unit.Layout(t)
			if err != nil {
				errs.Add(p.File, prm.Line, "%s: parameter %s: %v", p.Name, prm.Name, err)
			}
			fact.size = size
		}
		f.params = append(f.params, fact)
	}
	return f
}

// checkCurrent checks that a name and a flavour have one current ABI.
func checkCurrent(exports []*abi, errs *cheader.ErrorList) {
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
			errs.Add(a.proto.File, a.proto.Line, "%s is both %s and %s", k, old.proto.Name, a.proto.Name)
		}
		seen[k] = a
	}
}
