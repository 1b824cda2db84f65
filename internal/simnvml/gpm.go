package simnvml

import (
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// gpmSample is what a GPU had done at a time.
type gpmSample struct {
	gpu      *gpu
	instance *gpuInstance // or nil
	at       time.Time
	busy     time.Duration
}

// GpmSampleAlloc makes an empty sample.
func (n *model) GpmSampleAlloc(sample *raw.GpmSample) raw.Return {
	if sample == nil {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	*sample = raw.GpmSample(n.newHandle())
	n.samples[*sample] = &gpmSample{}
	return raw.NVML_SUCCESS
}

// GpmSampleFree frees a sample.
func (n *model) GpmSampleFree(sample raw.GpmSample) raw.Return {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.samples[sample] == nil && sample != 0 {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	delete(n.samples, sample)
	return raw.NVML_SUCCESS
}

// sample returns what a sample has, or nothing if there is no such sample.
func (n *model) sample(h raw.GpmSample) gpmSample {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.samples[h]; s != nil {
		return *s
	}
	return gpmSample{}
}

// GpmSampleGet takes a sample.
func (n *model) GpmSampleGet(device raw.Device, sample raw.GpmSample) raw.Return {
	return n.then(n.answers.GpmSampleGet(device, sample), device, func(g *gpu, now GPU) {
		if s := n.samples[sample]; s != nil {
			*s = gpmSample{g, nil, n.machine.Clock().Now(), now.Busy}
		}
	})
}

// GpmMetricsGet returns what happened between two samples. The share of the time in which the graphics engine and the
// multiprocessors worked follows from the work. Other metrics have the value that a GPU without work had.
func (n *model) GpmMetricsGet(metrics *raw.GpmMetricsGet) raw.Return {
	if metrics == nil || metrics.Version != 1 {
		return n.answers.GpmMetricsGet(metrics)
	}
	first, second := n.sample(metrics.Sample1), n.sample(metrics.Sample2)
	if first.gpu == nil || first.gpu != second.gpu || first.instance != second.instance ||
		metrics.NumMetrics > uint32(len(metrics.Metrics)) {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	share := 0.0
	if all := second.at.Sub(first.at); all > 0 {
		share = min(max(float64(second.busy-first.busy)/float64(all), 0), 1) // another instance may be the first now
	}
	for i := range metrics.NumMetrics {
		m := &metrics.Metrics[i]
		one := raw.GpmMetricsGet{Version: 1, NumMetrics: 1}
		one.Metrics[0].MetricId = m.MetricId
		if r := n.answers.GpmMetricsGet(&one); r != raw.NVML_SUCCESS {
			return r
		}
		m.NvmlReturn, m.Value = one.Metrics[0].NvmlReturn, one.Metrics[0].Value
		switch raw.GpmMetricId(m.MetricId) {
		case raw.NVML_GPM_METRIC_GRAPHICS_UTIL, raw.NVML_GPM_METRIC_SM_UTIL:
			m.Value = 100 * share
		}
	}
	return raw.NVML_SUCCESS
}
