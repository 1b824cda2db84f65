package driver

import (
	"bytes"
	"runtime"
	"unsafe"

	"github.com/purecu/purecu/internal/ccall"
)

// JITOption is an option of the driver's compiler, with its value.
type JITOption struct {
	Option uint32
	Value  uintptr
}

// JITLog contains the messages of the driver's compiler.
type JITLog struct {
	Info, Error string
}

// jitLogSize is the size of the buffer for each of the compiler's two logs, in bytes.
const jitLogSize = 16 << 10

// ModuleLoadJIT calls cuModuleLoadDataEx with the options and with buffers for the compiler's logs.
// It exists since CUDA 2.1. An image that is a text, such as PTX, has to end with a NUL byte.
func (t *Table) ModuleLoadJIT(at At, image []byte, options []JITOption) (m Module, log JITLog, res Result) {
	if t.soft != nil {
		th, res := t.enter(at)
		if res != ResultSuccess {
			return 0, log, res
		}
		m, log, res = t.software().ModuleLoadLog(th, image, options)
		if res = t.leave(at, th, res); res < popFailed {
			t.ModuleUnload(at.undo(), m)
			m = 0
		}
		if res != missing(symModuleLoadDataEx) {
			return m, log, res
		}
	}
	keys := make([]uint32, 0, len(options)+5)
	values := make([]uintptr, 0, len(options)+5)
	add := func(key uint32, value uintptr) {
		keys, values = append(keys, key), append(values, value)
	}
	for _, o := range options {
		add(o.Option, o.Value)
	}
	if t.soft != nil {
		m, res = t.ModuleLoadDataEx(at, image, keys, values)
		return m, log, res
	}
	// The buffers are on the heap, where they do not move. KeepAlive keeps them until after the
	// call.
	logs := ccall.Heap(new(struct{ info, error [jitLogSize]byte }))
	add(CU_JIT_INFO_LOG_BUFFER, uintptr(unsafe.Pointer(&logs.info)))
	add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, jitLogSize)
	add(CU_JIT_ERROR_LOG_BUFFER, uintptr(unsafe.Pointer(&logs.error)))
	add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, jitLogSize)
	m, res = t.ModuleLoadDataEx(at, image, keys, values)
	text := func(buf []byte) string {
		b, _, _ := bytes.Cut(buf, []byte{0})
		return string(bytes.TrimRight(b, " \n"))
	}
	log = JITLog{Info: text(logs.info[:]), Error: text(logs.error[:])}
	runtime.KeepAlive(logs)
	return m, log, res
}
