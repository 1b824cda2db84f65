package sim

// This file has the objects that end with their context. A program may still destroy them then.

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
	}
	return nil
}

// leave notes the objects of a context that has ended. The first of too many are removed.
func (t *objects) leave(c *context) {
	for i := range t.places {
		if p := &t.places[i]; p.context() == c {
			t.left = append(t.left, p.handle(uint32(i)))
		}
	}
	for ; len(t.left) > mostLeft; t.left = t.left[1:] {
		if _, p := t.find(t.left[0]); p != nil && p.context() != nil && p.context().destroyed {
			t.remove(t.left[0])
		}
	}
}
