// Package guest initialises the host's own glibc inside a static Go program, loads libraries with
// it, and calls their functions.
//
// The program itself has no libc, no interpreter and no dynamic section. This package does at run
// time, once, the work that the kernel and the C runtime do before a C program's main. It maps the
// host's dynamic loader, and writes a main program for the loader into memory. Then a thread that
// Go's runtime does not know begins in the loader, like a new process.
// docs/design/static-program.md explains how and why. An overview:
//
//   - find.go finds the loader;
//   - image.go maps the loader, and writes the main program and its first stack;
//   - boot.go tries this in a child process, because a loader that fails ends its process, and then
//     does it in this process;
//   - identity.go creates the glibc threads whose thread-local storage and stacks the calls use;
//   - the assembly files contain all code that runs as C.
//
// # Identities
//
// C code finds its thread-local storage, and with it CUDA's current context, through the thread
// pointer. So each Go thread that calls C has an identity: a glibc thread that only waits.
//
// On amd64 the Go thread uses the identity's thread pointer from its first call to its end. Go
// keeps g in the eight bytes below the thread pointer. In glibc these bytes belong to the
// thread-local variables of the main program, so the main program in memory reserves them.
//
// On arm64 Go's signal handlers would look for g in a register that C uses for other values. So all
// signals are blocked during a direct call, and the thread pointer is set only for the call.
//
// A direct call runs on the Go thread, on the identity's stack. A worker call runs on the
// identity's thread, with the same thread-local storage, while the Go thread waits. All signals are
// blocked there, unless C unblocks them.
//
// No C function may call back into Go, as Go's runtime cannot run on a thread that it does not
// know.
package guest
