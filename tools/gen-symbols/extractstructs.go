package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// A structCollector finds the structs and unions that functions' parameters refer to.
type structCollector struct {
	structs map[string]structFact
	aliases map[string]string
	u       *cheader.Unit
	errs    *cheader.ErrorList
}

// structFacts lists the structs and unions that the exports' parameters refer to, sorted by name,
// and the other names of these and of enums.
func structFacts(exports []*abi, errs *cheader.ErrorList) ([]structFact, []aliasFact) {
	c := &structCollector{structs: map[string]structFact{}, aliases: map[string]string{}, errs: errs}
	for _, a := range exports {
		c.u = a.unit
		for _, p := range a.proto.Params {
			c.visit(p.Type, "", p.Line, a.proto.File)
		}
	}
	var aliases []aliasFact
	for _, name := range slices.Sorted(maps.Keys(c.aliases)) {
		aliases = append(aliases, aliasFact{name, c.aliases[name]})
	}
	byName := func(a, b structFact) int { return cmp.Compare(a.name, b.name) }
	return slices.SortedFunc(maps.Values(c.structs), byName), aliases
}

// visit collects what t refers to. nested is the name for a struct without a tag and a typedef.
func (c *structCollector) visit(t *cheader.Type, nested string, line int, file string) {
	name, chain := "", []string(nil)
	for range cheader.MaxDepth {
		switch def := c.u.Typedefs[t.Name]; {
		case t.Shape == cheader.ShapePointer || t.Shape == cheader.ShapeArray:
			t, chain = t.Elem, nil
			continue
		case t.Shape == cheader.ShapeNamed && def != nil:
			chain = append(chain, t.Name)
			t = def
			continue
		}
		break
	}
	switch t.Shape {
	case cheader.ShapeEnum:
		for _, e := range c.u.Enums {
			if e.Type == t {
				name = e.Name
			}
		}
	case cheader.ShapeRecord:
		if t.Record == nil || !t.Record.Defined {
			return // what a handle points to
		}
		name = c.recordName(t, chain, nested)
		c.add(t, name, line, file)
	}
	for _, other := range chain {
		if name != "" && other != name {
			c.aliases[other] = name
		}
	}
}

// recordName returns the name of a struct: its own typedef, or else its tag, or else nested.
func (c *structCollector) recordName(t *cheader.Type, chain []string, nested string) string {
	if len(chain) > 0 {
		return chain[len(chain)-1]
	}
	for _, name := range slices.Sorted(maps.Keys(c.u.Typedefs)) {
		if c.u.Typedefs[name] == t {
			return name
		}
	}
	if strings.HasPrefix(t.Name, "#") {
		return nested
	}
	return t.Name
}

// add adds the fact of a struct, and of those in it.
func (c *structCollector) add(t *cheader.Type, name string, line int, file string) {
	if _, known := c.structs[name]; known {
		return
	}
	f := structFact{name: name, union: t.Union}
	c.structs[name] = f
	size, align, err := c.u.Layout(t)
	if err != nil {
		c.errs.Add(file, line, "%s: %v", name, err)
		return
	}
	f.size, f.align = size, align
	offset := int64(0)
	for _, m := range t.Record.Members {
		size, align, err := c.u.Layout(m.Type)
		if err != nil {
			c.errs.Add(file, m.Line, "%s.%s: %v", name, m.Name, err)
			return
		}
		if t.Union {
			offset = 0
		}
		offset = (offset + align - 1) / align * align
		nested := name + "." + cmp.Or(m.Name, "_")
		f.fields = append(f.fields, fieldFact{name: m.Name, typ: c.typeText(m.Type, nested), offset: offset, size: size})
		offset += size
		c.visit(m.Type, nested, m.Line, file)
	}
	c.structs[name] = f
}

// typeText returns the type of a member in C. nested stands for a struct that has no name.
func (c *structCollector) typeText(t *cheader.Type, nested string) string {
	inner := t
	for inner.Shape == cheader.ShapePointer || inner.Shape == cheader.ShapeArray {
		inner = inner.Elem
	}
	if inner.Shape != cheader.ShapeRecord {
		return t.String()
	}
	renamed := cheader.Type{Shape: cheader.ShapeNamed, Name: c.recordName(inner, nil, nested), IsConst: inner.IsConst}
	return replaceInner(t, &renamed).String()
}

// replaceInner returns t with what its pointers and arrays lead to replaced.
func replaceInner(t, with *cheader.Type) *cheader.Type {
	if t.Shape != cheader.ShapePointer && t.Shape != cheader.ShapeArray {
		return with
	}
	c := *t
	c.Elem = replaceInner(t.Elem, with)
	return &c
}
