//go:build cu_static

package nvsandboxutils

// call would call a function of the library. A static program has no loader that finds it.
func call(string, ...uintptr) Ret { return ERROR_FUNCTION_NOT_FOUND }
