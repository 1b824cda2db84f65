package memory_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

const ipcMemEnv = "PURECU_TEST_IPC_MEM"

// ipcMemPeer is another process, which says when it has done a step and waits to be told to go on.
type ipcMemPeer struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startIPCMemPeer starts another process, which ends before the test does.
func startIPCMemPeer(t *testing.T, env []string, args ...string) *ipcMemPeer {
	t.Helper()
	p := &ipcMemPeer{t: t, cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), os.Stderr
	p.in = Need(p.cmd.StdinPipe())(t)
	p.out = bufio.NewScanner(Need(p.cmd.StdoutPipe())(t))
	NoErr(t, p.cmd.Start())
	t.Cleanup(func() {
		p.in.Close()
		for p.out.Scan() {
			t.Log("the other process: ", p.out.Text())
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("the other process: %v", err)
		}
	})
	return p
}

// until reads what the process writes until a line with a prefix, and returns the rest of that line.
func (p *ipcMemPeer) until(prefix string) string {
	p.t.Helper()
	for p.out.Scan() {
		if rest, found := strings.CutPrefix(p.out.Text(), prefix); found {
			return strings.TrimSpace(rest)
		}
		p.t.Log("the other process: ", p.out.Text())
	}
	p.t.Fatalf("the other process ended before it wrote %q", prefix)
	return ""
}

func (p *ipcMemPeer) goOn() { fmt.Fprintln(p.in) }

// TestGPUIPCMem opens the memory of another process. As cuMemFree there is followed by uses here, it
// also shows what CUDA does not define: the memory stays.
func TestGPUIPCMem(t *testing.T) {
	if text := os.Getenv(ipcMemEnv); text != "" {
		importIPCMem(t, text)
		return
	}
	gpu := GPUContext(t)
	small, m := Need(gpu.Alloc(5))(t), Need(gpu.Alloc(2<<20))(t)
	defer small.Close()
	NoErr(t, small.CopyFrom([]byte{1, 2, 3, 4, 5}))
	NoErr(t, m.Memset(7))
	h, err := memory.IPCHandleOf(small)
	if errors.Is(err, ResultNotSupported) && runtime.GOOS != "linux" {
		NoErr(t, m.Close())
		t.Skip(err)
	}
	NoErr(t, err)
	large := Need(memory.IPCHandleOf(m))(t)
	if again := Need(memory.IPCHandleOf(m))(t); again != large || large == h {
		t.Errorf("the handles are %v, %v and %v", h, large, again)
	}
	if _, err := memory.OpenIPC(gpu, h); !errors.Is(err, ErrSameProcess) || !errors.Is(err, ResultInvalidContext) {
		t.Errorf("opened in the same process: %v", err)
	}
	args := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	p := startIPCMemPeer(t, []string{ipcMemEnv + "=" + h.String() + " " + large.String()}, args...)
	p.until("WRITTEN")
	got := make([]byte, 5)
	NoErr(t, small.CopyTo(got))
	if !bytes.Equal(got, []byte{1, 9, 9, 4, 5}) {
		t.Errorf("after the other process's memset: %d", got)
	}
	NoErr(t, m.Close())
	p.goOn()
	p.until("DONE")
}

// importIPCMem is the other process.
func importIPCMem(t *testing.T, text string) {
	var h, large memory.IPCHandle
	first, second, _ := strings.Cut(text, " ")
	NoErr(t, h.UnmarshalText([]byte(first)))
	NoErr(t, large.UnmarshalText([]byte(second)))
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()

	m := Need(memory.OpenIPC(gpu, h))(t)
	got := make([]byte, 5)
	NoErr(t, m.CopyTo(got))
	if m.Size() != 5 || !bytes.Equal(got, []byte{1, 2, 3, 4, 5}) {
		t.Errorf("opened: %d bytes, %d", m.Size(), got)
	}
	twice := Need(memory.OpenIPC(gpu, h))(t)
	if twice.Handle() != m.Handle() {
		t.Errorf("opened again at %#x, not at %#x", twice.Handle(), m.Handle())
	}
	NoErr(t, m.Close())
	NoErr(t, s.Memset(twice.Span(1, 2), 9))
	NoErr(t, s.Synchronize())
	if _, err := memory.IPCHandleOf(twice); !errors.Is(err, ErrImported) {
		t.Errorf("a handle of opened memory: %v", err)
	}
	beside := Need(gpu.Device().NewContext(0))(t)
	defer beside.Close()
	_, err := memory.OpenIPC(beside, h)
	if !errors.Is(err, ResultInvalidHandle) || !strings.Contains(err.Error(), "another context") {
		t.Errorf("opened in another context: %v", err)
	}
	_, err = memory.OpenIPC(gpu, memory.IPCHandle{1})
	if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "not a handle of memory") {
		t.Errorf("opened by no handle: %v", err)
	}
	NoErr(t, twice.Close())
	if err := twice.Memset(1); !errors.Is(err, ErrClosed) {
		t.Errorf("a memset after Close: %v", err)
	}

	m = Need(memory.OpenIPC(gpu, large))(t)
	fmt.Println("WRITTEN")
	bufio.NewReader(os.Stdin).ReadString('\n') // now it is freed there
	got = make([]byte, m.Size())
	NoErr(t, m.CopyTo(got))
	if m.Size() != 2<<20 || got[0] != 7 || got[len(got)-1] != 7 {
		t.Errorf("%d bytes, which are %d and %d", m.Size(), got[0], got[len(got)-1])
	}
	tl := Need(gpu.NewTimeline(0))(t)
	defer tl.Close()
	NoErr(t, tl.Block(s, 1))
	NoErr(t, s.Memset(m, 8))
	m = nil // no call of this package closes it before the work is done: see OpenNeverWait
	pending := func() bool { return core.Of(gpu).Context.Deferred.Pending() }
	if !Eventually(pending) {
		t.Error("abandoned memory is not deferred")
	}
	NoErr(t, tl.Set(1))
	NoErr(t, gpu.Synchronize()) // this closes it
	if pending() {
		t.Error("abandoned memory is not closed")
	}
	fmt.Println("DONE")
}

// ipcMemPython shares memory by the calls of CUDA, which other languages use.
const ipcMemPython = `
import ctypes as c, sys
cu = c.CDLL("libcuda.so.1")
class Handle(c.Structure): _fields_ = [("b", c.c_ubyte * 64)]
def ok(r):
    if r: sys.exit("error %d" % r)
ctx, own, theirs, h = c.c_void_p(), c.c_uint64(), c.c_uint64(), Handle()
ok(cu.cuInit(0)); ok(cu.cuDevicePrimaryCtxRetain(c.byref(ctx), 0)); ok(cu.cuCtxSetCurrent(ctx))
ok(cu.cuMemAlloc_v2(c.byref(own), c.c_size_t(1000))); ok(cu.cuMemsetD8_v2(own, 3, c.c_size_t(1000)))
ok(cu.cuIpcGetMemHandle(c.byref(h), own))
print("HANDLE", bytes(h.b).hex(), flush=True)
c.memmove(c.byref(h), bytes.fromhex(sys.stdin.readline()), 64)
ok(cu.cuIpcOpenMemHandle_v2(c.byref(theirs), h, 1))
ok(cu.cuMemcpyDtoD_v2(theirs, own, c.c_size_t(1000))); ok(cu.cuCtxSynchronize())
ok(cu.cuIpcCloseMemHandle(theirs))
print("DONE", flush=True)
sys.stdin.readline()
`

// TestGPUIPCMemPython shares memory with a program in Python, in both directions.
func TestGPUIPCMemPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || os.Getenv(GPUEnv) != "1" {
		t.Skip("it needs a GPU and Python")
	}
	gpu := GPUContext(t)
	p := startIPCMemPeer(t, nil, python, "-c", ipcMemPython)
	var h memory.IPCHandle
	NoErr(t, h.UnmarshalText([]byte(p.until("HANDLE"))))
	theirs := Need(memory.OpenIPC(gpu, h))(t)
	if theirs.Size() != 1000 {
		t.Errorf("Python's memory has %d bytes", theirs.Size())
	}
	_, err = theirs.WriteAt([]byte{5}, 999)
	NoErr(t, err)
	own := Need(gpu.Alloc(1000))(t)
	defer own.Close()
	fmt.Fprintln(p.in, Need(memory.IPCHandleOf(own))(t))
	p.until("DONE")
	got := make([]byte, 1000)
	NoErr(t, own.CopyTo(got))
	if got[0] != 3 || got[999] != 5 {
		t.Errorf("Python has copied %d … %d", got[0], got[999])
	}
	NoErr(t, theirs.Close())
	p.goOn()
}
