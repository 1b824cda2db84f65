// Command libcuda is the software driver as a shared library, libcuda.so.1, and its NVML as another one,
// libnvidia-ml.so.1. It is for programs that are not written in Go, and for tests of code that loads the
// libraries.
//
//	go run github.com/purecu/purecu/cusim/libcuda/build [-version 12.4] -o DIR
//
// writes DIR/libcuda.so.1, DIR/libnvidia-ml.so.1 and DIR/libcusim.so, which belong together. It has to be
// run in purecu's own module, or in a module whose go.mod requires purecu. It needs a C compiler, and Linux on
// amd64 or arm64 with glibc. A program finds the libraries through LD_LIBRARY_PATH, or by their
// path. Functions that the driver does not have return CUDA_ERROR_NOT_SUPPORTED (801). The first
// function of a process that returns this is named on standard error. build -list lists the
// functions. The library exports a variable, cusim_simulated, which NVIDIA's library does not have.
//
// libcuda.so.1 is written in C. It loads libcusim.so, the driver with its Go runtime, at the first cuInit, or at the
// first call that checkpoints another process, which needs no cuInit. So before this a process may load the library,
// ask for its version and its functions, and fork. A child of a process that has made such a call cannot use the
// driver, as with NVIDIA's driver after cuInit: its calls return CUDA_ERROR_NOT_INITIALIZED (3).
//
// If the process may have too few threads, file descriptors or too little memory, cuInit says so on
// standard error, and returns CUDA_ERROR_OPERATING_SYSTEM (304) or CUDA_ERROR_OUT_OF_MEMORY (2). The
// limits may be raised, and cuInit called again. It needs ten threads, and 1.4 GiB of addresses.
//
// The library exports what NVIDIA's library of CUDA 13.0 exports, or that of the version that build
// was told.
//
// libnvidia-ml.so.1 is written in C, too. It loads libcuda.so.1 at the first nvmlInit, which starts the driver
// if cuInit has not. A process has one driver: NVML shows the memory and the work of CUDA in this process. A
// child of a process that has called nvmlInit can use neither CUDA nor NVML. nvmlInternalGetExportTable, which
// nvidia-smi needs, returns a table of functions that all return NVML_ERROR_NOT_SUPPORTED (3).
//
// Environment variables configure the driver. The first cuInit or nvmlInit reads them, including changes that
// the process itself has made. The version is read when it is first needed. As with NVIDIA's
// library, CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are read by each cuInit until one succeeds.
//
//	CUDA_VISIBLE_DEVICES  the devices that the process sees: see cusim.VisibleDevices.
//	CUDA_DEVICE_ORDER     PCI_BUS_ID or FASTEST_FIRST, which are the same here; with any
//	                      other value cuInit returns CUDA_ERROR_INVALID_DEVICE (101).
//	CUSIM_DEVICES         the number of devices; 1 if it is not set. With 0, cuInit
//	                      returns CUDA_ERROR_NO_DEVICE (100).
//	CUSIM_PROFILE         in place of CUSIM_DEVICES the GPUs that the devices are, as in
//	                      A100:2,T4: see cusim.Profile.
//	CUSIM_DRIVER_VERSION  the version of CUDA, as 12.8 or 12080; if it is not set, that
//	                      which the library was built for, which is also the newest.
//	                      Newer functions return CUDA_ERROR_NOT_SUPPORTED. dlsym finds
//	                      them all the same, and newer interfaces of a function, such as
//	                      cuEventElapsedTime_v2, work, as programs take them where they
//	                      are. In a library that was built for the version they are not.
//	CUSIM_FAULTS          calls that fail, separated by commas: FUNCTION[@N][+]=CODE,
//	                      the Nth call, the first if that is not said; with + all after
//	                      it too. FUNCTION[@N][+]~TIME makes it take its time, as in
//	                      cuStreamSynchronize~5ms. FUNCTION is one of CUDA or NVML, or *
//	                      for all of CUDA. A name stands for all versions of the function;
//	                      one that the driver does not have, or that cannot fail, is
//	                      refused.
//	CUSIM_FAULT_RATE      P=CODE or FUNCTION:P=CODE: calls fail with the probability P.
//	CUSIM_GPU_FAULTS      faults of GPUs that NVML reports, as in 0:xid=79@5s,1:lost: see
//	                      docs/testing.md.
//	CUSIM_MACHINE         a folder that processes share: NVML in each of them shows the
//	                      memory, the processes and the utilization of all. It keeps
//	                      what NVML has set.
//	CUSIM_NVLINKS         the number of NVLinks of each GPU that NVML shows, up to 18.
//	CUSIM_SEED            a number that decides which ones; 1 if it is not set. If it is
//	                      set, it also decides in which order the warps and blocks of a
//	                      kernel have their turns, which may find a race, and find it
//	                      again. Kernels take longer then.
//	CUSIM_UNKNOWN_KERNELS refuse, which is what this library does anyway: launches of
//	                      kernels whose PTX the driver does not know return
//	                      CUDA_ERROR_NOT_SUPPORTED (801). Each kernel is named once on
//	                      standard error. Invalid PTX is not loaded (218).
//	CUSIM_CHECK           mistakes of kernels that are looked for: memory, races,
//	                      barriers, several of them with commas, or all. Each one is
//	                      written to standard error.
//	CUSIM_TRACE_THREAD    a thread, as in kernel:1,0,0:31,0,0 for a block and a thread of
//	                      it: each instruction of PTX that it executes is written to
//	                      standard error, or to the end of the file whose name follows
//	                      behind another colon.
//	CUSIM_KERNEL_LIMIT    how long a kernel in PTX may be executed, as in 10s. The result
//	                      of one that takes longer is CUDA_ERROR_LAUNCH_TIMEOUT (702).
//	CUSIM_REPORT          with 1, the misuses and the objects that are still open are
//	                      written to standard error when the process ends.
//
// If one of these cannot be understood, or there is another variable that begins with CUSIM_, cuInit
// says so on standard error and returns CUDA_ERROR_UNKNOWN (999).
//
// Some functions call other functions of the driver: cuModuleLoad calls cuModuleLoadData, and
// functions of the per-thread default stream, such as cuMemsetD8_v2_ptds, call cuMemsetD8Async.
// Faults of the other function affect them as well, and * counts only the other function.
//
// Host functions run on threads of the driver, on which most signals are blocked. Calls in them
// return the results of an H100: queries, records and waits work, and calls that create, allocate,
// free or launch, or use the current context, return CUDA_ERROR_NOT_PERMITTED (800).
//
// Signal handlers that the program installs after cuInit need the flag SA_ONSTACK, as they may
// interrupt Go code. After cuInit the library handles SIGSEGV, SIGBUS and SIGFPE. It forwards
// signals that do not concern it.
package main

//go:generate go run -C ../../tools ./gen-symbols library -manifest gen-symbols/manifest/cuda-13.0.tsv -additions gen-symbols/manifest/cudaProfiler-13.0.tsv,gen-symbols/manifest/cuda-13.4-unverified.tsv -classes gen-symbols/classes.txt -measured ../tests/gpu/blocking.tsv -calls gen-symbols/calls.tsv -libcuda gen-symbols/libcuda.tsv -sim ../internal/sim -root ..

// main does nothing. The library does not call it, and a build without cgo has no other function.
func main() {}
