//go:build unix

package descriptor

import "syscall"

// Duplicate returns another descriptor of an open file. Programs that the process starts do not get it.
func Duplicate(fd int32) (int32, error) {
	syscall.ForkLock.RLock() // no program is started before CloseOnExec
	defer syscall.ForkLock.RUnlock()
	d, err := syscall.Dup(int(fd))
	if err != nil {
		return -1, err
	}
	syscall.CloseOnExec(d)
	return int32(d), nil
}

// Close closes a descriptor.
func Close(fd int32) { _ = syscall.Close(int(fd)) }
