package behaviour

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/loader"
)

// jobEnv is the environment variable with the job of a child process, which is another run of the
// test binary.
const jobEnv = "PURECU_TEST_BEHAVIOUR"

// connectionsEnv is the environment variable with the number of the GPU's queues. Streams that share
// a queue wait for each other, so there are as many as there can be, unless the variable is set:
// with 16 a process begins three times as fast.
const connectionsEnv = "CUDA_DEVICE_MAX_CONNECTIONS"

// A job says what a child process does.
type job struct {
	Suite  suiteName
	Case   string
	Part   string `json:",omitempty"` // the process of the case: "" or peer
	Target target
}

// peer is the second process of a case.
const peer = "peer"

// A suiteName names a set of cases.
type suiteName string

const (
	suiteRaw  suiteName = "raw"  // through driver.Table
	suiteCu   suiteName = "cu"   // through package cu
	suiteFake suiteName = "fake" // for tests of the code that runs cases
)

// A testCase is a function that makes the steps of a case and reports what the driver answered.
type testCase struct {
	name string
	run  func(job, *reporter)
}

// suites returns the cases of each suite, in the order of the table.
func suites() map[suiteName][]testCase {
	return map[suiteName][]testCase{suiteRaw: rawCases(), suiteCu: cuCases(), suiteFound: foundCases(), suiteFake: fakeCases()}
}

// A target is a driver to run the cases on: a library, or a software driver.
type target struct {
	Name     string
	Library  string `json:",omitempty"` // a path; "" where Software is set, or for the system's
	Software string `json:",omitempty"` // a key of softwareDrivers
	// NoDevice marks a library on a machine without a GPU.
	NoDevice bool `json:",omitempty"`
	// Cusim marks a library that is cusim. It is called like a driver in C, and must survive the
	// calls that software drivers must survive.
	Cusim bool `json:",omitempty"`
}

// softwareDrivers returns the software drivers that must answer like the table. A new software
// driver needs one line here.
func softwareDrivers() map[string]func() driver.Software {
	return map[string]func() driver.Software{
		"cusim": func() driver.Software { return cusim.New(cusim.Devices(2)).Software() },
	}
}

// software returns the function that opens the target's software driver, or nil if there is none.
func (tg target) software() func() driver.Software {
	if tg.Software == stubName {
		return newStub
	}
	return softwareDrivers()[tg.Software]
}

// open returns the calls of the target. No driver function has been called yet.
func (tg target) open() (*driver.Table, error) {
	if tg.Software != "" {
		return driver.NewSoftware(tg.software()()), nil
	}
	lib, err := loader.Open(tg.Library)
	if err != nil {
		return nil, err
	}
	return driver.New(lib), nil
}

// option makes package cu use the target.
func (tg target) option() cu.Option {
	if tg.Software != "" {
		return cu.WithSoftware(driver.Provide(tg.software()()))
	}
	return cu.WithLibrary(tg.Library)
}

// runJob is the child's main function. It returns the exit status.
func runJob(spec string) int {
	var j job
	rep := &reporter{w: os.Stdout}
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		rep.fatal("%s: %v", jobEnv, err)
	}
	if j.Target.Software != "" && j.Target.software() == nil {
		rep.fatal("there is no software driver %s", j.Target.Software)
	}
	for _, c := range suites()[j.Suite] {
		if c.name == j.Case {
			c.run(j, rep)
			rep.send(report{Kind: ended})
			return 0
		}
	}
	rep.fatal("suite %s has no case %s", j.Suite, j.Case)
	return 1
}

// command returns a process for the job. If an emulator runs the test binary, PURECU_TEST_EXEC must
// have the emulator's command line.
func command(ctx context.Context, j job) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	argv := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), exe)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), jobEnv+"="+string(spec),
		// Loading a kernel at its launch may wait for the GPU.
		"CUDA_MODULE_LOADING=EAGER",
		// These are the settings of softwareDrivers, for cusim as a C library.
		"CUSIM_DEVICES=2",
		"GOTRACEBACK=single", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if os.Getenv(connectionsEnv) == "" {
		cmd.Env = append(cmd.Env, connectionsEnv+"=32")
	}
	cmd.WaitDelay = 5 * time.Second
	return cmd, nil
}

// launch does the job in a process of its own. If the process ends badly, the error has the reason
// and the output. If a step was dared, the end of the process is the step's answer, and not an
// error.
func launch(t *testing.T, j job, limit time.Duration) ([]report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd, err := command(ctx, j)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()

	var reports []report
	var noise []byte
	last := "the first step"
	for line := range bytes.Lines(stdout.Bytes()) {
		rep, ok := parseReport(line)
		switch {
		case !ok && len(bytes.TrimSpace(line)) == 0:
			continue // the empty line before each report
		case !ok:
			noise = append(noise, line...)
			continue
		case rep.Step != "":
			last = "step " + rep.Step
		case rep.Kind == skipped, rep.Kind == failed:
			last = string(rep.Kind)
		}
		reports = append(reports, rep)
	}
	if n := len(reports); err != nil && ctx.Err() == nil && n > 0 && reports[n-1].Kind == dared {
		reports[n-1] = report{Kind: answer, Step: reports[n-1].Step, Answer: crash}
		return append(reports, report{Kind: ended}), nil
	}
	complete := len(reports) > 0 && (reports[len(reports)-1].Kind == ended || reports[len(reports)-1].Kind == skipped)
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("the process hung after %s, and was killed after %v", last, limit)
	case err != nil && complete:
		err = fmt.Errorf("the process did everything, and then ended with %w", err)
	case err != nil && len(reports) > 0 && reports[len(reports)-1].Kind == failed:
		err = nil // the report has the reason
	case err != nil:
		err = fmt.Errorf("the process crashed after %s: %w", last, err)
	case !complete:
		err = fmt.Errorf("the process ended after %s, although the case had not ended", last)
	}
	if said := bytes.TrimSpace(append(noise, stderr.Bytes()...)); err != nil && len(said) > 0 {
		const most = 4000
		if len(said) > most {
			said = append(said[:most:most], " …"...)
		}
		err = fmt.Errorf("%w; it said:\n%s", err, said)
	}
	return reports, err
}

// A second is the second process of a case, as the first process uses it.
type second struct {
	rep *reporter
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
	// text is the text of the last report that the process was ready.
	text string
}

// startPeer starts the case's second process, and waits until it is ready.
func startPeer(j job, rep *reporter) *second {
	j.Part = peer
	cmd, err := command(context.Background(), j) // the time limit of the case ends the process
	if err != nil {
		rep.fatal("%v", err)
	}
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		rep.fatal("the second process: %v", err)
	}
	s := &second{rep: rep, cmd: cmd, in: in, out: bufio.NewReader(out)}
	if last := s.forward(); last.Kind != ready {
		rep.fatal("the second process ended early: %v", cmd.Wait())
	}
	return s
}

// forward forwards the second process's steps, until that process is ready or has ended.
func (s *second) forward() (last report) {
	for {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			return report{}
		}
		switch rep, ok := parseReport(line); {
		case !ok || rep.Kind == about:
		case rep.Kind == ready || rep.Kind == ended:
			s.text = cmp.Or(rep.Text, s.text)
			return rep
		default:
			s.rep.send(rep)
		}
	}
}

// sendHandle sends the second process a handle.
func (s *second) sendHandle(h driver.IPCEventHandle) {
	if err := json.NewEncoder(s.in).Encode(h[:]); err != nil {
		s.rep.fatal("the second process does not listen: %v", err)
	}
}

// finish forwards the remaining reports of the second process, until it ends.
func (s *second) finish() {
	last := s.forward()
	if err := s.cmd.Wait(); err != nil || last.Kind != ended {
		s.rep.fatal("the second process ended early: %v", err)
	}
}
