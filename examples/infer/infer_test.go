package infer

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is the kernel on the software driver.
var model = cusim.WithKernel("model", cusim.Kernel{
	Time: func(l *cusim.Launch) time.Duration { return 200 * time.Microsecond },
	Run: func(l *cusim.Launch) {
		out, in := l.Mem(0), l.Mem(1)
		for i := range l.U32(2) {
			f := math.Float32frombits(binary.LittleEndian.Uint32(in[4*i:]))
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(2*f+1))
		}
	},
})

func serve(t *testing.T, drv *cu.Driver, inflight int) *Server {
	t.Helper()
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	v, err := New(dev, inflight)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestHTTP(t *testing.T) {
	v := serve(t, cutest.Driver(t, model), 2)
	srv := httptest.NewServer(v)
	defer srv.Close()
	post := func(body string) (int, string) {
		t.Helper()
		resp, err := srv.Client().Post(srv.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	full := "[1" + strings.Repeat(",1", width-1) + "]"
	for _, tt := range []struct {
		in     string
		status int
		out    string
	}{
		{"[1,2,3]", 200, "[3,5,7]\n"},
		{"[]", 200, "[]\n"},
		{full, 200, strings.ReplaceAll(full, "1", "3") + "\n"},
		{"[1" + full[1:len(full)-1] + ",1]", 400, "bad input\n"},
		{"[1,", 400, "bad input\n"},
		{"[3e38]", 500, "json: unsupported value: +Inf\n"},
		{`["1"]`, 400, "bad input\n"},
	} {
		if status, out := post(tt.in); status != tt.status || out != tt.out {
			t.Errorf("%.20s: %d %q; want %d %q", tt.in, status, out, tt.status, tt.out)
		}
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if status, out := post("[1]"); status != 500 || out != "context canceled\n" {
		t.Errorf("after Close: %d %q", status, out)
	}
}

// TestMany makes many requests at a time, some of which do not wait for their result.
func TestMany(t *testing.T) {
	v := serve(t, cutest.Driver(t, model), 4)
	var wg sync.WaitGroup
	var ok, busy, late atomic.Int32
	for i := range 2000 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20+1)*time.Millisecond)
			defer cancel()
			if i%20 == 0 {
				ctx = t.Context()
			}
			in := float32(i)
			switch out, err := v.Infer(ctx, []float32{in, -in}); {
			case err == nil && len(out) == 2 && out[0] == 2*in+1 && out[1] == 1-2*in:
				ok.Add(1)
			case errors.Is(err, ErrBusy):
				busy.Add(1)
			case i%20 != 0 && errors.Is(err, context.DeadlineExceeded):
				late.Add(1)
			default:
				t.Error(i, out, err)
			}
		})
		time.Sleep(10 * time.Microsecond)
	}
	wg.Wait()
	if ok.Load() == 0 {
		t.Error("no request has succeeded")
	}
	t.Log("ok", ok.Load(), "busy", busy.Load(), "late", late.Load())
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

// TestBusy makes more requests than fit into a batch and the queue, while the GPU does nothing. Then
// Close ends those that wait.
func TestBusy(t *testing.T) {
	drv, sim := cutest.Soft(t, model, cusim.VirtualTime())
	v := serve(t, drv, 1)
	const requests = 2*maxBatch + 1
	errs := make(chan error, requests)
	for range requests {
		go func() {
			_, err := v.Infer(t.Context(), []float32{1})
			errs <- err
		}()
	}
	if err := <-errs; !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	closed := make(chan error)
	go func() { closed <- v.Close() }()
	for range requests - 1 {
		if err := <-errs; !errors.Is(err, ErrBusy) && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for {
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
			return
		default: // Close waits for the work on the GPU
			sim.Advance(time.Millisecond)
		}
	}
}

// TestFault has a kernel that fails. All later requests fail, too.
func TestFault(t *testing.T) {
	bad := cusim.WithKernel("model", cusim.Kernel{Run: func(l *cusim.Launch) { l.Fault(700) }})
	drv, _ := cutest.Soft(t, bad)
	v := serve(t, drv, 2)
	defer v.Close()
	for range 3 {
		if _, err := v.Infer(t.Context(), []float32{1}); !errors.Is(err, cu.ErrContextPoisoned) || !cu.NeedsRestart(err) {
			t.Error(err)
		}
	}
}
