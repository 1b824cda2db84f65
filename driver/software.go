package driver

import "errors"

// Provider provides a software driver to cu.WithSoftware. A driver whose method Software returns
// the driver itself is its own provider. If the driver has a method Closed(), each cu.Driver that uses
// it calls that when the program closes it. If the provider has a method Err() error that returns an error, cu.Open
// returns this error, and does not use the driver.
type Provider interface {
	// Software returns the driver.
	Software() Software
}

// Provide returns a provider for a driver without a method Software. A driver that embeds a
// [Software], to change some functions of another driver, has no such method.
func Provide(s Software) Provider { return provided{s} }

// provided is the result of Provide.
type provided struct{ driver Software }

// Software returns the driver.
func (p provided) Software() Software { return p.driver }

// Failed returns a provider that has no driver. cu.Open returns err, which says why.
func Failed(err error) Provider { return failed{err} }

// failed is the result of Failed.
type failed struct{ err error }

// Software returns nil.
func (failed) Software() Software { return nil }

// Err returns the error.
func (f failed) Err() error { return f.err }

// ErrNilProvider is the error of [Table.UseProvider] for a provider that is nil, or whose driver is.
var ErrNilProvider = errors.New("the software driver is nil")

// Unimplemented is a software driver whose functions all return [NotImplemented]. Package cu turns
// this into an error that matches [errors.ErrUnsupported] and CUDA_ERROR_NOT_SUPPORTED (801). A
// driver that embeds Unimplemented has the functions that it declares, and still compiles when
// [Software] gets more methods.
//
// # Required functions
//
// Package cu needs Init to open a driver. For a context it needs DeviceGet, DevicePrimaryCtxRetain,
// DevicePrimaryCtxRelease, CtxPushCurrent and CtxPopCurrent.
type Unimplemented struct{}

// Clock returns nil, which means the machine's clock.
func (Unimplemented) Clock() Clock { return nil }

// BeginWait allows all waits.
func (Unimplemented) BeginWait(Context, []Event) (end func(), res Result) { return nil, ResultSuccess }

// ModuleLoadLog returns [NotImplemented]. Package driver then calls ModuleLoadDataEx instead.
func (Unimplemented) ModuleLoadLog(*Thread, []byte, []JITOption) (Module, JITLog, Result) {
	return 0, JITLog{}, missing(symModuleLoadDataEx)
}

// NotImplemented returns the result of a function that a software driver does not have.
func NotImplemented(s Symbol) Result { return missing(s) }
