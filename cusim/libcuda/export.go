//go:build linux && cgo

package main

/*
#define _GNU_SOURCE
#cgo LDFLAGS: -Wl,--wrap=pthread_create
#cgo LDFLAGS: -Wl,--wrap=pthread_attr_init
#cgo LDFLAGS: -Wl,--wrap=x_cgo_sys_thread_create
#cgo LDFLAGS: -Wl,--wrap=mmap
#cgo LDFLAGS: -Wl,--wrap=malloc
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "needs.h"

static void cusim_call_host(uintptr_t f, uintptr_t data) { ((void (*)(void *))f)((void *)data); }

static void cusim_call_stream(uintptr_t f, uintptr_t stream, int status, uintptr_t data)
{
	((void (*)(void *, int, void *))f)((void *)stream, status, (void *)data);
}

// The malloc of the C library is not replaced.
static char *cusim_copy(_GoString_ s) { return strndup(_GoStringPtr(s), _GoStringLen(s)); }

static uint64_t cusim_call_size(uintptr_t f, int threads) { return ((size_t (*)(int))f)(threads); }
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"runtime/cgo"
	"time"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
	"github.com/purecu/purecu/internal/sim/environment"
	"github.com/purecu/purecu/internal/simnvml"
	"github.com/purecu/purecu/nvml/raw"
)

// theLibrary is the library behind the C functions. It is set before all other calls.
var theLibrary *library

// theNVML is the NVML behind the C functions of NVML. It is set with theLibrary.
var theNVML *nvmlLibrary

// environ returns the present environment. The Go runtime knows only that of the start of the process.
func environ() (list []string) {
	if C.environ == nil {
		return nil
	}
	for p := C.environ; *p != nil; p = (**C.char)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		list = append(list, C.GoString(*p))
	}
	return list
}

// heapRoom is how much memory the Go heap has from the beginning, in bytes. When the process may have
// no more, calls that free something still need some.
const heapRoom = 32 << 20

// settle makes the Go runtime take what it needs later, and would end the process without.
func settle() {
	// A number that was set does not change with the number of processors.
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), int(C.cusim_processors())))
	C.cusim_release()
	time.AfterFunc(time.Hour, func() {}).Stop() // opens what timers need
	runtime.KeepAlive(make([]byte, heapRoom))
	runtime.GC() // the heap keeps the room
}

// cusimStart creates the driver, for the version of CUDA that the library was built for. It is called once,
// before all other functions.
//
//export cusimStart
func cusimStart(newest C.int) C.int {
	settle()
	unknown := func(name string, why error) {
		const says = "cusim: kernel %q is unknown: its launches return CUDA_ERROR_NOT_SUPPORTED (801); " +
			"its PTX cannot be executed: %v\n"
		fmt.Fprintf(os.Stderr, says, name, why)
	}
	d, err := configured(int(newest), environ, os.Stderr, sim.OnUnknownKernel(unknown),
		sim.HostThreads(func() bool { return C.cusim_host_begin() != 0 }, func() { C.cusim_host_end() }),
		sim.Room(func(n uint64) bool { return C.cusim_room(C.uint64_t(n)) != 0 }),
		sim.BlockSizes(func(f uintptr, threads int32) uint64 {
			return uint64(C.cusim_call_size(C.uintptr_t(f), C.int(threads)))
		}))
	var script func(*simnvml.NVML)
	if err == nil {
		script, err = environment.NVML(environ())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "cusim: %v\n", err)
		return C.int(driver.ResultUnknown)
	}
	l := newLibrary(d)
	l.callHost = func(f, data uintptr) { C.cusim_call_host(C.uintptr_t(f), C.uintptr_t(data)) }
	l.callStream = func(f, stream uintptr, status driver.Result, data uintptr) {
		C.cusim_call_stream(C.uintptr_t(f), C.uintptr_t(stream), C.int(status), C.uintptr_t(data))
	}
	l.copyText = func(s string) uintptr { return uintptr(unsafe.Pointer(C.cusim_copy(s))) }
	theLibrary, theNVML = l, newNVML(softwareNVML(d, script), l.copyText)
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

// cusimMake makes a call, unless the process is short of memory, and the call may need some.
//
//export cusimMake
func cusimMake(id C.uintptr_t, number C.uint32_t, scarce C.int, words *C.uint64_t) C.int {
	if scarce != 0 && !ends(uint32(number)) {
		return C.int(driver.ResultOutOfMemory)
	}
	th := cgo.Handle(id).Value().(*driver.Thread)
	return C.int(theLibrary.call(th, uint32(number), (*[maxWords]uint64)(unsafe.Pointer(words))))
}

// cusimMakeNVML makes a call of NVML, unless the process is short of memory.
//
//export cusimMakeNVML
func cusimMakeNVML(number C.uint32_t, scarce C.int, words *C.uint64_t) C.int {
	if scarce != 0 {
		return C.int(raw.NVML_ERROR_MEMORY)
	}
	return C.int(theNVML.result(uint32(number), (*[nvmlWords]uint64)(unsafe.Pointer(words))))
}

// cusimFault begins a call of a function that C implements with other functions.
//
//export cusimFault
func cusimFault(id C.uintptr_t, function *C.char) C.int {
	return C.int(theLibrary.begin(cgo.Handle(id).Value().(*driver.Thread), C.GoString(function)))
}

// cusimReport ends the driver at the end of the process, if there is a report to write. Objects were destroyed in
// C code, of which there is no stack.
//
//export cusimReport
func cusimReport() { theLibrary.d.End(false) }
