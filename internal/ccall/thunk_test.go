//go:build linux && (amd64 || arm64) && !go1.28 && !cu_portable

package ccall

import (
	"runtime"
	"testing"
	"unsafe"
)

// TestRegisters calls each thunk from C code that has stored values in the registers that a
// function must preserve. The C function that the thunk calls overwrites all other registers.
func TestRegisters(t *testing.T) {
	runtime.LockOSThread() // the scopes below change the state of the thread
	defer runtime.UnlockOSThread()
	set := cfunc(t, "state_set")
	defer call6(set, 0, 0)

	var word uintptr
	var results [3]int32
	newEach := func() *Each {
		e := &Each{Fn: cfunc(t, "clobber"), N: 3, Results: unsafe.Pointer(&results)}
		for i := range e.A {
			e.A[i].Base = unsafe.Pointer(&word)
		}
		return e
	}
	frame := func(fn string) unsafe.Pointer { return unsafe.Pointer(&Frame14{Head: Head{Fn: cfunc(t, fn)}}) }
	full := scopeFrame{exchange: cfunc(t, "state_exchange"), push: cfunc(t, "state_push"), pop: cfunc(t, "state_pop")}
	scope := func(thunk, frame unsafe.Pointer, context, mode uintptr) unsafe.Pointer {
		s := full
		s.thunk, s.frame, s.context, s.mode = thunk, frame, context, mode
		return unsafe.Pointer(&s)
	}
	for _, test := range []struct {
		name         string
		thunk, frame unsafe.Pointer
	}{
		{"call6", call6ABI0, frame("clobber")},
		{"call14", call14ABI0, frame("clobber14")},
		{"each", eachABI0, unsafe.Pointer(newEach())},
		{"each of none", eachABI0, unsafe.Pointer(&Each{})},
		{"scope of call6", scopeABI0, scope(call6ABI0, frame("clobber"), 5, 1)},
		{"scope of call14", scopeABI0, scope(call14ABI0, frame("clobber14"), 5, 1)},
		{"scope of each", scopeABI0, scope(eachABI0, unsafe.Pointer(newEach()), 5, 1)},
		{"scope, exchange fails", scopeABI0, scope(call6ABI0, frame("clobber"), 5, modeExchangeFails)},
		{"scope, push fails", scopeABI0, scope(call6ABI0, frame("clobber"), ctxPushFails, 1)},
		{"scope, pop fails", scopeABI0, scope(call6ABI0, frame("clobber"), ctxPopFails, 1)},
		{"scope, restore fails", scopeABI0, scope(call6ABI0, frame("clobber"), 5, modeRestoreFails)},
		{"empty scope", scopeABI0, unsafe.Pointer(&scopeFrame{thunk: call6ABI0, frame: frame("clobber")})},
	} {
		call6(set, 0, 0)
		f := struct {
			fn, r        uintptr
			thunk, frame unsafe.Pointer
			_            [4]uintptr
		}{fn: cfunc(t, "call_saved"), thunk: test.thunk, frame: test.frame}
		Call6(unsafe.Pointer(&f), Hot, nil)
		if f.r != 0 {
			t.Errorf("%s: registers not preserved: bits %#b of the list in testdata/abi.c", test.name, f.r)
		}
	}
}

// TestScopeFrame checks the offsets that the assembly files use.
func TestScopeFrame(t *testing.T) {
	var s scopeFrame
	var e Each
	for _, test := range []struct {
		name      string
		got, want uintptr
	}{
		{"scopeFrame.thunk", unsafe.Offsetof(s.thunk), 0},
		{"scopeFrame.frame", unsafe.Offsetof(s.frame), 8},
		{"scopeFrame.exchange", unsafe.Offsetof(s.exchange), 16},
		{"scopeFrame.push", unsafe.Offsetof(s.push), 24},
		{"scopeFrame.pop", unsafe.Offsetof(s.pop), 32},
		{"scopeFrame.context", unsafe.Offsetof(s.context), 40},
		{"scopeFrame.mode", unsafe.Offsetof(s.mode), 48},
		{"scopeFrame.popped", unsafe.Offsetof(s.popped), 56},
		{"scopeFrame.rExchange", unsafe.Offsetof(s.rExchange), 64},
		{"scopeFrame.rPush", unsafe.Offsetof(s.rPush), 72},
		{"scopeFrame.rPop", unsafe.Offsetof(s.rPop), 80},
		{"scopeFrame.rRestore", unsafe.Offsetof(s.rRestore), 88},
		{"Each.Fn", unsafe.Offsetof(e.Fn), 0},
		{"Each.N", unsafe.Offsetof(e.N), 8},
		{"Each.Results", unsafe.Offsetof(e.Results), 16},
		{"Each.A", unsafe.Offsetof(e.A), 24},
	} {
		if test.got != test.want {
			t.Errorf("%s is at offset %d, and at %d in the assembly", test.name, test.got, test.want)
		}
	}
}
