package cu

import (
	"fmt"
	"math"
	"reflect"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/races"
)

// Arg is an argument of a kernel, with a definite type: see [U32], [Ptr], [Value].
type Arg struct {
	bits uint64
	mem  *core.Mem // the memory whose address bits is, or nil
	// ref keeps the owner of mem from being collected. Without mem it is the address of the value
	// if the value does not fit into bits, or the argument's error.
	ref  any
	size uint32
	kind argKind
	// readOnly says that the kernel only reads mem, and extent how many bytes of it the kernel may
	// use. The race detector needs both.
	readOnly bool
	extent   uint64
}

// I32 passes a 32-bit signed integer.
func I32(v int32) Arg { return Arg{bits: uint64(uint32(v)), size: 4, kind: integerArg} }

// U32 passes a 32-bit unsigned integer.
func U32(v uint32) Arg { return Arg{bits: uint64(v), size: 4, kind: integerArg} }

// I64 passes a 64-bit signed integer.
func I64(v int64) Arg { return Arg{bits: uint64(v), size: 8, kind: integerArg} }

// U64 passes a 64-bit unsigned integer.
func U64(v uint64) Arg { return Arg{bits: v, size: 8, kind: integerArg} }

// F32 passes a 32-bit float.
func F32(v float32) Arg { return Arg{bits: uint64(math.Float32bits(v)), size: 4, kind: floatArg} }

// F64 passes a 64-bit float.
func F64(v float64) Arg { return Arg{bits: math.Float64bits(v), size: 8, kind: floatArg} }

// ConstPtr is [Ptr] for memory that the kernel only reads. The driver makes no difference between
// the two, but [Driver.DetectRaces] does: kernels on two streams may read the same memory.
func ConstPtr(m Memory) Arg {
	a := Ptr(m)
	a.readOnly = true
	return a
}

// Ptr passes the address of memory. The memory is not freed before the kernel has run.
func Ptr(m Memory) Arg {
	of := spanOf(m)
	s := of.core()
	switch {
	case s.Err() != nil:
		return Arg{ref: argError{s.Err()}}
	case s.Mem == nil:
		return Arg{ref: argError{ErrNil}}
	case s.Mem.Raw == 0:
		return Arg{ref: argError{core.ErrUnmapped}}
	}
	r := s.Region()
	if r.Err != nil {
		return Arg{ref: argError{r.Err}}
	}
	return Arg{bits: uint64(r.Addr()), size: 8, kind: integerArg, mem: s.Mem, ref: s.Owner, extent: r.Size}
}

// Value passes the bytes of a value whose type contains no Go pointers. The kernel's type must have
// the same layout. A struct or an array may be passed for anything of its size.
func Value[T any](v T) Arg {
	t := reflect.TypeFor[T]()
	if !plain(t, true) {
		return Arg{ref: argError{
			fmt.Errorf("%w: a %v contains Go pointers or has no fixed layout", core.ErrInvalid, t)}}
	}
	n := t.Size()
	data := make([]byte, max(n, 1))
	copy(data, bytesAt(&v, uint64(n)))
	return Arg{ref: &data[0], size: uint32(n), kind: kindOf(t)}
}

// kindOf returns the kind of values of a type.
func kindOf(t reflect.Type) argKind {
	switch k := t.Kind(); {
	case k == reflect.Float32 || k == reflect.Float64:
		return floatArg
	case k <= reflect.Uintptr: // also a bool
		return integerArg
	}
	return anyArg
}

// argKind says what an argument is, or what a parameter of a kernel takes. Signed and unsigned integers, and
// addresses, are the same.
type argKind uint8

const (
	integerArg argKind = 1 << iota
	floatArg           // of 32 or 64 bits
	anyArg     = integerArg | floatArg
)

// kernelParam is a parameter of a kernel.
type kernelParam struct {
	size  uint32 // in bytes
	takes argKind
}

// fits reports whether the parameter takes an argument.
func (p kernelParam) fits(a *Arg) bool { return a.size == p.size && a.kind&p.takes != 0 }

// bytes returns the address of a value that does not fit into bits, or nil.
func (a *Arg) bytes() *byte {
	p, _ := a.ref.(*byte)
	return p
}

// err returns the mistake in the argument, or nil.
func (a *Arg) err() error {
	err, _ := a.ref.(argError)
	return err.error
}

// argError is the error of an argument. It is a type of its own, because a type switch is faster
// than a test whether the owner of memory is an error.
type argError struct{ error }

// setIn makes it the i-th argument for the driver. It returns the argument's error, if there is one.
func (a *Arg) setIn(k *core.KernelArgs, i int) error {
	var at *byte
	if a.mem == nil && a.ref != nil {
		if err := a.err(); err != nil {
			return err
		}
		at = a.bytes()
	}
	k.Set(i, a.bits, a.size, at)
	return nil
}

// used returns the uses of memory by a kernel with these arguments.
func used(args []Arg) []races.Use {
	var uses []races.Use
	for i := range args {
		a, as := &args[i], fmt.Sprintf("argument %d", i)
		switch {
		case a.mem != nil:
			off := a.bits - uint64(a.mem.Raw)
			uses = append(uses, a.mem.Used(off, a.extent, !a.readOnly, as))
		case a.size == 8 && a.ref == nil:
			uses = append(uses, races.Use{Addr: a.bits, Address: true, As: as})
		}
	}
	return uses
}
