package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/purecu/purecu/nvml"
)

// gpus serves what NVML says about each GPU. A page has what was read last, so that it never waits for a GPU. Nothing
// of a GPU waits for another one: each has its own goroutines, and its own set of events.
type gpus struct {
	dcgm     bool // the names and labels of dcgm-exporter
	host     string
	opts     []nvml.Option
	failures *prom.CounterVec
	all      []*gpu
}

// gpu is what is known about one GPU.
type gpu struct {
	*gpus
	index string
	dev   *nvml.Device // or nil: it must be opened

	mu      sync.Mutex
	labels  prom.Labels // of all samples
	info    prom.Labels // what the GPU is, or nil
	samples []sample
	xids    map[xidKey]uint64
	lastXID nvml.XID
}

// sample is a number that was read. Its labels are those besides the GPU's.
type sample struct {
	*metric
	value  float64
	labels prom.Labels
}

type xidKey struct {
	xid                          nvml.XID
	gpuInstance, computeInstance string // or ""
}

// newGPUs returns the metrics of NVML with a kind of names, "nvml" or "dcgm".
func newGPUs(names string) (*gpus, error) {
	if names != "nvml" && names != "dcgm" {
		return nil, errors.New("the names are nvml or dcgm")
	}
	host, _ := os.Hostname()
	return &gpus{dcgm: names == "dcgm", host: cmp.Or(os.Getenv("NODE_NAME"), host)}, nil // as dcgm-exporter does
}

// run reads the GPUs until ctx ends. Without NVML it says why, which is no error of the exporter.
func (n *gpus) run(ctx context.Context, e exporter, reg prom.Registerer) {
	late := time.AfterFunc(e.limit, func() { slog.Warn("no metrics of NVML yet", "err", "NVML does not answer") })
	lib, err := nvml.Open(n.opts...) // without a limit, as the metrics come when it has opened
	count := 0
	if err == nil {
		defer lib.Close()
		count, err = lib.DeviceCount()
	}
	late.Stop()
	if err != nil {
		slog.Warn("no metrics of NVML", "err", err)
		return
	}
	n.failures = promauto.With(reg).NewCounterVec(prom.CounterOpts{Name: "nvml_failures_total",
		Help: "Calls of NVML that failed, other than for what a GPU does not have."}, []string{"gpu", "result"})
	for i := range count {
		g := &gpu{gpus: n, index: strconv.Itoa(i), xids: map[xidKey]uint64{}, samples: []sample{{up, 0, nil}}}
		g.identify("", "", "", "")
		g.info = nil
		n.all = append(n.all, g)
	}
	reg.MustRegister(n)
	var work sync.WaitGroup
	defer work.Wait()
	for i, g := range n.all {
		work.Go(func() { again(ctx, e.every, func() bool { g.poll(ctx, lib, i, e.limit); return true }) })
		work.Go(func() { again(ctx, e.every, func() bool { return g.watchXIDs(ctx, lib, i, e.limit) }) })
	}
}

// again calls f, with pauses, until ctx ends or f returns false.
func again(ctx context.Context, pause time.Duration, f func() bool) {
	for ctx.Err() == nil && f() {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// identify sets the labels of the GPU.
func (g *gpu) identify(uuid nvml.UUID, pci, device, model string) {
	labels := prom.Labels{"gpu": g.index, "uuid": string(uuid)}
	if g.dcgm {
		labels = prom.Labels{"gpu": g.index, "UUID": string(uuid), "pci_bus_id": pci, "device": device,
			"modelName": model, "Hostname": g.host}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.labels, g.info = present(labels), present(prom.Labels{"pci_bus_id": pci, "device": device, "name": model})
}

// Describe does not say which metrics there will be: each GPU has others.
func (n *gpus) Describe(chan<- *prom.Desc) {}

// Collect returns what was read last.
func (n *gpus) Collect(out chan<- prom.Metric) {
	for _, g := range n.all {
		for _, m := range g.collect() {
			out <- m
		}
	}
}

func (g *gpu) collect() (all []prom.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	add := func(s sample) {
		name, div := s.name, s.div
		labels := maps.Clone(g.labels)
		maps.Copy(labels, s.labels)
		if g.dcgm {
			name, div = s.dcgm, s.dcgmDiv
		} else {
			maps.Copy(labels, s.metric.labels)
		}
		if name != "" {
			all = append(all, prom.MustNewConstMetric(prom.NewDesc(name, s.help, nil, labels), s.kind, s.value/div))
		}
	}
	for _, s := range g.samples {
		add(s)
	}
	if g.info != nil && !g.dcgm {
		add(sample{info, 1, g.info})
	}
	add(sample{lastXID, float64(g.lastXID), nil})
	for key, times := range g.xids {
		labels := g.instance(key.gpuInstance, key.computeInstance, "")
		labels["xid"] = strconv.Itoa(int(key.xid))
		add(sample{xids, float64(times), labels})
	}
	return all
}

// instance returns the labels of a MIG device.
func (g *gpu) instance(gpuInstance, computeInstance, profile string) prom.Labels {
	labels := prom.Labels{"gpu_instance": gpuInstance, "compute_instance": computeInstance, "profile": profile}
	if g.dcgm {
		if _, whole, ok := strings.Cut(profile, "c."); ok { // "1c.2g.10gb" is a part of "2g.10gb"
			profile = whole
		}
		labels = prom.Labels{"GPU_I_ID": gpuInstance, "GPU_I_PROFILE": profile}
	}
	return present(labels)
}

// present deletes the labels that are "", which is the same to Prometheus.
func present(labels prom.Labels) prom.Labels {
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

// poll reads the GPU. It serves what was read before a failure.
func (g *gpu) poll(ctx context.Context, lib *nvml.Library, index int, limit time.Duration) {
	r, hidden := &reader{gpu: g}, false
	if g.dev == nil {
		dev, err := lib.Device(index) // unlimited, as limited calls of the library wait for each other
		if r.ok(err) {
			g.dev = dev
		}
		hidden = errors.Is(err, nvml.ErrNoPermission) // it is for other containers
	}
	ctx, cancel := context.WithTimeout(ctx, limit) // for all calls together
	defer cancel()
	alive := false
	if g.dev != nil {
		dev := g.dev.WithContext(ctx)
		known := r.identity(dev)
		r.values(dev)
		r.parts(dev)
		alive = known && !r.lost
	}
	if !alive && ctx.Err() == nil {
		g.dev = nil // it may have another handle after a reset
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.samples = r.samples; !hidden {
		g.samples = append(g.samples, sample{up, truth(alive), nil})
	}
}

// watchXIDs counts XIDs. It returns false if there are none, and true after a failure.
func (g *gpu) watchXIDs(ctx context.Context, lib *nvml.Library, index int, limit time.Duration) bool {
	r := &reader{gpu: g}
	dev, err1 := lib.Device(index)
	set, err2 := lib.NewEventSet()
	if err2 == nil {
		defer set.Close()
	}
	err := cmp.Or(err1, err2)
	if err == nil {
		err = set.Add(dev.WithTimeout(limit), nvml.EventXIDCritical)
	}
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, nvml.ErrNoPermission) {
		slog.Warn("no XIDs", "gpu", index, "err", err)
		return false
	}
	if !r.ok(err) {
		return true
	}
	for event, err := range set.All(ctx) {
		if !r.ok(err) {
			return true
		}
		if xid, ok := event.XID(); ok {
			slog.Error("XID", "gpu", index, "event", event)
			g.count(xid, event)
		}
	}
	return true
}

func (g *gpu) count(xid nvml.XID, event nvml.Event) {
	key := xidKey{xid: xid}
	if id, ok := event.GPUInstance(); ok {
		key.gpuInstance = strconv.Itoa(id)
	}
	if id, ok := event.ComputeInstance(); ok && !g.dcgm { // which has no label for it
		key.computeInstance = strconv.Itoa(id)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.xids[key]++
	g.lastXID = xid
}
