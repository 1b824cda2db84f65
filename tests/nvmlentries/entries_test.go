package nvmlentries

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/internal/simnvml"
	"github.com/purecu/purecu/nvml/raw"
)

var (
	record = flag.String("nvmlentries.record", "", "write what the NVML of this machine answers to this `file`")
	pause  = flag.Duration("nvmlentries.pause", 3*time.Second, "what is not the same after this time changes by itself")
)

// These are the environment variables of the processes that make the calls.
const (
	childEnv = "PURECU_NVMLENTRIES_CHILD" // a path, or 1
	phaseEnv = "PURECU_NVMLENTRIES_PHASE" // one of the phases
	fromEnv  = "PURECU_NVMLENTRIES_FROM"  // the number of the first call
	toEnv    = "PURECU_NVMLENTRIES_TO"    // one more than that of the last
)

// The phases of a library.
const (
	before      = "before" // it is not yet initialized
	initialized = "initialized"
	after       = "after" // it has been shut down
)

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		os.Exit(child(name))
	}
	if flag.Parse(); *record != "" {
		if err := recordTable("1"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child makes the calls. It writes the number of a call before it, and what it answered after it.
func child(name string) int {
	if name == "1" {
		name = ""
	}
	lib, err := raw.Open(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	m := &machine{lib: lib}
	phase := os.Getenv(phaseEnv)
	if phase != before {
		if m, err = newMachine(lib, time.Sleep); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if phase == after {
		lib.Shutdown()
	}
	from, _ := strconv.Atoi(os.Getenv(fromEnv))
	to, _ := strconv.Atoi(os.Getenv(toEnv))
	list := callsIn(phase)
	for i := from; i < min(to, len(list)); i++ {
		c := list[i]
		fmt.Printf("%d\n", i)
		fmt.Printf("=%s\n", m.ask(c))
	}
	return 0
}

// The times that a process may take to start, and a call may take.
const (
	starting = time.Minute
	stuck    = 10 * time.Second
)

// answers makes all calls of a phase, by as many processes as there are processors.
func answers(name, phase string) ([]string, error) {
	list := make([]string, len(callsIn(phase)))
	var parts sync.WaitGroup
	errs := make([]error, runtime.NumCPU())
	for i := range errs {
		from, to := len(list)*i/len(errs), len(list)*(i+1)/len(errs)
		parts.Go(func() { errs[i] = answerPart(name, phase, from, list[from:to]) })
	}
	parts.Wait()
	return list, errors.Join(errs...)
}

// answerPart makes the calls from a number on in processes, of which each continues where the one before it died.
func answerPart(name, phase string, from int, list []string) error {
	for done := 0; done < len(list); {
		ctx, cancel := context.WithCancel(context.Background())
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+name, phaseEnv+"="+phase, fromEnv+"="+strconv.Itoa(from+done),
			toEnv+"="+strconv.Itoa(from+len(list)))
		var said strings.Builder
		cmd.Stderr = &said
		pipe, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			cancel()
			return err
		}
		watch := time.AfterFunc(starting, cancel)
		lines := bufio.NewScanner(pipe)
		lines.Buffer(nil, 1<<20)
		begun := false
		for lines.Scan() {
			watch.Reset(stuck)
			answer, ended := strings.CutPrefix(lines.Text(), "=")
			if begun = !ended; ended {
				list[done] = answer
				done++
			}
		}
		hung := !watch.Stop()
		cancel()
		err = cmd.Wait()
		switch {
		case done == len(list):
		case !begun:
			return fmt.Errorf("the process ended before a call: %w\n%s", err, said.String())
		case hung:
			list[done] = "hangs"
			done++
		default:
			list[done] = "crash"
			done++
		}
	}
	return nil
}

// recordTable writes the table of what the NVML of this machine answers. name is its path, or 1.
func recordTable(name string) error {
	var out strings.Builder
	for _, phase := range []string{before, initialized, after} {
		all := callsIn(phase)
		first, err := answers(name, phase)
		second := first
		if phase == initialized && err == nil {
			time.Sleep(*pause)
			second, err = answers(name, phase)
		}
		if err != nil {
			return err
		}
		rows := make(map[string]string, len(all))
		for i, c := range all {
			if first[i] != second[i] {
				first[i] = "~" + first[i]
			}
			rows[c.String()] = first[i]
		}
		for _, c := range all {
			if answer := rows[c.String()]; !follows(c, answer, phase, rows) {
				fmt.Fprintf(&out, "%s\t%v\t%s\n", phase, c, answer)
			}
		}
	}
	return os.WriteFile(*record, []byte(out.String()), 0o666)
}

// follows reports whether an answer is the same as that for a number that stands for others.
func follows(c call, answer, phase string, rows map[string]string) bool {
	if phase != initialized {
		return answer == "1" // NVML_ERROR_UNINITIALIZED
	}
	for general := range simnvml.General(c.texts()) {
		if found, ok := rows[c.method+"\t"+strings.Join(general, " ")]; ok {
			return found == answer
		}
	}
	return false
}

func TestCalls(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range allCalls() {
		if seen[c.String()] {
			t.Errorf("%v is there twice", c)
		}
		seen[c.String()] = true
	}
	t.Log(len(seen), "calls")
}
