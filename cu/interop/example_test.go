package interop_test

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cusim"
)

// There is no EGL here; a program that can do without asks.
func ExampleNewEventFromEGLSync() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	const sync = 0x1000 // an EGLSync
	_, err := interop.NewEventFromEGLSync(gpu, sync, cu.EventDefault)
	fmt.Println(errors.Is(err, errors.ErrUnsupported), errors.Is(err, cu.ResultNotSupported))
	// Output: true true
}
