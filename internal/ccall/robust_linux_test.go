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

// beside runs f while calls are made, and waits until they have ended.
func beside(t *testing.T, f func()) {
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
					return fmt.Errorf("a call beside: %d", r)
				}
				if calls.Add(1)%256 == 0 {
					if out, r := slowOut(slow, uintptr(g), 500); out != uintptr(g) || r != 0 {
						return fmt.Errorf("a slow call beside: %d, %d", out, r)
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

// TestAllThreads has Go make a system call on all of its threads, by which it also
// changes the user, while calls are made. Programs with cgo cannot, nor those with purego.
func TestAllThreads(t *testing.T) {
	if Engine != "static" {
		t.Skip("Go makes no system call on all threads where there is a C runtime")
	}
	// C may let glibc's own signals through, one of which Go uses for this.
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
	beside(t, func() {
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

// TestCredentials has a program give up its rights: C has none more than Go, whichever
// thread it runs on.
func TestCredentials(t *testing.T) {
	who := cfunc(t, "who")
	const nobody = 65534
	if os.Getenv(childEnv) == "" {
		if Engine != "static" {
			t.Skip("where there is a C runtime it changes all threads")
		}
		if os.Geteuid() != 0 {
			t.Skip("only root may become somebody else")
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
				go func() { // perhaps on another thread, for the first time
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

// TestCancel has C end threads by the signal that glibc has for that, and opens libraries in between.
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

// TestSignalHandled sends the process signals, directed at it as a whole, which Go
// handles, while calls are made: each comes.
func TestSignalHandled(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	defer signal.Stop(c)
	beside(t, func() {
		for i := range rounds(500) {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			select {
			case <-c:
			case <-time.After(10 * time.Second):
				t.Fatalf("signal %d did not come", i)
			}
		}
	})
}

// childDies runs a test in a process of its own that does what, and returns how it ended,
// and what it said.
func childDies(t *testing.T, test, what string, env ...string) (syscall.WaitStatus, string) {
	t.Helper()
	out, err := runChild(t, test, what, env...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%s: %v; the child's output:\n%s", what, err, out)
	}
	return exit.Sys().(syscall.WaitStatus), out
}

// TestSignalEnds sends signals whose default action ends the process, while calls are
// made.
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
	beside(t, func() {
		syscall.Kill(os.Getpid(), syscall.Signal(sig))
		time.Sleep(10 * time.Second)
	})
}

// TestCrash has C code crash: the process ends, and does not hang. In a call on Go's thread Go's runtime
// says what has happened and where.
func TestCrash(t *testing.T) {
	crash, giveUp := cfunc(t, "crash"), cfunc(t, "give_up")
	fns := map[string]uintptr{"crash": crash, "abort": giveUp}
	classes := map[string]Class{"hot": Hot, "setup": Setup}
	if what := os.Getenv(childEnv); what != "" {
		fn, class, _ := strings.Cut(what, " ")
		f := Frame6{Head: Head{Fn: fns[fn]}}
		if class == "beside" {
			beside(t, func() { Call6(unsafe.Pointer(&f), Hot, nil) })
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
			// Go's handler is not for this thread, or could not run on it just then.
			if want := endings[what[:5]]; ws.Signal() != want {
				t.Errorf("%s: status %#x; want %v; the child's output:\n%s", what, ws, want, out)
			}
		case !told || !strings.Contains(out, "TestCrash"):
			t.Errorf("%s: Go's runtime does not say what has happened, and in which function; the child's output:\n%s", what, out)
		}
	}
}

// endings are the signals that end a process where nobody handles them.
var endings = map[string]syscall.Signal{"crash": syscall.SIGSEGV, "abort": syscall.SIGABRT}

// TestStrangeThread sends signals to a thread that is none of Go's and takes all of them: they are
// the process's, and come to those who asked for them.
func TestStrangeThread(t *testing.T) {
	start, do := cfunc(t, "strange_start"), cfunc(t, "strange_do")
	f := Frame6{Head: Head{Fn: start}}
	Call6(unsafe.Pointer(&f), Setup, nil)
	tid := int(f.R)
	if tid == 0 {
		t.Fatal("C makes no thread")
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
		if _, err := Open("libc.so.6"); err != nil { // Go may handle it only now, which is seen then
			t.Fatal(err)
		}
		beside(t, func() {
			for i := range rounds(100) {
				if err := syscall.Tgkill(os.Getpid(), tid, sig); err != nil {
					t.Fatal(err)
				}
				select {
				case <-c:
				case <-time.After(10 * time.Second):
					t.Fatalf("%v: signal %d did not come", sig, i)
				}
			}
		})
		signal.Stop(c)
	}
	nobodys()
	if out, err := runChild(t, "TestStrangeThread", "nobody's", "GODEBUG=asyncpreemptoff=1"); err != nil {
		t.Errorf("without asynchronous preemption: %v; the child's output:\n%s", err, out)
	}
	for what, want := range map[string]syscall.Signal{"crash": syscall.SIGSEGV, "abort": syscall.SIGABRT, fmt.Sprint(int(syscall.SIGTERM)): syscall.SIGTERM} {
		ws, out := childDies(t, "TestStrangeThread", what)
		if told := strings.Contains(out, want.String()) || strings.Contains(out, "SIGSEGV") || strings.Contains(out, "SIGABRT"); ws.Signal() != want && (Engine == "static" || !told) {
			t.Errorf("%s: status %#x; want %v; the child's output:\n%s", what, ws, want, out)
		}
	}
}

// TestForkedEnds has C fork, and sends the child a signal that nobody asked for: it ends. Where the child
// has Go's g, as that of a call on Go's thread, it is Go's handler that ends it.
func TestForkedEnds(t *testing.T) {
	fn := cfunc(t, "child_ended")
	for _, class := range []Class{Hot, Setup} {
		if r, err := Invoke(fn, class, int32(syscall.SIGTERM)); int32(r) != int32(syscall.SIGTERM) || err != nil {
			t.Errorf("%v: the child of C's ended with %d, %v", class, int32(r), err)
		}
	}
}

// TestLastWords ends threads on which a library has something to do when they end, in which it lets
// signals through: Go's part of the thread has ended then.
func TestLastWords(t *testing.T) {
	if Engine != "static" {
		t.Skip("where Go's thread is C's, Go's handler takes a signal for the ended one's, and crashes, with cgo, too")
	}
	last, said := cfunc(t, "last_words"), cfunc(t, "words_said")
	c := make(chan os.Signal, 100)
	signal.Notify(c, syscall.SIGUSR1)
	defer signal.Stop(c)
	for _, sig := range []syscall.Signal{syscall.SIGURG, syscall.SIGUSR1, syscall.SIGCHLD} {
		before, _ := Invoke(said, Hot)
		deadline := time.Now().Add(20 * time.Second)
		for now := before; int32(now)-int32(before) < 3; now, _ = Invoke(said, Hot) {
			if time.Now().After(deadline) {
				t.Fatalf("%v: %d threads have said something", sig, int32(now)-int32(before))
			}
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					runtime.LockOSThread() // and never unlocked: the thread ends
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
		t.Error("no signal came")
	}
}

// TestCoreDump has gdb open the core of a process in which C has crashed.
func TestCoreDump(t *testing.T) {
	crash := cfunc(t, "crash")
	if os.Getenv(childEnv) != "" {
		f := Frame6{Head: Head{Fn: crash}}
		Call6(unsafe.Pointer(&f), Hot, nil)
		return
	}
	gdb, err := exec.LookPath("gdb")
	if err != nil {
		t.Skip("there is no gdb")
	}
	if os.Getenv("PURECU_TEST_EXEC") != "" {
		t.Skip("gdb does not run emulated programs")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	core := filepath.Join(t.TempDir(), "core")
	// gdb runs the program, so that it does not matter where the kernel puts cores.
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

// TestThreadMask has C make a thread in a call of each class: no handler of Go's may run on it in
// a static program, and the maker's own signals stay as they were.
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
			t.Errorf("%v: a thread that C has made takes signals: it has blocked %#x", class, thread)
		}
		if class != Setup && maker&usual != 0 && !(Engine == "static" && runtime.GOARCH == "arm64") {
			t.Errorf("%v: Go's thread has blocked %#x", class, maker)
		}
	}
}

// TestEnvironment changes the environment: a library sees it as it was when the last one was opened.
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

// TestSettings makes calls, and starts a process, under settings of Go's runtime.
func TestSettings(t *testing.T) {
	fn, child := cfunc(t, "query"), cfunc(t, "child")
	if os.Getenv(childEnv) != "" {
		beside(t, func() {
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

// TestSignalsStayGos has a library take signals over: Go's handlers must be there in a
// static program, where others would find no thread-local storage.
func TestSignalsStayGos(t *testing.T) {
	if Engine != "static" {
		t.Skip("libraries may have signals where Go's threads are C's")
	}
	fn := cfunc(t, "handle_signal")
	before := actionOf(t, syscall.SIGUSR2)
	if r, err := Invoke(fn, Hot, int32(syscall.SIGUSR2)); int32(r) != 0 || err != nil {
		t.Fatal(int32(r), err)
	}
	if actionOf(t, syscall.SIGUSR2) == before {
		t.Fatal("nobody has taken the signal over: this test shows nothing")
	}
	// What came between two libraries is seen when the next is opened.
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
	// What POSIX has for it does not even take the signal over for a moment, but ignores it.
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
	// Go has faults handled, whatever C does to them.
	segv := actionOf(t, syscall.SIGSEGV)
	if r, err := Invoke(cfunc(t, "default_signal"), Hot, int32(syscall.SIGSEGV)); int32(r) != 0 || err != nil {
		t.Fatal(int32(r), err)
	}
	reopen()
	if after := actionOf(t, syscall.SIGSEGV); after != segv {
		t.Errorf("the disposition of SIGSEGV is %#x, want %#x", after, segv)
	}
	// Also what the program has asked for since.
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
		t.Error("the signal does not come any more")
	}
}

// sigIgn is the handler of a signal that is ignored.
const sigIgn = 1

// actionOf returns how this process handles a signal, as the kernel has it.
func actionOf(t *testing.T, sig syscall.Signal) (action [4]uint64) {
	t.Helper()
	if _, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0); e != 0 {
		t.Fatal(e)
	}
	return action
}
