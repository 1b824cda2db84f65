package core

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
)

// Device is a GPU.
type Device struct {
	Drv     *Driver
	Raw     driver.Device
	Ordinal int
}

// Kind names the device in errors.
func (dev *Device) Kind() string { return fmt.Sprintf("device %d", dev.Ordinal) }

// Handle returns 0, because the name has the number already.
func (dev *Device) Handle() uintptr { return 0 }

// CallError returns the error for a call about the device that the driver answered with res. res is not success.
func (dev *Device) CallError(op string, res driver.Result) error {
	return drivercall.About(dev, dev.Drv.ResultError(op, 0, res))
}
