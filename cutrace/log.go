package cutrace

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
)

// LogOptions are the options of [Log]. The zero value is valid.
type LogOptions struct {
	// Level is the level of calls that have succeeded. nil stands for slog.LevelDebug.
	Level slog.Leveler
	// ErrorLevel is the level of calls that have failed. nil stands for slog.LevelWarn.
	ErrorLevel slog.Leveler
}

// Log writes a log record for each driver call that package cu makes for events and streams, until
// stop is called. A record is written when the call has returned. Its message is the operation, and
// its time is the beginning of the call. The handler must be safe for concurrent use, as the
// handlers of slog are. These are the attributes; a record has only those that apply:
//
//	event, stream  numbers, in the order in which the objects are first used
//	event_handle, stream_handle
//	               the driver's handles, which the driver reuses after a destruction
//	duration       how long the call took on the host
//	status         "pending", for a query
//	error          the CUresult, as an error for errors.Is
//
// A call waits until its record is written, so a slow handler slows all calls down. Log allocates
// memory only for the errors of failed calls. If the handler has not enabled the level of a call,
// Log only numbers the objects of the call.
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
	removeObjects := trace.Add(drv, lg.before)
	remove := trace.AddCalls(drv, lg.log)
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

// before is a [trace.Tracer].
func (l *logger) before(t trace.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects.before(t)
}

// log is a [trace.CallTracer].
func (l *logger) log(c trace.Call) {
	l.mu.Lock()
	event, stream := l.objects.of(c.Operation)
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
	_ = l.h.Handle(ctx, r) // the methods of slog.Logger drop this error, too
}
