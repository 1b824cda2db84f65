package cusim_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

var chaosCalls = flag.Int64("cusim.chaos", 100_000, "how many calls of TestNVMLChaos NVML answers")

// crowded is a software NVML that counts the calls about each GPU that are being made at the same time.
type crowded struct {
	raw.Software
	now, most sync.Map // *atomic.Int64 by raw.Device
}

func counter(m *sync.Map, d raw.Device) *atomic.Int64 {
	n, ok := m.Load(d)
	if !ok {
		n, _ = m.LoadOrStore(d, new(atomic.Int64))
	}
	return n.(*atomic.Int64)
}

func (c *crowded) enter(d raw.Device) (leave func()) {
	now, most := counter(&c.now, d), counter(&c.most, d)
	n := now.Add(1)
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
	return func() { now.Add(-1) }
}

func (c *crowded) DeviceGetName(d raw.Device, name []byte) raw.Return {
	defer c.enter(d)()
	return c.Software.DeviceGetName(d, name)
}

func (c *crowded) DeviceGetPowerUsage(d raw.Device, mw *uint32) raw.Return {
	defer c.enter(d)()
	return c.Software.DeviceGetPowerUsage(d, mw)
}

func (c *crowded) DeviceGetUtilizationRates(d raw.Device, u *raw.Utilization) raw.Return {
	defer c.enter(d)()
	return c.Software.DeviceGetUtilizationRates(d, u)
}

// chaosWork are calls about a GPU.
var chaosWork = []func(d *nvml.Device) error{
	func(d *nvml.Device) error { _, err := d.Name(); return err },
	func(d *nvml.Device) error { _, err := d.PowerUsage(); return err },
	func(d *nvml.Device) error { _, err := d.Utilization(); return err },
	func(d *nvml.Device) error { _, err := d.Temperature(nvml.TemperatureGPU); return err },
	func(d *nvml.Device) error { _, err := d.Memory(); return err },
	func(d *nvml.Device) error { _, err := d.ComputeProcesses(); return err },
	func(d *nvml.Device) error { return d.SetPowerLimit(500_000) },
	func(d *nvml.Device) error {
		s, err := d.GPMSample()
		if err == nil {
			err = s.Close()
		}
		return err
	},
}

// The GPUs and goroutines of the test. One goroutine of each GPU makes calls without a bound.
const chaosGPUs, chaosWorkers = 4, 32

// chaos is a test in progress.
type chaos struct {
	sim   *cusim.Driver
	xids  int64 // how many happened
	stop  atomic.Bool
	all   atomic.Int64               // calls that NVML has answered
	calls [chaosGPUs][2]atomic.Int64 // those of a GPU: without a bound, and with one
}

// work makes calls about a GPU. bound is 1 if they have a bound.
func (c *chaos) work(t *testing.T, gpu, bound int, d *nvml.Device) {
	for i := 0; !c.stop.Load(); i++ {
		err := chaosWork[i%len(chaosWork)](d)
		if errors.Is(err, nvml.ErrTimeout) { // at once, if the GPU hangs
			time.Sleep(100 * time.Microsecond)
			continue
		}
		c.calls[gpu][bound].Add(1)
		c.all.Add(1)
		var e *nvml.Error
		switch {
		case err == nil, errors.Is(err, nvml.ErrGPULost),
			errors.Is(err, raw.NVML_ERROR_UNKNOWN):
		case !errors.As(err, &e):
			t.Errorf("the error is no nvml.Error: %v", err)
		default:
			t.Error(err)
		}
	}
}

// progress waits until NVML has answered n more calls of each kind about each GPU but one. Nothing else happens
// meanwhile: a call that waited for a GPU that hangs would have no answer.
func (c *chaos) progress(t *testing.T, n int64, but int) {
	var from [chaosGPUs][2]int64
	for i := range from {
		from[i] = [2]int64{c.calls[i][0].Load(), c.calls[i][1].Load()}
	}
	for began := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		done := true
		for i := range from {
			for bound, k := range from[i] {
				done = done && (i == but || c.calls[i][bound].Load() >= k+n)
			}
		}
		if done {
			return
		}
		if time.Since(began) > time.Minute {
			t.Errorf("calls wait for GPU %d, or for nothing", but)
			return
		}
	}
}

// disturb does one thing to one GPU, and undoes it.
func (c *chaos) disturb(t *testing.T, random *rand.Rand) {
	gpu := random.IntN(chaosGPUs)
	switch random.IntN(4) {
	case 0:
		c.sim.InjectNVML(cusim.NVMLFault{GPUs: []int{gpu}, Result: raw.NVML_ERROR_UNKNOWN})
		c.progress(t, 50, -1)
	case 1:
		c.sim.InjectNVML(cusim.NVMLFault{GPUs: []int{gpu}, Hangs: true})
		c.progress(t, 50, gpu)
	case 2:
		c.sim.InjectNVML(cusim.NVMLFault{GPUs: []int{gpu}, Function: "nvmlDeviceGetPowerUsage", Hangs: true,
			Result: raw.NVML_ERROR_GPU_IS_LOST})
		c.progress(t, 50, gpu)
	case 3:
		c.sim.XID(gpu, 31)
		c.xids++
		c.progress(t, 10, -1)
	}
	c.sim.ClearFaults()
}

// TestNVMLChaos makes many calls while GPUs fail, hang, and are lost.
func TestNVMLChaos(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c := &chaos{sim: cusim.New(cusim.Devices(chaosGPUs))}
	crowd := &crowded{Software: c.sim.NVML()}
	lib := must(nvml.Open(nvml.WithSoftware(crowd)))(t)
	set := must(lib.NewEventSet())(t)
	var workers, listener sync.WaitGroup
	for i := range chaosWorkers {
		d, bound := must(lib.Device(i%chaosGPUs))(t), 0
		if i < chaosGPUs {
			if err := set.Add(d, nvml.EventXIDCritical); err != nil {
				t.Fatal(err)
			}
		} else {
			d, bound = d.WithTimeout(2*time.Millisecond), 1
		}
		workers.Go(func() { c.work(t, i%chaosGPUs, bound, d) })
	}
	var xids atomic.Int64
	listener.Go(func() {
		for _, err := range set.All(context.Background()) {
			if err != nil {
				t.Error(err)
				return
			}
			xids.Add(1)
		}
	})
	random := rand.New(rand.NewPCG(1, 2))
	rounds := 0
	for lost := false; (c.all.Load() < *chaosCalls || rounds < 20) && !t.Failed(); rounds++ {
		c.disturb(t, random)
		if !lost && c.all.Load() > *chaosCalls/2 {
			lost = true
			c.sim.LoseGPU(chaosGPUs - 1)
			c.xids++
		}
	}
	c.stop.Store(true)
	c.sim.ClearFaults()
	workers.Wait()
	for began := time.Now(); xids.Load() < c.xids && time.Since(began) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(set.Close(), lib.Close()); err != nil {
		t.Error(err)
	}
	listener.Wait()
	if xids.Load() != c.xids || lib.Exceeded() == 0 {
		t.Errorf("there were %d events of %d, and %d calls took too long", xids.Load(), c.xids, lib.Exceeded())
	}
	crowd.most.Range(func(d, most any) bool {
		if n := most.(*atomic.Int64).Load(); n > 2 { // the call of the lane, and one without a bound
			t.Errorf("%d calls about the GPU %#x were made at the same time", n, d)
		}
		return true
	})
}
