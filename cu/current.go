package cu

import "context"

// currentKey is the key of the current stream among a context.Context's values.
type currentKey struct{}

// WithStream returns a copy of ctx whose current stream is s, for code that finds its
// stream by [CurrentStream] and [Event.RecordCurrent]. It travels with the
// context.Context, and so from goroutine to goroutine; no thread has one. The stream is
// not closed before the last such context is collected, unless somebody closes it. With a
// nil stream the copy has no current stream.
func WithStream(ctx context.Context, s *Stream) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithValue(ctx, currentKey{}, s)
}

// CurrentStream returns the stream that WithStream has put into ctx, or an error that
// matches [ErrNoCurrentStream]. No default stream takes its place.
func CurrentStream(ctx context.Context) (*Stream, error) {
	if ctx != nil {
		if s, _ := ctx.Value(currentKey{}).(*Stream); s != nil {
			return s, nil
		}
	}
	return nil, mistake("CurrentStream", ErrNoCurrentStream, 0, "the context.Context carries no stream: pass one that cu.WithStream has returned")
}
