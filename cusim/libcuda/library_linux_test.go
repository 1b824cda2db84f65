package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
	"github.com/purecu/purecu/internal/sim/environment"
)

// TestFaultNames makes every call twice with a fault for the second one. All arguments but one are addresses.
func TestFaultNames(t *testing.T) {
	const code = driver.ResultDeviceUnavailable
	memory, err := syscall.Mmap(-1, 0, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(memory)
	for number, name := range callNames {
		opts, err := environment.Options(fixed([]string{fmt.Sprintf("CUSIM_FAULTS=%s@2=%d", name, code)}), io.Discard)
		if err != nil {
			t.Error(err)
			continue
		}
		met := false
		for null := 0; null < maxWords && !met; null++ {
			l := newLibrary(sim.New(opts...))
			l.copyText = func(string) uintptr { return 1 }
			clear(memory[:4096]) // other calls may have written lengths there
			words := new([maxWords]uint64)
			for i := range words {
				if i != (null+2)%maxWords { // may be the length for the argument that is 0
					words[i] = uint64(host(memory))
				}
			}
			if l.call(new(driver.Thread), uint32(number), words) == code {
				t.Errorf("%s meets its faults more than once", name)
			}
			met = l.call(new(driver.Thread), uint32(number), words) == code
		}
		if !met {
			t.Errorf("%s is not affected by a fault for its name", name)
		}
	}
}

// TestImageAtEnd reads fatbins whose sizes are wrong, at the end of memory.
func TestImageAtEnd(t *testing.T) {
	const size = 1 << 16
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(memory)
	if err := syscall.Mprotect(memory[size/2:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at      int
		length  uint64
		want    int
		loading driver.Result
	}{
		{size/2 - 64, 48, 64, driver.ResultNoBinaryForGPU},
		{size/2 - 64, 49, 64, driver.ResultInvalidImage},
		{size/2 - 64, 1 << 20, 64, driver.ResultInvalidImage},
		{size/2 - 64, 1<<64 - 1, 64, driver.ResultInvalidImage},
		{0, 1<<63 - 1, size / 2, driver.ResultInvalidImage},
		{size/2 - 8, 0, 8, driver.ResultInvalidImage},
	} {
		at := memory[c.at : size/2]
		copy(at, "\x50\xed\x55\xba\x01\x00\x10\x00")
		if len(at) >= 16 {
			binary.LittleEndian.PutUint64(at[8:], c.length)
		}
		word := uint64(host(at))
		b, there := image(&word)
		if !there || len(b) != c.want {
			t.Errorf("length %d at %d: read %d bytes, %v", c.length, c.at, len(b), there)
		}
		d, th := sim.New(), new(driver.Thread)
		d.Init(th, 0)
		ctx, _ := d.DevicePrimaryCtxRetain(th, 0)
		d.CtxSetCurrent(th, ctx)
		if _, r := d.ModuleLoadData(th, b); r != c.loading {
			t.Errorf("length %d at %d: %v, want %v", c.length, c.at, r, c.loading)
		}
	}
}
