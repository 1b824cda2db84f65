package cu

import "github.com/purecu/purecu/driver"

// This file sets the work and the attributes of kernel nodes.

// setAttribute sets an attribute of the node.
func (c *nodeCall) setAttribute(id int32, v *driver.LaunchAttributeValue) driver.Result {
	c.op = "cuGraphKernelNodeSetAttribute"
	return c.gc.ctx.drv.table().GraphKernelNodeSetAttribute(c.at(), c.node, id, v)
}

// setAttributes sets the attributes of the node that it has from now on.
func (c *nodeCall) setAttributes() driver.Result {
	list := c.attrs.of(false)
	for i := range list {
		if res := c.setAttribute(list[i].ID, &list[i].Value); res != driver.ResultSuccess {
			return res
		}
	}
	if c.cooperative != c.use.cooperative {
		return c.setAttribute(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperativeValue(c.cooperative))
	}
	return driver.ResultSuccess
}

// resetAttributes removes the attributes that the node does not have any more, and those that the new
// configuration may contradict: the driver compares each with the other.
func (c *nodeCall) resetAttributes() driver.Result {
	list := c.use.attrs.of(false)
	for i := range list {
		if res := c.setAttribute(list[i].ID, unset(list[i].ID)); res != driver.ResultSuccess {
			return res
		}
	}
	if c.use.cooperative && !c.cooperative {
		return c.setAttribute(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperativeValue(false))
	}
	return driver.ResultSuccess
}

// setFlags says whether the node has to launch its kernel cooperatively, and with which attributes.
func (c *nodeCall) setFlags(cooperative bool, attrs *LaunchAttributes) error {
	c.cooperative = cooperative
	switch {
	case attrs != nil && attrs.onlyLaunches != "":
		return invalid(c.op, "a node of a graph cannot have "+attrs.onlyLaunches+": capture a launch with it instead")
	case c.xc == nil:
		c.attrs = attrs
		return nil
	case cooperative != c.use.cooperative:
		return invalid(c.op, "an executable graph cannot change whether a node launches its kernel cooperatively: "+
			"change the node of the graph, and call Update")
	case attrs != nil && !attrs.equal(c.use.attrs):
		return invalid(c.op, "an executable graph cannot change the attributes of a node: leave Attributes nil to "+
			"keep them, or change the node of the graph, and instantiate it again")
	}
	c.attrs = c.use.attrs // the node keeps its own
	return nil
}

// setKernel calls the driver for a kernel node of a graph. The attributes that the node had are reset
// before the configuration changes, and new ones are set afterwards, so that neither contradicts the
// other on the way. If the configuration is refused, the old attributes are set again. If a new
// attribute is refused, the node has the new kernel without it.
func (c *nodeCall) setKernel() (res driver.Result) {
	op, t := c.op, c.gc.ctx.drv.table()
	if res = c.resetAttributes(); res != driver.ResultSuccess {
		c.restoreAttributes()
		return res
	}
	c.op = op
	res = t.GraphKernelNodeSetParams(c.at(), c.node, &c.kernel)
	if t.Missing(res) != nil { // before CUDA 12.0
		res = t.GraphKernelNodeSetParamsV1(c.at(), c.node, &c.kernel)
	}
	if c.done = happened(res); !c.done {
		c.restoreAttributes()
		c.op = op
		return res
	}
	if res == driver.ResultSuccess {
		res = c.setAttributes()
	}
	if res == driver.ResultSuccess {
		c.op = op
		return res
	}
	c.withoutAttributes("the node has the new kernel and arguments, but no attributes")
	return res
}

// withoutAttributes removes the attributes that a call has set before it failed. It leaves the node as
// partly says.
func (c *nodeCall) withoutAttributes(partly string) {
	failed := c.op
	c.partly, c.attrs, c.cooperative, c.use.attrs, c.use.cooperative = partly, nil, false, c.attrs, c.cooperative
	c.resetAttributes()
	c.op = failed
}

// restoreAttributes sets the attributes that the node had.
func (c *nodeCall) restoreAttributes() {
	list := c.use.attrs.of(false)
	for i := range list {
		c.setAttribute(list[i].ID, &list[i].Value)
	}
	if c.use.cooperative && !c.cooperative {
		c.setAttribute(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperativeValue(true))
	}
}
