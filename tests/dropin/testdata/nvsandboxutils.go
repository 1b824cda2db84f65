// Package nvsandboxutils takes the place of the cgo file of the container toolkit's internal/nvsandboxutils: it makes
// the calls to the library without cgo.
package nvsandboxutils

import "unsafe"

// heap moves a variable to the heap, so that its address stays.
var heap []any

func address[T any](p *T) uintptr {
	heap = append(heap, p)
	return uintptr(unsafe.Pointer(p))
}

func nvSandboxUtilsInit(input *InitInput) Ret { return call("nvSandboxUtilsInit", address(input)) }

func nvSandboxUtilsShutdown() Ret { return call("nvSandboxUtilsShutdown") }

func nvSandboxUtilsGetDriverVersion(version *byte, length uint32) Ret {
	return call("nvSandboxUtilsGetDriverVersion", address(version), uintptr(length))
}

func nvSandboxUtilsGetGpuResource(request *GpuRes) Ret {
	return call("nvSandboxUtilsGetGpuResource", address(request))
}

func nvSandboxUtilsGetFileContent(path *byte, content *byte, size *uint32) Ret {
	return call("nvSandboxUtilsGetFileContent", address(path), address(content), address(size))
}

// goString returns a copy of a string of C.
func goString(p *int8) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(unsafe.Pointer(p)), n))
}
