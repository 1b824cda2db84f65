package graph_test

import (
	"log"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must returns v. If there is an error, it ends the program.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// check ends the program if there is an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
