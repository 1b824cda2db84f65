package sim

import (
	"encoding/binary"
	"maps"
	"math"

	"github.com/purecu/purecu/driver"
)

// streamAttributes are the attributes that a stream has, with their values at first. The priority is
// that of the stream.
var streamAttributes = kernelAttributes{
	driver.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:   {},
	driver.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: {0xff, 0xff, 0xff, 0xff}, // as an H200 says before it is set
	driver.CU_LAUNCH_ATTRIBUTE_PRIORITY:               {},
	driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:    {}, // {1: 1} if there is more than one domain
	driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:        {},
}

// inRange returns the priority that a stream or node has after this one was set.
func inRange(priority int32) int32 { return min(max(priority, greatestPriority), leastPriority) }

// attribute returns an attribute of the stream.
func (s *stream) attribute(id int32) (driver.LaunchAttributeValue, driver.Result) {
	v, has := streamAttributes[id]
	if !has {
		return v, driver.ResultInvalidValue
	}
	if set, is := s.attributes[id]; is {
		v = set
	} else if id == driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP {
		v[1] = byte(min(s.ctx.dev.Domains-1, 1))
	}
	if id == driver.CU_LAUNCH_ATTRIBUTE_PRIORITY {
		binary.LittleEndian.PutUint32(v[:], uint32(s.priority))
	}
	return v, ok
}

// setAttribute sets an attribute of the stream.
func (s *stream) setAttribute(id int32, v driver.LaunchAttributeValue) driver.Result {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(v[4*i:]) }
	valid := true
	switch id {
	case driver.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: // hit and miss are checked less than for a launch
		size, ratio := binary.LittleEndian.Uint64(v[8:]), math.Float32frombits(word(4))
		valid = size <= uint64(s.ctx.dev.Memory.Window) &&
			ratio >= 0 && ratio <= 1 && word(6) != driver.CU_ACCESS_PROPERTY_PERSISTING
	case driver.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		valid = word(0) >= driver.CU_SYNC_POLICY_AUTO && word(0) <= driver.CU_SYNC_POLICY_BLOCKING_SYNC
	case driver.CU_LAUNCH_ATTRIBUTE_PRIORITY:
		s.priority = inRange(int32(word(0)))
		return ok
	case driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		domains := byte(s.ctx.dev.Domains)
		valid = v[0] < domains && v[1] < domains
	case driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		valid = word(0) <= driver.CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE
	default:
		valid = false
	}
	if !valid {
		return driver.ResultInvalidValue
	}
	s.attributes = s.attributes.with(id, v)
	return ok
}

// StreamGetAttribute is cuStreamGetAttribute.
func (d *Driver) StreamGetAttribute(th *driver.Thread, h driver.Stream,
	id int32) (driver.LaunchAttributeValue, driver.Result) {
	defer d.mu.Unlock()
	s, _, r := d.onValidStream("cuStreamGetAttribute", th, h)
	if r != ok {
		return driver.LaunchAttributeValue{}, r
	}
	return s.attribute(id)
}

// StreamSetAttribute is cuStreamSetAttribute. It changes no work that is enqueued.
func (d *Driver) StreamSetAttribute(th *driver.Thread, h driver.Stream, id int32,
	v driver.LaunchAttributeValue) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onValidStream("cuStreamSetAttribute", th, h)
	if r != ok {
		return r
	}
	return s.setAttribute(id, v)
}

// StreamCopyAttributes is cuStreamCopyAttributes. The streams must be of one context.
func (d *Driver) StreamCopyAttributes(th *driver.Thread, dst, src driver.Stream) driver.Result {
	const name = "cuStreamCopyAttributes"
	defer d.mu.Unlock()
	to, t, r := d.onValidStream(name, th, dst)
	if r != ok {
		return r
	}
	from, r := d.streamForWork(name, t, src)
	if r == ok {
		r = from.captureValid()
	}
	switch {
	case r != ok:
		return r
	case from.ctx != to.ctx:
		return driver.ResultInvalidValue
	}
	to.attributes, to.priority = maps.Clone(from.attributes), from.priority
	return ok
}

// CtxResetPersistingL2Cache is cuCtxResetPersistingL2Cache. There is no cache.
func (d *Driver) CtxResetPersistingL2Cache(th *driver.Thread) driver.Result {
	defer d.mu.Unlock()
	_, _, r := d.inContext("cuCtxResetPersistingL2Cache", th)
	return r
}

// with returns the attributes with one more.
func (a kernelAttributes) with(id int32, v driver.LaunchAttributeValue) kernelAttributes {
	all := maps.Clone(a)
	if all == nil {
		all = make(kernelAttributes)
	}
	all[id] = v
	return all
}
