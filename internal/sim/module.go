package sim

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/codeimage"
	"github.com/purecu/purecu/internal/ptx/compile"
	"github.com/purecu/purecu/internal/ptx/syntax"
)

// module is a CUmodule.
type module struct {
	handle    driver.Module
	ctx       *context
	functions map[string]*function
	variables map[string]variable
	constants *block // the variables in constant memory, or nil
	unloaded  bool
	code      *compile.Module
	library   *library // or nil
}

// function is a CUfunction: a kernel of a module.
type function struct {
	handle     driver.Function // 0 until cuModuleGetFunction
	module     *module
	name       string
	params     []param
	maxThreads int32 // the largest number of threads of a block
	blockSize  Dim3  // the size of a block, or zeros
	attributes map[int32]int32
	idle       bool      // the kernel only returns
	compiled   *compiled // nil before it is needed
	program    *program  // nil before it is needed
	loaded     bool      // by cuFuncLoad or a launch
	maxRank    int32     // the largest number of blocks of a cluster, or 0
	cache      int32     // of cuFuncSetCacheConfig
	// own has the attributes that cuFuncSetAttribute has set: those of the library's kernel do not
	// replace them.
	own map[int32]bool
}

// param is a parameter of a kernel, in bytes.
type param struct{ offset, size uint64 }

// The resources of a multiprocessor of an H200.
const (
	multiprocessors  = 132
	mostBlocks       = 32
	mostThreads      = 2048
	mostInBlock      = 1024
	registers        = 65536
	sharedMemory     = 228 << 10
	sharedOfBlock    = 227 << 10 // the most for a block
	sharedUnlessMore = 48 << 10  // the most for a block unless its kernel's attribute is higher
	sharedOfSystem   = 1 << 10   // used for each block in addition
	sharedUnit       = 128       // what a block gets is a multiple of it
	registersEach    = 16        // the registers of each thread in this model
	warp             = 32
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
func (d *Driver) loadModule(op string, th *driver.Thread, image []byte,
	options []driver.JITOption) (_ driver.Module, log driver.JITLog, _ driver.Result) {
	c, _, r := d.inContext(op, th)
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
	code, problem := d.compile(image)
	if problem != nil {
		log.Error = problem.text
		return 0, log, problem.code
	}
	if r = d.live(c); r != ok { // another call may have destroyed it meanwhile
		return 0, log, r
	}
	m, problem := d.newModule(c, code, nil)
	if problem != nil {
		log.Error = problem.text
		return 0, log, problem.code
	}
	if verbose {
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(m.functions)) {
			f := m.functions[name]
			lines = append(lines, d.resources(name, f.attributes, f.idle, f.translated().err))
		}
		log.Info = strings.Join(lines, "\n")
	}
	return m.handle, log, ok
}

// resources describes the resources of a kernel, as the compiler does if it is verbose. err is why it
// cannot be executed.
func (d *Driver) resources(name string, attributes map[int32]int32, idle bool, err error) string {
	line := fmt.Sprintf("cusim: kernel %s: %d registers, %d bytes of shared memory", name, registersEach,
		attributes[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES])
	switch _, written := d.kernels[name]; {
	case written:
		line += "; a function in Go takes the place of its PTX: see WithKernel"
	case idle:
		line += "; it does nothing"
	case err != nil:
		line += fmt.Sprintf("; its launches are refused, as its PTX cannot be executed (%v), and it has no implementation in "+
			"Go: see WithKernel", err)
	}
	return line
}

// newModule makes a module of a context, for a library if it is not nil. The error may have no text.
func (d *Driver) newModule(c *context, code *ptxCode, l *library) (*module, *ptxError) {
	m := &module{ctx: c, functions: make(map[string]*function), variables: make(map[string]variable), code: code.text,
		library: l}
	problem := m.define(d, code)
	if problem == nil {
		problem = d.executable(m, code)
	}
	if problem != nil {
		m.freeVariables(d, "cuModuleLoadDataEx")
		return nil, problem
	}
	m.handle = driver.Module(d.objects.add(moduleKind, m))
	return m, nil
}

// define makes the variables and the kernels of a module.
func (m *module) define(d *Driver, code *ptxCode) *ptxError {
	if size := code.text.Constants; size > 0 {
		b, r := d.newDeviceBlock(m.ctx, size, moduleBlock)
		if r != ok {
			return &ptxError{code: r}
		}
		m.constants = b
	}
	shared := make(map[string]bool) // variables of the library that have a value
	for _, v := range code.variables {
		if v.Managed && m.library != nil {
			if b := m.library.managed[v.Name]; b != nil && !b.gone {
				m.variables[v.Name], shared[v.Name] = variable{b, 0, b.size}, true
				continue
			}
		}
		if at, constant := code.text.ConstantAddress(v.Name); constant {
			m.variables[v.Name] = variable{m.constants, at, v.Size()}
			continue
		}
		b, r := m.newVariable(d, v)
		if r != ok {
			return &ptxError{code: r}
		}
		m.variables[v.Name] = variable{b, 0, b.size}
	}
	for _, v := range code.variables {
		if shared[v.Name] {
			continue
		}
		if problem := m.content(code, v); problem != nil {
			return problem
		}
	}
	for i := range code.entries {
		e := &code.entries[i]
		m.functions[e.name] = &function{
			module:     m,
			compiled:   code.kernels[e.name],
			name:       e.name,
			params:     e.params,
			maxThreads: e.maxThreads,
			blockSize:  e.required,
			idle:       e.idle,
			maxRank:    e.maxRank,
			attributes: code.attributes(e),
		}
	}
	return nil
}

// attributes returns the attributes of a kernel.
func (code *ptxCode) attributes(e *ptxEntry) map[int32]int32 {
	return map[int32]int32{
		driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:            e.maxThreads,
		driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:                e.shared,
		driver.CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:                 code.constant,
		driver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:                 e.local,
		driver.CU_FUNC_ATTRIBUTE_NUM_REGS:                         registersEach,
		driver.CU_FUNC_ATTRIBUTE_PTX_VERSION:                      code.target,
		driver.CU_FUNC_ATTRIBUTE_BINARY_VERSION:                   architecture,
		driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:    max(sharedUnlessMore-e.shared, 0),
		driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: -1,
		driver.CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:         e.explicit,
		driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:           e.cluster[0],
		driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:          e.cluster[1],
		driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:           e.cluster[2],
	}
}

// mostEach is about how much memory of Go's heap one byte of PTX needs while it is compiled.
const mostEach = 48

// Room is for programs whose memory is limited, and which have started Go's poller. The function reports whether
// there is room for a number of bytes.
func Room(room func(n uint64) bool) Option {
	return func(d *Driver) { d.room, d.polls = room, true }
}

// compile compiles an image. The driver is locked, but not meanwhile, as a large text takes a while.
func (d *Driver) compile(image []byte) (*ptxCode, *ptxError) {
	d.mu.Unlock()
	defer d.mu.Lock()
	text, message, r := textOf(image)
	if r != ok {
		return nil, &ptxError{r, message}
	}
	if d.room != nil && !d.room(uint64(len(text))*mostEach) {
		return nil, &ptxError{driver.ResultOutOfMemory, fmt.Sprintf("the process may have too little memory for %d bytes "+
			"of PTX: raise its limits (ulimit -v, ulimit -d)", len(text))}
	}
	code, problem := parsePTX(text, d.version)
	if problem != nil {
		return nil, problem
	}
	if problem := d.translate(code); problem != nil {
		return nil, problem
	}
	return code, nil
}

// translate translates the kernels of a text, except those with an implementation. It returns an error if any
// kernel or function is wrong, as a GPU's driver checks them all.
func (d *Driver) translate(code *ptxCode) *ptxError {
	for i := range code.entries {
		e := &code.entries[i]
		if _, written := d.kernels[e.name]; written || e.idle { // the table does not change
			continue
		}
		c := new(compiled)
		c.kernel, c.err = code.text.Kernel(e.name)
		code.kernels[e.name] = c
		if c.err == nil {
			continue
		}
		if problem := d.unexecutable(e, c.err); problem != nil && problem.code == driver.ResultInvalidPTX {
			return problem
		}
	}
	return d.checkText(code)
}

// checkText looks for mistakes in kernels and functions that were not translated.
func (d *Driver) checkText(code *ptxCode) *ptxError {
	written := func(kernel string) bool { _, is := d.kernels[kernel]; return is }
	if err := code.text.Check(written); err != nil {
		return fatal(err.Pos, "%s", err.What)
	}
	return nil
}

// textOf returns the PTX in an image, and otherwise a message and a result.
func textOf(image []byte) (text []byte, message string, _ driver.Result) {
	switch {
	case bytes.HasPrefix(image, []byte("\x7fELF")): // a cubin
		return nil, "cusim: fatal: the image has code for a GPU, which cannot be run without one: load PTX, or a fatbin " +
			"with PTX", driver.ResultNoBinaryForGPU
	case bytes.HasPrefix(image, []byte("\x50\xed\x55\xba")):
		text, err := codeimage.PTX(image, architecture)
		switch {
		case errors.Is(err, codeimage.ErrNoPTX):
			return nil, "cusim: fatal: " + err.Error() +
				", and code for a GPU cannot be run without one: compile it with PTX, such as " +
				"nvcc -gencode arch=compute_90,code=compute_90", driver.ResultNoBinaryForGPU
		case err != nil:
			return nil, "cusim: fatal: " + err.Error(), driver.ResultInvalidImage
		}
		return text, "", ok
	case !beginsPTX(image):
		return nil, "cusim: fatal: the image is neither a text in PTX nor code for a GPU: PTX begins with .version",
			driver.ResultInvalidImage
	}
	return image, "", ok
}

// beginsPTX reports whether a text begins as PTX does. As for an H200, that is .version after white space and
// comments.
func beginsPTX(text []byte) bool {
	text, _, _ = bytes.Cut(text, []byte{0})
	for {
		text = bytes.TrimLeft(text, " \t\n\v\f\r")
		end := ""
		switch {
		case bytes.HasPrefix(text, []byte("//")):
			end = "\n"
		case bytes.HasPrefix(text, []byte("/*")):
			end = "*/"
		default:
			return bytes.HasPrefix(text, []byte(".version"))
		}
		_, text, _ = bytes.Cut(text[2:], []byte(end))
	}
}

// variable is a variable of a module: where it is in a block.
type variable struct {
	block    *block
	at, size uint64
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
func (m *module) freeVariables(d *Driver, op string) {
	for _, v := range m.variables {
		if v.block != m.constants && (v.block.kind != managedBlock || m.library == nil) {
			v.block.freer = op
			d.space.remove(v.block)
		}
	}
	if m.constants != nil {
		d.space.remove(m.constants)
	}
}

// aboutModule begins a call with a module as an argument.
func (d *Driver) aboutModule(op string, h driver.Module) (*module, driver.Result) {
	if r := d.begin(op); r != ok {
		return nil, r
	}
	m, r := find[module](d, op, moduleKind, uintptr(h))
	if r != ok {
		return nil, r
	}
	return m, d.of(op, m.ctx, uintptr(h), moduleKind)
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
