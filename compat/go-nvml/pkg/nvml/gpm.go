package nvml

import "github.com/purecu/purecu/nvml/raw"

// GpmMetricsGetV returns a handler whose V1 calls nvmlGpmMetricsGet.
func (l *library) GpmMetricsGetV(metricsGet *GpmMetricsGetType) GpmMetricsGetVType {
	return GpmMetricsGetVType{metricsGet}
}

// V1 calls nvmlGpmMetricsGet.
func (metricsGetV GpmMetricsGetVType) V1() Return { return metricsGetV.metricsGet.get(1) }

// GpmMetricsGet calls nvmlGpmMetricsGet.
func (l *library) GpmMetricsGet(metricsGet *GpmMetricsGetType) Return {
	return metricsGet.get(GPM_METRICS_GET_VERSION)
}

// get makes the call. Its struct is longer than that of package raw: it has room for the metrics of newer drivers.
func (g *GpmMetricsGetType) get(version uint32) Return {
	g.Version = version
	request := nvmlGpmMetricsGetType{Version: version, NumMetrics: g.NumMetrics, Sample1: g.Sample1.(nvmlGpmSample),
		Sample2: g.Sample2.(nvmlGpmSample), Metrics: g.Metrics}
	ret := result(native().GpmMetricsGet(as[raw.GpmMetricsGet](&request)))
	*g = GpmMetricsGetType{Version: request.Version, NumMetrics: request.NumMetrics, Sample1: request.Sample1,
		Sample2: request.Sample2, Metrics: request.Metrics}
	return ret
}
