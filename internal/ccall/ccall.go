// Package ccall calls C functions that were found at run time, without cgo.
//
// It knows nothing of CUDA: it opens a library, looks a symbol up and calls an
// address with machine words. Four engines do the calling, chosen at build
// time: assembly thunks entered through runtime.cgocall (linux/amd64 and
// linux/arm64), the same thunks in a static program that brings the host's
// glibc up by itself (there, with -tags cu_static), purego's SyscallN (every
// other Unix, newer toolchains, and -tags cu_portable), and package syscall on
// Windows. Nothing above this package notices which.
//
// # Frames
//
// A call is described by a frame: a struct whose first word is the address of
// the C function, whose second word receives the result register, and whose
// next 6 (or 14, or 16) words are the arguments. Whatever follows belongs to the
// caller; an out-value of the C function is usually kept there. Callers declare
// a struct of this layout for each function, with Go pointers held in fields
// of type unsafe.Pointer:
//
//	f := struct {
//		fn, r uintptr
//		out   unsafe.Pointer
//		flags uintptr
//		_     [4]uintptr
//		event uintptr
//	}{fn: create, flags: 2}
//	f.out = unsafe.Pointer(&f.event)
//	ccall.Call6(unsafe.Pointer(&f), ccall.Hot, nil)
//
// The rule that makes this right: only the thunk sees an address as a number.
// A pointer that is converted to uintptr in Go code and passed on goes stale
// when a function prologue grows, and thereby moves, the goroutine's stack;
// a field of pointer type is adjusted with it. Once the thunk runs the stack
// cannot move, as the goroutine is in a system call as far as the runtime is
// concerned, with one exception: if C calls back into Go on the same thread,
// the callback runs on this very stack and may grow it. Frames of functions
// that can do this must be on the heap; see [Heap].
//
// # Files
//
//   - thunk*.go, enter_*.go, thunk_*.s: calls of C, by frames
//   - invoke.go, bind.go: slower calls that need no frame
//   - func*.go: Go functions that C calls
//   - library*.go: libraries and their symbols
//   - notifier_linux.go, notifier_other.go: how C wakes a goroutine
package ccall

import "unsafe"

// Class says what kind of work a C function does. An engine that has more than
// one way to enter C chooses by it; engines with one way ignore it.
type Class uint8

const (
	// Setup functions are called rarely, and may compile or start a process.
	Setup Class = iota
	// Hot functions do not wait for the device, unless a stream is full.
	Hot
	// Blocking functions may wait for the device.
	Blocking
)

// String returns the name that the manifest of symbols uses.
func (c Class) String() string {
	switch c {
	case Setup:
		return "setup"
	case Hot:
		return "hot"
	case Blocking:
		return "blocking"
	}
	return "unknown"
}

// Head is the part that all frames have in common.
type Head struct {
	// Fn is the address of the C function.
	Fn uintptr
	// R is the result register after the call. A C function that returns a
	// 32-bit value leaves garbage in the upper half: convert to int32.
	R uintptr
}

// Frame6 is a frame of up to six argument words that holds no Go pointers.
type Frame6 struct {
	Head
	A [6]uintptr
}

// Frame14 is a frame of up to fourteen argument words that holds no Go
// pointers.
type Frame14 struct {
	Head
	A [14]uintptr
}

// FrameWide is a frame of up to sixteen argument words, of which the last one or
// two may be floating-point numbers, that holds no Go pointers.
type FrameWide struct {
	Head
	A [16]uintptr
	// F are the floating-point numbers once more, as bits, in their order. C
	// receives them in registers of their own, except on Windows.
	F [2]uintptr
}

// NoThread is the result of a call that was not made because its thread could not be created. It is
// CUDA_ERROR_OPERATING_SYSTEM.
const NoThread = 304

// Each is a frame that calls a C function of up to three words once for each
// of N items, in one crossing, and stores the low 32 bits of each result. Go
// code fills it; the thunk reads it.
type Each struct {
	// Fn is the address of the C function.
	Fn uintptr
	// N is the number of calls.
	N uintptr
	// Results points to N values of 32 bits, which receive the results.
	Results unsafe.Pointer
	// A points to the first item's argument words and Stride, in bytes, is the
	// distance to the next item's: 0 passes the same word every time.
	A [3]struct {
		Base   unsafe.Pointer
		Stride uintptr
	}
}

// Scope runs a call between others that set up, and put back, the state that a
// C library keeps for the thread: in one crossing, so that the goroutine
// cannot migrate to another thread in between. Exchange, Push and Pop are the
// addresses of C functions; each is left out when zero. The steps, in order:
//
//   - Exchange(&mode): if it fails, nothing else happens;
//   - Push(Context): if it fails, neither the call nor Pop happens;
//   - the call;
//   - Pop(&popped); if Push is zero, only when the call returned 0: this is for
//     functions that push what they create, and does not apply to [Scope.Each],
//     which then leaves Pop out;
//   - Exchange(&mode) again, which puts the thread's own mode back.
//
// Each step fails by returning 32 bits that are not zero.
type Scope struct {
	Exchange, Push, Pop uintptr
	// Context is the argument of Push.
	Context uintptr
	// Mode is the first argument of Exchange.
	Mode int32
}

// scopeResults are the result registers of the steps of a scope. A step that
// was not taken has 0.
type scopeResults struct{ rExchange, rPush, rPop, rRestore uintptr }

// Step is a part of a [Scope].
type Step uint8

const (
	// None stands for no step.
	None Step = iota
	// Before is a step before the call, Exchange or Push. The call was not made.
	Before
	// Popping is Pop.
	Popping
	// Restoring is the second Exchange.
	Restoring
)

// Made reports whether the call was made, given that s is the first step that failed.
func (s Step) Made() bool { return s != Before }

// outcome returns the result of the first step around the call that failed, or
// 0, and which step that is.
func (s *scopeResults) outcome() (result int32, failed Step) {
	if r := int32(s.rExchange); r != 0 {
		return r, Before
	}
	if r := int32(s.rPush); r != 0 {
		return r, Before
	}
	if r := int32(s.rPop); r != 0 {
		return r, Popping
	}
	if r := int32(s.rRestore); r != 0 {
		return r, Restoring
	}
	return 0, None
}

// Heap returns p, and sees to it that the variable p points to is allocated on
// the heap. A frame must be there if the C function may call back into Go on
// the thread that calls it: the callback may grow, and so move, the
// goroutine's stack.
func Heap[T any](p *T) *T {
	return (*T)(escape(unsafe.Pointer(p)))
}

// alwaysFalse is never set. The compiler does not know this, and has to assume that escape stores
// its argument.
var alwaysFalse bool

//lint:ignore U1000 it is there to be written to
var escaped unsafe.Pointer

// escape returns p and makes the variable that p points to escape to the heap.
//
//go:noinline
func escape(p unsafe.Pointer) unsafe.Pointer {
	if alwaysFalse {
		escaped = p
	}
	return p
}
