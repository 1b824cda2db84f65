// Package tests checks the module as a whole: which package may import which, the public API, the
// documentation, and the table of symbols.
package tests

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := scratch(); err == nil {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// scratch returns a folder that is removed when the test binary ends.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "purecu") })
