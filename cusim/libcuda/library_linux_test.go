package main

import (
	"syscall"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
)

// TestFaultNames makes every call with a fault for its name. All arguments but one are addresses.
func TestFaultNames(t *testing.T) {
	const code = driver.ResultDeviceUnavailable
	memory, err := syscall.Mmap(-1, 0, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(memory)
	for number, name := range callNames {
		base, err := parseFunction(name)
		if err != nil {
			t.Error(err)
			continue
		}
		l := newLibrary(sim.New(sim.Faults(sim.Fault{Function: base, Every: true, Code: int(code)})))
		l.copyText = func(string) uintptr { return 0 }
		met := false
		for null := 0; null < maxWords && !met; null++ {
			words := new([maxWords]uint64)
			for i := range words {
				if i != (null+2)%maxWords { // may be the length for the argument that is 0
					words[i] = uint64(host(memory))
				}
			}
			met = l.call(new(driver.Thread), uint32(number), words) == code
		}
		if !met {
			t.Errorf("%s is not affected by a fault for its name", name)
		}
	}
}
