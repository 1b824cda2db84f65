package ccall

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

var stressCalls = flag.Int("ccall.calls", 200_000, "how many `calls` TestStress makes")

// TestStress makes many calls of all classes during all other operations of a Go runtime on
// threads: collections, preemptions, signals, profiles, traces, changes of GOMAXPROCS, new
// goroutines, and new processes.
func TestStress(t *testing.T) {
	query, slow, length, child := cfunc(t, "query"), cfunc(t, "out_slow"), cfunc(t, "length"), cfunc(t, "child")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	stop := make(chan struct{})
	var nuisances sync.WaitGroup
	var counts struct{ gcs, signals, profiles, processes, goroutines atomic.Int64 }
	nuisance := func(f func()) {
		nuisances.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	nuisance(func() { runtime.GC(); counts.gcs.Add(1) })
	got := make(chan os.Signal, 100)
	signal.Notify(got, syscall.SIGUSR1)
	nuisance(func() {
		syscall.Kill(os.Getpid(), syscall.SIGUSR1)
		select {
		case <-got:
			counts.signals.Add(1)
		case <-time.After(10 * time.Second):
			t.Error("a signal was lost")
		}
		time.Sleep(50 * time.Microsecond)
	})
	nuisance(func() {
		if pprof.StartCPUProfile(io.Discard) == nil {
			time.Sleep(20 * time.Millisecond)
			pprof.StopCPUProfile()
		}
		if trace.Start(io.Discard) == nil {
			time.Sleep(10 * time.Millisecond)
			trace.Stop()
		}
		counts.profiles.Add(1)
	})
	nuisance(func() {
		for n := 1; n <= 4; n++ {
			runtime.GOMAXPROCS(n)
			time.Sleep(5 * time.Millisecond)
		}
	})
	nuisance(func() {
		// This binary cannot start itself under an emulator.
		if exe, err := os.Executable(); err == nil && os.Getenv("PURECU_TEST_EXEC") == "" {
			if out, err := exec.Command(exe, "-test.run=^$").CombinedOutput(); err != nil {
				t.Errorf("a process that Go has started: %v\n%s", err, out)
			}
		}
		if r, err := Invoke(child, Setup, 7); int32(r) != 7 || err != nil {
			t.Errorf("a process that C has started: %d, %v", int32(r), err)
		}
		counts.processes.Add(1)
		time.Sleep(10 * time.Millisecond)
	})

	const callers = 32
	n := *stressCalls / callers
	if raceEnabled || testing.Short() {
		n /= 10
	}
	together(t, callers, func(g int) error {
		for i := range n {
			switch v := uintptr(g)<<32 | uintptr(i); {
			case i%4096 == 5:
				if r, err := Invoke(length, Setup, "four"); r != 4 || err != nil {
					return fmt.Errorf("call %d: the length of a text of 4 bytes is %d, %v", i, r, err)
				}
			case i%1024 == 7:
				out, r := slowOut(slow, v, 20)
				if err := checkOut(v, out, r); err != nil {
					return fmt.Errorf("call %d: %w", i, err)
				}
			case i%512 == 9: // on a goroutine with a small stack, which grows before the call
				done := make(chan int32)
				go func() {
					grow(64)
					done <- query1(query)
				}()
				if r := <-done; r != 0 {
					return fmt.Errorf("call %d on another goroutine: %d", i, r)
				}
				counts.goroutines.Add(1)
			default:
				if r := query1(query); r != 0 {
					return fmt.Errorf("call %d: %d", i, r)
				}
			}
		}
		return nil
	})
	close(stop)
	nuisances.Wait()
	signal.Stop(got)
	t.Logf("%d calls during %d collections, %d signals, %d profiles and traces, %d processes, %d goroutines", n*callers,
		counts.gcs.Load(), counts.signals.Load(), counts.profiles.Load(), counts.processes.Load(), counts.goroutines.Load())
}

// query1 queries a valid handle.
func query1(fn uintptr) int32 { return query(fn, 1) }

// TestManyBlocked blocks hundreds of calls in C at once. Other calls continue.
func TestManyBlocked(t *testing.T) {
	slow, fast := cfunc(t, "out_slow"), cfunc(t, "query")
	n := rounds(400)
	stop := make(chan struct{})
	var quick atomic.Int64
	var other sync.WaitGroup
	other.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if r := query1(fast); r != 0 {
					t.Errorf("a quick call: %d", r)
				}
				quick.Add(1)
				runtime.Gosched()
			}
		}
	})
	together(t, n, func(g int) error {
		out, r := slowOut(slow, uintptr(g), 100_000)
		return checkOut(uintptr(g), out, r)
	})
	close(stop)
	other.Wait()
	t.Logf("%d quick calls during %d calls that took 100 ms", quick.Load(), n)
}

// slowOut calls out_slow, which takes us microseconds.
func slowOut(fn, v uintptr, us uintptr) (out uintptr, result int32) {
	f := struct {
		fn, r uintptr
		out   unsafe.Pointer
		v, us uintptr
		_     [3]uintptr
		slot  uintptr
	}{fn: fn, v: v, us: us}
	f.out = unsafe.Pointer(&f.slot)
	Call6(unsafe.Pointer(&f), Blocking, nil)
	return f.slot, int32(f.r)
}
