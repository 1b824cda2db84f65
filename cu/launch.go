package cu

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// Dim3 is a number of blocks or threads in three dimensions. A zero Y or Z counts as 1.
type Dim3 struct{ X, Y, Z uint32 }

// LaunchConfig is the configuration of a launch.
type LaunchConfig struct {
	// Grid is the number of blocks, Block the number of threads in each.
	Grid, Block Dim3
	// SharedMem is the size of the dynamic shared memory of a block, in bytes.
	SharedMem uint32
	// Flags choose how the kernel is launched.
	Flags LaunchFlags
}

// Arg is an argument of a kernel, with a definite type: see [U32], [Ptr], [Value].
type Arg struct {
	bits uint64
	size uint32
	data []byte   // the value, if it does not fit into bits
	mem  *memCore // the memory whose address bits is, or nil
	// owner keeps mem from being collected.
	owner any
	err   error
}

// I32 passes a 32-bit signed integer.
func I32(v int32) Arg { return Arg{bits: uint64(uint32(v)), size: 4} }

// U32 passes a 32-bit unsigned integer.
func U32(v uint32) Arg { return Arg{bits: uint64(v), size: 4} }

// I64 passes a 64-bit signed integer.
func I64(v int64) Arg { return Arg{bits: uint64(v), size: 8} }

// U64 passes a 64-bit unsigned integer.
func U64(v uint64) Arg { return Arg{bits: v, size: 8} }

// F32 passes a 32-bit float.
func F32(v float32) Arg { return Arg{bits: uint64(math.Float32bits(v)), size: 4} }

// F64 passes a 64-bit float.
func F64(v float64) Arg { return Arg{bits: math.Float64bits(v), size: 8} }

// Ptr passes the address of memory. The memory is not freed before the kernel has run.
func Ptr(m Memory) Arg {
	if m == nil {
		return Arg{err: ErrNil}
	}
	s := m.span()
	switch {
	case s.err != nil:
		return Arg{err: s.err}
	case s.mem == nil:
		return Arg{err: ErrNil}
	case s.mem.raw == 0:
		return Arg{err: errUnmapped}
	}
	r := s.region()
	return Arg{bits: uint64(r.addr()), size: 8, mem: s.mem, owner: s.owner}
}

// Value passes the bytes of a value whose type contains no Go pointers. The kernel's type must have
// the same layout.
func Value[T any](v T) Arg {
	t := reflect.TypeFor[T]()
	if !plain(t) {
		return Arg{err: fmt.Errorf("%w: a %v contains Go pointers or has no fixed layout", errInvalid, t)}
	}
	n := t.Size()
	data := make([]byte, n)
	// The conversion is valid: v has n bytes, and contains no pointer.
	copy(data, unsafe.Slice((*byte)(unsafe.Pointer(&v)), n))
	return Arg{data: data, size: uint32(n)}
}

// plain reports whether a type has no pointers, and the same size on all platforms.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128,
		reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !plain(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}

// Launch enqueues the kernel on a stream (cuLaunchKernel). It returns when the kernel is enqueued,
// not when it has run. The stream must be of the context into which the module was loaded. It may
// wait for the GPU: see docs/blocking.md.
//
// The number and sizes of the arguments are checked if [Function.Params] reports them: the driver
// (CUDA 12.4), or else the PTX of the module, has them. Otherwise wrong arguments make the driver
// read invalid memory, which this package cannot detect.
func (f *Function) Launch(s *Stream, cfg LaunchConfig, args ...Arg) error {
	op := cfg.op()
	if f == nil || f.mod == nil {
		return errNil(op, "function")
	}
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	if drv := f.mod.core.ctx.drv; drv != s.core.ctx.drv {
		return mixed(op, "kernel", f.mod.core.ctx, "stream", s.core.ctx)
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	t, res, err := f.enqueue(op, sc, cfg, args)
	s.leaveTraced(t, TraceLaunch, res)
	return err
}

// enqueue enqueues the kernel on a stream, on which the caller has a call in flight. The caller
// ends the tracedCall when it holds no lock.
func (f *Function) enqueue(
	op string,
	sc *streamCore,
	cfg LaunchConfig,
	args []Arg,
) (t tracedCall, res driver.Result, err error) {
	mc := f.mod.core
	if err := mc.Enter(mc, op); err != nil {
		return t, 0, err
	}
	if mc.ctx != sc.ctx {
		mc.leave()
		return t, 0, mixed(op, "kernel", mc.ctx, "stream", sc.ctx)
	}
	if err := f.check(&cfg, args); err != nil {
		mc.leave()
		return t, 0, err
	}
	d := sc.ctx.drv
	lf := d.launches.Get().(*launchFrame)
	if err := lf.fill(sc, args); err != nil {
		lf.done(d)
		mc.leave()
		err.Op, err.Handle = op, uintptr(f.raw)
		err.Detail = join(err.Detail, "kernel "+f.name)
		return t, 0, err
	}
	t = d.trace(TraceLaunch, 0, sc.raw)
	c := sc.beginWork()
	c.keep(mc, sc)
	for _, m := range lf.mem {
		c.keep(m, sc)
	}
	g, b, at := cfg.Grid.normalize(), cfg.Block.normalize(), sc.inContext()
	sc.beginLegacy()
	if cfg.Flags&LaunchCooperative != 0 {
		res = d.table.LaunchCooperativeKernel(at, f.raw, g.X, g.Y, g.Z, b.X, b.Y, b.Z, cfg.SharedMem, sc.raw, lf.params)
	} else {
		res = d.table.LaunchKernel(at, f.raw, g.X, g.Y, g.Z, b.X, b.Y, b.Z, cfg.SharedMem, sc.raw, lf.params)
	}
	sc.endLegacy()
	sc.endWork()
	lf.done(d)
	mc.leave()
	runtime.KeepAlive(f)
	runtime.KeepAlive(args) // args has the owners of device memory
	if res != driver.ResultSuccess {
		e := sc.ctx.callError(op, uintptr(f.raw), res)
		if e.Err == nil && res == driver.ResultInvalidValue {
			e.Detail = sc.ctx.device.exceededLimit(g, b)
		}
		err = e
	}
	return t, res, err
}

// check compares the launch with the kernel's parameters, if they are known.
func (f *Function) check(cfg *LaunchConfig, args []Arg) error {
	op := cfg.op()
	refuse := func(format string, a ...any) error {
		return &Error{Op: op, Result: ResultInvalidValue, Handle: uintptr(f.raw), Err: errInvalid,
			Detail: "kernel " + f.name + fmt.Sprintf(format, a...)}
	}
	if cfg.Flags&^LaunchCooperative != 0 {
		return refuse(": unknown launch flags %v: see LaunchFlags", cfg.Flags)
	}
	if cfg.Grid.X == 0 || cfg.Block.X == 0 {
		return refuse(": Grid.X and Block.X must be at least 1")
	}
	if !f.known {
		return nil
	}
	if len(args) != len(f.params) {
		return refuse(" takes %d arguments, not %d", len(f.params), len(args))
	}
	for i, a := range args {
		if a.err == nil && uint64(a.size) != f.params[i] {
			return refuse(": argument %d has %d bytes, and the kernel's parameter has %d", i, a.size, f.params[i])
		}
	}
	return nil
}

// op returns the C function of the launch.
func (cfg *LaunchConfig) op() string {
	if cfg.Flags&LaunchCooperative != 0 {
		return "cuLaunchCooperativeKernel"
	}
	return "cuLaunchKernel"
}

// exceededLimit explains why the driver refused the configuration of a launch as an invalid value:
// it names the dimension that exceeds the device's limit, or else the limits that depend on the
// kernel.
func (dev *Device) exceededLimit(grid, block Dim3) string {
	for _, d := range []struct {
		name string
		size uint32
		most DeviceAttribute
		less string
	}{
		{"Grid.X", grid.X, DeviceAttributeMaxGridDimX, "give each thread more work"},
		{"Grid.Y", grid.Y, DeviceAttributeMaxGridDimY, "put more into Grid.X"},
		{"Grid.Z", grid.Z, DeviceAttributeMaxGridDimZ, "put more into Grid.X"},
		{"Block.X", block.X, DeviceAttributeMaxBlockDimX, "call SuggestBlockSize, and use more blocks"},
		{"Block.Y", block.Y, DeviceAttributeMaxBlockDimY, "call SuggestBlockSize, and use more blocks"},
		{"Block.Z", block.Z, DeviceAttributeMaxBlockDimZ, "call SuggestBlockSize, and use more blocks"},
	} {
		if most, err := dev.Attribute(d.most); err == nil && int64(d.size) > int64(most) {
			return fmt.Sprintf("%s is %d, and the device allows %d: %s", d.name, d.size, most, d.less)
		}
	}
	return "the block has more threads, or more shared memory, than the kernel or the device allows: " +
		"call SuggestBlockSize, and raise FunctionAttributeMaxDynamicSharedSizeBytes for more than 48 KiB"
}

// normalize replaces a zero Y or Z by 1.
func (d Dim3) normalize() Dim3 {
	return Dim3{d.X, max(d.Y, 1), max(d.Z, 1)}
}

// launchFrame has the values of a launch's arguments while the driver copies them, and their
// addresses.
type launchFrame struct {
	values []uint64
	params driver.KernelParams
	mem    []*memCore // with a call in flight on each
}

// fill sets the frame from the arguments, and begins a call on each memory.
func (lf *launchFrame) fill(sc *streamCore, args []Arg) *Error {
	// All values are appended first: append may move them, and then pointers to them would be
	// stale.
	for _, a := range args {
		lf.values = append(lf.values, a.bits)
	}
	for i, a := range args {
		if a.err != nil {
			e := &Error{Result: ResultInvalidValue, Err: a.err, Detail: fmt.Sprintf("argument %d", i)}
			switch a.err {
			case ErrNil:
				e.Detail += " is nil memory: check the error of the call that should have made it"
			case errUnmapped:
				e.Detail += ": allocate it with HostDeviceMap"
			}
			return e
		}
		if a.mem != nil {
			mc := a.mem
			// Drivers are compared first. Then closed memory is detected, and then contexts are
			// compared.
			if mc.ctx.drv != sc.ctx.drv {
				return &Error{Result: ResultInvalidValue, Err: ErrDriverMismatch,
					Detail: fmt.Sprintf(
						"argument %d is memory of %v, and the kernel is of %v: open one driver and share it",
						i,
						mc.ctx.drv,
						sc.ctx.drv,
					)}
			}
			if !mc.Acquire(mc) {
				return &Error{
					Result: ResultInvalidValue,
					Err:    ErrClosed,
					Detail: fmt.Sprintf("argument %d is closed memory: close memory after its last use", i),
				}
			}
			lf.mem = append(lf.mem, mc)
			if !mc.onHost() && !sc.ctx.reaches(mc.ctx) {
				e := &Error{Result: ResultInvalidValue, Err: mismatch(mc.ctx, sc.ctx)}
				e.Detail = fmt.Sprintf(
					"argument %d is memory of another context, which the kernel may be unable to access: "+
						"allocate it in the kernel's context",
					i,
				)
				if e.Err == ErrDeviceMismatch {
					e.Detail += ", or enable peer access"
				}
				return e
			}
		}
		p := unsafe.Pointer(&lf.values[i])
		if a.data != nil {
			p = unsafe.Pointer(unsafe.SliceData(a.data))
		}
		lf.params.Ptrs = append(lf.params.Ptrs, p)
		lf.params.Sizes = append(lf.params.Sizes, a.size)
	}
	return nil
}

// done ends the calls on the memory, and returns the frame to the pool.
func (lf *launchFrame) done(d *Driver) {
	for _, mc := range lf.mem {
		mc.leave()
	}
	clear(lf.mem)
	clear(lf.params.Ptrs)
	lf.values, lf.mem = lf.values[:0], lf.mem[:0]
	lf.params.Ptrs, lf.params.Sizes = lf.params.Ptrs[:0], lf.params.Sizes[:0]
	d.launches.Put(lf)
}
