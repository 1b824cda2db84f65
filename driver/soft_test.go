package driver

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// soft is a software driver with a dozen functions. It shows that strings, buffers, counts, a
// kernel's arguments, callbacks and threads pass through [Software]. It notes its calls.
type soft struct {
	Unimplemented

	log      []string
	fail     map[string]Result
	recorded map[Event]bool
	memory   [8]byte
}

func newSoft() (*soft, *Table) {
	s := &soft{fail: make(map[string]Result), recorded: make(map[Event]bool)}
	return s, NewSoftware(s)
}

// state is the driver's state of a thread.
type state struct {
	stack []Context
	mode  int32
}

func local(th *Thread) *state {
	if th.Local == nil {
		th.Local = new(state)
	}
	return th.Local.(*state)
}

func (s *soft) note(format string, args ...any) Result {
	line := fmt.Sprintf(format, args...)
	s.log = append(s.log, line)
	return s.fail[line]
}

// noted returns the notes since it was last called.
func (s *soft) noted() []string {
	log := s.log
	s.log = nil
	return log
}

func (s *soft) Init(_ *Thread, flags uint32) Result { return s.note("init %d", flags) }

func (s *soft) DriverGetVersion(*Thread) (int32, Result) { return 12080, ResultSuccess }

func (s *soft) GetErrorName(_ *Thread, code Result) (string, Result) {
	return "CUDA_ERROR_" + fmt.Sprint(int(code)), ResultSuccess
}

func (s *soft) DeviceGetName(_ *Thread, name []byte, dev Device) Result {
	n := copy(name, fmt.Sprintf("soft %d", dev))
	clear(name[n:])
	return ResultSuccess
}

func (s *soft) ModuleGetFunction(_ *Thread, m Module, name string) (Function, Result) {
	return Function(m) + Function(len(name)), s.note("function %s", name)
}

func (s *soft) GraphGetNodes(_ *Thread, _ Graph, nodes []GraphNode) (uint64, Result) {
	all := []GraphNode{11, 12, 13}
	if nodes == nil {
		return uint64(len(all)), ResultSuccess
	}
	return uint64(copy(nodes, all)), ResultSuccess
}

func (s *soft) CtxPushCurrent(th *Thread, ctx Context) Result {
	res := s.note("push %d", ctx)
	if res == ResultSuccess {
		st := local(th)
		st.stack = append(st.stack, ctx)
	}
	return res
}

func (s *soft) CtxPopCurrent(th *Thread) (Context, Result) {
	st := local(th)
	if len(st.stack) == 0 {
		return 0, ResultInvalidContext
	}
	ctx := st.stack[len(st.stack)-1]
	st.stack = st.stack[:len(st.stack)-1]
	return ctx, s.note("pop %d", ctx)
}

func (s *soft) CtxGetCurrent(th *Thread) (Context, Result) {
	if th == nil || len(local(th).stack) == 0 {
		return 0, ResultSuccess
	}
	st := local(th)
	return st.stack[len(st.stack)-1], ResultSuccess
}

func (s *soft) CtxCreate(th *Thread, _ *CtxCreateParams, flags uint32, dev Device) (Context, Result) {
	res := s.note("create context")
	if res != ResultSuccess {
		return 0, res
	}
	local(th).stack = append(local(th).stack, 9)
	return 9, res
}

func (s *soft) ThreadExchangeStreamCaptureMode(th *Thread, mode int32) (int32, Result) {
	st := local(th)
	old := st.mode
	res := s.note("mode %d to %d", old, mode)
	if res == ResultSuccess {
		st.mode = mode
	}
	return old, res
}

func (s *soft) EventCreate(th *Thread, flags uint32) (Event, Result) {
	ctx, _ := s.CtxGetCurrent(th)
	if ctx == 0 {
		return 0, ResultInvalidContext
	}
	return Event(100 + flags), s.note("create event in %d", ctx)
}

func (s *soft) EventDestroy(_ *Thread, e Event) Result { return s.note("destroy event %d", e) }

func (s *soft) CtxDestroy(_ *Thread, ctx Context) Result { return s.note("destroy context %d", ctx) }

func (s *soft) StreamWaitEvent(*Thread, Stream, Event, uint32) Result { return ResultNotReady }

func (s *soft) EventRecord(_ *Thread, e Event, _ Stream) Result {
	s.recorded[e] = true
	return ResultSuccess
}

func (s *soft) EventQuery(_ *Thread, e Event) Result {
	if s.recorded[e] {
		return ResultNotReady
	}
	return ResultSuccess
}

func (s *soft) LaunchKernel(_ *Thread, f Function, gx, gy, gz, bx, by, bz, shared uint32, _ Stream,
	p KernelParams) Result {
	var values []uint64
	for i, ptr := range p.Ptrs {
		var v [8]byte
		copy(v[:], unsafe.Slice((*byte)(ptr), p.Sizes[i]))
		values = append(values, *(*uint64)(unsafe.Pointer(&v)))
	}
	return s.note("launch %d %v %v %d %v", f, [3]uint32{gx, gy, gz}, [3]uint32{bx, by, bz}, shared, values)
}

func (s *soft) LaunchKernelEx(_ *Thread, c *LaunchConfig, f Function, p KernelParams) Result {
	if p.Extra == nil {
		return ResultInvalidValue
	}
	attributes := unsafe.Slice(c.Attributes, c.Count)
	return s.note("launch %d on %d with %d %v", f, c.Stream, attributes[0].ID, *(*uint64)(p.Extra))
}

func (s *soft) LaunchHostFunc(_ *Thread, _ Stream, f Callback) Result {
	f.Go()
	return ResultSuccess
}

func (s *soft) MemcpyHtoD(_ *Thread, dst DevicePtr, src []byte) Result {
	copy(s.memory[dst:], src)
	return ResultSuccess
}

func (s *soft) MemcpyDtoH(_ *Thread, dst []byte, src DevicePtr) Result {
	copy(dst, s.memory[src:])
	return ResultSuccess
}

func (s *soft) IpcGetEventHandle(_ *Thread, e Event) (h IPCEventHandle, _ Result) {
	for i := range h {
		h[i] = byte(int(e) + i)
	}
	return h, ResultSuccess
}

func (s *soft) IpcOpenEventHandle(_ *Thread, h IPCEventHandle) (Event, Result) {
	return Event(h[0]) + Event(h[63])<<8, ResultSuccess
}

// TestSoftware passes every kind of argument to a software driver and back.
func TestSoftware(t *testing.T) {
	s, tab := newSoft()
	check := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if !tab.Software() {
		t.Error("Software() = false")
	}
	at := At{}
	check("Init", ResultSuccess, tab.Init(at, 3))
	v, _ := tab.DriverGetVersion(at)
	check("a result", int32(12080), v)
	name, _ := tab.GetErrorName(at, 7)
	check("a string out", "CUDA_ERROR_7", name)
	buf := []byte("................")
	tab.DeviceGetName(at, buf, 5)
	check("a buffer", []byte("soft 5\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), buf)
	f, _ := tab.ModuleGetFunction(at, 10, "four")
	check("a string in", Function(14), f)
	if _, res := tab.ModuleGetFunction(at, 10, "a\x00b"); res != ResultInvalidValue {
		t.Errorf("a NUL in a string: %v", res)
	}
	n, _ := tab.GraphGetNodes(at, 1, nil)
	nodes := make([]GraphNode, 2)
	m, _ := tab.GraphGetNodes(at, 1, nodes)
	check("counts", []uint64{3, 2}, []uint64{n, m})
	check("an array with its count", []GraphNode{11, 12}, nodes)

	a, b := uint32(7), uint64(1<<40)
	res := tab.LaunchKernel(at, 1, 2, 3, 4, 5, 6, 7, 8, 0, KernelParams{
		Ptrs:  []unsafe.Pointer{unsafe.Pointer(&a), unsafe.Pointer(&b)},
		Sizes: []uint32{4, 8},
	})
	check("LaunchKernel", ResultSuccess, res)
	config := LaunchConfig{Stream: 9, Attributes: &LaunchAttribute{ID: CU_LAUNCH_ATTRIBUTE_PRIORITY}, Count: 1}
	check("LaunchKernelEx", ResultSuccess, tab.LaunchKernelEx(at, &config, 1, KernelParams{Extra: unsafe.Pointer(&b)}))
	called := false
	tab.LaunchHostFunc(at, 0, Callback{Go: func() { called = true }})
	check("a callback", true, called)
	tab.MemcpyHtoD(at, 2, []byte("abc"))
	back := make([]byte, 4)
	tab.MemcpyDtoH(at, back, 1)
	check("copies", true, bytes.Equal([]byte("\x00abc"), back))
	h, _ := tab.IpcGetEventHandle(at, 3)
	e, _ := tab.IpcOpenEventHandle(at, h)
	check("64 bytes by value", Event(3+66<<8), e)
	check(
		"log",
		[]string{
			"init 3",
			"function four",
			"launch 1 [2 3 4] [5 6 7] 8 [7 1099511627776]",
			"launch 1 on 9 with 8 1099511627776",
		},
		s.noted(),
	)

	if _, err := tab.Resolve(symEventQuery); err == nil {
		t.Error("a software driver's function has an address")
	}
	if _, res := tab.CallSymbol(at, symEventQuery); tab.Missing(res) == nil {
		t.Errorf("CallSymbol: %v", res)
	}
	check("a function that is not implemented", "the software driver has no cuEventQuery",
		tab.Missing(NotImplemented(symEventQuery)).Error())
}

// TestSoftwareScopes checks that a thread's state is set for calls, and restored afterwards,
// whichever step fails.
func TestSoftwareScopes(t *testing.T) {
	for _, c := range []struct {
		name string
		at   At
		fail string
		call func(*Table, At) Result
		want []string
		res  Result
	}{
		{"plain", At{}, "", nil, nil, ResultInvalidContext},
		{"context", At{Context: 5}, "", nil, []string{"push 5", "create event in 5", "pop 5"}, 0},
		{"relaxed", At{Context: 5, Relaxed: true}, "", nil, []string{"mode 0 to 2", "push 5", "create event in 5", "pop 5", "mode 2 to 0"}, 0},
		{"the call fails", At{Context: 5, Relaxed: true}, "create event in 5", nil, []string{"mode 0 to 2", "push 5", "create event in 5", "pop 5", "mode 2 to 0"}, ResultUnknown},
		{"push fails", At{Context: 5, Relaxed: true}, "push 5", nil, []string{"mode 0 to 2", "push 5", "mode 2 to 0"}, ResultUnknown},
		{"pop fails", At{Context: 5, Relaxed: true}, "pop 5", nil, []string{"mode 0 to 2", "push 5", "create event in 5", "pop 5", "mode 2 to 0",
			"mode 0 to 2", "push 5", "destroy event 101", "pop 5", "mode 2 to 0"}, popFailed.with(ResultUnknown)},
		{"exchange fails", At{Context: 5, Relaxed: true}, "mode 0 to 2", nil, []string{"mode 0 to 2"}, ResultUnknown},
		{"exchange back fails", At{Context: 5, Relaxed: true}, "mode 2 to 0", nil, []string{"mode 0 to 2", "push 5", "create event in 5", "pop 5", "mode 2 to 0",
			"mode 0 to 2", "push 5", "destroy event 101", "pop 5", "mode 2 to 0"}, restoreFailed.with(ResultUnknown)},
		{"the call pushes", At{Pop: true}, "", createContext, []string{"create context", "pop 9"}, 0},
		{"the call pushes, pop fails", At{Pop: true}, "pop 9", createContext, []string{"create context", "pop 9", "destroy context 9"}, popFailed.with(ResultUnknown)},
		{"the call that pushes fails", At{Pop: true}, "create context", createContext, []string{"create context"}, ResultUnknown},
	} {
		for _, pinned := range []bool{false, true} {
			if c.at.Pop && !pinned {
				continue // contexts are created only on a pinned thread
			}
			t.Run(fmt.Sprintf("%s, pinned %v", c.name, pinned), func(t *testing.T) {
				s, tab := newSoft()
				at := c.at
				if pinned {
					at.Thread = tab.Pin()
					defer at.Thread.Unpin()
				}
				s.fail[c.fail] = ResultUnknown
				call := c.call
				if call == nil {
					call = func(tab *Table, at At) Result { _, res := tab.EventCreate(at, 1); return res }
				}
				if res := call(tab, at); res != c.res {
					t.Errorf("%v, want %v", res, c.res)
				}
				want := slices.Clone(c.want)
				if pinned && c.fail == "mode 2 to 0" { // the mode could not be restored
					want[5], want[9] = "mode 2 to 2", "mode 2 to 2"
				}
				if diff := cmp.Diff(want, s.noted()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if pinned && c.fail != "mode 2 to 0" && at.Thread.Local != nil {
					if st := local(at.Thread); len(st.stack) != 0 || st.mode != 0 {
						t.Errorf("left on the thread: %+v", *st)
					}
				}
			})
		}
	}
}

func createContext(tab *Table, at At) Result {
	_, res := tab.CtxCreate(at, nil, 0, 0)
	return res
}

// TestUnimplemented calls all functions of Unimplemented.
func TestUnimplemented(t *testing.T) {
	var s Software = Unimplemented{}
	tab := NewSoftware(s)
	if _, res := tab.BeginWait(0, 1); tab.Clock() != (systemClock{}) || res != ResultSuccess {
		t.Error("it has a clock, or refuses a wait")
	}
	const noFunctions = 2 // Clock and BeginWait
	v, called := reflect.ValueOf(s), map[string]bool{}
	for m, f := range v.Methods() {
		var args []reflect.Value
		for in := range f.Type().Ins() {
			args = append(args, reflect.Zero(in))
		}
		if m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[*Thread]() {
			continue
		}
		out := f.Call(args)
		missing := tab.Missing(out[len(out)-1].Interface().(Result))
		if missing == nil || called[missing.Symbol] && m.Name != "ModuleLoadLog" && m.Name != "ModuleLoadDataEx" {
			t.Errorf("%s: %v", m.Name, missing)
			continue
		}
		called[missing.Symbol] = true
	}
	if n := v.NumMethod() - noFunctions - 1; len(called) != n {
		t.Errorf("%d symbols are missing, want %d", len(called), n)
	}
	if _, _, res := tab.ModuleLoadJIT(At{}, nil, nil); tab.Missing(res) == nil {
		t.Errorf("a module: %v", res)
	}
}

// TestModuleWithoutLog loads a module with a driver that has no ModuleLoadLog.
func TestModuleWithoutLog(t *testing.T) {
	tab := NewSoftware(noLog{})
	if m, _, res := tab.ModuleLoadJIT(At{}, nil, []JITOption{{Option: 1, Value: 2}, {Option: 3, Value: 4}}); m != 1+2+3+4 ||
		res != ResultSuccess {
		t.Errorf("%v, %v", m, res)
	}
}

// noLog is a driver whose module handles are the sum of the options.
type noLog struct{ Unimplemented }

func (noLog) ModuleLoadDataEx(_ *Thread, _ []byte, keys []uint32, values []uintptr) (m Module, _ Result) {
	for i := range keys {
		m += Module(keys[i]) + Module(values[i])
	}
	return m, ResultSuccess
}

// TestSoftwareWithoutCaptures makes relaxed calls to a driver that has no captures. It must get no
// other calls.
func TestSoftwareWithoutCaptures(t *testing.T) {
	tab := NewSoftware(noCaptures{})
	if res := tab.EventQuery(At{Relaxed: true}, 1); res != ResultNotReady {
		t.Errorf("a query: %v", res)
	}
	results := []Result{7}
	if res := tab.EventQueryAll(At{Relaxed: true}, []Event{1}, results); res != 0 || results[0] != ResultNotReady {
		t.Errorf("many queries: %v, %v", res, results)
	}
	if _, res := tab.EventCreate(At{Relaxed: true}, 0); tab.Missing(res) == nil {
		t.Errorf("a missing function: %v", res)
	}
}

// noCaptures is a driver with one function.
type noCaptures struct{ Unimplemented }

func (noCaptures) EventQuery(*Thread, Event) Result { return ResultNotReady }

// TestThread checks that the state of a thread is kept from call to call.
func TestThread(t *testing.T) {
	s, tab := newSoft()
	th := tab.Pin()
	at := At{Thread: th}
	if res := tab.CtxPushCurrent(at, 3); res != 0 {
		t.Fatal(res)
	}
	if _, res := tab.EventCreate(at, 0); res != 0 {
		t.Errorf("the context is not current: %v", res)
	}
	if _, res := tab.EventCreate(At{Thread: th, Context: 4}, 0); res != 0 {
		t.Error(res)
	}
	other := tab.Pin()
	if _, res := tab.EventCreate(At{Thread: other}, 0); res != ResultInvalidContext {
		t.Errorf("another thread has the context: %v", res)
	}
	if ctx, _ := tab.CtxPopCurrent(at); ctx != 3 {
		t.Errorf("popped %d", ctx)
	}
	want := []string{"push 3", "create event in 3", "push 4", "create event in 4", "pop 4", "pop 3"}
	if diff := cmp.Diff(want, s.noted()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for range 2 {
		th.Unpin()
	}
	other.Abandon()
	(*Thread)(nil).cc()
}

// TestSoftwareQueryAll queries several events at once.
func TestSoftwareQueryAll(t *testing.T) {
	s, tab := newSoft()
	tab.EventRecord(At{}, 2, 0)
	for _, at := range []At{{}, {Relaxed: true}} {
		results := []Result{7, 7, 7, 7}
		if res := tab.EventQueryAll(at, []Event{1, 2, 3}, results); res != 0 {
			t.Error(res)
		}
		if diff := cmp.Diff([]Result{0, ResultNotReady, 0, 7}, results); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]string{"mode 0 to 2", "mode 2 to 0"}, s.noted()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if res := tab.EventQueryAll(At{}, []Event{1, 2}, make([]Result, 1, 2)); res != ResultInvalidValue {
		t.Errorf("with too few results: %v", res)
	}
	s.fail["mode 0 to 2"] = ResultUnknown
	if res := tab.EventQueryAll(At{Relaxed: true}, []Event{1}, make([]Result, 1)); res != ResultUnknown {
		t.Error(res)
	}
	if res := tab.EventQueryAll(At{Relaxed: true}, nil, nil); res != 0 {
		t.Errorf("of none: %v", res)
	}
}

// TestSoftwareRecordAll records several events at once, and waits for them.
func TestSoftwareRecordAll(t *testing.T) {
	s, tab := newSoft()
	for _, at := range []At{{}, {Relaxed: true}} {
		results := []Result{7, 7, 7}
		if res := tab.EventRecordAll(at, []Event{1, 2}, []Stream{0, 0}, results); res != 0 {
			t.Error(res)
		}
		if diff := cmp.Diff([]Result{0, 0, 7}, results); diff != "" || !s.recorded[1] || !s.recorded[2] {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		if res := tab.StreamWaitEventAll(at, 1, []Event{1, 2}, results); res != 0 {
			t.Error(res)
		}
		if diff := cmp.Diff([]Result{ResultNotReady, ResultNotReady, 7}, results); diff != "" {
			t.Errorf("results of the waits (-want +got):\n%s", diff)
		}
	}
	few := make([]Result, 1, 2)
	for name, res := range map[string]Result{
		"record, with too few results": tab.EventRecordAll(At{}, []Event{1, 2}, []Stream{0, 0}, few),
		"record, with too few streams": tab.EventRecordAll(At{}, []Event{1}, nil, few),
		"wait, with too few results":   tab.StreamWaitEventAll(At{}, 0, []Event{1, 2}, few),
	} {
		if res != ResultInvalidValue {
			t.Errorf("%s: %v", name, res)
		}
	}
	if a, b := tab.EventRecordAll(At{Relaxed: true}, nil, nil, nil), tab.StreamWaitEventAll(At{Relaxed: true}, 0, nil, nil); a != 0 ||
		b != 0 {
		t.Errorf("of none: %v, %v", a, b)
	}
	s.fail["mode 0 to 2"] = ResultUnknown
	if a, b := tab.EventRecordAll(At{Relaxed: true}, []Event{1}, []Stream{0}, few), tab.StreamWaitEventAll(At{Relaxed: true}, 0, []Event{1}, few); a != ResultUnknown ||
		b != a {
		t.Errorf("%v, %v", a, b)
	}
}

// TestSoftwareSetKernels passes wrong lengths, and asks a driver that is too old.
func TestSoftwareSetKernels(t *testing.T) {
	s, tab := newSoft()
	nodes, params, results := []GraphNode{1, 2}, make([]*KernelNodeParams, 2), make([]Result, 2)
	for name, res := range map[string]Result{
		"too few results":    tab.GraphExecKernelNodeSetParamsAll(At{}, 1, nodes, params, results[:1]),
		"too few parameters": tab.GraphExecKernelNodeSetParamsAll(At{}, 1, nodes, params[:1], results),
	} {
		if res != ResultInvalidValue {
			t.Errorf("%s: %v", name, res)
		}
	}
	if res := tab.GraphExecKernelNodeSetParamsAll(At{}, 1, nil, nil, nil); res != ResultSuccess {
		t.Errorf("of none: %v", res)
	}
	if res := tab.GraphExecKernelNodeSetParamsAll(At{}, 1, nodes, params, results); res != ResultSuccess ||
		tab.Missing(results[0]) == nil || tab.Missing(results[1]) == nil {
		t.Errorf("on a driver without graphs: %v, %v", res, results)
	}
	old := NewSoftware(version{s, 11080})
	if res := old.GraphExecKernelNodeSetParamsAll(At{}, 1, nodes, params, results); old.Missing(res) == nil {
		t.Errorf("on CUDA 11.8: %v", res)
	}
}

// TestSoftwareAllocations checks that a call to a software driver allocates nothing.
func TestSoftwareAllocations(t *testing.T) {
	s, tab := newSoft()
	s.recorded[1] = true
	th := tab.Pin()
	defer th.Unpin()
	events, streams, results := []Event{1, 2}, []Stream{0, 0}, make([]Result, 2)
	for name, f := range map[string]func(){
		"EventQuery":     func() { tab.EventQuery(At{}, 1) },
		"on a thread":    func() { tab.EventQuery(At{Thread: th}, 1) },
		"EventQueryAll":  func() { tab.EventQueryAll(At{}, events, results) },
		"EventRecordAll": func() { tab.EventRecordAll(At{}, events, streams, results) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// oldSoft is a driver of an old version.
type oldSoft struct{ *soft }

func (oldSoft) DriverGetVersion(*Thread) (int32, Result) { return 12000, ResultSuccess }

// TestSoftwareVersion checks that functions that are newer than a software driver's version are
// missing, even if it has the methods.
func TestSoftwareVersion(t *testing.T) {
	s, _ := newSoft()
	table := NewSoftware(oldSoft{s})
	_, _, res := table.FuncGetParamInfo(At{}, 1, 0)
	if m := table.Missing(res); m == nil || m.Symbol != "cuFuncGetParamInfo" || m.Since != 12040 || m.Driver != 12000 ||
		!m.Software {
		t.Errorf("cuFuncGetParamInfo of CUDA 12.4 answered %v: %v", res, m)
	}
	if res := table.Init(At{}, 0); res != ResultSuccess {
		t.Error(res)
	}
}

// version is a software driver with all methods of CUDA's newest version, but of an older version.
type version struct {
	*soft
	v int32
}

func (s version) DriverGetVersion(*Thread) (int32, Result) { return s.v, ResultSuccess }

func (version) GraphNodeGetToolsId(*Thread, GraphNode) (uint64, Result) { return 7, ResultSuccess }

// TestNewerThanVerified checks that calls of releases that no driver has confirmed fail on older
// drivers with an error that names the release, and reach a driver that has them.
func TestNewerThanVerified(t *testing.T) {
	s, _ := newSoft()
	old := NewSoftware(version{s, verified})
	for name, call := range map[string]func(*Table) Result{
		"cuDevSmResourceSplit 13.1": func(t *Table) Result {
			_, res := t.DevSmResourceSplit(At{}, nil, DevResource{}, 0, []DevSmResourceGroupParams{{SmCount: 8}})
			return res
		},
		"cuGraphNodeGetToolsId 13.1": func(t *Table) Result {
			_, res := t.GraphNodeGetToolsId(At{},
				1)
			return res
		},
		"cuStreamGetDevResource 13.1": func(t *Table) Result {
			_, res := t.StreamGetDevResource(At{}, 1,
				1)
			return res
		},
		"cuLaunchHostFunc_v2 13.2": func(t *Table) Result {
			return t.LaunchHostFuncV2(At{}, 1, Callback{},
				CU_HOST_TASK_SPINWAIT)
		},
		"cuGraphNodeGetParams 13.2": func(t *Table) Result {
			_, res := t.GraphNodeGetParams(At{},
				1)
			return res
		},
		"cuStreamBeginCaptureToCig 13.2": func(t *Table) Result {
			return t.StreamBeginCaptureToCig(At{}, 1, StreamCigCaptureParams{})
		},
		"cuLogicalEndpointImport 13.3": func(t *Table) Result {
			return t.LogicalEndpointImport(At{}, 1, ShareableHandle{}, CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC)
		},
		"cuStreamBeginRecaptureToGraph 13.3": func(t *Table) Result {
			return t.StreamBeginRecaptureToGraph(At{}, 1, 0,
				1, 0, 0)
		},
		"cuDeviceGetCliqueInfo 13.4": func(t *Table) Result {
			_, res := t.DeviceGetCliqueInfo(At{}, make([]CliqueInfo, 2), 0)
			return res
		},
		"cuGraphAddNode_v3 13.4": func(t *Table) Result {
			_, _, res := t.GraphAddNodeV3(At{}, 1, nil, nil, GraphNodeParams{})
			return res
		},
		"cuMemGetLocationInfo 13.4": func(t *Table) Result {
			return t.MemGetLocationInfo(At{}, 1, 3<<21, 2<<21, 0, make([]MemLocation, 2))
		},
		"cuCheckpointOperationComplete 13.4": func(t *Table) Result { return t.CheckpointOperationComplete(At{}, 1) },
	} {
		function, since, _ := strings.Cut(name, " ")
		m := old.Missing(call(old))
		if m == nil || m.Symbol != function || Version(m.Since).String() != since || m.Driver != verified {
			t.Errorf("%s answered %v", name, m)
			continue
		}
		if text := m.Error(); !strings.Contains(text, "CUDA "+since) ||
			!strings.Contains(text, "CUDA "+Version(verified).String()) {
			t.Errorf("%s: %s", name, text)
		}
		new := NewSoftware(version{s, newest})
		if m := new.Missing(call(new)); (m == nil) != (function == "cuGraphNodeGetToolsId") || m != nil &&
			m.Driver != newest {
			t.Errorf("%s on a driver for CUDA %v answered %v", name, Version(newest), m)
		}
	}
}

// TestRoom checks that a slice that the driver fills is long enough for what C does not tell it.
func TestRoom(t *testing.T) {
	s, _ := newSoft()
	table := NewSoftware(version{s, newest})
	for _, c := range []struct {
		size, each uint64
		n          int
		want       bool
	}{
		{3 << 21, 2 << 21, 2, true},
		{3 << 21, 2 << 21, 1, false},
		{4 << 21, 2 << 21, 2, true},
		{1<<64 - 1, 1 << 63, 2, true},
		{1<<64 - 1, 1 << 63, 1, false},
		{1 << 21, 0, 8, false},
		{0, 1, 0, true},
	} {
		res := table.MemGetLocationInfo(At{}, 1, c.size, c.each, 0, make([]MemLocation, c.n))
		if reached := table.Missing(res) != nil; reached != c.want || !reached && res != ResultInvalidValue {
			t.Errorf("%d locations for %d bytes, one for each %d: %v", c.n, c.size, c.each, res)
		}
	}
}
