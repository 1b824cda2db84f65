package cusim_test

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
)

// TestMachine checks that NVML shows the memory and the processes of all that share a folder.
func TestMachine(t *testing.T) {
	folder := t.TempDir()
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

	env, err := cusim.Environment([]string{"CUSIM_MACHINE=" + folder})
	if err != nil {
		t.Fatal(err)
	}
	lib, err := nvml.Open(nvml.WithSoftware(cusim.New(env).NVML()))
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	dev, err := lib.Device(0)
	if err != nil {
		t.Fatal(err)
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
	if files, _ := os.ReadDir(folder); len(files) != 0 {
		t.Errorf("%v is left", files)
	}
}
