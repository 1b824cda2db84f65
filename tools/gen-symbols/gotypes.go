package main

import (
	gotoken "go/token"
	"strings"
)

// goTypes maps types of C that calls use to Go types of package driver. Enums
// that are not here are int32, as they are in C.
var goTypes = map[string]string{
	"int": "int32", "unsigned int": "uint32", "unsigned char": "uint8", "unsigned short": "uint16",
	"size_t": "uint64", "unsigned long long": "uint64", "long long": "int64", "float": "float32",
	"cuuint32_t": "uint32", "cuuint64_t": "uint64", "uint64_t": "uint64", "uint32_t": "uint32",

	"CUresult":         "Result",
	"CUdevice":         "Device",
	"CUcontext":        "Context",
	"CUstream":         "Stream",
	"CUevent":          "Event",
	"CUmodule":         "Module",
	"CUfunction":       "Function",
	"CUgraph":          "Graph",
	"CUgraphExec":      "GraphExec",
	"CUgraphNode":      "GraphNode",
	"CUdeviceptr":      "DevicePtr",
	"CUuuid":           "UUID",
	"CUipcEventHandle": "IPCEventHandle",
	"CUipcMemHandle":   "IPCMemHandle",
	"CUmemLocation":    "MemLocation",
	"CUjit_option":     "uint32",

	"CUgreenCtx":        "GreenCtx",
	"CUdevResource":     "DevResource",
	"CUdevResourceDesc": "DevResourceDesc",
}

// arrayTypes are the types whose Go type is an array, of so many bytes in all.
var arrayTypes = map[string]int64{"CUuuid": 16, "CUipcEventHandle": 64, "CUipcMemHandle": 64, "CUmemLocation": 8, "CUdevResource": 144}

// scalarType returns the Go type of a C type that is no pointer.
func scalarType(m *manifest, name string) (string, bool) {
	if t, ok := goTypes[name]; ok {
		return t, true
	}
	for _, e := range m.enums {
		if e.name == name {
			return "int32", true
		}
	}
	return "", false
}

// word returns the Go expression for the argument word of a value of type typ.
func word(typ, expr string) string {
	switch typ {
	case "int32", "Device", "Result":
		return "uintptr(uint32(" + expr + "))" // no sign in the upper half
	}
	return "uintptr(" + expr + ")"
}

// taken maps names that the emitted methods need for themselves to others.
var taken = map[string]string{
	"t": "tArg", "at": "atArg", "th": "thArg", "res": "resArg", "r": "rArg", "f": "function", "fn": "callback",
	"func": "function", "len": "n", "append": "more", "error": "code", "string": "text", "unsafe": "raw", "ccall": "c",
	"strings": "words", "binary": "bits", "uintptr": "word", "type": "typ",
}

// goName makes a parameter's name of C one of Go.
func goName(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	name = strings.Join(words, "")
	if name == "" {
		return "arg"
	}
	name = strings.ToLower(name[:1]) + name[1:]
	if other, ok := taken[name]; ok {
		return other
	}
	if gotoken.IsKeyword(name) {
		return name + "Arg"
	}
	return name
}
