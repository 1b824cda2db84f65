// Command libcuda is the software driver as a shared library in C, libcuda.so.1,
// for programs that are not written in Go, and for tests of what loads a library.
//
//	go run github.com/purecu/purecu/cusim/libcuda/build -o DIR
//
// writes DIR/libcuda.so.1 and DIR/libcusim.so, which belong together. It has to be run
// in purecu's own module, or in one whose go.mod requires purecu. It takes a C compiler,
// and Linux on amd64 or arm64 with glibc. A program finds them through
// LD_LIBRARY_PATH, or by the path. Functions that the driver does not have are there
// and return CUDA_ERROR_NOT_SUPPORTED (801); with -list, build says which ones. A variable,
// cusim_simulated, tells the library from NVIDIA's.
//
// libcuda.so.1 is a thin layer of C. It loads libcusim.so, the driver with its Go
// runtime, at the first cuInit, so that a process may load it, ask it for its version
// and for functions, and fork. As with NVIDIA's driver, a child of a process that has
// called cuInit cannot use it: its calls return CUDA_ERROR_NOT_INITIALIZED (3).
//
// The environment says what the driver is like. It is read by the first cuInit, also
// what the process has set itself by then; but for the version, which is read when it is
// first asked for, and CUSIM_REPORT, which is read at the end.
//
//	CUSIM_DEVICES         the number of devices; 1 if it is not set. With 0, cuInit
//	                      returns CUDA_ERROR_NO_DEVICE (100).
//	CUSIM_DRIVER_VERSION  the version of CUDA, as 12.8 or 12080; 13.0 if it is not set.
//	                      Newer functions return CUDA_ERROR_NOT_SUPPORTED.
//	CUSIM_FAULTS          calls that fail, separated by commas: FUNCTION[@N][+]=CODE,
//	                      the Nth call, the first if that is not said; with + all after
//	                      it too. FUNCTION[@N][+]~TIME makes it take its time, as in
//	                      cuStreamSynchronize~5ms. * stands for all functions. A name
//	                      stands for all versions of the function; one that the driver
//	                      does not have, or that cannot fail, is refused.
//	CUSIM_FAULT_RATE      P=CODE or FUNCTION:P=CODE: calls fail with the probability P.
//	CUSIM_SEED            a number that decides which ones; 1 if it is not set.
//	CUSIM_UNKNOWN_KERNELS with refuse, launches of kernels that the driver does not know
//	                      return CUDA_ERROR_NOT_SUPPORTED (801). If it is not set they
//	                      do nothing. Each kernel is named once on standard error.
//	CUSIM_REPORT          if it is set, what was misused, and what was not given back,
//	                      is written to standard error when the process ends.
//
// If one of these cannot be understood, cuInit says so on standard error and returns
// CUDA_ERROR_UNKNOWN (999).
//
// Some functions are made of others here, whose faults they meet too, and which * counts
// in their place: cuMemcpy of cuMemcpyHtoD, cuModuleLoad of cuModuleLoadData, those of
// a thread's own stream such as cuMemsetD8_v2_ptds of cuMemsetD8Async. cuMemcpyAsync from
// host to host waits for the stream before it copies, and in a capture it returns
// CUDA_ERROR_NOT_SUPPORTED.
//
// Functions that streams call on the host run on threads of the driver, on which most
// signals are blocked. In them calls are answered as an H100 answers them: queries, records
// and waits as elsewhere, and CUDA_ERROR_NOT_PERMITTED (800) for what makes, allocates,
// frees or launches something, or uses the current context.
//
// Handlers of signals that the program installs after cuInit need the flag SA_ONSTACK, as Go code may be what they
// interrupt. The handlers of SIGSEGV, SIGBUS and SIGFPE are the library's from then on; it passes on what is not
// its own.
package main

//go:generate go run -C ../../tools ./gen-symbols library -manifest gen-symbols/manifest/cuda-13.0.tsv -calls gen-symbols/calls.tsv -libcuda gen-symbols/libcuda.tsv -root ..

// The library has no main function; the command that Go builds without cgo has
// nothing to do.
func main() {}
