package raw

import (
	"errors"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/loader"
)

// Symbols is a loaded library, such as a [loader.Library].
type Symbols interface {
	// Symbol returns the address of an exported symbol.
	Symbol(export string) (uintptr, error)
}

// Library makes the calls to one NVML: a loaded library, or one in Go. It is safe for concurrent use. An address is
// looked up when it is first used. From then on a lookup is one atomic load.
type Library struct {
	lib   Symbols
	soft  unsafe.Pointer // of a Software, or nil; its type would bring the names of all its methods into every program
	procs [numSymbols]atomic.Uintptr
}

// Open loads the library, which path names, or which is searched for if path is "": see [loader.OpenLibrary]. It
// calls no function of the library: call [Library.InitV2] first.
func Open(path string) (*Library, error) {
	lib, err := loader.OpenLibrary(loader.NVML, path)
	if err != nil {
		return nil, err
	}
	return New(lib), nil
}

// New returns a Library that calls the functions of lib.
func New(lib Symbols) *Library { return &Library{lib: lib} }

// NewSoftware returns a Library that calls the methods of s, which must not be nil.
func NewSoftware(s Software) *Library { return &Library{soft: unsafe.Pointer(&s)} }

// software returns the NVML in Go, which there is.
func (l *Library) software() Software { return *(*Software)(l.soft) }

// symbol is the number of a function.
type symbol uint16

// export returns the name of the function in C.
func (s symbol) export() string {
	n := symbol(0)
	for name := range strings.FieldsSeq(symbolNames) {
		if n == s {
			return "nvml" + name
		}
		n++
	}
	return ""
}

// symbolOf returns the number of a function, such as nvmlDeviceGetName, if it has one.
func symbolOf(function string) (s symbol, ok bool) {
	name, _ := strings.CutPrefix(function, "nvml")
	for n := range strings.FieldsSeq(symbolNames) {
		if n == name {
			return s, true
		}
		s++
	}
	return 0, false
}

// class says how an engine calls the function. Any may wait for a GPU.
func (s symbol) class() ccall.Class {
	switch s {
	case symInit, symInitV2, symInitWithFlags, symShutdown: // may create threads, and a process
		return ccall.Setup
	}
	return ccall.Blocking
}

// absent is in place of the address of a function that the library lacks.
const absent = 1

// invoke calls a function with a frame of six words, which may be on the stack: no function of NVML calls back.
func (l *Library) invoke(s symbol, f unsafe.Pointer) Return {
	fn := l.procs[s].Load()
	if fn <= absent {
		var res Return
		if fn, res = l.resolve(s); fn == 0 {
			return res
		}
	}
	h := (*ccall.Head)(f)
	h.Fn = fn
	ccall.Call6(f, s.class(), nil)
	if r := Return(int32(h.R)); r != ccall.NoThread {
		return r
	}
	return NotCalled
}

// resolve looks a function up. If the library lacks it, fn is 0, and res says so.
func (l *Library) resolve(s symbol) (fn uintptr, res Return) {
	if l.procs[s].Load() == absent || l.lib == nil {
		return 0, missing(s)
	}
	fn, err := l.lib.Symbol(s.export())
	switch {
	case errors.Is(err, ccall.ErrNoThread): // the function need not be missing
		return 0, NotCalled
	case err != nil || fn == 0:
		l.procs[s].Store(absent)
		return 0, missing(s)
	}
	l.procs[s].Store(fn)
	return fn, NVML_SUCCESS
}

// Has reports whether the library has a function, such as "nvmlDeviceGetTemperatureV". It knows those that have a
// method. It is true for each of these if the NVML is one in Go, whose results say what it lacks.
func (l *Library) Has(function string) bool {
	s, ok := symbolOf(function)
	if !ok || l.soft != nil {
		return ok
	}
	fn, _ := l.resolve(s)
	return fn != 0
}

// ErrorString calls nvmlErrorString, which returns the library's text for a result. It returns that of [Return.Text] if
// the call cannot be made.
func (l *Library) ErrorString(result Return) string {
	if l.soft != nil {
		return l.software().ErrorString(result)
	}
	fn, _ := l.resolve(symErrorString)
	if fn == 0 {
		return result.Text()
	}
	var f ccall.Frame6
	f.Fn, f.A[0] = fn, uintptr(uint32(result))
	f.R = 0
	ccall.Call6(unsafe.Pointer(&f), ccall.Blocking, nil)
	if f.R == 0 || f.R == ccall.NoThread {
		return result.Text()
	}
	return goString(f.R)
}

// goString returns a copy of a string of C.
func goString(p uintptr) string {
	s := *(*unsafe.Pointer)(unsafe.Pointer(&p)) // memory that Go does not manage
	n := 0
	for *(*byte)(unsafe.Add(s, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(s), n))
}

// cString returns a copy of s for C, and false if a NUL in s would end it.
func cString(s string) (unsafe.Pointer, bool) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, false
	}
	return unsafe.Pointer(unsafe.SliceData(append([]byte(s), 0))), true
}

// address returns the address of the first value of a slice, or NULL.
func address[T any](s []T) unsafe.Pointer {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Pointer(unsafe.SliceData(s))
}

// fits reports whether a slice of length n has room for what the library may write, given the count for it. An empty
// slice is NULL, to which it writes nothing.
func fits(count *uint32, n int) bool { return n == 0 || count == nil || uint64(*count) <= uint64(n) }
