//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// createLedger makes a ledger in a folder, locks it, and returns it with its name in the folder. It gets the name by
// which others find it when it is locked, so that nobody takes it for that of a process that has ended.
func createLedger(folder string) (f *os.File, name string, err error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, "", err
	}
	name = fmt.Sprintf("%d-%016x", os.Getpid(), rand.Uint64())
	path := filepath.Join(folder, name)
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, "", err
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		err = os.Rename(path, path+ledgerSuffix)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return nil, "", err
	}
	return f, name + ledgerSuffix, nil
}

// openLedger opens a ledger, and reports whether its process has ended.
func openLedger(name string) (f *os.File, ended bool, err error) {
	f, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	return f, abandoned(f), nil
}

// openShared opens a file of the machine, and locks it until it is closed. Who writes makes it.
func openShared(folder, name string, write bool) (*os.File, error) {
	flags, lock := os.O_RDONLY, syscall.LOCK_SH
	if write {
		flags, lock = os.O_RDWR|os.O_CREATE, syscall.LOCK_EX
	}
	f, err := os.OpenFile(filepath.Join(folder, name), flags|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = syscall.Flock(int(f.Fd()), lock)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
