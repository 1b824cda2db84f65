// Package guest brings the host's own glibc up inside a static Go program, and calls
// C functions that it loads.
//
// The program itself has no libc, no interpreter and no dynamic section. What the kernel
// and the C runtime do before a C program's main is done here at run time, once: the
// host's dynamic loader is mapped, a main program is invented for it in memory, and a
// thread of which Go's runtime knows nothing begins in the loader as a new process would.
// docs/design/static-program.md explains how, and why this is right. An overview:
//
//   - find.go finds the loader;
//   - image.go maps it, and writes the invented program and the stack it begins with;
//   - boot.go tries that in a child process, since a loader that is not satisfied ends
//     its process, and then does it here;
//   - identity.go has the threads of glibc's whose thread-local storage and stacks calls
//     are made with;
//   - the assembly files hold everything that runs as C.
//
// # Identities
//
// C code finds its thread-local storage, and with it CUDA's current context, through the
// thread pointer. So each of Go's threads that calls C has a thread of glibc's beside it,
// its identity, which does nothing but wait. On amd64 the thread takes the identity's
// thread pointer over at its first call, for good: Go keeps its g in the eight bytes below the thread
// pointer, which glibc gives to the main program's thread-local variables, and the
// invented program claims them. On arm64 Go's signal handlers would look for g in a register that C uses for
// other things, so that all signals are blocked during a direct call, and the thread
// pointer is set for as long as it lasts.
//
// A direct call runs on Go's thread, on the identity's stack. A worker call has the
// identity's own thread make the call, with the same thread-local storage, while the
// caller waits. All signals are blocked there, unless C lets them through.
//
// No C function may call back into Go: there is no way to enter the runtime on a thread
// that it does not know.
package guest
