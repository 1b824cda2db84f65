package ccall

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// duringCalls runs f while other goroutines make calls, and waits until these have ended.
func duringCalls(t *testing.T, f func()) {
	t.Helper()
	fn, slow := cfunc(t, "query"), cfunc(t, "out_slow")
	var stop atomic.Bool
	var calls atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		together(t, 8, func(g int) error {
			for !stop.Load() {
				if r := query1(fn); r != 0 {
					return fmt.Errorf("a concurrent call: %d", r)
				}
				if calls.Add(1)%256 == 0 {
					if out, r := slowOut(slow, uintptr(g), 500); out != uintptr(g) || r != 0 {
						return fmt.Errorf("a slow concurrent call: %d, %d", out, r)
					}
				}
			}
			return nil
		})
	}()
	for calls.Load() < 1000 {
		time.Sleep(time.Millisecond)
	}
	defer func() {
		stop.Store(true)
		<-done
	}()
	f()
}

// TestAllThreads makes a system call on all Go threads, as syscall.Setuid does, during other calls.
// Programs with cgo or purego cannot do this.
func TestAllThreads(t *testing.T) {
	if Engine != "static" {
		t.Skip("Go cannot make a system call on all threads in a program with a C runtime")
	}
	// C may unblock glibc's own signals, and Go uses one of them for this.
	keep := cfunc(t, "keep_mask")
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			Invoke(keep, Hot, uint32(200))
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	duringCalls(t, func() {
		for range rounds(200) {
			if err := syscall.Setgid(syscall.Getgid()); err != nil {
				t.Fatal(err)
			}
			const prGetDumpable = 3
			if _, _, e := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, prGetDumpable, 0, 0); e != 0 {
				t.Fatal(e)
			}
			runtime.Gosched()
		}
	})
}

// TestCredentials drops the program's privileges. C code must not keep them, on any thread.
func TestCredentials(t *testing.T) {
	who := cfunc(t, "who")
	const nobody = 65534
	if os.Getenv(childEnv) == "" {
		if Engine != "static" {
			t.Skip("the C runtime changes all threads")
		}
		if os.Geteuid() != 0 {
			t.Skip("only root may change the user")
		}
		if out, err := runChild(t, "TestCredentials", "become nobody"); err != nil {
			t.Errorf("%v; the child's output:\n%s", err, out)
		}
		return
	}
	is := func(user, group uintptr) {
		for _, class := range []Class{Hot, Setup, Blocking} {
			for range 3 {
				done := make(chan bool)
				go func() { // perhaps on a thread that has not called C yet
					defer close(done)
					if r, err := Invoke(who, class); r != user<<32|group || err != nil {
						t.Errorf("%v: user and group %#x, %v; want %d, %d", class, r, err, user, group)
					}
				}()
				<-done
			}
		}
	}
	is(0, 0)
	if err := syscall.Setgid(nobody); err != nil {
		t.Fatal(err)
	}
	is(0, nobody)
	if err := syscall.Setuid(nobody); err != nil {
		t.Fatal(err)
	}
	is(nobody, nobody)
	if _, err := Open("libm.so.6"); err != nil {
		t.Error(err)
	}
	is(nobody, nobody)
}

// TestCancel cancels C threads, which glibc does with a signal, and opens libraries in between.
func TestCancel(t *testing.T) {
	fn := cfunc(t, "cancel")
	for _, class := range []Class{Hot, Setup, Hot} {
		if r, err := Invoke(fn, class); int32(r) != 0 || err != nil {
			t.Errorf("%v: %d, %v", class, int32(r), err)
		}
		if _, err := Open("libc.so.6"); err != nil {
			t.Error(err)
		}
	}
}

// TestSignalHandled sends signals to the process, which Go handles, during calls. Each must arrive.
func TestSignalHandled(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	defer signal.Stop(c)
	duringCalls(t, func() {
		for i := range rounds(500) {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			select {
			case <-c:
			case <-time.After(10 * time.Second):
				t.Fatalf("signal %d did not arrive", i)
			}
		}
	})
}

// childDies runs a test in another process, which does what, and returns the process's exit status
// and output.
func childDies(t *testing.T, test, what string, env ...string) (syscall.WaitStatus, string) {
	t.Helper()
	out, err := runChild(t, test, what, env...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%s: %v; the child's output:\n%s", what, err, out)
	}
	return exit.Sys().(syscall.WaitStatus), out
}

// TestSignalEnds sends signals whose default action ends the process, during calls.
func TestSignalEnds(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
			ws, out := childDies(t, "TestSignalEnds", fmt.Sprint(int(sig)))
			if !ws.Signaled() || ws.Signal() != sig {
				t.Errorf("%v: the child's status is %#x; its output:\n%s", sig, ws, out)
			}
		}
		return
	}
	var sig int
	fmt.Sscan(os.Getenv(childEnv), &sig)
	duringCalls(t, func() {
		syscall.Kill(os.Getpid(), syscall.Signal(sig))
		time.Sleep(10 * time.Second)
	})
}

// TestCrash crashes in C code. The process must end, and not hang. If C runs on a Go thread, Go's
// runtime prints the reason and the function.
func TestCrash(t *testing.T) {
	crash, giveUp := cfunc(t, "crash"), cfunc(t, "give_up")
	fns := map[string]uintptr{"crash": crash, "abort": giveUp}
	classes := map[string]Class{"hot": Hot, "setup": Setup}
	if what := os.Getenv(childEnv); what != "" {
		fn, class, _ := strings.Cut(what, " ")
		f := Frame6{Head: Head{Fn: fns[fn]}}
		if class == "beside" {
			duringCalls(t, func() { Call6(unsafe.Pointer(&f), Hot, nil) })
		}
		Call6(unsafe.Pointer(&f), classes[class], nil)
		return
	}
	for _, what := range []string{"crash hot", "crash beside", "crash setup", "abort hot", "abort setup"} {
		ws, out := childDies(t, "TestCrash", what, "GOTRACEBACK=all")
		t.Logf("%s: exited %t with %d, signaled %t with %v", what, ws.Exited(), ws.ExitStatus(), ws.Signaled(), ws.Signal())
		told := strings.Contains(out, "SIGSEGV") || strings.Contains(out, "SIGABRT")
		switch {
		case Engine == "static" && (strings.HasSuffix(what, "setup") || runtime.GOARCH == "arm64"):
			// Go's handler does not run on this thread, or could not run at this moment.
			if want := endings[what[:5]]; ws.Signal() != want {
				t.Errorf("%s: status %#x; want %v; the child's output:\n%s", what, ws, want, out)
			}
		case !told || !strings.Contains(out, "TestCrash"):
			t.Errorf("%s: Go's runtime does not print the reason and the function; the child's output:\n%s", what, out)
		}
	}
}

// endings are the signals that end a process that does not handle them.
var endings = map[string]syscall.Signal{"crash": syscall.SIGSEGV, "abort": syscall.SIGABRT}

// TestSignalsOnCThread sends signals to a C thread that blocks none of them. The signals must still
// reach Go's handlers.
func TestSignalsOnCThread(t *testing.T) {
	start, do := cfunc(t, "thread_start"), cfunc(t, "thread_do")
	f := Frame6{Head: Head{Fn: start}}
	Call6(unsafe.Pointer(&f), Setup, nil)
	tid := int(f.R)
	if tid == 0 {
		t.Fatal("C cannot create a thread")
	}
	end := func(how int32) {
		if r, err := Invoke(do, Setup, how); int32(r) != 0 || err != nil {
			t.Errorf("the thread does not end: %d, %v", int32(r), err)
		}
	}
	what := os.Getenv(childEnv)
	nobodys := func() {
		for _, sig := range []syscall.Signal{syscall.SIGURG, syscall.SIGPROF, syscall.SIGWINCH} {
			if err := syscall.Tgkill(os.Getpid(), tid, sig); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	switch what {
	case "crash":
		end(1)
	case "abort":
		end(2)
	case "nobody's":
		nobodys()
		end(3)
	case "":
		defer end(3)
	default:
		var sig int
		fmt.Sscan(what, &sig)
		syscall.Tgkill(os.Getpid(), tid, syscall.Signal(sig))
		time.Sleep(10 * time.Second)
	}
	if what != "" {
		return
	}
	for _, sig := range []syscall.Signal{syscall.SIGCHLD, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGUSR1} {
		c := make(chan os.Signal, 1)
		signal.Notify(c, sig)
		if _, err := Open("libc.so.6"); err != nil { // Open notices that Go handles the signal since the last Open
			t.Fatal(err)
		}
		duringCalls(t, func() {
			for i := range rounds(100) {
				if err := syscall.Tgkill(os.Getpid(), tid, sig); err != nil {
					t.Fatal(err)
				}
				select {
				case <-c:
				case <-time.After(10 * time.Second):
					t.Fatalf("%v: signal %d did not arrive", sig, i)
				}
			}
		})
		signal.Stop(c)
	}
	nobodys()
	if out, err := runChild(t, "TestSignalsOnCThread", "nobody's", "GODEBUG=asyncpreemptoff=1"); err != nil {
		t.Errorf("without asynchronous preemption: %v; the child's output:\n%s", err, out)
	}
	for what, want := range map[string]syscall.Signal{"crash": syscall.SIGSEGV, "abort": syscall.SIGABRT, fmt.Sprint(int(syscall.SIGTERM)): syscall.SIGTERM} {
		ws, out := childDies(t, "TestSignalsOnCThread", what)
		if told := strings.Contains(out, want.String()) || strings.Contains(out, "SIGSEGV") || strings.Contains(out, "SIGABRT"); ws.Signal() != want && (Engine == "static" || !told) {
			t.Errorf("%s: status %#x; want %v; the child's output:\n%s", what, ws, want, out)
		}
	}
}

// TestForkedEnds forks in C, and sends the child a signal whose default action ends the process.
// The child must end. If it was forked on a Go thread, it still has Go's g, and Go's handler ends
// it.
func TestForkedEnds(t *testing.T) {
	fn := cfunc(t, "child_ended")
	for _, class := range []Class{Hot, Setup} {
		if r, err := Invoke(fn, class, int32(syscall.SIGTERM)); int32(r) != int32(syscall.SIGTERM) || err != nil {
			t.Errorf("%v: the child of C's ended with %d, %v", class, int32(r), err)
		}
	}
}

// TestThreadDestructors ends threads with a destructor that unblocks signals. At that time the Go
// thread has already ended.
func TestThreadDestructors(t *testing.T) {
	if Engine != "static" {
		t.Skip("with a C runtime Go's handler crashes in such a destructor, as it does with cgo")
	}
	last, said := cfunc(t, "at_thread_end"), cfunc(t, "thread_ends")
	c := make(chan os.Signal, 100)
	signal.Notify(c, syscall.SIGUSR1)
	defer signal.Stop(c)
	for _, sig := range []syscall.Signal{syscall.SIGURG, syscall.SIGUSR1, syscall.SIGCHLD} {
		before, _ := Invoke(said, Hot)
		deadline := time.Now().Add(20 * time.Second)
		for now := before; int32(now)-int32(before) < 3; now, _ = Invoke(said, Hot) {
			if time.Now().After(deadline) {
				t.Fatalf("%v: %d destructors have run", sig, int32(now)-int32(before))
			}
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					runtime.LockOSThread() // never unlocked, so the thread ends
					if r, err := Invoke(last, []Class{Hot, Setup}[i%2], int32(sig)); int32(r) != 0 || err != nil {
						t.Error(int32(r), err)
					}
				})
			}
			wg.Wait()
			time.Sleep(5 * time.Millisecond)
		}
	}
	if len(c) == 0 {
		t.Error("no signal arrived")
	}
}

// TestCoreDump opens the core of a process that has crashed in C with gdb.
func TestCoreDump(t *testing.T) {
	crash := cfunc(t, "crash")
	if os.Getenv(childEnv) != "" {
		f := Frame6{Head: Head{Fn: crash}}
		Call6(unsafe.Pointer(&f), Hot, nil)
		return
	}
	if testing.Short() {
		t.Skip("gdb takes long: not with -short")
	}
	gdb, err := exec.LookPath("gdb")
	if err != nil {
		t.Skip("gdb is not installed")
	}
	if os.Getenv("PURECU_TEST_EXEC") != "" {
		t.Skip("gdb does not run emulated programs")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	core := filepath.Join(t.TempDir(), "core")
	// gdb runs the program, so the kernel's pattern for core files does not matter.
	run := exec.Command(gdb, "-nx", "-batch", "-ex", "set startup-with-shell off", "-ex", "handle all nostop noprint pass", "-ex", "handle SIGSEGV stop print",
		"-ex", "run", "-ex", "generate-core-file "+core, "-ex", "kill", "--args", exe, "-test.run=TestCoreDump")
	run.Env = append(os.Environ(), childEnv+"=crash", "TMPDIR="+t.TempDir())
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "Saved corefile") {
		if strings.Contains(string(out), "ptrace") {
			t.Skipf("gdb may not run programs here:\n%s", out)
		}
		t.Fatalf("gdb has made no core: %v\n%s", err, out)
	}
	out, err := exec.Command(gdb, "-nx", "-batch", "-ex", "bt 3", "-ex", "info threads", "-ex", "info proc mappings", exe, core).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "SIGSEGV") || !strings.Contains(string(out), clibName) {
		t.Errorf("gdb cannot tell where the core's process crashed: %v\n%s", err, out)
	}
}

// TestThreadMask creates a C thread in a call of each class. In a static program no Go handler may
// run on it, so it blocks all signals. The signal mask of the calling thread stays the same.
func TestThreadMask(t *testing.T) {
	fn := cfunc(t, "thread_mask")
	for _, class := range []Class{Hot, Setup, Blocking} {
		var thread, maker uint64
		if r, err := Invoke(fn, class, &thread, &maker); int32(r) != 0 || err != nil {
			t.Fatal(int32(r), err)
		}
		t.Logf("%v: the thread has blocked %#x, its maker %#x", class, thread, maker)
		const usual = 1<<(syscall.SIGSEGV-1) | 1<<(syscall.SIGPROF-1) | 1<<(syscall.SIGURG-1) | 1<<(syscall.SIGTERM-1)
		if Engine == "static" && thread&usual != usual {
			t.Errorf("%v: a thread that C has created does not block all signals: its mask is %#x", class, thread)
		}
		if class != Setup && maker&usual != 0 && !(Engine == "static" && runtime.GOARCH == "arm64") {
			t.Errorf("%v: Go's thread has blocked %#x", class, maker)
		}
	}
}

// TestEnvironment changes the environment. A library sees the environment of the time when the last
// library was opened.
func TestEnvironment(t *testing.T) {
	fn := cfunc(t, "env_is")
	const name = "PURECU_TEST_ENVIRONMENT"
	is := func(v string) int32 {
		r, err := Invoke(fn, Setup, name, v)
		if err != nil {
			t.Fatal(err)
		}
		return int32(r)
	}
	reopen := func() {
		t.Helper()
		if _, err := Open("libc.so.6"); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []string{"", "one", "two words", "ü=?"} {
		t.Setenv(name, v)
		reopen()
		if r := is(v); r != 1 {
			t.Errorf("C does not see %q: %d", v, r)
		}
	}
	os.Unsetenv(name)
	reopen()
	if r := is(""); r != 2 {
		t.Errorf("C still sees the variable: %d", r)
	}
}

// TestSettings makes calls and starts a process with various settings of Go's runtime.
func TestSettings(t *testing.T) {
	fn, child := cfunc(t, "query"), cfunc(t, "child")
	if os.Getenv(childEnv) != "" {
		duringCalls(t, func() {
			for i := range rounds(20) {
				runtime.GC()
				if r, err := Invoke(child, Setup, i); int32(r) != int32(i) || err != nil {
					t.Errorf("a process that C has started: %d, %v", int32(r), err)
				}
				if r := query1(fn); r != 0 {
					t.Errorf("a call: %d", r)
				}
			}
		})
		return
	}
	for _, env := range []string{"GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1", "GOGC=1", "GOMEMLIMIT=16MiB", "GODEBUG=madvdontneed=1,gcstoptheworld=2",
		"GODEBUG=cgocheck=1,invalidptr=1,clobberfree=1", "GOTRACEBACK=crash"} {
		if out, err := runChild(t, "TestSettings", "run", env); err != nil {
			t.Errorf("%s: %v; the child's output:\n%s", env, err, out)
		}
	}
}

// TestSignalsStayGos loads a library that installs signal handlers. A static program must keep Go's
// handlers, as others would find no thread-local storage on Go threads.
func TestSignalsStayGos(t *testing.T) {
	if Engine != "static" {
		t.Skip("libraries may handle signals with this engine")
	}
	fn := cfunc(t, "handle_signal")
	before := actionOf(t, syscall.SIGUSR2)
	if r, err := Invoke(fn, Hot, int32(syscall.SIGUSR2)); int32(r) != 0 || err != nil {
		t.Fatal(int32(r), err)
	}
	if actionOf(t, syscall.SIGUSR2) == before {
		t.Fatal("the library has not installed a handler, so the test is void")
	}
	// Handlers that are installed later are noticed when the next library is opened.
	reopen := func() {
		t.Helper()
		if _, err := Open("libc.so.6"); err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	if after := actionOf(t, syscall.SIGUSR2); after != before {
		t.Errorf("the disposition of SIGUSR2 is %#x, want %#x", after, before)
	}
	// sigaction itself does not install the handler, not even for a moment. It can set the signal
	// to be ignored.
	act := cfunc(t, "act_on_signal")
	if r, err := Invoke(act, Hot, int32(syscall.SIGUSR2), int32(0)); int32(r) != 0 || err != nil || actionOf(t, syscall.SIGUSR2) != before {
		t.Errorf("sigaction = %d, %v, the disposition of SIGUSR2 is %#x, want %#x", int32(r), err, actionOf(t, syscall.SIGUSR2), before)
	}
	if r, err := Invoke(act, Hot, int32(syscall.SIGWINCH), int32(1)); int32(r) != 0 || err != nil || actionOf(t, syscall.SIGWINCH)[0] != sigIgn {
		t.Errorf("sigaction = %d, %v, and SIGWINCH is not ignored", int32(r), err)
	}
	if r, err := Invoke(act, Hot, int32(syscall.SIGKILL), int32(1)); int32(r) == 0 || err != nil {
		t.Errorf("sigaction for SIGKILL = %d, %v; want an error", int32(r), err)
	}
	// Go's handlers of faults are restored, whatever C does.
	segv := actionOf(t, syscall.SIGSEGV)
	if r, err := Invoke(cfunc(t, "default_signal"), Hot, int32(syscall.SIGSEGV)); int32(r) != 0 || err != nil {
		t.Fatal(int32(r), err)
	}
	reopen()
	if after := actionOf(t, syscall.SIGSEGV); after != segv {
		t.Errorf("the disposition of SIGSEGV is %#x, want %#x", after, segv)
	}
	// The dispositions that the program has set since then are kept.
	signal.Ignore(syscall.SIGUSR2)
	ignored := actionOf(t, syscall.SIGUSR2)
	reopen()
	Invoke(fn, Hot, int32(syscall.SIGUSR2))
	reopen()
	if after := actionOf(t, syscall.SIGUSR2); after != ignored {
		t.Errorf("the disposition of SIGUSR2, which is ignored, is %#x, want %#x", after, ignored)
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR2)
	defer signal.Stop(c)
	reopen()
	syscall.Kill(os.Getpid(), syscall.SIGUSR2)
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Error("the signal no longer arrives")
	}
}

// sigIgn is SIG_IGN.
const sigIgn = 1

// actionOf returns the kernel's disposition of a signal for this process.
func actionOf(t *testing.T, sig syscall.Signal) (action [4]uint64) {
	t.Helper()
	if _, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0); e != 0 {
		t.Fatal(e)
	}
	return action
}
