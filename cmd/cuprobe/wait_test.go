package main

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hasty returns a waiter whose timeout and silence end when the channels are closed.
func hasty(say io.Writer, timeout, quiet chan time.Time) *waiter {
	return &waiter{messages: say, after: func(d time.Duration) <-chan time.Time {
		if d == silence {
			return quiet
		}
		return timeout
	}}
}

func TestWithin(t *testing.T) {
	if v, err := within(hasty(nil, nil, nil), "", func() (int, error) { return 7, io.EOF }); v != 7 || err != io.EOF {
		t.Errorf("%d, %v", v, err)
	}
	now, hang := make(chan time.Time), make(chan struct{})
	close(now)
	w := hasty(nil, now, nil)
	if v, err := within(w, "", func() (int, error) { <-hang; return 7, nil }); v != 0 || err != errHangs || !w.hung {
		t.Errorf("of what hangs it returns %d, %v", v, err)
	}
	// The message says what it waits for.
	var said bytes.Buffer
	quiet := make(chan time.Time)
	go func() {
		quiet <- time.Time{}
		close(hang)
	}()
	if v, err := within(hasty(&said, nil, quiet), "the driver",
		func() (int, error) { <-hang; return 7, nil }); v != 7 ||
		err != nil {
		t.Errorf("%d, %v", v, err)
	}
	if want := "cuprobe: waiting for the driver\n"; said.String() != want {
		t.Errorf("it says %q, want %q", said.String(), want)
	}
}

// TestWithinBeats checks that a call which shows that it continues is waited for, without a message.
func TestWithinBeats(t *testing.T) {
	timeout, quiet, armed := make(chan time.Time), make(chan time.Time), make(chan struct{}, 2)
	w := &waiter{after: func(d time.Duration) <-chan time.Time { // without say, a message would panic
		armed <- struct{}{}
		if d == silence {
			return quiet
		}
		return timeout
	}}
	v, err := within(w, "", func() (int, error) {
		for _, expired := range []chan time.Time{quiet, timeout, quiet, timeout} {
			<-armed // both timers
			<-armed
			w.heartbeats.Add(1)
			expired <- time.Time{}
		}
		<-armed
		<-armed
		return 7, nil
	})
	if v != 7 || err != nil || w.hung {
		t.Errorf("%d, %v", v, err)
	}
}

// TestTimeouts checks that the timeout is shorter after a call has hung.
func TestTimeouts(t *testing.T) {
	var asked []time.Duration
	w := &waiter{after: func(d time.Duration) <-chan time.Time { asked = append(asked, d); return nil }}
	w.timeout()
	w.hung = true
	w.timeout()
	if w.withoutTimeout(maxWait) != nil {
		t.Error("withoutTimeout returns a channel")
	}
	w.withoutTimeout(silence)
	if diff := cmp.Diff([]time.Duration{maxWait, maxWaitHung, silence}, asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
