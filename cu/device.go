package cu

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/valuename"
)

// Device is a GPU. It need not be closed. A Driver has exactly one *Device for each GPU, so that
// the pointers can be compared.
type Device struct {
	drv *Driver
	deviceRef
}

// deviceRef is an alias, so that the field of a Device is not exported.
type deviceRef = core.Ref[core.Device]

// Device returns the device with the given ordinal, counted from 0 (cuDeviceGet).
func (d *Driver) Device(ordinal int) (*Device, error) {
	const op = "cuDeviceGet"
	if !d.open() {
		return nil, drivercall.NilError(op, "driver")
	}
	raw, res := driver.Device(0), driver.ResultInvalidDevice
	if int(int32(ordinal)) == ordinal {
		raw, res = d.core.Table().DeviceGet(driver.At{}, int32(ordinal))
	}
	switch res {
	case driver.ResultSuccess:
		return d.device(raw, ordinal), nil
	case driver.ResultInvalidDevice:
		n, _ := d.DeviceCount()
		has := fmt.Sprintf("the devices 0 to %d", n-1)
		switch n {
		case 0:
			has = "no device"
		case 1:
			has = "only device 0"
		}
		return nil, &Error{Op: op, Result: res, Detail: fmt.Sprintf("there is no device %d: the driver has %s", ordinal, has)}
	}
	return nil, d.core.ResultError(op, 0, res)
}

// device returns the Device of a handle.
func (d *Driver) device(raw driver.Device, ordinal int) *Device {
	d.core.Mu.Lock()
	defer d.core.Mu.Unlock()
	dev := d.devices[raw]
	if dev == nil {
		dev = &Device{drv: d, deviceRef: core.RefTo(&core.Device{Drv: &d.core, Raw: raw, Ordinal: ordinal})}
		d.devices[raw] = dev
	}
	return dev
}

// deviceOf returns the Device of a context.
func deviceOf(c *core.Context) *Device { return c.APIDevice.(*Device) }

// Devices returns all devices that the driver has, in the order of their ordinals.
func (d *Driver) Devices() ([]*Device, error) {
	n, err := d.DeviceCount()
	if err != nil {
		return nil, err
	}
	devs := make([]*Device, n)
	for i := range devs {
		if devs[i], err = d.Device(i); err != nil {
			return nil, err
		}
	}
	return devs, nil
}

// DeviceByPCIBusID returns the device with a PCI address, such as "0000:3b:00.0", "3b:00.0" or
// "0000:3b:00" (cuDeviceGetByPCIBusId).
func (d *Driver) DeviceByPCIBusID(id string) (*Device, error) {
	const op = "cuDeviceGetByPCIBusId"
	if !d.open() {
		return nil, drivercall.NilError(op, "driver")
	}
	raw, res := d.core.Table().DeviceGetByPCIBusId(driver.At{}, id)
	switch res {
	case driver.ResultSuccess:
	case driver.ResultInvalidDevice, driver.ResultInvalidValue:
		return nil, &Error{Op: op, Result: res, Detail: fmt.Sprintf("the driver has no device in PCI slot %q", id)}
	default:
		return nil, d.core.ResultError(op, 0, res)
	}
	// Today the handle is the ordinal, but CUDA does not promise that.
	devs, err := d.Devices()
	if err != nil {
		return nil, err
	}
	for _, dev := range devs {
		if dev.core().Raw == raw {
			return dev, nil
		}
	}
	return nil, &Error{
		Op:     op,
		Result: ResultInvalidDevice,
		Detail: fmt.Sprintf("the driver does not list the device in PCI slot %q", id),
	}
}

// core returns the state of the device, or nil for a nil or zero Device.
func (dev *Device) core() *core.Device {
	if dev == nil {
		return nil
	}
	return core.State(&dev.deviceRef)
}

// Ordinal returns the number of the device for [Driver.Device], or -1 for nil.
func (dev *Device) Ordinal() int {
	if dev.core() == nil {
		return -1
	}
	return dev.core().Ordinal
}

// String returns the device's ordinal and name, such as "device 0 (NVIDIA H200)".
func (dev *Device) String() string {
	if dev.core() == nil {
		return "no device"
	}
	name, err := dev.Name()
	if err != nil {
		return fmt.Sprintf("device %d", dev.core().Ordinal)
	}
	return fmt.Sprintf("device %d (%s)", dev.core().Ordinal, name)
}

// Driver returns the driver of the device, or nil for a nil Device.
func (dev *Device) Driver() *Driver {
	if dev.core() == nil {
		return nil
	}
	return dev.drv
}

// UUID identifies a device. It stays the same when the machine restarts.
type UUID [16]byte

// String returns the UUID in the form that NVIDIA's tools use for a whole GPU:
// "GPU-01234567-89ab-cdef-0123-456789abcdef". For a MIG instance these tools write "MIG-" instead
// of "GPU-".
func (u UUID) String() string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// MarshalText returns the same text as String.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UUID returns the device's UUID, or the UUID of its MIG instance (cuDeviceGetUuid_v2,
// cuDeviceGetUuid). Drivers before CUDA 11.4 cannot report the UUID of a MIG instance.
func (dev *Device) UUID() (UUID, error) {
	const op = "cuDeviceGetUuid"
	if dev.core() == nil {
		return UUID{}, drivercall.NilError(op, "device")
	}
	u, res := dev.core().Drv.Table().DeviceGetUUID(driver.At{}, dev.core().Raw)
	if dev.core().Drv.Table().Missing(res) != nil { // before CUDA 11.4
		u, res = dev.core().Drv.Table().DeviceGetUUIDV1(driver.At{}, dev.core().Raw)
	}
	if res != driver.ResultSuccess {
		return UUID{}, dev.core().CallError(op, res)
	}
	return UUID(u), nil
}

// Name returns the device's name, such as "NVIDIA H200" (cuDeviceGetName).
func (dev *Device) Name() (string, error) {
	return dev.queryText("cuDeviceGetName", (*driver.Table).DeviceGetName)
}

// PCIBusID returns the device's PCI address, such as "0000:3B:00.0" (cuDeviceGetPCIBusId). Linux
// writes the address in lower case.
func (dev *Device) PCIBusID() (string, error) {
	return dev.queryText("cuDeviceGetPCIBusId", (*driver.Table).DeviceGetPCIBusId)
}

func (dev *Device) queryText(op string,
	get func(*driver.Table, driver.At, []byte, driver.Device) driver.Result) (string, error) {
	if dev.core() == nil {
		return "", drivercall.NilError(op, "device")
	}
	buf := make([]byte, 256)
	if res := get(dev.core().Drv.Table(), driver.At{}, buf, dev.core().Raw); res != driver.ResultSuccess {
		return "", dev.core().CallError(op, res)
	}
	text, _, _ := bytes.Cut(buf, []byte{0})
	return string(text), nil
}

// ComputeCapability returns the major and the minor number of the device's compute capability
// (cuDeviceGetAttribute).
func (dev *Device) ComputeCapability() (major, minor int, err error) {
	if major, err = dev.Attribute(DeviceAttributeComputeCapabilityMajor); err == nil {
		minor, err = dev.Attribute(DeviceAttributeComputeCapabilityMinor)
	}
	return major, minor, err
}

// DeviceAttribute is a property of a device.
type DeviceAttribute int32

// String returns the attribute's name in lower case.
func (a DeviceAttribute) String() string { return valuename.Of(namesDeviceAttribute[:], int32(a)) }

// MarshalText returns the same text as String.
func (a DeviceAttribute) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Attribute returns a property of the device (cuDeviceGetAttribute). It is a number in the unit
// that CUDA's documentation names (kHz for clock rates, bytes for sizes), or 1 for yes and 0 for
// no. If the driver is too old for the attribute, the error matches [ResultInvalidValue].
func (dev *Device) Attribute(a DeviceAttribute) (int, error) {
	const op = "cuDeviceGetAttribute"
	if dev.core() == nil {
		return 0, drivercall.NilError(op, "device")
	}
	v, res := dev.core().Drv.Table().DeviceGetAttribute(driver.At{}, int32(a), dev.core().Raw)
	switch res {
	case driver.ResultSuccess:
		return int(v), nil
	case driver.ResultInvalidValue:
		return 0, drivercall.BadValue(op, dev.core(),
			fmt.Sprintf("the driver does not have attribute %d (%v)", int32(a), a))
	}
	return 0, dev.core().CallError(op, res)
}

// Attributes returns all properties that have a name in this package and that the driver supports.
func (dev *Device) Attributes() (map[DeviceAttribute]int, error) {
	all := make(map[DeviceAttribute]int)
	for _, n := range namesDeviceAttribute {
		v, err := dev.Attribute(DeviceAttribute(n.Value))
		switch {
		case err == nil:
			all[DeviceAttribute(n.Value)] = v
		case !errors.Is(err, ResultInvalidValue) && !errors.Is(err, ResultNotSupported):
			return nil, err
		}
	}
	return all, nil
}

// LimitsSMs reports whether [Device.NewContextWithSMs] works (cuDeviceGetExecAffinitySupport, CUDA 11.4).
func (dev *Device) LimitsSMs() (bool, error) {
	const op = "cuDeviceGetExecAffinitySupport"
	if dev.core() == nil {
		return false, drivercall.NilError(op, "device")
	}
	of := dev.core()
	v, res := of.Drv.Table().DeviceGetExecAffinitySupport(driver.At{}, driver.CU_EXEC_AFFINITY_TYPE_SM_COUNT, of.Raw)
	if res != driver.ResultSuccess {
		return false, dev.core().CallError(op, res)
	}
	return v != 0, nil
}

// CanAccessPeer reports whether kernels on this device can access the memory of another device
// (cuDeviceCanAccessPeer). [Context.EnablePeerAccess] enables the access.
func (dev *Device) CanAccessPeer(peer *Device) (bool, error) {
	const op = "cuDeviceCanAccessPeer"
	if err := dev.checkPeer(op, peer); err != nil {
		return false, err
	}
	can, res := dev.core().Drv.Table().DeviceCanAccessPeer(driver.At{}, dev.core().Raw, peer.core().Raw)
	if res != driver.ResultSuccess {
		return false, dev.core().CallError(op, res)
	}
	return can != 0, nil
}

// P2PAttribute is a property of the link from one device to another.
type P2PAttribute int32

// String returns the attribute's name in lower case.
func (a P2PAttribute) String() string { return valuename.Of(namesP2PAttribute[:], int32(a)) }

// P2PAttribute returns a property of the link from this device to another one
// (cuDeviceGetP2PAttribute).
func (dev *Device) P2PAttribute(a P2PAttribute, peer *Device) (int, error) {
	const op = "cuDeviceGetP2PAttribute"
	if err := dev.checkPeer(op, peer); err != nil {
		return 0, err
	}
	v, res := dev.core().Drv.Table().DeviceGetP2PAttribute(driver.At{}, int32(a), dev.core().Raw, peer.core().Raw)
	if res != driver.ResultSuccess {
		return 0, dev.core().CallError(op, res)
	}
	return int(v), nil
}

// checkPeer checks the devices of a call on two devices.
func (dev *Device) checkPeer(op string, peer *Device) error {
	switch {
	case dev.core() == nil:
		return drivercall.NilError(op, "device")
	case peer.core() == nil:
		return drivercall.NilArgError(op, dev.core(), "other device")
	}
	if dev.drv != peer.drv {
		return drivercall.Misuse(op, dev.core(), ErrDriverMismatch, fmt.Sprintf(
			"one device belongs to %s, the other to %s: open one driver and share it", dev.core().Drv.Which(),
			peer.core().Drv.Which()))
	}
	return nil
}

// PrimaryContextState returns the flags of the device's primary context, and whether any code in
// the process retains the context (cuDevicePrimaryCtxGetState).
func (dev *Device) PrimaryContextState() (flags ContextFlags, active bool, err error) {
	const op = "cuDevicePrimaryCtxGetState"
	if dev.core() == nil {
		return 0, false, drivercall.NilError(op, "device")
	}
	f, a, res := dev.core().Drv.Table().DevicePrimaryCtxGetState(driver.At{}, dev.core().Raw)
	if res != driver.ResultSuccess {
		return 0, false, dev.core().CallError(op, res)
	}
	return ContextFlags(f), a != 0, nil
}

// SetPrimaryContextFlags sets the flags of the device's primary context
// (cuDevicePrimaryCtxSetFlags). Drivers before CUDA 11 refuse the call while the context is active.
func (dev *Device) SetPrimaryContextFlags(flags ContextFlags) error {
	const op = "cuDevicePrimaryCtxSetFlags"
	if dev.core() == nil {
		return drivercall.NilError(op, "device")
	}
	if err := flags.check(op); err != nil {
		return drivercall.About(dev.core(), err)
	}
	res := dev.core().Drv.Table().DevicePrimaryCtxSetFlags(driver.At{}, dev.core().Raw, uint32(flags))
	if res != driver.ResultSuccess {
		return dev.core().CallError(op, res)
	}
	return nil
}

// TotalMem returns the size of the device's memory in bytes (cuDeviceTotalMem).
func (dev *Device) TotalMem() (uint64, error) {
	const op = "cuDeviceTotalMem"
	if dev.core() == nil {
		return 0, drivercall.NilError(op, "device")
	}
	n, res := dev.core().Drv.Table().DeviceTotalMem(driver.At{}, dev.core().Raw)
	if res != driver.ResultSuccess {
		return 0, dev.core().CallError(op, res)
	}
	return n, nil
}
