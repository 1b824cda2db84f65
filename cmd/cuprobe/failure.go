package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/loader"
)

// reported is an exit status whose reason was already printed.
type reported int

// Error returns a text with the exit status.
func (r reported) Error() string { return "exit status " + strconv.Itoa(int(r)) }

// finish reports a run's error, and returns the exit status.
func (c *invocation) finish(err error) int {
	var r reported
	if err == nil {
		return exitOK
	}
	if errors.As(err, &r) {
		if c.out.err == nil {
			return int(r)
		}
		err = c.out.err
	}
	if c.json && c.out.err == nil {
		_ = c.showJSON(struct {
			Error *failure `json:"error"`
		}{c.failure(err)})
	} else {
		fmt.Fprintln(c.err, "cuprobe: "+c.failure(err).Message)
	}
	return status(err)
}

// status returns the exit status for an error.
func status(err error) int {
	var u usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &u):
		return exitUsage
	case errors.Is(err, cu.ErrNoDriver):
		return exitNoDriver
	case errors.Is(err, cu.ErrNoDevice):
		return exitNoDevice
	}
	return exitFailure
}

// failure is an error in JSON. All fields are always there.
type failure struct {
	// Op is the C function that has failed, or would have been called, or "".
	Op string `json:"op"`
	// Result is the name of the CUresult, such as "CUDA_ERROR_NO_DEVICE", and Code its number. They
	// are "" and 0 without a CUresult.
	Result string `json:"result"`
	Code   int    `json:"code"`
	// Doc is the place in purecu's documentation that explains the error, or "".
	Doc string `json:"doc"`
	// Message is the text that cuprobe prints without -json.
	Message string `json:"message"`
	// Fix is a command or an instruction, or "".
	Fix string `json:"fix"`
}

// failure returns the JSON form of an error. If the driver cannot be opened, it examines the
// machine for it.
func (c *invocation) failure(err error) *failure {
	f := newFailure(err, func() *loader.Report {
		if c.software() {
			return nil
		}
		return c.diagnose(err)
	})
	if c.alternative != "" && (errors.Is(err, cu.ErrNoDriver) || errors.Is(err, cu.ErrNoDevice)) {
		f.Message += ". " + c.alternative
	}
	return f
}

// newFailure returns the JSON form of an error. diagnose examines the machine, and returns nil if that has
// nothing to do with the error.
func newFailure(err error, diagnose func() *loader.Report) *failure {
	f := &failure{Message: err.Error()}
	var e *cu.Error
	if errors.As(err, &e) {
		f.Op, f.Doc = e.Op, e.Doc()
		if e.Result != cu.ResultSuccess { // the driver was called
			f.Result, f.Code, f.Fix = e.Result.Name(), int(e.Result), e.Remedy()
		}
	}
	if errors.Is(err, cu.ErrNoDriver) || errors.Is(err, cu.ErrNoDevice) || f.Op == opInit {
		if r := diagnose(); r != nil {
			f.Message, f.Fix = explain(r, fmt.Sprintf("%s fails with %s (%d)", f.Op, f.Result, f.Code)), r.Verdict().Fix
		}
	}
	return f
}

// opInit is the operation of errors that come from the driver's initialisation.
const opInit = "cuInit"

// explain returns the error of a driver that cannot be opened as one paragraph: the libraries that
// were tried, the problem, and the advice. what is the problem with a library that could be loaded.
func explain(r *loader.Report, what string) string {
	var b strings.Builder
	switch {
	case r.Library != nil:
		fmt.Fprintf(&b, "%s is a driver for CUDA %s, and its %s. ", r.Library.Name, cu.Version(r.Library.Version), what)
	case len(r.Candidates) > 0:
		b.WriteString("no CUDA driver library could be loaded. Tried " +
			sentence(strings.Join(tried(r.Candidates), "; ")))
	default:
		b.WriteString("NVIDIA ships no CUDA driver for " + sentence(r.Platform))
	}
	v := r.Verdict()
	if v.Severity != loader.Fine {
		b.WriteString("Verdict: " + sentence(oneLine(v.Title)))
	}
	if v.Fix != "" {
		b.WriteString("Fix: " + sentence(oneLine(v.Fix)))
	}
	b.WriteString("For more run: cuprobe doctor")
	return b.String()
}

// tried returns the problem of each candidate. Folders without a library are only counted.
func tried(candidates []loader.CandidateFacts) []string {
	var list []string
	absent := 0
	for _, c := range candidates {
		if c.Problem == loader.Absent && strings.ContainsAny(c.Name, `/\`) && len(candidates) > 1 {
			absent++
			continue
		}
		list = append(list, fmt.Sprintf("%s (%s): %s", c.Name, c.Source, oneLine(c.Error)))
	}
	if absent > 0 {
		list = append(list, fmt.Sprintf("and %s of other systems, which do not have it", count(absent, "folder")))
	}
	return list
}

// diagnose examines the machine, and adds the result of opening the driver.
func (c *invocation) diagnose(openErr error) *loader.Report {
	r := c.look()
	addInit(r, openErr)
	return r
}

// look examines the machine.
func (c *invocation) look() *loader.Report {
	var opts []loader.Option
	if path := c.library(); path != "" {
		opts = append(opts, loader.WithLibrary(path))
	}
	r := loader.Diagnose(opts...)
	const program = "the program names"
	if len(r.Findings) > 0 && strings.Contains(r.Findings[0].Title, program) {
		// The user has named the library, and not the program.
		f := &r.Findings[0]
		f.Title = strings.Replace(f.Title, program, c.namedBy+" names", 1)
		f.Fix = "cuprobe doctor -driver auto # searches for NVIDIA's library"
		if !strings.ContainsAny(c.driver, `/\.`) { // perhaps a mistyped name
			f.Fix = "let " + c.namedBy + " name auto, cuda, soft, or the path of a library"
		}
	}
	return r
}

// addInit adds the result of opening the driver to a report. If opening has failed, it makes sure
// that the report contains a fault.
func addInit(r *loader.Report, openErr error) {
	var e *cu.Error
	switch {
	case openErr == nil:
		r.AddInit(int32(cu.ResultSuccess))
		return
	case errors.Is(openErr, errHangs):
		// This is more severe than all other findings.
		f := loader.Finding{Severity: loader.Fault, Title: "the driver hangs when it is opened",
			Detail: oneLine(openErr.Error()), Fix: kernelLog}
		if v := r.Verdict(); v.Severity != loader.Fine {
			f.Detail, f.Fix = f.Detail+"; most likely because "+v.Title, v.Fix
		}
		r.Findings = slices.Insert(r.Findings, 0, f)
		return
	case errors.As(openErr, &e) && e.Op == opInit:
		r.AddInit(int32(e.Result))
	}
	if r.Verdict().Severity != loader.Fine {
		return
	}
	f := loader.Finding{Severity: loader.Fault, Title: "the driver cannot be opened", Detail: oneLine(openErr.Error()),
		Fix: kernelLog}
	if errors.Is(openErr, cu.ErrNoDevice) { // cuInit itself has succeeded
		f.Title, f.Fix = "the driver reports no device", "nvidia-smi -L; env | grep ^CUDA_VISIBLE_DEVICES"
	}
	r.Findings = slices.Insert(r.Findings, 0, f)
}

// kernelLog is a command that shows the messages of the driver's kernel module.
const kernelLog = "sudo dmesg | grep -e NVRM -e Xid"
