package ccall

import "runtime"

// StructsOnStack says how a C function receives a struct of more than 16 bytes by value: as a copy
// among the stack arguments if true (System V on amd64), and as a pointer to a copy if false
// (arm64, Windows).
const StructsOnStack = runtime.GOARCH == "amd64" && runtime.GOOS != "windows"
