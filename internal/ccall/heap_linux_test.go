package ccall

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// TestCallbackNeedsHeap shows what Heap is for: with the frame on the stack the
// result and the out-value of the same call are lost. If it ever fails, the
// runtime no longer moves a stack that C was called from.
func TestCallbackNeedsHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("breaks the rules, in a process of its own: not with -short")
	}
	if Engine != "thunk" {
		t.Skip("this engine has every frame on the heap")
	}
	fn := cfunc(t, "call_back")
	if os.Getenv(childEnv) == "" {
		// C writes where the stack was: the child may well crash, which is an
		// answer too.
		out, err := runChild(t, "TestCallbackNeedsHeap", "stack")
		if err == nil && !strings.Contains(out, "lost") {
			t.Errorf("result and out-value reached a frame on the stack; the child's output:\n%s", out)
		}
		if errors.Is(err, errTimeout) {
			t.Error(err)
		}
		return
	}
	back := callback(t, func(v uintptr) uintptr {
		grow(1000)
		return v + 1
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		f := backFrame{fn: fn, back: back, v: 20}
		f.out = unsafe.Pointer(&f.slot)
		Call6(unsafe.Pointer(&f), Setup, nil)
		if f.r != 21 && f.slot != 41 {
			fmt.Println("lost")
		}
	}()
	<-done
}
