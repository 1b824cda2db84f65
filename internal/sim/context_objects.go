package sim

// This file has the objects that end with their context. A program may still destroy them then, unless too many others
// have been left since.

// mostLeft is how many objects are kept whose contexts have ended: few programs destroy them.
const mostLeft = 1024

// context returns the context that the object at a place ends with, or nil.
func (p *place) context() *context {
	switch o := p.object.(type) {
	case *module:
		return o.ctx
	case *function:
		return o.module.ctx
	case *stream:
		return o.ctx
	case *event:
		return o.ctx
	case *externalMemory:
		return o.ctx
	case *importedSemaphore:
		return o.ctx
	case *cudaArray:
		return o.ctx
	case *imageObject:
		return o.ctx
	}
	return nil
}

// leaveObjects notes the objects of a context that has ended which a program may still destroy. If there are more than
// mostLeft, the oldest are removed. A library removes its modules itself.
func (d *Driver) leaveObjects(c *context) {
	t := &d.objects
	for i := range t.places {
		p := &t.places[i]
		if p.context() != c {
			continue
		}
		switch o := p.object.(type) {
		case *stream, *event, *cudaArray, *imageObject:
			t.left = append(t.left, p.handle(uint32(i)))
		case *module:
			if o.library == nil {
				t.left = append(t.left, p.handle(uint32(i)))
			}
		}
	}
	for ; len(t.left) > mostLeft; t.left = t.left[1:] {
		d.removeLeft(t.left[0])
	}
}

// removeLeft removes an object that the program has not destroyed since its context has ended.
func (d *Driver) removeLeft(h uintptr) {
	object, p := d.objects.find(h)
	switch o := object.(type) {
	case *stream, *cudaArray:
		d.objects.remove(h)
	case *imageObject:
		d.objects.removeImage(p.kind, o)
	case *event:
		d.removeEvent(o, h)
	case *module:
		d.removeModule(o)
	}
	p.destroyed = nil // no report about a call with the handle says that it was destroyed here
}
