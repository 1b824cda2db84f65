package driver_test

import (
	"fmt"
	"sync/atomic"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// counting changes another driver: it counts the records of events.
type counting struct {
	driver.Software
	records *atomic.Int64
}

func (d counting) EventRecord(th *driver.Thread, e driver.Event, s driver.Stream) driver.Result {
	d.records.Add(1)
	return d.Software.EventRecord(th, e, s)
}

// A driver that embeds the functions of another driver has no method Software, and needs Provide.
func ExampleProvide() {
	var records atomic.Int64
	changed := counting{cusim.New().Software(), &records}
	drv := must(cu.Open(cu.WithSoftware(driver.Provide(changed))))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	var e cu.Event
	defer e.Close()
	for range 3 {
		if err := e.Record(s); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(must(e.Query()), records.Load())
	// Output: complete 3
}
