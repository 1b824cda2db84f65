// Package tests checks the module as a whole: which package may import which, the public API, the
// documentation, and the table of symbols.
package tests

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
