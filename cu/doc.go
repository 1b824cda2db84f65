// Package cu gives Go programs CUDA events, streams and contexts without cgo.
//
// The driver library is found and loaded when [Open] is called; nothing
// happens before, and a program that contains this package builds and starts
// on machines that have neither a GPU nor a driver.
//
//	drv, err := cu.Open()
//	dev, err := drv.Device(0)
//	gpu, err := dev.PrimaryContext()
//	s, err := gpu.NewStream(cu.StreamNonBlocking)
//	start, err := gpu.NewEvent(cu.EventDefault)
//	stop, err := gpu.NewEvent(cu.EventDefault)
//	err = start.Record(s)
//	// … work on s …
//	err = stop.Record(s)
//	d, err := cu.Elapsed(ctx, start, stop)
//
// # What cannot happen
//
// No sequence of calls through this package crashes the process, or makes the
// driver touch a handle that was destroyed: every object counts the calls that are in flight on it,
// and is destroyed when it is closed and the last of them has returned. Close
// may be called twice, concurrently with anything, in any order of parents and
// children, or never: what the garbage collector finds is closed. A closed
// object answers [ErrClosed].
//
// Outside of this promise are functions called through a [Proc]; launches with
// arguments that do not fit, on drivers before CUDA 12.4, which cannot tell a
// kernel's parameters; kernels that write where they should not; binary images
// that are corrupt; handles of other processes' events that were altered on the
// way; and contexts that somebody else in the process resets or
// destroys (cuDevicePrimaryCtxReset, cudaDeviceReset).
//
// NOT_READY is not an error. Queries answer with a [Status], [Pending] or
// [Complete]. Every other result of the driver that is not success is an
// [*Error], which matches its [Result] with errors.Is. A [Proc] returns the result itself.
//
// After some errors no call succeeds in the process any more: [NeedsRestart] tells them.
//
// # What waits
//
// Some calls of the driver wait for the GPU, and hold up calls of other goroutines meanwhile, also those that only
// enqueue work: docs/blocking.md lists the methods that make such calls, and their documentation says so. The
// library makes none of its own accord. What was forgotten, or closed while it was in use, and takes such a call to
// be freed (memory, modules, green contexts, contexts) is freed by the next one that the program makes:
// [Driver.Stats] counts what is left, and [Driver.Close] frees it.
//
// # Concurrency
//
// All methods are safe for concurrent use, and a goroutine needs no
// runtime.LockOSThread: calls do not depend on the operating system thread that they
// run on. The exceptions are about threads: [Driver.CurrentContext], calls of a [Proc], and,
// in a function that [Context.Do] runs, the methods of its [Thread] and the stream that
// [Thread.DefaultStream] returns. [Stream.Capture] and Context.Do keep the goroutine on
// its thread meanwhile. No call changes a thread's current context, but Context.Do while its
// function runs.
package cu

//go:generate go run -C ../tools ./gen-blocking -root ..
