package nvml

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// Device is a GPU, or a MIG device, which is a part of one. It needs no Close. Its methods are safe for concurrent use.
type Device struct{ object }

// obj returns the object of d, or nil.
func (d *Device) obj() *object {
	if d == nil || d.lib == nil {
		return nil
	}
	return &d.object
}

// String returns how errors name the device: "device 0".
func (d *Device) String() string {
	if d == nil {
		return "no device"
	}
	return d.name
}

// Handle returns the nvmlDevice_t, for calls through package raw.
func (d *Device) Handle() raw.Device {
	if d == nil {
		return 0
	}
	return raw.Device(d.handle)
}

// WithTimeout returns the device with a limit for each call, which is measured from the call of the method. 0 is no
// limit; with a negative one the calls fail at once. A call without an answer within the limit returns an error that
// matches [ErrTimeout], and NVML's answer is discarded. A call into NVML cannot be interrupted: it goes on, and holds
// one thread until it returns, which may take minutes. All calls with a bound about one GPU are made one after the
// other, so that a GPU holds at most one thread. As long as NVML has not returned, further calls with a bound wait for
// it within their limit, or return the error at once if NVML has been silent for longer than that. Calls without a
// bound do not wait for others.
func (d *Device) WithTimeout(limit time.Duration) *Device {
	if d == nil {
		return nil
	}
	return &Device{d.with(bound{d.bound.ctx, limit})}
}

// WithContext returns the device with calls that end with ctx, as those of [Device.WithTimeout] end with a limit. The
// error matches that of ctx. If both are given, the first that ends counts.
func (d *Device) WithContext(ctx context.Context) *Device {
	if d == nil {
		return nil
	}
	return &Device{d.with(bound{ctx, d.bound.timeout})}
}

// device returns the device of a handle.
func (o *object) device(h raw.Device, name string) *Device {
	d := o.part(uint64(h), name)
	d.lane = o.lib.laneOf(h)
	return &Device{d}
}

// Devices returns the GPUs, in the order of their indexes (nvmlDeviceGetCount_v2, nvmlDeviceGetHandleByIndex_v2). The
// index of a GPU can change when the machine restarts. For a GPU that cannot be opened the device is nil, the error
// says why, and the sequence goes on. MIG devices are parts of GPUs: see [Device.MIGDevices].
func (l *Library) Devices() iter.Seq2[*Device, error] {
	return func(yield func(*Device, error) bool) {
		n, err := l.DeviceCount()
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range n {
			if !yield(l.Device(i)) {
				return
			}
		}
	}
}

// Device returns the GPU with an index (nvmlDeviceGetHandleByIndex_v2). The process needs no access to the other GPUs.
func (l *Library) Device(index int) (*Device, error) {
	const op = "nvmlDeviceGetHandleByIndex_v2"
	o := l.obj()
	if err := o.checkNumber(op, "index", index); err != nil {
		return nil, err
	}
	w, err := o.lookup(index).call(op, words{b: uint64(index)}, func(l *raw.Library, w words) (words, raw.Return) {
		var d raw.Device
		r := l.DeviceGetHandleByIndexV2(uint32(w.b), &d)
		return words{a: uint64(d)}, r
	})
	if err != nil {
		return nil, named(err, fmt.Sprintf("index %d", index))
	}
	return o.device(raw.Device(w.a), fmt.Sprintf("device %d", index)), nil
}

// named adds what was looked for to an error.
func named(err error, name string) error {
	if e, ok := err.(*Error); ok && e.Device == "" {
		e.Device = name
	}
	return err
}

// find returns the device that a search finds.
func (l *Library) find(op, name string, search func(l *raw.Library, d *raw.Device) raw.Return) (*Device, error) {
	o := l.obj()
	h, err := get(o, op, func(l *raw.Library, _ uint64) (raw.Device, raw.Return) {
		var d raw.Device
		r := search(l, &d)
		return d, r
	})
	if err != nil {
		return nil, named(err, name)
	}
	return o.device(h, name), nil
}

// DeviceByUUID returns the GPU or the MIG device with a UUID (nvmlDeviceGetHandleByUUID).
func (l *Library) DeviceByUUID(id UUID) (*Device, error) {
	d, err := l.find("nvmlDeviceGetHandleByUUID", string(id), func(l *raw.Library, d *raw.Device) raw.Return {
		return l.DeviceGetHandleByUUID(string(id), d)
	})
	if err == nil && strings.HasPrefix(string(id), "MIG-") {
		err = d.joinGPU()
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// joinGPU makes the calls about a MIG device those of its GPU.
func (d *Device) joinGPU() error {
	gpu, err := d.MIGParent()
	if err == nil {
		d.lane = gpu.lane
	}
	return err
}

// DeviceByPCI returns the GPU at a PCI address (nvmlDeviceGetHandleByPciBusId_v2).
func (l *Library) DeviceByPCI(a PCIAddress) (*Device, error) {
	return l.find("nvmlDeviceGetHandleByPciBusId_v2", a.String(), func(l *raw.Library, d *raw.Device) raw.Return {
		return l.DeviceGetHandleByPciBusIdV2(a.String(), d)
	})
}

// DeviceBySerial returns the GPU of the board with a serial number (nvmlDeviceGetHandleBySerial). If the board has
// several GPUs, the call fails.
func (l *Library) DeviceBySerial(serial string) (*Device, error) {
	return l.find("nvmlDeviceGetHandleBySerial", "serial "+serial, func(l *raw.Library, d *raw.Device) raw.Return {
		return l.DeviceGetHandleBySerial(serial, d)
	})
}

// MIGParent returns the GPU of a MIG device (nvmlDeviceGetDeviceHandleFromMigDeviceHandle).
func (d *Device) MIGParent() (*Device, error) {
	o := d.obj()
	const op = "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"
	w, err := o.call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var gpu raw.Device
		r := l.DeviceGetDeviceHandleFromMigDeviceHandle(raw.Device(w.a), &gpu)
		return words{a: uint64(gpu)}, r
	})
	if err != nil {
		return nil, err
	}
	return o.device(raw.Device(w.a), "the GPU of "+o.name), nil
}

// MIGDevices returns the MIG devices of the GPU (nvmlDeviceGetMaxMigDeviceCount,
// nvmlDeviceGetMigDeviceHandleByIndex). There are none if MIG is off or not supported.
func (d *Device) MIGDevices() iter.Seq2[*Device, error] {
	return func(yield func(*Device, error) bool) {
		n, err := d.MaxMIGDevices()
		if err != nil && !unsupported(err) {
			yield(nil, err)
			return
		}
		for i := range n {
			mig, err := d.MIGDevice(int(i))
			if errors.Is(err, ErrNotFound) { // the indexes have gaps
				continue
			}
			if !yield(mig, err) {
				return
			}
		}
	}
}

// MIGDevice returns the MIG device with an index (nvmlDeviceGetMigDeviceHandleByIndex). The error matches
// [ErrNotFound] if there is none: the indexes have gaps.
func (d *Device) MIGDevice(index int) (*Device, error) {
	const op = "nvmlDeviceGetMigDeviceHandleByIndex"
	o := d.obj()
	if err := o.checkNumber(op, "index", index); err != nil {
		return nil, err
	}
	w, err := o.call(op, words{b: uint64(index)}, func(l *raw.Library, w words) (words, raw.Return) {
		var mig raw.Device
		r := l.DeviceGetMigDeviceHandleByIndex(raw.Device(w.a), uint32(w.b), &mig)
		return words{a: uint64(mig)}, r
	})
	if err != nil {
		return nil, err
	}
	return &Device{o.part(w.a, fmt.Sprintf("%s, MIG device %d", o.name, index))}, nil
}
