// Package entries asks a driver what each of its functions does in each situation of
// captures: which calls are refused, with which result, which of them invalidate a
// capture, which streams they join to it, and what an event stands for afterwards.
//
// A scene is a situation: what is being captured, by which thread, in which mode. In
// each, every call is made with every kind of stream and event, from the capturing
// thread and from another one, in each of a thread's modes: some 60,000 calls, each
// in a situation of its own.
//
// testdata/h200-cuda13.0.tsv is what an H200 answered. The software driver has to
// answer the same, and so, with PURECU_TEST_GPU ("1", or a path to the library), has
// NVIDIA's.
package entries

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(sceneEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}
