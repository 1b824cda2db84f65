package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/purecu/purecu/cu"
)

// skipped is a row that could not be measured, with the reason.
type skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// outOfRoom says why a row could not be measured, if there was too little memory for it.
func outOfRoom(err error) (reason string, ok bool) {
	if !errors.Is(err, cu.ResultOutOfMemory) {
		return "", false
	}
	var e *cu.Error
	if errors.As(err, &e) && e.Op == "cuMemHostAlloc" {
		return "there is too little memory, pinned on the host (cuMemHostAlloc)", true
	}
	return "there is too little memory, on the device (cuMemAlloc)", true
}

// ends is the part of reports about how a measurement ended.
type ends struct {
	Skipped     []skipped `json:"skipped"`
	Interrupted bool      `json:"interrupted"`
	Error       *failure  `json:"error,omitempty"`
}

func (e *ends) end() *ends { return e }

// text prints the text below the tables.
func (e *ends) text(w io.Writer, hints []string) {
	for i, s := range e.Skipped {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "skipped  %s: %s\n", s.Name, s.Reason)
	}
	if len(hints) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(hints, "\n"))
	}
	if e.Interrupted {
		fmt.Fprintf(w, "\ninterrupted: the rest was not measured\n")
	}
}

// table prints rows, and the header above them, again each time that it changes.
type table struct {
	w    io.Writer
	head string
}

func (t *table) print(head, row string) {
	if head != t.head {
		t.head = head
		fmt.Fprintf(t.w, "\n%s\n", head)
	}
	fmt.Fprintln(t.w, row)
}

// untilInterrupt returns a context that an interrupt ends. A second interrupt ends the process.
func (c *invocation) untilInterrupt() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(c.ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// measuredReport is the report of a command that measures.
type measuredReport interface {
	end() *ends
	textEnd(w io.Writer)
}

// measured runs a measurement until it ends or is interrupted. measure fills the report r, and
// prints the results as they come. With -json, measured prints the report at the end.
func (c *invocation) measured(r measuredReport, measure func(ctx context.Context, w io.Writer) error) error {
	ctx, stop := c.untilInterrupt()
	defer stop()
	w := io.Writer(c.out)
	if c.json {
		w = io.Discard
	}
	err := measure(ctx, w)
	end := r.end()
	if end.Interrupted = ctx.Err() != nil && errors.Is(err, ctx.Err()); end.Interrupted {
		err = nil
	}
	r.textEnd(w)
	if c.json {
		if err != nil {
			end.Error = c.failure(err)
		}
		if err := c.showJSON(r); err != nil {
			return err
		}
		if err != nil {
			return reported(status(err))
		}
	}
	if err == nil && end.Interrupted {
		return reported(exitFailure)
	}
	return err
}
