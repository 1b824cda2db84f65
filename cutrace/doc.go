// Package cutrace records what package cu does. [Log] writes a structured log record for each call.
// A [Recorder] makes a trace that Perfetto and chrome://tracing show. The trace has the calls of
// the host and the work of the GPU on one clock.
//
//	rec, err := cutrace.Start(ctx, gpu, cutrace.Options{})
//	…
//	err = rec.Span(stream, "load", func() error { return stream.Copy(dst, src) })
//	…
//	err = rec.Close(ctx)
//	_, err = rec.WriteTo(file)
package cutrace
