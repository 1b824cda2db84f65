// Package entries records what each function of a driver does in each situation of captures: which
// calls fail, with which result, which calls invalidate a capture, which streams join it, and what
// an event stands for afterwards.
//
// A scene is a situation: what is being captured, by which thread, in which mode. In each scene,
// every call is made with every kind of stream and event, from the capturing thread and from
// another one, in each of a thread's modes. These are some 60,000 calls, and each one is made in a
// scene of its own.
//
// testdata/h200-cuda13.0.tsv has the answers of an H200. The software driver must give the same
// answers. With PURECU_TEST_GPU ("1", or a path of the library), NVIDIA's driver must do so, too.
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
