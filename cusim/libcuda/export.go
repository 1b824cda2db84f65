//go:build linux && cgo

package main

/*
#include <stdint.h>
#include <stdlib.h>

static void cusim_call_host(uintptr_t f, uintptr_t data) { ((void (*)(void *))f)((void *)data); }

static void cusim_call_stream(uintptr_t f, uintptr_t stream, int status, uintptr_t data)
{
	((void (*)(void *, int, void *))f)((void *)stream, status, (void *)data);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime/cgo"
	"syscall"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
)

// theLibrary is the library behind the C functions. It is set before all other calls.
var theLibrary *library

// getenv returns the present value of an environment variable. The Go runtime knows only the values
// from the start of the process.
func getenv(name string) string {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	return C.GoString(C.getenv(n))
}

// mapMemory returns memory that Go does not manage, as C code may keep its address after it was
// freed.
func mapMemory(size uint64) []byte {
	b, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil
	}
	return b
}

// unmapMemory unmaps memory of mapMemory. It cannot fail, as the memory is mapped.
func unmapMemory(b []byte) { _ = syscall.Munmap(b) }

// cusimStart creates the driver. It is called once, before all other functions.
//
//export cusimStart
func cusimStart() C.int {
	opts, err := options(getenv)
	if err != nil {
		fmt.Fprintf(os.Stderr, "cusim: %v\n", err)
		return C.int(driver.ResultUnknown)
	}
	opts = append(opts, sim.PinnedMemory(mapMemory, unmapMemory), sim.OnUnknownKernel(func(name string, why error) {
		const says = "cusim: kernel %q is unknown: its launches do nothing, or fail with " +
			"CUSIM_UNKNOWN_KERNELS=refuse; " +
			"its PTX cannot be executed: %v\n"
		fmt.Fprintf(os.Stderr, says, name, why)
	}))
	l := newLibrary(sim.New(opts...))
	l.callHost = func(f, data uintptr) { C.cusim_call_host(C.uintptr_t(f), C.uintptr_t(data)) }
	l.callStream = func(f, stream uintptr, status driver.Result, data uintptr) {
		C.cusim_call_stream(C.uintptr_t(f), C.uintptr_t(stream), C.int(status), C.uintptr_t(data))
	}
	l.copyText = func(s string) uintptr { return uintptr(unsafe.Pointer(C.CString(s))) }
	theLibrary = l
	return 0
}

// cusimThread returns the identifier of the calling thread.
//
//export cusimThread
func cusimThread() C.uintptr_t {
	return C.uintptr_t(cgo.NewHandle(new(driver.Thread)))
}

// cusimThreadEnd releases the identifier of a thread that ends.
//
//export cusimThreadEnd
func cusimThreadEnd(id C.uintptr_t) {
	h := cgo.Handle(id)
	theLibrary.d.EndThread(h.Value().(*driver.Thread))
	h.Delete()
}

// cusimCall makes a call.
//
//export cusimCall
func cusimCall(id C.uintptr_t, number C.uint32_t, words *C.uint64_t) C.int {
	th := cgo.Handle(id).Value().(*driver.Thread)
	return C.int(theLibrary.call(th, uint32(number), (*[maxWords]uint64)(unsafe.Pointer(words))))
}

// cusimFault returns the result of the fault, if any, for a call of a function that C implements
// with other functions.
//
//export cusimFault
func cusimFault(_ C.uintptr_t, function *C.char) C.int {
	return C.int(theLibrary.d.MeetFault(C.GoString(function)))
}

// cusimReport writes the misuses and the open objects to standard error.
//
//export cusimReport
func cusimReport() { theLibrary.report(os.Stderr) }
