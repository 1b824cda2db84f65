//go:build !(darwin || freebsd || linux || netbsd)

package sim

import (
	"errors"
	"os"
)

const canShareMemory = false

// memoryFile does not exist on this platform.
type memoryFile struct{ charged uint64 }

func reserveFile(*os.File, uint64, uint64) error { return errors.ErrUnsupported }

func (d *Driver) newMemoryFile(uint64, uint64) (*memoryFile, error) {
	return nil, errors.ErrUnsupported
}

func (s *memoryFile) allocate(*Driver, uint64, uint64) error { return errors.ErrUnsupported }

func (s *memoryFile) punch(uint64, uint64) bool { return false }

func sizeOfFile(int) uint64 { return 0 }

func fileOf(int32) (fileID, bool) { return fileID{}, false }

func openFile(int, uint64) (*memoryFile, error) { return nil, errors.ErrUnsupported }

func (s *memoryFile) again() (*memoryFile, error) { return nil, errors.ErrUnsupported }

func (s *memoryFile) mapped() []byte { return nil }

func (s *memoryFile) mapMemory() error { return errors.ErrUnsupported }

func (s *memoryFile) duplicate() (int32, error) { return -1, errors.ErrUnsupported }

func (s *memoryFile) close() {}

func (d *Driver) newIPCMemory(uint64) (*memoryFile, ipcID, error) {
	return nil, ipcID{}, errors.ErrUnsupported
}

func openIPCMemory(*ipcMemHandle) (*memoryFile, error) { return nil, errors.ErrUnsupported }

func (s *memoryFile) descriptor() int32 { return -1 }
