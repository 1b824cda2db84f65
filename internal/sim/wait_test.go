package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/driver"
)

// TestBlocked checks the report of calls that wait for work that cannot continue by itself.
func TestBlocked(t *testing.T) {
	for name, tt := range map[string]struct {
		opts    []Option
		enqueue func(r *lab, s driver.Stream) (goOn func())
		held    bool
		reason  string // {s} stands for the stream
	}{
		"held": {nil, func(r *lab, s driver.Stream) func() {
			r.Hold(uintptr(s))
			r.must(r.launchOn(s, r.kernel("k", ""), 1, driver.KernelParams{}))
			return func() { r.Release(uintptr(s)) }
		}, true, "stream {s} is held, and goes on with Release({s}), or Finish"},
		"virtual": {[]Option{VirtualTime()}, func(r *lab, s driver.Stream) func() {
			r.spin(s, time.Hour)
			return func() { r.Advance(2 * time.Hour) }
		}, false, "the virtual time stands still, and work ends with Advance(1h0m0s), or Finish"},
		"virtual, with more work": {[]Option{VirtualTime()}, func(r *lab, s driver.Stream) func() {
			r.spin(s, time.Second)
			r.spin(s, time.Hour)
			r.spin(s, time.Hour)
			return func() { r.Advance(3 * time.Hour) }
		}, false, "the virtual time stands still: Advance(1s) ends the work that runs now, and work that has not begun comes " +
			"behind it (2 operations): advance further, or use Finish, which ends all"},
		"host function": {nil, func(r *lab, s driver.Stream) func() {
			leave := make(chan bool)
			r.must(r.LaunchHostFunc(r.th, s, driver.Callback{Go: func() { <-leave }}))
			return func() { close(leave) }
		}, false, "stream {s} calls a host function that has not returned"},
		"value": {nil, func(r *lab, s driver.Stream) func() {
			b, p := r.pinned("0000")
			r.must(r.StreamWaitValue32(r.th, s, driver.DevicePtr(p), 0x31313131, driver.CU_STREAM_WAIT_VALUE_EQ))
			return func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				copy(b, "1111")
			}
		}, false, "stream {s} waits for a value in memory, such as a timeline's"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, tt.opts...)
			s, unused, p := r.newStream(), r.newStream(), r.alloc("x")
			r.Hold(uintptr(unused)) // not related to the wait
			goOn := tt.enqueue(r, s)
			if got := r.Blocked(); len(got) != 0 {
				t.Errorf("a call without a wait is reported: %v", got)
			}
			freed := make(chan driver.Result)
			q, res := r.MemAlloc(r.th, 1)
			r.must(res)
			go func() { freed <- r.MemFree(nil, q) }()
			r.blocked(1)
			got := r.Blocked()
			want := Blocked{Function: "cuMemFree", Handle: uintptr(q), Reasons: []string{strings.ReplaceAll(tt.reason, "{s}", inHex(uintptr(s)))}}
			if tt.held {
				want.Held = []uintptr{uintptr(s)}
			}
			if len(got) != 1 {
				t.Fatalf("blocked are %v", got)
			}
			if !strings.Contains(got[0].Caller, "TestBlocked") || strings.Contains(got[0].Caller, "MemFree") {
				t.Errorf("the caller is\n%s", got[0].Caller)
			}
			if text := got[0].String(); !strings.Contains(text, want.Reasons[0]) || !strings.HasPrefix(text, "cuMemFree("+inHex(uintptr(q))+") has waited for ") {
				t.Errorf("String: %s", text)
			}
			got[0].Caller, got[0].For = "", 0
			if diff := cmp.Diff(want, got[0]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			goOn()
			r.must(<-freed)
			if got := r.Blocked(); len(got) != 0 {
				t.Errorf("in the end: %v", got)
			}
			if tt.opts != nil {
				r.Finish()
			}
			_ = p
		})
	}
}

// TestNotBlocked waits for work that ends by itself.
func TestNotBlocked(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	r.spin(s, 20*time.Millisecond)
	done := make(chan driver.Result)
	go func() { done <- r.StreamSynchronize(nil, s) }()
	for {
		select {
		case res := <-done:
			r.must(res)
			return
		default:
			if got := r.Blocked(); len(got) != 0 {
				t.Fatalf("blocked are %v", got)
			}
		}
	}
}

// inHex returns a handle in the format of messages.
func inHex(v uintptr) string { return fmt.Sprintf("%#x", v) }
