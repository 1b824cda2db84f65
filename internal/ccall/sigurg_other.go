//go:build unix && !linux

package ccall

// keepPreemptSignal does nothing where there is no CUDA driver to load.
func keepPreemptSignal() (restore func()) { return func() {} }
