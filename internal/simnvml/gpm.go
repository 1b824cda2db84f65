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
func (n *NVML) GpmSampleAlloc(sample *raw.GpmSample) raw.Return {
	if r := n.enter("GpmSampleAlloc", nil, nil); r != raw.NVML_SUCCESS {
		return r
	}
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
func (n *NVML) GpmSampleFree(sample raw.GpmSample) raw.Return {
	if r := n.enter("GpmSampleFree", nil, nil); r != raw.NVML_SUCCESS {
		return r
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.samples[sample] == nil && sample != 0 {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	delete(n.samples, sample)
	return raw.NVML_SUCCESS
}

// GpmSampleGet takes a sample.
func (n *NVML) GpmSampleGet(device raw.Device, sample raw.GpmSample) raw.Return {
	return n.then(n.answers.GpmSampleGet(device, sample), device, func(g *gpu, now GPU) {
		if s := n.samples[sample]; s != nil {
			*s = gpmSample{g, nil, n.machine.Clock().Now(), now.Busy}
		}
	})
}

// GpmMetricsGet returns what happened between two samples. The share of the time in which the graphics engine and the
// multiprocessors worked follows from the work. Other metrics have the value that a GPU without work had.
func (n *NVML) GpmMetricsGet(metrics *raw.GpmMetricsGet) raw.Return {
	if r := n.enter("GpmMetricsGet", nil, nil); r != raw.NVML_SUCCESS || metrics == nil || metrics.Version != 1 {
		return max(r, n.answers.GpmMetricsGet(metrics))
	}
	n.mu.Lock()
	first, second := n.samples[metrics.Sample1], n.samples[metrics.Sample2]
	n.mu.Unlock()
	if first == nil || second == nil || first.gpu == nil || first.gpu != second.gpu || first.instance != second.instance ||
		metrics.NumMetrics > uint32(len(metrics.Metrics)) {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	share := 0.0
	if all := second.at.Sub(first.at); all > 0 {
		share = max(0, float64(second.busy-first.busy)/float64(all)) // another instance may be the first now
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
