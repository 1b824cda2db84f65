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
	b := newJITBuffers(options)
	if t.soft != nil {
		n := len(options)
		m, res = t.ModuleLoadDataEx(at, image, b.options[:n], b.values[:n])
		return m, log, res
	}
	m, res = t.ModuleLoadDataEx(at, image, b.options, b.values)
	return m, b.Log(), res
}

// LibraryLoadJIT calls cuLibraryLoadData with the options and with buffers for the compiler's logs. It
// exists since CUDA 12.0. An image that is a text, such as PTX, has to end with a NUL byte. The caller
// keeps the buffers until the library is unloaded, because the driver may write to them until then.
func (t *Table) LibraryLoadJIT(at At, image []byte, options []JITOption) (LibraryHandle, *JITBuffers, Result) {
	b := newJITBuffers(options)
	l, res := t.LibraryLoadData(at, image, b.options, b.values, nil, nil)
	return l, b, res
}

// JITBuffers are options of the driver's compiler, with the buffers for its logs.
type JITBuffers struct {
	options     []uint32
	values      []uintptr
	info, error [jitLogSize]byte
}

// newJITBuffers returns the options, behind which are those for the logs. It is all on the heap, where
// it does not move.
func newJITBuffers(options []JITOption) *JITBuffers {
	b := ccall.Heap(new(JITBuffers))
	for _, o := range append(options[:len(options):len(options)],
		JITOption{CU_JIT_INFO_LOG_BUFFER, uintptr(unsafe.Pointer(&b.info))},
		JITOption{CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, jitLogSize},
		JITOption{CU_JIT_ERROR_LOG_BUFFER, uintptr(unsafe.Pointer(&b.error))},
		JITOption{CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, jitLogSize}) {
		b.options, b.values = append(b.options, o.Option), append(b.values, o.Value)
	}
	return b
}

// Log returns the logs as they are now. The buffers live at least until then.
func (b *JITBuffers) Log() JITLog {
	text := func(buf []byte) string {
		b, _, _ := bytes.Cut(buf, []byte{0})
		return string(bytes.TrimRight(b, " \n"))
	}
	log := JITLog{Info: text(b.info[:]), Error: text(b.error[:])}
	runtime.KeepAlive(b)
	return log
}

// LinkInput is code that [Table.Link] puts together with other code.
type LinkInput struct {
	Type int32  // CU_JIT_INPUT_PTX, for example
	Name string // for the logs
	Data []byte // a text has to end with a NUL byte
}

// Link makes one image of several inputs, by cuLinkCreate, cuLinkAddData, cuLinkComplete and
// cuLinkDestroy. They exist since CUDA 6.5. If a call fails, failed is its C function, and input the
// index of the input, or -1. All calls are made by one thread, as the package's documentation demands.
func (t *Table) Link(at At, inputs []LinkInput, options []JITOption) (image []byte, log JITLog, failed string,
	input int, res Result) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b := newJITBuffers(options)
	defer func() { log = b.Log() }()
	l, res := t.LinkCreate(at, b.options, b.values)
	if res != ResultSuccess {
		return nil, log, "cuLinkCreate", -1, res
	}
	defer t.LinkDestroy(at, l)
	for i, in := range inputs {
		if res = t.LinkAddData(at, l, in.Type, in.Data, in.Name, nil, nil); res != ResultSuccess {
			return nil, log, "cuLinkAddData", i, res
		}
	}
	p, n, res := t.LinkComplete(at, l)
	if res != ResultSuccess {
		return nil, log, "cuLinkComplete", -1, res
	}
	// A conversion through a pointer, as the address is a number. The linker owns the memory.
	return bytes.Clone(unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n)), log, "", -1, res
}
