package behaviour

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/driver"
)

// TestSteps runs every case on the stub, and compares its steps with those of the table. It does
// not compare answers.
func TestSteps(t *testing.T) {
	rows := table(t)
	for _, s := range []suiteName{suiteRaw, suiteCu} {
		t.Run(string(s), func(t *testing.T) {
			for _, c := range suites()[s] {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					reports, err := launch(t, job{Suite: s, Case: c.name, Target: target{Name: stubName, Software: stubName}}, caseLimit)
					if err != nil {
						t.Error(err)
					}
					var want, got []string
					for _, r := range rowsOf(rows, s, c.name) {
						want = append(want, r.step)
					}
					for _, rep := range reports {
						switch {
						case rep.Step != "":
							got = append(got, rep.Step)
						case rep.Kind == failed || rep.Kind == skipped:
							t.Errorf("%s: %s", rep.Kind, rep.Text)
						}
						if rep.Kind == left && slices.ContainsFunc(rows, func(r row) bool {
							return r.name == c.name && r.step == rep.Step && r.asserted.holds(driverInfo{Version: cuda13, Software: true})
						}) {
							t.Errorf("%s is asserted on software drivers, and not made: %s", rep.Step, rep.Text)
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("steps (-of the table +of the case):\n%s", diff)
					}
				})
			}
		})
	}
}

// stubName is the name of the stub in a target.
const stubName = "stub"

// A stub is a software driver whose functions return success and new handles. It has two devices.
// It keeps only the stacks of current contexts.
type stub struct {
	driver.Unimplemented

	last atomic.Uintptr
}

func newStub() driver.Software { return new(stub) }

// handle returns a new handle.
func handle[H ~uintptr | ~uint64](s *stub) H { return H(s.last.Add(16)) }

const ok = driver.ResultSuccess

type thread = *driver.Thread

func (*stub) Init(thread, uint32) driver.Result                              { return ok }
func (*stub) DriverGetVersion(thread) (int32, driver.Result)                 { return cuda13, ok }
func (*stub) DeviceGetCount(thread) (int32, driver.Result)                   { return 2, ok }
func (*stub) DeviceGet(_ thread, n int32) (driver.Device, driver.Result)     { return driver.Device(n), ok }
func (*stub) DevicePrimaryCtxRelease(thread, driver.Device) driver.Result    { return ok }
func (*stub) DevicePrimaryCtxReset(thread, driver.Device) driver.Result      { return ok }
func (*stub) CtxDestroy(thread, driver.Context) driver.Result                { return ok }
func (*stub) CtxGetDevice(thread) (driver.Device, driver.Result)             { return 0, ok }
func (*stub) CtxSynchronize(thread) driver.Result                            { return ok }
func (*stub) CtxGetStreamPriorityRange(thread) (a, b int32, _ driver.Result) { return 0, 0, ok }

func (*stub) CtxGetApiVersion(thread, driver.Context) (uint32, driver.Result) { return 0, ok }

func (*stub) CtxGetId(_ thread, ctx driver.Context) (uint64, driver.Result) { return uint64(ctx), ok }

// current is the thread's stack of contexts.
func current(th thread) *[]driver.Context {
	if th.Local == nil {
		th.Local = new([]driver.Context)
	}
	return th.Local.(*[]driver.Context)
}

func (*stub) CtxPushCurrent(th thread, ctx driver.Context) driver.Result {
	stack := current(th)
	*stack = append(*stack, ctx)
	return ok
}

func (s *stub) CtxPopCurrent(th thread) (driver.Context, driver.Result) {
	top, _ := s.CtxGetCurrent(th)
	if stack := current(th); top != 0 {
		*stack = (*stack)[:len(*stack)-1]
	}
	return top, ok
}

func (*stub) CtxGetCurrent(th thread) (driver.Context, driver.Result) {
	if stack := *current(th); len(stack) > 0 {
		return stack[len(stack)-1], ok
	}
	return 0, ok
}

func (s *stub) CtxSetCurrent(th thread, ctx driver.Context) driver.Result {
	s.CtxPopCurrent(th)
	if ctx != 0 {
		return s.CtxPushCurrent(th, ctx)
	}
	return ok
}

func (s *stub) DevicePrimaryCtxRetain(thread, driver.Device) (driver.Context, driver.Result) {
	return handle[driver.Context](s), ok
}

func (*stub) DevicePrimaryCtxGetState(thread, driver.Device) (flags uint32, active int32, _ driver.Result) {
	return 0, 0, ok
}

func (*stub) DevicePrimaryCtxSetFlags(thread, driver.Device, uint32) driver.Result { return ok }

func (s *stub) CtxCreate(th thread, _ *driver.CtxCreateParams, _ uint32,
	_ driver.Device) (driver.Context, driver.Result) {
	ctx := handle[driver.Context](s)
	return ctx, s.CtxPushCurrent(th, ctx)
}

func (s *stub) EventCreate(thread, uint32) (driver.Event, driver.Result) {
	return handle[driver.Event](s), ok
}

func (*stub) EventDestroy(thread, driver.Event) driver.Result               { return ok }
func (*stub) EventRecord(thread, driver.Event, driver.Stream) driver.Result { return ok }
func (*stub) EventQuery(thread, driver.Event) driver.Result                 { return ok }
func (*stub) EventSynchronize(thread, driver.Event) driver.Result           { return ok }

func (*stub) EventRecordWithFlags(thread, driver.Event, driver.Stream, uint32) driver.Result {
	return ok
}

func (*stub) EventElapsedTime(_ thread, a, b driver.Event) (float32, driver.Result)   { return 0, ok }
func (*stub) EventElapsedTimeV2(_ thread, a, b driver.Event) (float32, driver.Result) { return 0, ok }

func (s *stub) StreamCreate(thread, uint32) (driver.Stream, driver.Result) {
	return handle[driver.Stream](s), ok
}

func (s *stub) StreamCreateWithPriority(thread, uint32, int32) (driver.Stream, driver.Result) {
	return handle[driver.Stream](s), ok
}

func (*stub) StreamDestroy(thread, driver.Stream) driver.Result     { return ok }
func (*stub) StreamQuery(thread, driver.Stream) driver.Result       { return ok }
func (*stub) StreamSynchronize(thread, driver.Stream) driver.Result { return ok }

func (*stub) StreamWaitEvent(thread, driver.Stream, driver.Event, uint32) driver.Result { return ok }

func (*stub) StreamGetCtx(thread, driver.Stream) (driver.Context, driver.Result)   { return 0, ok }
func (*stub) StreamGetFlags(thread, driver.Stream) (uint32, driver.Result)         { return 0, ok }
func (*stub) StreamGetPriority(thread, driver.Stream) (int32, driver.Result)       { return 0, ok }
func (*stub) StreamGetId(thread, driver.Stream) (uint64, driver.Result)            { return 0, ok }
func (*stub) StreamGetDevice(thread, driver.Stream) (driver.Device, driver.Result) { return 0, ok }

func (*stub) LaunchHostFunc(_ thread, _ driver.Stream, f driver.Callback) driver.Result {
	f.Go()
	return ok
}

func (*stub) StreamAddCallback(_ thread, _ driver.Stream, f driver.Callback, _ uint32) driver.Result {
	f.GoStatus(ok)
	return ok
}

func (*stub) StreamBeginCapture(thread, driver.Stream, int32) driver.Result        { return ok }
func (*stub) StreamIsCapturing(thread, driver.Stream) (int32, driver.Result)       { return 0, ok }
func (*stub) ThreadExchangeStreamCaptureMode(thread, int32) (int32, driver.Result) { return 0, ok }
func (*stub) GraphDestroy(thread, driver.Graph) driver.Result                      { return ok }
func (*stub) GraphLaunch(thread, driver.GraphExec, driver.Stream) driver.Result    { return ok }
func (*stub) GraphExecDestroy(thread, driver.GraphExec) driver.Result              { return ok }

func (s *stub) StreamEndCapture(thread, driver.Stream) (driver.Graph, driver.Result) {
	return handle[driver.Graph](s), ok
}

func (*stub) StreamGetCaptureInfoV3(thread, driver.Stream) (int32, uint64, driver.Graph, driver.HostPtr, driver.HostPtr, uint64, driver.Result) {
	return 0, 0, 0, 0, 0, 0, ok
}

func (s *stub) GraphCreate(thread, uint32) (driver.Graph, driver.Result) {
	return handle[driver.Graph](s), ok
}

func (s *stub) GraphAddEventRecordNode(thread, driver.Graph, []driver.GraphNode, driver.Event) (driver.GraphNode, driver.Result) {
	return handle[driver.GraphNode](s), ok
}

func (s *stub) GraphAddEventWaitNode(thread, driver.Graph, []driver.GraphNode, driver.Event) (driver.GraphNode, driver.Result) {
	return handle[driver.GraphNode](s), ok
}

func (*stub) GraphEventRecordNodeGetEvent(thread, driver.GraphNode) (driver.Event, driver.Result) {
	return 0, ok
}

func (*stub) GraphGetNodes(thread, driver.Graph, []driver.GraphNode) (uint64, driver.Result) {
	return 0, ok
}

func (s *stub) GraphInstantiateWithFlags(thread, driver.Graph, uint64) (driver.GraphExec, driver.Result) {
	return handle[driver.GraphExec](s), ok
}

func (*stub) GraphExecEventRecordNodeSetEvent(thread, driver.GraphExec, driver.GraphNode, driver.Event) driver.Result {
	return ok
}

func (*stub) IpcGetEventHandle(thread, driver.Event) (h driver.IPCEventHandle, _ driver.Result) {
	return h, ok
}

func (s *stub) IpcOpenEventHandle(thread, driver.IPCEventHandle) (driver.Event, driver.Result) {
	return handle[driver.Event](s), ok
}

func (s *stub) MemAlloc(thread, uint64) (driver.DevicePtr, driver.Result) {
	return handle[driver.DevicePtr](s), ok
}

func (*stub) MemFree(thread, driver.DevicePtr) driver.Result   { return ok }
func (*stub) ModuleUnload(thread, driver.Module) driver.Result { return ok }

func (s *stub) ModuleLoadData(thread, []byte) (driver.Module, driver.Result) {
	return handle[driver.Module](s), ok
}

func (s *stub) ModuleLoadDataEx(thread, []byte, []uint32, []uintptr) (driver.Module, driver.Result) {
	return handle[driver.Module](s), ok
}

func (s *stub) ModuleGetFunction(thread, driver.Module, string) (driver.Function, driver.Result) {
	return handle[driver.Function](s), ok
}

func (*stub) LaunchKernel(_ thread, _ driver.Function, gx, gy, gz, bx, by, bz, shared uint32, _ driver.Stream, _ driver.KernelParams) driver.Result {
	return ok
}
