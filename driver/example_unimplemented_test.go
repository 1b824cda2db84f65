package driver_test

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
)

// tiny is a driver with one device, whose events are complete when the test sets done. It has only
// the functions that it declares.
type tiny struct {
	driver.Unimplemented
	events   atomic.Uintptr
	complete atomic.Bool
}

// Software makes a tiny driver an argument for cu.WithSoftware.
func (d *tiny) Software() driver.Software { return d }

const ok = driver.ResultSuccess

func (d *tiny) Init(*driver.Thread, uint32) driver.Result                           { return ok }
func (d *tiny) DeviceGet(*driver.Thread, int32) (driver.Device, driver.Result)      { return 0, ok }
func (d *tiny) DevicePrimaryCtxRelease(*driver.Thread, driver.Device) driver.Result { return ok }
func (d *tiny) CtxPushCurrent(*driver.Thread, driver.Context) driver.Result         { return ok }
func (d *tiny) CtxPopCurrent(*driver.Thread) (driver.Context, driver.Result)        { return 1, ok }
func (d *tiny) EventDestroy(*driver.Thread, driver.Event) driver.Result             { return ok }

func (d *tiny) DevicePrimaryCtxRetain(*driver.Thread, driver.Device) (driver.Context, driver.Result) {
	return 1, ok
}

func (d *tiny) EventCreate(*driver.Thread, uint32) (driver.Event, driver.Result) {
	return driver.Event(d.events.Add(1)), ok
}

func (d *tiny) EventRecord(*driver.Thread, driver.Event, driver.Stream) driver.Result { return ok }

func (d *tiny) EventQuery(*driver.Thread, driver.Event) driver.Result {
	if d.complete.Load() {
		return ok
	}
	return driver.ResultNotReady
}

// A driver with a few functions is enough to record an event and to query it.
func ExampleUnimplemented() {
	mine := new(tiny)
	drv := must(cu.Open(cu.WithSoftware(mine)))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.LegacyStream())
	defer s.Close()
	e := must(gpu.NewEvent(cu.EventDisableTiming))
	defer e.Close()

	if err := e.Record(s); err != nil {
		fmt.Println(err)
	}
	fmt.Println(must(e.Query()))
	mine.complete.Store(true)
	fmt.Println(must(e.Query()))

	_, err := gpu.Alloc(1 << 20)
	fmt.Println(errors.Is(err, errors.ErrUnsupported), errors.Is(err, cu.ResultNotSupported))
	fmt.Println(err)
	// Output:
	// pending
	// complete
	// true true
	// cu: cuMemAlloc(0x1): the software driver has no cuMemAlloc_v2; do not use the function, or use NVIDIA's driver
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
