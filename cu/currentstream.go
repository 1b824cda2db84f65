package cu

import (
	"context"

	"github.com/purecu/purecu/internal/drivercall"
)

// currentKey is the context.Context key of the current stream.
type currentKey struct{}

// WithStream returns a copy of ctx whose current stream is s. [CurrentStream] and
// [Event.RecordCurrent] use this stream. The current stream belongs to the context.Context, and not
// to a goroutine or a thread. The stream is not collected while such a context.Context is
// reachable, but it can be closed. If s is nil, the copy has no current stream.
func WithStream(ctx context.Context, s *Stream) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithValue(ctx, currentKey{}, s)
}

// CurrentStream returns the stream that WithStream has stored in ctx. If there is none, the error
// matches [ErrNoCurrentStream]. CurrentStream never returns a default stream instead.
func CurrentStream(ctx context.Context) (*Stream, error) {
	if ctx != nil {
		if s, _ := ctx.Value(currentKey{}).(*Stream); s != nil {
			return s, nil
		}
	}
	return nil, drivercall.Misuse("CurrentStream", nil, ErrNoCurrentStream,
		"the context.Context has no stream: pass a context.Context that cu.WithStream has returned")
}
