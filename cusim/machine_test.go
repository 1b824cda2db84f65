package cusim_test

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// machineEnv makes the test's program a process that uses the machine in this folder.
const machineEnv = "CUSIM_TEST_MACHINE"

// useMachine allocates 1 MiB, says so, and ends when its input does.
func useMachine(folder string) error {
	env, err := cusim.Environment([]string{"CUSIM_MACHINE=" + folder})
	if err != nil {
		return err
	}
	drv, err := cu.Open(cu.WithSoftware(cusim.New(env)))
	if err != nil {
		return err
	}
	devs, err := drv.Devices()
	if err != nil {
		return err
	}
	gpu, err := devs[0].RetainPrimaryContext(context.Background())
	if err != nil {
		return err
	}
	if _, err := gpu.Alloc(1 << 20); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadByte()
	return err
}
