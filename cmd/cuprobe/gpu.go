package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/clock"
	"github.com/purecu/purecu/loader"
)

// What -driver may be, beside a path.
const (
	autoDriver = "auto"
	cudaDriver = "cuda"
	softDriver = "soft"
)

// softName is what reports call the software driver.
const softName = "the software driver (cusim)"

// software reports whether the driver is the software driver.
func (c *call) software() bool { return c.driver == softDriver }

// library returns the path of the library that the user named, "" if none.
func (c *call) library() string {
	switch c.driver {
	case autoDriver, cudaDriver, softDriver:
		return ""
	}
	return c.driver
}

// mayReplace reports whether the software driver may stand in for the one that
// cannot be opened because of err. Only the bare demo may be answered by another
// driver than the machine's: whoever names a command, a driver, a library, or a
// device, or reads JSON, wants to know about that one.
func (c *call) mayReplace(err error) bool {
	named, _ := c.env(loader.Environment)
	asked := !c.bare || c.json || c.driver != autoDriver || c.device != anyDevice || named != ""
	return !asked && (errors.Is(err, cu.ErrNoDriver) || errors.Is(err, cu.ErrNoDevice))
}

// open opens the driver that the user asked for. A driver without a device is an
// error, also if it was initialised all the same.
func (c *call) open() (*cu.Driver, error) {
	var opts []cu.Option
	if path := c.library(); path != "" {
		opts = append(opts, cu.WithLibrary(path))
	}
	if c.software() {
		opts = append(opts, cu.WithSoftware(cusim.New()))
	}
	drv, err := cu.Open(opts...)
	if err != nil {
		return nil, err
	}
	if n, err := drv.DeviceCount(); err == nil && n == 0 {
		return nil, &cu.Error{Op: "cuDeviceGetCount", Result: cu.ResultNoDevice, Err: cu.ErrNoDevice, Detail: "it counts 0, though cuInit succeeded"}
	}
	return drv, nil
}

// openDevice opens the driver and finds the device that the user asked for.
func (c *call) openDevice() (*cu.Driver, *cu.Device, error) {
	drv, err := c.open()
	if err != nil {
		return nil, nil, err
	}
	dev, err := drv.Device(max(c.device, 0))
	return drv, dev, err
}

// devices returns the device that the user asked for, or all.
func (c *call) devices(drv *cu.Driver) ([]*cu.Device, error) {
	if c.device == anyDevice {
		return drv.Devices()
	}
	dev, err := drv.Device(c.device)
	return []*cu.Device{dev}, err
}

// driverInfo is what reports say about the driver.
type driverInfo struct {
	// Library is what was loaded: a path, or the name that the system's loader
	// was asked for. Of the software driver, which is no library, it is softName.
	Library string `json:"library"`
	// Version is the newest CUDA version that the driver supports: 12080 is 12.8.
	Version int `json:"version"`
	// CUDA is the same in words: "12.8".
	CUDA string `json:"cuda"`
}

func (c *call) driverInfo(drv *cu.Driver) (driverInfo, error) {
	v, err := drv.Version()
	info := driverInfo{Library: drv.String(), Version: v, CUDA: cudaVersion(v)}
	if c.software() {
		info.Library = softName
	}
	return info, err
}

func (d driverInfo) text(w io.Writer) {
	fmt.Fprintf(w, "driver   %s, CUDA %s\n", d.Library, d.CUDA)
}

// rig is what it takes to run kernels on a device: the primary context, the
// spinning kernel, and what was made for a measurement.
type rig struct {
	gpu      *cu.Context
	spin     *cu.Function
	compiled time.Duration // what it took to compile the kernel
	opened   []io.Closer   // in the order of opening
}

// newRig sets a device up. The rig must be closed.
func newRig(dev *cu.Device) (*rig, error) {
	r := &rig{}
	var err error
	if r.gpu, err = keep(r, dev.PrimaryContext); err != nil {
		return nil, err
	}
	began := clock.Start()
	mod, err := keep(r, func() (*cu.Module, error) { return r.gpu.LoadModule(spinPTX) })
	if err == nil {
		r.compiled = began.Elapsed()
		r.spin, err = mod.Function("cusim_spin")
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// keep opens something that the rig is to close.
func keep[T io.Closer](r *rig, open func() (T, error)) (T, error) {
	v, err := open()
	if err == nil {
		r.opened = append(r.opened, v)
	}
	return v, err
}

// stream and event make what the rig is to close.
func (r *rig) stream() (*cu.Stream, error) {
	return keep(r, func() (*cu.Stream, error) { return r.gpu.NewStream(cu.StreamNonBlocking) })
}

func (r *rig) event() (*cu.Event, error) {
	return keep(r, func() (*cu.Event, error) { return r.gpu.NewEvent(cu.EventDefault) })
}

// launch lets the GPU spin for some time.
func (r *rig) launch(s *cu.Stream, d time.Duration) error {
	one := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	return r.spin.Launch(s, one, cu.U64(uint64(max(d, 0))))
}

// close waits for the GPU and closes everything, the newest first. It returns
// the first error.
func (r *rig) close() error {
	err := r.gpu.Synchronize()
	for i := len(r.opened) - 1; i >= 0; i-- {
		if e := r.opened[i].Close(); err == nil {
			err = e
		}
	}
	r.opened = nil
	return err
}

// closeAfter closes the rig at the end of a function. The function's own error
// counts: whatever it is, closing tells no more.
func (r *rig) closeAfter(err *error) {
	if e := r.close(); *err == nil {
		*err = e
	}
}

// polls counts the answers of polling.
type polls struct {
	// Pending answers are what C gets as CUDA_ERROR_NOT_READY.
	Pending int `json:"pending"`
	// Complete answers end a wait.
	Complete int `json:"complete"`
}

// await polls an event until it is complete, or done says that it is enough. It
// polls without a pause at first, for the sake of the time at which it returns;
// after a second a millisecond makes no difference, and a GPU that hangs is not to
// cost a processor.
func (p *polls) await(e *cu.Event, done func() error) error {
	return p.until(e.Query, done, time.Now, time.Sleep)
}

// How await polls.
const (
	restless = time.Second
	pause    = time.Millisecond
)

func (p *polls) until(query func() (cu.Status, error), done func() error, now func() time.Time, sleep func(time.Duration)) error {
	began := now()
	for {
		st, err := query()
		switch {
		case err != nil:
			return err
		case st == cu.Complete:
			p.Complete++
			return nil
		}
		p.Pending++
		if err := done(); err != nil {
			return err
		}
		if now().Sub(began) < restless {
			runtime.Gosched()
		} else {
			sleep(pause)
		}
	}
}
