package cu

import (
	"bytes"
	"fmt"

	"github.com/purecu/purecu/internal/driver"
)

// Device is a GPU. It needs no closing.
type Device struct {
	drv     *Driver
	raw     driver.Device
	ordinal int
}

// Device returns the device with the given ordinal, counted from 0
// (cuDeviceGet).
func (d *Driver) Device(ordinal int) (*Device, error) {
	if !d.open() {
		return nil, errNil("cuDeviceGet", "driver")
	}
	if int(int32(ordinal)) != ordinal {
		return nil, &Error{Op: "cuDeviceGet", Result: ResultInvalidDevice, Detail: fmt.Sprintf("there is no device %d", ordinal)}
	}
	raw, res := d.table.DeviceGet(driver.At{}, int32(ordinal))
	if res == driver.ResultInvalidDevice {
		n, _ := d.DeviceCount()
		return nil, &Error{Op: "cuDeviceGet", Result: Result(res), Detail: fmt.Sprintf("there is no device %d: the driver sees %d, counted from 0", ordinal, n)}
	}
	if res != driver.ResultSuccess {
		return nil, d.fail("cuDeviceGet", 0, res)
	}
	return &Device{d, raw, ordinal}, nil
}

// Ordinal returns the number by which [Driver.Device] finds the device. It
// returns -1 for nil.
func (dev *Device) Ordinal() int {
	if dev == nil || dev.drv == nil {
		return -1
	}
	return dev.ordinal
}

// Name returns the device's name, such as "NVIDIA H200" (cuDeviceGetName).
func (dev *Device) Name() (string, error) {
	const op = "cuDeviceGetName"
	if dev == nil || dev.drv == nil {
		return "", errNil(op, "device")
	}
	buf := make([]byte, 256)
	if res := dev.drv.table.DeviceGetName(driver.At{}, buf, dev.raw); res != driver.ResultSuccess {
		return "", dev.drv.fail(op, 0, res)
	}
	name, _, _ := bytes.Cut(buf, []byte{0})
	return string(name), nil
}

// ComputeCapability returns the major and minor number of the device's compute
// capability (cuDeviceGetAttribute).
func (dev *Device) ComputeCapability() (major, minor int, err error) {
	if major, err = dev.attribute(driver.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR); err == nil {
		minor, err = dev.attribute(driver.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
	}
	return major, minor, err
}

func (dev *Device) attribute(a int32) (int, error) {
	const op = "cuDeviceGetAttribute"
	if dev == nil || dev.drv == nil {
		return 0, errNil(op, "device")
	}
	v, res := dev.drv.table.DeviceGetAttribute(driver.At{}, a, dev.raw)
	if res != driver.ResultSuccess {
		return 0, dev.drv.fail(op, 0, res)
	}
	return int(v), nil
}

// TotalMem returns the size of the device's memory in bytes (cuDeviceTotalMem).
func (dev *Device) TotalMem() (uint64, error) {
	const op = "cuDeviceTotalMem"
	if dev == nil || dev.drv == nil {
		return 0, errNil(op, "device")
	}
	n, res := dev.drv.table.DeviceTotalMem(driver.At{}, dev.raw)
	if res != driver.ResultSuccess {
		return 0, dev.drv.fail(op, 0, res)
	}
	return n, nil
}
