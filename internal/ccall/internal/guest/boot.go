//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A Guest is the glibc of this process. A process can have only one, because its thread-local
// storage, its heap and its list of libraries belong to the process.
type Guest struct {
	// Loader is the path of the dynamic loader.
	Loader string

	im   *image
	boot *identity // the thread that began in the loader: it creates the others

	signals goSignals

	creds credentials // of the boot thread, and therefore of all identities

	mu         sync.Mutex             // guards calls on the boot thread, and the fields below
	envList    []string               // the environment at the last syncEnv
	env        map[string]string      // the environment of glibc
	identities map[*identity]struct{} // keeps the identities whose addresses C has from being collected
	sweepAt    int                    // the number of identities from which on sweep works
}

// process is the state of this process.
var process struct {
	guest atomic.Pointer[Guest] // nil until glibc is initialised

	mu  sync.Mutex
	err error // the error of an initialisation that cannot be tried again
}

// Start returns the process's glibc. The first call initialises it, which takes about two
// milliseconds. The error matches [ErrNoGlibc] or [ErrGlibcFailed]. A later call tries again,
// unless the initialisation had begun in this process.
func Start() (*Guest, error) {
	if g := process.guest.Load(); g != nil {
		return g, nil
	}
	process.mu.Lock()
	defer process.mu.Unlock()
	if g := process.guest.Load(); g != nil {
		return g, nil
	}
	if process.err != nil {
		return nil, process.err
	}
	g, late, err := start()
	if err != nil {
		if !errors.Is(err, ErrNoGlibc) {
			err = fmt.Errorf("%w: %w", ErrGlibcFailed, err)
		}
		if late {
			process.err = err
		}
		return nil, err
	}
	process.guest.Store(g)
	// Create a first identity, to find out whether the system can create threads. glibc installs a
	// handler for signal 33 when it creates the first one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer g.signals.restore()
	if err := g.bindHere(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGlibcFailed, err)
	}
	return g, nil
}

// The steps that are waited for take about a millisecond.
const (
	bootLimit = 10 * time.Second
	bootPause = 20 * time.Microsecond
)

// libraries are the libraries that the main program needs. Since glibc 2.34 the first one contains
// all functions.
var libraries = []string{"libc.so.6", "libpthread.so.0", "libdl.so.2"}

// start initialises glibc. late says that the error cannot be followed by another try.
func start() (g *Guest, late bool, err error) {
	if err := checkG(); err != nil {
		return nil, false, err
	}
	aux, err := readAuxv()
	if err != nil {
		return nil, false, err
	}
	name, file, err := chooseLoader(aux.get(atSecure) != 0)
	if err != nil {
		return nil, false, err
	}
	needed := libraries
	if bytes.Contains(file.content, []byte("GLIBC_2.34")) { // the loader is part of the same glibc
		needed = needed[:1]
	}
	return bootWith(name, file, needed, aux)
}

// chooseLoader finds and reads the loader. A program with more rights than its caller uses only the
// fixed names.
func chooseLoader(elevated bool) (name string, f *elfFile, err error) {
	if elevated {
		return findLoader(loaderNames, muslLoader)
	}
	if name := os.Getenv(Env); name != "" {
		f, err := readLoader(name)
		if err != nil {
			return "", nil, fmt.Errorf("%s names %s: %w", Env, name, err)
		}
		return name, f, nil
	}
	return findLoader(loaders(), muslLoader)
}

// rejection is the error if the loader has ended the child process.
type rejection struct {
	how   string
	cause error // the error of a system call of the loader, or nil
}

// Error returns how the child has ended, and its output.
func (r rejection) Error() string { return "the loader has ended with an error: " + r.how }

// Unwrap returns the error of the loader's system call, or nil.
func (r rejection) Unwrap() error { return r.cause }

// refused returns the error of a system call from the loader's message, or nil. The loader has no
// error numbers for its caller, only texts.
func refused(said string) error {
	_, said, _ = strings.Cut(said, ": error while loading shared libraries: ") // warnings may come before this text
	if i := strings.LastIndex(said, ": Error "); i >= 0 {
		if n, err := strconv.Atoi(strings.TrimSpace(said[i+len(": Error "):])); err == nil && n > 0 {
			return syscall.Errno(n)
		}
	}
	for _, it := range []struct {
		text string
		is   syscall.Errno
	}{
		{"peration not permitted", syscall.EPERM}, {"ermission denied", syscall.EACCES}, {"oo many open files", syscall.EMFILE},
		{"annot allocate memory", syscall.ENOMEM}, {"out of memory", syscall.ENOMEM},
		{"ailed to map segment", syscall.ENOMEM}, // older loaders do not add the reason
	} {
		if strings.Contains(said, it.text) {
			return it.is
		}
	}
	return nil
}

func bootWith(name string, file *elfFile, needed []string, aux auxv) (g *Guest, late bool, err error) {
	l, err := mapLoader(name, file)
	if err != nil {
		return nil, false, err
	}
	im, err := newImage(name, needed, hooks())
	if err != nil {
		munmap(l.base, l.size)
		return nil, false, err
	}
	sigactionAt = im.fnAt(fnSigaction)
	env := withoutRseq(environment())
	st, err := newStack(os.Args, env, aux.forProgram(im, l, uintptr(bootMainABI0)))
	if err == nil {
		if err = try(l, st); err != nil {
			err = fmt.Errorf("%s does not start: %w", name, err)
		}
	}
	if err != nil {
		munmap(l.base, l.size)
		munmap(im.base, imageSize)
		munmap(st.base, st.size)
		return nil, false, err
	}

	g = &Guest{Loader: name, im: im, boot: new(identity), env: envMap(env), identities: make(map[*identity]struct{})}
	bootIdentity = g.boot
	g.creds = currentCredentials()
	if err = g.signals.guard(); err == nil {
		if tid := cloneAt(cloneThread, l.entry, st.sp, -1); tid < 0 {
			err = fmt.Errorf("no thread for glibc: %w", syscall.Errno(-tid))
		}
	}
	if err != nil {
		munmap(l.base, l.size)
		munmap(im.base, imageSize)
		munmap(st.base, st.size)
		return nil, false, err
	}
	defer g.signals.restore()
	// From here on the initialisation cannot be tried again.
	for begin := time.Now(); atomic.LoadUint32(&g.boot.state) != idle; {
		if time.Since(begin) > bootLimit {
			return nil, true, fmt.Errorf("%s did not reach the program in %v, but it did in a child process", name, bootLimit)
		}
		pause(bootPause)
	}
	if err := g.init(); err != nil {
		return nil, true, fmt.Errorf("%s: %w", name, err)
	}
	return g, false, nil
}

// Flags of clone for a thread of this process, and for a child process that sends no signal when it
// ends.
const (
	cloneThread = syscall.CLONE_VM | syscall.CLONE_FS | syscall.CLONE_FILES | syscall.CLONE_SIGHAND | syscall.CLONE_THREAD | syscall.CLONE_SYSVSEM
	cloneChild  = 0

	wAll = 0x40000000 // __WALL: wait also for children that send no signal when they end
)

// try starts the loader in a copy of this process with one thread, which ends as soon as the
// program would begin. A loader that finds an error ends its process, and so must not run in this
// process first.
func try(l loaded, st stack) error {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return fmt.Errorf("no pipe: %w", err)
	}
	defer syscall.Close(pipe[0])
	pid := cloneChildAt(cloneChild, l.entry, st.sp, pipe[1])
	if syscall.Errno(-pid) == syscall.EINVAL { // emulators may support only the flags of fork
		pid = cloneChildAt(uintptr(syscall.SIGCHLD), l.entry, st.sp, pipe[1])
	}
	syscall.Close(pipe[1])
	if pid < 0 {
		return fmt.Errorf("no process to try it in: %w", syscall.Errno(-pid))
	}
	said, late := readAll(pipe[0], bootLimit)
	if late {
		syscall.Kill(int(pid), syscall.SIGKILL)
	}
	// If other code waits for all children of this program, it may get the status.
	var ws syscall.WaitStatus
	_, err := syscall.Wait4(int(pid), &ws, wAll, nil)
	for err == syscall.EINTR {
		_, err = syscall.Wait4(int(pid), &ws, wAll, nil)
	}
	if strings.Contains(said, arrived) {
		return nil
	}
	how := ""
	switch {
	case late:
		return fmt.Errorf("it has taken longer than %v", bootLimit)
	case err == nil && ws.Signaled():
		how = ws.Signal().String()
	case err == nil && strings.TrimSpace(said) == "":
		how = fmt.Sprintf("exit status %d", ws.ExitStatus())
	}
	return rejection{strings.TrimSpace(how + " " + strings.TrimSpace(said)), refused(said)}
}

// arrived is the last output of the child if the loader reaches the program. A loader may also end
// earlier with success. The assembly contains the same text.
const arrived = "\x00up\x00"

// cloneChildAt is cloneAt, and lets other goroutines use the processor, because cloneAt takes long
// if the process has much memory.
//
//go:nosplit
func cloneChildAt(flags, entry, sp uintptr, fd int) (pid int32) {
	entersyscall()
	pid = cloneAt(flags, entry, sp, fd)
	exitsyscall()
	return pid
}

// readAll reads the output of the child until its end or the limit. It keeps only as much as a
// message needs.
func readAll(fd int, limit time.Duration) (said string, late bool) {
	var b [4096]byte
	n := 0
	for begin := time.Now(); ; {
		left := limit - time.Since(begin)
		if left <= 0 {
			return string(b[:n]), true
		}
		poll := struct {
			fd              int32
			events, revents int16
		}{fd: int32(fd), events: 1} // POLLIN
		ts := syscall.NsecToTimespec(int64(left))
		r, _, e := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		if e == syscall.EINTR || e == 0 && r == 0 {
			continue
		}
		if n == len(b) {
			n = len(b) / 2
		}
		m, err := syscall.Read(fd, b[n:])
		if err == syscall.EINTR {
			continue
		}
		if m <= 0 {
			return string(b[:n]), false
		}
		n += m
		if strings.Contains(string(b[:n]), arrived) { // other processes may keep the pipe open
			return string(b[:n]), false
		}
	}
}

// pause sleeps in the kernel, as Go's own sleeps are too inaccurate for such short times.
func pause(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&ts, nil)
}

// environment returns the environment without variables that make the loader print something and
// end.
func environment() []string {
	var env []string
	for _, s := range os.Environ() {
		if !strings.HasPrefix(s, "LD_TRACE_LOADED_OBJECTS=") && !strings.HasPrefix(s, "LD_SHOW_AUXV=") && strings.IndexByte(s, 0) < 0 {
			env = append(env, s)
		}
	}
	return env
}

// withoutRseq returns an environment in which glibc does not use restartable sequences. The kernel
// keeps these for each thread, and a direct call runs on another thread than the identity's, for
// which they are not set up. The program's own value is restored when a library is opened.
func withoutRseq(env []string) []string {
	const name, off = "GLIBC_TUNABLES=", "glibc.pthread.rseq=0"
	env = slices.Clone(env)
	for i, s := range env {
		if v, ok := strings.CutPrefix(s, name); ok && v != "" {
			env[i] = name + v + ":" + off
			return env
		}
	}
	return append(env, name+off)
}

func envMap(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, s := range env {
		if k, v, ok := strings.Cut(s, "="); ok && k != "" {
			m[k] = v
		}
	}
	return m
}

// init checks the imported functions, and finds the real pthread_create.
func (g *Guest) init() error {
	for i, name := range funcNames {
		if g.im.fn(i) == 0 {
			return fmt.Errorf("its C library has no %s", name)
		}
	}
	// Look the real function up in the library itself, as the program's definition hides it.
	for _, lib := range libraries {
		h, err := g.dlopen(g.onBoot, lib)
		if err != nil {
			continue
		}
		if fn, _ := g.dlsym(g.onBoot, h, threadCreate); fn != 0 {
			realThreadCreate = fn
			break
		}
	}
	if realThreadCreate == 0 {
		return errors.New("its C library has no " + threadCreate)
	}
	return nil
}

// frame6 is the argument of the assembly's callWords: a C function and up to six words.
type frame6 struct {
	fn, r uintptr
	a     [6]uintptr
}

// on calls a function on an identity's thread, and returns its result.
func (g *Guest) on(id *identity, fn uintptr, args ...uintptr) uintptr {
	f := frame6{fn: fn}
	copy(f.a[:], args)
	post(id, callWordsABI0, unsafe.Pointer(&f))
	return f.r
}

// post calls thunk(frame) on an identity's thread.
//
//go:nosplit
func post(id *identity, thunk, frame unsafe.Pointer) {
	entersyscall()
	postAndWait(id, thunk, frame)
	exitsyscall()
	runtime.KeepAlive(frame)
}

// cbytes returns the address of a C string with the text s. It is valid until p is unpinned.
func cbytes(p *runtime.Pinner, s string) uintptr {
	b := append([]byte(s), 0)
	p.Pin(&b[0])
	return uintptr(unsafe.Pointer(&b[0]))
}

// do calls a function like atWork, and returns its result. The goroutine is locked to its thread,
// which has an identity, so that the next call has the same thread-local storage.
func (g *Guest) do(fn uintptr, args ...uintptr) uintptr {
	f := frame6{fn: fn}
	copy(f.a[:], args)
	atWork(callWordsABI0, unsafe.Pointer(&f))
	return f.r
}

// caller is a way to call glibc's functions: onBoot or do.
type caller func(fn uintptr, args ...uintptr) uintptr

func (g *Guest) onBoot(fn uintptr, args ...uintptr) uintptr { return g.on(g.boot, fn, args...) }

func (g *Guest) dlopen(call caller, name string) (handle uintptr, err error) {
	const rtldNow = 2 // and RTLD_LOCAL, which is 0
	var pin runtime.Pinner
	defer pin.Unpin()
	handle = call(g.im.fn(fnDlopen), cbytes(&pin, name), rtldNow)
	if handle == 0 {
		return 0, g.dlerror(call)
	}
	return handle, nil
}

func (g *Guest) dlsym(call caller, handle uintptr, name string) (addr uintptr, err error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	addr = call(g.im.fn(fnDlsym), handle, cbytes(&pin, name))
	if addr == 0 {
		return 0, g.dlerror(call)
	}
	return addr, nil
}

// dlerror returns glibc's message about the last error, which it keeps for the thread.
func (g *Guest) dlerror(call caller) error {
	if s := cstring(call(g.im.fn(fnDlerror))); s != "" {
		return errors.New(s)
	}
	return errors.New("the C library does not say why")
}

// Open loads a library. It removes signal handlers that the library installs, as only Go's handlers
// work on Go threads.
func (g *Guest) Open(name string) (handle uintptr, err error) {
	if strings.IndexByte(name, 0) >= 0 {
		return 0, fmt.Errorf("%q: a name with a NUL", name)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer g.signals.restore()
	if err := g.ensureBound(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrGlibcFailed, err)
	}
	g.syncEnv()
	return g.dlopen(g.do, name)
}

// Lookup returns the address of a symbol of a library.
func (g *Guest) Lookup(handle uintptr, name string) (uintptr, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return 0, fmt.Errorf("%q: a name with a NUL", name)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.ensureBound(); err != nil {
		return 0, err
	}
	return g.dlsym(g.do, handle, name)
}

// syncEnv copies changes of the environment to glibc, because a library may read it in its
// constructors.
func (g *Guest) syncEnv() {
	g.mu.Lock()
	defer g.mu.Unlock()
	env := environment()
	if slices.Equal(env, g.envList) {
		return
	}
	g.envList = env
	var pin runtime.Pinner
	defer pin.Unpin()
	now := envMap(env)
	for k, v := range now {
		if old, ok := g.env[k]; ok && old == v {
			continue
		}
		g.on(g.boot, g.im.fn(fnSetenv), cbytes(&pin, k), cbytes(&pin, v), 1)
	}
	for k := range g.env {
		if _, ok := now[k]; !ok {
			g.on(g.boot, g.im.fn(fnUnsetenv), cbytes(&pin, k))
		}
	}
	g.env = now
}
