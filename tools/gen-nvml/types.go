package main

import (
	"fmt"
	gotoken "go/token"
	"slices"
	"strconv"
	"strings"
)

// basicTypes maps C's basic types to those of Go. ULong is a type of package raw.
var basicTypes = map[string]string{
	"char": "byte", "unsigned char": "uint8", "unsigned short": "uint16", "int": "int32", "unsigned int": "uint32",
	"unsigned long": "ULong", "long long": "int64", "unsigned long long": "uint64", "double": "float64",
}

// goType returns the type of Go for a type of C that is neither an address nor an array.
func (p *plan) goType(name string) (string, bool) {
	if t, is := basicTypes[name]; is {
		return t, true
	}
	is := func(n named) bool { return n.name == name }
	known := slices.ContainsFunc(p.scalars, is) || slices.ContainsFunc(p.handles, is) || slices.ContainsFunc(p.aliases, is) ||
		slices.ContainsFunc(p.enums, func(e enumFact) bool { return e.name == name })
	if _, isStruct := p.structByName(name); isStruct {
		known = true
	}
	return typeName(name), known
}

// structByName returns the struct or union of a name, or of another name of it.
func (p *plan) structByName(name string) (structFact, bool) {
	for _, a := range p.aliases {
		if a.name == name {
			name = a.of
		}
	}
	i := slices.IndexFunc(p.structs, func(s structFact) bool { return s.name == name })
	if i < 0 {
		return structFact{}, false
	}
	return p.structs[i], true
}

// fieldType returns the type of a member in Go.
func (p *plan) fieldType(typ string) (string, error) {
	dims := ""
	if i := strings.IndexByte(typ, '['); i >= 0 {
		typ, dims = strings.TrimSpace(typ[:i]), typ[i:]
	}
	base, stars := splitPointer(typ)
	t, known := p.goType(base)
	if !known {
		return "", fmt.Errorf("there is no type of Go for %s", typ)
	}
	return dims + strings.Repeat("*", stars) + t, nil
}

// splitPointer returns what a type leads to, and the number of its addresses.
func splitPointer(typ string) (base string, stars int) {
	base = strings.TrimRight(typ, " *")
	return base, strings.Count(typ, "*")
}

// typeName returns the name of a type in Go: nvmlMemory_v2_t is MemoryV2. A struct without a name is
// called like its parent and its member.
func typeName(name string) string {
	name, nested, _ := strings.Cut(name, ".")
	name = strings.TrimSuffix(methodName(name), "_t")
	for part := range strings.SplitSeq(nested, ".") {
		switch part {
		case "":
		case "_":
			name += "Union"
		default:
			name += fieldName(part)
		}
	}
	return version(name)
}

// methodName returns the name of a function in Go: nvmlInit_v2 is InitV2.
func methodName(name string) string {
	name = version(strings.TrimPrefix(name, "nvml"))
	return strings.ToUpper(name[:1]) + name[1:]
}

// version returns a name with V2 in place of _v2.
func version(name string) string {
	base, v, found := strings.Cut(name, "_v")
	digits := strings.TrimSuffix(v, "_t")
	if _, err := strconv.Atoi(digits); !found || err != nil {
		return name
	}
	return base + "V" + v
}

// fieldName returns the name of a member in Go: gpuInstanceId is GpuInstanceId.
func fieldName(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// goName returns the name of a parameter in Go.
func goName(name string) string {
	if gotoken.IsKeyword(name) {
		return name + "Arg"
	}
	return name
}

// constantName returns the name of a constant in Go: NVML_X keeps it, and nvmlEventTypeClock is EventTypeClock.
func constantName(name string) string {
	if strings.HasPrefix(name, "nvml") {
		return methodName(name)
	}
	return name
}
