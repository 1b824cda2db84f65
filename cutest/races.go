package cutest

import (
	"sync"
	"testing"

	"github.com/purecu/purecu/cu"
)

// Races makes the test fail for each race between uses of memory that the test's program does not
// put in order: see [cu.Driver.DetectRaces]. Call it before objects are created on the driver.
//
//	drv := cutest.Driver(t)
//	cutest.Races(t, drv)
func Races(t testing.TB, drv *cu.Driver) {
	t.Helper()
	var mu sync.Mutex
	over := false // the test must not be used any more
	stop, err := drv.DetectRaces(func(r cu.Race) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			t.Errorf("%v", r)
		}
	})
	if err != nil {
		t.Fatalf("cutest: %v", err)
	}
	t.Cleanup(func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
	})
}
