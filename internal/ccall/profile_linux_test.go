package ccall

import (
	"bytes"
	"compress/gzip"
	"io"
	"runtime/pprof"
	"testing"
)

// TestProfile profiles a function that does nothing but call C, which takes the time, a few tenths of a second: the
// profile has to name it.
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
	if !bytes.Contains(text, []byte("ccall.spinInC")) { // names are there of what was sampled
		t.Error("no sample tells which function called C")
	}
}

//go:noinline
func spinInC(fn uintptr) { call6(fn, 20_000_000) }
