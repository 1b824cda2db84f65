package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cutrace"
)

// The pipeline of the timeline. Its kernels take longer than the calls that enqueue the work, and not
// so long that the calls could not be seen.
const (
	pipelineRounds = 3
	pipelineCopy   = 1 << 20
	pipelineKernel = 60 * time.Microsecond
)

// tracePipeline runs a pipeline, and returns its trace.
func tracePipeline(ctx context.Context, dev *cu.Device) (_ json.RawMessage, err error) {
	rig, err := newRig(dev)
	if err != nil {
		return nil, err
	}
	defer rig.closeAfter(&err)
	l, err := newPipeline(rig)
	if err != nil {
		return nil, err
	}
	// The first round loads the kernel and creates events.
	if err := l.run(nil); err != nil {
		return nil, err
	}
	rec, err := cutrace.Start(ctx, rig.gpu, cutrace.Options{})
	if err != nil {
		return nil, err
	}
	err = l.run(rec)
	if e := rec.Close(ctx); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := rec.WriteTo(&b); err != nil {
		return nil, err
	}
	if _, err := drawTrace(b.Bytes()); err != nil { // then the page could not be written
		return nil, err
	}
	return b.Bytes(), nil
}

// pipeline copies to the device, runs a kernel, and copies back, each on a stream of its own.
type pipeline struct {
	rig                  *rig
	load, compute, store *cu.Stream
	host, dev            [pipelineRounds]buffer
}

func newPipeline(rig *rig) (*pipeline, error) {
	l := &pipeline{rig: rig}
	var err error
	for _, s := range []**cu.Stream{&l.load, &l.compute, &l.store} {
		if *s, err = rig.stream(); err != nil {
			return nil, err
		}
	}
	for i := range pipelineRounds {
		for _, m := range []struct {
			mem  *buffer
			host bool
		}{{&l.host[i], true}, {&l.dev[i], false}} {
			*m.mem, err = keep(rig, func() (buffer, error) { return rig.alloc(l.load, pipelineCopy, m.host) })
			if err != nil {
				return nil, err
			}
		}
	}
	return l, l.load.Synchronize()
}

// run runs the pipeline, and waits until it is done. rec may be nil.
func (l *pipeline) run(rec *cutrace.Recorder) error {
	rec.Name(l.load, "load")
	rec.Name(l.compute, "compute")
	rec.Name(l.store, "store")
	for i := range pipelineRounds {
		name := func(what string) string { return fmt.Sprintf("%s %d", what, i+1) }
		for _, step := range []func() error{
			func() error {
				return rec.Span(l.load, name("load"), func() error { return l.load.Copy(l.dev[i], l.host[i]) })
			},
			func() error { return l.compute.WaitStream(l.load) },
			func() error {
				return rec.Span(l.compute, name("kernel"),
					func() error { return l.rig.launch(l.compute, pipelineKernel) })
			},
			func() error { return l.store.WaitStream(l.compute) },
			func() error {
				return rec.Span(l.store, name("store"), func() error { return l.store.Copy(l.host[i], l.dev[i]) })
			},
		} {
			if err := step(); err != nil {
				return err
			}
		}
	}
	return l.store.Synchronize()
}
