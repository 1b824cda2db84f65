package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
	"github.com/purecu/purecu/internal/sim/environment"
)

// library is the driver with the interface that the C code needs.
type library struct {
	d     *sim.Driver
	ready atomic.Bool // cuInit has succeeded

	// The functions that call C functions, which need cgo.
	callHost   func(f, data uintptr)
	callStream func(f, stream uintptr, status driver.Result, data uintptr)
	// copyText copies a string to C memory, with a NUL, or returns 0 if there is none. Go code must not write
	// it there, as the garbage collector must not read the old content, which may look like a pointer.
	copyText func(s string) uintptr

	mu    sync.Mutex
	texts map[string]uintptr
}

// maxWords is the largest number of arguments of a call.
const maxWords = 16

// newLibrary returns a library with a driver.
func newLibrary(d *sim.Driver) *library {
	return &library{d: d, texts: make(map[string]uintptr)}
}

// configured returns a driver with the options that the environment asks for, and others. newest is the
// version of the library, and the newest that the driver can have.
func configured(newest int, environ func() []string, stderr io.Writer, others ...sim.Option) (*sim.Driver, error) {
	opts, err := environment.Options(environ, stderr)
	if err != nil {
		return nil, err
	}
	d := sim.New(slices.Concat([]sim.Option{sim.Version(newest)}, opts, others)...)
	if v, _ := d.DriverGetVersion(nil); int(v) > newest {
		return nil, fmt.Errorf("CUSIM_DRIVER_VERSION is %v, and the library was built for CUDA %v", driver.Version(v),
			driver.Version(newest))
	}
	return d, nil
}

// init is cuInit.
func (l *library) init(flags uint64) driver.Result {
	r := l.d.Init(nil, uint32(flags))
	if r == driver.ResultSuccess {
		l.ready.Store(true)
	}
	return r
}

// refuse returns the result of a call with an invalid argument.
func (l *library) refuse(r driver.Result) driver.Result {
	if !l.ready.Load() {
		return driver.ResultNotInitialized
	}
	return r
}

// These are what a function checks before an argument that is refused.
const (
	inContext  = 1 << iota // a context is current
	uncaptured             // no capture that forbids the call is under way
)

// refuseAfter is refuse for a function that makes other checks first.
func (l *library) refuseAfter(th *driver.Thread, function string, first uint8) driver.Result {
	return l.d.Refuse(th, function, first&inContext != 0, first&uncaptured != 0)
}

// begin begins a call of a function that C implements with other functions: with a fault for it, and with what the
// function checks before its arguments.
func (l *library) begin(th *driver.Thread, function string) driver.Result {
	r := l.d.MeetFault(function)
	if r == driver.ResultSuccess {
		first := firstChecks[function]
		r = l.d.CheckFirst(th, first&inContext != 0, first&uncaptured != 0)
	}
	return r
}

// ends reports whether a call ends something, or only asks: such calls are made while memory is short.
func ends(number uint32) bool {
	return int(number) < len(callNames) && slices.Contains(endings, callNames[number])
}

// storeText is store for a string, which becomes a C string that is never freed.
func (l *library) storeText(r driver.Result, p *uintptr, s string) driver.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r == driver.ResultSuccess && l.texts[s] == 0 {
		if l.texts[s] = l.copyText(s); l.texts[s] == 0 {
			r = driver.ResultOutOfMemory
		}
	}
	return store(r, p, l.texts[s])
}

// hostFunc returns a callback that calls a CUhostFn.
func (l *library) hostFunc(f, data uint64) driver.Callback {
	if f == 0 {
		return driver.Callback{}
	}
	return driver.Callback{Addr: uintptr(f), Data: uintptr(data), Go: func() { l.callHost(uintptr(f), uintptr(data)) }}
}

// streamCallback returns a callback that calls a CUstreamCallback.
func (l *library) streamCallback(stream, f, data uint64) driver.Callback {
	if f == 0 {
		return driver.Callback{}
	}
	return driver.Callback{GoStatus: func(status driver.Result) {
		l.callStream(uintptr(f), uintptr(stream), status, uintptr(data))
	}}
}

// pointer returns the pointer in a word.
func pointer[T any](word *uint64) *T { return *(**T)(unsafe.Pointer(word)) }

// kernelParams returns the arguments of a kernel from the last two arguments of a launch.
func kernelParams(params, extra *uint64) driver.KernelParams {
	p := driver.KernelParams{Array: unsafe.Pointer(pointer[byte](params))}
	if extra != nil {
		p.Extra = unsafe.Pointer(pointer[byte](extra))
	}
	return p
}

// store stores a value at p, unless the call failed. A nil p is an error. The value has no
// pointers, as the garbage collector would read the pointer that it replaces.
func store[T any](r driver.Result, p *T, v T) driver.Result {
	switch {
	case r != driver.ResultSuccess:
		return r
	case p == nil:
		return driver.ResultInvalidValue
	}
	*p = v
	return r
}

// offer stores a value at p, unless the call failed or p is nil.
func offer[T any](r driver.Result, p *T, v T) driver.Result {
	if r == driver.ResultSuccess && p != nil {
		*p = v
	}
	return r
}

// offerCaptured is offer for what is stored only if the stream is being captured.
func offerCaptured[T any](r driver.Result, p *T, status int32, v T) driver.Result {
	if status == driver.CU_STREAM_CAPTURE_STATUS_NONE {
		return r
	}
	return offer(r, p, v)
}

// require is store for functions in which an H100 returns another error for a nil p.
func require[T any](r driver.Result, p *T, v T) driver.Result {
	if r == driver.ResultSuccess && p == nil {
		return driver.ResultInvalidHandle
	}
	return store(r, p, v)
}

// offerAlways stores a value at p unless p is nil, also if the call failed.
func offerAlways[T any](r driver.Result, p *T, v T) driver.Result {
	if p != nil {
		*p = v
	}
	return r
}

// unset stores the zero value at p unless p is nil.
func unset[T any](p *T) {
	if p != nil {
		*p = *new(T)
	}
}

// valueAt returns the value at p, or the zero value if p is nil.
func valueAt[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// room returns the length that a word points to.
func room[T uint32 | uint64](word *uint64) uint64 {
	if p := pointer[T](word); p != nil {
		return uint64(*p)
	}
	return 0
}

// slice returns n values that a word points to. there is false if this is not possible.
func slice[T any](word *uint64, n uint64) (s []T, there bool) {
	p := pointer[T](word)
	if p == nil {
		return nil, n == 0
	}
	if n > math.MaxInt/uint64(unsafe.Sizeof(*p)) {
		return nil, false
	}
	return unsafe.Slice(p, n), true
}

// sliceIfAny returns n values that a word points to, or nil if it points to nothing.
func sliceIfAny[T any](word *uint64, n uint64) (s []T, there bool) {
	if *word == 0 {
		return nil, true
	}
	return slice[T](word, n)
}

// text returns a string that a word points to.
func text(word *uint64) (s string, there bool) {
	b, there := terminated(word)
	return string(bytes.TrimSuffix(b, []byte{0})), there
}

// textIfAny returns a string that a word points to, or "" for NULL.
func textIfAny(word *uint64) string {
	s, _ := text(word)
	return s
}

// image returns the module image that a word points to: a text, the beginning of a cubin, or a
// fatbin. The wrapper that nvcc puts around a fatbin has its address.
func image(word *uint64) (b []byte, there bool) {
	p := pointer[[4]byte](word)
	if p == nil {
		return nil, false
	}
	const elf, fatbin, wrapper = "\x7fELF", "\x50\xed\x55\xba", "\xb1\x43\x62\x46"
	for i := range p { // byte by byte: a text may be shorter
		if p[i] != elf[i] && p[i] != fatbin[i] && p[i] != wrapper[i] {
			return terminated(word)
		}
	}
	switch string(p[:]) {
	case fatbin:
		const header = 16
		b = readable((*byte)(unsafe.Pointer(p)), header)
		if len(b) == header {
			b = readable(&b[0], header+min(*(*uint64)(unsafe.Pointer(&b[8])), mostFatbin))
		}
		return b, true
	case wrapper:
		inner := (*uint64)(unsafe.Add(unsafe.Pointer(p), 8))
		if q := pointer[[4]byte](inner); q != nil && string(q[:]) == fatbin {
			return image(inner)
		}
	}
	return p[:], true
}

// mostFatbin is the largest size of a fatbin without its header, in bytes.
const mostFatbin = 1 << 32

// readable returns the bytes at p, n at most, before the first page that cannot be read: C may have
// given a wrong size.
func readable(p *byte, n uint64) (b []byte) {
	const page = 4096
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _ = recover() }() // b has what was read
	for at := uint64(0); at < n; {
		_ = touched(unsafe.Add(unsafe.Pointer(p), at))
		at = min(n, at+page-uint64(uintptr(unsafe.Add(unsafe.Pointer(p), at)))%page)
		b = unsafe.Slice(p, at)
	}
	return b
}

// touched reads a byte.
//
//go:noinline
func touched(p unsafe.Pointer) byte { return *(*byte)(p) }

// terminated returns the bytes that a word points to, up to and including a NUL.
func terminated(word *uint64) (b []byte, there bool) {
	p := pointer[byte](word)
	if p == nil {
		return nil, false
	}
	n := 1
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n-1)) != 0 {
		n++
	}
	return unsafe.Slice(p, n), true
}

// storePart stores the first size bytes of a value at p, unless the call failed. A nil p is an error.
func storePart[T any](r driver.Result, p *byte, v T, size int) driver.Result {
	switch {
	case r != driver.ResultSuccess:
		return r
	case p == nil:
		return driver.ResultInvalidValue
	}
	copy(unsafe.Slice(p, size), unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
	return r
}

// loadPart returns the value of which C has only the first size bytes, which are at p.
func loadPart[T any](p *byte, size int) (v T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)), unsafe.Slice(p, size))
	return v
}

// memPoolAttributeSize returns the size of the value of an attribute of a memory pool.
func memPoolAttributeSize(attr int32) int {
	if attr >= driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD {
		return 8
	}
	return 4
}

// graphMemAttributeSize returns the size of the value of an attribute of the memory of graphs.
func graphMemAttributeSize(int32) int { return 8 }

// shareableHandleSize returns the size of a handle of memory.
func shareableHandleSize(handleType int32) int {
	switch handleType {
	case driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
		return 4
	case driver.CU_MEM_HANDLE_TYPE_FABRIC:
		return 64
	}
	return 8
}

// pointerAttributeSize returns the size of the value of an attribute of an address.
func pointerAttributeSize(attribute int32) int { return sim.PointerAttributeSize(attribute) }
