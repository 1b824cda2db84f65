// Command exporter measures every GPU once a second, and serves its latencies, its health and what NVML says about it
// to Prometheus.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/nvml"
)

// exporter has the time between probes, their limit, and how long the need of a restart is served. It also serves what
// gpus says, unless that is nil.
type exporter struct {
	every, limit, linger time.Duration
	gpus                 *gpus
}

// watch probes a device until ctx ends or only a new process helps, which is an error.
func (e exporter) watch(ctx context.Context, dev *cu.Device, reg prom.Registerer) error {
	uuid, err := dev.UUID()
	labels := prom.Labels{"uuid": uuid.String(), "device": strconv.Itoa(dev.Ordinal())}
	auto := promauto.With(prom.WrapRegistererWith(labels, reg))
	h := func(name, help string) prom.Histogram {
		return auto.NewHistogram(prom.HistogramOpts{Name: name, Help: help, Buckets: prom.ExponentialBuckets(100e-9, 2, 20)})
	}
	launch := h("cuda_launch_seconds", "Host time of one kernel launch.")
	h2d := h("cuda_h2d_1mib_seconds", "GPU time to copy 1 MiB to the device.")
	d2h := h("cuda_d2h_1mib_seconds", "GPU time to copy 1 MiB from the device.")
	round := h("cuda_event_round_trip_seconds", "Host time from a record to its completion.")
	failures := auto.NewCounterVec(prom.CounterOpts{Name: "cuda_probe_failures_total",
		Help: "Failed probes."}, []string{"code"})
	healthy := auto.NewGauge(prom.GaugeOpts{Name: "cuda_healthy", Help: "0 if probes fail, or only a restart helps."})
	healthy.Set(1)
	late := time.AfterFunc(e.every+e.limit, func() { healthy.Set(0) }) // also while a call of the driver hangs
	defer late.Stop()

	// Methods of nil objects return errors, and closing them does no harm: only the first error counts.
	gpu, err1 := dev.RetainPrimaryContext(ctx)
	s, err2 := gpu.NewStream(cu.StreamNonBlocking)
	mod, err3 := gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }"))
	empty, err4 := mod.Function("empty")
	mem, err5 := gpu.Alloc(1 << 20)
	host, err6 := gpu.AllocHost(1<<20, cu.HostDefault)
	var ev cu.Event
	defer func() {
		for _, c := range []io.Closer{&ev, host, mem, mod, s, gpu} {
			c.Close()
		}
	}()
	err = cmp.Or(err, err1, err2, err3, err4, err5, err6)
	for open := err == nil; open && ctx.Err() == nil && !cu.NeedsRestart(err); {
		s.Wait(ctx) // for work of a probe that took too long
		probe, cancel := context.WithTimeout(ctx, e.limit)
		pause, t0 := e.every, time.Now()
		err1 := empty.Launch(s, cu.Grid1D(1, 1))
		t1 := time.Now()
		in, err2 := s.Time(probe, func() error { return s.Copy(mem, host) })
		out, err3 := s.Time(probe, func() error { return s.Copy(host, mem) })
		t2 := time.Now()
		err4, err5 := ev.Record(s), ev.Wait(probe)
		if err = cmp.Or(err1, err2, err3, err4, err5); err == nil {
			round.Observe(time.Since(t2).Seconds())
			late.Reset(e.every + e.limit)
			healthy.Set(1)
			launch.Observe(t1.Sub(t0).Seconds())
			h2d.Observe(in.Seconds())
			d2h.Observe(out.Seconds())
		} else if ctx.Err() == nil {
			code := cu.ResultTimeout // unless it is an error of CUDA
			errors.As(err, &code)
			failures.WithLabelValues(code.Name()).Inc()
			slog.Error("probe", "device", dev.Ordinal(), "err", err)
			if cu.NeedsRestart(err) {
				healthy.Set(0)
				pause = e.linger
			}
		}
		cancel()
		rest, cancel := context.WithTimeout(ctx, pause)
		<-rest.Done()
		cancel()
	}
	return cmp.Or(err, ctx.Err())
}

// run serves until ctx ends, or only a restart helps.
func (e exporter) run(ctx context.Context, devs []*cu.Device, l net.Listener) error {
	reg := prom.NewRegistry()
	srv := &http.Server{Handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{}), ReadTimeout: time.Minute}
	all, ctx := errgroup.WithContext(ctx)
	for _, dev := range devs {
		all.Go(func() error { return e.watch(ctx, dev, reg) })
	}
	if e.gpus != nil {
		all.Go(func() error { e.gpus.run(ctx, e, reg); return nil })
	}
	all.Go(func() error { return srv.Serve(l) })
	all.Go(func() error { <-ctx.Done(); return srv.Shutdown(context.Background()) })
	return all.Wait()
}

// software returns the options that the flag -soft asks for. A build without soft.go has no such flag.
var software = func() (opts []cu.Option, gpus []nvml.Option) { return nil, nil }

func main() {
	e := exporter{every: time.Second}
	listen := flag.String("listen", "127.0.0.1:9999", "serve at this `address`")
	flag.DurationVar(&e.limit, "limit", 5*time.Second, "a probe that takes longer has failed")
	flag.DurationVar(&e.linger, "linger", 2*time.Minute, "how long to serve that only a restart helps, before the end")
	e.gpus, _ = newGPUs("nvml")
	flag.Func("names", "the `kind` of names of NVML's metrics: nvml, or dcgm for those of dcgm-exporter (default nvml)",
		func(names string) (err error) { e.gpus, err = newGPUs(names); return err })
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	check := func(what string, err error) {
		if err != nil && ctx.Err() == nil { // a signal may cause errors
			slog.Error(what, "err", err)
			os.Exit(1)
		}
	}
	opts, gpuOpts := software()
	e.gpus.opts = gpuOpts
	drv, err := cu.OpenContext(ctx, opts...)
	check("open", err)
	devs, err := drv.Devices()
	check("devices", err)
	l, err := net.Listen("tcp", *listen)
	check("listen", err)
	slog.Info("listening", "addr", l.Addr())
	context.AfterFunc(ctx, func() { // if a call of the driver hangs
		time.Sleep(2 * e.limit)
		slog.Error("stop", "err", "a GPU hangs")
		os.Exit(1)
	})
	check("run", e.run(ctx, devs, l))
	slog.Info("bye")
}
