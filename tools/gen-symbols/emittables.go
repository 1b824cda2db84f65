package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// emitSymbols writes the table of all functions, and the indexes of the functions that have a call.
func emitSymbols(m *manifest, plan *callPlan) string {
	var b strings.Builder
	index := map[string]int{}
	for i, f := range m.funcs {
		index[f.export] = i
	}
	called := map[string]bool{}
	for _, c := range plan.calls {
		called[c.fact.export] = true
	}
	b.WriteString("// The symbols that have a typed call.\nconst (\n")
	for _, f := range m.funcs {
		if called[f.export] {
			fmt.Fprintf(&b, "%s Symbol = %d\n", symName(f.export), index[f.export])
		}
	}
	b.WriteString(")\n\n")
	fmt.Fprintf(&b, "// numSymbols is how many symbols this package knows.\nconst numSymbols = %d\n\n", len(m.funcs))
	fmt.Fprintf(&b, "// newest is the newest CUDA version that this package knows.\nconst newest = %d\n\n", m.newest)
	fmt.Fprintf(&b, "// verified is the newest CUDA version whose header has confirmed what this package "+
		"knows.\nconst verified = %d\n\n", m.version)
	emitSymbolTable(&b, m)
	return b.String()
}

// symbolBlock is the number of symbols of which one has its whole name in the table: as in package
// driver.
const symbolBlock = 16

// emitSymbolTable writes the table of all symbols, in the form that package driver's symbolReader
// reads, and the classes of all symbols.
func emitSymbolTable(b *strings.Builder, m *manifest) {
	b.WriteString("// symbolTable has a row for each symbol of the driver API, sorted by the exported name. " +
		"symbolReader reads it.\n")
	b.WriteString("const symbolTable = \"\" +\n")
	var blocks, classes, others []string
	before, size, longest := "", 0, 0
	for i, f := range m.funcs {
		name := strings.TrimPrefix(f.export, "cu")
		shared := 0
		if i%symbolBlock == 0 {
			blocks = append(blocks, fmt.Sprint(size))
		} else {
			for shared < min(len(name), len(before)) && name[shared] == before[shared] {
				shared++
			}
		}
		flags, other := symbolFlags(f)
		if other {
			others = append(others, fmt.Sprintf("case %d: // %s\nreturn %q\n", i, f.export, strings.TrimPrefix(f.base,
				"cu")))
		}
		end := "+"
		if i == len(m.funcs)-1 {
			end = ""
		}
		fmt.Fprintf(b, "\"\\x%02x%s\\x%02x\\x%02x\" %s // %s, %s, %s\n", shared, name[shared:], flags,
			f.version/1000<<4|f.version%1000/10, end, f.export, release(f.version),
			f.class+unverifiedWord(f.unverified))
		size += len(name) - shared + 3
		longest = max(longest, len(name))
		before = name
		classes = append(classes, string('0'+rune(classNumbers[f.class])))
	}
	b.WriteString("\n// symbolBlocks are the places of the rows whose names are whole.\n" +
		"var symbolBlocks = [...]uint16{\n")
	for row := range slices.Chunk(blocks, 16) {
		b.WriteString(strings.Join(row, ", ") + ",\n")
	}
	fmt.Fprintf(b, "}\n\n// maxSymbolName is the length of the longest name.\nconst maxSymbolName = %d\n\n", longest)
	b.WriteString("// symbolClasses has a digit for each symbol: its ccall.Class.\nconst symbolClasses = \"\"")
	for row := range slices.Chunk(classes, 80) {
		b.WriteString(" +\n\"" + strings.Join(row, "") + "\"")
	}
	b.WriteString("\n\n// symbolBase returns the names in C that are not like the exported name, without cu.\n")
	b.WriteString("func symbolBase(s Symbol) string {\nswitch s {\n" + strings.Join(others, "") + "}\nreturn \"\"\n}\n")
}

// symbolFlags returns the flags of a row, and whether the symbol's name in C is neither its export's
// nor what cuGetProcAddress is asked for.
func symbolFlags(f funcFact) (flags int, other bool) {
	flags = 0x80
	for i, set := range []bool{f.perThread, f.dlsym, f.current} {
		if set {
			flags |= 1 << i
		}
	}
	versioned := strings.TrimSuffix(strings.TrimSuffix(f.export, "_ptsz"), "_ptds")
	switch {
	case f.base == f.ask:
	case f.base == versioned:
		flags |= 1 << 3
	default:
		flags |= 1 << 4
		other = true
	}
	return flags, other
}

// checkPacked returns an error for facts that the tables of symbols and results cannot express.
func (m *manifest) checkPacked() error {
	for _, r := range m.results {
		if r.code < 0 || r.code >= 1<<16 || len(r.name) > 255 || len(r.text) > 255 {
			return fmt.Errorf("result %d (%s) has no place in the table", r.code, r.name)
		}
	}
	for _, f := range m.funcs {
		name, _ := strings.CutPrefix(f.export, "cu")
		plain := strings.TrimSuffix(strings.TrimSuffix(f.export, "_ptsz"), "_ptds")
		major, minor := f.version/1000, f.version%1000/10
		switch {
		case name == f.export || len(name) < 3:
			return fmt.Errorf("%s does not begin with cu, or is too short", f.export)
		case (plain != f.export) != f.perThread:
			return fmt.Errorf("%s: per-thread symbols, and no others, end with _ptsz or _ptds", f.export)
		case f.ask != unversioned(f.export) || plain != f.ask && len(plain) != len(f.ask)+len("_v2"):
			return fmt.Errorf("%s is asked for as %s, and not without its version of one digit", f.export, f.ask)
		case major > 15 || minor > 15 || f.version != major*1000+minor*10:
			return fmt.Errorf("%s is of version %d", f.export, f.version)
		}
	}
	return nil
}

// classNumbers are the values of ccall.Class.
var classNumbers = map[string]int{"setup": 0, "hot": 1, "blocking": 2}

func unverifiedComment(unverified bool) string {
	if unverified {
		return " // unverified"
	}
	return ""
}

// unverifiedWord says of a fact that no header and no driver has confirmed it.
func unverifiedWord(unverified bool) string {
	if unverified {
		return ", unverified"
	}
	return ""
}

func symName(export string) string { return "sym" + strings.TrimPrefix(export, "cu") }

func goClass(class string) string {
	return "ccall." + strings.ToUpper(class[:1]) + class[1:]
}

// release returns a version of CUDA in the usual notation: 12.8 for 12080.
func release(version int) string {
	return fmt.Sprintf("%d.%d", version/1000, version%1000/10)
}

// initialisms are words in names that Go spells differently.
var initialisms = map[string]string{
	"ARRAY3D": "Array3D", "MEMCPY2D": "Memcpy2D", "MEMCPY3D": "Memcpy3D",
	"CDP": "CDP", "CIG": "CIG", "CUDA": "CUDA", "D3D12": "D3D12", "DMA": "DMA", "ECC": "ECC", "FIFO": "FIFO",
	"GPU": "GPU", "ID": "ID", "IPC": "IPC", "JIT": "JIT", "MPS": "MPS", "NUMA": "NUMA", "NUMSLICES": "NumSlices", "NVLINK": "NVLink",
	"P2P": "P2P", "PC": "PC", "PCI": "PCI", "PTX": "PTX", "RDMA": "RDMA", "RPC": "RPC", "SHMEM": "SharedMem", "TCC": "TCC",
	"VMM": "VMM",
}

// camel converts a name: READY_OR_NOT becomes ReadyOrNot.
func camel(name string) string {
	var b strings.Builder
	for _, w := range strings.Split(name, "_") {
		if s, ok := initialisms[w]; ok {
			b.WriteString(s)
		} else if w != "" {
			b.WriteString(w[:1] + strings.ToLower(w[1:]))
		}
	}
	return b.String()
}

// resultName converts a name: CUDA_ERROR_NOT_READY becomes ResultNotReady.
func resultName(name string) string {
	return "Result" + camel(strings.TrimPrefix(strings.TrimPrefix(name, "CUDA_"), "ERROR_"))
}

func writeResultComment(b *strings.Builder, r resultFact) {
	fmt.Fprintf(b, "// %s is %s: %s.\n", resultName(r.name), r.name, strings.TrimRight(r.text, "."))
	if r.unverified {
		b.WriteString("//\n// Unverified: it is newer than the drivers that this package was tested with.\n")
	}
}

func sortedResults(m *manifest) []resultFact {
	return slices.SortedStableFunc(slices.Values(m.results),
		func(a, b resultFact) int { return cmp.Compare(a.code, b.code) })
}

func emitDriverResults(m *manifest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// The results of CUDA %s.\nconst (\n", release(m.newest))
	results := sortedResults(m)
	for _, r := range results {
		writeResultComment(&b, r)
		fmt.Fprintf(&b, "%s Result = %d\n", resultName(r.name), r.code)
	}
	b.WriteString(")\n\n// resultTable has a row for each result, sorted by code. Result.facts reads it.\n" +
		"const resultTable = \"\"")
	var sticky []string
	for _, r := range results {
		if r.sticky {
			sticky = append(sticky, resultName(r.name))
		}
		fmt.Fprintf(&b, " +\n\"\\x%02x\\x%02x\\x%02x\\x%02x\" + %q + %q", r.code>>8, r.code&255, len(r.name),
			len(r.text), r.name, r.text)
	}
	cases := ""
	if len(sticky) > 0 {
		cases = "case " + strings.Join(sticky, ",\n") + ":\nreturn true\n"
	}
	b.WriteString("\n\n// isSticky reports whether a result leaves the process unable to use CUDA.\n" +
		"func isSticky(r Result) bool {\nswitch r {\n" + cases + "}\nreturn false\n}\n")
	return b.String()
}

// emitPublicResults writes the names of the results in package cu.
func emitPublicResults(m *manifest) string {
	var b strings.Builder
	b.WriteString("import \"github.com/purecu/purecu/driver\"\n\n")
	fmt.Fprintf(&b, "// The results of CUDA %s.\nconst (\n", release(m.newest))
	for _, r := range sortedResults(m) {
		writeResultComment(&b, r)
		fmt.Fprintf(&b, "%s = driver.%[1]s\n", resultName(r.name))
	}
	b.WriteString(")\n")
	return b.String()
}

// emitEnums writes the constants of the enums of the calls' parameters, of the public enums of
// package cu, and of the enums and macros in the plan.
func emitEnums(m *manifest, plan *callPlan, callsFile string) (string, error) {
	used := map[string]bool{}
	use := func(typ string) {
		base := parseDecl(typ).base
		used[base] = true
		for _, a := range m.aliases {
			if a.name == base {
				used[a.of] = true
			}
		}
	}
	for _, c := range plan.calls {
		for _, p := range c.params {
			use(p.c.typ)
		}
	}
	for _, s := range usedStructs(m, plan) {
		for _, f := range s.fields {
			use(f.typ)
		}
	}
	wanted := func(name string) bool {
		return slices.ContainsFunc(plan.enums, func(glob string) bool { ok, _ := path.Match(glob, name); return ok })
	}
	for _, glob := range plan.enums {
		match := func(name string) bool { ok, _ := path.Match(glob, name); return ok }
		if !slices.ContainsFunc(m.enums, func(e enumFact) bool { return match(e.name) }) &&
			!slices.ContainsFunc(m.defines, func(d constant) bool { return match(d.name) }) {
			return "", fmt.Errorf("%s: no enum and no macro is called %s", callsFile, glob)
		}
	}
	for _, p := range publicEnums { // package cu refers to their constants
		used[p.enum] = true
	}
	var b strings.Builder
	write := func(comment string, constants []constant) {
		fmt.Fprintf(&b, "// %s\nconst (\n", comment)
		for _, c := range constants {
			fmt.Fprintf(&b, "%s = %s%s\n", c.name, hex(c.value), unverifiedComment(c.unverified))
		}
		b.WriteString(")\n\n")
	}
	var defines []constant
	for _, d := range m.defines {
		if wanted(d.name) {
			defines = append(defines, d)
		}
	}
	if len(defines) > 0 {
		write("Macros of the header.", defines)
	}
	for _, e := range m.enums {
		if used[e.name] || wanted(e.name) {
			write("The constants of "+e.name+".", e.constants)
		}
	}
	return b.String(), nil
}

// publicEnums are the enums of which a package has all constants: the package, the enum, the prefix of its
// constants, and the Go type, which is the prefix in Go too.
var publicEnums = []struct{ pkg, enum, prefix, typ string }{
	{"cu", "CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_", "DeviceAttribute"},
	{"cu", "CUdevice_P2PAttribute", "CU_DEVICE_P2P_ATTRIBUTE_", "P2PAttribute"},
	{"cu", "CUfunction_attribute", "CU_FUNC_ATTRIBUTE_", "FunctionAttribute"},
	{"cu/graph", "CUgraphNodeType", "CU_GRAPH_NODE_TYPE_", "NodeType"},
	{"cu", "CUlimit", "CU_LIMIT_", "Limit"},
}

// olderSpellings are older names of constants that come before today's name of the same value. Most
// older names come after it.
var olderSpellings = map[string]bool{
	"CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED": true,
	"CU_DEVICE_P2P_ATTRIBUTE_ACCESS_ACCESS_SUPPORTED":          true,
}

// emitPublicEnums writes the constants of the public enums of a package, which have the values of package
// driver, and one name for each value.
func emitPublicEnums(m *manifest, pkg string) string {
	var b strings.Builder
	b.WriteString("import (\n\"github.com/purecu/purecu/driver\"\n\"github.com/purecu/purecu/internal/valuename\"\n)\n\n")
	for _, p := range publicEnums {
		i := slices.IndexFunc(m.enums, func(e enumFact) bool { return e.name == p.enum })
		if i < 0 || p.pkg != pkg {
			continue
		}
		var rows []constant // without the prefix
		seen := map[int64]bool{}
		for _, c := range m.enums[i].constants {
			name := strings.TrimPrefix(c.name, p.prefix)
			if name != "MAX" && name != "INVALID" && !olderSpellings[c.name] && !seen[c.value] {
				seen[c.value] = true
				rows = append(rows, constant{name, c.value, c.unverified})
			}
		}
		slices.SortStableFunc(rows, func(a, b constant) int { return cmp.Compare(a.value, b.value) })
		fmt.Fprintf(&b, "// The constants of %s of CUDA %s.\nconst (\n", p.enum, release(m.newest))
		for _, c := range rows {
			fmt.Fprintf(&b, "%s %s = driver.%s%s\n", p.typ+camel(c.name), p.typ, p.prefix+c.name,
				unverifiedComment(c.unverified))
		}
		fmt.Fprintf(&b, ")\n\n// names%s holds the constants' names in lower case, sorted by value.\n"+
			"var names%[1]s = [...]valuename.Name{\n", p.typ)
		for _, c := range rows {
			fmt.Fprintf(&b, "{Value: driver.%s, Name: %q},\n", p.prefix+c.name, strings.ToLower(c.name))
		}
		b.WriteString("}\n\n")
	}
	return b.String()
}
