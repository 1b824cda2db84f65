package cutest_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/nvml"
)

// TestMatrix runs a kernel on all GPUs, and compares what CUDA and NVML say of them.
func TestMatrix(t *testing.T) {
	var ran []string
	cutest.Matrix(t).Run(func(t *testing.T, gpu string) {
		ran = append(ran, t.Name()[len("TestMatrix/"):])
		drv, sim := cutest.Soft(t, cusim.Profile(gpu+":2"))
		lib := cutest.NVML(t, sim)
		for _, dev := range must(drv.Devices()) {
			d := must(lib.DeviceByUUID(nvml.UUID(must(dev.UUID()).String())))
			if a, b := must(dev.Name()), must(d.Name()); a != b || !strings.HasSuffix(a, " "+gpu) {
				t.Errorf("CUDA says %s, and NVML %s", a, b)
			}
			pci := must(d.PCI())
			if a, b := must(dev.PCIBusID()), pci.Address.String(); !strings.HasSuffix(b, a) {
				t.Errorf("CUDA says %s, and NVML %s", a, b)
			}
			if a := must(dev.Attribute(cu.DeviceAttributeGPUPCIDeviceID)); a>>16 != int(pci.Device) {
				t.Errorf("CUDA says %#x, and NVML %#x", a, pci.Device)
			}
			total := must(dev.TotalMem())
			if m := must(d.Memory()); m.Total < total || m.Total-total > 1<<30 {
				t.Errorf("CUDA says %d bytes, and NVML %d", total, m.Total)
			}
			major, minor, err := dev.ComputeCapability()
			a, b, err2 := d.ComputeCapability()
			if major != a || minor != b || err != nil || err2 != nil {
				t.Errorf("CUDA says %d.%d, %v, and NVML %d.%d, %v", major, minor, err, a, b, err2)
			}
		}
		ctx := cutest.Context(t, cusim.Profile(gpu))
		mod := must(ctx.LoadModule([]byte(".version 6.4\n.target sm_70\n.visible .entry k() { ret; }")))
		defer mod.Close()
		s := must(ctx.NewStream(cu.StreamNonBlocking))
		defer s.Close()
		one := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
		check(must(mod.Function("k")).Launch(s, one))
		check(s.Synchronize())
	})
	want := cusim.Profiles()
	if os.Getenv(cutest.Environment) != "" {
		want = want[:1]
	}
	if !slices.Equal(ran, want) {
		t.Errorf("%q ran, want %q", ran, want)
	}
}
