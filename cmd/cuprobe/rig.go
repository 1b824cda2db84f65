package main

import (
	_ "embed"
	"errors"
	"io"
	"runtime"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/clock"
)

//go:embed spin.ptx
var spinPTX []byte

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

// buffer is memory of one end of a copy.
type buffer interface {
	cu.Memory
	io.Closer
}

// alloc allocates pinned memory of the host, or memory of the device, and writes all of it.
func (r *rig) alloc(s *cu.Stream, n uint64, host bool) (buffer, error) {
	if host {
		m, err := r.gpu.AllocHost(n, cu.HostDefault)
		if err != nil {
			return nil, err
		}
		if err := m.View(func(b []byte) error { clear(b); return nil }); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	}
	m, err := r.gpu.Alloc(n)
	if err != nil {
		return nil, err
	}
	if err := s.Memset(m, 0); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
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

// between returns the time between two events that are complete.
func between(start, stop *cu.Event) (time.Duration, error) {
	d, st, err := stop.Since(start)
	if err == nil && st != cu.Complete {
		err = errors.New("the driver reports an event as pending after it was complete")
	}
	return d, err
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
	noPauses = time.Second
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
		if now().Sub(began) < noPauses {
			runtime.Gosched()
		} else {
			sleep(pause)
		}
	}
}
