package cutrace

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/purecu/purecu/cu"
)

// LogOptions says how [Log] logs. The zero LogOptions is good.
type LogOptions struct {
	// Level is that of calls that have succeeded; nil is slog.LevelDebug.
	Level slog.Leveler
	// ErrorLevel is that of calls that have failed; nil is slog.LevelWarn.
	ErrorLevel slog.Leveler
}

// Log writes a record for each call of the driver that package cu makes for events and
// streams, when it has returned, until stop is called. The message is the operation, the
// time is when the call began. The attributes, where they apply, are
//
//	event, stream  numbers, counted up in the order in which objects are seen first
//	event_handle, stream_handle
//	               the driver's handles, which come back after a destruction
//	duration       how long the call took the host
//	status         "pending", of a query
//	error          the CUresult, an error that errors.Is understands
//
// A call waits until its record is written: a handler that takes long makes everything
// slow. Nothing is allocated here, but for the errors of calls that fail, and nothing at all
// is done for levels that the handler does not want, but to number the objects.
// The handler must be safe for concurrent use, as slog's are.
func Log(drv *cu.Driver, l *slog.Logger, opts LogOptions) (stop func(), err error) {
	switch {
	case drv == nil:
		return nil, fmt.Errorf("cutrace.Log: %w: the driver is nil: check the error of cu.Open", cu.ErrNil)
	case l == nil:
		return nil, fmt.Errorf("cutrace.Log: %w: the logger is nil: pass slog.Default()", cu.ErrNil)
	}
	lg := &logger{h: l.Handler(), level: opts.Level, failed: opts.ErrorLevel}
	if lg.level == nil {
		lg.level = slog.LevelDebug
	}
	if lg.failed == nil {
		lg.failed = slog.LevelWarn
	}
	removeObjects := drv.AddTracer(lg.before)
	remove := drv.AddCallTracer(lg.log)
	return func() {
		remove()
		removeObjects()
	}, nil
}

type logger struct {
	h             slog.Handler
	level, failed slog.Leveler
	mu            sync.Mutex
	objects       objects
}

// before is a [cu.Tracer].
func (l *logger) before(t cu.Trace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects.before(t)
}

// log is a [cu.CallTracer].
func (l *logger) log(c cu.TraceCall) {
	l.mu.Lock()
	event, stream := l.objects.of(c.Trace)
	l.mu.Unlock()
	ctx, level := context.Background(), l.level.Level()
	failed := c.Result != cu.ResultSuccess && c.Result != cu.ResultNotReady
	if failed {
		level = l.failed.Level()
	}
	if !l.h.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(c.Start, level, c.Op.String(), 0)
	if c.Event != 0 {
		r.AddAttrs(slog.Uint64("event", event), slog.Uint64("event_handle", uint64(c.Event)))
	}
	if c.Stream != 0 {
		r.AddAttrs(slog.Uint64("stream", stream), slog.Uint64("stream_handle", uint64(c.Stream)))
	}
	r.AddAttrs(slog.Duration("duration", c.Duration))
	switch {
	case failed:
		r.AddAttrs(slog.Any("error", c.Result))
	case c.Result == cu.ResultNotReady:
		r.AddAttrs(slog.String("status", "pending"))
	}
	_ = l.h.Handle(ctx, r) // there is nobody to tell, as with slog's own methods
}
