// Package cu gives Go programs CUDA events, streams and contexts without cgo.
//
// [Open] finds and loads NVIDIA's driver library at run time; nothing is loaded before. A program
// that contains this package builds and starts on machines without a GPU and without a driver.
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
// # Where to begin
//
//   - The driver, devices, contexts: [Open], [Driver.Device], [Device.PrimaryContext]. [Driver.Features]
//     says what the driver has.
//   - Order and time: [Stream], [Event], [LazyEvent], [EventPool], [Elapsed], [WaitAll]. A [Ticket] stands
//     for one record, a [Timeline] for a counter.
//   - Memory: [AllocFor], [CopyFrom], [CopyTo], [Context.Alloc], [Context.AllocHost], [Stream.Alloc].
//     Calls take a [Memory]: an allocation, or a [Span].
//   - Code: [Module], library.Library, [Function.Launch] with arguments such as [Ptr], [LaunchAttribute].
//   - Other processes: [IPCEventHandle], and memory.IPCHandle of package cu/memory.
//   - Tools: [Driver.DetectRaces], [Driver.Stats], [WithLeakHook], [Error].
//
// Packages in the folder of this one have further subjects, and use the objects of this one:
//
//   - cu/graph: graphs of work, captured from streams or built node by node;
//   - cu/library: code for all contexts, and linking;
//   - cu/memory: pools, managed memory, memory that grows in place, memory of other processes and other code;
//   - cu/interop: memory and semaphores of other APIs, such as Vulkan;
//   - cu/green: a part of a GPU's multiprocessors for some streams;
//   - cu/checkpoint: other processes are taken off their GPUs, and put back;
//   - cu/trace: functions that are called for each operation.
//
// # Safety
//
// No sequence of calls through this package crashes the process, or makes the driver use a handle
// that was destroyed. Every object counts the calls that are in flight on it. It is destroyed when
// it is closed and the last of these calls has returned. Close may be called twice, concurrently
// with any call, and for parents and children in any order. The garbage collector closes objects
// that are never closed. Calls on a closed object return [ErrClosed].
//
// Some uses are excluded from this guarantee:
//
//   - functions that are called through a [Proc];
//   - launches with arguments that do not fit the kernel, on drivers before CUDA 12.4, which do not
//     report a kernel's parameters;
//   - kernels that write outside their memory;
//   - corrupt binary images, and PTX with a mistake: see [Context.LoadModule];
//   - handles of other processes' events or memory that were changed in transit;
//   - contexts that other code in the process resets or destroys (cuDevicePrimaryCtxReset,
//     cudaDeviceReset);
//   - an object's handle that other code destroys, and memory of memory.Wrap that other code
//     frees while it is in use.
//
// # Results
//
// NOT_READY is not an error. Queries return a [Status]: [Pending] or [Complete]. Every other result
// of the driver except success is an [*Error], which matches its [Result] with errors.Is. A [Proc]
// returns the result itself. After some errors no call in the process succeeds any more:
// [NeedsRestart] recognizes them.
//
// # Waiting
//
// Some functions of the driver wait for the GPU, and block calls of other goroutines meanwhile,
// even calls that only enqueue work. docs/blocking.md lists the methods that call such a function,
// and their documentation says so. The library never calls one in the background. Memory, modules
// and green contexts that were abandoned, or closed while they were in use, are freed by the
// program's next freeing call, such as [Context.Synchronize]. docs/blocking.md lists these calls.
// [Driver.Stats] counts the objects, and [Driver.Close] frees them.
//
// # Concurrency
//
// All methods are safe for concurrent use. A goroutine needs no runtime.LockOSThread, because calls
// do not depend on the operating system thread. The exceptions are [Driver.CurrentContext], calls
// of a [Proc], and, in a function that [Context.Do] runs, the methods of its [Thread] and the
// stream that [Thread.DefaultStream] returns. graph.Capture and Context.Do lock the goroutine to
// its thread meanwhile. No call changes a thread's current context, except Context.Do while its
// function runs.
package cu

//go:generate go run -C ../tools ./gen-blocking -root ..
