package ccall

import (
	"bytes"
	"compress/gzip"
	"io"
	"runtime/pprof"
	"testing"
)

// TestProfile profiles a Go function that only calls C for a few tenths of a second. The profile
// has to contain the Go function.
func TestProfile(t *testing.T) {
	fn := cfunc(t, "spin")
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		spinInC(fn)
	}
	pprof.StopCPUProfile()
	r, err := gzip.NewReader(&profile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("ccall.spinInC")) { // the profile contains the names of sampled functions
		t.Error("no sample tells which function called C")
	}
}

//go:noinline
func spinInC(fn uintptr) { call6(fn, 20_000_000) }
