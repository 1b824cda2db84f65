//go:build !(darwin || freebsd || linux || netbsd)

package sim

import (
	"errors"
	"os"

	"github.com/purecu/purecu/driver"
)

const canShareMemory = false

// memoryFile does not exist on this platform.
type memoryFile struct{}

func reserveFile(*os.File, uint64, uint64) error { return errors.ErrUnsupported }

func (d *Driver) newMemoryFile(uint64, uint64) *memoryFile { return nil }

func (s *memoryFile) allocate(*Driver, uint64, uint64) bool { return false }

func (s *memoryFile) discard(uint64, uint64) {}

func openMemoryFile(int) (*memoryFile, uint64) { return nil, 0 }

func sizeOfFile(int) uint64 { return 0 }

func fileOf(int32) (fileID, bool) { return fileID{}, false }

func openFile(int, uint64) *memoryFile { return nil }

func (s *memoryFile) again() *memoryFile { return nil }

func (s *memoryFile) mapped() []byte { return nil }

func (s *memoryFile) bytes() []byte { return nil }

func (s *memoryFile) duplicate() int { return -1 }

func (s *memoryFile) close() {}

func (d *Driver) newIPCMemory(uint64) (*memoryFile, ipcID, driver.Result) {
	return nil, ipcID{}, driver.ResultNotSupported
}

func openIPCMemory(*ipcMemHandle) *memoryFile { return nil }

func (s *memoryFile) descriptor() int32 { return -1 }
