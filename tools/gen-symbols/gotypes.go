package main

import (
	gotoken "go/token"
	"strings"
)

// goTypes maps C types of calls to Go types of package driver. All other enums are int32, as in C.
var goTypes = map[string]string{
	"int": "int32", "unsigned int": "uint32", "unsigned char": "uint8", "unsigned short": "uint16",
	"size_t": "uint64", "unsigned long long": "uint64", "long long": "int64", "float": "float32",
	"cuuint32_t": "uint32", "cuuint64_t": "uint64", "uint64_t": "uint64", "uint32_t": "uint32",

	"char": "byte",

	"CUresult":         "Result",
	"CUdevice":         "Device",
	"CUdeviceptr":      "DevicePtr",
	"CUuuid":           "UUID",
	"CUipcEventHandle": "IPCEventHandle",
	"CUipcMemHandle":   "IPCMemHandle",

	"CUmemPoolPtrExportData":          "MemPoolPtrExportData",
	"CU_DEV_SM_RESOURCE_GROUP_PARAMS": "DevSmResourceGroupParams",
	"CUjit_option":                    "uint32",
	"CUlogIterator":                   "uint32",

	"CUlogicalEndpointId":          "LogicalEndpointID",
	"CUtexObject":                  "TexObject",
	"CUsurfObject":                 "SurfObject",
	"CUmemGenericAllocationHandle": "MemGenericAllocationHandle",
	"CUgraphConditionalHandle":     "GraphConditionalHandle",
}

// handles are the types that are addresses of the driver's objects, and their types in Go.
var handles = map[string]string{
	"CUcontext": "Context", "CUstream": "Stream", "CUevent": "Event", "CUmodule": "Module", "CUfunction": "Function",
	"CUgraph": "Graph", "CUgraphExec": "GraphExec", "CUgraphNode": "GraphNode", "CUgreenCtx": "GreenCtx",
	"CUdevResourceDesc": "DevResourceDesc", "CUlibrary": "LibraryHandle", "CUkernel": "Kernel", "CUarray": "Array",
	"CUmipmappedArray": "MipmappedArray", "CUtexref": "TexRef", "CUsurfref": "SurfRef", "CUmemoryPool": "MemoryPool",
	"CUlinkState": "LinkState", "CUgraphicsResource": "GraphicsResource", "CUexternalMemory": "ExternalMemory",
	"CUexternalSemaphore": "ExternalSemaphore", "CUuserObject": "UserObject",
	"CUasyncCallbackHandle": "AsyncCallbackHandle", "CUlogsCallbackHandle": "LogsCallbackHandle",
	"CUgraphDeviceNode": "GraphDeviceNode", "CUcoredumpCallbackHandle": "CoredumpCallbackHandle",
	"CUcheckpointOperationHandle": "CheckpointOperationHandle",
}

// functionTypes are the types that are addresses of C functions.
var functionTypes = []string{"CUhostFn", "CUstreamCallback", "CUoccupancyB2DSize", "CUasyncCallback", "CUlogsCallback",
	"CUcoredumpStatusCallback", "CUgraphRecaptureCallback"}

// scalarType returns the Go type of a C type that is not a pointer.
func scalarType(m *manifest, name string) (string, bool) {
	if t, ok := goTypes[name]; ok {
		return t, true
	}
	if t, ok := handles[name]; ok {
		return t, true
	}
	if m.isEnum(name) {
		return "int32", true
	}
	if s, ok := m.structByName(name); ok {
		return m.structName(s), true
	}
	return "", false
}

// word returns the Go expression for the argument word of a value of type typ.
func word(typ, expr string) string {
	switch typ {
	case "int32", "Device", "Result":
		return "uintptr(uint32(" + expr + "))" // not sign-extended
	}
	return "uintptr(" + expr + ")"
}

// taken maps parameter names that emitted methods use for something else to other names.
var taken = map[string]string{
	"t": "tArg", "at": "atArg", "th": "thArg", "res": "resArg", "r": "rArg", "f": "function", "fn": "callback",
	"func": "function", "len": "n", "append": "more", "error": "code", "string": "text", "unsafe": "raw", "ccall": "c",
	"strings": "words", "math": "bits", "uintptr": "word", "type": "typ",
}

// goName returns the Go name for a C parameter.
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
