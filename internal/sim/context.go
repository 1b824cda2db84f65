package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// forgetImport removes external memory that is destroyed.
func (c *context) forgetImport(m *externalMemory) {
	c.imported = slices.DeleteFunc(c.imported, func(other *externalMemory) bool { return other == m })
}

// live returns ok if a context can be used.
func (d *Driver) live(c *context) driver.Result {
	switch {
	case c == nil:
		return driver.ResultInvalidContext
	case c.destroyed:
		return driver.ResultContextIsDestroyed
	}
	return d.lost
}

// inContext begins a call that needs a current context.
func (d *Driver) inContext(name string, th *driver.Thread) (*context, *thread, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, nil, r
	}
	t := d.thread(th)
	c := t.current()
	return c, t, d.live(c)
}

// of returns ok if an object of a context can be used.
func (d *Driver) of(name string, c *context, h uintptr, k kind) driver.Result {
	if c.destroyed {
		d.misuse(name, h, "the "+k.String()+"'s context was destroyed", nil)
		if k == eventKind && c.primary && c.dev.active() { // another context has its handle, as on an H200
			return driver.ResultInvalidContext
		}
		return driver.ResultContextIsDestroyed
	}
	return d.lost
}

// active reports whether the device has a primary context.
func (v *device) active() bool { return v.primary != nil && !v.primary.leaving }

// aboutContext begins a call with a context as an argument.
func (d *Driver) aboutContext(name string, ctx driver.Context) (*context, driver.Result) {
	return about[context](d, name, contextKind, uintptr(ctx))
}

// aboutNamed begins a call whose argument is a context or a green context.
func (d *Driver) aboutNamed(name string, ctx driver.Context) (namedContext, driver.Result) {
	c, r := (*context)(nil), d.begin(name)
	if r != ok {
		return namedContext{}, r
	}
	if object, _ := d.objects.find(uintptr(ctx)); object != nil {
		if g, is := object.(*greenContext); is && g.asked {
			return namedContext{g.ctx, g}, ok
		}
	}
	c, r = find[context](d, name, contextKind, uintptr(ctx))
	return namedContext{context: c}, r
}

// nodeContext returns the context of a node: nil stands for that of the memory.
func (d *Driver) nodeContext(name string, h driver.Context) (*context, driver.Result) {
	if h == 0 {
		return nil, ok
	}
	c, r := find[context](d, name, contextKind, uintptr(h))
	if r != ok {
		return nil, r
	}
	return c, d.live(c)
}
