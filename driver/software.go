package driver

// Provider is what cu.WithSoftware takes. A driver that has this method, and returns itself,
// is its own provider.
type Provider interface {
	// Software returns the driver.
	Software() Software
}

// Provide returns a provider of a driver that has no method Software. One that embeds another
// driver's Software, to change some of its functions, cannot have it.
func Provide(s Software) Provider { return provided{s} }

// provided is what Provide returns.
type provided struct{ driver Software }

// Software returns the driver.
func (p provided) Software() Software { return p.driver }

// Unimplemented is a software driver that has no function: each returns [NotImplemented], which
// package cu turns into an error that matches [errors.ErrUnsupported] and
// CUDA_ERROR_NOT_SUPPORTED (801). A driver that embeds it has the functions that it declares,
// and goes on to compile when [Software] gets more of them.
//
// Package cu opens a driver that has Init. For a context it needs DeviceGet, DevicePrimaryCtxRetain,
// DevicePrimaryCtxRelease, CtxPushCurrent and CtxPopCurrent.
type Unimplemented struct{}

// Clock returns nil, for the machine's clock.
func (Unimplemented) Clock() Clock { return nil }

// CheckWait permits all waits.
func (Unimplemented) CheckWait(Event) Result { return ResultSuccess }

// ModuleLoadLog says that there is none: ModuleLoadDataEx is called in its place.
func (Unimplemented) ModuleLoadLog(*Thread, []byte, []JITOption) (Module, JITLog, Result) {
	return 0, JITLog{}, missing(symModuleLoadDataEx)
}

// NotImplemented is the result with which a software driver says that it does
// not have a function.
func NotImplemented(s Symbol) Result { return missing(s) }
