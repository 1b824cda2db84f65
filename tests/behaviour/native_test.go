package behaviour

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/purecu/purecu/internal/ccall"
)

// machineCode is a function in C's calling convention, by architecture. Nothing
// here needs a C compiler, also not on the machine with the GPU.
type machineCode map[string][]byte

// writeOne is void f(int *p) { *p = 1; }, for cuLaunchHostFunc.
func writeOne() machineCode {
	return machineCode{
		"amd64": {0xc7, 0x07, 1, 0, 0, 0, 0xc3},                                  // movl $1, (%rdi); ret
		"arm64": {0x21, 0, 0x80, 0x52, 0x01, 0, 0, 0xb9, 0xc0, 0x03, 0x5f, 0xd6}, // mov w1, #1; str w1, [x0]; ret
	}
}

// writeStatus is void f(void *stream, int status, int *p) { *p = status; }, for
// cuStreamAddCallback.
func writeStatus() machineCode {
	return machineCode{
		"amd64": {0x89, 0x32, 0xc3},                         // movl %esi, (%rdx); ret
		"arm64": {0x41, 0, 0, 0xb9, 0xc0, 0x03, 0x5f, 0xd6}, // str w1, [x2]; ret
	}
}

// load returns the function's address. It stays for good.
func (m machineCode) load() (uintptr, error) {
	code := m[runtime.GOARCH]
	if code == nil {
		return 0, fmt.Errorf("there is no function for a driver to call on %s", runtime.GOARCH)
	}
	return executable(code)
}

// TestMachineCode calls the functions the way a driver does.
func TestMachineCode(t *testing.T) {
	one, err := writeOne().load()
	if err != nil {
		t.Skip(err)
	}
	status, err := writeStatus().load()
	if err != nil {
		t.Fatal(err)
	}
	a, b := int32(-1), int32(-1)
	if _, err := ccall.Invoke(one, ccall.Hot, &a); err != nil || a != 1 {
		t.Errorf("writeOne wrote %d, %v", a, err)
	}
	if _, err := ccall.Invoke(status, ccall.Hot, uintptr(0), int32(800), &b); err != nil || b != 800 {
		t.Errorf("writeStatus wrote %d, %v", b, err)
	}
}
