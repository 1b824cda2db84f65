//go:build !linux

package cu_test

import (
	"os"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
)

// An exporter would be another process that makes what only another process can open. Only Linux
// has one.
type exporter struct{}

type exportedHandles struct {
	mem     memory.IPCHandle
	event   IPCEventHandle
	poolMem memory.PoolHandle
	pool    *os.File
}

func startExporter(*testing.T, string, ...string) *exporter { return nil }
func (*exporter) next(*testing.T) exportedHandles           { panic("there is no exporter") }
func isExporter(*testing.T) bool                            { return false }
