package cusim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
)

// TestProfileOptions has options that replace each other, and one that is wrong.
func TestProfileOptions(t *testing.T) {
	for _, tt := range []struct {
		opts []cusim.Option
		want string // the devices, or a part of the error
	}{
		{nil, "Simulated H200"},
		{[]cusim.Option{cusim.Profile("t4")}, "Simulated T4"},
		{[]cusim.Option{cusim.Profile("L40S,A100:2")}, "Simulated L40S, Simulated A100, Simulated A100"},
		{[]cusim.Option{cusim.Devices(3), cusim.Profile("T4")}, "Simulated T4"},
		{[]cusim.Option{cusim.Profile("T4"), cusim.Devices(2)}, "Simulated H200, Simulated H200"},
		{[]cusim.Option{cusim.Profile("V100"), cusim.Profile("T4")}, "Simulated T4"},
		{[]cusim.Option{cusim.Profile("H10")}, `cu: Open: cusim: Profile: there is no profile "H10"; did you mean H100?`},
		{[]cusim.Option{cusim.Profile("")}, "there is no profile without a name: there are T4, A100, L40S, H100, H200, B200"},
	} {
		sim := cusim.New(tt.opts...)
		lib, nvmlErr := nvml.Open(nvml.WithSoftware(sim.NVML()))
		if nvmlErr == nil {
			lib.Close()
		}
		drv, err := cu.Open(cu.WithSoftware(sim))
		if !errors.Is(nvmlErr, sim.Err()) || !errors.Is(err, sim.Err()) {
			t.Errorf("nvml.Open: %v, and cu.Open: %v, want %v", nvmlErr, err, sim.Err())
		}
		if err != nil {
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			continue
		}
		var names []string
		devs, err := drv.Devices()
		for _, dev := range devs {
			name, err := dev.Name()
			names = append(names, name)
			if err != nil {
				t.Error(err)
			}
		}
		if got := strings.Join(names, ", "); got != tt.want || err != nil {
			t.Errorf("%s, %v, want %s", got, err, tt.want)
		}
		drv.Close()
	}
	if list := cusim.Profiles(); len(list) == 0 || list[0] != "T4" {
		t.Errorf("the profiles are %q", list)
	}
	if err := (*cusim.Driver)(nil).Err(); err != nil {
		t.Error(err)
	}
}

// A device is another GPU, which refuses code for a newer one.
func ExampleProfile() {
	load := func() error {
		drv, err := cu.Open(cu.WithSoftware(cusim.New(cusim.Profile("T4"))))
		if err != nil {
			return err
		}
		defer drv.Close()
		dev, err := drv.Device(0)
		if err != nil {
			return err
		}
		fmt.Println(dev)
		gpu, err := dev.PrimaryContext()
		if err != nil {
			return err
		}
		defer gpu.Close()
		mod, err := gpu.LoadModule([]byte(".version 7.0\n.target sm_80\n.visible .entry k() { ret; }"))
		if err != nil {
			return err
		}
		return mod.Close()
	}
	err := load()
	fmt.Println(errors.Is(err, cu.ResultInvalidPTX))
	fmt.Println(strings.Contains(err.Error(), "the target sm_80 is newer than the device, which is sm_75"))
	// Output:
	// device 0 (Simulated T4)
	// true
	// true
}
