//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
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
