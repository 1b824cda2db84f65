package driver

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/internal/ccall"
)

// Library is a loaded driver library.
type Library interface {
	// Version returns the CUDA version that the driver supports, in the driver's notation: 12080 is
	// 12.8.
	Version() int
	// Proc returns the address of a function, as cuGetProcAddress does for a program that was
	// written for the given CUDA version.
	Proc(name string, version int, perThread bool) (uintptr, error)
	// Symbol returns the address of an exported symbol.
	Symbol(export string) (uintptr, error)
}

// Table makes the calls to one driver: a loaded library, or a software driver. It is safe for
// concurrent use. An address is looked up when it is first used. From then on a lookup is one
// atomic load. The calls are generated: zcalls.go.
type Table TableState

// TableState is the memory of a [Table]: its address converts to a *Table. Go keeps the names of all
// methods of a type, also of those that the program does not call, if a value that refers to the type
// is ever in an interface. So a struct has a TableState, and not a Table, where that matters.
type TableState struct {
	soft    unsafe.Pointer // of a Software, or nil; its type would bring all its methods' types into every program
	version int32          // of a software driver
	lib     Library
	clock   Clock
	onWait  func(function string)

	procs   [numSymbols]atomic.Uintptr
	missing [numSymbols]atomic.Pointer[MissingError]

	temporary sync.Pool // of *Thread: for calls of a software driver that are made on any thread
}

// New returns a Table that calls lib.
func New(lib Library) *Table {
	t := new(Table)
	t.Use(lib)
	return t
}

// Use makes a new Table call lib. It must come before all calls.
func (t *Table) Use(lib Library) {
	t.lib, t.clock = lib, systemClock{}
}

// NewSoftware returns a Table that calls a software driver.
func NewSoftware(s Software) *Table {
	t := new(Table)
	t.UseSoftware(s)
	return t
}

// UseSoftware makes a new Table call a software driver. It must come before all calls. The Table
// does not call functions that are newer than the result of the driver's DriverGetVersion. A driver
// without DriverGetVersion counts as the newest version.
func (t *Table) UseSoftware(s Software) {
	t.clock, t.version = systemClock{}, newest
	if s == nil {
		return
	}
	t.soft = unsafe.Pointer(&s)
	if v, res := s.DriverGetVersion(nil); res == ResultSuccess {
		t.version = v
	}
	if c := s.Clock(); c != nil {
		t.clock = c
	}
}

// UseProvider makes a new Table call a provider's software driver, as UseSoftware does. The error, after which
// the Table is as before, is [ErrNilProvider], or that of [Failed].
func (t *Table) UseProvider(p Provider) error {
	isNil := func(v any) bool {
		r := reflect.ValueOf(v)
		return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
	}
	if isNil(p) {
		return ErrNilProvider
	}
	if f, is := p.(interface{ Err() error }); is {
		if err := f.Err(); err != nil {
			return err
		}
	}
	s := p.Software()
	if isNil(s) {
		return ErrNilProvider
	}
	t.UseSoftware(s)
	return nil
}

// software returns the software driver, which there is.
func (t *Table) software() Software { return *(*Software)(t.soft) }

// OnWait makes the Table call f before each call with [At.NoWait] of a function that may wait for
// the GPU, on the caller's goroutine. It is for tests, which fail then. It must come before all
// calls.
func (t *Table) OnWait(f func(function string)) { t.onWait = f }

// mayWait reports a call with [At.NoWait] of a function that may wait for the GPU.
func (t *Table) mayWait(s Symbol) {
	if t.onWait != nil {
		t.onWait(s.row().export())
	}
}

// Version returns the CUDA version that the driver supports, in the driver's notation: 12080 is 12.8.
// It calls no function of the driver.
func (t *Table) Version() int {
	if t.soft != nil {
		return int(t.version)
	}
	return t.lib.Version()
}

// Clock returns the driver's clock.
func (t *Table) Clock() Clock { return t.clock }

// Software reports whether the driver is a software driver.
func (t *Table) Software() bool { return t.soft != nil }

// BeginWait comes before a wait that polls the events until one of them is complete, and without events before a wait
// for all work in the context. It returns ResultSuccess, or the result with which the wait must end at once: a software
// driver may know that it would never end. After a success the caller calls end when the wait has ended.
func (t *Table) BeginWait(ctx Context, events ...Event) (end func(), res Result) {
	if t.soft != nil {
		end, res = t.software().BeginWait(ctx, slices.Clone(events)) // a clone, so that no other driver has to allocate
	}
	if end == nil {
		end = func() {}
	}
	return end, res
}

// Closed tells a software driver that the program has closed the cu.Driver that calls this Table, if the driver has
// a method Closed.
func (t *Table) Closed() {
	if t.soft == nil {
		return
	}
	if c, is := t.software().(interface{ Closed() }); is {
		c.Closed()
	}
}

// Resolve returns the address of a symbol. The error is a *MissingError, unless the lookup itself
// could not be made.
func (t *Table) Resolve(s Symbol) (uintptr, error) {
	if t.soft != nil {
		return 0, t.absent(s)
	}
	if p := t.procs[s].Load(); p != 0 {
		return p, nil
	}
	p, res := t.resolve(s)
	if p != 0 {
		return p, nil
	}
	if e := t.Missing(res); e != nil {
		return 0, e
	}
	return 0, ccall.ErrNoThread
}

// resolve looks a symbol up, and stores its address or the error.
func (t *Table) resolve(s Symbol) (uintptr, Result) {
	if t.missing[s].Load() != nil {
		return 0, missing(s)
	}
	f := s.row()
	// An older driver returns the older interface, without an error, when it is asked for a newer
	// one. So the version is checked first.
	have := t.lib.Version()
	if have < f.version() {
		t.missing[s].Store(s.absent(have))
		return 0, missing(s)
	}
	var p uintptr
	var err, noThread error
	if !f.is(symbolViaDlsym) {
		p, err = t.lib.Proc(f.ask(), f.version(), f.is(symbolPerThread))
		noThread = err
	}
	if p == 0 && !errors.Is(noThread, ccall.ErrNoThread) {
		// Some libraries that replace the driver's, and call it, have exported symbols only.
		q, e := t.lib.Symbol(f.export())
		if p, noThread = q, e; err == nil {
			err = e
		}
	}
	if errors.Is(noThread, ccall.ErrNoThread) { // the symbol need not be missing
		return 0, ResultOperatingSystem
	}
	if p == 0 {
		e := s.absent(have)
		e.Err = err
		t.missing[s].Store(e)
		return 0, missing(s)
	}
	t.procs[s].Store(p)
	return p, ResultSuccess
}

// Missing returns the error of a call that was not made because its symbol is missing. For results
// of the driver it returns nil.
func (t *Table) Missing(r Result) *MissingError {
	if r >= 0 || int(-1-r) >= numSymbols {
		return nil
	}
	s := Symbol(-1 - r)
	if e := t.missing[s].Load(); e != nil {
		return e
	}
	return t.absent(s)
}

// absent returns the error of a software driver that lacks the symbol.
func (t *Table) absent(s Symbol) *MissingError {
	e := s.absent(int(t.version))
	e.Software = true
	return e
}

// call6 makes a call with a frame of six argument words.
func (t *Table) call6(at At, class ccall.Class, f unsafe.Pointer) Result {
	if at.plain() {
		ccall.Call6(f, class, at.Thread.cc())
		return Result(int32((*ccall.Head)(f).R))
	}
	return t.scoped6(at, class, f)
}

// scoped6 is call6 for an At that needs steps before and after the call.
func (t *Table) scoped6(at At, class ccall.Class, f unsafe.Pointer) Result {
	sc, res := t.scope(at)
	if res != ResultSuccess {
		return res
	}
	r, failed := sc.Call6(f, class, at.Thread.cc())
	return outcome(f, r, failed)
}

// call1 calls a function of one word. Programs are smaller if calls share it.
//
//go:noinline
func (t *Table) call1(at At, class ccall.Class, fn, word uintptr) Result {
	f := ccall.Frame6{Head: ccall.Head{Fn: fn}, A: [6]uintptr{word}}
	return t.call6(at, class, unsafe.Pointer(&f))
}

// call14 makes a call with a frame of fourteen argument words.
func (t *Table) call14(at At, class ccall.Class, f unsafe.Pointer) Result {
	if at.plain() {
		ccall.Call14(f, class, at.Thread.cc())
		return Result(int32((*ccall.Head)(f).R))
	}
	return t.scoped14(at, class, f)
}

// scoped14 is call14 for an At that needs steps before and after the call.
func (t *Table) scoped14(at At, class ccall.Class, f unsafe.Pointer) Result {
	sc, res := t.scope(at)
	if res != ResultSuccess {
		return res
	}
	r, failed := sc.Call14(f, class, at.Thread.cc())
	return outcome(f, r, failed)
}

// oldestSoft is the oldest version of CUDA that a software driver can have.
const oldestSoft = 11000

// enterRare begins a call that is made rarely. soft is the software driver that makes it on th. If soft
// is nil, callRare makes the call, or returns res.
func (t *Table) enterRare(at At, s Symbol) (th *Thread, soft Software, res Result) {
	if at.NoWait && s.class() == ccall.Blocking {
		t.mayWait(s)
	}
	if t.soft == nil {
		return nil, nil, ResultSuccess
	}
	if t.version < newest && s.row().version() > max(int(t.version), oldestSoft) {
		return nil, nil, missing(s)
	}
	if th, res = t.enter(at); res == ResultSuccess {
		soft = t.software()
	}
	return th, soft, res
}

// callRare calls a function of a library, if res is ResultSuccess. The words are the arguments.
//
// A word may be the address of a Go variable. It is a number then before assembly reads it, which is safe only
// because of the directive: the compiler sees to it that all variables whose addresses are converted to uintptr in the
// argument list of callRare are on the heap, where they do not move, and that they live until it returns. So the
// conversions must be there, and not in a function or variable. What such variables point to is on the heap, too.
//
//go:uintptrescapes
func (t *Table) callRare(at At, s Symbol, res Result, words ...uintptr) Result {
	if res != ResultSuccess {
		return res
	}
	r, res := t.callWords(at, s, words)
	if own := Result(int32(r)); own != ResultSuccess {
		return own
	}
	return res
}

// callWords calls a function of a library with up to 14 words, or 16 and two floating-point numbers once more. r is the
// whole result register, and 0 if the call was not made. res is the result of the lookup and of the steps before and
// after the call.
func (t *Table) callWords(at At, s Symbol, words []uintptr) (r uintptr, res Result) {
	fn := t.procs[s].Load()
	if fn == 0 {
		if fn, res = t.resolve(s); fn == 0 {
			return 0, res
		}
	}
	// The words of a ccall.FrameWide, whose type would make every program larger. They are on the heap, because an
	// arbitrary function may call back into Go.
	h := ccall.Heap(new([2 + 16 + 2]uintptr))
	h[0] = fn
	copy(h[2:], words)
	f, class, on, wide := unsafe.Pointer(h), s.class(), at.Thread.cc(), len(words) > 14
	if at.plain() {
		made := false
		if wide {
			made = ccall.CallWide(f, class, on)
		} else {
			made = ccall.Call14(f, class, on)
		}
		if !made {
			return 0, Result(int32(h[1]))
		}
		return h[1], ResultSuccess
	}
	sc, res := t.scope(at)
	if res != ResultSuccess {
		return 0, res
	}
	var around int32
	var failed ccall.Step
	if wide {
		around, failed = sc.CallWide(f, class, on)
	} else {
		around, failed = sc.Back14(f, class, on)
	}
	return h[1], afterwards(failed, Result(around))
}

// outcome returns the result of a call in a scope: the call's own result if it was made and has
// failed, and otherwise that of the step that has failed.
func outcome(f unsafe.Pointer, around int32, failed ccall.Step) Result {
	if failed.Made() {
		if res := Result(int32((*ccall.Head)(f).R)); res != ResultSuccess {
			return res
		}
	}
	return afterwards(failed, Result(around))
}

// afterwards returns the result of a scope in which the call has not failed, and a step before or
// after it has.
func afterwards(failed ccall.Step, res Result) Result {
	switch failed {
	case ccall.Popping:
		return popFailed.with(res)
	case ccall.Restoring:
		return restoreFailed.with(res)
	}
	return res
}

// scope returns the steps that the engine makes before and after a call at at.
func (t *Table) scope(at At) (sc ccall.Scope, res Result) {
	get := func(s Symbol) uintptr {
		p := t.procs[s].Load()
		if p == 0 && res == ResultSuccess {
			p, res = t.resolve(s)
		}
		return p
	}
	if at.Relaxed {
		// A driver without the function has no captures, so nothing can be invalidated.
		if sc.Exchange = get(symThreadExchangeStreamCaptureMode); t.Missing(res) != nil {
			res = ResultSuccess
		}
		sc.Mode = CU_STREAM_CAPTURE_MODE_RELAXED
	}
	if at.Context != 0 {
		sc.Push, sc.Context = get(symCtxPushCurrent_v2), uintptr(at.Context)
	}
	if at.Context != 0 || at.Pop {
		sc.Pop = get(symCtxPopCurrent_v2)
	}
	return sc, res
}

// EventQueryAll queries each event, in one crossing into C, and stores the answers in results. It
// returns the result of the steps before and after the queries, or ResultInvalidValue if results is
// shorter than events.
func (t *Table) EventQueryAll(at At, events []Event, results []Result) Result {
	switch {
	case len(results) < len(events):
		return ResultInvalidValue
	case len(events) == 0:
		return ResultSuccess
	case t.soft != nil:
		return t.softEach(at, results[:len(events)],
			func(th *Thread, i int) Result { return t.software().EventQuery(th, events[i]) })
	}
	var zero uintptr
	e := ccall.Each{N: uintptr(len(events)), Results: unsafe.Pointer(&results[0])}
	e.A[0].Base, e.A[0].Stride = unsafe.Pointer(&events[0]), unsafe.Sizeof(events[0])
	e.A[1].Base, e.A[2].Base = unsafe.Pointer(&zero), unsafe.Pointer(&zero)
	return t.each(at, symEventQuery, &e)
}

// EventRecordAll records each event on the stream with the same index. See [Table.EventQueryAll].
func (t *Table) EventRecordAll(at At, events []Event, streams []Stream, results []Result) Result {
	switch {
	case len(results) < len(events) || len(streams) < len(events):
		return ResultInvalidValue
	case len(events) == 0:
		return ResultSuccess
	case t.soft != nil:
		return t.softEach(at, results[:len(events)],
			func(th *Thread, i int) Result { return t.software().EventRecord(th, events[i], streams[i]) })
	}
	var zero uintptr
	e := ccall.Each{N: uintptr(len(events)), Results: unsafe.Pointer(&results[0])}
	e.A[0].Base, e.A[0].Stride = unsafe.Pointer(&events[0]), unsafe.Sizeof(events[0])
	e.A[1].Base, e.A[1].Stride = unsafe.Pointer(&streams[0]), unsafe.Sizeof(streams[0])
	e.A[2].Base = unsafe.Pointer(&zero)
	return t.each(at, symEventRecord, &e)
}

// StreamWaitEventAll makes a stream wait for each event. See [Table.EventQueryAll].
func (t *Table) StreamWaitEventAll(at At, s Stream, events []Event, results []Result) Result {
	flags := uintptr(CU_EVENT_WAIT_DEFAULT)
	switch {
	case len(results) < len(events):
		return ResultInvalidValue
	case len(events) == 0:
		return ResultSuccess
	case t.soft != nil:
		return t.softEach(at, results[:len(events)], func(th *Thread, i int) Result {
			return t.software().StreamWaitEvent(th, s, events[i], CU_EVENT_WAIT_DEFAULT)
		})
	}
	e := ccall.Each{N: uintptr(len(events)), Results: unsafe.Pointer(&results[0])}
	e.A[0].Base = unsafe.Pointer(&s)
	e.A[1].Base, e.A[1].Stride = unsafe.Pointer(&events[0]), unsafe.Sizeof(events[0])
	e.A[2].Base = unsafe.Pointer(&flags)
	return t.each(at, symStreamWaitEvent, &e)
}

// GraphExecKernelNodeSetParamsAll replaces the parameters of each kernel node of an executable graph by
// those with the same index. The driver reads them during the call. See [Table.EventQueryAll].
func (t *Table) GraphExecKernelNodeSetParamsAll(
	at At, x GraphExec, nodes []GraphNode, params []*KernelNodeParams, results []Result,
) Result {
	switch {
	case len(results) < len(nodes) || len(params) < len(nodes):
		return ResultInvalidValue
	case len(nodes) == 0:
		return ResultSuccess
	case t.soft != nil && t.version < 12000:
		return missing(symGraphExecKernelNodeSetParams_v2)
	case t.soft != nil:
		return t.softEach(at, results[:len(nodes)], func(th *Thread, i int) Result {
			return t.software().GraphExecKernelNodeSetParams(th, x, nodes[i], params[i])
		})
	}
	e := ccall.Each{N: uintptr(len(nodes)), Results: unsafe.Pointer(&results[0])}
	e.A[0].Base = unsafe.Pointer(&x)
	e.A[1].Base, e.A[1].Stride = unsafe.Pointer(&nodes[0]), unsafe.Sizeof(nodes[0])
	e.A[2].Base, e.A[2].Stride = unsafe.Pointer(&params[0]), unsafe.Sizeof(params[0])
	return t.each(at, symGraphExecKernelNodeSetParams_v2, &e)
}

// softEach calls a software driver once for each result.
func (t *Table) softEach(at At, results []Result, call func(th *Thread, i int) Result) Result {
	th, res := t.enter(at)
	if res != ResultSuccess {
		return res
	}
	for i := range results {
		results[i] = call(th, i)
	}
	return t.leave(at, th, ResultSuccess)
}

// each makes the calls of a frame, to one symbol.
func (t *Table) each(at At, sym Symbol, e *ccall.Each) Result {
	fn, res := t.procs[sym].Load(), ResultSuccess
	if fn == 0 {
		if fn, res = t.resolve(sym); fn == 0 {
			return res
		}
	}
	e.Fn = fn
	if at.plain() {
		e.Call(ccall.Hot, at.Thread.cc())
		return ResultSuccess
	}
	sc, res := t.scope(at)
	if res != ResultSuccess {
		return res
	}
	r, failed := sc.Each(e, ccall.Hot, at.Thread.cc())
	return afterwards(failed, Result(r))
}

// CallSymbol calls a function that has no typed call, with up to 14 words. Nothing is checked.
// Arguments that are addresses must refer to memory that does not move during the call. r is the
// whole result register. res is the result of the lookup and of the steps before and after the
// call, or ResultInvalidValue for more than 14 words.
func (t *Table) CallSymbol(at At, s Symbol, args ...uintptr) (r uintptr, res Result) {
	if t.soft != nil {
		return 0, missing(s)
	}
	if len(args) > 14 {
		return 0, ResultInvalidValue
	}
	return t.callWords(at, s, args)
}
