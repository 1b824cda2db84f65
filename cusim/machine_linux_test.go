package cusim_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/purecu/purecu/cusim"
)

// TestMachine checks that NVML shows the memory and the processes of all that share a folder, and with accounting also
// those that have ended.
func TestMachine(t *testing.T) {
	for _, accounting := range []bool{false, true} {
		t.Run(fmt.Sprint(accounting), func(t *testing.T) { testMachine(t, accounting) })
	}
}

func testMachine(t *testing.T, accounting bool) {
	folder := t.TempDir()
	_, dev := openNVML(t, cusim.New(environment(t, "CUSIM_MACHINE="+folder)))
	if accounting {
		done(t, dev.SetAccountingMode(true))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), machineEnv+"="+folder)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // if the test fails before it has ended
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}

	const context, memory = 556_597_248, 1 << 20 // what H200s take for a context, and for 1 MiB
	list, err := dev.ComputeProcesses()
	if err != nil || len(list) != 1 || int(list[0].PID) != cmd.Process.Pid || list[0].UsedMemory != context+memory {
		t.Errorf("the processes are %+v, %v, and not %d with %d bytes", list, err, cmd.Process.Pid, context+memory)
	}
	if m, err := dev.Memory(); err != nil || m.Used != context+memory {
		t.Errorf("the memory is %+v, %v", m, err)
	}

	in.Close()
	_ = cmd.Wait()
	if list, err := dev.ComputeProcesses(); err != nil || len(list) != 0 {
		t.Errorf("the processes are %+v, %v", list, err)
	}
	if !accounting {
		if files, _ := os.ReadDir(folder); len(files) != 0 {
			t.Errorf("%v is left", files)
		}
		return
	}
	_, dev = openNVML(t, cusim.New(environment(t, "CUSIM_MACHINE="+folder)))
	if pids, err := dev.AccountingPIDs(); err != nil || len(pids) != 1 || int(pids[0]) != cmd.Process.Pid {
		t.Errorf("the processes with accounts are %v, %v", pids, err)
	}
	stats, err := dev.AccountingStats(uint32(cmd.Process.Pid))
	if err != nil || stats.Running || stats.MaxMemory != context+memory || stats.Start.IsZero() {
		t.Errorf("the account is %+v, %v", stats, err)
	}
}
