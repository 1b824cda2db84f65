//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"os"
	"path/filepath"
	"syscall"
)

// createLedger makes a file, and locks it.
func createLedger(name string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openLedger opens the file of a living process. It removes that of a process that has ended.
func openLedger(name string) (*os.File, error) {
	f, err := openNamed(name)
	if err != nil {
		return nil, err
	}
	if abandoned(f) {
		_ = os.Remove(name) // another process may have removed it
		_ = f.Close()
		return nil, os.ErrProcessDone
	}
	return f, nil
}
