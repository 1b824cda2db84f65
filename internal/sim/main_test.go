package sim

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(descriptorsEnv) != "" { // before package testing starts a timer
		os.Exit(withoutDescriptors())
	}
	goleak.VerifyTestMain(m)
}

// descriptorsEnv says when the process of TestFirstTimer uses up its descriptors.
const descriptorsEnv = "PURECU_TEST_DESCRIPTORS"
