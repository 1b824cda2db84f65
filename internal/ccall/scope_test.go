//go:build linux || windows

package ccall

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// The contexts and modes for which steps fail, and their errors: see testdata/abi.c.
const (
	ctxPushFails      = 66
	ctxPopFails       = 67
	modeExchangeFails = 76
	modeRestoreFails  = 77

	errExchange = 901
	errPush     = 902
	errPop      = 903
	errCreate   = 904
	errRestore  = 905
)

// state is the state of a thread: the number of contexts on its stack, the topmost context, and the
// capture mode.
type state struct {
	Depth, Top uintptr
	Mode       int
}

// view is struct view of testdata/abi.c.
type view struct {
	tid, depth, top uintptr
	mode            int
}

func (v *view) state() state { return state{v.depth, v.top, v.mode} }

// readState returns the state of the thread and its steps: x for exchange, p for push, c for call
// and o for pop, as a capital if the step failed.
func readState(fn uintptr) (state, string) {
	f := struct {
		fn, r uintptr
		out   unsafe.Pointer
		_     [5]uintptr
		view  view
		trace [40]byte
	}{fn: fn}
	f.out = unsafe.Pointer(&f.view)
	Call6(unsafe.Pointer(&f), Hot, nil)
	return f.view.state(), strings.TrimRight(string(f.trace[:]), "\x00")
}

// viewer is a frame for state_view, to be called through Scope.Call6.
type viewer struct {
	fn, r   uintptr
	out     unsafe.Pointer
	err, us uintptr
	_       [3]uintptr
	view    view
}

// scoped is a way to make a call within a scope. The call fails with err unless that is zero. It
// returns the results of the call, one per item for Each (nil if the call was not made), and the
// state during the call.
type scoped struct {
	name string
	// items is how many calls are made.
	items int
	call  func(t *testing.T, s Scope, err int32) (result int32, made bool, got []int32, saw *state)
}

// unset is the value of results before a call.
const unset = 0x7a7a7a7a

var scopedCalls = []scoped{
	{"Call6", 1, func(t *testing.T, s Scope, err int32) (int32, bool, []int32, *state) {
		f := viewer{fn: cfunc(t, "state_view"), r: unset, err: uintptr(err)}
		f.out = unsafe.Pointer(&f.view)
		result, step := s.Call6(unsafe.Pointer(&f), Setup, nil)
		made := step.Made()
		saw := f.view.state()
		return result, made, []int32{int32(f.r)}, &saw
	}},
	{"Call14", 1, func(t *testing.T, s Scope, err int32) (int32, bool, []int32, *state) {
		f := struct {
			fn, r     uintptr
			out       unsafe.Pointer
			err, us   uintptr
			_         [8]uintptr
			us2, err2 uintptr
			out2      unsafe.Pointer
			view      view
		}{fn: cfunc(t, "state_view14"), r: unset, err: uintptr(err), err2: uintptr(err)}
		f.out, f.out2 = unsafe.Pointer(&f.view), unsafe.Pointer(&f.view)
		result, step := s.Call14(unsafe.Pointer(&f), Setup, nil)
		made := step.Made()
		saw := f.view.state()
		return result, made, []int32{int32(f.r)}, &saw
	}},
	{"Each", 3, func(t *testing.T, s Scope, err int32) (int32, bool, []int32, *state) {
		top := uintptr(baseContext)
		if s.Push != 0 {
			top = s.Context
		}
		got := [3]int32{unset, unset, unset}
		errs := [3]uintptr{uintptr(err), uintptr(err), uintptr(err)}
		e := Each{Fn: cfunc(t, "state_item"), N: 3, Results: unsafe.Pointer(&got)}
		e.A[0].Base = unsafe.Pointer(&top)
		e.A[1].Base, e.A[1].Stride = unsafe.Pointer(&errs), unsafe.Sizeof(errs[0])
		e.A[2].Base = unsafe.Pointer(&top)
		result, step := s.Each(&e, Setup, nil)
		made := step.Made()
		return result, made, got[:], nil
	}},
}

// The state of the thread before each call.
const (
	baseContext = 11
	baseMode    = 2
)

// TestScope checks the order of a scope's steps, the steps that are omitted after each failure, and
// the state of the thread afterwards.
func TestScope(t *testing.T) {
	const (
		ctx  = 0x1122334455667788
		mode = -3
	)
	base := state{1, baseContext, baseMode}
	pushed := func(top uintptr, mode int) state { return state{2, top, mode} }
	for _, test := range []struct {
		name    string
		steps   string // of "xpo": exchange, push, pop
		context uintptr
		mode    int32
		err     int32

		trace  string
		result int32
		saw    state // zero if the call is not made
		after  state
	}{
		{"all", "xpo", ctx, mode, 0, "xpcox", 0, pushed(ctx, mode), base},
		{"call fails", "xpo", ctx, mode, -7, "xpCox", 0, pushed(ctx, mode), base},
		{"exchange fails", "xpo", ctx, modeExchangeFails, 0, "X", errExchange, state{}, base},
		{"push fails", "xpo", ctxPushFails, mode, 0, "xPx", errPush, state{}, base},
		{"pop fails", "xpo", ctxPopFails, mode, 0, "xpcOx", errPop, pushed(ctxPopFails, mode), pushed(ctxPopFails, baseMode)},
		{"restore fails", "xpo", ctx, modeRestoreFails, 0, "xpcoX", errRestore,
			pushed(ctx, modeRestoreFails), state{1, baseContext, modeRestoreFails}},
		{"call and pop fail", "xpo", ctxPopFails, mode, 5, "xpCOx", errPop,
			pushed(ctxPopFails, mode), pushed(ctxPopFails, baseMode)},
		{"call and restore fail", "xpo", ctx, modeRestoreFails, 5, "xpCoX", errRestore,
			pushed(ctx, modeRestoreFails), state{1, baseContext, modeRestoreFails}},
		{"push and restore fail", "xpo", ctxPushFails, modeRestoreFails, 0, "xPX", errPush,
			state{}, state{1, baseContext, modeRestoreFails}},
		{"pop and restore fail", "xpo", ctxPopFails, modeRestoreFails, 0, "xpcOX", errPop,
			pushed(ctxPopFails, modeRestoreFails), pushed(ctxPopFails, modeRestoreFails)},

		{"nothing around", "", ctx, mode, 0, "c", 0, base, base},
		{"nothing around, call fails", "", ctx, mode, 5, "C", 0, base, base},
		{"exchange", "x", ctx, mode, 0, "xcx", 0, state{1, baseContext, mode}, base},
		{"exchange, call fails", "x", ctx, mode, 5, "xCx", 0, state{1, baseContext, mode}, base},
		{"exchange alone fails", "x", ctx, modeExchangeFails, 0, "X", errExchange, state{}, base},
		{"exchange, restore fails", "x", ctx, modeRestoreFails, 0, "xcX", errRestore,
			state{1, baseContext, modeRestoreFails}, state{1, baseContext, modeRestoreFails}},
		{"push and pop", "po", ctx, mode, 0, "pco", 0, pushed(ctx, baseMode), base},
		{"push and pop, call fails", "po", ctx, mode, 5, "pCo", 0, pushed(ctx, baseMode), base},
		{"push and pop, push fails", "po", ctxPushFails, mode, 0, "P", errPush, state{}, base},
		{"push and pop, pop fails", "po", ctxPopFails, mode, 0, "pcO", errPop,
			pushed(ctxPopFails, baseMode), pushed(ctxPopFails, baseMode)},
		{"push", "p", ctx, mode, 0, "pc", 0, pushed(ctx, baseMode), pushed(ctx, baseMode)},
		{"push and exchange", "xp", ctx, mode, 0, "xpcx", 0, pushed(ctx, mode), pushed(ctx, baseMode)},
	} {
		for _, call := range scopedCalls {
			t.Run(test.name+"/"+call.name, func(t *testing.T) {
				set, read := cfunc(t, "state_set"), cfunc(t, "state_read")
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				defer call6(set, 0, 0)
				call6(set, baseContext, baseMode)

				result, made, got, saw := call.call(t, scopeOf(t, test.steps, test.context, test.mode), test.err)
				after, trace := readState(read)

				wantMade := test.saw != state{}
				want := unset
				if wantMade {
					want = int(test.err)
				}
				wantTrace := strings.NewReplacer(
					"c", strings.Repeat("c", call.items), "C", strings.Repeat("C", call.items)).Replace(test.trace)
				if trace != wantTrace {
					t.Errorf("the steps were %s, want %s", trace, wantTrace)
				}
				if result != test.result || made != wantMade {
					t.Errorf("result %d, made %t; want %d, %t", result, made, test.result, wantMade)
				}
				for i, r := range got {
					if int(r) != want {
						t.Errorf("result of call %d is %d, want %d", i, r, want)
					}
				}
				if saw != nil {
					if diff := cmp.Diff(test.saw, *saw); diff != "" {
						t.Errorf("the call saw another state (-want +got):\n%s", diff)
					}
				}
				if diff := cmp.Diff(test.after, after); diff != "" {
					t.Errorf("the thread is left in another state (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// scopeOf returns a scope of the functions of testdata/abi.c that have the
// letters in steps.
func scopeOf(t *testing.T, steps string, context uintptr, mode int32) Scope {
	s := Scope{Context: context, Mode: mode}
	for _, step := range steps {
		switch step {
		case 'x':
			s.Exchange = cfunc(t, "state_exchange")
		case 'p':
			s.Push = cfunc(t, "state_push")
		case 'o':
			s.Pop = cfunc(t, "state_pop")
		}
	}
	return s
}

// TestScopeOfCreate calls functions that push the context that they create. It is popped if, and
// only if, they succeed.
func TestScopeOfCreate(t *testing.T) {
	base := state{1, baseContext, baseMode}
	for _, test := range []struct {
		name    string
		steps   string
		context uintptr // the context to create, or 0 for a failure
		mode    int32

		trace  string
		result int32
		made   bool
		err    int32
		after  state
	}{
		{"created", "o", 500, 0, "co", 0, true, 0, base},
		{"fails", "o", 0, 0, "C", 0, true, errCreate, base},
		{"created with a mode", "xo", 500, -3, "xcox", 0, true, 0, base},
		{"fails with a mode", "xo", 0, -3, "xCx", 0, true, errCreate, base},
		{"pop fails", "xo", ctxPopFails, -3, "xcOx", errPop, true, 0, state{2, ctxPopFails, baseMode}},
		{"exchange fails", "xo", 500, modeExchangeFails, "X", errExchange, false, unset, base},
		{"restore fails", "xo", 500, modeRestoreFails, "xcoX", errRestore, true, 0, state{1, baseContext, modeRestoreFails}},
		{"left where it is", "", 500, 0, "c", 0, true, 0, state{2, 500, baseMode}},
	} {
		for _, words := range []int{6, 14} {
			t.Run(fmt.Sprintf("%s/Call%d", test.name, words), func(t *testing.T) {
				set, read := cfunc(t, "state_set"), cfunc(t, "state_read")
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				defer call6(set, 0, 0)
				call6(set, baseContext, baseMode)

				f := struct {
					fn, r uintptr
					out   unsafe.Pointer
					ctx   uintptr
					_     [12]uintptr
					slot  uintptr
				}{fn: cfunc(t, "state_create"), r: unset, ctx: test.context}
				f.out = unsafe.Pointer(&f.slot)
				s := scopeOf(t, test.steps, 0, test.mode)
				call := s.Call6
				if words == 14 {
					call = s.Call14
				}
				result, step := call(unsafe.Pointer(&f), Setup, nil)
				made := step.Made()
				after, trace := readState(read)

				if trace != test.trace {
					t.Errorf("the steps were %s, want %s", trace, test.trace)
				}
				if result != test.result || made != test.made || int32(f.r) != test.err {
					t.Errorf("result %d, made %t, of the call itself %d; want %d, %t, %d",
						result, made, int32(f.r), test.result, test.made, test.err)
				}
				want := test.context
				if !test.made {
					want = 0
				}
				if f.slot != want {
					t.Errorf("created %d, want %d", f.slot, want)
				}
				if diff := cmp.Diff(test.after, after); diff != "" {
					t.Errorf("the thread is left in another state (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestScopeOfEachNeverPopsAlone checks that Scope.Each ignores Pop without Push, because Each has
// no single result.
func TestScopeOfEachNeverPopsAlone(t *testing.T) {
	set, read := cfunc(t, "state_set"), cfunc(t, "state_read")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer call6(set, 0, 0)

	var results [2]int32
	top, none := uintptr(baseContext), uintptr(0)
	for n := range uintptr(3) {
		call6(set, baseContext, baseMode)
		e := Each{Fn: cfunc(t, "state_item"), N: n, Results: unsafe.Pointer(&results)}
		e.A[0].Base, e.A[1].Base, e.A[2].Base = unsafe.Pointer(&top), unsafe.Pointer(&none), unsafe.Pointer(&none)
		result, step := scopeOf(t, "xo", 0, 1).Each(&e, Hot, nil)
		made := step.Made()
		if result != 0 || !made {
			t.Errorf("%d items: result %d, made %t; want 0, true", n, result, made)
		}
		after, trace := readState(read)
		if want := "x" + strings.Repeat("c", int(n)) + "x"; trace != want {
			t.Errorf("%d items: the steps were %s, want %s", n, trace, want)
		}
		if diff := cmp.Diff(state{1, baseContext, baseMode}, after); diff != "" {
			t.Errorf("%d items: the thread is left in another state (-want +got):\n%s", n, diff)
		}
	}
}

// TestScopeMigrating runs scopes of all kinds in goroutines that move between threads. Every call
// must see its own context and mode, and every thread must end in its first state.
func TestScopeMigrating(t *testing.T) {
	viewFn, item, create := cfunc(t, "state_view"), cfunc(t, "state_item"), cfunc(t, "state_create")
	scope := scopeOf(t, "xpo", 0, 0)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))

	var moved atomic.Int64
	together(t, 64, func(g int) error {
		rng := rand.New(rand.NewPCG(1, uint64(g)))
		var last uintptr
		for i := range rounds(500) {
			s := scope
			s.Context, s.Mode = uintptr(1000+1000*g+i), int32(100+g)
			var want int32
			made := true
			switch rng.IntN(6) {
			case 0:
				s.Context, want, made = ctxPushFails, errPush, false
			case 1:
				s.Mode, want, made = modeExchangeFails, errExchange, false
			case 2: // three calls that check the context in C
				var results [3]int32
				var err uintptr
				e := Each{Fn: item, N: 3, Results: unsafe.Pointer(&results)}
				e.A[0].Base, e.A[1].Base, e.A[2].Base = unsafe.Pointer(&s.Context), unsafe.Pointer(&err), unsafe.Pointer(&err)
				result, step := s.Each(&e, Hot, nil)
				made := step.Made()
				if result != 0 || !made || results != [3]int32{} {
					return fmt.Errorf("Each: result %d, made %t, results %v", result, made, results)
				}
				continue
			case 3:
				f := struct {
					fn, r uintptr
					out   unsafe.Pointer
					ctx   uintptr
					_     [4]uintptr
					slot  uintptr
				}{fn: create, ctx: s.Context}
				f.out = unsafe.Pointer(&f.slot)
				s.Push = 0
				result, step := s.Call6(unsafe.Pointer(&f), Setup, nil)
				made := step.Made()
				if result != 0 || !made || f.slot != s.Context {
					return fmt.Errorf("create: result %d, made %t, created %d, want %d", result, made, f.slot, s.Context)
				}
				continue
			}
			f := viewer{fn: viewFn}
			if rng.IntN(4) == 0 { // long enough for the thread to lose its processor
				f.us = 50 + uintptr(rng.IntN(100))
			}
			f.out = unsafe.Pointer(&f.view)
			result, step := s.Call6(unsafe.Pointer(&f), Hot, nil)
			gotMade := step.Made()
			if result != want || gotMade != made {
				return fmt.Errorf("result %d, made %t; want %d, %t", result, gotMade, want, made)
			}
			if !made {
				continue
			}
			if got, want := f.view.state(), (state{1, s.Context, int(s.Mode)}); got != want {
				return fmt.Errorf("the call saw %+v, want %+v", got, want)
			}
			if last != 0 && last != f.view.tid {
				moved.Add(1)
			}
			last = f.view.tid
			if rng.IntN(8) == 0 {
				runtime.Gosched()
			}
		}
		return nil
	})
	if moved.Load() == 0 {
		t.Error("no goroutine moved to another thread, so the test is void")
	}
	if threads, changed := audit(t); changed != 0 {
		t.Errorf("%d of %d threads are not in the state that they began with", changed, threads)
	}
}

// audit returns how many threads have a state, and how many of them are not in their first state.
func audit(t *testing.T) (threads, changed uintptr) {
	f := struct {
		fn, r            uintptr
		threads, changed unsafe.Pointer
		_                [4]uintptr
		slots            [2]uintptr
	}{fn: cfunc(t, "state_audit")}
	f.threads, f.changed = unsafe.Pointer(&f.slots[0]), unsafe.Pointer(&f.slots[1])
	Call6(unsafe.Pointer(&f), Hot, nil)
	return f.slots[0], f.slots[1]
}
