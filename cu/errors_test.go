package cu_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/loader"
)

// TestMistakes checks what is said about mistakes: each message names the
// operation, the object and the remedy, each error matches its sentinel and the
// code that the driver would have given, and the driver is not called.
func TestMistakes(t *testing.T) {
	r := newRig(t)
	foreign := r.open()
	other := r.context(foreign, 0)
	foreignStream, foreignEvent := r.stream(other), r.event(other, 0)
	far := r.context(r.drv, 1)
	farStream, farEvent := r.stream(far), r.event(far, 0)
	e, untimed, unrecorded, closed := r.event(r.gpu, 0), r.event(r.gpu, EventDisableTiming), r.event(r.gpu, 0), r.event(r.gpu, 0)
	for event, stream := range map[*Event]*Stream{e: r.s, untimed: r.s, foreignEvent: foreignStream, farEvent: farStream} {
		r.ok(event.Record(stream))
	}
	r.ok(closed.Close())
	axpy := Need(r.module(r.gpu).Function("axpy"))(t)
	mem, foreignMem, farMem, freed := r.memory(r.gpu, 8), r.memory(other, 8), r.memory(far, 8), r.memory(r.gpu, 8)
	r.ok(freed.Close())
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	since := func(stop, start *Event) error { _, _, err := stop.Since(start); return err }

	for _, c := range []struct {
		name string
		err  func() error
		is   error
		code Result
		want string // handles stand as H, the library's path as LIB
	}{
		{"record nil", func() error { return (*Event)(nil).Record(r.s) }, ErrNil, ResultInvalidHandle,
			"cu: cuEventRecord: nil object; the event is nil: check the error of the call that should have made it"},
		{"record on nil", func() error { return e.Record(nil) }, ErrNil, ResultInvalidHandle,
			"cu: cuEventRecord(event H): nil object; the stream is nil: check the error of the call that should have made it"},
		{"record on a zero Stream", func() error { return e.Record(new(Stream)) }, ErrNil, ResultInvalidHandle,
			"cu: cuEventRecord(event H): nil object; the stream is nil: check the error of the call that should have made it"},
		{"record, drivers", func() error { return e.Record(foreignStream) }, ErrDriverMismatch, ResultInvalidHandle,
			"cu: cuEventRecord(event H): objects of different drivers; the event belongs to LIB (the *cu.Driver H), the stream H to LIB (the *cu.Driver H): open one driver and share it"},
		{"record, closed and drivers", func() error { return closed.Record(foreignStream) }, ErrDriverMismatch, ResultInvalidHandle,
			"cu: cuEventRecord(event H): objects of different drivers; the event belongs to LIB (the *cu.Driver H), the stream H to LIB (the *cu.Driver H): open one driver and share it"},
		{"record, devices", func() error { return e.Record(farStream) }, ErrDeviceMismatch, ResultInvalidHandle,
			"cu: cuEventRecord(event H): objects of different devices; the event is on device 0, the stream H on device 1: create both on one device"},
		{"record, closed and devices", func() error { return closed.Record(farStream) }, ErrClosed, ResultInvalidHandle,
			"cu: cuEventRecord(event H): already closed; the event was closed before the call: close it after its last use"},
		{"record, flags", func() error { return e.RecordWithFlags(r.s, 8) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuEventRecordWithFlags(stream H): invalid argument; unknown record flags 0x8: see RecordFlags"},
		{"wait, drivers", func() error { return r.s.WaitEvent(foreignEvent) }, ErrDriverMismatch, ResultInvalidHandle,
			"cu: cuStreamWaitEvent(event H): objects of different drivers; the event belongs to LIB (the *cu.Driver H), the stream H to LIB (the *cu.Driver H): open one driver and share it"},
		{"since, drivers", func() error { return since(e, foreignEvent) }, ErrDriverMismatch, ResultInvalidHandle,
			"cu: cuEventElapsedTime(start event H): objects of different drivers; the start event belongs to LIB (the *cu.Driver H), the stop event H to LIB (the *cu.Driver H): open one driver and share it"},
		{"since, devices", func() error { return since(e, farEvent) }, ErrDeviceMismatch, ResultInvalidHandle,
			"cu: cuEventElapsedTime(start event H): objects of different devices; the start event is on device 1, the stop event H on device 0: create both on one device"},
		{"since, untimed", func() error { return since(e, untimed) }, ErrNotTimed, ResultInvalidHandle,
			"cu: cuEventElapsedTime(start event H): event records no time; create or acquire it with cu.EventDefault: the zero Event and events with EventDisableTiming record no time"},
		{"since, unrecorded", func() error { return since(unrecorded, e) }, ErrNotRecorded, ResultInvalidHandle,
			"cu: cuEventElapsedTime(stop event H): event was not recorded; record both events before asking for the time between them"},
		{"since, untimed and unrecorded", func() error { return since(unrecorded, untimed) }, ErrNotTimed, ResultInvalidHandle,
			"cu: cuEventElapsedTime(start event H): event records no time; create or acquire it with cu.EventDefault: the zero Event and events with EventDisableTiming record no time"},
		{"since, closed and untimed", func() error { return since(closed, untimed) }, ErrClosed, ResultInvalidHandle,
			"cu: cuEventElapsedTime(stop event H): already closed; the event was closed before the call: close it after its last use"},
		{"event flags", func() error { _, err := r.gpu.NewEvent(9); return err }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuEventCreate(context H): invalid argument; unknown event flags EventBlockingSync|0x8: see EventFlags"},
		{"interprocess and timed", func() error { _, err := r.gpu.NewEvent(EventInterprocess); return err }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuEventCreate(context H): invalid argument; an interprocess event cannot record the time: add EventDisableTiming"},
		{"stream flags", func() error { _, err := r.gpu.NewStream(2); return err }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuStreamCreate(context H): invalid argument; unknown stream flags 0x2: see StreamFlags"},
		{"no memory", func() error { _, err := r.gpu.Alloc(0); return err }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuMemAlloc(context H): invalid argument; the size is 0 bytes: ask for at least one"},
		{"too much to copy", func() error { return mem.CopyFrom(make([]byte, 9)) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuMemcpyHtoD(device memory H, 8 bytes): invalid argument; 9 bytes at 0 do not fit into 8: copy fewer, or allocate more memory"},
		{"no image", func() error { _, err := r.gpu.LoadModule(nil); return err }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuModuleLoadDataEx(context H): invalid argument; the image is empty: check how it was read or embedded"},
		{"half an image", func() error { _, err := r.gpu.LoadModule([]byte("\x7fELF")); return err }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuModuleLoadDataEx(context H): invalid argument; the image is a truncated cubin: it has 4 bytes, and needs 64"},
		{"launch, drivers", func() error { return axpy.Launch(foreignStream, one) }, ErrDriverMismatch, ResultInvalidHandle,
			"cu: cuLaunchKernel(kernel H): objects of different drivers; the kernel belongs to LIB (the *cu.Driver H), the stream H to LIB (the *cu.Driver H): open one driver and share it"},
		{"launch, devices", func() error { return axpy.Launch(farStream, one) }, ErrDeviceMismatch, ResultInvalidHandle,
			"cu: cuLaunchKernel(kernel H): objects of different devices; the kernel is on device 0, the stream H on device 1: create both on one device"},
		{"launch, shape", func() error { return axpy.Launch(r.s, LaunchConfig{}) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuLaunchKernel(kernel H): invalid argument; kernel axpy: Grid.X and Block.X must be at least 1"},
		{"launch, number", func() error { return axpy.Launch(r.s, one, U32(1)) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuLaunchKernel(kernel H): invalid argument; kernel axpy takes 3 arguments, not 1"},
		{"launch, size", func() error { return axpy.Launch(r.s, one, Ptr(mem), U64(1), U64(1)) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuLaunchKernel(kernel H): invalid argument; kernel axpy: argument 1 has 8 bytes, and the kernel's parameter has 4: pass a value of that size"},
		{"launch, freed", func() error { return axpy.Launch(r.s, one, Ptr(freed), U32(1), U64(1)) }, ErrClosed, ResultInvalidValue,
			"cu: cuLaunchKernel(kernel H): already closed; kernel axpy: argument 0 is closed: device memory H, 8 bytes; close memory after its last use"},
		{"launch, nil memory", func() error { return axpy.Launch(r.s, one, Ptr(nil), U32(1), U64(1)) }, ErrNil, ResultInvalidValue,
			"cu: cuLaunchKernel(kernel H): nil object; kernel axpy: argument 0 is nil memory: check the error of the call that should have made it"},
		{"launch, another driver's memory", func() error { return axpy.Launch(r.s, one, Ptr(foreignMem), U32(1), U64(1)) }, ErrDriverMismatch, ResultInvalidValue,
			"cu: cuLaunchKernel(kernel H): objects of different drivers; kernel axpy: argument 0 is device memory H, 8 bytes, of LIB (the *cu.Driver H), and the kernel is of LIB (the *cu.Driver H): open one driver and share it"},
		{"launch, another device's memory", func() error { return axpy.Launch(r.s, one, Ptr(farMem), U32(1), U64(1)) }, ErrDeviceMismatch, ResultInvalidValue,
			"cu: cuLaunchKernel(kernel H): objects of different devices; kernel axpy: argument 0 is device memory H, 8 bytes, of another context, which the kernel may be unable to access: allocate it in the kernel's context, or enable peer access"},
		{"launch, pointers", func() error { return axpy.Launch(r.s, one, Value(&e), U32(1), U64(1)) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuLaunchKernel(kernel H): invalid argument: a **cu.Event contains Go pointers or has no fixed layout; kernel axpy: argument 0"},
	} {
		calls := r.ask("fake_all_calls")
		err := c.err()
		if r.ask("fake_all_calls") != calls {
			t.Errorf("%s: the driver was called", c.name)
		}
		if !errors.Is(err, c.is) || !errors.Is(err, c.code) {
			t.Errorf("%s: %v; want one that matches %q and %s", c.name, err, c.is, c.code.Name())
			continue
		}
		if diff := cmp.Diff(c.want, r.plain(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

var handles = regexp.MustCompile(`0x[0-9a-f]{8,}`)

// plain returns the message without what differs from run to run.
func (f *fake) plain(err error) string {
	return handles.ReplaceAllString(strings.ReplaceAll(err.Error(), f.path, "LIB"), "H")
}

// TestNil calls every method on nil: the answer is ErrNil, and no panic.
func TestNil(t *testing.T) {
	r := newRig(t)
	e := r.event(r.gpu, 0)
	var (
		noEvent   *Event
		noStream  *Stream
		noContext *Context
		noMemory  *DeviceMem
		noModule  *Module
		noFunc    *Function
		noTicket  *Ticket
		noDevice  *Device
		noDriver  *Driver
	)
	second := func(_ any, err error) error { return err }
	third := func(_, _ any, err error) error { return err }
	for name, err := range map[string]error{
		"Event.Close":           noEvent.Close(),
		"Event.Record":          noEvent.Record(r.s),
		"Event.RecordWithFlags": noEvent.RecordWithFlags(r.s, 0),
		"Event.Query":           second(noEvent.Query()),
		"Event.Synchronize":     noEvent.Synchronize(),
		"Event.Wait":            noEvent.Wait(t.Context()),
		"Event.Ticket":          second(noEvent.Ticket()),
		"Event.Since":           third(noEvent.Since(e)),
		"Event.Since nil":       third(e.Since(nil)),
		"Elapsed":               second(Elapsed(t.Context(), e, nil)),
		"Ticket.Wait":           noTicket.Wait(t.Context()),
		"Stream.Close":          noStream.Close(),
		"Stream.Query":          second(noStream.Query()),
		"Stream.Synchronize":    noStream.Synchronize(),
		"Stream.WaitEvent":      noStream.WaitEvent(e),
		"Stream.WaitEvent nil":  r.s.WaitEvent(nil),
		"zero Stream":           new(Stream).Close(),
		"Context.Close":         noContext.Close(),
		"Context.Err":           noContext.Err(),
		"Context.NewEvent":      second(noContext.NewEvent(0)),
		"Context.NewStream":     second(noContext.NewStream(0)),
		"Context.Alloc":         second(noContext.Alloc(1)),
		"Context.LoadModule":    second(noContext.LoadModule(nil)),
		"Context.Synchronize":   noContext.Synchronize(),
		"zero Context":          new(Context).Close(),
		"DeviceMem.Close":       noMemory.Close(),
		"DeviceMem.CopyTo":      noMemory.CopyTo(nil),
		"DeviceMem.CopyFrom":    noMemory.CopyFrom(nil),
		"Module.Close":          noModule.Close(),
		"Module.Function":       second(noModule.Function("noop")),
		"Function.Launch":       noFunc.Launch(r.s, LaunchConfig{}),
		"zero Function":         new(Function).Launch(r.s, LaunchConfig{}),
		"Device.PrimaryContext": second(noDevice.PrimaryContext()),
		"Device.Name":           second(noDevice.Name()),
		"Device.TotalMem":       second(noDevice.TotalMem()),
		"Driver.Device":         second(noDriver.Device(0)),
		"Driver.DeviceCount":    second(noDriver.DeviceCount()),
		"Driver.Version":        second(noDriver.Version()),
		"Driver.Proc":           second(noDriver.Proc("cuInit")),
	} {
		if !errors.Is(err, ErrNil) || !errors.Is(err, ResultInvalidHandle) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, got := range map[string]any{
		"Driver.String":  noDriver.String() != "",
		"Device.Ordinal": noDevice.Ordinal() == -1,
		"Context.Device": noContext.Device() == nil,
		"DeviceMem.Size": noMemory.Size() == 0,
	} {
		if got != true {
			t.Errorf("%s of nil", name)
		}
	}
}

// TestPoisoned lets a context fail for good: the first error is kept, and later
// ones say both.
func TestPoisoned(t *testing.T) {
	r := newRig(t)
	e := r.event(r.gpu, 0)
	r.ok(e.Record(r.s))
	r.ok(r.gpu.Err())
	far := r.context(r.drv, 1)

	r.tell("fake_poison", uintptr(core.Of(r.gpu).Context.Raw), 700)
	r.ok(r.gpu.Err()) // nobody has asked so far
	_, err := r.s.Query()
	if !errors.Is(err, ErrContextPoisoned) || !errors.Is(err, ResultIllegalAddress) {
		t.Errorf("Query: %v", err)
	}
	r.tell("fake_poison", uintptr(core.Of(r.gpu).Context.Raw), 719)
	err = e.Record(r.s)
	if !errors.Is(err, ErrContextPoisoned) || !errors.Is(err, ResultLaunchFailed) {
		t.Errorf("Record: %v", err)
	}
	want := "cu: cuEventRecord(H): context is poisoned by an earlier error: CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure; " +
		"cuStreamQuery was the first to report it, for work that was enqueued earlier; " +
		"a kernel failed: run the program under compute-sanitizer to see which kernel, and where; " +
		"no GPU works in this process any more: start a new process; " +
		"the first error was CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"
	if diff := cmp.Diff(want, r.plain(err)); diff != "" {
		t.Errorf("the second error (-want +got):\n%s", diff)
	}
	if err := r.gpu.Err(); !errors.Is(err, ErrContextPoisoned) || !errors.Is(err, ResultIllegalAddress) {
		t.Errorf("Err: %v", err)
	}
	r.ok(far.Err())
	r.ok(far.Synchronize())
	// Closing works, and says what is wrong, once.
	for _, c := range []interface{ Close() error }{e, r.s, r.gpu} {
		err := c.Close()
		if !errors.Is(err, ResultLaunchFailed) || !errors.Is(err, ErrContextPoisoned) {
			t.Errorf("first Close: %v", err)
		}
		if text := fmt.Sprint(err); strings.Contains(text, "compute-sanitizer") ||
			!strings.Contains(text, "(719); cuStreamQuery was the first to report it") {
			t.Errorf("Close repeats the remedy, or does not say where it is: %s", text)
		}
		r.ok(c.Close())
	}
}

// TestDriverErrors checks what is said about errors that the driver reports.
func TestDriverErrors(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		code Result
		want string
	}{
		{ResultInvalidValue, "cu: cuStreamQuery(H): CUDA_ERROR_INVALID_VALUE (1): invalid argument; check the arguments: another value is out of range, or an object does not fit the others"},
		{ResultLaunchOutOfResources, "cu: cuStreamQuery(H): CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): too many resources requested for launch; the error may come from work that was enqueued earlier; " +
			"the block has too many threads for the registers or shared memory that the kernel needs: ask SuggestBlockSize"},
		{ResultStreamCaptureUnsupported, "cu: cuStreamQuery(H): CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): operation not permitted when stream is capturing; " +
			"this call is not allowed for a stream that is being captured; during a capture it is not allowed in global mode on any thread, and in thread-local mode on the capturing thread: make the call before or after the capture, or, if it is not for that stream, capture in relaxed mode"},
		{ResultCapturedEvent, "cu: cuStreamQuery(H): CUDA_ERROR_CAPTURED_EVENT (907): operation not permitted on an event last recorded in a capturing stream; " +
			"the event's newest record is part of a capture, so the event has no status and no time: record it with RecordExternal, or query it after a record outside of the capture"},
		{12345, "cu: cuStreamQuery(H): CUresult 12345; the driver calls it CUDA_ERROR_OF_TOMORROW: an error that only a newer driver knows"},
		{54321, "cu: cuStreamQuery(H): CUresult 54321"},
	} {
		r.fail("cuStreamQuery", 1, c.code)
		st, err := r.s.Query()
		if st != StatusUnknown || !errors.Is(err, c.code) {
			t.Errorf("%d: %v, %v", int(c.code), st, err)
			continue
		}
		if diff := cmp.Diff(c.want, r.plain(err)); diff != "" {
			t.Errorf("%d (-want +got):\n%s", int(c.code), diff)
		}
	}
	if err := r.gpu.Err(); err != nil {
		t.Errorf("the context is poisoned: %v", err)
	}
}

// TestErrorsOfCreation checks that the error of a call that makes an object has the context's handle.
func TestErrorsOfCreation(t *testing.T) {
	fault := func(function string) cusim.Fault { return cusim.Fault{Function: function, Every: true, Code: 2} }
	drv := Need(Open(WithSoftware(cusim.New(cusim.Faults(
		fault("cuStreamCreate"), fault("cuEventCreate"), fault("cuModuleLoadDataEx"), fault("cuGraphCreate"),
		fault("cuMemPoolCreate"), fault("cuMemAlloc"))))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	second := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"stream": second(gpu.NewStream(StreamNonBlocking)), "event": second(gpu.NewEvent(EventDefault)),
		"module": second(gpu.LoadModule([]byte(kindsPTX))), "graph": second(graph.New(gpu)),
		"pool": second(memory.NewPool(gpu, memory.PoolOptions{})), "memory": second(gpu.Alloc(1)),
	} {
		var e *Error
		if !errors.As(err, &e) || e.Result != ResultOutOfMemory || e.Handle != gpu.Handle() ||
			what != "memory" && !strings.Contains(err.Error(), "(context 0x") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestOldDrivers opens drivers that lack what newer ones have.
func TestOldDrivers(t *testing.T) {
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	for _, c := range []struct {
		version         int
		elapsed         string
		params, byFlags bool
	}{
		{13000, "cuEventElapsedTime_v2", true, true},
		{12080, "cuEventElapsedTime_v2", true, true},
		{12050, "cuEventElapsedTime", true, true},
		{11010, "cuEventElapsedTime", false, true},
		{11000, "cuEventElapsedTime", false, false},
	} {
		t.Run(fmt.Sprint(c.version), func(t *testing.T) {
			f := newFake(t)
			f.tell("fake_version", c.version)
			drv := f.open()
			gpu := f.context(drv, 0)
			s, e := f.stream(gpu), f.event(gpu, 0)
			f.ok(e.Record(s))
			f.ok(e.Record(s))
			if n := f.asked(c.elapsed, func() {
				if _, st, err := e.Since(e); st != Complete || err != nil {
					t.Errorf("Since = %v, %v", st, err)
				}
			}); n != 1 {
				t.Errorf("%d calls of %s, want 1", n, c.elapsed)
			}
			fn := Need(f.module(gpu).Function("axpy"))(t)
			mem := f.memory(gpu, 8)
			f.ok(fn.Launch(s, one, Ptr(mem), F32(1), U64(7)))
			if err := fn.Launch(s, one, Ptr(mem), U64(1), U64(7)); (err != nil) != c.params {
				t.Errorf("Launch with a wrong argument: %v", err)
			}
			err := e.RecordWithFlags(s, 0)
			if c.byFlags {
				f.ok(err)
				return
			}
			if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ResultNotSupported) {
				t.Errorf("RecordWithFlags: %v", err)
			}
			var missing *driver.MissingError
			if !errors.As(err, &missing) {
				t.Fatalf("RecordWithFlags: %v", err)
			}
			want := &driver.MissingError{Symbol: "cuEventRecordWithFlags", Since: 11010, Driver: 11000}
			if diff := cmp.Diff(want, missing); diff != "" {
				t.Errorf("what is missing (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff("cu: cuEventRecordWithFlags(H): cuEventRecordWithFlags needs a driver for CUDA 11.1 or newer; this one is for CUDA 11.0; update the NVIDIA driver", f.plain(err)); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if _, err := drv.Proc("cuEventRecordWithFlags"); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Proc: %v", err)
			}
		})
	}
}

// TestFunctionParameters asks drivers for a kernel's parameters: one that fails
// to tell makes no kernel with arguments that nobody checks, but one that cannot
// tell does.
func TestFunctionParameters(t *testing.T) {
	r := newRig(t)
	m := r.module(r.gpu)
	for nth := 1; nth <= 4; nth++ {
		r.fail("cuFuncGetParamInfo", nth, ResultUnknown)
		if fn, err := m.Function("axpy"); fn != nil || !errors.Is(err, ResultUnknown) {
			t.Errorf("question %d fails: %v, %v", nth, fn, err)
		}
	}
	r.ok(r.gpu.Err())
	params, known := FunctionParams(Need(m.Function("axpy"))(t))
	if !known || !slices.Equal(params, []KernelParam{AnyParam(8), AnyParam(4), AnyParam(8)}) {
		t.Errorf("parameters %v, known %v", params, known)
	}
	r.fail("cuFuncGetParamInfo", 2, ResultIllegalAddress)
	if fn, err := m.Function("axpy"); fn != nil || !errors.Is(err, ErrContextPoisoned) {
		t.Errorf("poisoned: %v, %v", fn, err)
	}
	if err := r.gpu.Err(); !errors.Is(err, ErrContextPoisoned) || !errors.Is(err, ResultIllegalAddress) {
		t.Errorf("Err: %v", err)
	}

	r.tell("fake_version", 12030) // the function came with 12.4
	old := r.context(r.open(), 1)
	fn := Need(r.module(old).Function("axpy"))(t)
	if params, known = FunctionParams(fn); known || params != nil {
		t.Errorf("an old driver's parameters: %v, known %v", params, known)
	}
	r.ok(fn.Launch(r.stream(old), LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(r.memory(old, 8)), F32(1), U64(7)))
}

// Where NVIDIA ships no driver, Open says so; that the loader tells is its own test.
func TestNoDriverForPlatform(t *testing.T) {
	for platform, want := range map[string]string{
		"darwin/arm64": "cu: Open: no CUDA driver: loader: NVIDIA ships no CUDA driver for darwin/arm64; " +
			"run the program on Linux or Windows",
		"linux/amd64": "cu: Open: no CUDA driver: loader: no CUDA driver library could be loaded\n\tlibcuda.so.1 (here): not found; " +
			"to find the cause, run: go run github.com/purecu/purecu/cmd/cuprobe doctor",
	} {
		le := &loader.LoadError{Platform: platform}
		unsupported := platform == "darwin/arm64"
		if !unsupported {
			le.Candidates = []loader.Candidate{{Name: "libcuda.so.1", Source: "here", Problem: loader.Absent, Err: errors.New("not found")}}
		}
		err := NoDriver(le)
		if !errors.Is(err, ErrNoDriver) || errors.Is(err, errors.ErrUnsupported) != unsupported || err.Error() != want {
			t.Errorf("%s: %v, want %s", platform, err, want)
		}
	}
}

// TestOpenErrors opens what cannot be opened.
func TestOpenErrors(t *testing.T) {
	if _, err := Open(WithLibrary("/nonexistent/libcuda.so.1")); !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "/nonexistent/libcuda.so.1") {
		t.Errorf("no library: %v", err)
	}
	f := newFake(t)
	for _, c := range []struct {
		fn   string
		code Result
		is   error
	}{
		{"cuInit", ResultNoDevice, ErrNoDevice},
		{"cuInit", ResultUnknown, ResultUnknown},
		{"cuInit", 12345, Result(12345)},
		{"cuDriverGetVersion", ResultStubLibrary, ErrNoDriver},
		{"cuDriverGetVersion", ResultUnknown, ErrNoDriver},
	} {
		f.fail(c.fn, 1, c.code)
		if drv, err := Open(WithLibrary(f.path)); drv != nil || !errors.Is(err, c.is) ||
			c.fn == "cuInit" && !strings.Contains(err.Error(), "cuprobe doctor") {
			t.Errorf("%s returns %d: %v, %v", c.fn, int(c.code), drv, err)
		}
	}
	drv := f.open()
	for _, n := range []int{-1, 3, 1 << 40} {
		if _, err := drv.Device(n); !errors.Is(err, ResultInvalidDevice) || !strings.Contains(err.Error(), fmt.Sprintf("there is no device %d", n)) {
			t.Errorf("device %d: %v", n, err)
		}
	}
}

// TestDevice asks a device for what it is.
func TestDevice(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	dev := Need(drv.Device(1))(t)
	major, minor, err := dev.ComputeCapability()
	got := []any{Need(drv.Version())(t), Need(drv.DeviceCount())(t), dev.Ordinal(), Need(dev.Name())(t), Need(dev.TotalMem())(t), major, minor, err}
	if diff := cmp.Diff([]any{Version(12080), 3, 1, "Fake GPU 1", uint64(1 << 34), 9, 0, nil}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p := Need(drv.Proc("cuDeviceTotalMem"))(t)
	if p.Addr() == 0 {
		t.Error("no address")
	}
	if r, err := Need(drv.Proc("cuCtxPopCurrent"))(t).Call(0); err != nil || r != ResultInvalidContext {
		t.Errorf("Call = %v", r)
	}
}

// unasked is a library that a static program cannot ask, for want of a thread.
type unasked struct{}

func (unasked) Version() int { return 12080 }

func (unasked) Proc(string, int, bool) (uintptr, error) { return 0, ccall.ErrNoThread }

func (unasked) Symbol(string) (uintptr, error) { return 0, ccall.ErrNoThread }

// TestProcUnasked tells a function that nobody could look up from one that the driver lacks.
func TestProcUnasked(t *testing.T) {
	drv := UnusedDriver()
	core.Of(drv).Table().Use(unasked{})
	_, err := drv.Proc("cuMemAllocManaged")
	if !errors.Is(err, ResultOperatingSystem) || !errors.Is(err, ccall.ErrNoThread) || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Proc: %v", err)
	}
}

// TestLaunch looks at what the driver gets.
func TestLaunch(t *testing.T) {
	r := newRig(t)
	m := r.module(r.gpu)
	axpy, wide := Need(m.Function("axpy"))(t), Need(m.Function("wide"))(t)
	mem := r.memory(r.gpu, 8)
	launched := func(from, n int) (words []uint64) {
		for i := range n {
			words = append(words, r.ask("fake_launched", from+i))
		}
		return words
	}
	r.ok(axpy.Launch(r.s, LaunchConfig{Grid: Dim3{2, 3, 4}, Block: Dim3{X: 5, Y: 6}, SharedMem: 7}, Ptr(mem), F32(1), I64(-1)))
	stream := uint64(core.Of(r.s).Raw)
	if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5, 6, 1, 7, stream}, launched(0, 9)); diff != "" {
		t.Errorf("shape (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint64{uint64(core.Of(mem).Raw), 0, 0, 0, 0x3f800000, 0, 0, 0, 1<<64 - 1, 0, 0, 0}, launched(16, 12)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	type triple struct {
		A uint64
		B [2]int32
		C float64
	}
	r.ok(wide.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Value(triple{1, [2]int32{2, 3}, 1})))
	if diff := cmp.Diff([]uint64{1, 3<<32 | 2, 0x3ff0000000000000, 0}, launched(16, 4)); diff != "" {
		t.Errorf("a struct (-want +got):\n%s", diff)
	}
	if _, err := m.Function("absent"); !errors.Is(err, ResultNotFound) || !strings.Contains(err.Error(), "absent") {
		t.Errorf("Function: %v", err)
	}
}

// TestCopy copies to the device and back.
func TestCopy(t *testing.T) {
	r := newRig(t)
	m := r.memory(r.gpu, 8)
	r.ok(m.CopyFrom([]byte("purecu")))
	got := make([]byte, 6)
	r.ok(m.CopyTo(got))
	if string(got) != "purecu" || m.Size() != 8 {
		t.Errorf("%q, of %d", got, m.Size())
	}
	r.ok(m.CopyFrom(nil))
}

// TestOneFault lets one call of the driver fail: the usual call of each kind reports that, and the
// next one succeeds.
func TestOneFault(t *testing.T) {
	r := NewSoft(t)
	s, start, stop := r.Stream(), r.Event(EventDefault), r.Event(EventDefault)
	legacy := Need(r.GPU.LegacyStream())(t)
	r.OK(errors.Join(start.Record(s), stop.Record(s), s.Synchronize()))
	for _, c := range []struct {
		function string
		call     func() error
	}{
		{"cuEventRecord", func() error { return stop.Record(s) }},
		{"cuEventRecord", func() error { return stop.Record(legacy) }},
		{"cuStreamWaitEvent", func() error { return s.WaitEvent(stop) }},
		{"cuStreamWaitEvent", func() error { return legacy.WaitEvent(stop) }},
		{"cuEventElapsedTime", func() error { _, _, err := stop.Since(start); return err }},
		{"cuEventQuery", func() error { _, err := stop.Query(); return err }},
	} {
		r.Sim.Inject(cusim.Fault{Function: c.function, Code: int(ResultUnknown)})
		if err := c.call(); !errors.Is(err, ResultUnknown) {
			t.Errorf("%s that fails: %v", c.function, err)
		}
		r.OK(c.call())
	}
	r.OK(legacy.Close())
}
