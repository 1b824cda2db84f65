package cu_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// hangingDriver is a software driver in which one function does not return until the test says so.
type hangingDriver struct {
	Software       driver.Software
	init, retain   chan struct{} // closed when the function may return, nil if it does not hang
	began, retains chan struct{} // gets a value when the function begins
}

func hang(sim *cusim.Driver) *hangingDriver {
	return &hangingDriver{Software: sim.Software(), began: make(chan struct{}, 10), retains: make(chan struct{}, 10)}
}

func (h *hangingDriver) Init(th *driver.Thread, flags uint32) driver.Result {
	h.began <- struct{}{}
	if h.init != nil {
		<-h.init
	}
	return h.Software.Init(th, flags)
}

func (h *hangingDriver) DevicePrimaryCtxRetain(th *driver.Thread, dev driver.Device) (driver.Context, driver.Result) {
	h.retains <- struct{}{}
	if h.retain != nil {
		<-h.retain
	}
	return h.Software.DevicePrimaryCtxRetain(th, dev)
}

// wantEnded checks the error of a call that ctx has ended.
func wantEnded(t *testing.T, err, cause error, op string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Op != op || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("got %v, want an error of %s with %v", err, op, cause)
	}
}

func TestOpenContext(t *testing.T) {
	sim := cusim.New()
	h := hang(sim)
	drv, err := OpenContext(context.Background(), WithSoftware(driver.Provide(override.Driver(h))))
	if err != nil || Need(drv.DeviceCount())(t) != 1 {
		t.Fatal(err)
	}
	<-h.began

	var none context.Context
	if _, err := OpenContext(none, WithSoftware(sim)); !errors.Is(err, ErrNil) {
		t.Errorf("without a context.Context: %v", err)
	}
	cause := errors.New("too late")
	ctx, cancel := context.WithCancelCause(context.Background())
	h.init = make(chan struct{})
	go func() { <-h.began; cancel(cause) }()
	_, err = OpenContext(ctx, WithSoftware(driver.Provide(override.Driver(h))))
	wantEnded(t, err, cause, "cuInit")
	if err == nil || !strings.Contains(err.Error(), "the driver has not answered") {
		t.Error(err)
	}
	close(h.init) // goleak finds a goroutine that does not end now

	_, err = OpenContext(ctx, WithSoftware(driver.Provide(override.Driver(h))))
	wantEnded(t, err, cause, "cuInit")
	if len(h.began) != 0 {
		t.Error("the driver was called after the context.Context had ended")
	}
	if _, err := OpenContext(context.Background(), WithSoftware(nil)); !errors.Is(err, ErrNil) {
		t.Errorf("an error of Open: %v", err)
	}
}

// TestRetainPrimaryContext cancels a retain that succeeds later. The context is not released in
// the background; the next call uses it again, or Close of the Driver releases it.
func TestRetainPrimaryContext(t *testing.T) {
	for _, again := range []bool{false, true} {
		sim := cusim.New()
		h := hang(sim)
		hook := WithLeakHook(func(l Leak) { t.Errorf("leak: %+v", l) })
		drv := Need(OpenNeverWait(WithSoftware(driver.Provide(override.Driver(h))), hook))(t)
		dev := Need(drv.Device(0))(t)
		h.retain = make(chan struct{})
		cause := errors.New("too late")
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() { <-h.retains; cancel(cause) }()
		_, err := dev.RetainPrimaryContext(ctx)
		wantEnded(t, err, cause, "cuDevicePrimaryCtxRetain")
		close(h.retain)
		if !Eventually(func() bool { return drv.Stats().AbandonedContexts == 1 }) {
			t.Fatalf("the context is not abandoned: %+v", drv.Stats())
		}
		if again {
			c, err := dev.RetainPrimaryContext(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if n := drv.Stats().AbandonedContexts; n != 0 {
				t.Errorf("%d contexts are abandoned, and one is in use", n)
			}
			if err := errors.Join(Need(c.Alloc(64))(t).Close(), c.Close()); err != nil {
				t.Error(err)
			}
		}
		if err := drv.Close(); err != nil {
			t.Error(err)
		}
		if left := sim.Census(); len(left) != 0 {
			t.Errorf("the driver still has %v", left)
		}
		sim.Check(t)
	}
	var none context.Context
	if _, err := (*Device)(nil).RetainPrimaryContext(none); !errors.Is(err, ErrNil) {
		t.Error(err)
	}
	if _, err := (*Device)(nil).RetainPrimaryContext(context.Background()); !errors.Is(err, ErrNil) {
		t.Error(err)
	}
}

// TestRetainPrimaryContextNoMemory has too little memory for a context. The call must not free
// deferred objects: it may continue when nobody waits for it, and frees would wait for the GPU.
func TestRetainPrimaryContextNoMemory(t *testing.T) {
	h := hang(cusim.New(cusim.Faults(cusim.Fault{Function: "cuDevicePrimaryCtxRetain", Code: 2})))
	drv := Need(OpenNeverWait(WithSoftware(driver.Provide(override.Driver(h)))))(t)
	dev := Need(drv.Device(0))(t)
	if _, err := dev.RetainPrimaryContext(context.Background()); !errors.Is(err, ResultOutOfMemory) {
		t.Errorf("got %v", err)
	}
	if n := len(h.retains); n != 1 {
		t.Errorf("%d calls of the driver", n)
	}
	if err := Need(dev.RetainPrimaryContext(context.Background()))(t).Close(); err != nil {
		t.Error(err)
	}
}

// TestGPUOpenContext opens the driver and the primary context of a GPU before a context.Context ends.
func TestGPUOpenContext(t *testing.T) {
	option := WithSoftware(cusim.New())
	if path := os.Getenv(GPUEnv); path == "1" {
		option = nil
	} else if path != "" {
		option = WithLibrary(path)
	}
	ctx, cancel := context.WithCancel(context.Background())
	drv := Need(OpenContext(ctx, option))(t)
	dev := Need(drv.Device(0))(t)
	c := Need(dev.RetainPrimaryContext(ctx))(t)
	if err := errors.Join(Need(c.Alloc(64))(t).Close(), c.Close()); err != nil {
		t.Error(err)
	}
	cancel()
	if _, err := dev.RetainPrimaryContext(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := drv.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseUnusedEndsWaits closes a Context that arrived too late, after the program has closed its own: the waits of the
// CUDA context end, as no Context is left.
func TestCloseUnusedEndsWaits(t *testing.T) {
	sim := cusim.New(cusim.VirtualTime())
	drv := Need(OpenNeverWait(WithSoftware(sim)))(t)
	dev := Need(drv.Device(0))(t)
	a, late := Need(dev.PrimaryContext())(t), Need(dev.PrimaryContext())(t)
	s := Need(a.NewStream(StreamNonBlocking))(t)
	sim.Hold(s.Handle())
	e := Need(a.NewEvent(0))(t)
	if err := e.Record(s); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Wait(context.Background()) }()
	if !Eventually(func() bool { return drv.Stats().Waits == 1 }) {
		t.Fatal("nobody waits")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	CloseUnused(late)
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("the wait ended with %v", err)
	}
	sim.Release(s.Handle())
	sim.Finish()
	if err := errors.Join(e.Close(), s.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
}

// TestCallContextGoexit calls a software driver that ends the goroutine, as t.FailNow does.
func TestCallContextGoexit(t *testing.T) {
	call := func() (int, error) { runtime.Goexit(); return 1, nil }
	_, err := drivercall.CallUntil(context.Background(), "cuInit", Hangs, call, func(int) {})
	if !errors.Is(err, drivercall.ErrGoexit) {
		t.Errorf("got %v", err)
	}
}
