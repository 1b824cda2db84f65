package behaviour

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/driver"
)

// These tests check the code that runs cases. They need no driver.

// testRows are rows of a table for these tests.
func testRows(t *testing.T) []row {
	t.Helper()
	rows, err := parseTable(strings.Join([]string{
		"fake\tone\t0\tCUDA_SUCCESS\tyes\t-",
		"fake\ttwo\t600\tCUDA_ERROR_NOT_READY\tyes\tPending",
		"fake\tthree\t=7\t-\tno: the number is incidental\t-",
		"fake\tfour\t1\tCUDA_ERROR_INVALID_VALUE\tlibrary: needs a null pointer\tnone",
		"fake\tCRASH\tsig11\t-\tno: it crashes\tErrClosed 400",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestJudge checks correct reports, and that every error in reports is found.
func TestJudge(t *testing.T) {
	says := func(step, a string) report { return report{Kind: answer, Step: step, Answer: a} }
	leaves := func(step string) report { return report{Kind: left, Step: step, Text: "for a reason"} }
	library := report{Kind: about, Driver: driverInfo{Version: cuda13}}
	soft := report{Kind: about, Driver: driverInfo{Version: cuda13, Software: true}}
	one, two, three, four := says("one", "0"), says("two", "600"), says("three", "=7"), says("four", "1")
	for _, tt := range []struct {
		name    string
		suite   suiteName
		reports []report
		want    verdict
	}{
		{"all right", suiteRaw, []report{library, one, two, three, four, leaves(crash)},
			verdict{asserted: 3, notes: []string{"CRASH was not made: for a reason"}}},
		{"what is not asserted may differ", suiteRaw, []report{library, one, two, says("three", "=8"), four, leaves(crash)},
			verdict{asserted: 3, notes: []string{
				"three answered =8, not =7; not asserted: the number is incidental",
				"CRASH was not made: for a reason"}}},
		{"a crash that was survived", suiteRaw, []report{soft, one, two, three, leaves("four"), says(crash, "400")},
			verdict{asserted: 3, notes: []string{
				"four was not made: for a reason", "CRASH answered 400 (CUDA_ERROR_INVALID_HANDLE)"}}},
		{"a wrong code", suiteRaw, []report{library, says("one", "1"), two, three, four, leaves(crash)},
			verdict{asserted: 3, errs: []string{"one answered 1 (CUDA_ERROR_INVALID_VALUE), want 0 (CUDA_SUCCESS)"},
				notes: []string{"CRASH was not made: for a reason"}}},
		{"a code in place of a value", suiteRaw, []report{library, one, says("two", "=600"), three, four, leaves(crash)},
			verdict{asserted: 3, errs: []string{"two answered =600, want 600 (CUDA_ERROR_NOT_READY)"},
				notes: []string{"CRASH was not made: for a reason"}}},
		{"a missing row", suiteRaw, []report{library, one, three, four, leaves(crash)},
			verdict{asserted: 2, errs: []string{"two was not made before three"},
				notes: []string{"CRASH was not made: for a reason"}}},
		{"missing at the end, also where nothing is asserted", suiteRaw, []report{library, one, two, three, four},
			verdict{asserted: 3, errs: []string{"CRASH was not made"}}},
		{"nothing at all", suiteCu, []report{library},
			verdict{errs: []string{"one to CRASH, 4 steps, were not made"}}},
		{"an end that comes early", suiteRaw, []report{library, one, two, three},
			verdict{asserted: 2, errs: []string{"four and CRASH were not made"}}},
		{"an extra row", suiteRaw, []report{library, one, says("five", "0"), two, three, four, leaves(crash)},
			verdict{asserted: 3, errs: []string{"five is no step of the table: it answered 0"},
				notes: []string{"CRASH was not made: for a reason"}}},
		{"a row twice", suiteRaw, []report{library, one, one, two, three, four, leaves(crash)},
			verdict{asserted: 3, errs: []string{"one comes again, or too late: after one"},
				notes: []string{"CRASH was not made: for a reason"}}},
		{"the wrong order", suiteRaw, []report{library, two, one, three, four, leaves(crash)},
			verdict{asserted: 2, errs: []string{"one was not made before two", "one comes again, or too late: after two"},
				notes: []string{"CRASH was not made: for a reason"}}},
		{"an asserted row that was left", suiteRaw, []report{library, one, leaves("two"), three, four, leaves(crash)},
			verdict{asserted: 2, errs: []string{"two was not made: for a reason"},
				notes: []string{"CRASH was not made: for a reason"}}},
		{"a row for libraries on a software driver", suiteRaw, []report{soft, one, two, three, leaves("four"), leaves(crash)},
			verdict{asserted: 2, notes: []string{"four was not made: for a reason", "CRASH was not made: for a reason"}}},
		{"the same on a library", suiteRaw, []report{library, one, two, three, leaves("four"), leaves(crash)},
			verdict{asserted: 2, errs: []string{"four was not made: for a reason"},
				notes: []string{"CRASH was not made: for a reason"}}},
		{"a function that the driver lacks", suiteRaw, []report{library, one, {Kind: missing, Step: "two", Text: "too old"}, three, four, leaves(crash)},
			verdict{asserted: 2, notes: []string{"two: too old", "CRASH was not made: for a reason"}}},
		{"cu answers otherwise", suiteCu, []report{library, one, says("two", "Pending"), three, says(crash, "ErrClosed 400")},
			verdict{asserted: 3}},
		{"cu answers like the driver and should not", suiteCu, []report{library, one, two, three, says(crash, "400")},
			verdict{asserted: 3, errs: []string{
				"two answered 600 (CUDA_ERROR_NOT_READY), want Pending",
				"CRASH answered 400 (CUDA_ERROR_INVALID_HANDLE), want ErrClosed 400"}}},
		{"cu makes a step that it has nothing for", suiteCu, []report{library, one, says("two", "Pending"), three, four, says(crash, "ErrClosed 400")},
			verdict{asserted: 3, errs: []string{"four is no step of the table: it answered 1"}}},
		{"a skip", suiteRaw, []report{library, {Kind: skipped, Text: "no device"}}, verdict{skip: "no device"}},
		{"a skip that comes too late", suiteRaw, []report{library, one, {Kind: skipped, Text: "no device"}},
			verdict{skip: "no device", errs: []string{"it was skipped, but not before step one"}}},
		{"a failure of the set-up", suiteCu, []report{library, one, says("two", "Pending"), three, says(crash, "ErrClosed 400"), {Kind: failed, Text: "cuInit: 999"}},
			verdict{asserted: 3, errs: []string{"cuInit: 999"}}},
	} {
		got := judge(rowsOf(testRows(t), tt.suite, "fake"), tt.suite, tt.reports)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(verdict{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// fakeCases are cases that end in all ways in which a process can end.
func fakeCases() []testCase {
	first := func(rep *reporter) {
		rep.send(report{Kind: about})
		rep.res("one", driver.ResultSuccess)
	}
	return []testCase{
		{"good", func(_ job, rep *reporter) {
			first(rep)
			fmt.Print("a driver says something")
			fmt.Fprintln(os.Stderr, "and complains")
			rep.val("two", true)
		}},
		{"crash", func(_ job, rep *reporter) {
			first(rep)
			fmt.Println("a driver says something")
			panic("the driver is gone")
		}},
		{"crash-first", func(job, *reporter) { os.Exit(7) }},
		{"dared", func(_ job, rep *reporter) {
			first(rep)
			rep.send(report{Kind: dared, Step: "two"})
			panic("the driver is gone")
		}},
		{"hang", func(_ job, rep *reporter) {
			first(rep)
			time.Sleep(time.Hour)
		}},
		{"early", func(_ job, rep *reporter) {
			first(rep)
			os.Exit(0)
		}},
		{"late", func(_ job, rep *reporter) {
			first(rep)
			rep.send(report{Kind: ended})
			os.Exit(3)
		}},
		{"skip", func(_ job, rep *reporter) { rep.skip("not %s", "here") }},
		{"fatal", func(_ job, rep *reporter) {
			first(rep)
			rep.fatal("%d is wrong", 1)
		}},
		{"two processes", func(j job, rep *reporter) {
			if j.Part == peer {
				first(rep)
				c := &raw{reporter: rep}
				h := c.listen()
				rep.val("heard", h[63])
				return
			}
			other := startPeer(j, rep)
			rep.res("two", driver.ResultSuccess)
			var h driver.IPCEventHandle
			h[63] = 99
			other.sendHandle(h)
			other.finish()
		}},
		{"two processes, one of which crashes", func(j job, rep *reporter) {
			if j.Part == peer {
				c := &raw{reporter: rep}
				c.listen()
				os.Exit(5)
			}
			other := startPeer(j, rep)
			other.sendHandle(driver.IPCEventHandle{})
			other.finish()
		}},
	}
}

// TestLaunch checks that the reports of a child arrive, and that a wrong end is an error.
func TestLaunch(t *testing.T) {
	one := report{Kind: answer, Step: "one", Answer: "0"}
	two := report{Kind: answer, Step: "two", Answer: "=1"}
	end := report{Kind: ended}
	for _, tt := range []struct {
		name string
		want []report
		err  []string // parts of the error; none if there is none
	}{
		{"good", []report{{Kind: about}, one, two, end}, nil},
		{"crash", []report{{Kind: about}, one}, []string{"crashed after step one", "exit status 2", "the driver is gone", "a driver says something"}},
		{"crash-first", nil, []string{"crashed after the first step", "exit status 7"}},
		{"dared", []report{{Kind: about}, one, {Kind: answer, Step: "two", Answer: crash}, end}, nil},
		{"early", []report{{Kind: about}, one}, []string{"ended after step one, although"}},
		{"late", []report{{Kind: about}, one, end}, []string{"did everything", "exit status 3"}},
		{"skip", []report{{Kind: skipped, Text: "not here"}}, nil},
		{"fatal", []report{{Kind: about}, one, {Kind: failed, Text: "1 is wrong"}}, nil},
		{"two processes", []report{one, {Kind: answer, Step: "two", Answer: "0"}, {Kind: answer, Step: "heard", Answer: "=99"}, end}, nil},
		{"two processes, one of which crashes", []report{{Kind: failed, Text: "the second process ended early: exit status 5"}}, nil},
		{"nosuch", []report{{Kind: failed, Text: "suite fake has no case nosuch"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reports, err := launch(t, job{Suite: suiteFake, Case: tt.name}, caseLimit)
			if diff := cmp.Diff(tt.want, reports); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
			wantError(t, err, tt.err)
		})
	}
	t.Run("no such driver", func(t *testing.T) {
		reports, err := launch(t, job{Suite: suiteFake, Case: "good", Target: target{Software: "nosuch"}}, caseLimit)
		if diff := cmp.Diff([]report{{Kind: failed, Text: "there is no software driver nosuch"}}, reports); err != nil || diff != "" {
			t.Errorf("%v; reports (-want +got):\n%s", err, diff)
		}
	})
	t.Run("hang", func(t *testing.T) {
		// The reports are not compared, because the process may be killed before it prints one.
		_, err := launch(t, job{Suite: suiteFake, Case: "hang"}, 500*time.Millisecond)
		wantError(t, err, []string{"hung after", "killed"})
	})
}

func wantError(t *testing.T, err error, parts []string) {
	t.Helper()
	if len(parts) == 0 && err != nil {
		t.Errorf("error %v, want none", err)
	}
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want it to say %q", err, part)
		}
	}
}

// TestReports passes reports through a stream to which a driver writes, too.
func TestReports(t *testing.T) {
	r, w := io.Pipe()
	sent := []report{
		{Kind: about, Driver: driverInfo{Version: 13000, Software: true}},
		{Kind: answer, Step: "elapsed-E0-F1", Answer: "400"},
		{Kind: left, Step: crash, Text: "a line\nand \"another\"\t"},
	}
	go func() {
		rep := &reporter{w: w}
		for _, s := range sent {
			fmt.Fprint(w, "noise without an end")
			rep.send(s)
			fmt.Fprint(w, "purecu-behaviour is not a report {\n")
		}
		w.Close()
	}()
	var got []report
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if rep, ok := parseReport(lines.Bytes()); ok {
			got = append(got, rep)
		}
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("reports (-sent +got):\n%s", diff)
	}
}

// TestSpinKernel checks that the spinning kernel is the one of cmd/cuprobe.
func TestSpinKernel(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("..", "..", "cmd", "cuprobe", "spin.ptx"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(spinPTX)); diff != "" {
		t.Errorf("testdata/spin.ptx is not cmd/cuprobe's (-want +got):\n%s", diff)
	}
}
