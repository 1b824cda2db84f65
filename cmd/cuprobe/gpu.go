package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/clock"
	"github.com/purecu/purecu/loader"
)

// The values of -driver that are not a path.
const (
	autoDriver = "auto"
	cudaDriver = "cuda"
	softDriver = "soft"
)

// softName is the name of the software driver in reports.
const softName = "the software driver (cusim)"

// software reports whether the driver is the software driver.
func (c *call) software() bool { return c.driver == softDriver }

// library returns the path of the library that the user has named, or "".
func (c *call) library() string {
	switch c.driver {
	case autoDriver, cudaDriver, softDriver:
		return ""
	}
	return c.driver
}

// mayReplace reports whether the software driver may replace the driver that cannot be opened
// because of err. Only the demo without arguments may use it. A user who names a command, a driver,
// a library or a device, or reads JSON, asks about the machine's driver.
func (c *call) mayReplace(err error) bool {
	named, _ := c.env(loader.Environment)
	asked := !c.bare || c.json || c.driver != autoDriver || c.device != anyDevice || named != ""
	return !asked && (errors.Is(err, cu.ErrNoDriver) || errors.Is(err, cu.ErrNoDevice))
}

// open opens the driver that the user has chosen. A driver without a device is an error, even if
// cuInit succeeds.
func (c *call) open() (*cu.Driver, error) {
	var opts []cu.Option
	if path := c.library(); path != "" {
		opts = append(opts, cu.WithLibrary(path))
	}
	if c.software() {
		if c.sim == nil {
			if err := c.simulate(modelSpin()); err != nil {
				return nil, err
			}
		}
		opts = append(opts, cu.WithSoftware(c.sim))
	}
	drv, err := cu.Open(opts...)
	if err != nil {
		return nil, err
	}
	if n, err := drv.DeviceCount(); err == nil && n == 0 {
		return nil, &cu.Error{Op: "cuDeviceGetCount", Result: cu.ResultNoDevice, Err: cu.ErrNoDevice,
			Detail: "it reports 0 devices, although cuInit succeeded"}
	}
	return drv, nil
}

// simulate creates the software driver, as the environment and then the options say. If it replaces NVIDIA's
// driver, the variables of that do not count.
func (c *call) simulate(opts ...cusim.Option) error {
	environ := os.Environ()
	if c.named == "" {
		environ = slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, "CUDA_") })
	}
	env, err := cusim.Environment(environ)
	if err != nil {
		return usage("%v", err)
	}
	c.sim = cusim.New(append([]cusim.Option{env, cusim.Output(c.printed())}, opts...)...)
	return nil
}

// printed returns where kernels print: on the standard output, as on a GPU, unless that has JSON.
func (c *call) printed() io.Writer {
	if c.json || c.out == nil {
		return c.err
	}
	return c.out
}

// openDevice opens the driver, and returns it with the device that the user has chosen.
func (c *call) openDevice() (*cu.Driver, *cu.Device, error) {
	drv, err := c.open()
	if err != nil {
		return nil, nil, err
	}
	dev, err := drv.Device(max(c.device, 0))
	return drv, dev, err
}

// devices returns the device that the user has chosen, or all devices.
func (c *call) devices(drv *cu.Driver) ([]*cu.Device, error) {
	if c.device == anyDevice {
		return drv.Devices()
	}
	dev, err := drv.Device(c.device)
	return []*cu.Device{dev}, err
}

// driverInfo is the part of reports about the driver.
type driverInfo struct {
	// Library is the path of the library, or the name that was passed to the system's loader. For
	// the software driver it is softName.
	Library string `json:"library"`
	// Version is the newest CUDA version that the driver supports: 12080 is 12.8.
	Version cu.Version `json:"version"`
	// CUDA is Version as text: "12.8".
	CUDA string `json:"cuda"`
}

func (c *call) driverInfo(drv *cu.Driver) (driverInfo, error) {
	v, err := drv.Version()
	info := driverInfo{Library: drv.String(), Version: v, CUDA: v.String()}
	if c.software() {
		info.Library = softName
	}
	return info, err
}

func (d driverInfo) text(w io.Writer) {
	fmt.Fprintf(w, "driver   %s, CUDA %s\n", d.Library, d.CUDA)
}

// rig contains the objects that run kernels on a device: the primary context, the spinning kernel,
// and the objects of a measurement.
type rig struct {
	gpu      *cu.Context
	spin     *cu.Function
	compiled time.Duration // the time that compiling the kernel took
	opened   []io.Closer   // in the order of opening
}

// modelSpin makes the spinning kernel of this package take exactly its time on the software driver, however
// busy the machine is. Its PTX is not executed. Command run, whose kernels are the user's, does without it.
func modelSpin() cusim.Option {
	return cusim.WithKernel("spin", cusim.Kernel{Time: func(l *cusim.Launch) time.Duration {
		return time.Duration(l.U64(0))
	}})
}

// newRig creates a rig on a device. The caller must close it.
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
		r.spin, err = mod.Function("spin")
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// keep opens an object that the rig closes.
func keep[T io.Closer](r *rig, open func() (T, error)) (T, error) {
	v, err := open()
	if err == nil {
		r.opened = append(r.opened, v)
	}
	return v, err
}

// stream creates a stream that the rig closes.
func (r *rig) stream() (*cu.Stream, error) {
	return keep(r, func() (*cu.Stream, error) { return r.gpu.NewStream(cu.StreamNonBlocking) })
}

// event creates an event that the rig closes.
func (r *rig) event() (*cu.Event, error) {
	return keep(r, func() (*cu.Event, error) { return r.gpu.NewEvent(cu.EventDefault) })
}

// launch launches a kernel that spins for d.
func (r *rig) launch(s *cu.Stream, d time.Duration) error {
	one := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	return r.spin.Launch(s, one, cu.U64(uint64(max(d, 0))))
}

// close waits for the GPU, and closes all objects, the newest first. It returns the first error.
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

// closeAfter closes the rig at the end of a function. It sets *err to the error of closing unless
// the function has an error of its own.
func (r *rig) closeAfter(err *error) {
	if e := r.close(); *err == nil {
		*err = e
	}
}

// polls counts the results of polling.
type polls struct {
	// Pending counts the results that are CUDA_ERROR_NOT_READY in C.
	Pending int `json:"pending"`
	// Complete counts the results that end a wait.
	Complete int `json:"complete"`
}

// await polls an event until it is complete, or done returns an error. During the first second it
// polls without a pause, so that it returns in time. Later it pauses for a millisecond, so that a
// GPU that hangs does not occupy a processor.
func (p *polls) await(e *cu.Event, done func() error) error {
	return p.until(e.Query, done, time.Now, time.Sleep)
}

// The times of await.
const (
	restless = time.Second
	pause    = time.Millisecond
)

func (p *polls) until(query func() (cu.Status, error), done func() error, now func() time.Time,
	sleep func(time.Duration)) error {
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
