// Package tests holds what is said about the module as a whole: which package
// may import which, what the public API is, and how every driver behaves.
package tests

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
