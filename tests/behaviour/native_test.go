package behaviour

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/internal/ccall"
)

// machineCode is a function in C's calling convention, by architecture. It needs no C compiler,
// neither here nor on the machine with the GPU.
type machineCode map[string][]byte

// writeOne is void f(int *p) { *p = 1; }, for cuLaunchHostFunc.
func writeOne() machineCode {
	return machineCode{
		"amd64": {0xc7, 0x07, 1, 0, 0, 0, 0xc3},                                  // movl $1, (%rdi); ret
		"arm64": {0x21, 0, 0x80, 0x52, 0x01, 0, 0, 0xb9, 0xc0, 0x03, 0x5f, 0xd6}, // mov w1, #1; str w1, [x0]; ret
	}
}

// A callbackSlot is the argument of askInside: two driver functions with one argument each, and
// their results. Its address does not change.
type callbackSlot struct {
	status   atomic.Int32 // -1 until the results are complete
	_        int32
	first    uintptr
	out      uintptr // the first function writes here: its address is the argument
	answer1  atomic.Int32
	_        int32
	second   uintptr
	argument uintptr // of the second function
	answer2  atomic.Int32
	_        int32
	given    int32 // the status, until the results are complete
}

// askInside is void f(void *stream, int status, struct callbackSlot *p), for cuStreamAddCallback:
//
//	p->answer1 = p->first(&p->out);
//	p->answer2 = p->second(p->argument);
//	p->status = status;
func askInside() machineCode {
	return machineCode{
		"amd64": {
			0x53,             // push %rbx
			0x48, 0x89, 0xd3, // mov %rdx, %rbx
			0x89, 0x73, 0x38, // mov %esi, 0x38(%rbx)
			0x48, 0x8d, 0x7b, 0x10, // lea 0x10(%rbx), %rdi
			0xff, 0x53, 0x08, // call *0x8(%rbx)
			0x89, 0x43, 0x18, // mov %eax, 0x18(%rbx)
			0x48, 0x8b, 0x7b, 0x28, // mov 0x28(%rbx), %rdi
			0xff, 0x53, 0x20, // call *0x20(%rbx)
			0x89, 0x43, 0x30, // mov %eax, 0x30(%rbx)
			0x8b, 0x43, 0x38, // mov 0x38(%rbx), %eax
			0x89, 0x03, // mov %eax, (%rbx)
			0x5b, // pop %rbx
			0xc3, // ret
		},
		"arm64": words(
			0xa9be7bfd, // stp x29, x30, [sp, #-32]!
			0xf9000bf3, // str x19, [sp, #16]
			0xaa0203f3, // mov x19, x2
			0xb9003a61, // str w1, [x19, #56]
			0x91004260, // add x0, x19, #16
			0xf9400669, // ldr x9, [x19, #8]
			0xd63f0120, // blr x9
			0xb9001a60, // str w0, [x19, #24]
			0xf9401660, // ldr x0, [x19, #40]
			0xf9401269, // ldr x9, [x19, #32]
			0xd63f0120, // blr x9
			0xb9003260, // str w0, [x19, #48]
			0xb9403a60, // ldr w0, [x19, #56]
			0xb9000260, // str w0, [x19]
			0xf9400bf3, // ldr x19, [sp, #16]
			0xa8c27bfd, // ldp x29, x30, [sp], #32
			0xd65f03c0, // ret
		),
	}
}

// words returns instructions of 32 bits.
func words(list ...uint32) (code []byte) {
	for _, w := range list {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	return code
}

// load returns the address of the function. The code is never freed.
func (m machineCode) load() (uintptr, error) {
	code := m[runtime.GOARCH]
	if code == nil {
		return 0, fmt.Errorf("there is no function for a driver to call on %s", runtime.GOARCH)
	}
	return executable(code)
}

// TestMachineCode calls the functions as a driver does.
func TestMachineCode(t *testing.T) {
	one, err := writeOne().load()
	if err != nil {
		t.Skip(err)
	}
	inside, err := askInside().load()
	if err != nil {
		t.Fatal(err)
	}
	a := int32(-1)
	if _, err := ccall.Invoke(one, ccall.Hot, &a); err != nil || a != 1 {
		t.Errorf("writeOne wrote %d, %v", a, err)
	}
	// The called functions write to the slot, too.
	var written int32
	slot := ccall.Heap(&callbackSlot{first: one, second: one, argument: uintptr(unsafe.Pointer(ccall.Heap(&written)))})
	if _, err := ccall.Invoke(inside, ccall.Hot, uintptr(0), int32(800), uintptr(unsafe.Pointer(slot))); err != nil ||
		slot.status.Load() != 800 || slot.out != 1 || written != 1 {
		t.Errorf("askInside wrote %d, and what it called %d and %d, %v", slot.status.Load(), slot.out, written, err)
	}
}
