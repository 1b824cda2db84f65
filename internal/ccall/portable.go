//go:build !(linux && cu_static) && (!(linux && (amd64 || arm64)) || go1.28 || cu_portable)

package ccall

import (
	"runtime"
	"unsafe"
)

// The portable engine passes words to a variadic call, so it has to convert the addresses in a
// frame to numbers while Go code still runs. Therefore frames are moved to the heap, where nothing
// moves. The variables that they point to are on the heap as well, as pointers that are stored in a
// heap object escape.

// Call6 calls the function of a frame of six argument words. f points to it.
func Call6(f unsafe.Pointer, _ Class, _ *Thread) {
	w := (*Frame6)(escape(f))
	w.R = call(w.Fn, w.A[0], w.A[1], w.A[2], w.A[3], w.A[4], w.A[5])
	runtime.KeepAlive(f)
}

// Call14 calls the function of a frame of fourteen argument words. f points to it. It always
// reports true.
func Call14(f unsafe.Pointer, _ Class, _ *Thread) (made bool) {
	w := (*Frame14)(escape(f))
	w.R = call(w.Fn, w.A[0], w.A[1], w.A[2], w.A[3], w.A[4], w.A[5], w.A[6], w.A[7],
		w.A[8], w.A[9], w.A[10], w.A[11], w.A[12], w.A[13])
	runtime.KeepAlive(f)
	return true
}

// notSupported is the result of a call that the engine cannot make. It is CUDA_ERROR_NOT_SUPPORTED.
const notSupported = 801

// CallWide calls the function of a [FrameWide]. f points to it. If the engine cannot pass so many
// words, or floating-point numbers, the result is notSupported, and it reports false.
func CallWide(f unsafe.Pointer, _ Class, _ *Thread) (made bool) {
	w := (*FrameWide)(escape(f))
	if !callsWide {
		w.R = notSupported
		return false
	}
	w.R = call(w.Fn, w.A[:]...)
	runtime.KeepAlive(f)
	return true
}

// Call makes the calls that e describes, each with its own crossing.
func (e *Each) Call(_ Class, _ *Thread) {
	e = (*Each)(escape(unsafe.Pointer(e)))
	for i := range e.N {
		var a [3]uintptr
		for j := range a {
			a[j] = *(*uintptr)(unsafe.Add(e.A[j].Base, i*e.A[j].Stride))
		}
		r := call(e.Fn, a[0], a[1], a[2])
		*(*int32)(unsafe.Add(e.Results, 4*i)) = int32(r)
	}
	runtime.KeepAlive(e)
}

// Call6 is [Call6] inside the scope. It returns the result of the first step
// around the call that failed, or 0, and which step that is.
func (s Scope) Call6(f unsafe.Pointer, c Class, on *Thread) (result int32, failed Step) {
	return s.run(func() int32 {
		Call6(f, c, on)
		return int32((*Head)(f).R)
	})
}

// Call14 is [Call14] inside the scope, with the results of [Scope.Call6].
func (s Scope) Call14(f unsafe.Pointer, c Class, on *Thread) (result int32, failed Step) {
	return s.run(func() int32 {
		Call14(f, c, on)
		return int32((*Head)(f).R)
	})
}

// Back14 is [Scope.Call14] for a function that may call back into Go: all frames are on the heap here.
func (s Scope) Back14(f unsafe.Pointer, c Class, on *Thread) (result int32, failed Step) {
	return s.Call14(f, c, on)
}

// CallWide is [CallWide] inside the scope, with the results of [Scope.Call6].
func (s Scope) CallWide(f unsafe.Pointer, c Class, on *Thread) (result int32, failed Step) {
	return s.run(func() int32 {
		CallWide(f, c, on)
		return int32((*Head)(f).R)
	})
}

// Each is [Each.Call] inside the scope, with the results of [Scope.Call6].
func (s Scope) Each(e *Each, c Class, on *Thread) (result int32, failed Step) {
	if s.Push == 0 {
		s.Pop = 0
	}
	return s.run(func() int32 {
		e.Call(c, on)
		return 0
	})
}

// scopeFrame is the memory that the steps of a scope write to.
type scopeFrame struct {
	mode   uintptr // in and out: an int in the low half
	popped uintptr // out
	scopeResults
}

// run makes the steps of a scope one by one, locked to the thread whose state they change.
func (s Scope) run(body func() int32) (result int32, failed Step) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	sf := Heap(&scopeFrame{mode: uintptr(uint32(s.Mode))})
	s.steps(sf, body)
	return sf.outcome()
}

func (s Scope) steps(sf *scopeFrame, body func() int32) {
	// Converting these addresses to numbers is safe: sf is on the heap, and kept alive.
	mode, popped := uintptr(unsafe.Pointer(&sf.mode)), uintptr(unsafe.Pointer(&sf.popped))
	defer runtime.KeepAlive(sf)

	if s.Exchange != 0 {
		if sf.rExchange = call(s.Exchange, mode); int32(sf.rExchange) != 0 {
			return
		}
		defer func() { sf.rRestore = call(s.Exchange, mode) }()
	}
	if s.Push != 0 {
		if sf.rPush = call(s.Push, s.Context); int32(sf.rPush) != 0 {
			return
		}
	}
	r := body()
	if s.Pop != 0 && (s.Push != 0 || r == 0) {
		sf.rPop = call(s.Pop, popped)
	}
}
