//go:build !cu_static

package nvsandboxutils

import "github.com/ebitengine/purego"

// call calls a function of the library that the program has loaded with RTLD_GLOBAL.
func call(name string, args ...uintptr) Ret {
	f, err := purego.Dlsym(purego.RTLD_DEFAULT, name)
	if err != nil {
		return ERROR_FUNCTION_NOT_FOUND
	}
	r, _, _ := purego.SyscallN(f, args...)
	return Ret(int32(r))
}
