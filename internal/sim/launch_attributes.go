package sim

import (
	"encoding/binary"
	"math"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/code"
)

// launchOptions are the options of a launch from its attributes.
type launchOptions struct {
	code.Options
	events       []*event // recorded after the kernel
	list         []driver.LaunchAttribute
	programmatic bool // the kernel may begin before the one before it on the stream is done
}

// launchAttributes evaluates the attributes of a launch. If one occurs twice, the later one counts.
// Most are only checked: they say how a GPU should run the kernel, which does not change the
// result.
func (d *Driver) launchAttributes(name string, s *stream, c *driver.LaunchConfig, o *launchOptions) driver.Result {
	list, r := attributesOf(c)
	for _, a := range list {
		if r == ok {
			r = d.launchAttribute(name, s.ctx.dev, s, &a, o)
		}
	}
	o.list = list
	return r
}

// launchAttribute evaluates an attribute. s is nil if it is not that of a launch. That an older device than an H200
// lacks an attribute is unverified.
func (d *Driver) launchAttribute(name string, v *device, s *stream, a *driver.LaunchAttribute,
	o *launchOptions) driver.Result {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(a.Value[4*i:]) }
	valid := true
	if !v.Clusters && newAttribute(a.ID) {
		return driver.ResultNotSupported
	}
	switch a.ID {
	case driver.CU_LAUNCH_ATTRIBUTE_IGNORE, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case driver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		o.programmatic = word(0) != 0
	case driver.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: // a CUaccessPolicyWindow
		size, ratio, hit, miss := binary.LittleEndian.Uint64(a.Value[8:]), math.Float32frombits(word(4)), word(5), word(6)
		most := uint64(v.Memory.Window)
		valid = size <= most && ratio >= 0 && ratio <= 1 &&
			hit <= driver.CU_ACCESS_PROPERTY_PERSISTING && miss < driver.CU_ACCESS_PROPERTY_PERSISTING
	case driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		o.Cooperative = word(0) != 0
	case driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		o.Cluster = Dim3{word(0), word(1), word(2)}
		return o.Cluster.OfBlocks()
	case driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
		o.Preferred = Dim3{word(0), word(1), word(2)}
		return o.Preferred.OfBlocks()
	case driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		valid = word(0) <= driver.CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING
	case driver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, driver.CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		return d.launchEvent(name, s, driver.Event(binary.LittleEndian.Uint64(a.Value[:])), word(2), o)
	case driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		domains := byte(v.Domains)
		valid = a.Value[0] < domains && a.Value[1] < domains
	case driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, driver.CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		valid = word(0) <= 1
	case driver.CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: // not supported, as kernels here cannot update nodes
		if s.capture == nil || word(0) == 1 {
			return driver.ResultNotSupported
		}
		valid = word(0) == 0
	case driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		valid = word(0) <= 100 // percent
	default: // also attributes for streams only
		valid = false
	}
	if !valid {
		return driver.ResultInvalidValue
	}
	return ok
}

// launchEvent adds an event that a launch records when all blocks have begun, or have triggered it.
// In this model it is recorded after the kernel, which is never too early.
func (d *Driver) launchEvent(name string, s *stream, h driver.Event, flags uint32, o *launchOptions) driver.Result {
	if h == 0 {
		return driver.ResultInvalidHandle
	}
	e, r := d.event(name, h)
	switch {
	case r != ok:
		return r
	case flags&^uint32(driver.CU_EVENT_RECORD_EXTERNAL) != 0:
		return driver.ResultInvalidValue
	case flags == driver.CU_EVENT_RECORD_EXTERNAL && s.capture == nil:
		return driver.ResultIllegalState
	case e.flags&driver.CU_EVENT_INTERPROCESS != 0 && s.capture != nil:
		return driver.ResultStreamCaptureUnsupported // the capture stays valid
	case flags == driver.CU_EVENT_RECORD_EXTERNAL,
		e.flags&(driver.CU_EVENT_DISABLE_TIMING|driver.CU_EVENT_INTERPROCESS) != driver.CU_EVENT_DISABLE_TIMING:
		return driver.ResultNotSupported
	case e.ctx != s.ctx:
		return driver.ResultInvalidHandle
	}
	o.events = append(o.events, e)
	return ok
}

// newAttribute reports whether only devices that have clusters have an attribute.
func newAttribute(id int32) bool {
	switch id {
	case driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
		driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
		driver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, driver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		return true
	}
	return false
}
