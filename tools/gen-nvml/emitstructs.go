package main

import (
	"fmt"
	"slices"
	"strings"
)

// emitStructs writes the handles, the structs and unions, and the other names of types.
func (p *plan) emitStructs() (string, error) {
	var b strings.Builder
	b.WriteString("import \"unsafe\"\n\n")
	for _, t := range p.handles {
		fmt.Fprintf(&b, "// %s is an %s, the address of an object of the library.\ntype %[1]s uintptr\n\n", typeName(t.name), t.name)
	}
	for _, t := range p.scalars {
		fmt.Fprintf(&b, "// %s is an %s.\ntype %[1]s %[3]s\n\n", typeName(t.name), t.name, basicTypes[t.of])
	}
	for _, t := range p.aliases {
		fmt.Fprintf(&b, "// %s is an %s.\ntype %[1]s = %[3]s\n\n", typeName(t.name), t.name, typeName(t.of))
	}
	for _, s := range p.structs {
		if err := p.emitStruct(&b, s); err != nil {
			return "", fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return b.String(), nil
}

func (p *plan) emitStruct(b *strings.Builder, s structFact) error {
	name := typeName(s.name)
	what := "an " + s.name
	if strings.Contains(s.name, ".") {
		what = "the member " + s.name
	}
	fmt.Fprintf(b, "// %s is %s.\n", name, what)
	if s.unverified {
		b.WriteString("//\n// Unverified: the header of a newer release has it, and no driver has confirmed it.\n")
	}
	if s.union {
		fmt.Fprintf(b, "type %s [%d]uint%d\n\n", name, s.size/s.align, s.align*8)
	} else {
		fmt.Fprintf(b, "type %s struct {\n", name)
	}
	for _, f := range s.fields {
		typ, err := p.fieldType(f.typ)
		switch {
		case err != nil:
			return err
		case s.union:
			fmt.Fprintf(b, "// %s returns the address of the member %s.\n"+
				"func (u *%s) %[1]s() *%[4]s { return (*%[4]s)(unsafe.Pointer(u)) }\n\n", fieldName(f.name), f.name, name, typ)
		case f.name == "": // the members are those of this struct
			b.WriteString(typ + "\n")
		default:
			b.WriteString(fieldName(f.name) + " " + typ + "\n")
		}
	}
	if !s.union {
		b.WriteString("}\n\n")
	}
	return nil
}

// emitLayout writes the table that package raw's tests compare the structs with.
func (p *plan) emitLayout() string {
	var b strings.Builder
	b.WriteString("import \"reflect\"\n\n// layouts are the structs and unions, with C's sizes, alignments and offsets in bytes.\n" +
		"var layouts = []layout{\n")
	for _, s := range p.structs {
		fields := "nil"
		if !s.union {
			fields = "[]span{"
			for _, f := range s.fields {
				fields += fmt.Sprintf("{%d, %d}, ", f.offset, f.size)
			}
			fields += "}"
		}
		fmt.Fprintf(&b, "{%q, reflect.TypeFor[%s](), %d, %d, %s},\n", s.name, typeName(s.name), s.size, s.align, fields)
	}
	b.WriteString("}\n")
	return b.String()
}

// layoutHead begins the C file that compiles only if a header agrees with the facts.
const layoutHead = `#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <stddef.h>
#include <stdio.h>

#define TYPE(t, size, align) _Static_assert(sizeof(t) == size && _Alignof(t) == align, #t)
#define MEMBER(t, m, offset, size) \
	_Static_assert(offsetof(t, m) == offset && sizeof(((t *)0)->m) == size, #t "." #m)
#define CONSTANT(name, value) _Static_assert((long long)(name) == value, #name)
#define FUNCTION(name, ...) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), __VA_ARGS__), #name)

`

// emitLayoutC writes a C file that compiles only if a header agrees with the facts. With NVML_NEWER,
// the header is a newer one, which must agree with what is unverified.
func (p *plan) emitLayoutC() string {
	var b, newer strings.Builder
	types, constants, functions := 0, 0, 0
	check := func(count *int, unverified bool, format string, args ...any) {
		to := &newer
		if !unverified {
			to = &b
			*count++
		}
		fmt.Fprintf(to, format, args...)
	}
	for _, s := range p.structs {
		if strings.HasSuffix(s.name, "._") {
			continue // its members are those of the struct around it
		}
		typ := p.structC(s.name)
		check(&types, s.unverified, "TYPE(%s, %d, %d);\n", typ, s.size, s.align)
		for _, f := range s.fields {
			if f.name != "" {
				check(new(int), s.unverified, "MEMBER(%s, %s, %d, %d);\n", typ, f.name, f.offset, f.size)
				continue
			}
			inner, _ := p.structByName(f.typ)
			for _, in := range inner.fields {
				check(new(int), s.unverified, "MEMBER(%s, %s, %d, %d);\n", typ, in.name, f.offset+in.offset, in.size)
			}
		}
	}
	list := slices.Concat(p.defines, p.versions)
	for _, e := range p.enums {
		list = append(list, e.constants...)
	}
	for _, c := range list {
		check(&constants, c.unverified, "CONSTANT(%s, %s);\n", c.name, c.value)
	}
	for _, fn := range p.funcs {
		if fn.of != "" {
			continue
		}
		var params []string
		for _, prm := range fn.params {
			params = append(params, prm.typ)
		}
		if params == nil {
			params = []string{"void"}
		}
		check(&functions, fn.unverified, "FUNCTION(%s, %s (*)(%s));\n", fn.export, fn.ret, strings.Join(params, ", "))
	}
	return fmt.Sprintf("%s#ifdef NVML_NEWER\n%s#else\n%s#endif\n\nint main(void)\n{\n"+
		"\tprintf(\"NVML: %d types, %d constants and %d functions are those of the facts\\n\");\n\treturn 0;\n}\n",
		layoutHead, newer.String(), b.String(), types, constants, functions)
}

// structC returns a struct in C. A struct without a name is found by the struct that it is a member of.
func (p *plan) structC(name string) string {
	of, member, nested := strings.Cut(name, ".")
	if !nested {
		return name
	}
	s, _ := p.structByName(of)
	for _, f := range s.fields {
		if f.name == member && strings.Contains(f.typ, "[") {
			member += "[0]"
		}
	}
	return fmt.Sprintf("__typeof__(((%s *)0)->%s)", of, member)
}
