package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// args are the arguments of functions of the event unit.
type args struct {
	Event, End driver.Event
	Stream     driver.Stream
	Context    driver.Context
	Flags      uint32
	Handle     driver.IPCEventHandle
}

// answer is the result of such a function.
type answer struct {
	Result  driver.Result
	Event   driver.Event
	Stream  driver.Stream
	Context driver.Context
	Handle  driver.IPCEventHandle
}

// A function is a driver function with its name in C.
type function struct {
	name string
	call func(l *lab, at driver.At, a args) answer
}

// unit returns the functions of the event unit.
func unit() []function {
	plain := func(name string, f func(l *lab, at driver.At, a args) driver.Result) function {
		return function{name, func(l *lab, at driver.At, a args) answer { return answer{Result: f(l, at, a)} }}
	}
	return []function{
		{"cuEventCreate", func(l *lab, at driver.At, a args) answer {
			e, r := l.EventCreate(at, a.Flags)
			return answer{Result: r, Event: e}
		}},
		plain("cuEventDestroy", func(l *lab, at driver.At, a args) driver.Result { return l.EventDestroy(at, a.Event) }),
		plain("cuEventRecord", func(l *lab, at driver.At, a args) driver.Result { return l.EventRecord(at, a.Event, a.Stream) }),
		plain("cuEventRecordWithFlags", func(l *lab, at driver.At, a args) driver.Result {
			return l.EventRecordWithFlags(at, a.Event, a.Stream, a.Flags)
		}),
		plain("cuEventQuery", func(l *lab, at driver.At, a args) driver.Result { return l.EventQuery(at, a.Event) }),
		plain("cuEventSynchronize", func(l *lab, at driver.At, a args) driver.Result { return l.EventSynchronize(at, a.Event) }),
		plain("cuEventElapsedTime", func(l *lab, at driver.At, a args) driver.Result {
			_, r := l.EventElapsedTime(at, a.Event, a.End)
			return r
		}),
		plain("cuEventElapsedTime_v2", func(l *lab, at driver.At, a args) driver.Result {
			_, r := l.EventElapsedTimeV2(at, a.Event, a.End)
			if l.Missing(r) != nil { // before CUDA 12.8
				_, r = l.EventElapsedTime(at, a.Event, a.End)
			}
			return r
		}),
		plain("cuStreamWaitEvent", func(l *lab, at driver.At, a args) driver.Result {
			return l.StreamWaitEvent(at, a.Stream, a.Event, a.Flags)
		}),
		plain("cuCtxRecordEvent", func(l *lab, at driver.At, a args) driver.Result {
			return l.CtxRecordEvent(at, a.Context, a.Event)
		}),
		plain("cuCtxWaitEvent", func(l *lab, at driver.At, a args) driver.Result {
			return l.CtxWaitEvent(at, a.Context, a.Event)
		}),
		{"cuIpcGetEventHandle", func(l *lab, at driver.At, a args) answer {
			h, r := l.IpcGetEventHandle(at, a.Event)
			return answer{Result: r, Handle: h}
		}},
		{"cuIpcOpenEventHandle", func(l *lab, at driver.At, a args) answer {
			e, r := l.IpcOpenEventHandle(at, a.Handle)
			return answer{Result: r, Event: e}
		}},
	}
}

// others returns the other functions that a test may request of a process.
func others() []function {
	plain := func(name string, f func(l *lab, at driver.At, a args) driver.Result) function {
		return function{name, func(l *lab, at driver.At, a args) answer { return answer{Result: f(l, at, a)} }}
	}
	return []function{
		{"cuCtxGetCurrent", func(l *lab, at driver.At, _ args) answer {
			c, r := l.CtxGetCurrent(at)
			return answer{Result: r, Context: c}
		}},
		{"cuStreamCreate", func(l *lab, at driver.At, a args) answer {
			s, r := l.StreamCreate(at, a.Flags)
			return answer{Result: r, Stream: s}
		}},
		plain("cuStreamDestroy", func(l *lab, at driver.At, a args) driver.Result { return l.StreamDestroy(at, a.Stream) }),
		plain("cuStreamQuery", func(l *lab, at driver.At, a args) driver.Result { return l.StreamQuery(at, a.Stream) }),
		plain("cuStreamSynchronize", func(l *lab, at driver.At, a args) driver.Result { return l.StreamSynchronize(at, a.Stream) }),
		plain("cuStreamBeginCapture", func(l *lab, at driver.At, a args) driver.Result {
			return l.StreamBeginCapture(at, a.Stream, relaxed)
		}),
		plain("cuStreamEndCapture", func(l *lab, at driver.At, a args) driver.Result { return l.end(a.Stream) }),
		{inDestroyed + "cuEventCreate", func(l *lab, _ driver.At, _ args) answer {
			return l.inDestroyedContext(func(at driver.At, _ driver.Event) driver.Result { _, r := l.EventCreate(at, timed); return r })
		}},
		{inDestroyed + "cuEventRecord", func(l *lab, _ driver.At, _ args) answer {
			return l.inDestroyedContext(func(at driver.At, e driver.Event) driver.Result { return l.EventRecord(at, e, legacy) })
		}},
		{inDestroyed + "cuStreamQuery", func(l *lab, _ driver.At, _ args) answer {
			return l.inDestroyedContext(func(at driver.At, _ driver.Event) driver.Result { return l.StreamQuery(at, legacy) })
		}},
		{inDestroyed + "cuCtxSynchronize", func(l *lab, _ driver.At, _ args) answer {
			return l.inDestroyedContext(func(at driver.At, _ driver.Event) driver.Result { return l.CtxSynchronize(at) })
		}},
		plain("a kernel that writes to an illegal address", func(l *lab, at driver.At, a args) driver.Result {
			f := l.function("../behaviour/testdata/illegal_address.ptx", "illegal_address")
			l.must(l.LaunchKernel(at, f, 1, 1, 1, 1, 1, 1, 0, a.Stream, driver.KernelParams{}))
			return l.StreamSynchronize(at, a.Stream)
		}),
	}
}

// find returns the function of a name.
func find(name string) (f function, found bool) {
	list := append(unit(), others()...)
	i := slices.IndexFunc(list, func(f function) bool { return f.name == name })
	if i < 0 {
		return f, false
	}
	return list[i], true
}

// call makes a call on the thread of the test.
func (l *lab) call(name string, a args) answer {
	l.t.Helper()
	f, found := find(name)
	if !found {
		l.t.Fatalf("there is no function %s", name)
	}
	return f.call(l, l.at, a)
}

// end ends a capture, and destroys its graph.
func (l *lab) end(s driver.Stream) driver.Result {
	g, r := l.StreamEndCapture(l.at, s)
	if r == ok {
		r = l.GraphDestroy(l.at, g)
	}
	return r
}

// jobEnv is the environment variable with the job of a process that a test starts from its own
// binary.
const jobEnv = "PURECU_TEST_CONFORMANCE"

// A job says what such a process does, and on which driver.
type job struct {
	Do     jobName
	Target target
}

type jobName string

const (
	serve     jobName = "serve"      // make the calls that the test requests
	serveBare jobName = "serve bare" // make them before cuInit
	printer   jobName = "print"      // see E16

	shareEvents jobName = "share events" // make calls of package cu; see beside
)

// process is the tb of a process that a test starts.
type process struct{ cleanups []func() }

func (p *process) Helper()                           {}
func (p *process) Cleanup(f func())                  { p.cleanups = append(p.cleanups, f) }
func (p *process) Logf(format string, args ...any)   { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (p *process) Errorf(format string, args ...any) { p.Logf(format, args...) }
func (p *process) Fatalf(format string, args ...any) { p.Logf(format, args...); os.Exit(1) }

// runJob is the main function of such a process. It returns the exit status.
func runJob(spec string) int {
	p := new(process)
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		p.Fatalf("%s: %v", jobEnv, err)
	}
	switch j.Do {
	case serve:
		newLab(p, j.Target).serve()
	case serveBare:
		openLab(p, j.Target).serve()
	case shareEvents:
		serveBeside(p, j.Target)
	case printer:
		print16(newLab(p, j.Target))
	default:
		p.Fatalf("what is %q?", j.Do)
	}
	// Nothing is freed: the process ends, and its context may have a sticky error.
	return 0
}

// request is a request for a call.
type request struct {
	Name string
	Args args
}

// answerMark is the prefix of answers, because a driver may print other lines.
const answerMark = "purecu-conformance "

// serve makes the requested calls until there are no more.
func (l *lab) serve() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var q request
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			l.t.Fatalf("%v", err)
		}
		a, err := json.Marshal(l.call(q.Name, q.Args))
		if err != nil {
			l.t.Fatalf("%v", err)
		}
		fmt.Printf("\n%s%s\n", answerMark, a)
	}
}

// command returns a process for a job. If an emulator runs the test binary, PURECU_TEST_EXEC must
// have the emulator's command line.
func command(j job) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	argv := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), exe)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), jobEnv+"="+string(spec), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return cmd, nil
}

// A peer is another process with a driver of the same kind.
type peer struct {
	l       *lab
	in      *json.Encoder
	answers chan answer // closed when there are no more
}

// peer starts another process. It uses the machine's time, because no test could move its virtual
// time. It ends with the test.
func (l *lab) peer(do jobName) *peer {
	l.t.Helper()
	tg := l.tg
	tg.Virtual = false
	cmd, err := command(job{do, tg})
	if err != nil {
		l.t.Fatalf("%v", err)
	}
	var text strings.Builder
	cmd.Stderr = &text
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		l.t.Fatalf("%v", err)
	}
	p := &peer{l, json.NewEncoder(in), make(chan answer, 1)}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		defer close(p.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line, is := strings.CutPrefix(lines.Text(), answerMark)
			var a answer
			if is && json.Unmarshal([]byte(line), &a) == nil {
				p.answers <- a
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	l.later(func() {
		_ = in.Close() // ends the process
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		for range p.answers {
			// Discard the remaining answers.
		}
		<-heard
		if err := cmd.Wait(); err != nil {
			l.t.Errorf("the other process: %v: %.2000s", err, text.String())
		}
		kill.Stop()
	})
	return p
}

// begin requests a call that may wait.
func (p *peer) begin(name string, a args) {
	p.l.t.Helper()
	if err := p.in.Encode(request{name, a}); err != nil {
		p.l.t.Fatalf("the other process does not listen: %v", err)
	}
}

// answer waits for the answer.
func (p *peer) answer(limit time.Duration) (a answer, came bool) {
	end := time.Now().Add(limit)
	for {
		select {
		case a, came = <-p.answers:
			return a, came
		case <-time.After(time.Millisecond):
			p.l.settle()
		}
		if time.Now().After(end) {
			return a, false
		}
	}
}

// call makes a call in the other process.
func (p *peer) call(name string, a args) answer {
	p.l.t.Helper()
	p.begin(name, a)
	got, came := p.answer(2 * patience) // the first call waits for the start of the process
	if !came {
		p.l.t.Fatalf("the other process does not answer: %s", name)
	}
	return got
}

// want makes a call in the other process, and expects a result.
func (p *peer) want(what, name string, a args, want driver.Result) answer {
	p.l.t.Helper()
	got := p.call(name, a)
	p.l.want("the other process: "+what+": "+name, want, got.Result)
	return got
}

// complete expects that an event becomes complete in the other process.
func (p *peer) complete(what string, e driver.Event) {
	p.l.t.Helper()
	p.l.completes("the other process: "+what, func() driver.Result { return p.call("cuEventQuery", args{Event: e}).Result })
}

// export returns an event that processes can share, and its handle.
func (l *lab) export(t *testing.T, flags uint32) (driver.Event, driver.IPCEventHandle) {
	l.t.Helper()
	e := l.event(interprocess | flags)
	h, r := l.IpcGetEventHandle(l.at, e)
	if r == driver.ResultNotSupported {
		t.Skip("processes cannot share events on this system")
	}
	l.must(r)
	return e, h
}
