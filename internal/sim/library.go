package sim

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/codeimage"
	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/internal/sim/code"
)

// LibraryLoadData is cuLibraryLoadData. As with NVIDIA's driver, the image may be anything.
func (d *Driver) LibraryLoadData(_ *driver.Thread, image []byte, options []uint32, values []uintptr,
	libraryOptions []int32, libraryValues []uintptr) (driver.LibraryHandle, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuLibraryLoadData"); r != ok {
		return 0, r
	}
	if image == nil {
		return 0, driver.ResultInvalidValue
	}
	return d.loadLibrary(image, options, values, libraryOptions, libraryValues)
}

// LibraryLoadFromFile is cuLibraryLoadFromFile. The results are those of an H200.
func (d *Driver) LibraryLoadFromFile(_ *driver.Thread, path string, options []uint32, values []uintptr,
	libraryOptions []int32, libraryValues []uintptr) (driver.LibraryHandle, driver.Result) {
	image, err := codeimage.Read(path)
	defer d.mu.Unlock()
	const name = "cuLibraryLoadFromFile"
	switch r := d.begin(name); {
	case r != ok:
		return 0, r
	case path == "":
		return 0, driver.ResultInvalidValue
	case errors.Is(err, fs.ErrNotExist):
		return 0, driver.ResultFileNotFound
	case lacksDescriptor(err):
		return 0, d.lacks(name, err, 0, driver.ResultOutOfMemory)
	case err != nil:
		return 0, driver.ResultOutOfMemory
	case len(image) == 0:
		return 0, driver.ResultInvalidImage
	}
	return d.loadLibrary(image, options, values, libraryOptions, libraryValues)
}

// loadLibrary loads a library.
func (d *Driver) loadLibrary(image []byte, options []uint32, values []uintptr, libraryOptions []int32,
	libraryValues []uintptr) (driver.LibraryHandle, driver.Result) {
	if len(options) != len(values) || len(libraryOptions) != len(libraryValues) || !compilable(options, values) ||
		slices.ContainsFunc(libraryOptions, func(o int32) bool { return o < 0 || o >= driver.CU_LIBRARY_NUM_OPTIONS }) {
		return 0, driver.ResultInvalidValue
	}
	l := &library{modules: make(map[*context]*module), code: make(map[*profile.GPU]*libraryCode)}
	var log driver.JITLog
	for _, v := range d.devices {
		if l.code[v.GPU] != nil {
			continue
		}
		text, problem := d.compile(image, v.GPU)
		its := &libraryCode{text: text}
		if problem == nil {
			problem = l.addKernels(d, v.GPU, its)
		}
		l.code[v.GPU] = its
		switch {
		case problem == nil:
		case problem.Result == driver.ResultOutOfMemory: // it may be loaded later
			return 0, problem.Result
		default:
			its.problem = problem.Result
			l.problem, log.Error = cmp.Or(l.problem, problem.Result), cmp.Or(log.Error, problem.Text)
		}
	}
	if len(l.kernels) > 0 || slices.ContainsFunc(d.devices, func(v *device) bool { return l.code[v.GPU].problem == ok }) {
		l.problem = ok // of some GPUs only
	}
	for _, k := range l.kernels {
		k.handle = driver.Kernel(d.objects.add(kernelKind, k))
	}
	if verbose(options, values) {
		var lines []string
		for _, k := range slices.Backward(l.kernels) {
			lines = append(lines, d.compiler(k.GPU()).Describe(k.Kernel, l.code[k.GPU()].attributes[k.Name], k.err))
		}
		log.Info = strings.Join(lines, "\n")
	}
	writeLog(options, values, log)
	l.handle = driver.LibraryHandle(d.objects.add(libraryKind, l))
	return l.handle, ok
}

// compilable reports whether the compiler's options are valid.
func compilable(options []uint32, values []uintptr) bool {
	for i, o := range options {
		switch {
		case o >= driver.CU_JIT_NUM_OPTIONS,
			o == driver.CU_JIT_INFO_LOG_BUFFER && !slices.Contains(options, driver.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES),
			o == driver.CU_JIT_ERROR_LOG_BUFFER && !slices.Contains(options, driver.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES),
			o == driver.CU_JIT_TARGET && (uint32(values[i]) < 30 || uint32(values[i]) > 130):
			return false
		}
	}
	return true
}

// verbose reports whether the compiler's options ask for a description of the kernels.
func verbose(options []uint32, values []uintptr) bool {
	i := slices.Index(options, driver.CU_JIT_LOG_VERBOSE)
	return i >= 0 && uint32(values[i]) != 0
}

// addKernels adds the kernels of the code for a GPU, in the order in which an H200 lists them, unless another GPU has
// added its own. Texts of several GPUs in one image have the same kernels.
func (l *library) addKernels(d *Driver, gpu *profile.GPU, its *libraryCode) *code.Problem {
	var kernels []*libraryKernel
	c := d.compiler(gpu)
	its.attributes = make(map[string]map[int32]int32)
	for i := range slices.Backward(its.text.Kernels) {
		k := &libraryKernel{Kernel: &its.text.Kernels[i], library: l, attributes: make(map[*device]map[int32]int32)}
		if its.attributes[k.Name], k.err = c.Attributes(k.Kernel); k.err != nil {
			if problem := c.Refuse(k.Kernel, k.err); problem != nil {
				return problem
			}
		}
		kernels = append(kernels, k)
	}
	if l.kernels == nil {
		l.kernels = kernels
	}
	return nil
}

// aboutLibrary begins a call with a library as an argument.
func (d *Driver) aboutLibrary(name string, h driver.LibraryHandle) (*library, driver.Result) {
	return about[library](d, name, libraryKind, uintptr(h))
}

// aboutKernel begins a call with a kernel of a library as an argument.
func (d *Driver) aboutKernel(name string, h driver.Kernel) (*libraryKernel, driver.Result) {
	return about[libraryKernel](d, name, kernelKind, uintptr(h))
}

// LibraryUnload is cuLibraryUnload. It waits for all work in the contexts where the library was used.
func (d *Driver) LibraryUnload(th *driver.Thread, h driver.LibraryHandle) driver.Result {
	const op = "cuLibraryUnload"
	defer d.mu.Unlock()
	l, r := d.aboutLibrary(op, h)
	if r != ok {
		return r
	}
	if r = d.forbidden(d.thread(th), nil); r != ok {
		return r
	}
	for _, m := range l.used() {
		if r := d.drain(op, uintptr(h), m.ctx); r == driver.ResultNotPermitted {
			return r
		}
	}
	if object, _ := d.objects.find(uintptr(h)); object != l {
		return driver.ResultInvalidHandle // another call has unloaded it
	}
	for _, m := range l.used() {
		m.freeVariables(d, op)
	}
	for _, b := range l.managed {
		b.freer = op
		d.space.remove(b)
	}
	for _, m := range l.modules {
		d.removeModule(m)
	}
	for _, k := range l.kernels {
		d.objects.remove(uintptr(k.handle))
	}
	d.objects.remove(uintptr(h))
	d.reclaim()
	return ok
}

// used returns the modules in contexts that exist.
func (l *library) used() (modules []*module) {
	for c, m := range l.modules {
		if !c.destroyed {
			modules = append(modules, m)
		}
	}
	return modules
}

// moduleOf returns the library's module of a context.
func (d *Driver) moduleOf(l *library, c *context) (*module, driver.Result) {
	if m := l.modules[c]; m != nil {
		return m, ok
	}
	its := l.code[c.dev.GPU]
	if its.problem != ok {
		return nil, its.problem
	}
	for other, m := range l.modules { // those of contexts that come and go would stay until the library is unloaded
		if other.destroyed {
			d.removeModule(m)
			delete(l.modules, other)
		}
	}
	m, problem := d.newModule(c, its.text, l)
	if problem != nil {
		return nil, problem.Result
	}
	l.modules[c] = m
	for _, k := range l.kernels {
		f := m.functions[k.Name]
		if f == nil { // the image has another text for this GPU
			continue
		}
		maps.Copy(f.Attributes, k.attributes[c.dev])
		f.Cache = k.caches[c.dev]
	}
	return m, ok
}

// inLibrary begins a call about a library in the current context.
func (d *Driver) inLibrary(name string, th *driver.Thread, h driver.LibraryHandle) (*module, driver.Result) {
	l, r := d.aboutLibrary(name, h)
	if r != ok {
		return nil, r
	}
	c := d.thread(th).current()
	if r = d.live(c); r != ok {
		return nil, r
	}
	return d.moduleOf(l, c)
}

// LibraryGetModule is cuLibraryGetModule.
func (d *Driver) LibraryGetModule(th *driver.Thread, h driver.LibraryHandle) (driver.Module, driver.Result) {
	defer d.mu.Unlock()
	m, r := d.inLibrary("cuLibraryGetModule", th, h)
	if r != ok {
		return 0, r
	}
	return m.handle, ok
}

// LibraryGetGlobal is cuLibraryGetGlobal.
func (d *Driver) LibraryGetGlobal(th *driver.Thread, h driver.LibraryHandle,
	name string) (driver.DevicePtr, uint64, driver.Result) {
	defer d.mu.Unlock()
	m, r := d.inLibrary("cuLibraryGetGlobal", th, h)
	if r != ok {
		return 0, 0, r
	}
	v, there := m.variables[name]
	switch {
	case !there && m.functions[name] != nil:
		return 0, 0, driver.ResultInvalidValue
	case !there:
		return 0, 0, driver.ResultNotFound
	}
	return driver.DevicePtr(v.addr()), v.size, ok
}

// LibraryGetKernel is cuLibraryGetKernel.
func (d *Driver) LibraryGetKernel(_ *driver.Thread, h driver.LibraryHandle,
	name string) (driver.Kernel, driver.Result) {
	defer d.mu.Unlock()
	l, r := d.aboutLibrary("cuLibraryGetKernel", h)
	if r != ok {
		return 0, r
	}
	if l.problem != ok {
		return 0, l.problem
	}
	for _, k := range l.kernels {
		if k.Name == name {
			return k.handle, ok
		}
	}
	return 0, driver.ResultNotFound
}

// LibraryGetKernelCount is cuLibraryGetKernelCount.
func (d *Driver) LibraryGetKernelCount(_ *driver.Thread, h driver.LibraryHandle) (uint32, driver.Result) {
	defer d.mu.Unlock()
	l, r := d.aboutLibrary("cuLibraryGetKernelCount", h)
	if r != ok {
		return 0, r
	}
	return uint32(len(l.kernels)), ok
}

// LibraryEnumerateKernels is cuLibraryEnumerateKernels.
func (d *Driver) LibraryEnumerateKernels(_ *driver.Thread, kernels []driver.Kernel,
	h driver.LibraryHandle) driver.Result {
	defer d.mu.Unlock()
	l, r := d.aboutLibrary("cuLibraryEnumerateKernels", h)
	if r != ok {
		return r
	}
	for i := range min(len(kernels), len(l.kernels)) {
		kernels[i] = l.kernels[i].handle
	}
	return ok
}

// KernelGetName is cuKernelGetName.
func (d *Driver) KernelGetName(_ *driver.Thread, h driver.Kernel) (string, driver.Result) {
	defer d.mu.Unlock()
	k, r := d.aboutKernel("cuKernelGetName", h)
	switch {
	case h == 0 && r == driver.ResultInvalidHandle:
		return "", driver.ResultInvalidValue
	case r != ok:
		return "", r
	}
	return k.Name, ok
}

// KernelGetLibrary is cuKernelGetLibrary.
func (d *Driver) KernelGetLibrary(_ *driver.Thread, h driver.Kernel) (driver.LibraryHandle, driver.Result) {
	defer d.mu.Unlock()
	k, r := d.aboutKernel("cuKernelGetLibrary", h)
	if r != ok {
		return 0, r
	}
	return k.library.handle, ok
}

// KernelGetFunction is cuKernelGetFunction.
func (d *Driver) KernelGetFunction(th *driver.Thread, h driver.Kernel) (driver.Function, driver.Result) {
	defer d.mu.Unlock()
	k, r := d.aboutKernel("cuKernelGetFunction", h)
	if r != ok {
		return 0, r
	}
	c := d.thread(th).current()
	if r = d.live(c); r != ok {
		return 0, r
	}
	f, r := d.functionOf(k, c)
	if r != ok {
		return 0, r
	}
	return d.functionHandle(f), ok
}

// functionOf returns a library's kernel in a context.
func (d *Driver) functionOf(k *libraryKernel, c *context) (*function, driver.Result) {
	m, r := d.moduleOf(k.library, c)
	if r != ok {
		return nil, r
	}
	if f := m.functions[k.Name]; f != nil {
		return f, ok
	}
	return nil, driver.ResultNotFound
}

// aboutFunctionOrKernel is aboutFunction for calls that also take the handle of a library's kernel.
func (d *Driver) aboutFunctionOrKernel(name string, th *driver.Thread, h driver.Function) (*function, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	c := d.thread(th).current()
	if c == nil {
		return nil, driver.ResultInvalidContext
	}
	k := d.kernelOf(h)
	if k == nil {
		return d.function(name, h)
	}
	if r := d.live(c); r != ok {
		return nil, r
	}
	return d.functionOf(k, c)
}

// ofLibrary returns the handle of the library's kernel that the function is in a context, or 0.
func (f *function) ofLibrary() driver.Kernel {
	if l := f.module.library; l != nil {
		for _, k := range l.kernels {
			if k.Name == f.Name {
				return k.handle
			}
		}
	}
	return 0
}

// kernelOf returns the library's kernel whose handle a program uses as that of a function, or nil.
func (d *Driver) kernelOf(h driver.Function) *libraryKernel {
	object, _ := d.objects.find(uintptr(h))
	k, _ := object.(*libraryKernel)
	return k
}

// KernelGetParamInfo is cuKernelGetParamInfo.
func (d *Driver) KernelGetParamInfo(th *driver.Thread, h driver.Kernel,
	i uint64) (offset, size uint64, r driver.Result) {
	defer d.mu.Unlock()
	const name = "cuKernelGetParamInfo"
	r = d.begin(name)
	if r == ok && h == 0 {
		r = driver.ResultInvalidValue
	}
	if r == ok {
		r = d.live(d.thread(th).current())
	}
	if r != ok {
		return 0, 0, r
	}
	k, r := find[libraryKernel](d, name, kernelKind, uintptr(h))
	if r != ok {
		return 0, 0, r
	}
	if i >= uint64(len(k.Params)) {
		return 0, 0, driver.ResultInvalidValue
	}
	return k.Params[i].Offset, k.Params[i].Size, ok
}

// onDevice begins a call about a kernel on a device, and returns the kernel's attributes there.
func (d *Driver) onDevice(name string, h driver.Kernel, dev driver.Device) (*libraryKernel, *device, map[int32]int32,
	driver.Result) {
	k, r := d.aboutKernel(name, h)
	if r != ok {
		return nil, nil, nil, r
	}
	v, r := d.device(dev)
	if r != ok {
		return nil, nil, nil, r
	}
	its := k.library.code[v.GPU]
	switch {
	case its.problem != ok:
		return nil, nil, nil, its.problem
	case its.attributes[k.Name] == nil:
		return nil, nil, nil, driver.ResultNotFound
	}
	attributes := maps.Clone(its.attributes[k.Name])
	maps.Copy(attributes, k.attributes[v])
	return k, v, attributes, ok
}

// KernelGetAttribute is cuKernelGetAttribute.
func (d *Driver) KernelGetAttribute(_ *driver.Thread, attribute int32, h driver.Kernel,
	dev driver.Device) (int32, driver.Result) {
	defer d.mu.Unlock()
	_, _, attributes, r := d.onDevice("cuKernelGetAttribute", h, dev)
	switch {
	case r != ok:
		return 0, r
	case attribute < 0 || attribute >= driver.CU_FUNC_ATTRIBUTE_MAX:
		return 0, driver.ResultInvalidValue
	}
	return attributes[attribute], ok
}

// KernelSetAttribute is cuKernelSetAttribute. It does not change what cuFuncSetAttribute has set.
func (d *Driver) KernelSetAttribute(_ *driver.Thread, attribute, value int32, h driver.Kernel,
	dev driver.Device) driver.Result {
	defer d.mu.Unlock()
	k, v, attributes, r := d.onDevice("cuKernelSetAttribute", h, dev)
	switch {
	case r != ok:
		return r
	case !code.Settable(v.GPU, attributes, attribute, value):
		return driver.ResultInvalidValue
	}
	if k.attributes[v] == nil {
		k.attributes[v] = make(map[int32]int32)
	}
	k.attributes[v][attribute] = value
	for c, m := range k.library.modules {
		if f := m.functions[k.Name]; c.dev == v && f != nil {
			f.SetUnlessOwn(attribute, value)
		}
	}
	return ok
}

// KernelSetCacheConfig is cuKernelSetCacheConfig. It also counts for the kernel's functions. Whether it
// overrides an earlier cuFuncSetCacheConfig is not known: here it does.
func (d *Driver) KernelSetCacheConfig(_ *driver.Thread, h driver.Kernel, config int32,
	dev driver.Device) driver.Result {
	defer d.mu.Unlock()
	k, v, _, r := d.onDevice("cuKernelSetCacheConfig", h, dev)
	switch {
	case r != ok:
		return r
	case config < 0 || config > driver.CU_FUNC_CACHE_PREFER_EQUAL:
		return driver.ResultInvalidValue
	}
	if k.caches == nil {
		k.caches = make(map[*device]int32)
	}
	k.caches[v] = config
	for c, m := range k.library.modules {
		if f := m.functions[k.Name]; c.dev == v && f != nil {
			f.Cache = config
		}
	}
	return ok
}

// LibraryGetUnifiedFunction is cuLibraryGetUnifiedFunction. No kernel in PTX is a unified function.
func (d *Driver) LibraryGetUnifiedFunction(_ *driver.Thread, h driver.LibraryHandle,
	_ string) (driver.HostPtr, driver.Result) {
	defer d.mu.Unlock()
	if _, r := d.aboutLibrary("cuLibraryGetUnifiedFunction", h); r != ok {
		return 0, r
	}
	return 0, driver.ResultInvalidValue
}

// LibraryGetManaged is cuLibraryGetManaged. As with an H200, the library need not have been used in a
// context if there is a current one.
func (d *Driver) LibraryGetManaged(th *driver.Thread, h driver.LibraryHandle,
	name string) (driver.DevicePtr, uint64, driver.Result) {
	defer d.mu.Unlock()
	l, r := d.aboutLibrary("cuLibraryGetManaged", h)
	if r == ok {
		r = l.problem
	}
	if r != ok {
		return 0, 0, r
	}
	if c := d.thread(th).current(); c != nil && !c.destroyed {
		if _, r = d.moduleOf(l, c); r != ok {
			return 0, 0, r
		}
	}
	b := l.managed[name]
	if b == nil || b.gone {
		return 0, 0, driver.ResultNotFound
	}
	return driver.DevicePtr(b.addr), b.size, ok
}
