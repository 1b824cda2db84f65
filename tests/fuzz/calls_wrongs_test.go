package fuzz

import (
	"github.com/purecu/purecu/driver"
)

// moreWrongCalls are drivers with a fault each, in functions of events, captures, launches, contexts and pools.
var moreWrongCalls = map[string]wrongDriver{
	"rows of words":                        {"copies", func(s soft) any { return wrongRows{s} }},
	"a copy to the host":                   {"copies", func(s soft) any { return wrongHost{s} }},
	"a capture that begins at the root":    {"captures", func(s soft) any { return wrongBegin{s} }},
	"dependencies that are always added":   {"captures", func(s soft) any { return wrongDependencies{s} }},
	"a function of the host, called twice": {"eventnodes", func(s soft) any { return wrongTwice{s} }},
	"the event of a node":                  {"eventnodes", func(s soft) any { return wrongNodeEvent{s} }},
	"a cluster of any size":                {"launches", func(s soft) any { return wrongCluster{s} }},
	"the size of a managed variable":       {"launches", func(s soft) any { return wrongManaged{s} }},
	"the pool of a device":                 {"devicepools", func(s soft) any { return wrongPool{s} }},
	"parts of the multiprocessors":         {"green", func(s soft) any { return wrongSplit{s} }},
	"references of a graph":                {"objects", func(s soft) any { return wrongReferences{s} }},
}

type wrongRows struct{ Software driver.Software }

func (w wrongRows) MemsetD2D32Async(th *driver.Thread, p driver.DevicePtr, pitch uint64, v uint32, width, height uint64,
	s driver.Stream) driver.Result {
	return w.Software.MemsetD2D32Async(th, p, pitch, v&0xffff, width, height, s)
}

type wrongHost struct{ Software driver.Software }

func (w wrongHost) MemcpyDtoHAsync(th *driver.Thread, to driver.HostPtr, from driver.DevicePtr, n uint64,
	s driver.Stream) driver.Result {
	return w.Software.MemcpyDtoHAsync(th, to, from, n&^3, s)
}

type wrongBegin struct{ Software driver.Software }

func (w wrongBegin) StreamBeginCaptureToGraph(th *driver.Thread, s driver.Stream, g driver.Graph,
	_ []driver.GraphNode, _ []driver.GraphEdgeData, mode int32) driver.Result {
	return w.Software.StreamBeginCaptureToGraph(th, s, g, nil, nil, mode)
}

type wrongDependencies struct{ Software driver.Software }

func (w wrongDependencies) StreamUpdateCaptureDependencies(th *driver.Thread, s driver.Stream,
	list []driver.GraphNode, flags uint32) driver.Result {
	return w.Software.StreamUpdateCaptureDependencies(th, s, list, flags&^1)
}

type wrongTwice struct{ Software driver.Software }

func (w wrongTwice) GraphAddHostNode(th *driver.Thread, g driver.Graph, after []driver.GraphNode,
	f driver.Callback) (driver.GraphNode, driver.Result) {
	once := f.Go
	f.Go = func() { once(); once() }
	return w.Software.GraphAddHostNode(th, g, after, f)
}

type wrongNodeEvent struct{ Software driver.Software }

func (w wrongNodeEvent) GraphEventWaitNodeSetEvent(*driver.Thread, driver.GraphNode, driver.Event) driver.Result {
	return ok
}

type wrongCluster struct{ Software driver.Software }

func (w wrongCluster) LaunchKernelEx(th *driver.Thread, l *driver.LaunchConfig, f driver.Function,
	p driver.KernelParams) driver.Result {
	plain := *l
	plain.Attributes, plain.Count = nil, 0
	return w.Software.LaunchKernelEx(th, &plain, f, p)
}

type wrongManaged struct{ Software driver.Software }

func (w wrongManaged) LibraryGetManaged(th *driver.Thread, l driver.LibraryHandle, name string) (driver.DevicePtr,
	uint64, driver.Result) {
	p, n, r := w.Software.LibraryGetManaged(th, l, name)
	return p, n / 2, r
}

type wrongPool struct{ Software driver.Software }

func (w wrongPool) MemSetMemPool(*driver.Thread, driver.MemLocation, int32, driver.MemoryPool) driver.Result {
	return ok
}

type wrongSplit struct{ Software driver.Software }

func (w wrongSplit) DevSmResourceSplitByCount(th *driver.Thread, result []driver.DevResource, input driver.DevResource,
	flags, least uint32) (uint32, driver.DevResource, driver.Result) {
	return w.Software.DevSmResourceSplitByCount(th, result, input, flags&^1, least)
}

type wrongReferences struct{ Software driver.Software }

func (w wrongReferences) GraphRetainUserObject(th *driver.Thread, g driver.Graph, o driver.UserObject, n,
	flags uint32) driver.Result {
	return w.Software.GraphRetainUserObject(th, g, o, min(n, 1), flags)
}
