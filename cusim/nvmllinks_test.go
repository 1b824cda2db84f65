package cusim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// TestNVMLLinks checks what NVML says of NVLinks.
func TestNVMLLinks(t *testing.T) {
	const links = 18
	sim := cusim.New(cusim.Devices(2), cusim.NVLinks(links))
	lib, d := openNVML(t, sim)
	other := must(lib.Device(1))(t)
	for link := range links {
		equal(t, "the state", true)(d.NVLinkActive(link))
		equal(t, "the version", uint32(raw.NVML_NVLINK_VERSION_4_0))(d.NVLinkVersion(link))
		equal(t, "the capability", true)(d.NVLinkCapability(link, raw.NVML_NVLINK_CAP_P2P_SUPPORTED))
		equal(t, "the other end", raw.NVML_NVLINK_DEVICE_TYPE_SWITCH)(d.NVLinkRemoteType(link))
		if pci := must(d.NVLinkRemotePCI(link))(t); int(pci.Address.Bus) != 5+link%4 || pci.Device != 0x22a3 {
			t.Errorf("the NVSwitch of link %d is %+v", link, pci)
		}
	}
	_, err := d.NVLinkActive(links)
	fails(t, "a link that is not there", err, nvml.ErrInvalidArgument)
	_, err = d.NVLinkErrors(0, raw.NVML_NVLINK_ERROR_COUNT)
	fails(t, "errors that are not there", err, nvml.ErrInvalidArgument)
	equal(t, "the access", raw.NVML_P2P_STATUS_OK)(d.P2P(other, raw.NVML_P2P_CAPS_INDEX_NVLINK))
	if f := must(d.Fabric())(t); f.State != raw.NVML_GPU_FABRIC_STATE_COMPLETED || f.DegradedBandwidth != nvml.FabricNo {
		t.Errorf("the fabric: %+v", f)
	}

	sim.NVLinkErrors(0, 17, raw.NVML_NVLINK_ERROR_DL_REPLAY, 3)
	sim.NVLinkErrors(0, 2, raw.NVML_NVLINK_ERROR_DL_REPLAY, 2)
	equal(t, "the errors", uint64(3))(d.NVLinkErrors(17, raw.NVML_NVLINK_ERROR_DL_REPLAY))
	fields := []struct {
		nvml.Field
		want uint64
	}{
		{nvml.Field{ID: nvml.FieldNVLinkLinkCount}, links},
		{nvml.Field{ID: nvml.FieldNVLinkReplayErrorCountTotal}, 5},
		{nvml.Field{ID: nvml.FieldNVLinkReplayErrorCountL2}, 2},
		{nvml.Field{ID: nvml.FieldNVLinkErrorDlReplay, Scope: 17}, 3},
		{nvml.Field{ID: nvml.FieldNVLinkGetSpeed, Scope: 17}, 26_562},
		{nvml.Field{ID: nvml.FieldNVLinkSpeedMbpsL11}, 26_562},
		{nvml.Field{ID: nvml.FieldNVLinkGetState, Scope: 1}, 1},
	}
	for _, f := range fields {
		if v := must(d.ScopedFields(f.Field))(t)[0]; v.Err != nil || v.Value.Uint64() != f.want {
			t.Errorf("%+v, want %d", v, f.want)
		}
	}
	if v := must(d.ScopedFields(nvml.Field{ID: nvml.FieldNVLinkGetState, Scope: links}))(t)[0]; v.Err == nil {
		t.Errorf("a link that is not there: %+v", v)
	}
	done(t, d.ResetNVLinkErrors(17))
	equal(t, "the errors", uint64(0))(d.NVLinkErrors(17, raw.NVML_NVLINK_ERROR_DL_REPLAY))

	for link := range links {
		sim.SetNVLink(0, link, false)
	}
	equal(t, "the access", raw.NVML_P2P_STATUS_NOT_SUPPORTED)(d.P2P(other, raw.NVML_P2P_CAPS_INDEX_NVLINK))
	sim.ResetGPU(0)
	equal(t, "the state after a reset", true)(d.NVLinkActive(0))
	sim.SetNVLink(0, links, false)
	for _, sim := range []*cusim.Driver{sim, cusim.New(cusim.NVLinks(-1)), cusim.New(cusim.NVLinks(links + 1))} {
		if got := len(sim.Misuses()); got != 1 {
			t.Errorf("%d misuses", got)
		}
	}
}

// TestNVMLLinkDown takes an NVLink away by an environment variable.
func TestNVMLLinkDown(t *testing.T) {
	sim := cusim.New(cusim.VirtualTime(), environment(t, "CUSIM_NVLINKS=4",
		"CUSIM_GPU_FAULTS=0:nvlink=1/down@5s,0:nvlink=1/up@9s"))
	lib, d := openNVML(t, sim)
	set := must(lib.NewEventSet())(t)
	done(t, set.Add(d, nvml.EventXIDCritical))
	equal(t, "the state", true)(d.NVLinkActive(1))
	sim.Advance(5 * time.Second)
	if e, err := set.Wait(t.Context()); err != nil || e.Data != 74 {
		t.Errorf("the event is %v, %v", e, err)
	}
	equal(t, "the state", false)(d.NVLinkActive(1))
	equal(t, "the state of another one", true)(d.NVLinkActive(2))
	if f := must(d.Fabric())(t); f.DegradedBandwidth != nvml.FabricYes {
		t.Errorf("the fabric: %+v", f)
	}
	sim.Advance(4 * time.Second)
	equal(t, "the state", true)(d.NVLinkActive(1))
	done(t, set.Close())

	sim = cusim.New(cusim.VirtualTime(), environment(t, "CUSIM_GPU_FAULTS=0:nvlink=1/down"), cusim.NVLinks(4))
	_, d = openNVML(t, sim)
	equal(t, "the state of a link that a later option has made", false)(d.NVLinkActive(1))

	_, without := openNVML(t, cusim.New(cusim.Devices(2)))
	if _, err := without.NVLinkActive(0); !errors.Is(err, nvml.ErrNotSupported) {
		t.Errorf("without NVLinks: %v", err)
	}
}

// TestNVMLLinksOfProfiles gives NVLinks to GPUs that have fewer, or none.
func TestNVMLLinksOfProfiles(t *testing.T) {
	lib, _ := openNVML(t, cusim.New(cusim.Profile("T4,L40S,A100,B200"), cusim.NVLinks(18)))
	for i, want := range []int{0, 0, 12, 18} {
		n := 0
		for d := must(lib.Device(i))(t); n < 18; n++ {
			if on, err := d.NVLinkActive(n); !on || err != nil {
				break
			}
		}
		equal(t, "the NVLinks", want)(n, nil)
	}
}
