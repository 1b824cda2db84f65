package driver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
)

// TestSmallDriver opens a driver with the few functions of tiny, and also calls functions that it
// does not have.
func TestSmallDriver(t *testing.T) {
	mine := new(tiny)
	drv, err := cu.Open(cu.WithSoftware(mine))
	if err != nil {
		t.Fatal(err)
	}
	gpu := must(must(drv.Device(0)).PrimaryContext())
	s := must(gpu.LegacyStream())
	e := must(gpu.NewEvent(cu.EventDisableTiming))
	if err := e.Record(s); err != nil {
		t.Fatal(err)
	}
	if st, err := e.Query(); st != cu.Pending || err != nil {
		t.Errorf("a record: %v, %v", st, err)
	}
	waited := make(chan error)
	go func() { waited <- e.Wait(t.Context()) }()
	time.AfterFunc(time.Millisecond, func() { mine.complete.Store(true) })
	if err := <-waited; err != nil {
		t.Errorf("a wait: %v", err)
	}
	if st, err := e.Query(); st != cu.Complete || err != nil {
		t.Errorf("a record that is done: %v, %v", st, err)
	}

	second := must(gpu.NewEvent(0))
	if err := second.Record(s); err != nil {
		t.Error(err)
	}
	timed := must(gpu.NewEvent(0))
	if err := timed.Record(s); err != nil {
		t.Error(err)
	}
	for name, call := range map[string]func() error{
		"Alloc":      func() error { _, err := gpu.Alloc(16); return err },
		"AllocHost":  func() error { _, err := gpu.AllocHost(16, 0); return err },
		"Elapsed":    func() error { _, err := cu.Elapsed(t.Context(), second, timed); return err },
		"Version":    func() error { _, err := drv.Version(); return err },
		"HostFunc":   func() error { return s.HostFunc(func() {}) },
		"LoadModule": func() error { _, err := gpu.LoadModule([]byte(".version 7.0\x00")); return err },
		"Name":       func() error { _, err := must(drv.Device(0)).Name(); return err },
		"NewContext": func() error { _, err := must(drv.Device(0)).NewContext(0); return err },
		"NewStream":  func() error { _, err := gpu.NewStream(cu.StreamNonBlocking); return err },
		"Timeline":   func() error { _, err := gpu.NewTimeline(0); return err },
		"WaitEvent":  func() error { return s.WaitEvent(e) },
	} {
		err := call()
		var missing *driver.MissingError
		if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, cu.ResultNotSupported) ||
			!errors.As(err, &missing) ||
			!missing.Software {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []interface{ Close() error }{timed, second, e, s, gpu, drv} {
		if err := c.Close(); err != nil {
			t.Errorf("closing a %T: %v", c, err)
		}
	}
}

// TestNoProvider opens drivers that are nil.
func TestNoProvider(t *testing.T) {
	for name, p := range map[string]driver.Provider{
		"nil": nil, "a nil driver": (*tiny)(nil), "a provider of nil": driver.Provide(nil), "a provider of a nil driver": driver.Provide((*tiny)(nil)),
	} {
		if _, err := cu.Open(cu.WithSoftware(p)); !errors.Is(err, cu.ErrNil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
