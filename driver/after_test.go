package driver

import "testing"

// TestAfter checks the results for steps that fail after a successful call.
func TestAfter(t *testing.T) {
	for _, c := range []struct {
		res      Result
		function string
		code     Result
		ok       bool
		sticky   bool
	}{
		{ResultSuccess, "", ResultSuccess, false, false},
		{ResultIllegalAddress, "", ResultIllegalAddress, false, true},
		{missing(numSymbols - 1), "", missing(numSymbols - 1), false, false},
		{popFailed.with(ResultInvalidContext), "cuCtxPopCurrent", ResultInvalidContext, true, false},
		{popFailed.with(ResultIllegalAddress), "cuCtxPopCurrent", ResultIllegalAddress, true, true},
		{popFailed.with(1<<20 - 1), "cuCtxPopCurrent", 1<<20 - 1, true, false},
		{restoreFailed.with(1), "cuThreadExchangeStreamCaptureMode", 1, true, false},
		{restoreFailed.with(1 << 30), "cuThreadExchangeStreamCaptureMode", ResultUnknown, true, false},
		{popFailed.with(-5), "cuCtxPopCurrent", ResultUnknown, true, false},
	} {
		function, code, ok := c.res.After()
		if function != c.function || code != c.code || ok != c.ok || c.res.Sticky() != c.sticky {
			t.Errorf("%d: %q, %v, %v, sticky %v", int(c.res), function, code, ok, c.res.Sticky())
		}
		if m := NewSoftware(nil).Missing(c.res); (m != nil) != (c.res == missing(numSymbols-1)) {
			t.Errorf("%d: missing %v", int(c.res), m)
		}
	}
}
