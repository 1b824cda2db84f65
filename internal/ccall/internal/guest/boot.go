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

// A Guest is the glibc of this process. There can be one: its thread-local storage, its
// heap and its list of libraries are the process's.
type Guest struct {
	// Loader is the dynamic loader that was taken.
	Loader string

	im   *image
	boot *identity // the thread that the loader began on: it makes the others

	signals goSignals

	creds credentials // of the boot thread, and so of all identities

	mu         sync.Mutex             // what is asked of the boot thread, and what follows
	envList    []string               // the environment as syncEnv has last seen it
	env        map[string]string      // as glibc has it
	identities map[*identity]struct{} // those that C knows: the garbage collector must not take them
	sweepAt    int                    // how many there are when the next sweep is due
}

// process has the glibc of this process.
var process struct {
	guest atomic.Pointer[Guest] // nil until it is up

	mu  sync.Mutex
	err error // once there is no way back
}

// Start returns the process's glibc, which it brings up if nobody has: that takes about
// two milliseconds. The error matches [ErrNoGlibc] or [ErrGlibcFailed], and says why: it may be another one the
// next time, unless it is too late to try again.
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
	// There is one identity at least, or the system makes no threads, now. glibc takes signal 33 over when it makes the
	// first.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer g.signals.restore()
	if err := g.bindHere(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGlibcFailed, err)
	}
	return g, nil
}

// What the engine waits for takes a millisecond.
const (
	bootLimit = 10 * time.Second
	bootPause = 20 * time.Microsecond
)

// libraries are what the program asks for. Since glibc 2.34 the first has all.
var libraries = []string{"libc.so.6", "libpthread.so.0", "libdl.so.2"}

// start brings glibc up. late says that an error came when this could not be tried again.
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
	if bytes.Contains(file.content, []byte("GLIBC_2.34")) { // the loader is of the same glibc
		needed = needed[:1]
	}
	return bootWith(name, file, needed, aux)
}

// chooseLoader reads the loader to begin in. A program with more rights than its caller trusts nobody
// else's names.
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

// rejection is the error of a loader that has ended its process.
type rejection struct {
	how   string
	cause error // what the system refused it, as far as that is known
}

// Error says how the loader has ended, and what it has said.
func (r rejection) Error() string { return "the loader has ended with an error: " + r.how }

// Unwrap returns what the system refused the loader, or nil.
func (r rejection) Unwrap() error { return r.cause }

// refused returns what the system has refused a loader that says this, or nil: it has no errors for
// others, but texts of its own.
func refused(said string) error {
	_, said, _ = strings.Cut(said, ": error while loading shared libraries: ") // before it there may be warnings
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
		{"ailed to map segment", syscall.ENOMEM}, // of which older ones do not say why
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
	// From here on there is no way back.
	for begin := time.Now(); atomic.LoadUint32(&g.boot.state) != idle; {
		if time.Since(begin) > bootLimit {
			return nil, true, fmt.Errorf("%s did not get to the program in %v, though it did so in a process of its own", name, bootLimit)
		}
		pause(bootPause)
	}
	if err := g.init(); err != nil {
		return nil, true, fmt.Errorf("%s: %w", name, err)
	}
	return g, false, nil
}

// What clone makes: a thread of this process, and a process of its own, of whose end
// nobody is told.
const (
	cloneThread = syscall.CLONE_VM | syscall.CLONE_FS | syscall.CLONE_FILES | syscall.CLONE_SIGHAND | syscall.CLONE_THREAD | syscall.CLONE_SYSVSEM
	cloneChild  = 0

	wAll = 0x40000000 // __WALL: children that end without a signal, too
)

// try lets a copy of this process, of one thread, begin in the loader: it ends as soon as
// the program would begin. A loader that finds something wrong ends its process, which had
// better not be this one.
func try(l loaded, st stack) error {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return fmt.Errorf("no pipe: %w", err)
	}
	defer syscall.Close(pipe[0])
	pid := cloneChildAt(cloneChild, l.entry, st.sp, pipe[1])
	if syscall.Errno(-pid) == syscall.EINVAL { // emulators may know only children as fork makes them
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
	// If somebody else waits for all children of this program the status is theirs.
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

// arrived is what the program says at last if it begins in the child: loaders may end
// well before that. The assembly has it, too.
const arrived = "\x00up\x00"

// cloneChildAt is cloneAt, which takes long if the process has much memory: others run
// meanwhile.
//
//go:nosplit
func cloneChildAt(flags, entry, sp uintptr, fd int) (pid int32) {
	entersyscall()
	pid = cloneAt(flags, entry, sp, fd)
	exitsyscall()
	return pid
}

// readAll reads what is said within a time: as much as a message needs, the rest is for
// nobody.
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
		if strings.Contains(string(b[:n]), arrived) { // who else has the pipe open does not matter
			return string(b[:n]), false
		}
	}
}

// pause sleeps in the kernel: Go's own sleeps are too long for what is waited for here.
func pause(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&ts, nil)
}

// environment returns the environment without what would make the loader do something
// else than load.
func environment() []string {
	var env []string
	for _, s := range os.Environ() {
		if !strings.HasPrefix(s, "LD_TRACE_LOADED_OBJECTS=") && !strings.HasPrefix(s, "LD_SHOW_AUXV=") && strings.IndexByte(s, 0) < 0 {
			env = append(env, s)
		}
	}
	return env
}

// withoutRseq has glibc not use restartable sequences, which the kernel keeps for a thread: a
// direct call is made on another thread than the identity's, for which they are not set up.
// The program's own value is put back when a library is opened.
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

// init makes the guest able to call: threads are made with signals blocked from here on.
func (g *Guest) init() error {
	for i, name := range funcNames {
		if g.im.fn(i) == 0 {
			return fmt.Errorf("its C library has no %s", name)
		}
	}
	// The real one, which the program's own hides: in the library itself.
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

// frame6 is what the assembly's callWords takes: a C function of up to six words.
type frame6 struct {
	fn, r uintptr
	a     [6]uintptr
}

// on has an identity's own thread call a function, and returns its result.
func (g *Guest) on(id *identity, fn uintptr, args ...uintptr) uintptr {
	f := frame6{fn: fn}
	copy(f.a[:], args)
	post(id, callWordsABI0, unsafe.Pointer(&f))
	return f.r
}

// post has an identity's own thread call thunk(frame).
//
//go:nosplit
func post(id *identity, thunk, frame unsafe.Pointer) {
	entersyscall()
	postAndWait(id, thunk, frame)
	exitsyscall()
	runtime.KeepAlive(frame)
}

// cbytes returns the address of a text as C has it, which stays where it is until p is
// unpinned.
func cbytes(p *runtime.Pinner, s string) uintptr {
	b := append([]byte(s), 0)
	p.Pin(&b[0])
	return uintptr(unsafe.Pointer(&b[0]))
}

// do calls a function like atWork, and returns its result. What glibc keeps of it for the
// thread is there for the next one, as the goroutine is locked to its thread, which has an identity.
func (g *Guest) do(fn uintptr, args ...uintptr) uintptr {
	f := frame6{fn: fn}
	copy(f.a[:], args)
	atWork(callWordsABI0, unsafe.Pointer(&f))
	return f.r
}

// The two ways to call glibc's functions: on the boot thread, and like any other.
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

// dlerror returns what glibc has to say of the last failure, which it keeps for the
// thread.
func (g *Guest) dlerror(call caller) error {
	if s := cstring(call(g.im.fn(fnDlerror))); s != "" {
		return errors.New(s)
	}
	return errors.New("the C library does not say why")
}

// Open loads a library. No library's signal handlers are kept: Go's, which they would
// replace, are the only ones that work on its threads.
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

// syncEnv tells glibc what has changed in the environment, which a library may look at
// when it begins.
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
