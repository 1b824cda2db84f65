package launch

import (
	"fmt"
	"reflect"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/races"
)

// Arg is an argument of a kernel.
type Arg struct {
	Bits uint64
	Mem  *memstate.Mem // the memory whose address Bits is, or nil
	// Ref keeps the owner of Mem from being collected. Without Mem it is the address of the value
	// if the value does not fit into Bits, or the argument's error.
	Ref  any
	Size uint32
	Kind Kind
	// ReadOnly says that the kernel only reads Mem, and Extent how many bytes of it the kernel may
	// use. The race detector needs both.
	ReadOnly bool
	Extent   uint64
}

// BadArg returns an argument with a mistake.
func BadArg(err error) Arg { return Arg{Ref: argError{err}} }

// Kind says what an argument is, or what a parameter of a kernel takes. Signed and unsigned integers, and
// addresses, are the same.
type Kind uint8

const (
	// Integer is an integer or an address.
	Integer Kind = 1 << iota
	// Float has 32 or 64 bits.
	Float
	// Any is a value of any type.
	Any = Integer | Float
)

// KindOf returns the kind of values of a type.
func KindOf(t reflect.Type) Kind {
	switch k := t.Kind(); {
	case k == reflect.Float32 || k == reflect.Float64:
		return Float
	case k <= reflect.Uintptr: // also a bool
		return Integer
	}
	return Any
}

// Param is a parameter of a kernel.
type Param struct {
	Size  uint32 // in bytes
	Takes Kind
}

// Fits reports whether the parameter takes an argument.
func (p Param) Fits(a *Arg) bool { return a.Size == p.Size && a.Kind&p.Takes != 0 }

// bytes returns the address of a value that does not fit into Bits, or nil.
func (a *Arg) bytes() *byte {
	p, _ := a.Ref.(*byte)
	return p
}

// err returns the mistake in the argument, or nil.
func (a *Arg) err() error {
	err, _ := a.Ref.(argError)
	return err.error
}

// argError is the error of an argument. It is a type of its own, because a type switch is faster
// than a test whether the owner of memory is an error.
type argError struct{ error }

// SetIn makes it the i-th argument for the driver. It returns the argument's error, if there is one.
func (a *Arg) SetIn(k *core.KernelArgs, i int) error {
	var at *byte
	if a.Mem == nil && a.Ref != nil {
		if err := a.err(); err != nil {
			return err
		}
		at = a.bytes()
	}
	k.Set(i, a.Bits, a.Size, at)
	return nil
}

// Uses returns the uses of memory by a kernel with n arguments.
func Uses(n int, arg func(i int) *Arg) (uses []races.Use) {
	for i := range n {
		a, as := arg(i), fmt.Sprintf("argument %d", i)
		switch {
		case a.Mem != nil:
			uses = append(uses, a.Mem.Used(a.Bits-uint64(a.Mem.Raw), a.Extent, !a.ReadOnly, as))
		case a.Size == 8 && a.Ref == nil:
			uses = append(uses, races.Use{Addr: a.Bits, Address: true, As: as})
		}
	}
	return uses
}
