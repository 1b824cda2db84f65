//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
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

	mu         sync.Mutex // what is asked of the boot thread, and what follows
	envList    []string   // the environment as glibc has it
	env        map[string]string
	identities map[*identity]struct{} // those that C knows: the garbage collector must not take them
	sweepAt    int                    // how many there are when the next sweep is due
}

var process struct {
	once  sync.Once
	guest *Guest
	err   error
}

// Start returns the process's glibc, which it brings up if nobody has: that takes about
// two milliseconds. The error says why there is none; it is the same for ever.
func Start() (*Guest, error) {
	process.once.Do(func() {
		g, err := start()
		if err != nil {
			if !errors.Is(err, ErrNoGlibc) {
				err = unusable{err}
			}
			process.err = err
			return
		}
		process.guest = g
	})
	return process.guest, process.err
}

// What the engine waits for takes a millisecond.
const (
	bootLimit = 10 * time.Second
	bootPause = 20 * time.Microsecond
)

// libraries are what the program asks for. Since glibc 2.34 the first has all.
var libraries = []string{"libc.so.6", "libpthread.so.0", "libdl.so.2"}

func start() (g *Guest, err error) {
	if err := checkG(); err != nil {
		return nil, err
	}
	aux, err := readAuxv()
	if err != nil {
		return nil, err
	}
	override := os.Getenv(Env)
	if aux.get(atSecure) != 0 {
		override = ""
	}
	name, file, err := findLoader(loaders(override))
	if err != nil {
		return nil, err
	}
	needed := libraries
	if bytes.Contains(file.content, []byte("GLIBC_2.34")) { // the loader is of the same glibc
		needed = needed[:1]
	}
	return bootWith(name, file, needed, aux)
}

// errRejected is matched by the error of a loader that has ended its process.
var errRejected = errors.New("the loader has ended with an error")

func bootWith(name string, file *elfFile, needed []string, aux auxv) (g *Guest, err error) {
	l, err := mapLoader(name, file)
	if err != nil {
		return nil, err
	}
	im, err := newImage(name, needed, uintptr(threadHookABI0))
	if err != nil {
		munmap(l.base, l.size)
		return nil, err
	}
	env := environment()
	st, err := newStack(os.Args, env, aux.forProgram(im, l, uintptr(bootMainABI0)))
	if err == nil {
		if err = try(l, st); err != nil {
			err = fmt.Errorf("%s does not start: %w", name, err)
		}
	}
	if err != nil {
		munmap(l.base, l.size)
		munmap(im.base, imageSize)
		if st.base != 0 {
			munmap(st.base, bootStack)
		}
		return nil, err
	}

	// From here on there is no way back.
	g = &Guest{Loader: name, im: im, boot: new(identity), envList: env, env: envMap(env), identities: make(map[*identity]struct{}), sweepAt: 64}
	bootIdentity = g.boot
	g.signals = noteSignals()
	defer g.signals.restore()
	if tid := cloneAt(cloneThread, l.entry, st.sp, -1); tid < 0 {
		return nil, fmt.Errorf("no thread for glibc: %w", syscall.Errno(-tid))
	}
	for begin := time.Now(); atomic.LoadUint32(&g.boot.state) != idle; {
		if time.Since(begin) > bootLimit {
			return nil, fmt.Errorf("%s did not get to the program in %v, though it did so in a process of its own", name, bootLimit)
		}
		pause(bootPause)
	}
	if err := g.init(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return g, nil
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
	pid := cloneAt(cloneChild, l.entry, st.sp, pipe[1])
	if syscall.Errno(-pid) == syscall.EINVAL { // emulators may know only children as fork makes them
		pid = cloneAt(uintptr(syscall.SIGCHLD), l.entry, st.sp, pipe[1])
	}
	syscall.Close(pipe[1])
	if pid < 0 {
		return fmt.Errorf("no process to try it in: %w", syscall.Errno(-pid))
	}
	said, late := readAll(pipe[0], bootLimit)
	if late {
		syscall.Kill(int(pid), syscall.SIGKILL)
	}
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(int(pid), &ws, wAll, nil); err == nil {
			break
		} else if err != syscall.EINTR {
			// Somebody else waits for all children of this program.
			if strings.TrimSpace(said) == "" {
				return nil
			}
			return fmt.Errorf("%w: %s", errRejected, strings.TrimSpace(said))
		}
	}
	said = strings.TrimSpace(said)
	switch {
	case ws.Exited() && ws.ExitStatus() == 0:
		return nil
	case late:
		return fmt.Errorf("it has taken longer than %v", bootLimit)
	case ws.Signaled():
		err := fmt.Errorf("%w: %v", errRejected, ws.Signal())
		if said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return err
	case said == "":
		return fmt.Errorf("%w: exit status %d", errRejected, ws.ExitStatus())
	}
	return fmt.Errorf("%w: %s", errRejected, said)
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

func envMap(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, s := range env {
		if k, v, ok := strings.Cut(s, "="); ok && k != "" {
			m[k] = v
		}
	}
	return m
}

// init makes the guest able to call: threads are made with signals blocked from here on,
// and there is a first identity.
func (g *Guest) init() error {
	for i, name := range funcNames {
		if g.im.fn(i) == 0 {
			return fmt.Errorf("its C library has no %s", name)
		}
	}
	// The real one, which the program's own hides: in the library itself.
	for _, lib := range libraries {
		h, err := g.dlopen(lib)
		if err != nil {
			continue
		}
		if fn, _ := g.dlsym(h, hooked); fn != 0 {
			realThreadCreate = fn
			break
		}
	}
	if realThreadCreate == 0 {
		return errors.New("its C library has no " + hooked)
	}
	// There is one identity at least, or the system makes no threads.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return g.bindHere()
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

func (g *Guest) dlopen(name string) (handle uintptr, err error) {
	const rtldNow = 2 // and RTLD_LOCAL, which is 0
	var pin runtime.Pinner
	defer pin.Unpin()
	handle = g.on(g.boot, g.im.fn(fnDlopen), cbytes(&pin, name), rtldNow)
	if handle == 0 {
		return 0, g.dlerror()
	}
	return handle, nil
}

func (g *Guest) dlsym(handle uintptr, name string) (addr uintptr, err error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	addr = g.on(g.boot, g.im.fn(fnDlsym), handle, cbytes(&pin, name))
	if addr == 0 {
		return 0, g.dlerror()
	}
	return addr, nil
}

// dlerror returns what glibc has to say of the last failure, which it keeps for the
// thread.
func (g *Guest) dlerror() error {
	if s := cstring(g.on(g.boot, g.im.fn(fnDlerror))); s != "" {
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
	g.mu.Lock()
	defer g.mu.Unlock()
	g.syncEnv()
	defer g.signals.restore()
	return g.dlopen(name)
}

// Lookup returns the address of a symbol of a library.
func (g *Guest) Lookup(handle uintptr, name string) (uintptr, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return 0, fmt.Errorf("%q: a name with a NUL", name)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dlsym(handle, name)
}

// syncEnv tells glibc what has changed in the environment, which a library may look at
// when it begins. The mutex is held.
func (g *Guest) syncEnv() {
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
