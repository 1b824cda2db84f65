package driver

import (
	"bytes"
	"runtime"
	"unsafe"

	"github.com/purecu/purecu/internal/ccall"
)

// JITOption is an option of the compiler in the driver, with its value.
type JITOption struct {
	Option uint32
	Value  uintptr
}

// JITLog is what the compiler has to say.
type JITLog struct {
	Info, Error string
}

// jitLogSize is the room for each of the compiler's two logs, in bytes.
const jitLogSize = 16 << 10

// ModuleLoadJIT calls cuModuleLoadDataEx, which exists from CUDA 2.1, with the
// options and with buffers for the compiler's logs. The image of a text has to
// end with a NUL.
func (t *Table) ModuleLoadJIT(at At, image []byte, options []JITOption) (m Module, log JITLog, res Result) {
	if t.soft != nil {
		th, res := t.enter(at)
		if res != ResultSuccess {
			return 0, log, res
		}
		m, log, res = t.soft.ModuleLoadLog(th, image, options)
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
	// On the heap nothing moves them; they are kept until after the call.
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
