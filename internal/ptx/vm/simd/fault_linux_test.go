package simd_test

import (
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/ptx/vm/simd"
)

// TestFault accesses memory that other code has unmapped: at addresses that follow each other, that are the same, and
// others. The panic of each access is recovered, and names an address there.
func TestFault(t *testing.T) {
	for _, level := range simd.Levels() {
		testFault(t, level)
	}
}

func testFault(t *testing.T, level simd.Level) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	page := uint64(syscall.Getpagesize())
	memory, err := syscall.Mmap(-1, 0, int(2*page), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(memory) }()
	if err := syscall.Mprotect(memory[page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	m := &simd.Memory{Size: 2 * page, Bits: 1<<64 - 1, Access: 8, Data: unsafe.Pointer(&memory[0])}
	for name, stride := range map[string]uint64{"next": 8, "same": 0, "others": 16} {
		if level != simd.AVX512 && name == "others" { // nothing is done
			continue
		}
		for call, access := range map[string]func(d, a *simd.Column, m *simd.Memory, lanes uint32) bool{
			"load 32": level.Load32, "load 64": level.Load64, "store 32": level.Store32, "store 64": level.Store64,
		} {
			step := stride
			if m.Access = 8; call[len(call)-2:] == "32" {
				m.Access, step = 4, stride/2
			}
			var a simd.Column
			for i := range a {
				a[i] = page + (uint64(i)-4)*step
			}
			fault := func() (problem any) {
				defer func() { problem = recover() }()
				var d simd.Column
				access(&d, &a, m, vm.Full)
				return nil
			}()
			at, is := fault.(interface{ Addr() uintptr })
			if begin := uintptr(unsafe.Pointer(&memory[page])); !is || at.Addr() < begin ||
				at.Addr()-begin >= uintptr(page) {
				t.Errorf("%s, %s: %v", call, name, fault)
			}
		}
	}
}
