package entries

import (
	"os"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/descriptor"
)

// imports are memory and a semaphore of other APIs. Drivers import the file of memory as both: one file for
// each.
type imports struct {
	memory, signals *os.File
	mem             driver.ExternalMemory
	sem             driver.ExternalSemaphore
}

func (w *world) addImports(at A) {
	x := &w.imports
	file := func() *os.File {
		prop := physical()
		prop.RequestedHandleTypes = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
		h, r := w.MemCreate(at, pages, prop, 0)
		w.must("cuMemCreate", r)
		e, r := w.MemExportToShareableHandle(at, h, driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
		w.must("cuMemExportToShareableHandle", r)
		w.must("cuMemRelease", w.MemRelease(at, h))
		f := os.NewFile(uintptr(e.FD()), "memory")
		w.finally("closing a file", func(A) R {
			_ = f.Close()
			return ok
		})
		return f
	}
	x.memory, x.signals = file(), file()
	var r R
	x.mem, r = w.importMemory(at)
	w.must("cuImportExternalMemory", r)
	w.finally("cuDestroyExternalMemory", func(at A) R {
		if x.mem == 0 {
			return ok
		}
		return w.DestroyExternalMemory(at, x.mem)
	})
	x.sem, r = w.importSemaphore(at)
	w.must("cuImportExternalSemaphore", r)
	w.finally("cuDestroyExternalSemaphore", func(at A) R {
		if x.sem == 0 {
			return ok
		}
		return w.DestroyExternalSemaphore(at, x.sem)
	})
}

// passed calls a function with a descriptor that is the driver's if it succeeds.
func passed(f *os.File, call func(fd int32) R) R {
	fd, err := descriptor.Duplicate(int32(f.Fd()))
	if err != nil {
		return driver.ResultUnknown
	}
	r := call(fd)
	if r != ok {
		descriptor.Close(fd)
	}
	return r
}

func (w *world) importMemory(at A) (m driver.ExternalMemory, r R) {
	r = passed(w.imports.memory, func(fd int32) (r R) {
		desc := driver.ExternalMemoryHandleDesc{Type: driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, Size: pages}
		*desc.Handle.Fd() = fd
		m, r = w.ImportExternalMemory(at, desc)
		return r
	})
	return m, r
}

func (w *world) importSemaphore(at A) (s driver.ExternalSemaphore, r R) {
	r = passed(w.imports.signals, func(fd int32) (r R) {
		desc := driver.ExternalSemaphoreHandleDesc{Type: driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD}
		*desc.Handle.Fd() = fd
		s, r = w.ImportExternalSemaphore(at, desc)
		return r
	})
	return s, r
}

// externalCalls are about memory and semaphores of other APIs. The semaphore has the value 0.
func externalCalls() []call {
	return with(external,
		alone("cuImportExternalMemory", func(w W, at A) R {
			m, r := w.importMemory(at)
			return w.later(r, func(at A) R { return w.DestroyExternalMemory(at, m) })
		}),
		alone("cuExternalMemoryGetMappedBuffer", func(w W, at A) R {
			p, r := w.ExternalMemoryGetMappedBuffer(at, w.imports.mem, driver.ExternalMemoryBufferDesc{Size: 64})
			return w.later(r, func(at A) R { return w.MemFree(at, p) })
		}),
		destroys(alone("cuDestroyExternalMemory", func(w W, at A) R {
			r := w.DestroyExternalMemory(at, w.imports.mem)
			if r == ok {
				w.imports.mem = 0
			}
			return r
		})),
		alone("cuImportExternalSemaphore", func(w W, at A) R {
			s, r := w.importSemaphore(at)
			return w.later(r, func(at A) R { return w.DestroyExternalSemaphore(at, s) })
		}),
		destroys(alone("cuDestroyExternalSemaphore", func(w W, at A) R {
			r := w.DestroyExternalSemaphore(at, w.imports.sem)
			if r == ok {
				w.imports.sem = 0
			}
			return r
		})),
		onStream("cuSignalExternalSemaphoresAsync", func(w W, at A, s S) R {
			return w.SignalExternalSemaphoresAsync(at, []driver.ExternalSemaphore{w.imports.sem},
				make([]driver.ExternalSemaphoreSignalParams, 1), s)
		}),
		onStream("cuWaitExternalSemaphoresAsync", func(w W, at A, s S) R {
			return w.WaitExternalSemaphoresAsync(at, []driver.ExternalSemaphore{w.imports.sem},
				make([]driver.ExternalSemaphoreWaitParams, 1), s)
		}),
	)
}
