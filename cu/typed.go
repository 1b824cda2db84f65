package cu

import (
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
)

// The functions of this file work with any type whose values contain no Go pointers and have the
// same size on every platform: numbers with a fixed size, and arrays and structs of these. int and
// uint are not among them, nor is bool, because the GPU can write bytes that are no bool. A struct
// has Go's layout, including padding.

// AllocFor allocates device memory for n values of type T, as [Context.Alloc] does. The content is
// undefined.
func AllocFor[T any](c *Context, n int) (*DeviceMem, error) {
	size, problem := sizeOf[T](n)
	if problem != "" {
		return nil, drivercall.BadValue("cuMemAlloc", c.object(), problem)
	}
	return c.Alloc(size)
}

// AllocFrom allocates device memory, and copies the values of src to it: see [Context.Alloc] and
// [CopyFrom]. It fails if src is empty.
func AllocFrom[T any](c *Context, src []T) (*DeviceMem, error) {
	m, err := AllocFor[T](c, len(src))
	if err != nil {
		return nil, err
	}
	if err := CopyFrom(m, src); err != nil {
		m.Close() // the error of the copy says more
		return nil, err
	}
	return m, nil
}

// AllocHostFor allocates pinned host memory for n values of type T, as [Context.AllocHost] does.
func AllocHostFor[T any](c *Context, n int, flags HostFlags) (*HostMem, error) {
	size, problem := sizeOf[T](n)
	if problem != "" {
		return nil, drivercall.BadValue("cuMemHostAlloc", c.object(), problem)
	}
	return c.AllocHost(size, flags)
}

// CopyFrom copies the values of src to the beginning of the device memory, and returns when the copy
// is done. See [DeviceMem.CopyFrom] for its order with other work, and for when it waits.
func CopyFrom[T any](m *DeviceMem, src []T) error {
	b, err := bytesOf("cuMemcpyHtoD", m.object(), src)
	if err != nil {
		return err
	}
	return m.CopyFrom(b)
}

// CopyTo copies values from the beginning of the device memory to dst, and returns when dst is
// filled. It does not wait for work on non-blocking streams: synchronize the stream that computes the
// values first. See [DeviceMem.CopyTo].
func CopyTo[T any](m *DeviceMem, dst []T) error {
	b, err := bytesOf("cuMemcpyDtoH", m.object(), dst)
	if err != nil {
		return err
	}
	return m.CopyTo(b)
}

// View calls f with the pinned memory as a slice of T. If the size of the memory is not a multiple
// of T's, the slice leaves the last bytes out. See [HostMem.View]: f must not keep the slice.
func View[T any](m *HostMem, f func(v []T) error) error {
	const op = "HostMem.View"
	size, problem := sizeOf[T](1)
	switch {
	case problem != "":
		return drivercall.BadValue(op, m.object(), problem)
	case f == nil:
		return errNoView(op, m)
	}
	return m.View(func(b []byte) error {
		n := uint64(len(b)) / size
		if n == 0 {
			return f(nil)
		}
		if align := uintptr(reflect.TypeFor[T]().Align()); uintptr(memstate.HostAddress(b))%align != 0 {
			return drivercall.BadValue(op, m.object(), fmt.Sprintf(
				"the registered memory is not aligned for a %v, which takes a multiple of %d", reflect.TypeFor[T](),
				align))
		}
		// The conversion is valid: the memory has n*size bytes, and is aligned for T. It belongs to C, or
		// the HostMem keeps it. Any bytes are a value of T, and contain no Go pointer.
		return f(unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n))
	})
}

// SpanOf returns the span of n values of type T, from the value with index first. If they exceed the
// memory, every use of the Span fails.
func SpanOf[T any](m Memory, first, n int) Span {
	s := spanOf(m)
	off, problem := sizeOf[T](first)
	var size uint64
	if problem == "" {
		size, problem = sizeOf[T](n)
	}
	if problem == "" {
		return s.Span(off, size)
	}
	if s.core().Err() == nil {
		s.core().Fail(fmt.Errorf("%w: %s", drivercall.ErrInvalid, problem))
	}
	return s
}

// sizeOf returns the size of n values of type T in bytes, or what is wrong with T or n.
func sizeOf[T any](n int) (size uint64, problem string) {
	t := reflect.TypeFor[T]()
	size = uint64(t.Size())
	switch {
	case !plain(t, false):
		return 0, fmt.Sprintf("the memory of a %v is not plain numbers of a fixed size: use types such as float32, "+
			"int32 and uint8, and arrays and structs of them", t)
	case size == 0:
		return 0, fmt.Sprintf("a %v has no bytes", t)
	case n < 0:
		return 0, fmt.Sprintf("%d values of type %v: the number must not be negative", n, t)
	case uint64(n) > math.MaxInt64/size:
		return 0, fmt.Sprintf("%d values of type %v are too many", n, t)
	}
	return uint64(n) * size, ""
}

// bytesOf returns the memory of a slice as bytes.
func bytesOf[T any](op string, of drivercall.Named, s []T) ([]byte, error) {
	size, problem := sizeOf[T](len(s))
	if problem != "" {
		return nil, drivercall.BadValue(op, of, problem)
	}
	if size == 0 {
		return nil, nil
	}
	return bytesAt(&s[0], size), nil
}

// bytesAt returns the memory at p. The rule that makes it correct: p is a variable, or the first of
// several, of size bytes together, and of a plain type, so that the memory contains no pointers.
func bytesAt[T any](p *T, size uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), size)
}

// plain reports whether a type has no pointers, and the same size on all platforms. A bool is plain
// if bools is set.
func plain(t reflect.Type, bools bool) bool {
	switch t.Kind() {
	case reflect.Bool:
		return bools
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128,
		reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Array:
		return plain(t.Elem(), bools)
	case reflect.Struct:
		for i := range t.NumField() {
			if !plain(t.Field(i).Type, bools) {
				return false
			}
		}
		return true
	}
	return false
}
