package ccall

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// TestCallbackNeedsHeap shows why Heap is necessary: with the frame on the stack, the result and
// the out-value of a call are lost. If the test fails, the runtime no longer moves a stack from
// which C was called.
func TestCallbackNeedsHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("breaks the rules, in a process of its own: not with -short")
	}
	if Engine != "thunk" {
		t.Skip("this engine has every frame on the heap")
	}
	fn := cfunc(t, "call_back")
	if os.Getenv(childEnv) == "" {
		// C writes to the old stack. The child may crash, which is an allowed result.
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
