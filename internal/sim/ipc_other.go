//go:build !(darwin || freebsd || linux || netbsd)

package sim

import "errors"

// ipcMapping is empty on platforms on which events cannot be shared.
type ipcMapping struct{}

func (f *ipcFile) close() {}

func (f *ipcFile) descriptor() int32 { return -1 }

func newIPCFile(bool) (*ipcFile, error) { return nil, errors.ErrUnsupported }

func openIPCFile(*ipcHandle) (*ipcFile, error) { return nil, errors.ErrUnsupported }

func pidNamespace() uint64 { return 0 }
