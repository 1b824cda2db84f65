package sim

import (
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// arrayOf returns the address of the elements of a list for the program, 0 without any.
func arrayOf[T any](list []T) driver.HostPtr {
	if len(list) == 0 {
		return 0
	}
	return driver.HostPtr(uintptr(unsafe.Pointer(unsafe.SliceData(list))))
}

// foreignBytes returns memory of other code, which must not move. Only touch may read and write it.
func foreignBytes(p driver.HostPtr, n uint64) []byte {
	// A conversion through a pointer, as the address is a number.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n)
}

// foreignWord returns a word of memory of other code. Only touch may read and write it.
func foreignWord(p driver.HostPtr) *uint32 { return *(**uint32)(unsafe.Pointer(&p)) }

// touch calls f, which accesses memory of other code, and reports whether the memory was mapped.
func touch(f func()) (there bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { there = recover() == nil }()
	f()
	return there
}

// pointers returns an array of C as a slice.
func pointers(array unsafe.Pointer, n int) []unsafe.Pointer {
	return unsafe.Slice((*unsafe.Pointer)(array), n)
}

// elements returns the elements of an array of C, or nil.
func elements[T any, N uint32 | uint64](p *T, n N) []T {
	if p == nil {
		return nil
	}
	return unsafe.Slice(p, n)
}

// packed is the content of an array of CU_LAUNCH_PARAM_…: the address and the size of a buffer with
// all arguments of a kernel.
type packed struct {
	data unsafe.Pointer
	size uint64
}

// unpack reads an array of CU_LAUNCH_PARAM_….
func unpack(extra unsafe.Pointer) (p packed, r driver.Result) {
	for at := extra; ; at = unsafe.Add(at, 2*unsafe.Sizeof(at)) {
		key, value := *(*uintptr)(at), (*unsafe.Pointer)(unsafe.Add(at, unsafe.Sizeof(at)))
		switch {
		case key == driver.CU_LAUNCH_PARAM_END_AS_INT:
			return p, ok
		case key == driver.CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT:
			p.data = *value
		case key == driver.CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT && *value != nil: // NVIDIA's driver crashes if it is NULL
			p.size = *(*uint64)(*value)
		default:
			return p, driver.ResultInvalidValue
		}
	}
}

// attributesOf returns the attributes of a launch.
func attributesOf(c *driver.LaunchConfig) ([]driver.LaunchAttribute, driver.Result) {
	if c.Count > 0 && c.Attributes == nil {
		return nil, driver.ResultInvalidValue
	}
	return unsafe.Slice(c.Attributes, c.Count), ok
}

// copyArgument copies the value of a kernel's argument, which is as long as dst.
func copyArgument(dst []byte, p unsafe.Pointer) { copy(dst, unsafe.Slice((*byte)(p), len(dst))) }

// load32, load64, store32 and store64 access an aligned word of memory that the program may access
// at the same time.

func load32(b []byte) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[0]))) }

func load64(b []byte) uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[0]))) }

func store32(b []byte, v uint32) { atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[0])), v) }

func store64(b []byte, v uint64) { atomic.StoreUint64((*uint64)(unsafe.Pointer(&b[0])), v) }

// address is the address of an argument.
type address = unsafe.Pointer

// addresses returns the addresses of arguments. Arguments have a byte at least, and do not move while
// the list exists.
func addresses(n int, at func(i int) []byte) []unsafe.Pointer {
	list := make([]unsafe.Pointer, n)
	for i := range list {
		list[i] = unsafe.Pointer(unsafe.SliceData(at(i)))
	}
	return list
}

// array returns the address of a list of addresses, or nil.
func array(list []unsafe.Pointer) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(list)) }

// first returns the address of the first element, or nil.
func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}
