// Tally reads the output of go test -json on standard input, prints what a person needs of it, and
// counts tests.
//
//	go test -json ./... 2>&1 | tally STEP EXPECTED TOTALS
//
// EXPECTED is the file of expected skips; its head explains the format. Tally appends a line
// "passed failed skipped" to the file TOTALS. It exits with status 1 if a test failed, if a test
// was skipped unexpectedly, or if no test ran.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

const module = "github.com/purecu/purecu/"

// An event is one line of go test -json; see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// An expectation is one line of EXPECTED.
type expectation struct {
	step, test *regexp.Regexp
	reason     string
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: tally STEP EXPECTED TOTALS")
		os.Exit(2)
	}
	expected, err := readExpected(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(2)
	}
	t := tally{step: os.Args[1], expected: expected, output: map[string]*strings.Builder{}, broken: map[string]bool{}}
	err = t.read(os.Stdin)
	if err == nil {
		err = appendLine(os.Args[3], fmt.Sprintln(t.passed, t.failed, t.skipped))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(2)
	}
	fmt.Printf("%d passed, %d failed, %d skipped in this step\n", t.passed, t.failed, t.skipped)
	if t.passed == 0 {
		fmt.Println("FAILED: no test ran")
	}
	if t.failed > 0 || t.unexpected > 0 || t.passed == 0 {
		os.Exit(1)
	}
}

type tally struct {
	step     string
	expected []expectation

	passed, failed, skipped, unexpected int

	output map[string]*strings.Builder // of each test, and of each package itself
	broken map[string]bool             // packages with a failed test
}

func (t *tally) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Print(line) // not from go test, such as a warning
			} else {
				t.event(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) event(e event) {
	name := strings.TrimPrefix(e.Package, module) + "." + e.Test
	switch e.Action {
	case "build-output":
		fmt.Print(e.Output)
	case "output":
		if t.output[name] == nil {
			t.output[name] = new(strings.Builder)
		}
		t.output[name].WriteString(e.Output)
	case "pass", "fail", "skip":
		output := ""
		if b := t.output[name]; b != nil {
			output = b.String()
			delete(t.output, name)
		}
		if e.Test == "" {
			t.pkg(e, output)
		} else {
			t.test(e, name, output)
		}
	}
}

// test counts the end of a test or subtest.
func (t *tally) test(e event, name, output string) {
	switch e.Action {
	case "pass":
		t.passed++
	case "fail":
		t.failed++
		t.broken[e.Package] = true
		fmt.Printf("FAILED %s\n%s", name, output)
	case "skip":
		t.skipped++
		said := reason(output)
		for _, x := range t.expected {
			if x.step.MatchString(t.step) && x.test.MatchString(name) {
				fmt.Printf("skipped %s: %s (expected: %s)\n", name, said, x.reason)
				return
			}
		}
		t.unexpected++
		fmt.Printf("FAILED %s was skipped, and that is not expected: %s\n", name, said)
	}
}

// pkg prints the end of a package. A package that fails outside of its tests counts as one failure:
// it does not compile, or its TestMain fails.
func (t *tally) pkg(e event, output string) {
	if e.Action == "fail" {
		if !t.broken[e.Package] {
			t.failed++
		}
		fmt.Print(output)
		// A panic or a timeout can end a test without an event for its end.
		for name, b := range t.output {
			if strings.HasPrefix(name, strings.TrimPrefix(e.Package, module)+".") {
				fmt.Print(b.String())
				delete(t.output, name)
			}
		}
		return
	}
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "ok ") {
			fmt.Print(line)
		}
	}
}

// reason returns the message of a skipped test: its output without the lines of package testing.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// readExpected reads a file of lines "step TAB package.Test TAB reason"; the
// first two are patterns.
func readExpected(file string) ([]expectation, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []expectation
	for n, line := range strings.Split(string(data), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || f[2] == "" {
			return nil, fmt.Errorf("%s:%d: want step, test and reason, with one tab between", file, n+1)
		}
		list = append(list, expectation{pattern(f[0]), pattern(f[1]), f[2]})
	}
	return list, nil
}

// pattern compiles a pattern, in which * matches anything, and a comma means "or".
func pattern(s string) *regexp.Regexp {
	s = strings.NewReplacer(`\*`, ".*", ",", "|").Replace(regexp.QuoteMeta(s))
	return regexp.MustCompile("^(?:" + s + ")$")
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}
