//go:build linux && (amd64 || arm64) && !go1.28 && (!cu_portable || cu_static)

package ccall

import (
	"runtime"
	"unsafe"
)

// Addresses of the thunks in the assembly file. They are C functions with one argument, the frame.
var call6ABI0, call14ABI0, callWideABI0, eachABI0, scopeABI0 unsafe.Pointer

// Call6 calls the function of a frame of six argument words. f points to it.
func Call6(f unsafe.Pointer, c Class, on *Thread) {
	if !enter(call6ABI0, f, c) {
		(*Head)(f).R = NoThread
	}
}

// Call14 calls the function of a frame of fourteen argument words. f points to it. It reports false
// if the call was not made: in a static program the thread that it needs may not be available.
func Call14(f unsafe.Pointer, c Class, on *Thread) (made bool) {
	if made = enter(call14ABI0, f, c); !made {
		(*Head)(f).R = NoThread
	}
	return made
}

// CallWide calls the function of a [FrameWide]. f points to it. See [Call14].
func CallWide(f unsafe.Pointer, c Class, on *Thread) (made bool) {
	if made = enter(callWideABI0, f, c); !made {
		(*Head)(f).R = NoThread
	}
	return made
}

// Call makes the calls that e describes.
func (e *Each) Call(c Class, on *Thread) {
	if !enter(eachABI0, unsafe.Pointer(e), c) {
		e.notMade()
	}
}

// notMade sets the results of all calls to NoThread.
func (e *Each) notMade() {
	for i := range e.N {
		*(*int32)(unsafe.Add(e.Results, 4*i)) = NoThread
	}
}

// Call6 is [Call6] inside the scope. It returns the result of the first step
// around the call that failed, or 0, and which step that is.
func (s Scope) Call6(f unsafe.Pointer, c Class, on *Thread) (result int32, failed Step) {
	return s.call(call6ABI0, f, c, on)
}

// Call14 is [Call14] inside the scope, with the results of [Scope.Call6].
func (s Scope) Call14(f unsafe.Pointer, c Class, on *Thread) (result int32, failed Step) {
	return s.call(call14ABI0, f, c, on)
}

// CallWide is [CallWide] inside the scope, with the results of [Scope.Call6].
func (s Scope) CallWide(f unsafe.Pointer, c Class, on *Thread) (result int32, failed Step) {
	return s.call(callWideABI0, f, c, on)
}

// Each is [Each.Call] inside the scope, with the results of [Scope.Call6].
func (s Scope) Each(e *Each, c Class, on *Thread) (result int32, failed Step) {
	if s.Push == 0 {
		s.Pop = 0 // the thunk would use e.N as the result
	}
	return s.call(eachABI0, unsafe.Pointer(e), c, on)
}

// scopeFrame is the frame of the scope thunk. The order of its fields must agree with the offsets
// in the assembly files.
type scopeFrame struct {
	thunk               unsafe.Pointer // the thunk of the call itself
	frame               unsafe.Pointer // the frame of the call itself
	exchange, push, pop uintptr
	context             uintptr
	mode                uintptr // in and out: an int in the low half
	popped              uintptr // out
	scopeResults
}

func (s Scope) call(thunk, f unsafe.Pointer, c Class, on *Thread) (result int32, failed Step) {
	// Set the fields one by one. The compiler would build a literal of this size in another place
	// and copy it, which stalls on the preceding stores.
	var sf scopeFrame
	sf.thunk, sf.frame = thunk, f
	sf.exchange, sf.push, sf.pop = s.Exchange, s.Push, s.Pop
	sf.context, sf.mode = s.Context, uintptr(uint32(s.Mode))
	if !enter(scopeABI0, unsafe.Pointer(&sf), c) {
		return NoThread, Before
	}
	return sf.outcome()
}

// Back14 is [Scope.Call14] for a function that may call back into Go on this thread, so that the stack
// may move. f and the scope's own frame are on the heap.
func (s Scope) Back14(f unsafe.Pointer, c Class, on *Thread) (result int32, failed Step) {
	// The collector needs no pointers here, as f is kept. With the type of a scopeFrame on the heap, every
	// program would be larger.
	sf := (*scopeFrame)(unsafe.Pointer(Heap(new([unsafe.Sizeof(scopeFrame{}) / 8]uintptr))))
	// Stored as a pointer, f would make the compiler move the frames of all calls to the heap.
	p := uintptr(f)
	sf.thunk, sf.frame = call14ABI0, *(*unsafe.Pointer)(unsafe.Pointer(&p))
	sf.exchange, sf.push, sf.pop = s.Exchange, s.Push, s.Pop
	sf.context, sf.mode = s.Context, uintptr(uint32(s.Mode))
	made := enter(scopeABI0, unsafe.Pointer(sf), c)
	runtime.KeepAlive(f)
	if !made {
		return NoThread, Before
	}
	return sf.outcome()
}
