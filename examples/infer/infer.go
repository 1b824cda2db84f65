// Package infer serves a model over HTTP, in batches of requests. Each batch has its own stream.
package infer

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/purecu/purecu/cu"
)

const maxBatch, width = 32, 256 // a request has up to width numbers
//go:embed model.ptx
var ptx []byte

// ErrBusy and ErrInput are errors of one request; other requests may succeed.
var ErrBusy, ErrInput = errors.New("too many requests in flight"), errors.New("bad input")

type request struct {
	ctx    context.Context
	values [width]float32 // the input, until something was sent to done; then the output
	done   chan error     // has room for one
}

// Server is a model on a device.
type Server struct {
	gpu     *cu.Context
	mod     *cu.Module
	model   *cu.Function
	queue   chan *request
	filling sync.Mutex // one batch at a time is filled
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// New returns a server with up to inflight batches in flight.
func New(dev *cu.Device, inflight int) (*Server, error) {
	v, errs := &Server{queue: make(chan *request, inflight*maxBatch)}, make([]error, 3)
	v.ctx, v.stop = context.WithCancel(context.Background())
	v.gpu, errs[0] = dev.PrimaryContext()
	v.mod, errs[1] = v.gpu.LoadModule(ptx) // fails if gpu is nil
	v.model, errs[2] = v.mod.Function("model")
	ready := make(chan error)
	for range inflight {
		v.wg.Go(func() { v.serve(ready) })
		errs = append(errs, <-ready)
	}
	if err := cmp.Or(errs...); err != nil {
		return nil, cmp.Or(err, v.Close())
	}
	return v, nil
}

// Close ends all requests, and frees what the server has on the GPU.
func (v *Server) Close() error {
	v.stop()
	v.wg.Wait()
	return cmp.Or(v.mod.Close(), v.gpu.Close())
}

// Infer returns the output of the model: a number for each of at most width.
func (v *Server) Infer(ctx context.Context, in []float32) ([]float32, error) {
	r := &request{ctx: ctx, done: make(chan error, 1)}
	if copy(r.values[:], in) < len(in) {
		return nil, ErrInput
	}
	select {
	case v.queue <- r:
	default:
		return nil, ErrBusy
	}
	select {
	case err := <-r.done:
		return r.values[:len(in)], err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-v.ctx.Done():
		return nil, v.ctx.Err()
	}
}

// fill returns the next batch, or an empty one if the server is closed.
func (v *Server) fill() (batch []*request) {
	v.filling.Lock()
	defer v.filling.Unlock()
	var late <-chan time.Time // nil before the first request
	for len(batch) < maxBatch {
		select {
		case r := <-v.queue:
			if r.ctx.Err() == nil {
				if batch = append(batch, r); len(batch) == 1 {
					late = time.After(time.Millisecond)
				}
			}
		case <-late:
			return batch
		case <-v.ctx.Done():
			return nil
		}
	}
	return batch
}

// serve runs one batch after the other, until the server is closed.
func (v *Server) serve(ready chan<- error) {
	s, err1 := v.gpu.NewStream(cu.StreamNonBlocking)
	host, err2 := cu.AllocHostFor[float32](v.gpu, width*maxBatch, cu.HostDefault)
	in, err3 := cu.AllocFor[float32](v.gpu, width*maxBatch)
	out, err4 := cu.AllocFor[float32](v.gpu, width*maxBatch)
	defer func() { _ = cmp.Or(s.Close(), host.Close(), in.Close(), out.Close()) }()
	ready <- cmp.Or(err1, err2, err3, err4)
	for batch := v.fill(); len(batch) > 0; batch = v.fill() {
		n := width * len(batch)
		err := cu.View(host, func(values []float32) error {
			for i, r := range batch {
				copy(values[i*width:], r.values[:])
			}
			err := cmp.Or( // the first error: the calls after a failed one do no harm
				s.Copy(in, cu.SpanOf[float32](host, 0, n)),
				v.model.Launch(s, cu.Grid1D(n, 256), cu.Ptr(out), cu.Ptr(in), cu.U32(uint32(n))),
				s.Copy(host, cu.SpanOf[float32](out, 0, n)), s.Wait(v.ctx))
			for i := 0; err == nil && i < len(batch); i++ { // after an error the GPU may still write
				copy(batch[i].values[:], values[i*width:])
			}
			return err
		})
		for _, r := range batch {
			r.done <- err
		}
	}
}

// ServeHTTP answers a JSON array of numbers with another one.
func (v *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in []float32
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil || len(in) > width {
		http.Error(w, ErrInput.Error(), http.StatusBadRequest)
		return
	}
	out, err := v.Infer(r.Context(), in)
	answer, bad := json.Marshal(out) // JSON has no infinity
	switch {
	case errors.Is(err, ErrBusy):
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case err != nil || bad != nil:
		http.Error(w, cmp.Or(err, bad).Error(), http.StatusInternalServerError)
	default:
		w.Write(append(answer, '\n'))
	}
}
