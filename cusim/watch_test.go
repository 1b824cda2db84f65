package cusim_test

import (
	"testing"

	"github.com/purecu/purecu/cusim"
)

// TestNoWatch opens a driver with options that name nobody who wants to know something.
func TestNoWatch(t *testing.T) {
	b := newBench(t, cusim.TraceThread(cusim.Thread{Kernel: "sum"}, nil), cusim.Cover(nil))
	b.close(t)
}
