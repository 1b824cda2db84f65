package cu

import (
	"fmt"
	"math"
	"reflect"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/launch"
	"github.com/purecu/purecu/internal/memstate"
)

// Arg is an argument of a kernel, with a definite type: see [U32], [Ptr], [Value].
type Arg struct{ argValue }

// argValue is an alias, so that the field of an Arg is not exported.
type argValue = core.Value[launch.Arg]

func (a *Arg) core() *launch.Arg { return core.ValueIn(&a.argValue) }

func number(bits uint64, size uint32, kind launch.Kind) Arg {
	return Arg{core.ValueTo(launch.Arg{Bits: bits, Size: size, Kind: kind})}
}

func badArg(err error) Arg { return Arg{core.ValueTo(launch.BadArg(err))} }

// I32 passes a 32-bit signed integer.
func I32(v int32) Arg { return number(uint64(uint32(v)), 4, launch.Integer) }

// U32 passes a 32-bit unsigned integer.
func U32(v uint32) Arg { return number(uint64(v), 4, launch.Integer) }

// I64 passes a 64-bit signed integer.
func I64(v int64) Arg { return number(uint64(v), 8, launch.Integer) }

// U64 passes a 64-bit unsigned integer.
func U64(v uint64) Arg { return number(v, 8, launch.Integer) }

// F32 passes a 32-bit float.
func F32(v float32) Arg { return number(uint64(math.Float32bits(v)), 4, launch.Float) }

// F64 passes a 64-bit float.
func F64(v float64) Arg { return number(math.Float64bits(v), 8, launch.Float) }

// ConstPtr is [Ptr] for memory that the kernel only reads. The driver makes no difference between
// the two, but [Driver.DetectRaces] does: kernels on two streams may read the same memory.
func ConstPtr(m Memory) Arg {
	a := Ptr(m)
	a.core().ReadOnly = true
	return a
}

// Ptr passes the address of memory. The memory is not freed before the kernel has run.
func Ptr(m Memory) Arg {
	of := spanOf(m)
	s := of.core()
	switch {
	case s.Err() != nil:
		return badArg(s.Err())
	case s.Mem == nil:
		return badArg(ErrNil)
	case s.Mem.Raw == 0:
		return badArg(memstate.ErrUnmapped)
	}
	r := s.Region()
	if r.Fault != nil {
		return badArg(r.Fault.Err)
	}
	return Arg{core.ValueTo(launch.Arg{Bits: uint64(r.Addr()), Size: 8, Kind: launch.Integer, Mem: s.Mem, Ref: s.Owner,
		Extent: r.Size})}
}

// Value passes the bytes of a value whose type contains no Go pointers. The kernel's type must have
// the same layout. A struct or an array may be passed for anything of its size.
func Value[T any](v T) Arg {
	t := reflect.TypeFor[T]()
	if !plain(t, true) {
		return badArg(fmt.Errorf("%w: a %v contains Go pointers or has no fixed layout", drivercall.ErrInvalid, t))
	}
	n := t.Size()
	data := make([]byte, max(n, 1))
	copy(data, bytesAt(&v, uint64(n)))
	return Arg{core.ValueTo(launch.Arg{Ref: &data[0], Size: uint32(n), Kind: launch.KindOf(t)})}
}
