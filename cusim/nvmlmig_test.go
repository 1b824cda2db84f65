package cusim_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// openNVML opens the software NVML of a driver, and returns its first GPU.
func openNVML(t *testing.T, sim *cusim.Driver) (*nvml.Library, *nvml.Device) {
	t.Helper()
	lib := must(nvml.Open(nvml.WithSoftware(sim.NVML())))(t)
	t.Cleanup(func() {
		if err := lib.Close(); err != nil {
			t.Error(err)
		}
	})
	return lib, must(lib.Device(0))(t)
}

// equal checks a result with its error.
func equal[T comparable](t *testing.T, what string, want T) func(got T, err error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: %v (%v), want %v", what, got, err, want)
		}
	}
}

// fails checks that an error matches another one.
func fails(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: the error is %v, want %v", what, err, want)
	}
}

// migOn divides a GPU.
func migOn(t *testing.T, d *nvml.Device) {
	t.Helper()
	if pending := must(d.SetMIGMode(true))(t); pending != nil {
		t.Fatal(pending)
	}
}

// The profiles of an H200 that the tests use.
const (
	mig1g, mig2g, mig3g, mig4g, mig7g, mig1gME = 19, 14, 9, 5, 0, 20
	mig1c, mig2c, mig3c                        = 0, 1, 2
)

// TestMIGOff checks a GPU that is not divided.
func TestMIGOff(t *testing.T) {
	_, d := openNVML(t, cusim.New())
	on, pending, err := d.MIGMode()
	if on || pending || err != nil {
		t.Errorf("the mode is %v, %v (%v)", on, pending, err)
	}
	_, err = d.CreateGPUInstance(mig1g)
	fails(t, "an instance", err, nvml.ErrNotSupported)
	_, err = d.GPUInstance(1)
	fails(t, "an instance by its number", err, nvml.ErrNotFound)
	for range d.MIGDevices() {
		t.Error("there is a MIG device")
	}
	equal(t, "IsMIG", false)(d.IsMIG())
	equal(t, "the number of MIG devices", 0)(d.MaxMIGDevices())
	_, err = d.Attributes()
	fails(t, "the attributes", err, nvml.ErrNotSupported)
}

// TestMIGCapacity checks how many instances there may be beside others, and that so many can be made.
func TestMIGCapacity(t *testing.T) {
	_, d := openNVML(t, cusim.New())
	migOn(t, d)
	for _, c := range []struct {
		made    []uint32
		profile uint32
		want    int
	}{
		{nil, mig1g, 7}, {nil, mig2g, 3}, {nil, mig3g, 2}, {nil, mig4g, 1}, {nil, mig7g, 1}, {nil, mig1gME, 1},
		{[]uint32{mig4g}, mig3g, 1}, {[]uint32{mig4g}, mig1g, 3}, {[]uint32{mig4g}, mig4g, 0}, {[]uint32{mig4g}, mig7g, 0},
		{[]uint32{mig3g, mig3g}, mig1g, 0}, {[]uint32{mig2g, mig2g}, mig3g, 1}, {[]uint32{mig1gME}, mig1gME, 0},
		{[]uint32{mig1gME}, mig1g, 6},
	} {
		var all []*nvml.GPUInstance
		for _, p := range c.made {
			all = append(all, must(d.CreateGPUInstance(p))(t))
		}
		equal(t, "the capacity", c.want)(d.GPUInstanceCapacity(c.profile))
		for range c.want {
			all = append(all, must(d.CreateGPUInstance(c.profile))(t))
		}
		_, err := d.CreateGPUInstance(c.profile)
		fails(t, "one too many", err, raw.NVML_ERROR_INSUFFICIENT_RESOURCES)
		ids := map[int]bool{}
		for _, g := range all {
			ids[must(g.Info())(t).ID] = true
		}
		if len(ids) != len(all) {
			t.Errorf("%d instances have %d numbers", len(all), len(ids))
		}
		for _, g := range all {
			if err := g.Destroy(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := d.CreateGPUInstance(21)
	fails(t, "a profile that the GPU does not have", err, nvml.ErrNotSupported)
	_, err = d.CreateGPUInstance(1234)
	fails(t, "no profile", err, nvml.ErrInvalidArgument)
}

// TestMIGPlacement checks instances at places.
func TestMIGPlacement(t *testing.T) {
	_, d := openNVML(t, cusim.New())
	migOn(t, d)
	places := must(d.GPUInstancePlacements(mig3g))(t)
	if len(places) != 2 || places[1] != (nvml.MIGPlacement{Start: 4, Size: 4}) {
		t.Fatalf("the places are %v", places)
	}
	g := must(d.CreateGPUInstanceAt(mig3g, places[1]))(t)
	info := must(g.Info())(t)
	if info.Placement != places[1] || info.Profile != mig3g || info.Device.Handle() != d.Handle() {
		t.Errorf("the instance is %+v", info)
	}
	if again := must(d.GPUInstance(info.ID))(t); again.Handle() != g.Handle() {
		t.Errorf("the instance %d has the handle %#x, not %#x", info.ID, again.Handle(), g.Handle())
	}
	if all := must(d.GPUInstances(mig3g))(t); len(all) != 1 || all[0].Handle() != g.Handle() {
		t.Errorf("the instances are %v", all)
	}
	if all := must(d.GPUInstances(mig1g))(t); len(all) != 0 {
		t.Errorf("the instances of another profile are %v", all)
	}
	_, err := d.CreateGPUInstanceAt(mig1g, nvml.MIGPlacement{Start: 5, Size: 1})
	fails(t, "a place that is taken", err, raw.NVML_ERROR_INSUFFICIENT_RESOURCES)
	_, err = d.CreateGPUInstanceAt(mig3g, nvml.MIGPlacement{Start: 1, Size: 4})
	fails(t, "a place that cannot be", err, nvml.ErrInvalidArgument)
}

// TestMIGCompute checks compute instances.
func TestMIGCompute(t *testing.T) {
	_, d := openNVML(t, cusim.New())
	migOn(t, d)
	g := must(d.CreateGPUInstance(mig3g))(t)
	var names []string
	for _, p := range must(g.ComputeInstanceProfiles())(t) {
		names = append(names, p.Name)
		equal(t, p.Name, p.MaxInstances)(g.ComputeInstanceCapacity(p.ID))
		if places := must(g.ComputeInstancePlacements(p.ID))(t); len(places) != p.MaxInstances {
			t.Errorf("%s has the places %v", p.Name, places)
		}
	}
	if got := strings.Join(names, ","); got != "MIG 1c.3g.71gb,MIG 2c.3g.71gb,MIG 3g.71gb" {
		t.Errorf("the profiles are %s", got)
	}
	two := must(g.CreateComputeInstance(mig2c))(t)
	one := must(g.CreateComputeInstanceAt(mig1c, nvml.MIGPlacement{Start: 2, Size: 1}))(t)
	_, err := g.CreateComputeInstance(mig1c)
	fails(t, "one too many", err, raw.NVML_ERROR_INSUFFICIENT_RESOURCES)
	equal(t, "the capacity", 0)(g.ComputeInstanceCapacity(mig3c))
	info := must(one.Info())(t)
	if info.ID != 1 || info.Placement.Start != 2 || info.GPUInstance.Handle() != g.Handle() || info.Profile != mig1c {
		t.Errorf("the instance is %+v", info)
	}
	if all := must(g.ComputeInstances(mig2c))(t); len(all) != 1 || all[0].Handle() != two.Handle() {
		t.Errorf("the instances are %v", all)
	}
	if c := must(g.ComputeInstance(1))(t); c.Handle() != one.Handle() {
		t.Errorf("instance 1 is %v", c)
	}
	_, err = g.ComputeInstance(2)
	fails(t, "another number", err, nvml.ErrNotFound)
	fails(t, "the parent", g.Destroy(), nvml.ErrInUse)
	pending, err := d.SetMIGMode(false)
	fails(t, "the mode", pending, nvml.ErrInUse)
	if on, later, _ := d.MIGMode(); !on || later || err != nil {
		t.Errorf("the mode is %v, later %v (%v)", on, later, err)
	}
	for _, c := range []interface{ Destroy() error }{two, one, g} {
		if err := c.Destroy(); err != nil {
			t.Error(err)
		}
	}
	if pending := must(d.SetMIGMode(false))(t); pending != nil {
		t.Error(pending)
	}
}

// TestMIGDevices checks what MIG devices answer.
func TestMIGDevices(t *testing.T) {
	lib, d := openNVML(t, cusim.New(cusim.Devices(2)))
	migOn(t, d)
	first := must(d.CreateGPUInstance(mig1g))(t)
	c := must(first.CreateComputeInstance(mig1c))(t)
	second := must(d.CreateGPUInstance(mig3g))(t)
	must(second.CreateComputeInstance(mig2c))(t)
	if err := c.Destroy(); err != nil { // so the indexes have a gap
		t.Fatal(err)
	}
	var all []*nvml.Device
	for m, err := range d.MIGDevices() {
		all = append(all, must(m, err)(t))
	}
	if len(all) != 1 {
		t.Fatalf("there are %d MIG devices", len(all))
	}
	m := all[0]
	equal(t, "IsMIG", true)(m.IsMIG())
	equal(t, "the index", 1)(m.Index())
	equal(t, "the name", "Simulated H200 MIG 2c.3g.71gb")(m.Name())
	equal(t, "the GPU instance", must(second.Info())(t).ID)(m.GPUInstanceID())
	equal(t, "the compute instance", 0)(m.ComputeInstanceID())
	if a := must(m.Attributes())(t); a.Memory != 71424<<20 || a.Multiprocessors != 32 {
		t.Errorf("the attributes are %+v", a)
	}
	if mem := must(m.Memory())(t); mem.Total != 71424<<20 || mem.Used != 0 {
		t.Errorf("the memory is %+v", mem)
	}
	if gpu := must(m.MIGParent())(t); gpu.Handle() != d.Handle() {
		t.Errorf("the GPU is %v", gpu)
	}
	id := must(m.UUID())(t)
	if !strings.HasPrefix(string(id), "MIG-") || len(id) != 40 {
		t.Errorf("the UUID is %s", id)
	}
	if again := must(lib.DeviceByUUID(id))(t); again.Handle() != m.Handle() {
		t.Errorf("%s is %v", id, again)
	}
	_, err := m.Temperature(nvml.TemperatureGPU)
	fails(t, "the temperature", err, nvml.ErrNotSupported)
	_, err = m.MIGDevice(0)
	fails(t, "its MIG devices", err, nvml.ErrNotSupported)
	fails(t, "a limit", m.SetPowerLimit(300_000), nvml.ErrNotSupported)
	_, err = d.Utilization()
	fails(t, "the utilization of a divided GPU", err, nvml.ErrNotSupported)
}

// TestMIGInUse checks that the programs of the driver use the first MIG device.
func TestMIGInUse(t *testing.T) {
	b := newBench(t)
	_, d := openNVML(t, b.sim)
	pending := must(d.SetMIGMode(true))(t)
	fails(t, "the mode", pending, nvml.ErrInUse)
	b.close(t)
	migOn(t, d)
	g := must(d.CreateGPUInstance(mig3g))(t)
	c := must(g.CreateComputeInstance(mig3c))(t)
	drv := must(cu.Open(cu.WithSoftware(b.sim)))(t)
	ctx := must(must(drv.Device(0))(t).PrimaryContext())(t)
	mem := must(ctx.Alloc(1 << 20))(t)
	m := must(d.MIGDevice(0))(t)
	list := must(m.ComputeProcesses())(t)
	if len(list) != 1 || must(m.Memory())(t).Used == 0 {
		t.Errorf("the processes are %+v", list)
	}
	fails(t, "the instance", c.Destroy(), nvml.ErrInUse)
	for _, v := range []interface{ Close() error }{mem, ctx} {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, v := range []interface{ Destroy() error }{c, g} {
		if err := v.Destroy(); err != nil {
			t.Error(err)
		}
	}
}

// TestMIGEvents checks that changes of the instances are events.
func TestMIGEvents(t *testing.T) {
	lib, d := openNVML(t, cusim.New())
	migOn(t, d)
	set := must(lib.NewEventSet())(t)
	defer set.Close()
	if err := set.Add(d, nvml.EventMIGConfig); err != nil {
		t.Fatal(err)
	}
	g := must(d.CreateGPUInstance(mig1g))(t)
	c := must(g.CreateComputeInstance(mig1c))(t)
	if err := errors.Join(c.Destroy(), g.Destroy()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 4 {
		if e := must(set.Wait(ctx))(t); e.Type != nvml.EventMIGConfig || e.Device != d {
			t.Errorf("the event is %v", e)
		}
	}
}

// TestMIGFaults checks that faults and a lost GPU affect the instances and MIG devices of the GPU.
func TestMIGFaults(t *testing.T) {
	sim := cusim.New(cusim.Devices(2))
	_, d := openNVML(t, sim)
	migOn(t, d)
	g := must(d.CreateGPUInstance(mig1g))(t)
	c := must(g.CreateComputeInstance(mig1c))(t)
	m := must(d.MIGDevice(0))(t)
	check := func(want error) {
		t.Helper()
		_, err := g.Info()
		fails(t, "a GPU instance", err, want)
		_, err = c.Info()
		fails(t, "a compute instance", err, want)
		_, err = m.Name()
		fails(t, "a MIG device", err, want)
		_, err = g.CreateComputeInstance(mig1c)
		fails(t, "creation", err, want)
	}
	sim.InjectNVML(cusim.NVMLFault{GPUs: []int{0}, Result: raw.NVML_ERROR_NOT_SUPPORTED})
	check(nvml.ErrNotSupported)
	sim.ClearFaults()
	sim.LoseGPU(0)
	check(nvml.ErrGPULost)
}

// TestMIGDestroyed checks that no call is made about an instance that was destroyed. The software NVML would answer
// with another error.
func TestMIGDestroyed(t *testing.T) {
	lib, d := openNVML(t, cusim.New())
	for name, d := range map[string]*nvml.Device{"free": d, "bound": d.WithTimeout(time.Minute)} {
		migOn(t, d)
		g := must(d.CreateGPUInstance(mig3g))(t)
		c := must(g.CreateComputeInstance(mig3c))(t)
		id := must(g.Info())(t).ID
		otherG := must(must(lib.Device(0))(t).GPUInstance(id))(t)
		otherC := must(otherG.ComputeInstance(0))(t)
		parent := must(otherC.Info())(t).GPUInstance
		use := func(want error) {
			t.Helper()
			for _, g := range []*nvml.GPUInstance{g, otherG, parent} {
				_, err := g.Info()
				fails(t, name+": a GPU instance", err, want)
				_, err = g.ComputeInstanceCapacity(mig1c)
				fails(t, name+": its capacity", err, want)
			}
			for _, c := range []*nvml.ComputeInstance{c, otherC} {
				_, err := c.Info()
				fails(t, name+": a compute instance", err, want)
			}
		}
		use(nil)
		if err := errors.Join(c.Destroy(), g.Destroy()); err != nil {
			t.Fatal(err)
		}
		use(nvml.ErrClosed)
		fails(t, name+": another destruction", otherG.Destroy(), nvml.ErrClosed)
		fails(t, name+": another destruction", otherC.Destroy(), nvml.ErrClosed)
		must(must(d.CreateGPUInstance(mig3g))(t).Info())(t)
		must(d.SetMIGMode(false))(t) // in use
		again := must(d.GPUInstance(id))(t)
		if err := again.Destroy(); err != nil {
			t.Error(err)
		}
		must(d.SetMIGMode(false))(t)
	}
}

// reused is a software NVML that gives all GPU instances one handle, and makes MIG mode end with instances.
type reused struct {
	raw.Software
	t *testing.T
	n int // how many instances there are
}

func (s *reused) DeviceCreateGpuInstance(_ raw.Device, _ uint32, g *raw.GpuInstance) raw.Return {
	s.n++
	*g = 0x77
	return raw.NVML_SUCCESS
}

func (s *reused) GpuInstanceGetInfo(g raw.GpuInstance, info *raw.GpuInstanceInfo) raw.Return {
	if s.n == 0 {
		s.t.Error("a call about an instance that is not there")
	}
	return raw.NVML_SUCCESS
}

func (s *reused) GpuInstanceDestroy(raw.GpuInstance) raw.Return {
	s.n--
	return raw.NVML_SUCCESS
}

func (s *reused) DeviceSetMigMode(_ raw.Device, _ uint32, status *raw.Return) raw.Return {
	s.n, *status = 0, raw.NVML_SUCCESS
	return raw.NVML_SUCCESS
}

// TestMIGReused checks that an instance with the handle of a destroyed one can be used, and the destroyed one cannot.
func TestMIGReused(t *testing.T) {
	lib := must(nvml.Open(nvml.WithSoftware(&reused{Software: cusim.New().NVML(), t: t})))(t)
	defer lib.Close()
	d := must(lib.Device(0))(t)
	first := must(d.CreateGPUInstance(mig1g))(t)
	if err := first.Destroy(); err != nil {
		t.Fatal(err)
	}
	second := must(d.CreateGPUInstance(mig1g))(t)
	must(second.Info())(t)
	_, err := first.Info()
	fails(t, "the first", err, nvml.ErrClosed)
	must(d.SetMIGMode(false))(t)
	_, err = second.Info()
	fails(t, "an instance before MIG was switched off", err, nvml.ErrClosed)
}

// TestMIGDestroyedMeanwhile checks that no call is made about an instance that another goroutine destroys.
func TestMIGDestroyedMeanwhile(t *testing.T) {
	_, d := openNVML(t, cusim.New())
	migOn(t, d)
	for range 50 {
		g := must(d.CreateGPUInstance(mig1g))(t)
		c := must(g.CreateComputeInstance(mig1c))(t)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					_, err := c.Info()
					if _, e := g.Info(); err == nil {
						err = e
					}
					if list, e := d.GPUInstances(mig1g); err == nil && e == nil && len(list) > 0 {
						_, err = list[0].ComputeInstances(mig1c)
					}
					if err != nil {
						fails(t, "a call", err, nvml.ErrClosed)
						return
					}
				}
			})
		}
		if err := errors.Join(c.Destroy(), g.Destroy()); err != nil {
			t.Error(err)
		}
		all.Wait()
	}
}

// TestMIGGPM checks samples of a GPU instance.
func TestMIGGPM(t *testing.T) {
	sim := cusim.New(cusim.VirtualTime())
	_, d := openNVML(t, sim)
	_, err := d.GPMSampleOf(1)
	fails(t, "a sample without MIG", err, nvml.ErrInvalidArgument)
	migOn(t, d)
	id := must(must(d.CreateGPUInstance(mig3g))(t).Info())(t).ID
	first := must(d.GPMSampleOf(id))(t)
	sim.Advance(time.Second)
	second := must(d.GPMSampleOf(id))(t)
	if v := must(second.Since(first, nvml.GPMSMUtilization))(t); v[0].Err != nil || v[0].Value != 0 {
		t.Errorf("the utilization is %+v", v)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Error(err)
	}
}
