// Package cutrace writes down what package cu does: as structured log records, and as
// a trace that Perfetto and chrome://tracing show, with the calls of the host and the
// intervals of the GPU on one clock.
//
//	rec, err := cutrace.Start(ctx, gpu, cutrace.Options{})
//	…
//	err = rec.Span(stream, "load", func() error { return stream.Copy(dst, src) })
//	…
//	err = rec.Close(ctx)
//	_, err = rec.WriteTo(file)
package cutrace
