//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/simnvml"
	nvml "github.com/purecu/purecu/nvml/raw"
)

// TestLedgerCreation checks that no reader takes a ledger that is being made for that of a process that has ended.
func TestLedgerCreation(t *testing.T) {
	folder := t.TempDir()
	other := filepath.Join(folder, "20240101") // somebody's
	if err := os.WriteFile(other, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	reader := New(Machine(folder))
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !done.Load() {
				reader.GPUs()
			}
		})
	}
	for range 300 {
		f, name, err := createLedger(folder)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	done.Store(true)
	readers.Wait()
	reader.GPUs()
	if left, _ := os.ReadDir(folder); len(left) != 1 {
		t.Errorf("%v is left", left)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// TestLedgerOfOneProcess checks that two drivers of one process see each other.
func TestLedgerOfOneProcess(t *testing.T) {
	folder := t.TempDir()
	one, other := New(Machine(folder)), New(Machine(folder))
	for i, d := range []*Driver{one, other} {
		d.Init(nil, 0)
		if _, r := d.DevicePrimaryCtxRetain(nil, 0); r != ok {
			t.Fatal(r)
		}
		if got := one.GPUs()[0]; len(got.Processes) != i+1 || got.Used != uint64(i+1)*contextMemory {
			t.Errorf("with %d drivers: %+v", i+1, got)
		}
	}
	if got := other.GPUs()[0]; len(got.Processes) != 2 || got.Used != 2*contextMemory {
		t.Errorf("%+v", got)
	}
	_ = one.ledger.file.Close()
	_ = other.ledger.file.Close()
}

// TestAccountOfEndedProcess checks the account that a process leaves which has ended without destroying its context, if
// its time is virtual.
func TestAccountOfEndedProcess(t *testing.T) {
	folder := t.TempDir()
	reader := New(Machine(folder))
	n, device := simnvml.New(reader), nvml.Device(0)
	for _, r := range []nvml.Return{n.InitV2(), n.DeviceGetHandleByIndexV2(0, &device),
		n.DeviceSetAccountingMode(device, nvml.NVML_FEATURE_ENABLED)} {
		if r != nvml.NVML_SUCCESS {
			t.Fatal(r)
		}
	}
	d := New(Machine(folder), VirtualTime())
	d.Init(nil, 0)
	if _, r := d.DevicePrimaryCtxRetain(nil, 0); r != ok {
		t.Fatal(r)
	}
	d.Advance(time.Hour)
	d.installed[0].take(1)
	_ = d.ledger.file.Close() // as the end of a process does
	if list := reader.GPUs()[0].Accounts; len(list) != 1 || time.Duration(list[0].Ended-list[0].Begun) != time.Hour {
		t.Errorf("the accounts are %+v", list)
	}
}
