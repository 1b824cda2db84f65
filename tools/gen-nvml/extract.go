package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// A source is an input file: its name for messages, and its text.
type source struct{ name, text string }

// An extractor collects the facts of a header.
type extractor struct {
	unit    *cheader.Unit
	macros  *cheader.Preprocessor
	facts   facts
	visited map[string]bool // names of structs
	errs    cheader.ErrorList
}

// extract returns the facts of a header. With exports, which are the names that a library exports, it
// has no other functions, and missing are the exports for which the header has no prototype.
func extract(header source, exports []string) (f *facts, missing []string, err error) {
	e := &extractor{visited: map[string]bool{}}
	e.unit = cheader.NewUnit(&e.errs)
	e.unit.Long = true
	// With the first macro, the header declares older interfaces, too.
	e.macros = cheader.NewPreprocessor(&e.errs, "NVML_NO_UNVERSIONED_FUNC_DEFS", "__LP64__", "__GNUC__")
	toks := cheader.Lex(header.name, header.text, &e.errs)
	e.unit.Parse(e.macros.Run(header.name, toks))
	if err := e.errs.Err(); err != nil {
		return nil, nil, err // later errors would only be consequences
	}
	// Without it, it says which functions are other names of functions.
	names := cheader.NewPreprocessor(&e.errs, "__LP64__", "__GNUC__")
	names.Run(header.name, toks)
	e.constants()
	e.enums()
	e.types()
	e.versions()
	missing = e.functions(exports, names)
	slices.SortFunc(e.facts.structs, func(a, b structFact) int { return cmp.Compare(a.name, b.name) })
	return &e.facts, missing, e.errs.Err()
}

// constants collects the macros that are numbers or strings, in the order of the header.
func (e *extractor) constants() {
	for _, name := range e.macros.Names {
		m := e.macros.Macros[name]
		if m == nil || m.IsFunc || len(m.Body) == 0 || m.File == "" || strings.HasPrefix(name, "__") {
			continue
		}
		if text := m.Body[0].Text; len(m.Body) == 1 && strings.HasPrefix(text, `"`) {
			e.facts.texts = append(e.facts.texts, textFact{name, text})
			continue
		}
		v, err := cheader.Evaluate(e.macros.Expand(m.Body),
			func(s string) (int64, bool) { v, ok := e.unit.Constants[s]; return v, ok })
		if err == nil {
			e.facts.defines = append(e.facts.defines, constant{name: name, value: number(v)})
		}
	}
}

// number returns a value as text: a negative number in decimal, another one as in the headers.
func number(v int64) string {
	if v < 0 {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%#x", v)
}

// enums collects the enumerations, by name.
func (e *extractor) enums() {
	for _, enum := range e.unit.Enums {
		f := enumFact{name: enum.Name}
		for _, c := range enum.Constants {
			f.constants = append(f.constants, constant{name: c.Name, value: number(c.Value)})
		}
		e.facts.enums = append(e.facts.enums, f)
	}
	slices.SortStableFunc(e.facts.enums, func(a, b enumFact) int { return cmp.Compare(a.name, b.name) })
}

// types collects the typedefs, and the layouts of structs.
func (e *extractor) types() {
	for _, name := range slices.Sorted(maps.Keys(e.unit.Typedefs)) {
		t := e.unit.Typedefs[name]
		add := func(list *[]named, of string) { *list = append(*list, named{name, of}) }
		switch {
		case t.Shape == cheader.ShapeBasic:
			add(&e.facts.scalars, t.String())
		case t.Shape == cheader.ShapePointer && t.Elem.Shape == cheader.ShapeRecord && !t.Elem.Record.Defined:
			add(&e.facts.handles, t.Elem.String()+" *")
		case t.Shape == cheader.ShapeNamed:
			add(&e.facts.aliases, t.Name)
		case t.Shape == cheader.ShapeEnum:
			if own := e.enumName(t); own != name {
				add(&e.facts.aliases, own)
			}
		case t.Shape == cheader.ShapeRecord:
			own := e.recordName(t, "")
			if own != name {
				add(&e.facts.aliases, own)
			}
			e.record(t, own)
		default:
			e.errs.Add(name, 0, "there is no kind of fact for this typedef: %s", t)
		}
	}
}

func (e *extractor) enumName(t *cheader.Type) string {
	i := slices.IndexFunc(e.unit.Enums, func(enum *cheader.Enum) bool { return enum.Type == t })
	return e.unit.Enums[i].Name
}

// recordName returns the name of a struct: the typedef that is called like its tag, or else a
// typedef, or else nested.
func (e *extractor) recordName(t *cheader.Type, nested string) string {
	tag := strings.TrimSuffix(t.Name, "_st") + "_t"
	if def := e.unit.Typedefs[tag]; def != nil && def.Record == t.Record {
		return tag
	}
	for _, name := range slices.Sorted(maps.Keys(e.unit.Typedefs)) {
		if e.unit.Typedefs[name].Record == t.Record {
			return name
		}
	}
	return nested
}

// record adds the layout of a struct, and of those in it that have no name.
func (e *extractor) record(t *cheader.Type, name string) {
	if e.visited[name] {
		return
	}
	e.visited[name] = true
	size, align, err := e.unit.Layout(t)
	if err != nil {
		e.errs.Add(name, 0, "%v", err)
		return
	}
	f := structFact{name: name, union: t.Union, size: size, align: align}
	offset := int64(0)
	for _, m := range t.Record.Members {
		size, align, err := e.unit.Layout(m.Type)
		if err != nil {
			e.errs.Add(name, m.Line, "%v", err)
			return
		}
		if t.Union {
			offset = 0
		}
		offset = (offset + align - 1) / align * align
		typ := *m.Type
		inner := &typ // behind arrays
		for inner.Shape == cheader.ShapeArray {
			elem := *inner.Elem
			inner.Elem = &elem
			inner = &elem
		}
		if inner.Shape == cheader.ShapeRecord {
			own := e.recordName(inner, name+"."+cmp.Or(m.Name, "_"))
			e.record(inner, own)
			*inner = cheader.Type{Shape: cheader.ShapeNamed, Name: own}
		}
		f.fields = append(f.fields, fieldFact{m.Name, typ.String(), offset, size})
		offset += size
	}
	e.facts.structs = append(e.facts.structs, f)
}

// versions computes the macros NVML_STRUCT_VERSION(data, version).
func (e *extractor) versions() {
	for _, name := range e.macros.Names {
		m := e.macros.Macros[name]
		if m == nil || len(m.Body) != 6 || m.Body[0].Text != "NVML_STRUCT_VERSION" {
			continue
		}
		data, version := m.Body[2].Text, m.Body[4].Text
		t := e.unit.Typedefs["nvml"+data+"_v"+version+"_t"]
		if t == nil {
			e.errs.Add(m.File, m.Line, "%s is the version of no struct", name)
			continue
		}
		size, _, err := e.unit.Layout(t)
		v, err2 := cheader.Evaluate(m.Body[4:5], nil)
		if err != nil || err2 != nil {
			e.errs.Add(m.File, m.Line, "%s: %v, %v", name, err, err2)
		}
		e.facts.versions = append(e.facts.versions, constant{name: name, value: number(size | v<<24)})
	}
}

// functions collects the functions by name. Macros in names are other names of functions.
func (e *extractor) functions(exports []string, names *cheader.Preprocessor) (missing []string) {
	declared := map[string]funcFact{}
	for _, p := range e.unit.Funcs {
		f := funcFact{export: p.Name, ret: p.Ret.String()}
		for _, prm := range p.Params {
			f.params = append(f.params, paramFact{prm.Name, prm.Type.String()})
		}
		declared[p.Name] = f
	}
	if exports == nil {
		exports = slices.Collect(maps.Keys(declared))
	}
	slices.Sort(exports)
	for _, name := range exports {
		f, is := declared[name]
		if m := names.Macros[name]; !is && m != nil && len(m.Body) == 1 {
			f, is = declared[m.Body[0].Text]
			f.export, f.of = name, f.export
		}
		if is {
			e.facts.funcs = append(e.facts.funcs, f)
		} else {
			missing = append(missing, name)
		}
	}
	slices.SortStableFunc(e.facts.funcs, func(a, b funcFact) int { return cmp.Compare(a.of, b.of) }) // others last
	return missing
}

// newIn returns the facts of f whose names old does not have.
func (f *facts) newIn(old *facts) *facts {
	seen := old.names()
	add := facts{}
	isOld := func(c constant) bool { return seen["constant "+c.name] || seen[c.name] }
	isOldName := func(n named) bool { return seen[n.name] }
	add.defines = slices.DeleteFunc(f.defines, isOld)
	add.versions = slices.DeleteFunc(f.versions, isOld)
	add.texts = slices.DeleteFunc(f.texts, func(t textFact) bool { return seen["constant "+t.name] })
	for _, e := range f.enums {
		if e.constants = slices.DeleteFunc(e.constants, isOld); len(e.constants) > 0 {
			add.enums = append(add.enums, e)
		}
	}
	add.scalars = slices.DeleteFunc(f.scalars, isOldName)
	add.handles = slices.DeleteFunc(f.handles, isOldName)
	add.aliases = slices.DeleteFunc(f.aliases, isOldName)
	add.structs = slices.DeleteFunc(f.structs, func(s structFact) bool { return seen[s.name] })
	add.funcs = slices.DeleteFunc(f.funcs, func(fn funcFact) bool { return seen[fn.export] })
	return &add
}
