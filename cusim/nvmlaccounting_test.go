package cusim_test

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
)

// TestNVMLAccounting checks the account of a process while it has a context, and afterwards.
func TestNVMLAccounting(t *testing.T) {
	b := newBench(t, cusim.VirtualTime(), cusim.WithKernel("sum", cusim.Kernel{
		Time: func(*cusim.Launch) time.Duration { return 3 * time.Second },
	}))
	_, d := openNVML(t, b.sim)
	pid := uint32(os.Getpid())
	check := func(what string, want ...uint32) {
		t.Helper()
		if pids, err := d.AccountingPIDs(); err != nil || !slices.Equal(pids, want) {
			t.Errorf("%s: the processes are %v (%v), want %v", what, pids, err, want)
		}
	}
	check("without accounting")
	b.sim.Advance(time.Second)
	done(t, d.SetAccountingMode(true))
	check("a process that is older")
	b.close(t)
	check("it has ended")
	b.sim.Advance(time.Second)
	gpu := must(must(must(cu.Open(cu.WithSoftware(b.sim)))(t).Device(0))(t).PrimaryContext())(t)
	check("a process", pid)
	begun := must(d.AccountingStats(pid))(t)
	if begun.Start.IsZero() || !begun.Running || begun.Time != 0 || begun.Utilization.GPU != 0 {
		t.Errorf("a process that begins: %+v", begun)
	}
	mem := must(gpu.Alloc(1 << 30))(t)
	mod := must(gpu.LoadModule([]byte(ptx)))(t)
	s := must(gpu.NewStream(cu.StreamNonBlocking))(t)
	sum := must(mod.Function("sum"))(t)
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1, Y: 1, Z: 1}, Block: cu.Dim3{X: 1, Y: 1, Z: 1}}
	done(t, sum.Launch(s, cfg, cu.U64(0), cu.U32(0), cu.F32(0), cu.F64(0)))
	b.sim.Advance(10 * time.Second)
	done(t, mem.Close())
	stats := must(d.AccountingStats(pid))(t)
	most := stats.MaxMemory
	if now := must(d.Memory())(t).Used; most < now+1<<30 {
		t.Errorf("at most %d bytes were used, and now %d", most, now)
	}
	equal(t, "a process that runs", nvml.AccountingStats{Utilization: nvml.Utilization{GPU: 30, Memory: 2},
		UtilizationKnown: true, MaxMemory: most, Start: begun.Start, Running: true})(stats, nil)
	done(t, errors.Join(s.Close(), mod.Close(), gpu.Close()))
	b.sim.Advance(time.Hour)
	check("a process that has ended", pid)
	equal(t, "a process that has ended", nvml.AccountingStats{Utilization: nvml.Utilization{GPU: 30, Memory: 2},
		UtilizationKnown: true, MaxMemory: most, Start: begun.Start, Time: 10 * time.Second})(d.AccountingStats(pid))
	if _, err := d.AccountingStats(pid + 1); !errors.Is(err, nvml.ErrNotFound) {
		t.Errorf("another process: %v", err)
	}
	done(t, d.ClearAccounting())
	check("accounts that were deleted")
	if _, err := d.AccountingStats(pid); !errors.Is(err, nvml.ErrNotFound) {
		t.Errorf("an account that was deleted: %v", err)
	}
	done(t, errors.Join(d.SetAccountingMode(false), d.SetAccountingMode(true)))
	check("accounting again")
}
