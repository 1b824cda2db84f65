package checkpoint_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must returns v, or ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// ended returns a context that has ended with a cause of its own.
func ended() (context.Context, error) {
	cause := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx, cause
}
