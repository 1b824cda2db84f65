package main

import (
	"fmt"
	"go/format"
	"slices"
	"strconv"
	"strings"
)

// The files of the library for C: see cusim/libcuda.
const (
	libraryGo   = "cusim/libcuda/znvml.go"
	libraryList = "cusim/libcuda/build/znvml.go"
	libraryC    = "cusim/libcuda/build/nvml/znvml.c"
)

// cudaVersions are the versions of CUDA that drivers support.
var cudaVersions = map[int]int{550: 12040, 580: 13000}

// emitLibrary adds the files of libnvidia-ml.so.1 to files: a function in C for each that the newest driver exports,
// the calls that these make in Go, by their numbers, and the list of all.
func (p *plan) emitLibrary(files map[string][]byte, head string, returns source) error {
	c, err := p.emitLibraryC(returns)
	if err != nil {
		return err
	}
	files[libraryC] = []byte(head + c)
	for name, body := range map[string]string{libraryGo: p.emitLibraryGo(), libraryList: p.emitLibraryList()} {
		data, err := format.Source([]byte(head + "package main\n\n" + body))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files[name] = data
	}
	return nil
}

// exported returns the functions that the newest driver exports.
func (p *plan) exported() (list []call) {
	for _, c := range p.calls {
		if p.since(c.funcFact) < len(p.releases) {
			list = append(list, c)
		}
	}
	return list
}

// sinceCUDA returns the version of CUDA of the first driver that has a function, or 0 if all drivers have it.
func (p *plan) sinceCUDA(c call) int { return cudaVersions[p.releases[p.since(c.funcFact)]] }

// emitLibraryList writes the functions.
func (p *plan) emitLibraryList() string {
	var b strings.Builder
	b.WriteString("// nvmlFunctions are all that libnvidia-ml.so.1 exports, but nvmlInternalGetExportTable.\n" +
		"var nvmlFunctions = []nvmlFunction{\n")
	for _, c := range p.exported() {
		fmt.Fprintf(&b, "{%q, %d},\n", c.export, p.sinceCUDA(c))
	}
	b.WriteString("}\n")
	return b.String()
}

// typeC returns the type of a parameter in C, without NVIDIA's names, and with a space if a name may follow.
func (p *plan) typeC(prm param) string {
	base, stars := splitPointer(strings.TrimPrefix(prm.typ, "const "))
	of := func(list []named) (string, bool) {
		i := slices.IndexFunc(list, func(n named) bool { return n.name == base })
		if i < 0 {
			return "", false
		}
		return list[i].of, true
	}
	if other, is := of(p.aliases); is {
		base = other
	}
	if _, is := of(p.handles); is || stars > 0 {
		return "void *"
	}
	if number, is := of(p.scalars); is {
		base = number
	}
	if basicTypes[base] == "" { // an enumeration
		return "int "
	}
	return base + " "
}

// sized reports whether a type is a struct whose member version says how long it is.
func (p *plan) sized(name string) bool {
	s, is := p.structByName(name)
	return is && p.versioned(name) && slices.ContainsFunc(p.versions, func(c constant) bool {
		n, err := strconv.ParseInt(c.value, 0, 64)
		return err == nil && c.name+"_t" == s.name && n&0xffffff == s.size
	})
}

// emitLibraryC writes the functions in C, and the texts of results.
func (p *plan) emitLibraryC(returns source) (string, error) {
	var b strings.Builder
	b.WriteString("#include \"libnvidia-ml.h\"\n\n#pragma GCC visibility push(default)\n\n")
	for i, c := range p.exported() {
		if c.byHand() {
			continue
		}
		var params, words []string
		for _, prm := range c.params {
			params = append(params, p.typeC(prm)+prm.name)
			word := prm.name
			if strings.HasSuffix(p.typeC(prm), "*") {
				word = "(uintptr_t)" + word
			}
			words = append(words, word)
		}
		if params == nil {
			params = []string{"void"}
		}
		fmt.Fprintf(&b, "int %s(%s)\n{\n", c.export, strings.Join(params, ", "))
		call, arg := "nvml_call", "NULL"
		if strings.HasPrefix(c.export, "nvmlInit") {
			call = "nvml_first_call"
		}
		if words != nil {
			arg = "words"
			fmt.Fprintf(&b, "\tuint64_t words[] = {%s};\n", strings.Join(words, ", "))
		}
		fmt.Fprintf(&b, "\treturn %s(%d, %d, %s);\n}\n\n", call, i, p.sinceCUDA(c), arg)
	}
	b.WriteString("#pragma GCC visibility pop\n\nconst struct nvml_text nvml_texts[] = {\n")
	for _, r := range returnRows(returns) {
		n, err := p.returnNumber(r[0])
		if err != nil {
			return "", fmt.Errorf("%s: %w", returns.name, err)
		}
		fmt.Fprintf(&b, "\t{%d, %q},\n", n, r[2])
	}
	b.WriteString("\t{0, NULL},\n};\n")
	return b.String(), nil
}

// returnNumber returns the number of an nvmlReturn_t.
func (p *plan) returnNumber(name string) (int64, error) {
	for _, e := range p.enums {
		for _, c := range e.constants {
			if e.name == "nvmlReturn_t" && c.name == name {
				return strconv.ParseInt(c.value, 0, 32)
			}
		}
	}
	return 0, fmt.Errorf("%s is no nvmlReturn_t", name)
}

// emitLibraryGo writes what makes a call with the words of C.
func (p *plan) emitLibraryGo() string {
	var b strings.Builder
	b.WriteString("import \"github.com/purecu/purecu/nvml/raw\"\n\n" +
		"// call makes the call with a number. The words are C's arguments.\n" +
		"func (l *nvmlLibrary) call(number uint32, a *[nvmlWords]uint64) raw.Return {\nswitch number {\n")
	for i, c := range p.exported() {
		if c.byHand() {
			continue
		}
		fmt.Fprintf(&b, "case %d: // %s\n", i, c.export)
		if c.export == "nvmlGpmMetricsGet" { // it sets addresses of texts
			b.WriteString("return l.gpmMetricsGet(a)\n")
			continue
		}
		p.emitLibraryCall(&b, c)
	}
	b.WriteString("}\nreturn raw.NVML_ERROR_FUNCTION_NOT_FOUND\n}\n")
	return b.String()
}

// shortStructs are the functions whose struct ends before that of the newest version of the function, as programs know
// it that were compiled for an older NVML. The numbers are bytes, without the fields that were reserved then.
var shortStructs = map[string]int{
	"nvmlDeviceGetNvLinkRemotePciInfo": 36,
	"nvmlDeviceGetPciInfo":             36,
	"nvmlDeviceGetPciInfo_v2":          36,
	"nvmlEventSetWait":                 24,
}

// emitLibraryCall writes one call.
func (p *plan) emitLibraryCall(b *strings.Builder, c call) {
	index := func(name string) int {
		for i, prm := range c.params {
			if prm.name == name {
				return i
			}
		}
		return -1
	}
	var args, after []string
	for i, prm := range c.params {
		word, elem := fmt.Sprintf("&a[%d]", i), rawType(prm.elem)
		arg := fmt.Sprintf("p%d", i)
		base, _ := splitPointer(strings.TrimPrefix(prm.typ, "const "))
		switch prm.role {
		case roleLength:
			continue
		case roleValue:
			arg = fmt.Sprintf("%s(a[%d])", elem, i)
		case roleString:
			fmt.Fprintf(b, "p%d, there := text(%s)\nif !there {\nreturn l.refuse()\n}\n", i, word)
		case roleOut, roleArray:
			if prm.role == roleArray {
				elem = "[" + rawType(prm.of) + "]" + elem
			}
			if size, short := shortStructs[c.export]; short {
				fmt.Fprintf(b, "p%d := newShort[%s](%s, %d)\n", i, elem, word, size)
			} else {
				fmt.Fprintf(b, "p%d := newOut[%s](%s)\n", i, elem, word)
			}
			arg = fmt.Sprintf("p%d.value", i)
			after = append(after, fmt.Sprintf("p%d.back(r)", i))
		case roleIn, roleInout:
			arg = fmt.Sprintf("pointer[%s](%s)", elem, word)
			if p.sized(base) {
				arg = fmt.Sprintf("p%d.value", i)
				fmt.Fprintf(b, "p%d := newVersioned[%s](%s)\n", i, elem, word)
				if prm.role != roleIn {
					after = append(after, fmt.Sprintf("p%d.back()", i))
				}
			}
		case roleLen:
			if base == "char" {
				fmt.Fprintf(b, "p%d := newChars(%s, a[%d])\n", i, word, index(prm.of))
				arg = fmt.Sprintf("p%d.values", i)
				after = append(after, fmt.Sprintf("p%d.back(r)", i))
				break
			}
			arg = fmt.Sprintf("values[%s](%s, a[%d])", elem, word, index(prm.of))
		case roleBytes:
			arg = fmt.Sprintf("valuesIn[%s](%s, a[%d])", elem, word, index(prm.of))
		case roleCount:
			arg = fmt.Sprintf("counted[%s](%s, &a[%d])", elem, word, index(prm.of))
		case roleMemory:
			arg = fmt.Sprintf("counted[byte](%s, &a[%d])", word, index(prm.of))
		case roleRoom:
			fmt.Fprintf(b, "p%d := newOpenArray[%s](%s)\n", i, elem, word)
			arg = fmt.Sprintf("p%d.values", i)
			after = append(after, fmt.Sprintf("p%d.back(r, &a[%d])", i, index("count")))
		}
		args = append(args, arg)
	}
	made := fmt.Sprintf("l.s.%s(%s)", c.method, strings.Join(args, ", "))
	if after == nil {
		fmt.Fprintf(b, "return %s\n", made)
		return
	}
	fmt.Fprintf(b, "r := %s\n%s\nreturn r\n", made, strings.Join(after, "\n"))
}
