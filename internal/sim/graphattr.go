package sim

import (
	"encoding/binary"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/code"
	"github.com/purecu/purecu/internal/sim/graph"
)

// nodeAttributes are the attributes that a kernel node has. The values are those of a node without
// the attribute.
var nodeAttributes = kernelAttributes{
	driver.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:                 {},
	driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE:                          {},
	driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:                    {},
	driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: {},
	driver.CU_LAUNCH_ATTRIBUTE_PRIORITY:                             {},
	driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:                  {1: 1},
	driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:                      {},
	driver.CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:         {},
	driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:     {},
}

// differ reports whether an attribute was set to another value. As on an H200, 1 and 2 differ, although both mean yes.
func (a kernelAttributes) differ(b kernelAttributes, id int32) bool { return a[id] != b[id] }

// options returns the options of launches with these attributes.
func (a kernelAttributes) options() (o launchOptions) {
	v := a[driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE]
	o.Cooperative = binary.LittleEndian.Uint32(v[:]) != 0
	v = a[driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION]
	o.Cluster = Dim3{binary.LittleEndian.Uint32(v[:]), binary.LittleEndian.Uint32(v[4:]),
		binary.LittleEndian.Uint32(v[8:])}
	return o
}

// attributes returns the attributes of the node of a launch on a stream, whose own attributes count
// where the launch has none.
func (o *launchOptions) attributes(s *stream) kernelAttributes {
	if s.capture == nil {
		return nil
	}
	all := make(kernelAttributes)
	// A captured launch spreads its clusters, and added nodes leave it to the driver.
	all[driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE] = driver.LaunchAttributeValue{driver.CU_CLUSTER_SCHEDULING_POLICY_SPREAD}
	for id := range nodeAttributes {
		if v, r := s.attribute(id); r == ok {
			all[id] = v
		}
	}
	for _, a := range o.list {
		if _, has := nodeAttributes[a.ID]; has {
			all[a.ID] = a.Value
		}
	}
	if o.Cooperative { // also by cuLaunchCooperativeKernel
		all[driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE] = driver.LaunchAttributeValue{1}
	}
	return all
}

// takeAttributes gives the attributes of the work of a node to new work that replaces it.
func takeAttributes(w, old graph.Work) driver.Result {
	k, is := w.(*kernelWork)
	if !is {
		return ok
	}
	k.attributes = old.(*kernelWork).attributes
	o := k.attributes.options()
	if (!o.Cooperative && o.Cluster == Dim3{}) {
		return ok
	}
	return k.fits(o)
}

// kernelAttributesOf returns the attributes of the work of a node, if it is a kernel.
func kernelAttributesOf(w graph.Work) kernelAttributes {
	if k, is := w.(*kernelWork); is {
		return k.attributes
	}
	return nil
}

// fits checks the kernel of a node with these options.
func (w *kernelWork) fits(o launchOptions) driver.Result {
	l := code.LaunchShape{Grid: w.launch.Grid, Block: w.launch.Block, Shared: w.launch.SharedMem, Options: o.Options}
	if r := w.kernel.FitsClusters(l); r != ok {
		return r
	}
	return w.kernel.FitsTogether(l)
}

// GraphKernelNodeSetAttribute is cuGraphKernelNodeSetAttribute.
func (d *Driver) GraphKernelNodeSetAttribute(_ *driver.Thread, h driver.GraphNode, id int32,
	v *driver.LaunchAttributeValue) driver.Result {
	const name = "cuGraphKernelNodeSetAttribute"
	defer d.mu.Unlock()
	n, r := d.nodeOf(name, h, graph.KernelNode)
	if r != ok {
		return r
	}
	_, has := nodeAttributes[id]
	updatable := id == driver.CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE
	switch {
	case v == nil, !has && id != driver.CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return driver.ResultInvalidValue
	case updatable && binary.LittleEndian.Uint32(v[:]) == 1: // not supported
		return driver.ResultNotSupported
	case updatable && binary.LittleEndian.Uint32(v[:]) != 0:
		return driver.ResultInvalidValue
	case updatable:
		return ok
	}
	if d.lost != ok {
		return d.lost
	}
	var o launchOptions
	dev, attribute := n.Work.(*kernelWork).context().dev, driver.LaunchAttribute{ID: id, Value: *v}
	if r := d.launchAttribute(name, dev, nil, &attribute, &o); r != ok {
		return r
	}
	w := *n.Work.(*kernelWork)
	w.attributes = w.attributes.with(id, *v)
	if id == driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE || id == driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION {
		if r := w.fits(w.attributes.options()); r != ok {
			return r
		}
	}
	n.Work = &w
	return ok
}

// GraphKernelNodeGetAttribute is cuGraphKernelNodeGetAttribute.
func (d *Driver) GraphKernelNodeGetAttribute(_ *driver.Thread, h driver.GraphNode,
	id int32) (driver.LaunchAttributeValue, driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphKernelNodeGetAttribute", h, graph.KernelNode)
	if r != ok {
		return driver.LaunchAttributeValue{}, r
	}
	v, has := nodeAttributes[id]
	if !has {
		return v, driver.ResultInvalidValue
	}
	if set, is := kernelAttributesOf(n.Work)[id]; is {
		v = set
	}
	if id == driver.CU_LAUNCH_ATTRIBUTE_PRIORITY {
		binary.LittleEndian.PutUint32(v[:], uint32(inRange(int32(binary.LittleEndian.Uint32(v[:])))))
	}
	return v, ok
}

// GraphKernelNodeCopyAttributes is cuGraphKernelNodeCopyAttributes.
func (d *Driver) GraphKernelNodeCopyAttributes(_ *driver.Thread, dst, src driver.GraphNode) driver.Result {
	const name = "cuGraphKernelNodeCopyAttributes"
	defer d.mu.Unlock()
	to, r := d.nodeOf(name, dst, graph.KernelNode)
	if r != ok {
		return r
	}
	object, _ := d.objects.find(uintptr(src))
	from, is := object.(*graph.Node)
	if !is || from.Work.Type() != graph.KernelNode || d.lost != ok {
		return driver.ResultInvalidValue
	}
	w := *to.Work.(*kernelWork)
	if takeAttributes(&w, from.Work) != ok {
		return driver.ResultInvalidValue
	}
	to.Work = &w
	return ok
}
