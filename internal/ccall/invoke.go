package ccall

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// Invoke calls the C function at fn with up to fourteen arguments and returns the result register.
// It is convenient, but slow. An argument is an integer, a string, which C receives as a
// NUL-terminated copy, or a *uintptr, *int32 or *uint64, through which C may write. Invoke returns
// an error for arguments of other types, for a string with an interior NUL, for too many arguments,
// and if the call cannot be made (ErrNoThread).
func Invoke(fn uintptr, class Class, args ...any) (r uintptr, err error) {
	f := Heap(new(Frame14))
	f.Fn = fn
	if len(args) > len(f.A) {
		return 0, fmt.Errorf("ccall: %d arguments, of at most %d", len(args), len(f.A))
	}
	var keep []any
	for i, a := range args {
		// Converting these addresses to numbers is safe: escape moves the variables to the heap,
		// where they do not move, and keep keeps them alive.
		switch a := a.(type) {
		case uintptr:
			f.A[i] = a
		case int:
			f.A[i] = uintptr(a)
		case int32:
			f.A[i] = uintptr(uint32(a))
		case uint64:
			f.A[i] = uintptr(a)
		case string:
			if strings.IndexByte(a, 0) >= 0 {
				return 0, fmt.Errorf("ccall: argument %d, %q, has an interior NUL", i, a)
			}
			b := append([]byte(a), 0)
			f.A[i] = uintptr(escape(unsafe.Pointer(&b[0])))
			keep = append(keep, b)
		case *uintptr:
			f.A[i] = uintptr(escape(unsafe.Pointer(a)))
			keep = append(keep, a)
		case *int32:
			f.A[i] = uintptr(escape(unsafe.Pointer(a)))
			keep = append(keep, a)
		case *uint64:
			f.A[i] = uintptr(escape(unsafe.Pointer(a)))
			keep = append(keep, a)
		default:
			return 0, fmt.Errorf("ccall: argument %d is a %T", i, a)
		}
	}
	made := Call14(unsafe.Pointer(f), class, nil)
	runtime.KeepAlive(keep)
	if !made {
		return 0, ErrNoThread
	}
	return f.R, nil
}
