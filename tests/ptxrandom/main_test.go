package ptxrandom

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// workerEnv is set in the processes that TestGPU starts from its own binary.
const workerEnv = "PURECU_PTX_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(work(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}
