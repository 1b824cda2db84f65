package cu

import "github.com/purecu/purecu/driver"

// StartProfile tells the profiling tool that observes the program to collect from now on
// (cuProfilerStart). Such a tool is Nsight Systems with the option --capture-range=cudaProfilerApi.
// Without a tool the call does nothing.
//
// Calls do not nest: a further StartProfile does nothing, and one StopProfile ends the collection.
// The calls are not ordered with work that streams have not done: call [Context.Synchronize] before
// StopProfile. Both fail, and invalidate the capture, while the calling thread captures in another
// mode than graph.CaptureRelaxed, or other code captures in global mode: see docs/captures.md.
// StartProfile may wait for the GPU: see docs/blocking.md.
func (c *Context) StartProfile() error {
	return c.profile("cuProfilerStart", (*driver.Table).ProfilerStart)
}

// StopProfile tells the profiling tool to collect no more (cuProfilerStop). It fails during captures
// as [Context.StartProfile] does, and may wait for the GPU: see docs/blocking.md.
func (c *Context) StopProfile() error {
	return c.profile("cuProfilerStop", (*driver.Table).ProfilerStop)
}

func (c *Context) profile(op string, call func(*driver.Table, driver.At) driver.Result) error {
	_, err := askContext(c, op, func(t *driver.Table, at driver.At) (struct{}, driver.Result) {
		return struct{}{}, call(t, at)
	})
	return err
}
