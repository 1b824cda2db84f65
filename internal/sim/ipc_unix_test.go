//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/driver"
)

// ipcPeerEnv is set in the processes that TestIPCProcesses starts from its own binary.
const ipcPeerEnv = "PURECU_TEST_IPC_PEER"

const ipcFlags = driver.CU_EVENT_INTERPROCESS | driver.CU_EVENT_DISABLE_TIMING

// ipcCall is a request to the peer.
type ipcCall struct {
	Do     string
	Event  driver.Event
	Stream driver.Stream
	Handle []byte
	Named  bool
}

// ipcAnswer is the peer's answer.
type ipcAnswer struct {
	Result driver.Result
	Event  driver.Event
	Stream driver.Stream
	Handle []byte
}

const ipcAnswerMark = "answer: "

// ipcPeer executes requests, one in each line, until the end of its input.
func ipcPeer(t *testing.T) {
	r := newRig(t)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var c ipcCall
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		var a ipcAnswer
		switch c.Do {
		case "stream":
			a.Stream, a.Result = r.tab.StreamCreate(r.in, nonBlocking)
		case "export":
			a.Event = r.event(ipcFlags)
			if c.Named {
				r.shareNamed(a.Event)
			}
			var h driver.IPCEventHandle
			h, a.Result = r.tab.IpcGetEventHandle(r.in, a.Event)
			a.Handle = h[:]
		case "open":
			a.Event, a.Result = r.tab.IpcOpenEventHandle(r.in, driver.IPCEventHandle(c.Handle))
		case "query":
			a.Result = r.tab.EventQuery(r.in, c.Event)
		case "record":
			a.Result = r.tab.EventRecord(r.in, c.Event, c.Stream)
		case "wait":
			a.Result = r.tab.StreamWaitEvent(r.in, c.Stream, c.Event, 0)
		case "synchronize":
			a.Result = r.tab.EventSynchronize(r.in, c.Event)
		case "query stream":
			a.Result = r.tab.StreamQuery(r.in, c.Stream)
		case "synchronize stream":
			a.Result = r.tab.StreamSynchronize(r.in, c.Stream)
		case "hold":
			r.d.Hold(uintptr(c.Stream))
		case "release":
			r.d.Release(uintptr(c.Stream))
		case "destroy":
			a.Result = r.tab.EventDestroy(r.in, c.Event)
		default:
			t.Fatalf("unknown request %q", c.Do)
		}
		line, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s%s\n", ipcAnswerMark, line)
	}
}

// ipcProcess is another process with a driver.
type ipcProcess struct {
	t   *testing.T
	cmd *osexec.Cmd
	in  *json.Encoder
	out *bufio.Scanner

	killed bool
}

// startIPCPeer starts a process that lives until the test ends.
func startIPCPeer(t *testing.T) *ipcProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// An emulator that runs the test binary is named by PURECU_TEST_EXEC.
	argv := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), exe, "-test.run=^TestIPCProcesses$")
	cmd := osexec.Command(argv[0], argv[1:]...) // the process ends with its input
	cmd.Env = append(os.Environ(), ipcPeerEnv+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p := &ipcProcess{t: t, cmd: cmd, in: json.NewEncoder(in), out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = in.Close() // ends the process
		for p.out.Scan() {
			// Wait must come after the end of the output.
		}
		if err := cmd.Wait(); err != nil && !p.killed {
			t.Errorf("the other process: %v", err)
		}
	})
	return p
}

// call sends a request to the peer, and returns its answer.
func (p *ipcProcess) call(c ipcCall) ipcAnswer {
	p.t.Helper()
	if err := p.in.Encode(c); err != nil {
		p.t.Fatal(err)
	}
	for p.out.Scan() {
		if line, is := strings.CutPrefix(p.out.Text(), ipcAnswerMark); is {
			var a ipcAnswer
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				p.t.Fatal(err)
			}
			return a
		}
		p.t.Logf("the other process: %s", p.out.Text())
	}
	p.t.Fatalf("the other process ended at %q", c.Do)
	return ipcAnswer{}
}

// on sends a request with an event and a stream to the peer, and checks the result.
func (p *ipcProcess) on(do string, e driver.Event, s driver.Stream, want driver.Result) {
	p.t.Helper()
	if got := p.call(ipcCall{Do: do, Event: e, Stream: s}).Result; got != want {
		p.t.Errorf("the other process: %s: %v, want %v", do, got, want)
	}
}

func (p *ipcProcess) stream() driver.Stream {
	p.t.Helper()
	return p.call(ipcCall{Do: "stream"}).Stream
}

func (p *ipcProcess) open(h driver.IPCEventHandle) driver.Event {
	p.t.Helper()
	a := p.call(ipcCall{Do: "open", Handle: h[:]})
	if a.Result != ok {
		p.t.Fatalf("the other process: open: %v", a.Result)
	}
	return a.Event
}

func (p *ipcProcess) export(named bool) (driver.Event, driver.IPCEventHandle) {
	p.t.Helper()
	a := p.call(ipcCall{Do: "export", Named: named})
	if a.Result != ok {
		p.t.Fatalf("the other process: export: %v", a.Result)
	}
	return a.Event, driver.IPCEventHandle(a.Handle)
}

// kill kills the peer.
func (p *ipcProcess) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	p.killed = true
	_ = p.cmd.Wait() // returns the error of the kill
}

// shareNamed assigns a slot in a file with a name to an event.
func (r *rig) shareNamed(h driver.Event) (path string) {
	r.t.Helper()
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	e, res := r.d.event("test", h)
	r.ok(res)
	f := r.d.mapped(func(f *ipcFile) bool { return f.mine && f.path != "" })
	if f == nil {
		var err error
		if f, err = newIPCFile(true); err != nil {
			r.t.Fatal(err)
		}
	}
	slot, _ := f.take()
	r.d.share(e, f, slot)
	return f.path
}

// export creates an event and its handle.
func (r *rig) export(named bool) (driver.Event, driver.IPCEventHandle) {
	r.t.Helper()
	e := r.event(ipcFlags)
	if named {
		r.shareNamed(e)
	}
	return e, r.handle(e)
}

func (r *rig) handle(e driver.Event) driver.IPCEventHandle {
	r.t.Helper()
	h, res := r.tab.IpcGetEventHandle(r.in, e)
	r.ok(res)
	return h
}

func (r *rig) destroy(events ...driver.Event) {
	r.t.Helper()
	for _, e := range events {
		r.ok(r.tab.EventDestroy(r.in, e))
	}
}

// foreign changes a handle as if it came from another process, so that another driver of this
// process can open it.
func foreign(t testing.TB, b driver.IPCEventHandle) driver.IPCEventHandle {
	t.Helper()
	var h ipcHandle
	if !h.decode(b) {
		t.Fatalf("this is no handle: %x", b)
	}
	h.namespace++
	return h.encode()
}

// open opens a handle of another driver of this process.
func (r *rig) open(h driver.IPCEventHandle) driver.Event {
	r.t.Helper()
	e, res := r.tab.IpcOpenEventHandle(r.in, foreign(r.t, h))
	r.ok(res)
	return e
}

// mappings counts the files that a driver has mapped.
func (r *rig) mappings() int {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	files := make(map[*ipcFile]bool)
	r.d.mapped(func(f *ipcFile) bool {
		files[f] = true
		return false
	})
	return len(files)
}

// file returns the file that an event's slot is in.
func (r *rig) file(h driver.Event) *ipcFile {
	r.t.Helper()
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	e, _ := r.d.event("test", h)
	return e.ipc.file
}

// closed expects that files are not mapped any more.
func (r *rig) closed(files ...*ipcFile) {
	r.t.Helper()
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	for i, f := range files {
		if f.page != nil {
			r.t.Errorf("file %d is still mapped: %d slots are used", i, f.used)
		}
	}
}

// TestIPCProcesses shares events with another process, in files with and without names.
func TestIPCProcesses(t *testing.T) {
	if os.Getenv(ipcPeerEnv) != "" {
		ipcPeer(t)
		return
	}
	for _, named := range []bool{false, true} {
		t.Run(map[bool]string{false: "nameless", true: "named"}[named], func(t *testing.T) {
			for _, c := range []struct {
				name string
				test func(*testing.T, *rig, *ipcProcess, bool)
			}{
				{"they wait", ipcTheyWait},
				{"without calls", ipcWithoutCalls},
				{"we wait", ipcWeWait},
				{"order", ipcOrder},
				{"destroyed", ipcDestroyed},
				{"death", ipcDeath},
				{"storm", ipcStorm},
			} {
				t.Run(c.name, func(t *testing.T) { c.test(t, newRig(t), startIPCPeer(t), named) })
			}
		})
	}
}

// ipcTheyWait makes the other process wait for a record of this process.
func ipcTheyWait(t *testing.T, r *rig, p *ipcProcess, named bool) {
	s := r.stream(nonBlocking)
	e, h := r.export(named)
	theirs, other := p.open(h), p.stream()
	p.on("query", theirs, 0, ok) // it is unrecorded
	r.d.Hold(uintptr(s))
	r.record(e, s)
	p.on("query", theirs, 0, driver.ResultNotReady)
	p.on("wait", theirs, other, ok)
	p.on("query stream", 0, other, driver.ResultNotReady)
	again := p.open(h)
	if again == theirs {
		t.Error("a handle that is opened twice gave the same event")
	}
	p.on("query", again, 0, driver.ResultNotReady)
	r.d.Release(uintptr(s))
	p.on("synchronize", theirs, 0, ok)
	p.on("query", theirs, 0, ok)
	p.on("query", again, 0, ok)
	p.on("synchronize stream", 0, other, ok)
	p.on("destroy", theirs, 0, ok)
	p.on("destroy", again, 0, ok)
	r.destroy(e)
}

// ipcWithoutCalls makes the other process wait for work of this process, without calls of this
// driver.
func ipcWithoutCalls(_ *testing.T, r *rig, p *ipcProcess, named bool) {
	s := r.stream(nonBlocking)
	e := r.event(ipcFlags)
	r.work(s, 20*time.Millisecond)
	r.work(s, 20*time.Millisecond)
	r.record(e, s) // before the event is shared
	if named {
		r.shareNamed(e)
	}
	theirs := p.open(r.handle(e))
	p.on("synchronize", theirs, 0, ok)
	r.work(s, 20*time.Millisecond)
	r.record(e, s)
	p.on("synchronize", theirs, 0, ok)
	r.record(e, s) // on an idle stream
	p.on("query", theirs, 0, ok)
	r.destroy(e)
}

// ipcWeWait makes this process wait for a record of the other process.
func ipcWeWait(_ *testing.T, r *rig, p *ipcProcess, named bool) {
	s := r.stream(nonBlocking)
	e, h := r.export(named)
	theirs, other := p.open(h), p.stream()
	p.on("hold", 0, other, ok)
	p.on("record", theirs, other, ok)
	r.pending(e)
	r.ok(r.tab.StreamWaitEvent(r.in, s, e, 0))
	r.work(s, time.Millisecond)
	after := r.event(0)
	r.record(after, s)
	r.pending(after)
	var wg sync.WaitGroup
	wg.Go(func() { r.want(ok, r.tab.EventSynchronize(r.in, after)) })
	wg.Go(func() { r.want(ok, r.tab.EventSynchronize(r.in, e)) })
	p.on("release", 0, other, ok)
	wg.Wait()
	r.complete(e)
	r.complete(after)
	r.destroy(e, after)
}

// ipcOrder records an event in both processes. The later record completes after the earlier one,
// though its stream is idle.
func ipcOrder(_ *testing.T, r *rig, p *ipcProcess, named bool) {
	s := r.stream(nonBlocking)
	e, h := r.export(named)
	theirs, other := p.open(h), p.stream()
	r.d.Hold(uintptr(s))
	r.record(e, s)
	p.on("record", theirs, other, ok)
	p.on("query stream", 0, other, driver.ResultNotReady)
	r.record(e, r.stream(nonBlocking)) // the third record, which waits for theirs
	p.on("query", theirs, 0, driver.ResultNotReady)
	r.pending(e)
	r.d.Release(uintptr(s))
	p.on("synchronize stream", 0, other, ok)
	p.on("synchronize", theirs, 0, ok)
	r.ok(r.tab.EventSynchronize(r.in, e))
	r.destroy(e)
}

// orphan opens a handle of an event that is gone. The new event is complete and not shared.
func (r *rig) orphan(h driver.IPCEventHandle) {
	r.t.Helper()
	e, res := r.tab.IpcOpenEventHandle(r.in, h)
	r.ok(res)
	r.ok(r.tab.EventQuery(r.in, e))
	_, res = r.tab.IpcGetEventHandle(r.in, e)
	r.want(driver.ResultInvalidHandle, res)
	if m := r.d.Misuses(); len(m) == 0 || m[len(m)-1].Op != "cuIpcOpenEventHandle" {
		r.t.Errorf("no misuse for the event that is gone: %v", m)
	}
	r.destroy(e)
}

// ipcDestroyed destroys the exported event. Opened events continue to work, and the handle can no
// longer be shared.
func ipcDestroyed(t *testing.T, r *rig, p *ipcProcess, named bool) {
	e, h := r.export(named)
	theirs, other := p.open(h), p.stream()
	s := r.stream(nonBlocking)
	file := r.file(e)
	r.d.Hold(uintptr(s))
	r.record(e, s)
	r.destroy(e)
	orphan := p.open(h) // the exported event is destroyed
	p.on("query", orphan, 0, ok)
	p.on("destroy", orphan, 0, ok)
	p.on("query", theirs, 0, driver.ResultNotReady)
	r.d.Release(uintptr(s)) // the record still completes
	p.on("synchronize", theirs, 0, ok)
	p.on("record", theirs, other, ok)
	p.on("synchronize", theirs, 0, ok)
	p.on("destroy", theirs, 0, ok)
	r.closed(file)
}

// ipcDeath kills a process that has exported two events, one of which is pending.
func ipcDeath(t *testing.T, r *rig, p *ipcProcess, named bool) {
	theirPending, pendingHandle := p.export(named)
	theirDone, doneHandle := p.export(named)
	pending, res := r.tab.IpcOpenEventHandle(r.in, pendingHandle)
	r.ok(res)
	done, res := r.tab.IpcOpenEventHandle(r.in, doneHandle)
	r.ok(res)
	s := p.stream()
	p.on("record", theirDone, s, ok)
	p.on("hold", 0, s, ok)
	p.on("record", theirPending, s, ok)
	p.on("query", theirPending, 0, driver.ResultNotReady)
	left := func() (n int) {
		for _, dir := range sharedDirs() {
			sweep(dir)
			var h ipcHandle
			h.decode(doneHandle)
			if _, err := os.Stat(filePath(dir, ipcPrefix, h.file)); err == nil {
				n++
			}
		}
		return n
	}
	if want := map[bool]int{true: 1}[named]; left() != want {
		t.Errorf("a file with a name: %d, want %d", left(), want)
	}
	p.kill()
	for _, h := range []driver.IPCEventHandle{pendingHandle, doneHandle} {
		// The other event keeps the file mapped here, so that the handle is known.
		again, res := r.tab.IpcOpenEventHandle(r.in, h)
		r.ok(res)
		r.destroy(again)
	}
	another := newRig(t)
	another.orphan(doneHandle)

	mine := r.stream(nonBlocking)
	r.complete(done)
	r.record(done, mine)
	r.ok(r.tab.EventSynchronize(r.in, done))
	r.pending(pending)
	r.record(pending, mine) // after a record that never completes
	r.pending(pending)
	r.destroy(done, pending)

	if left() != 0 {
		t.Error("the file has a name still")
	}
}

// ipcStorm records an event in both processes many times.
func ipcStorm(_ *testing.T, r *rig, p *ipcProcess, named bool) {
	e, h := r.export(named)
	theirs, other := p.open(h), p.stream()
	s := r.stream(nonBlocking)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 2000 {
			r.ok(r.tab.EventRecord(r.in, e, s))
		}
	})
	for range 200 {
		p.on("record", theirs, other, ok)
	}
	p.on("synchronize", theirs, 0, ok)
	wg.Wait()
	r.ok(r.tab.EventSynchronize(r.in, e))
	r.ok(r.tab.StreamSynchronize(r.in, s))
	r.complete(e)
	p.on("query", theirs, 0, ok)
	r.destroy(e)
}

// TestIPCGone distinguishes a file that does not exist from a file that cannot be opened.
func TestIPCGone(t *testing.T) {
	for err, want := range map[error]bool{
		errNoIPCFile: true,
		&os.PathError{Op: "stat", Err: syscall.ENOENT}: true,
		&os.PathError{Op: "stat", Err: syscall.EACCES}: false,
		&os.PathError{Op: "open", Err: syscall.EMFILE}: false,
		errors.ErrUnsupported:                          false,
	} {
		if gone(err) != want {
			t.Errorf("%v: gone is %t", err, !want)
		}
	}
}

// TestIPCRefused makes calls for events that cannot be shared.
func TestIPCRefused(t *testing.T) {
	r, other := newRig(t), newRig(t)
	plain := r.event(driver.CU_EVENT_DISABLE_TIMING)
	_, res := r.tab.IpcGetEventHandle(r.in, plain)
	r.want(driver.ResultInvalidHandle, res)
	e, h := r.export(false)
	if h != r.handle(e) {
		t.Error("the event has two handles")
	}
	for _, d := range []*rig{r, other} {
		_, res = d.tab.IpcOpenEventHandle(d.in, h)
		r.want(driver.ResultInvalidContext, res)
	}
	_, res = other.tab.IpcOpenEventHandle(driver.At{}, foreign(t, h))
	r.want(driver.ResultInvalidContext, res)
	for i := range h {
		bad := h
		bad[i] ^= 0x10
		_, res := other.tab.IpcOpenEventHandle(other.in, bad)
		r.want(driver.ResultMapFailed, res)
	}
	for name, change := range map[string]func(*ipcHandle){
		"slot":       func(h *ipcHandle) { h.slot++ },
		"generation": func(h *ipcHandle) { h.generation++ },
		"no slot":    func(h *ipcHandle) { h.slot = uint32(len(ipcPage{}.slots)) },
		"file":       func(h *ipcHandle) { h.file[0]++ },
		"name":       func(h *ipcHandle) { h.fd = -1 },
		"descriptor": func(h *ipcHandle) { h.fd = 0 },
		"process":    func(h *ipcHandle) { h.pid = 1<<31 - 1 },
	} {
		var of ipcHandle
		of.decode(foreign(t, h))
		change(&of)
		if name == "no slot" {
			_, res := other.tab.IpcOpenEventHandle(other.in, of.encode())
			r.want(driver.ResultMapFailed, res)
			continue
		}
		other.orphan(of.encode())
	}
	if n := other.mappings(); n != 0 {
		t.Errorf("%d files are mapped", n)
	}

	opened := other.open(h)
	_, res = other.tab.IpcGetEventHandle(other.in, opened)
	r.want(driver.ResultInvalidHandle, res)
	_, res = other.tab.EventElapsedTime(other.in, opened, opened)
	r.want(driver.ResultInvalidHandle, res)
	s := other.stream(nonBlocking)
	r.ok(other.tab.StreamBeginCapture(other.in, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	r.want(driver.ResultStreamCaptureUnsupported, other.tab.EventRecord(other.in, opened, s))
	g, res := other.tab.StreamEndCapture(other.in, s) // the capture is still valid
	r.ok(res)
	r.ok(other.tab.GraphDestroy(other.in, g))
	r.complete(e)
	mine, theirs := r.file(e), other.file(opened)
	other.destroy(opened)
	r.destroy(e, plain)
	r.closed(mine)
	other.closed(theirs)
}

// TestIPCPendingDestroyed destroys an event during a pending record of another process. Operations
// that wait for the record continue to wait. Without such operations nothing is left.
func TestIPCPendingDestroyed(t *testing.T) {
	for _, c := range []struct {
		name string
		wait func(*rig, driver.Event) (waited func())
	}{
		{"no operation", func(r *rig, e driver.Event) func() {
			r.pending(e)
			file := r.file(e)
			r.destroy(e)
			r.closed(file)
			return func() {}
		}},
		{"a stream", func(r *rig, e driver.Event) func() {
			s := r.stream(nonBlocking)
			r.ok(r.tab.StreamWaitEvent(r.in, s, e, 0))
			file := r.file(e)
			r.destroy(e)
			r.want(driver.ResultNotReady, r.tab.StreamQuery(r.in, s))
			return func() {
				r.ok(r.tab.StreamSynchronize(r.in, s))
				r.closed(file)
			}
		}},
		{"a thread", func(r *rig, e driver.Event) func() {
			var wg sync.WaitGroup
			wg.Go(func() { r.want(ok, r.tab.EventSynchronize(r.in, e)) })
			for waiting := 0; waiting == 0; runtime.Gosched() {
				r.d.mu.Lock()
				waiting = len(r.d.waits)
				r.d.mu.Unlock()
			}
			file := r.file(e)
			r.destroy(e)
			return func() {
				wg.Wait()
				r.closed(file)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, other := newRig(t), newRig(t)
			s := r.stream(nonBlocking)
			e, h := r.export(false)
			r.d.Hold(uintptr(s))
			r.record(e, s)
			waited := c.wait(other, other.open(h))
			r.d.Release(uintptr(s))
			waited()
			r.destroy(e)
		})
	}
}

// TestIPCChain makes two drivers wait for each other's records, without other calls.
func TestIPCChain(t *testing.T) {
	r, other := newRig(t), newRig(t)
	first, h := r.export(false)
	second, back := other.export(false)
	firstThere, secondHere := other.open(h), r.open(back)
	s, there := r.stream(nonBlocking), other.stream(nonBlocking)
	r.work(s, 20*time.Millisecond)
	r.record(first, s)
	other.ok(other.tab.StreamWaitEvent(other.in, there, firstThere, 0))
	other.work(there, 5*time.Millisecond)
	other.record(second, there)
	r.ok(r.tab.EventSynchronize(r.in, secondHere))
	r.complete(first)
	r.destroy(first, secondHere)
	other.destroy(second, firstThere)
}

// FuzzIPCHandle opens arbitrary handles. Only valid handles give an event.
func FuzzIPCHandle(f *testing.F) {
	r := newRig(f)
	exporter := newRig(f)
	e, h := exporter.export(false)
	exporter.destroy(e) // fuzzing uses several processes
	f.Add(h[:], false)
	f.Add(h[:], true)
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		var h driver.IPCEventHandle
		copy(h[:], b)
		var of, same ipcHandle
		if sum { // make the checksum valid
			of.slot, of.generation = uint32(h[12]), uint32(h[16])
			of.pid, of.fd = uint32(os.Getpid()), int32(int8(h[24]))
			of.namespace = uint64(h[32])
			for i := range of.file { // not the identifier of the seed
				of.file[i] = ^h[40+i]
			}
			h = of.encode()
		}
		if of.decode(h) {
			if got := of.encode(); !same.decode(got) || same != of {
				t.Errorf("%x became %x", h, got)
			}
		}
		opened, res := r.tab.IpcOpenEventHandle(r.in, h)
		switch res {
		case driver.ResultMapFailed, driver.ResultInvalidContext:
		case ok:
			if res := r.tab.EventDestroy(r.in, opened); res != ok {
				t.Errorf("%x: destroyed: %v", h, res)
			}
		default:
			t.Errorf("%x: %v, %v", h, opened, res)
		}
	})
}

// TestIPCMany shares more events than a file has slots, and reuses slots.
func TestIPCMany(t *testing.T) {
	r, other := newRig(t), newRig(t)
	s := r.stream(nonBlocking)
	r.d.Hold(uintptr(s))
	const n = 600
	var events, opened []driver.Event
	var handles []driver.IPCEventHandle
	distinct := make(map[driver.IPCEventHandle]bool)
	for range n {
		e, h := r.export(false)
		events, handles, opened = append(events, e), append(handles, h), append(opened, other.open(h))
		distinct[h] = true
	}
	if got := []int{len(distinct), r.mappings(), other.mappings()}; !cmp.Equal(got, []int{n, 3, 3}) {
		t.Errorf("handles, files and files there: %v", got)
	}
	for i, e := range events {
		if i%7 == 0 {
			r.record(e, s)
		}
	}
	for i, e := range opened {
		if i%7 == 0 {
			other.pending(e)
		} else {
			other.complete(e)
		}
	}
	// Slots of opened events are not reused. Other slots are, and their old handles are invalid.
	r.destroy(events[1], events[2])
	other.destroy(opened[1])
	refill := func() map[uint32]bool {
		slots := make(map[uint32]bool)
		var first, h ipcHandle
		first.decode(handles[1])
		for range 255 {
			e, b := r.export(false)
			if h.decode(b); h.file == first.file {
				slots[h.slot] = true
			}
			defer r.destroy(e)
		}
		return slots
	}
	var one, two ipcHandle
	one.decode(handles[1])
	two.decode(handles[2])
	if diff := cmp.Diff(map[uint32]bool{one.slot: true}, refill()); diff != "" {
		t.Errorf("slots that were used again, while the other one was open (-want +got):\n%s", diff)
	}
	other.complete(opened[2])
	other.destroy(opened[2])
	if diff := cmp.Diff(map[uint32]bool{one.slot: true, two.slot: true}, refill()); diff != "" {
		t.Errorf("slots that were used again, when none was open (-want +got):\n%s", diff)
	}
	again, h := r.export(false)
	for _, h := range handles[1:3] {
		other.orphan(foreign(t, h))
	}
	other.destroy(other.open(h))
	r.d.Release(uintptr(s))
	for _, e := range []int{0, 3, n - 1} {
		other.complete(opened[e])
	}
	r.destroy(again)
	r.destroy(events[0])
	r.destroy(events[3:]...)
	other.destroy(opened[0])
	other.destroy(opened[3:]...)
	if n := r.mappings() + other.mappings(); n != 0 {
		t.Errorf("%d files are mapped", n)
	}
}

// TestIPCVirtualTime waits with virtual time for work in real time, and the reverse.
func TestIPCVirtualTime(t *testing.T) {
	virtual, actual := newRig(t, VirtualTime()), newRig(t)
	s, other := virtual.stream(nonBlocking), actual.stream(nonBlocking)
	e, h := virtual.export(false)
	opened := actual.open(h)

	virtual.work(s, time.Hour)
	virtual.record(e, s)
	actual.pending(opened)
	var wg sync.WaitGroup
	wg.Go(func() { actual.want(ok, actual.tab.EventSynchronize(actual.in, opened)) })
	virtual.d.Advance(time.Hour)
	wg.Wait()

	actual.d.Hold(uintptr(other))
	actual.record(opened, other)
	virtual.pending(e)
	virtual.ok(virtual.tab.StreamWaitEvent(virtual.in, s, e, 0))
	virtual.work(s, time.Second)
	after := virtual.event(driver.CU_EVENT_DISABLE_TIMING)
	virtual.record(after, s)
	virtual.d.Advance(time.Minute)
	virtual.pending(after)
	wg.Go(func() { virtual.want(ok, virtual.tab.EventSynchronize(virtual.in, e)) })
	actual.d.Release(uintptr(other))
	wg.Wait()
	virtual.d.Advance(999 * time.Millisecond)
	virtual.pending(after)
	virtual.d.Advance(time.Millisecond)
	virtual.complete(after)
	virtual.destroy(e, after)
	actual.destroy(opened)
}

// TestIPCDevices opens an event on another device, where it belongs to the current
// context.
func TestIPCDevices(t *testing.T) {
	r, other := newRig(t), newRig(t, Devices(2))
	c, res := other.tab.DevicePrimaryCtxRetain(driver.At{}, 1)
	r.ok(res)
	there := driver.At{Context: c}
	e, h := r.export(false)
	opened, res := other.tab.IpcOpenEventHandle(there, foreign(t, h))
	r.ok(res)
	s, res := other.tab.StreamCreate(there, nonBlocking)
	r.ok(res)
	r.want(driver.ResultInvalidHandle, other.tab.EventRecord(there, opened, other.stream(nonBlocking)))
	other.d.Hold(uintptr(s))
	r.ok(other.tab.EventRecord(there, opened, s))
	r.pending(e)
	other.d.Release(uintptr(s))
	r.complete(e)

	// Pending work of a device with a sticky error is never done.
	other.d.Hold(uintptr(s))
	r.ok(other.tab.EventRecord(there, opened, s))
	mine, theirs := r.file(e), other.file(opened)
	other.d.LoseDevice()
	r.want(driver.ResultDeviceUnavailable, other.tab.EventQuery(there, opened))
	r.want(driver.ResultDeviceUnavailable, other.tab.EventDestroy(there, opened))
	r.pending(e)
	r.destroy(e)
	r.closed(mine)
	other.closed(theirs)
}

// TestIPCContext makes whole contexts wait for another process's record.
func TestIPCContext(t *testing.T) {
	r, other := newRig(t), newRig(t)
	s := r.stream(nonBlocking)
	e, h := r.export(false)
	opened := other.open(h)
	r.d.Hold(uintptr(s))
	r.record(e, s)
	r.ok(other.tab.CtxWaitEvent(other.in, other.in.Context, opened))
	local := other.event(0)
	other.record(local, other.stream(nonBlocking))
	other.pending(local)
	r.ok(other.tab.CtxRecordEvent(other.in, other.in.Context, opened)) // the newest record
	r.d.Release(uintptr(s))
	r.ok(other.tab.EventSynchronize(other.in, local))
	r.ok(r.tab.EventSynchronize(r.in, e))
	other.complete(opened)
	other.destroy(opened, local)
	r.destroy(e)
}

// TestIPCPoisoned drops a record that comes after other work.
func TestIPCPoisoned(t *testing.T) {
	r := newRig(t)
	s := r.stream(nonBlocking)
	e, _ := r.export(false)
	r.work(s, time.Hour)
	r.record(e, s)
	file := r.file(e)
	r.d.LoseDevice()
	r.want(driver.ResultDeviceUnavailable, r.tab.EventDestroy(r.in, e))
	r.closed(file)
}

// TestIPCGraphShared shares an event that a graph records, and one that a graph waits for.
func TestIPCGraphShared(t *testing.T) {
	r, other := newRig(t), newRig(t)
	e, h := r.export(false)
	opened := other.open(h)
	graphOf := func(r *rig, add func(driver.At, driver.Graph, []driver.GraphNode, driver.Event) (driver.GraphNode, driver.Result), e driver.Event) driver.GraphExec {
		g, res := r.tab.GraphCreate(r.in, 0)
		r.ok(res)
		_, res = add(r.in, g, nil, e)
		r.ok(res)
		x, res := r.tab.GraphInstantiateWithFlags(r.in, g, 0)
		r.ok(res)
		return x
	}
	records := graphOf(r, r.tab.GraphAddEventRecordNode, e)
	waits := graphOf(other, other.tab.GraphAddEventWaitNode, opened)
	s, there := r.stream(nonBlocking), other.stream(nonBlocking)
	for range 2 {
		r.d.Hold(uintptr(s))
		r.ok(r.tab.GraphLaunch(r.in, records, s))
		other.ok(other.tab.GraphLaunch(other.in, waits, there))
		other.want(driver.ResultNotReady, other.tab.StreamQuery(other.in, there))
		r.d.Release(uintptr(s))
		other.ok(other.tab.StreamSynchronize(other.in, there))
		other.complete(opened)
	}
	r.destroy(e)
	other.destroy(opened)
}

// TestIPCBehindHostFunc records an event after work that follows a host function, without calls of
// the driver.
func TestIPCBehindHostFunc(t *testing.T) {
	r, other := newRig(t), newRig(t)
	s := r.stream(nonBlocking)
	e, h := r.export(false)
	opened := other.open(h)
	r.ok(r.tab.LaunchHostFunc(r.in, s, driver.Callback{Go: func() { time.Sleep(5 * time.Millisecond) }}))
	r.work(s, 5*time.Millisecond)
	r.record(e, s)
	r.ok(other.tab.EventSynchronize(other.in, opened))
	r.destroy(e)
	other.destroy(opened)
}

// TestIPCGraph launches a graph whose events were destroyed.
func TestIPCGraph(t *testing.T) {
	r := newRig(t)
	e, _ := r.export(false)
	g, res := r.tab.GraphCreate(r.in, 0)
	r.ok(res)
	n, res := r.tab.GraphAddEventRecordNode(r.in, g, nil, e)
	r.ok(res)
	_, res = r.tab.GraphAddEventWaitNode(r.in, g, []driver.GraphNode{n}, e)
	r.ok(res)
	x, res := r.tab.GraphInstantiateWithFlags(r.in, g, 0)
	r.ok(res)
	r.destroy(e)
	s := r.stream(nonBlocking)
	r.ok(r.tab.GraphLaunch(r.in, x, s))
	r.ok(r.tab.StreamSynchronize(r.in, s))
}

// TestIPCSweep checks that abandoned files are removed, and no other files.
func TestIPCSweep(t *testing.T) {
	dir := t.TempDir()
	live, err := newIPCFileIn(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer live.close()
	dead, err := newIPCFileIn(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	path := dead.path // the end of the process unlocks the file, and does not remove it
	dead.path = ""
	dead.close()
	target := filepath.Join(t.TempDir(), "target")
	folder, link, other := filepath.Join(dir, ipcPrefix+"folder"), filepath.Join(dir, ipcPrefix+"link"), filepath.Join(dir, "other")
	// A process was killed before it has removed the name of a file of memory.
	memory := filepath.Join(dir, memoryPrefix+"1234")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(other, nil, 0o600), os.WriteFile(target, nil, 0o600),
		os.Symlink(target, link), os.WriteFile(memory, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	paths := []string{live.path, path, folder, link, other, target, memory}
	sweep(dir)
	var there []bool
	for _, path := range paths {
		_, err := os.Lstat(path)
		there = append(there, err == nil)
	}
	if diff := cmp.Diff([]bool{true, false, true, true, true, true, false}, there); diff != "" {
		t.Errorf("existing files of %q (-want +got):\n%s", paths, diff)
	}
}

// TestFilesOfTheKilled kills a process while it creates files that processes share. The next use leaves none of them,
// in any folder.
func TestFilesOfTheKilled(t *testing.T) {
	const env = "PURECU_TEST_KILLED"
	dir := os.Getenv(env)
	if dir != "" {
		for {
			if f, err := createUnnamed(dir, memoryPrefix); err == nil {
				f.Close()
			}
			path := filePath(dir, ipcPrefix, newNumber())
			if f, _, err := createNamed(path); err == nil {
				os.Remove(path)
				f.Close()
			}
		}
	}
	dir = t.TempDir()
	for range 20 {
		c := osexec.Command(os.Args[0], "-test.run=^TestFilesOfTheKilled$")
		c.Env = append(os.Environ(), env+"="+dir)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		c.Process.Kill()
		c.Wait()
	}
	if err := os.WriteFile(filepath.Join(dir, memoryPrefix+"old"), nil, 0o600); err != nil { // of an older version
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	r := newLab(t)
	h, res := r.MemCreate(r.th, granularity, deviceProp(driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), 0)
	r.must(res)
	r.must(r.MemRelease(r.th, h))
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("there are %v, %v", left, err)
	}
}

// TestNoDescriptorIsNoDeath opens the event of a process that lives, without a free descriptor. The event must not
// count as one whose process has ended, which is complete.
func TestNoDescriptorIsNoDeath(t *testing.T) {
	const env = "PURECU_TEST_NO_DESCRIPTOR"
	if os.Getenv(env) == "" {
		c := osexec.Command(os.Args[0], "-test.run=^TestNoDescriptorIsNoDeath$")
		c.Env = append(os.Environ(), env+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	r := newRig(t)
	for _, named := range []bool{false, true} {
		e, h := r.export(named)
		another := newRig(t)
		var old syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		none := old
		none.Cur = 3
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
			t.Fatal(err)
		}
		_, res := another.tab.IpcOpenEventHandle(another.in, foreign(t, h))
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		if res != driver.ResultMapFailed {
			t.Errorf("named %t: %v", named, res)
		}
		if len(another.d.log.lines) == 0 || !strings.Contains(another.d.log.lines[0], "[cusim][E]") ||
			!strings.Contains(another.d.log.lines[0], "ulimit -n") {
			t.Errorf("named %t: the log says %q", named, another.d.log.lines)
		}
		r.destroy(e)
	}
}

// TestIPCAbandoned abandons a driver with a shared event. The garbage collector removes the file.
func TestIPCAbandoned(t *testing.T) {
	path := func() string {
		r := newRig(t)
		return r.shareNamed(r.event(ipcFlags))
	}()
	for range 500 {
		runtime.GC()
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%s is still there", path)
	_ = os.Remove(path)
}

// TestImportOfLargeFile imports the descriptor of a file that is larger than the memory of any device.
func TestImportOfLargeFile(t *testing.T) {
	r := newLab(t)
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(os.Remove(f.Name()), f.Truncate(1<<43)); err != nil {
		t.Skip(err)
	}
	h, res := r.MemImportFromShareableHandle(r.th, driver.HostPtr(f.Fd()),
		driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
	if r.want("the import", driver.ResultUnknown, res); res == ok {
		r.must(r.MemRelease(r.th, h))
	}
}
