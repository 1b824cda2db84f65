package ccall

import "runtime"

// StructsOnStack tells how a C function receives a struct that is larger than
// 16 bytes and passed by value: as a copy among the stack arguments if true
// (System V on amd64), as a pointer to a copy, in place of the struct, if
// false (arm64, Windows).
const StructsOnStack = runtime.GOARCH == "amd64" && runtime.GOOS != "windows"
