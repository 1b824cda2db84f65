package conformance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
)

// This file tests the output of kernels: row E16.

// printed is the output of the kernel in testdata/print.ptx.
const printed = "printed on the device"

// flushers are the functions after which the output of a kernel may appear.
func flushers() []string {
	return []string{"cuStreamQuery", "cuEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize"}
}

// TestE16PrintedByKernels records when the output of a kernel appears: after a query that says the
// kernel is complete, or after a synchronization. It logs the result and asserts nothing. On an
// H200 the output appeared three times of four while an event was polled for 50 ms, and once only
// in cuStreamSynchronize.
func TestE16PrintedByKernels(t *testing.T) {
	all := targets()
	tg := all[len(all)-1]
	if !tg.InC {
		t.Skip("there is no GPU here, and the software driver prints at once")
	}
	cmd, err := command(job{printer, tg})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Skipf("the process that was to print has failed: %v: %.2000s", err, stderr.String())
	}
	calls, appeared := 0, make(map[string]string) // by call, the call before
	call := ""
	var pending []string
	for line := range strings.Lines(stdout.String()) {
		line = strings.TrimSpace(line)
		what, is := strings.CutPrefix(line, answerMark)
		switch {
		case is && strings.HasPrefix(what, "launched "):
			call = strings.TrimPrefix(what, "launched ")
			calls++
		case is:
			for range pending {
				appeared[call] += " after " + what
			}
			pending = nil
		case line == printed:
			pending = append(pending, line)
		case line != "":
			t.Logf("the process wrote %.200q", line)
		}
	}
	if calls == 0 {
		t.Skipf("nothing was printed: %.2000s", stderr.String())
	}
	for _, name := range flushers() {
		if appeared[name] == "" {
			appeared[name] = " never"
		}
		t.Logf("%s: the line appeared%s", name, appeared[name])
	}
}

// print16 runs kernels that print, in a process of its own. It flushes the C library's output
// before each of its own lines.
func print16(l *lab) {
	libc, err := ccall.Open("libc.so.6")
	if err != nil {
		l.t.Fatalf("%v", err)
	}
	fflush, err := libc.Lookup("fflush")
	if err != nil {
		l.t.Fatalf("%v", err)
	}
	tell := func(what string) {
		if _, err := ccall.Invoke(fflush, ccall.Setup, uintptr(0)); err != nil {
			l.t.Fatalf("%v", err)
		}
		fmt.Fprintf(os.Stdout, "\n%s%s\n", answerMark, what)
	}
	f := l.function("testdata/print.ptx", "print_text")
	s, e := l.stream(nonBlocking), l.event(untimed)
	for _, name := range flushers() {
		tell("launched " + name)
		l.must(l.LaunchKernel(l.at, f, 1, 1, 1, 1, 1, 1, 0, s, driver.KernelParams{}))
		l.must(l.EventRecord(l.at, e, s))
		l.must(l.eventually(func() driver.Result { return l.EventQuery(l.at, e) }))
		tell("the first cuEventQuery that said so")
		for range 50 {
			time.Sleep(time.Millisecond)
			l.must(l.EventQuery(l.at, e))
		}
		tell("50 more of them")
		switch name {
		case "cuCtxSynchronize":
			l.must(l.CtxSynchronize(l.at))
		default:
			l.must(l.call(name, args{Event: e, Stream: s}).Result)
		}
		tell(name)
		l.must(l.CtxSynchronize(l.at))
		tell("cuCtxSynchronize at the end")
	}
}
