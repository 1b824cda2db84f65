//go:build linux && !cu_static

package main

import (
	"errors"
	"runtime"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/interop"
)

// testAbandoned abandons two semaphores, and a graph whose nodes signal one and wait for it, while a
// stream that is held has to use them. Calls on another stream return meanwhile.
func testAbandoned(s *shared) {
	sem, in := s.timeline()
	first, ofGraph := s.timeline()
	second, ofStream := s.timeline()
	other, err := s.gpu.NewStream(cu.StreamNonBlocking)
	s.ok(err)
	e, err := s.gpu.NewEvent(0)
	s.ok(err)
	g, err := graph.New(s.gpu)
	s.ok(err)
	signal, err := g.Add(&graph.ExternalSignal{Ops: []cu.ExternalOp{ofGraph.At(1)}})
	s.ok(err)
	_, err = g.Add(&graph.ExternalWait{Ops: []cu.ExternalOp{ofGraph.At(1)}}, signal)
	s.ok(err)
	x, err := g.Instantiate()
	s.ok(err)
	s.ok(errors.Join(x.Launch(other), other.Synchronize())) // a first launch may wait
	s.ok(errors.Join(interop.Wait(s.stream, in.At(1)), x.Launch(s.stream), interop.Signal(s.stream, ofStream.At(1))))
	g, x, signal, ofGraph, ofStream = nil, nil, graph.Node{}, nil, nil

	drv := s.gpu.Device().Driver()
	deferred := func(some bool) {
		s.Helper()
		for end := time.Now().Add(time.Minute); drv.Stats().DeferredObjects > 0 != some; runtime.GC() {
			if !some {
				s.ok(s.gpu.Synchronize()) // which frees them
			}
			if time.Now().After(end) {
				s.Fatalf("%d objects are deferred", drv.Stats().DeferredObjects)
			}
		}
	}
	deferred(true)
	var m *cu.DeviceMem
	done := make(chan error, 1)
	go func() {
		var err error
		if m, err = s.gpu.Alloc(64); err == nil {
			err = errors.Join(other.Memset(m, 1), e.Record(other), other.Synchronize())
		}
		done <- err
	}()
	select {
	case err := <-done:
		s.ok(err)
		s.pending()
	case <-time.After(5 * time.Second):
		s.Error("calls on another stream are held up")
		s.signal(sem, 1)
		s.ok(<-done)
	}
	s.signal(sem, 1)
	s.ok(s.stream.Synchronize())
	deferred(false)
	s.counter(first, 1)
	s.counter(second, 1)
	s.ok(errors.Join(m.Close(), e.Close(), other.Close(), in.Close()))
	for _, sem := range []*semaphore{sem, first, second} {
		sem.close()
	}
	s.ok(s.vulkan.close())
}
