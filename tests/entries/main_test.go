// Package entries records what each function of a driver does in each situation of captures: which
// calls fail, with which result, which calls invalidate a capture, which streams join it, and what
// an event stands for afterwards.
//
// A scene is a situation: what is being captured, by which thread, in which mode. In each scene,
// every call is made with every kind of stream and event, from the capturing thread and from
// another one, in each of a thread's modes. Calls about something else, such as the nodes of a graph,
// pools or libraries, are made in few scenes, with the objects that they need. These are some 96,000
// calls, and each one is made in a scene of its own.
//
// TestStates asks something else: what each function of the driver returns without a current context, with the context
// of another device, with and without a capture, and for each argument that is NULL, 0, too large, or no handle of an
// existing object. It derives these states from testdata/functions.tsv, which says how to call each function, and calls
// drivers in C, as only C has NULL. testdata/h200-cuda13.0-states.tsv has the answers of two H200s. The software driver
// must give the same ones, but for those in the list otherwise, and must refuse a handle where an H200 crashed or did
// not notice that it was none. -entries.missing records what a new function, or an interrupted recording, lacks.
//
// testdata/h200-cuda13.0.tsv has the answers of an H200. The software driver must give the same
// answers. With PURECU_TEST_GPU ("1", or a path of the library), NVIDIA's driver must do so, too.
//
// Calls that the file has no answers of are listed in unrecorded. They are made all the same, and
// their results must be documented ones. On a machine with a GPU, the step record of tests/gpu/run
// records them. This does so without that program, and needs only this package:
//
//	PURECU_TEST_GPU=1 go test -run TestEntries -entries.driver gpu -entries.missing -entries.record FILE
package entries

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(sceneEnv) != "" {
		os.Exit(child())
	}
	if os.Getenv(stateEnv) != "" {
		os.Exit(stateChild())
	}
	// Processes of the tests are killed, so that they may not remove what they write.
	dir, err := os.MkdirTemp("", "purecu-entries-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		os.RemoveAll(dir)
		os.Exit(status)
	}))
}
