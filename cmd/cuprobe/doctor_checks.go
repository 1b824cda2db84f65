package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/clock"
)

// check is a step of the test of a device.
type check struct {
	Device int    `json:"device"`
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Detail describes the result or the error.
	Detail string        `json:"detail"`
	Took   time.Duration `json:"tookNS"`

	err error // nil if it passed
}

// checkDevice checks a device. After the timeout it returns, and the checks continue with all their
// objects, as a call of a driver cannot be interrupted.
func checkDevice(dev *cu.Device, w *waiter) []check {
	type progress struct {
		name string // the step that begins
		done *check // the step that has ended, or nil
	}
	steps := make(chan progress, 64) // larger than the number of steps, so that sending never blocks
	go func() {
		defer close(steps)
		p := &deviceCheck{dev: dev, step: func(name string, f func() (string, error)) bool {
			steps <- progress{name: name}
			began := clock.Start()
			detail, err := f()
			if err != nil {
				detail = err.Error()
			}
			steps <- progress{done: &check{dev.Ordinal(), name, err == nil, detail, began.Elapsed(), err}}
			return err == nil
		}}
		p.check()
	}()
	checks, current := []check{}, ""
	take := func(s progress) {
		if s.done != nil {
			checks = append(checks, *s.done)
		} else {
			current = s.name
		}
	}
	for tooLong, quiet := w.timeout(), w.after(silence); ; {
		select {
		case s, ok := <-steps:
			if !ok {
				return checks
			}
			take(s)
		case <-quiet:
			w.waiting(fmt.Sprintf("device %d: %s", dev.Ordinal(), current))
			quiet = nil
		case <-tooLong:
			for len(steps) > 0 { // steps that have ended come first
				take(<-steps)
			}
			w.hung = true
			return append(checks, check{Device: dev.Ordinal(), Name: current, Detail: errHangs.Error(), err: errHangs})
		}
	}
}

// deviceCheck runs the checks of a device.
type deviceCheck struct {
	dev  *cu.Device
	step func(name string, f func() (detail string, err error)) (passed bool)

	rig    *rig
	stream *cu.Stream
}

// The parameters of the checks.
const (
	checkSpin = time.Millisecond
	checkSize = 1 << 20
)

// check makes the steps until one fails.
func (p *deviceCheck) check() {
	passed := p.step("context, and a kernel compiled from PTX", func() (detail string, err error) {
		if p.rig, err = newRig(p.dev); err != nil {
			return "", err
		}
		p.stream, err = p.rig.stream()
		return "compiled in " + roundDuration(p.rig.compiled, 3), err
	})
	if p.rig == nil {
		return
	}
	passed = passed && p.step("events around a kernel", p.events) && p.step("copies to the GPU and back", p.memory)
	if !passed {
		// After a failure, errors of closing the rig contain no further information.
		_ = p.rig.close()
		return
	}
	p.step("closing everything", func() (string, error) { return "done", p.rig.close() })
}

// events measures a kernel with events.
func (p *deviceCheck) events() (string, error) {
	start, err := p.rig.event()
	if err != nil {
		return "", err
	}
	stop, err := p.rig.event()
	if err != nil {
		return "", err
	}
	if err := start.Record(p.stream); err != nil {
		return "", err
	}
	if err := p.rig.launch(p.stream, checkSpin); err != nil {
		return "", err
	}
	if err := stop.Record(p.stream); err != nil {
		return "", err
	}
	var polled polls
	if err := polled.await(stop, func() error { return nil }); err != nil {
		return "", err
	}
	d, err := between(start, stop)
	if err != nil {
		return "", err
	}
	if d < checkSpin-2*resolution {
		return "", fmt.Errorf("by its events, a kernel that spins for %s took %s", duration(checkSpin), duration(d))
	}
	return fmt.Sprintf("%s for a kernel of %s, polled %s", duration(d), duration(checkSpin),
		count(polled.Pending+polled.Complete, "time")), nil
}

// memory copies a pattern to the device and back.
func (p *deviceCheck) memory() (_ string, err error) {
	var mem [2]*cu.HostMem
	for i := range mem {
		alloc := func() (*cu.HostMem, error) { return p.rig.gpu.AllocHost(checkSize, cu.HostDefault) }
		if mem[i], err = keep(p.rig, alloc); err != nil {
			return "", err
		}
	}
	dev, err := keep(p.rig, func() (*cu.DeviceMem, error) { return p.rig.gpu.Alloc(checkSize) })
	if err != nil {
		return "", err
	}
	pattern := make([]byte, checkSize)
	for i := range pattern {
		pattern[i] = byte(i ^ i>>8 ^ i>>16)
	}
	if _, err := mem[0].WriteAt(pattern, 0); err != nil {
		return "", err
	}
	if err := p.stream.Copy(dev, mem[0]); err != nil {
		return "", err
	}
	if err := p.stream.Copy(mem[1], dev); err != nil {
		return "", err
	}
	if err := p.stream.Synchronize(); err != nil {
		return "", err
	}
	return size(checkSize) + " arrived unchanged", mem[1].View(func(b []byte) error {
		if !bytes.Equal(b, pattern) {
			return errors.New("the copy differs from the original: the GPU's memory or the bus is faulty")
		}
		return nil
	})
}
