//go:build linux && (amd64 || arm64) && !go1.28 && cu_static && !cgo

package ccall

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"unsafe"
)

// TestNoThreads makes calls on Go threads while glibc cannot create threads. Calls of all kinds
// return an error.
func TestNoThreads(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		if os.Getenv("PURECU_TEST_EXEC") != "" {
			t.Skip("the emulator's own limits come first")
		}
		cfunc(t, "query")
		if out, err := runChild(t, "TestNoThreads", "run"); err != nil {
			t.Errorf("%v; the child's output:\n%s", err, out)
		}
		return
	}
	fn := cfunc(t, "query")
	kinds := []func() int32{
		func() int32 { return int32(call6(fn, 1)) },
		func() int32 { return int32(call14(fn, 1)) },
		func() int32 {
			f := Frame6{Head: Head{Fn: fn}, A: [6]uintptr{1}}
			result, step := Scope{}.Call6(unsafe.Pointer(&f), Setup, nil)
			made := step.Made()
			if made {
				return int32(f.R)
			}
			return result
		},
		func() int32 {
			r, err := Invoke(fn, Setup, 1)
			switch {
			case errors.Is(err, ErrNoThread):
				return NoThread
			case err != nil || int32(r) != 0:
				return -1
			}
			return 0
		},
		func() int32 {
			word, results := uintptr(1), [3]int32{}
			e := Each{Fn: fn, N: uintptr(len(results)), Results: unsafe.Pointer(&results)}
			for i := range e.A {
				e.A[i].Base = unsafe.Pointer(&word)
			}
			e.Call(Hot, nil)
			if results[0] != results[1] || results[1] != results[2] {
				t.Errorf("some of many calls were made: %v", results)
			}
			return results[0]
		},
	}

	const each = 4
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	failed := make([]int, len(kinds))
	var mu sync.Mutex
	for range each {
		for kind, call := range kinds {
			ready.Add(1)
			done.Go(func() {
				runtime.LockOSThread() // create all Go threads while there is memory
				defer runtime.UnlockOSThread()
				ready.Done()
				<-begin
				r := call()
				mu.Lock()
				defer mu.Unlock()
				switch r {
				case NoThread:
					failed[kind]++
				case 0: // the thread has made calls before
				default:
					t.Errorf("kind %d: the result is %d", kind, r)
				}
			})
		}
	}
	ready.Wait()
	back := shortOfMemory(t)
	close(begin)
	done.Wait()
	back()
	for kind, n := range failed {
		if n == 0 {
			t.Errorf("kind %d never failed", kind)
		}
	}
	for kind, call := range kinds { // with memory available again
		done.Go(func() {
			if r := call(); r != 0 {
				t.Errorf("kind %d: the result is %d", kind, r)
			}
		})
	}
	done.Wait()
}

// shortOfMemory limits this process to too little memory for a thread's stack, until back is
// called.
func shortOfMemory(t *testing.T) (back func()) {
	t.Helper()
	runtime.KeepAlive(make([]byte, 16<<20)) // a reserve for Go, which crashes without memory
	runtime.GC()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(statm), &pages); err != nil {
		t.Fatal(err)
	}
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &now); err != nil {
		t.Fatal(err)
	}
	short := syscall.Rlimit{Cur: pages*uint64(os.Getpagesize()) + 4<<20, Max: now.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &short); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &now); err != nil {
			t.Error(err)
		}
	}
}
