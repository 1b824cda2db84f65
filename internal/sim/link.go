package sim

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/compile"
	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/sim/mem"
)

// link is a CUlinkState.
type link struct {
	mu        sync.Mutex // guards everything, and is locked before the driver
	destroyed bool

	syntax.Linker
	options []uint32
	values  []uintptr // of the program, which gets the lengths of the logs
	sizes   []uintptr // the values as they were
	verbose bool
	info    []string
	errors  []string
	broken  bool   // by texts that do not fit together
	image   []byte // after cuLinkComplete
}

// LinkCreate is cuLinkCreate_v2. As in C, the values are used until the linker is destroyed.
func (d *Driver) LinkCreate(th *driver.Thread, options []uint32, values []uintptr) (driver.LinkState, driver.Result) {
	defer d.mu.Unlock()
	_, _, r := d.inContext("cuLinkCreate", th)
	switch {
	case r != ok:
		return 0, r
	case len(options) != len(values), !compilable(options, values):
		return 0, driver.ResultInvalidValue
	}
	l := &link{options: slices.Clone(options), values: values, sizes: slices.Clone(values)}
	i := slices.Index(options, driver.CU_JIT_LOG_VERBOSE)
	l.verbose = i >= 0 && uint32(values[i]) != 0
	return driver.LinkState(d.objects.add(linkKind, l)), ok
}

// log writes the logs.
func (l *link) log() {
	values := slices.Clone(l.sizes)
	writeLog(l.options, values, driver.JITLog{Info: strings.Join(l.info, "\n"), Error: strings.Join(l.errors, "\n")})
	for i, o := range l.options {
		if o == driver.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES || o == driver.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES {
			l.values[i] = values[i]
		}
	}
}

// aboutLink begins a call with a linker as an argument.
func (d *Driver) aboutLink(op string, h driver.LinkState) (*link, driver.Result) {
	if r := d.begin(op); r != ok {
		return nil, r
	}
	return find[link](d, op, linkKind, uintptr(h))
}

// alone calls f, which may take long, while no other call uses the linker. The driver is locked, but not
// meanwhile.
func (l *link) alone(d *Driver, f func() driver.Result) driver.Result {
	d.mu.Unlock()
	defer d.mu.Lock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.destroyed {
		return driver.ResultInvalidHandle
	}
	return f()
}

// LinkAddData is cuLinkAddData_v2.
func (d *Driver) LinkAddData(_ *driver.Thread, h driver.LinkState, typ int32, data []byte, name string,
	options []uint32, values []uintptr) driver.Result {
	defer d.mu.Unlock()
	l, r := d.aboutLink("cuLinkAddData", h)
	if r != ok {
		return r
	}
	return l.alone(d, func() driver.Result { return l.add(d, typ, data, name, options, values) })
}

// LinkAddFile is cuLinkAddFile_v2.
func (d *Driver) LinkAddFile(_ *driver.Thread, h driver.LinkState, typ int32, path string, options []uint32,
	values []uintptr) driver.Result {
	data, err := os.ReadFile(path)
	defer d.mu.Unlock()
	const name = "cuLinkAddFile"
	l, r := d.aboutLink(name, h)
	switch {
	case r != ok:
		return r
	case errors.Is(err, fs.ErrNotExist):
		return driver.ResultFileNotFound
	case lacksDescriptor(err):
		return d.lacks(name, err, 0, driver.ResultOutOfMemory)
	case err != nil:
		return driver.ResultInvalidValue
	}
	return l.alone(d, func() driver.Result { return l.add(d, typ, data, path, options, values) })
}

// add adds an input. One that is not understood is left out.
func (l *link) add(d *Driver, typ int32, data []byte, name string, options []uint32, values []uintptr) driver.Result {
	switch {
	case l.image != nil, typ < 0, typ >= driver.CU_JIT_NUM_INPUT_TYPES, len(data) == 0,
		len(options) != len(values), !compilable(options, values):
		return driver.ResultInvalidValue
	case l.broken:
		return driver.ResultInvalidSource
	}
	defer l.log()
	if typ != driver.CU_JIT_INPUT_PTX && typ != driver.CU_JIT_INPUT_FATBINARY {
		l.errors = append(l.errors, "cusim: fatal: '"+name+"' is code for a GPU, which cannot be linked without one: "+
			"link PTX, or a fatbin with PTX")
		return driver.ResultNoBinaryForGPU
	}
	text, message, r := textOf(data)
	if r != ok {
		l.errors = append(l.errors, message)
		return r
	}
	// What another text defines is not known yet: complete looks at the functions.
	if _, problem := parsePTX(text, d.version); problem != nil {
		l.errors = append(l.errors, problem.text)
		return problem.code
	}
	messages, err := l.Add(name, string(text))
	for _, m := range messages {
		l.errors = append(l.errors, "error   : "+m)
	}
	if l.broken = err != nil || len(messages) > 0; l.broken {
		return driver.ResultInvalidSource
	}
	return ok
}

// LinkComplete is cuLinkComplete. The image is a PTX text, which lives as long as the linker.
func (d *Driver) LinkComplete(_ *driver.Thread, h driver.LinkState) (driver.HostPtr, uint64, driver.Result) {
	defer d.mu.Unlock()
	l, r := d.aboutLink("cuLinkComplete", h)
	if r == ok {
		r = l.alone(d, func() driver.Result { return l.complete(d) })
	}
	if r != ok {
		return 0, 0, r
	}
	return driver.HostPtr(mem.AddressOf(l.image)), uint64(len(l.image)), ok
}

// complete links the inputs.
func (l *link) complete(d *Driver) driver.Result {
	switch {
	case l.image != nil:
		return driver.ResultInvalidHandle
	case l.broken:
		return driver.ResultInvalidSource
	}
	defer l.log()
	text, messages := l.Link(compile.System)
	for _, m := range messages {
		l.errors = append(l.errors, "error   : "+m)
	}
	if l.broken = len(messages) > 0; l.broken {
		return driver.ResultInvalidSource
	}
	if problem := l.check(d, []byte(text)); problem != nil {
		l.broken, l.errors = true, append(l.errors, problem.text)
		return problem.code
	}
	l.image = mem.NewBytes(uint64(len(text)) + 1)
	copy(l.image, text)
	return ok
}

// check translates the kernels of the linked text. Kernels call functions of other inputs, so that they
// cannot be translated before.
func (l *link) check(d *Driver, text []byte) *ptxError {
	code, problem := parsePTX(text, d.version)
	if problem != nil {
		return problem
	}
	if problem := d.translate(code); problem != nil {
		return problem
	}
	for i := range code.entries {
		e := &code.entries[i]
		attributes := code.attributes(e)
		c := code.kernels[e.name]
		if c == nil {
			c = new(compiled)
			c.kernel, c.err = code.text.Kernel(e.name)
		}
		if c.err == nil {
			setShared(attributes, c.kernel)
		} else if problem := d.unexecutable(e, c.err); problem != nil {
			return problem
		}
		if l.verbose {
			l.info = append(l.info, d.resources(e.name, attributes, e.idle, c.err))
		}
	}
	return nil
}

// LinkDestroy is cuLinkDestroy. It waits for other calls with the linker, which write to its logs.
func (d *Driver) LinkDestroy(_ *driver.Thread, h driver.LinkState) driver.Result {
	defer d.mu.Unlock()
	l, r := d.aboutLink("cuLinkDestroy", h)
	if r != ok {
		return r
	}
	d.objects.remove(uintptr(h))
	return l.alone(d, func() driver.Result {
		l.destroyed = true
		return ok
	})
}
