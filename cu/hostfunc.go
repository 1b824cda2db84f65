package cu

import "github.com/purecu/purecu/internal/hostfunc"
import "github.com/purecu/purecu/internal/drivercall"

// HostFunc makes the stream call f (cuLaunchHostFunc, CUDA 10.0). It returns when the call is
// enqueued. f runs on its own goroutine, after all work that was enqueued before. Work that is
// enqueued later waits until f returns, or ends its goroutine. A panic in f ends the program, as in
// any goroutine. It waits while the stream's queue is full: see docs/blocking.md.
//
// # Calls from f
//
// f may call this package: queries, records, launches, and everything else that returns at once. A
// call that waits for the stream, or for work enqueued after f, waits for f, and therefore never
// returns: [Stream.Synchronize], [Stream.Wait] and [Event.Wait] on such work,
// [Context.Synchronize], and calls that wait for all work in the context, as Close of memory, of a
// module and of the last Context does. It is best if f sends on a channel that has room, and
// another goroutine does the work.
//
// An H200's driver calls the functions of all streams of a context one after the other. A function
// that takes long delays the others, and a function that waits for another may never return. A C
// function that other code enqueues runs on the driver's thread. There, calls that create, allocate,
// free or launch something, or use the current context, return [ResultNotPermitted].
//
// On Linux and Windows, package cusim's driver refuses each wait that would never end, with an error
// that matches [ResultNotPermitted], also a wait whose context.Context has a deadline. It refuses
// waits of functions for each other, too. A Close that is refused has closed the object, which is
// destroyed later. [Timeline.Wait] is never refused, because any goroutine may raise the counter, nor
// is [WaitAny] while one event comes from elsewhere. [Driver.Close] and allocations leave what is in
// use.
//
// # When f is not called
//
// After an error that poisons the context, no function is called: f is dropped when a call reports
// the error, or when the context is released. Closing the stream drops no function.
//
// # Captures
//
// If the stream is being captured, f becomes part of the graph, which keeps f and calls it whenever
// the graph runs: see graph.HostFunc. If other code captures the stream, for which each call
// queries the driver, f is kept as long as the context.
func (s *Stream) HostFunc(f func()) error {
	if s.core() == nil {
		return drivercall.NilError(hostfunc.Op, "stream")
	}
	if f == nil {
		return drivercall.About(s.core(), hostfunc.NilError(hostfunc.Op))
	}
	sc, err := s.enter(hostfunc.Op)
	if err != nil {
		return err
	}
	defer s.leave()
	return hostfunc.Enqueue(sc, f)
}
