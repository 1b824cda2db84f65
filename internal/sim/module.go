package sim

import (
	"maps"
	"slices"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/codeimage"
	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/sim/code"
	"github.com/purecu/purecu/internal/sim/mem"
)

// ModuleLoadData is cuModuleLoadData.
func (d *Driver) ModuleLoadData(th *driver.Thread, image []byte) (driver.Module, driver.Result) {
	defer d.mu.Unlock()
	m, _, r := d.loadModule("cuModuleLoadData", th, image, nil)
	return m, r
}

// ModuleLoadLog is cuModuleLoadDataEx with the compiler's logs as values.
func (d *Driver) ModuleLoadLog(th *driver.Thread, image []byte,
	options []driver.JITOption) (driver.Module, driver.JITLog, driver.Result) {
	defer d.mu.Unlock()
	return d.loadModule("cuModuleLoadDataEx", th, image, options)
}

// ModuleLoadDataEx is cuModuleLoadDataEx. The options may contain addresses of buffers for the
// compiler's logs. The logs end with a NUL, and their lengths replace the sizes in the options.
func (d *Driver) ModuleLoadDataEx(th *driver.Thread, image []byte, options []uint32,
	values []uintptr) (driver.Module, driver.Result) {
	defer d.mu.Unlock()
	if len(options) != len(values) {
		if r := d.begin("cuModuleLoadDataEx"); r != ok {
			return 0, r
		}
		return 0, driver.ResultInvalidValue
	}
	list := make([]driver.JITOption, len(options))
	for i := range options {
		list[i] = driver.JITOption{Option: options[i], Value: values[i]}
	}
	m, log, r := d.loadModule("cuModuleLoadDataEx", th, image, list)
	writeLog(options, values, log)
	return m, r
}

// writeLog writes the compiler's log to the buffers that options name.
func writeLog(options []uint32, values []uintptr, log driver.JITLog) {
	for _, t := range []struct {
		buffer, size uint32
		text         string
	}{
		{driver.CU_JIT_INFO_LOG_BUFFER, driver.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, log.Info},
		{driver.CU_JIT_ERROR_LOG_BUFFER, driver.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, log.Error},
	} {
		at, size := slices.Index(options, t.buffer), slices.Index(options, t.size)
		if at < 0 || size < 0 || values[at] == 0 || values[size] == 0 {
			continue
		}
		text := append([]byte(t.text), 0)
		if n := int(min(values[size], 1<<30)); len(text) > n {
			text = append(text[:n-1], 0)
		}
		if touch(func() { copy(foreignBytes(driver.HostPtr(values[at]), uint64(len(text))), text) }) {
			values[size] = uintptr(len(text))
		}
	}
}

// loadModule loads a module. The caller unlocks the driver.
func (d *Driver) loadModule(name string, th *driver.Thread, image []byte,
	options []driver.JITOption) (_ driver.Module, log driver.JITLog, _ driver.Result) {
	c, _, r := d.inContext(name, th)
	if r != ok {
		return 0, log, r
	}
	verbose := false
	for _, o := range options {
		if o.Option >= driver.CU_JIT_NUM_OPTIONS {
			return 0, log, driver.ResultInvalidValue
		}
		verbose = verbose || o.Option == driver.CU_JIT_LOG_VERBOSE && uint32(o.Value) != 0
	}
	text, problem := d.compile(image, c.dev.GPU)
	if problem == nil {
		if r = d.live(c); r != ok { // another call may have destroyed it meanwhile
			return 0, log, r
		}
	}
	var m *module
	if problem == nil {
		m, problem = d.newModule(c, text, nil)
	}
	if problem != nil {
		log.Error = problem.Text
		return 0, log, problem.Result
	}
	if verbose {
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(m.functions)) {
			f := m.functions[name]
			lines = append(lines, d.compiler(c.dev.GPU).Describe(f.Kernel, f.Attributes, f.linked().Err))
		}
		log.Info = strings.Join(lines, "\n")
	}
	return m.handle, log, ok
}

// newModule makes a module of a context, for a library if it is not nil.
func (d *Driver) newModule(c *context, text *code.Text, l *library) (*module, *code.Problem) {
	m := &module{ctx: c, functions: make(map[string]*function), variables: make(map[string]variable), library: l}
	problem := m.define(d, text)
	if problem == nil {
		problem = m.addFunctions(d, text)
	}
	if problem != nil {
		m.freeVariables(d, "cuModuleLoadDataEx")
		return nil, problem
	}
	m.handle = driver.Module(d.objects.add(moduleKind, m))
	return m, nil
}

// define makes the variables of a module.
func (m *module) define(d *Driver, text *code.Text) *code.Problem {
	if size := text.Constants; size > 0 {
		b, r := d.newDeviceBlock(m.ctx, size, moduleBlock)
		if r != ok {
			return &code.Problem{Result: r}
		}
		m.constants = b
	}
	shared := make(map[string]bool) // variables of the library that have a value
	for _, v := range text.Variables {
		if v.Managed && m.library != nil {
			if b := m.library.managed[v.Name]; b != nil && !b.gone {
				m.variables[v.Name], shared[v.Name] = variable{b, 0, b.size}, true
				continue
			}
		}
		if at, constant := text.ConstantAddress(v.Name); constant {
			m.variables[v.Name] = variable{m.constants, at, v.Size()}
			continue
		}
		b, r := m.newVariable(d, v)
		if r != ok {
			return &code.Problem{Result: r}
		}
		m.variables[v.Name] = variable{b, 0, b.size}
	}
	for _, v := range text.Variables {
		if shared[v.Name] {
			continue
		}
		to := m.variables[v.Name]
		memory := span{to.block, to.at, to.size}
		put := func(off uint64, data []byte) bool { return mem.Put(memory, off, data) }
		if problem := text.Initialize(v, m, put); problem != nil {
			return problem
		}
	}
	return nil
}

// addFunctions makes the kernels of a module. If one cannot be executed, and has to be, it returns why.
func (m *module) addFunctions(d *Driver, text *code.Text) *code.Problem {
	c := d.compiler(m.ctx.dev.GPU)
	for i := range text.Kernels {
		f := &function{module: m}
		f.Kernel, f.OfContext = &text.Kernels[i], &m.ctx.cacheConfig
		m.functions[f.Name] = f
		if f.Attributes, _ = c.Attributes(f.Kernel); c.Replaces(f.Kernel) {
			continue
		}
		if err := f.linked().Err; err != nil {
			if problem := c.Refuse(f.Kernel, err); problem != nil {
				return problem
			}
		}
	}
	return nil
}

// Address implements [code.Variables].
func (m *module) Address(name string) (addr uint64, there bool) {
	v, there := m.variables[name]
	if !there {
		return 0, false
	}
	return v.addr(), true
}

// Room is for programs whose memory is limited, and which have started Go's poller. The function reports whether
// there is room for a number of bytes.
func Room(room func(n uint64) bool) Option {
	return func(d *Driver) { d.room, d.polls = room, true }
}

// compiler returns what compiles images for a GPU.
func (d *Driver) compiler(gpu *profile.GPU) *code.Compiler {
	return &code.Compiler{GPU: gpu, Version: d.version, ReplacedByGo: d.replacedByGo, Room: d.room,
		Lenient: d.unknown.accepted || d.unknown.notify != nil,
		Watched: d.watching.cover != nil || d.watching.thread != nil, Coverage: d.watching.cover}
}

// replacedByGo reports whether a kernel has an implementation in Go. The table does not change.
func (d *Driver) replacedByGo(kernel string) bool {
	_, is := d.kernels[kernel]
	return is
}

// compile compiles an image. The driver is locked, but not meanwhile, as a large text takes a while.
func (d *Driver) compile(image []byte, gpu *profile.GPU) (text *code.Text, problem *code.Problem) {
	c := d.compiler(gpu)
	d.unlocked(func() { text, problem = c.Compile(image) })
	return text, problem
}

func (v variable) addr() uint64 { return v.block.addr + v.at }

// newVariable makes the memory of a variable. All modules of a library have the same managed variables.
func (m *module) newVariable(d *Driver, v *syntax.Var) (*block, driver.Result) {
	if !v.Managed {
		return d.newDeviceBlock(m.ctx, v.Size(), moduleBlock)
	}
	addr, r := d.addPages(m.ctx, managedBlock, v.Size(), driver.CU_MEM_ATTACH_GLOBAL)
	if r != ok {
		return nil, r
	}
	b := d.space.of(addr, managedBlock)
	b.variable = true
	if l := m.library; l != nil {
		if l.managed == nil {
			l.managed = make(map[string]*block)
		}
		l.managed[v.Name] = b
	}
	return b, ok
}

// freeVariables frees the variables of the module, but not those of its library.
func (m *module) freeVariables(d *Driver, name string) {
	for _, v := range m.variables {
		if v.block != m.constants && (v.block.kind != managedBlock || m.library == nil) {
			v.block.freer = name
			d.space.remove(v.block)
		}
	}
	if m.constants != nil {
		d.space.remove(m.constants)
	}
}

// aboutModule begins a call with a module as an argument.
func (d *Driver) aboutModule(name string, h driver.Module) (*module, driver.Result) {
	m, r := about[module](d, name, moduleKind, uintptr(h))
	if r != ok {
		return nil, r
	}
	return m, d.of(name, m.ctx, uintptr(h), moduleKind)
}

// ModuleUnload is cuModuleUnload. It waits for all work in the module's context.
func (d *Driver) ModuleUnload(th *driver.Thread, h driver.Module) driver.Result {
	const op = "cuModuleUnload"
	defer d.mu.Unlock()
	m, r := d.aboutModule(op, h)
	switch {
	case m == nil:
		return r
	case m.library != nil:
		return driver.ResultNotPermitted
	}
	if r == ok {
		if r = d.forbidden(d.thread(th), nil); r != ok {
			return r
		}
		if r = d.drain(op, uintptr(h), m.ctx); r == driver.ResultNotPermitted {
			return r
		}
		if object, _ := d.objects.find(uintptr(h)); object != m {
			return driver.ResultInvalidHandle // another call has unloaded it
		}
	}
	m.freeVariables(d, op)
	d.removeModule(m)
	d.reclaim()
	return r
}

// removeModule makes the handles of a module and its kernels invalid.
func (d *Driver) removeModule(m *module) {
	for _, f := range m.functions {
		if f.handle != 0 {
			d.objects.remove(uintptr(f.handle))
		}
	}
	m.unloaded = true
	d.objects.remove(uintptr(m.handle))
}

// ModuleGetFunction is cuModuleGetFunction.
func (d *Driver) ModuleGetFunction(_ *driver.Thread, h driver.Module, name string) (driver.Function, driver.Result) {
	defer d.mu.Unlock()
	m, r := d.aboutModule("cuModuleGetFunction", h)
	if r != ok {
		return 0, r
	}
	f := m.functions[name]
	switch {
	case name == "":
		return 0, driver.ResultInvalidValue
	case f == nil:
		return 0, driver.ResultNotFound
	}
	return d.functionHandle(f), ok
}

// ModuleGetFunctionCount is cuModuleGetFunctionCount.
func (d *Driver) ModuleGetFunctionCount(_ *driver.Thread, h driver.Module) (uint32, driver.Result) {
	defer d.mu.Unlock()
	m, r := d.aboutModule("cuModuleGetFunctionCount", h)
	if r != ok {
		return 0, r
	}
	return uint32(len(m.functions)), ok
}

// ModuleEnumerateFunctions is cuModuleEnumerateFunctions. The functions are in the order of their names.
func (d *Driver) ModuleEnumerateFunctions(_ *driver.Thread, list []driver.Function, h driver.Module) driver.Result {
	defer d.mu.Unlock()
	m, r := d.aboutModule("cuModuleEnumerateFunctions", h)
	if r != ok {
		return r
	}
	names := slices.Sorted(maps.Keys(m.functions))
	for i, name := range names[:min(len(list), len(names))] {
		list[i] = d.functionHandle(m.functions[name])
	}
	return ok
}

// ModuleGetLoadingMode is cuModuleGetLoadingMode: code is loaded when it is first used.
func (d *Driver) ModuleGetLoadingMode(*driver.Thread) (int32, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuModuleGetLoadingMode"); r != ok {
		return 0, r
	}
	return driver.CU_MODULE_LAZY_LOADING, ok
}

// ModuleLoad is cuModuleLoad.
func (d *Driver) ModuleLoad(th *driver.Thread, path string) (driver.Module, driver.Result) {
	image, err := codeimage.Read(path)
	defer d.mu.Unlock()
	if err != nil {
		switch r := d.begin("cuModuleLoad"); {
		case r != ok:
			return 0, r
		case lacksDescriptor(err):
			return 0, d.lacks("cuModuleLoad", err, 0, driver.ResultOutOfMemory)
		}
		return 0, driver.ResultFileNotFound
	}
	m, _, r := d.loadModule("cuModuleLoad", th, image, nil)
	return m, r
}

// ModuleLoadFatBinary is cuModuleLoadFatBinary. It takes any image that cuModuleLoadData takes.
func (d *Driver) ModuleLoadFatBinary(th *driver.Thread, image []byte) (driver.Module, driver.Result) {
	defer d.mu.Unlock()
	m, _, r := d.loadModule("cuModuleLoadFatBinary", th, image, nil)
	return m, r
}

// ModuleGetGlobal is cuModuleGetGlobal_v2.
func (d *Driver) ModuleGetGlobal(_ *driver.Thread, h driver.Module,
	name string) (driver.DevicePtr, uint64, driver.Result) {
	defer d.mu.Unlock()
	m, r := d.aboutModule("cuModuleGetGlobal", h)
	if r != ok {
		return 0, 0, r
	}
	v, there := m.variables[name]
	switch {
	case name == "", !there && m.functions[name] != nil:
		return 0, 0, driver.ResultInvalidValue
	case !there:
		return 0, 0, driver.ResultNotFound
	}
	return driver.DevicePtr(v.addr()), v.size, ok
}
