//go:build cgo

package cgocost

/*
#include <stdint.h>

#cgo noescape query
#cgo nocallback query

static int query(uintptr_t fn, uint64_t handle) {
	return ((int (*)(uint64_t))fn)(handle);
}
*/
import "C"

// Query calls the C function at fn with a handle.
func Query(fn, handle uintptr) int32 {
	return int32(C.query(C.uintptr_t(fn), C.uint64_t(handle)))
}
