package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// structByName returns the struct or union of a type's name or other name.
func (m *manifest) structByName(name string) (structFact, bool) {
	for _, a := range m.aliases {
		if a.name == name {
			name = a.of
		}
	}
	i := slices.IndexFunc(m.structs, func(s structFact) bool { return s.name == name })
	if i < 0 {
		return structFact{}, false
	}
	return m.structs[i], true
}

// isEnum reports whether name is an enum, or another name of one.
func (m *manifest) isEnum(name string) bool {
	for _, a := range m.aliases {
		if a.name == name {
			name = a.of
		}
	}
	return slices.ContainsFunc(m.enums, func(e enumFact) bool { return e.name == name })
}

// structName returns the name of a struct in Go: CUDA_KERNEL_NODE_PARAMS_v2 is KernelNodeParams, as
// the name without a version means it, and the others are KernelNodeParamsV1 and KernelNodeParamsV3.
// CUmemPoolProps_v1 is MemPoolProps. A struct without a name is called like its parent and its member.
func (m *manifest) structName(s structFact) string {
	name, nested, _ := strings.Cut(s.name, ".")
	version := ""
	if base, v, found := strings.Cut(name, "_v"); found && strings.Trim(v, "0123456789") == "" {
		i := slices.IndexFunc(m.aliases, func(a aliasFact) bool { return a.name == base })
		isOther := slices.ContainsFunc(m.structs, func(s structFact) bool { return s.name == base })
		if i < 0 && isOther || i >= 0 && m.aliases[i].of != name {
			version = "V" + v
		}
		name = base
	}
	if t, ok := goTypes[name]; ok && nested == "" {
		return t
	}
	name = strings.TrimSuffix(name, "_st")
	if rest, ok := strings.CutPrefix(name, "CUDA_"); ok {
		name = camel(rest)
	} else {
		name = fieldName(strings.TrimPrefix(name, "CU"))
	}
	for part := range strings.SplitSeq(nested, ".") {
		switch part {
		case "":
		case "_":
			version += "Union"
		default:
			version += fieldName(part)
		}
	}
	return name + version
}

// fieldName returns the name of a member in Go: gridDimX is GridDimX, and from_port is FromPort.
func fieldName(name string) string {
	var b strings.Builder
	for w := range strings.SplitSeq(name, "_") {
		switch {
		case w == "id":
			b.WriteString("ID")
		case w != "":
			b.WriteString(strings.ToUpper(w[:1]) + w[1:])
		}
	}
	return b.String()
}

// A cDecl is a type of C that was read from a manifest.
type cDecl struct {
	base     string
	stars    int
	dims     []int64
	function bool // a pointer to a function
}

func parseDecl(typ string) cDecl {
	if strings.Contains(typ, "(*") {
		return cDecl{function: true}
	}
	var d cDecl
	for strings.HasSuffix(typ, "]") {
		open := strings.LastIndexByte(typ, '[')
		n, _ := strconv.ParseInt(typ[open+1:len(typ)-1], 10, 64)
		d.dims = append([]int64{n}, d.dims...)
		typ = strings.TrimSpace(typ[:open])
	}
	d.base, d.stars = splitPointer(typ)
	return d
}

// fieldType returns the type of a member in Go. The address of a value is a Go pointer if the type of
// the value is known, and a HostPtr if it is not. The address of a function is a uintptr.
func (m *manifest) fieldType(typ string) (string, error) {
	d := parseDecl(typ)
	elem, known := scalarType(m, d.base)
	switch {
	case d.function, slices.Contains(functionTypes, d.base):
		return "uintptr", nil
	case d.stars == 0 && known:
	case d.stars == 0:
		return "", fmt.Errorf("there is no type of Go for %s", typ)
	case d.stars == 1 && d.base == "void":
		elem = "HostPtr"
	case d.stars == 1 && known:
		elem = "*" + elem
	default:
		elem = "unsafe.Pointer"
	}
	for _, n := range slices.Backward(d.dims) {
		elem = fmt.Sprintf("[%d]%s", n, elem)
	}
	return elem, nil
}

// hasPointers reports whether the struct that a type refers to has Go pointers.
func (m *manifest) hasPointers(typ string) bool {
	s, _ := m.structByName(parseDecl(typ).base)
	if s.union {
		return false
	}
	return slices.ContainsFunc(s.fields, func(f fieldFact) bool {
		t, err := m.fieldType(f.typ)
		isPointer := err == nil && (strings.HasPrefix(t, "*") || t == "unsafe.Pointer")
		return isPointer || parseDecl(f.typ).stars == 0 && m.hasPointers(f.typ)
	})
}

// usedStructs returns the structs that the calls use, in the order of their names in Go.
func usedStructs(m *manifest, plan *callPlan) []structFact {
	used := map[string]structFact{}
	var visit func(typ string)
	visit = func(typ string) {
		s, ok := m.structByName(parseDecl(typ).base)
		if _, known := used[s.name]; known || !ok {
			return
		}
		used[s.name] = s
		for _, f := range s.fields {
			visit(f.typ)
		}
	}
	for _, c := range plan.calls {
		for _, p := range c.params {
			visit(p.c.typ)
		}
	}
	for _, name := range plan.structs {
		visit(name)
	}
	var list []structFact
	for _, s := range used {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b structFact) int { return cmp.Compare(m.structName(a), m.structName(b)) })
	return list
}

// byHandStructs are written by hand in package driver. Their members have other names, or are fewer.
var byHandStructs = map[string]bool{
	"UUID": true, "IPCEventHandle": true, "IPCMemHandle": true, "MemPoolPtrExportData": true,
	"DevResource": true, "DevResourceUnion": true,
	"LaunchConfig": true, "LaunchAttribute": true, "LaunchAttributeValue": true,
}

// emitStructs writes the structs and unions that the calls use.
func emitStructs(m *manifest, plan *callPlan) (string, error) {
	var b strings.Builder
	b.WriteString(structsHead)
	for _, s := range usedStructs(m, plan) {
		name := m.structName(s)
		if byHand(name) {
			continue
		}
		if s.union {
			if err := m.emitUnion(&b, s); err != nil {
				return "", err
			}
			continue
		}
		if strings.Contains(s.name, ".") {
			fmt.Fprintf(&b, "// %s is the member %s.\ntype %[1]s struct {\n", name, s.name)
		} else {
			fmt.Fprintf(&b, "// %s is a %s.\n", name, s.name)
			switch {
			case s.unverified:
				b.WriteString("//\n// Unverified: the layout is from public sources, and no header has confirmed it.\n")
			case s.older != nil:
				b.WriteString("//\n// Unverified: newer releases have the marked fields, as public sources say. " +
					"Leave them zero for\n// older drivers.\n")
			}
			fmt.Fprintf(&b, "type %s struct {\n", name)
		}
		for _, f := range s.fields {
			typ, err := m.fieldType(f.typ)
			if err != nil {
				return "", fmt.Errorf("%s.%s: %w", s.name, f.name, err)
			}
			if f.name != "" { // else the members are those of this struct
				b.WriteString(fieldName(f.name) + " ")
			}
			b.WriteString(typ + unverifiedComment(f.unverified && !s.unverified) + "\n")
		}
		b.WriteString("}\n\n")
	}
	text := b.String()
	if strings.Contains(text, "unsafe.") {
		text = "import \"unsafe\"\n\n" + text
	}
	return text, nil
}

// byHand reports whether a struct, or the one that it is a member of, is written by hand.
func byHand(name string) bool {
	return byHandStructs[name] || strings.HasPrefix(name, "LaunchAttributeValue")
}

const structsHead = `// Structs and unions of the driver, with the layout that C gives them on 64-bit platforms. The fields
// are the members in C's order, and C's documentation describes them. Fields that C leaves between
// them for alignment need not be set.
//
// A union is an array of words. It has a method for each member, which returns the address of the
// member in the union. Go's garbage collector does not see addresses that are stored in a union:
// what they refer to must be kept alive, and must be on the heap. Memory that the driver uses after a
// call has returned must not be Go's.

`

// emitUnion writes a union: its words, and the addresses of its members.
func (m *manifest) emitUnion(b *strings.Builder, s structFact) error {
	name := m.structName(s)
	word := fmt.Sprintf("uint%d", s.align*8)
	fmt.Fprintf(b, "// %s is the union %s.\ntype %[1]s [%[3]d]%[4]s\n\n", name, s.name, s.size/s.align, word)
	for _, f := range s.fields {
		typ, err := m.fieldType(f.typ)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", s.name, f.name, err)
		}
		member := fieldName(f.name)
		fmt.Fprintf(b, "// %s returns the member %s.\n"+
			"func (u *%s) %[1]s() *%[4]s { return (*%[4]s)(unsafe.Pointer(u)) }\n\n",
			member, f.name, name, typ)
	}
	return nil
}

// emitLayout writes the table that package driver's tests compare the structs with.
func emitLayout(m *manifest, plan *callPlan) string {
	var b strings.Builder
	b.WriteString("import \"reflect\"\n\n" +
		"// layouts are the structs and unions, with C's sizes, alignments and offsets in bytes. A struct that is\n" +
		"// written by hand has no offsets if its members are not those of C.\nvar layouts = []layout{\n")
	for _, s := range usedStructs(m, plan) {
		name := m.structName(s)
		if strings.HasPrefix(name, "DevResourceUnion") ||
			strings.HasPrefix(name, "LaunchAttributeValue") && name != "LaunchAttributeValue" {
			continue // Go has no type for it
		}
		fields := "nil"
		if !s.union && !byHandStructs[name] || name == "LaunchConfig" || name == "LaunchAttribute" {
			fields = "[]span{"
			for _, f := range s.fields {
				fields += fmt.Sprintf("{%d, %d}, ", f.offset, f.size)
			}
			fields += "}"
		}
		fmt.Fprintf(&b, "{%q, reflect.TypeFor[%s](), %d, %d, %s},\n", s.name, name, s.size, s.align, fields)
	}
	b.WriteString("}\n")
	return b.String()
}

// emitLayoutC writes a C file that compiles only if a header has the layouts of the manifest: a header
// of the manifest's release, or of the newest release that the manifest has facts about. The structs
// that differ between the two are not checked with the releases between them.
func emitLayoutC(m *manifest, plan *callPlan) string {
	var b strings.Builder
	b.WriteString("#include <cuda.h>\n#include <stddef.h>\n#include <stdio.h>\n\n" +
		"#define TYPE(t, size, align) _Static_assert(sizeof(t) == size && _Alignof(t) == align, #t)\n" +
		"#define MEMBER(t, m, offset, size) " +
		"_Static_assert(offsetof(t, m) == offset && sizeof(((t *)0)->m) == size, #t \".\" #m)\n\n")
	var known, newest layoutCount
	for _, s := range usedStructs(m, plan) {
		if strings.Contains(s.name+".", "._.") {
			continue // its members are those of the struct around it
		}
		older, newer := m.layoutC(s, false, &known), m.layoutC(s, true, &newest)
		if older == newer {
			b.WriteString(older)
			continue
		}
		if older != "" {
			fmt.Fprintf(&b, "#if CUDA_VERSION <= %d\n%s#endif\n", m.version, older)
		}
		fmt.Fprintf(&b, "#if CUDA_VERSION >= %d\n%s#endif\n", m.newest, newer)
	}
	b.WriteString("\nint main(void)\n{\n")
	report := "\tprintf(\"CUDA %%d: %d types and %d members have the layout of the manifest\\n\", CUDA_VERSION);\n"
	if m.newest == m.version {
		fmt.Fprintf(&b, report, known.types, known.members)
	} else {
		fmt.Fprintf(&b, "#if CUDA_VERSION <= %d\n"+report+"#elif CUDA_VERSION >= %d\n"+report+"#else\n"+
			"\tprintf(\"CUDA %%d: what did not change has the layout of the manifest\\n\", CUDA_VERSION);\n#endif\n",
			m.version, known.types, known.members, m.newest, newest.types, newest.members)
	}
	b.WriteString("\treturn 0;\n}\n")
	return b.String()
}

// A layoutCount is how much a file checks.
type layoutCount struct{ types, members int }

// layoutC returns the checks of a struct or union, as the newest release has it, or else as the header
// of the manifest has it.
func (m *manifest) layoutC(s structFact, newest bool, n *layoutCount) string {
	if s.unverified && !newest {
		return ""
	}
	name, nested, _ := strings.Cut(s.name, ".")
	typ := name
	if strings.HasSuffix(name, "_st") {
		typ = "struct " + name
	}
	if nested != "" {
		typ = fmt.Sprintf("__typeof__(((%s *)0)->%s)", typ, nested)
	}
	as := func(s structFact) structFact {
		if !newest && s.older != nil {
			return *s.older
		}
		return s
	}
	var b strings.Builder
	n.types++
	fmt.Fprintf(&b, "TYPE(%s, %d, %d);\n", typ, as(s).size, as(s).align)
	var check func(s structFact, at int64)
	check = func(s structFact, at int64) {
		for _, f := range s.fields {
			if f.name == "" {
				inner, _ := m.structByName(f.typ)
				check(as(inner), at+f.offset)
				continue
			}
			n.members++
			fmt.Fprintf(&b, "MEMBER(%s, %s, %d, %d);\n", typ, f.name, at+f.offset, f.size)
		}
	}
	check(as(s), 0)
	return b.String()
}
