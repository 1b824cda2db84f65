//go:build linux && (amd64 || arm64) && !go1.28 && cu_static && !cgo

package ccall

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

// TestFilter opens a library in a process with a filter of system calls that refuses clone3, as the profiles of some
// container runtimes do. The error says that no thread can be created, and why.
func TestFilter(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		if os.Getenv("PURECU_TEST_EXEC") != "" {
			t.Skip("the filter would be the emulator's")
		}
		if out, err := runChild(t, "TestFilter", "run"); err != nil {
			t.Errorf("%v; the child's output:\n%s", err, out)
		}
		return
	}
	if e := refuse(435, syscall.EPERM); e != 0 { // clone3
		t.Skip("no filter can be set: ", e)
	}
	_, err := Open("libc.so.6")
	if err == nil {
		t.Skip("this glibc does not use clone3")
	}
	if !errors.Is(err, ErrNoThread) || !errors.Is(err, syscall.EPERM) {
		t.Errorf("%v does not match %v and %v", err, ErrNoThread, syscall.EPERM)
	}
}

// refuse makes a system call fail on all threads of the process.
func refuse(number uint32, with syscall.Errno) syscall.Errno {
	const (
		load, jump, end   = 0x20, 0x15, 0x06 // BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
		failed, allowed   = 0x00050000, 0x7fff0000
		setFilter, onAll  = 1, 1
		prSetNoPrivileges = 38
	)
	filter := []syscall.SockFilter{
		{Code: load}, // the number of the call
		{Code: jump, K: number, Jf: 1},
		{Code: end, K: failed | uint32(with)},
		{Code: end, K: allowed},
	}
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, e := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, prSetNoPrivileges, 1, 0, 0, 0, 0); e != 0 {
		return e
	}
	seccomp := map[string]uintptr{"amd64": 317, "arm64": 277}[runtime.GOARCH]
	_, _, e := syscall.RawSyscall(seccomp, setFilter, onAll, uintptr(unsafe.Pointer(&program)))
	return e
}

// TestTrampolineLater asks for the function that C calls while the process has no file descriptor. That is an error of
// this moment only.
func TestTrampolineLater(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		if out, err := runChild(t, "TestTrampolineLater", "run"); err != nil {
			t.Errorf("%v; the child's output:\n%s", err, out)
		}
		return
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	none := old
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, err := Trampoline()
	if e := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, syscall.EMFILE) || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without a descriptor: %v", err)
	}
	if addr, err := Trampoline(); addr == 0 || err != nil {
		t.Errorf("with descriptors again: %#x, %v", addr, err)
	}
}
