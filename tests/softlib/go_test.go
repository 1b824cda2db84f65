package softlib

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/loader"
)

// childEnv makes the test binary run one scenario, in a process of its own.
const childEnv = "PURECU_TEST_SOFTLIB_CHILD"

// libraryEnv is the path of the library for that process.
const libraryEnv = "PURECU_TEST_SOFTLIB_PATH"

// child runs the test binary as a process with one scenario.
func child(t *testing.T, what string, env ...string) {
	t.Helper()
	env = append(env, childEnv+"="+what, libraryEnv+"="+library(t))
	if said := run(t, env, os.Args[0]); said != "" {
		t.Error(said)
	}
}

func runChild(what string) {
	does := map[string]func(string) error{"use": use, "collect": collect, "end": end, "find": find, "compare": compare,
		"lacks": lacks}
	f := does[what]
	if f == nil {
		f = func(string) error { return fmt.Errorf("there is no child %q", what) }
	}
	if err := f(os.Getenv(libraryEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestUse uses the library through package cu.
func TestUse(t *testing.T) { child(t, "use", "CUSIM_DEVICES=2") }

func use(path string) (err error) {
	drv, err := cu.Open(cu.WithLibrary(path))
	if err != nil {
		return err
	}
	devices, err := drv.Devices()
	if err != nil || len(devices) != 2 || devices[1].String() != "device 1 (Simulated H200)" {
		return fmt.Errorf("devices %v, %v", devices, err)
	}
	gpu, err := devices[1].PrimaryContext()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gpu.Close()) }()
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	mem, err := gpu.Alloc(1 << 16)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mem.Close()) }()
	want := bytes.Repeat([]byte("purecu"), 1<<13)[:1<<15]
	got := make([]byte, len(want))
	d, err := s.Time(context.Background(), func() error {
		return errors.Join(mem.CopyFrom(want), mem.CopyTo(got))
	})
	if err != nil || d < 0 || !bytes.Equal(got, want) {
		return fmt.Errorf("after %v: %v; equal: %v", d, err, bytes.Equal(got, want))
	}
	return nil
}

// TestCollect has two Go runtimes in a process. Each runtime must be able to stop its goroutines,
// whatever the other one does.
func TestCollect(t *testing.T) { child(t, "collect") }

func collect(path string) (err error) {
	runtime.GOMAXPROCS(4)
	var stop atomic.Bool
	var busy sync.WaitGroup
	for range 2 { // loops that only a signal can stop, before the library is loaded
		busy.Go(func() {
			for !stop.Load() {
			}
		})
	}
	defer busy.Wait()
	defer stop.Store(true)
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for !stop.Load() {
			runtime.GC()
		}
	}()
	drv, err := cu.Open(cu.WithLibrary(path))
	if err != nil {
		return err
	}
	dev, err := drv.Device(0)
	if err != nil {
		return err
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gpu.Close()) }()
	var workers sync.WaitGroup
	errs := make(chan error, 4)
	for range cap(errs) {
		workers.Go(func() {
			errs <- func() error {
				s, err := gpu.NewStream(cu.StreamDefault)
				if err != nil {
					return err
				}
				for range 200 {
					var e cu.Event
					mem, err := gpu.Alloc(1 << 20) // something for the library to collect
					if err == nil {
						err = errors.Join(mem.CopyFrom(make([]byte, 1<<20)), e.Record(s), e.Wait(context.Background()),
							e.Close(), mem.Close())
					}
					if err != nil {
						return errors.Join(err, s.Close())
					}
				}
				return s.Close()
			}()
		})
	}
	workers.Wait()
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	for range 10 {
		runtime.GC()
	}
	stop.Store(true)
	<-collected

	return errors.Join(err, ownFault())
}

// ownFault checks that a fault of this program is handled by this program.
func ownFault() (err error) {
	defer func() {
		if recover() == nil {
			err = errors.New("no panic from a nil pointer")
		}
	}()
	var p *int
	*p = 1
	return nil
}

// TestFind checks that package loader finds the library where programs find NVIDIA's.
func TestFind(t *testing.T) {
	dir := filepath.Dir(library(t))
	child(t, "find", "LD_LIBRARY_PATH="+dir, "CUSIM_DRIVER_VERSION=12.4")
}

func find(path string) error {
	lib, err := loader.Open("")
	if err != nil {
		return err
	}
	want, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if lib.Path() != want || lib.Name() != "libcuda.so.1" || lib.Version() != 12040 {
		return fmt.Errorf("found %s as %s, version %d", lib.Path(), lib.Name(), lib.Version())
	}
	old, err := lib.Proc("cuEventElapsedTime", 12080, false)
	if err != nil {
		return err
	}
	if v1, err := lib.Symbol("cuEventElapsedTime"); err != nil || old != v1 {
		return fmt.Errorf("cuEventElapsedTime of 12.8 is at %#x, and the older one at %#x, %v", old, v1, err)
	}
	if _, err := lib.Proc("cuNothing", 12000, false); err == nil {
		return errors.New("there is a function cuNothing")
	}
	return nil
}

// waits matches a message that says what cuprobe waits for. A busy machine causes them.
var waits = regexp.MustCompile("(?m)^cuprobe: waiting for .*\n")

// TestProbe runs cuprobe on the library, as on NVIDIA's.
func TestProbe(t *testing.T) {
	lib := library(t)
	probe := filepath.Join(t.TempDir(), "cuprobe")
	cmd := exec.Command("go", "build", "-o", probe, "./cmd/cuprobe")
	cmd.Dir = moduleRoot
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	for _, command := range []string{"", "demo -json", "devices", "devices -json", "doctor", "symbols", "time -quick"} {
		argv := append([]string{probe}, strings.Fields(command)...)
		said := run(t, []string{"CUDA_DRIVER_LIBRARY=" + lib}, argv...)
		if said = waits.ReplaceAllString(said, ""); said != "" {
			t.Errorf("cuprobe %s: %s", command, said)
		}
	}
}
