package sim

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/internal/sim/code"
	"github.com/purecu/purecu/internal/sim/mem"
)

// link is a CUlinkState.
type link struct {
	mu        sync.Mutex // guards everything, and is locked before the driver
	destroyed bool

	code.Linker
	gpu     *profile.GPU // of the context in which it was made
	options []uint32
	values  []uintptr // of the program, which gets the lengths of the logs
	sizes   []uintptr // the values as they were
}

// LinkCreate is cuLinkCreate_v2. As in C, the values are used until the linker is destroyed.
func (d *Driver) LinkCreate(th *driver.Thread, options []uint32, values []uintptr) (driver.LinkState, driver.Result) {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuLinkCreate", th)
	switch {
	case r != ok:
		return 0, r
	case len(options) != len(values), !compilable(options, values):
		return 0, driver.ResultInvalidValue
	}
	l := &link{gpu: c.dev.GPU, options: slices.Clone(options), values: values, sizes: slices.Clone(values)}
	l.Verbose, l.Log = verbose(options, values), l.log
	return driver.LinkState(d.objects.add(linkKind, l)), ok
}

// log writes the logs.
func (l *link) log(info, errors string) {
	values := slices.Clone(l.sizes)
	writeLog(l.options, values, driver.JITLog{Info: info, Error: errors})
	for i, o := range l.options {
		if o == driver.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES || o == driver.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES {
			l.values[i] = values[i]
		}
	}
}

// aboutLink begins a call with a linker as an argument.
func (d *Driver) aboutLink(name string, h driver.LinkState) (*link, driver.Result) {
	return about[link](d, name, linkKind, uintptr(h))
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
	return d.addInput(l, typ, data, name, options, values)
}

// addInput adds an input to a linker.
func (d *Driver) addInput(l *link, typ int32, data []byte, name string, options []uint32,
	values []uintptr) driver.Result {
	c := d.compiler(l.gpu)
	return l.alone(d, func() driver.Result {
		if len(options) != len(values) || !compilable(options, values) {
			return driver.ResultInvalidValue
		}
		return l.Add(c, typ, data, name)
	})
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
	return d.addInput(l, typ, data, path, options, values)
}

// LinkComplete is cuLinkComplete. The image is a PTX text, which lives as long as the linker.
func (d *Driver) LinkComplete(_ *driver.Thread, h driver.LinkState) (driver.HostPtr, uint64, driver.Result) {
	defer d.mu.Unlock()
	l, r := d.aboutLink("cuLinkComplete", h)
	var image []byte
	if r == ok {
		c := d.compiler(l.gpu)
		r = l.alone(d, func() (r driver.Result) {
			image, r = l.Complete(c)
			return r
		})
	}
	if r != ok {
		return 0, 0, r
	}
	return driver.HostPtr(mem.AddressOf(image)), uint64(len(image)), ok
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
