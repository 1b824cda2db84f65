package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A structCollector finds the structs and unions that functions' parameters refer to.
type structCollector struct {
	structs map[string]structFact
	aliases map[string]string
	u       *unit
	errs    *errorList
}

// structFacts lists the structs and unions that the exports' parameters refer to, sorted by name,
// and the other names of these and of enums.
func structFacts(exports []*abi, errs *errorList) ([]structFact, []aliasFact) {
	c := &structCollector{structs: map[string]structFact{}, aliases: map[string]string{}, errs: errs}
	for _, a := range exports {
		c.u = a.unit
		for _, p := range a.proto.params {
			c.visit(p.typ, "", p.line, a.proto.file)
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
func (c *structCollector) visit(t *ctype, nested string, line int, file string) {
	name, chain := "", []string(nil)
	for range maxDepth {
		switch def := c.u.typedefs[t.name]; {
		case t.shape == sPointer || t.shape == sArray:
			t, chain = t.elem, nil
			continue
		case t.shape == sNamed && def != nil:
			chain = append(chain, t.name)
			t = def
			continue
		}
		break
	}
	switch t.shape {
	case sEnum:
		for _, e := range c.u.enums {
			if e.typ == t {
				name = e.name
			}
		}
	case sRecord:
		if t.record == nil || !t.record.defined {
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
func (c *structCollector) recordName(t *ctype, chain []string, nested string) string {
	if len(chain) > 0 {
		return chain[len(chain)-1]
	}
	for _, name := range slices.Sorted(maps.Keys(c.u.typedefs)) {
		if c.u.typedefs[name] == t {
			return name
		}
	}
	if strings.HasPrefix(t.name, "#") {
		return nested
	}
	return t.name
}

// add adds the fact of a struct, and of those in it.
func (c *structCollector) add(t *ctype, name string, line int, file string) {
	if _, known := c.structs[name]; known {
		return
	}
	f := structFact{name: name, union: t.union}
	c.structs[name] = f
	size, align, err := c.u.layout(t)
	if err != nil {
		c.errs.add(file, line, "%s: %v", name, err)
		return
	}
	f.size, f.align = size, align
	offset := int64(0)
	for _, m := range t.record.members {
		size, align, err := c.u.layout(m.typ)
		if err != nil {
			c.errs.add(file, m.line, "%s.%s: %v", name, m.name, err)
			return
		}
		if t.union {
			offset = 0
		}
		offset = (offset + align - 1) / align * align
		nested := name + "." + cmp.Or(m.name, "_")
		f.fields = append(f.fields, fieldFact{name: m.name, typ: c.typeText(m.typ, nested), offset: offset, size: size})
		offset += size
		c.visit(m.typ, nested, m.line, file)
	}
	c.structs[name] = f
}

// typeText returns the type of a member in C. nested stands for a struct that has no name.
func (c *structCollector) typeText(t *ctype, nested string) string {
	inner := t
	for inner.shape == sPointer || inner.shape == sArray {
		inner = inner.elem
	}
	if inner.shape != sRecord {
		return t.String()
	}
	renamed := ctype{shape: sNamed, name: c.recordName(inner, nil, nested), isCons: inner.isCons}
	return replaceInner(t, &renamed).String()
}

// replaceInner returns t with what its pointers and arrays lead to replaced.
func replaceInner(t, with *ctype) *ctype {
	if t.shape != sPointer && t.shape != sArray {
		return with
	}
	c := *t
	c.elem = replaceInner(t.elem, with)
	return &c
}
